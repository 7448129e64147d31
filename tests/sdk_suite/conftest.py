"""What the tests of this suite share. It passes without a network, with and without faults:

    unshare -rn sh -c 'ip link set lo up; pytest -n0 tests/sdk_suite'
    pytest -n0 tests/sdk_suite --wiretape-fault cut@50% --wiretape-fault status:429:0.3

Its tape was recorded from `python -m tests.sdk_suite.upstream`, which prints how to record it again.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pytest

from tests.sdk_suite.app import Reply

if TYPE_CHECKING:
    from wiretape import Timeline, WiretapeServer

HARMLESS = ("stall", "slow")
"""Faults that only take time."""


def is_broken(answers: "Sequence[Timeline]") -> bool:
    """Return whether a fault struck any of these answers that breaks it."""
    return any(not fault.startswith(HARMLESS) for one in answers for fault in one.faults)


@pytest.fixture
def judge(wiretape_server: "WiretapeServer") -> Callable[[Reply, str], None]:
    """Check that the program takes a broken answer for none, and asks again."""

    def check(reply: Reply, text: str) -> None:
        answers = wiretape_server.timeline()
        assert reply.attempts == len(answers)
        assert reply.is_whole == (not is_broken(answers[-1:]))
        assert reply.is_whole == (reply.text == text)
        assert text.startswith(reply.text)
        assert all(is_broken([one]) for one in answers[:-1])

    return check
