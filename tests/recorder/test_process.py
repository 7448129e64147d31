"""The state of a recorder: whether its process runs is known only on its machine."""

import os
from datetime import datetime
from pathlib import Path

import pytest

from tests.support.cases import each_case
from wiretape.recorder import process
from wiretape.recorder.process import LOST_MS, RecorderRun, boot_id, is_gone

NOBODY = 2**22 + 1
"""Above any number that Linux gives a process."""
NOON = "2026-03-01T12:00:00.000000Z"
NOON_NS = round(datetime.fromisoformat(NOON).timestamp()) * 10**9
LIMIT_NS = LOST_MS * 10**6


def test_a_boot_is_known_where_the_system_names_it() -> None:
    assert (boot_id() is not None) == Path("/proc/sys/kernel/random/boot_id").exists()


@pytest.mark.parametrize("boot", ["here", None])
def test_only_a_process_of_this_boot_can_be_gone(monkeypatch: pytest.MonkeyPatch, boot: str | None) -> None:
    monkeypatch.setattr(process, "boot_id", lambda: boot)
    assert is_gone(NOBODY, boot)
    assert not is_gone(os.getpid(), boot)
    assert not is_gone(1, boot)  # it may be somebody else's: that is no error
    assert not is_gone(0, boot)
    assert not is_gone(None, boot)
    assert not is_gone(NOBODY, "elsewhere")


def test_somebody_elses_process_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", refuse)
    assert not is_gone(NOBODY, boot_id())


@each_case(
    ("run", "state"),
    [
        (RecorderRun(1, NOON), "running"),
        (RecorderRun(1, NOON, is_gone=True), "lost"),
        (RecorderRun(1, NOON, ended_at=NOON, is_gone=True), "ended"),
        (RecorderRun(1, "no time"), "running"),
        (RecorderRun(1, "no time", is_gone=True), "lost"),
    ],
)
def test_a_run_is_running_ended_or_lost(run: RecorderRun, state: str) -> None:
    assert run.state(NOON_NS) == state


def test_a_silent_run_is_lost() -> None:
    assert RecorderRun(1, NOON).state(NOON_NS + LIMIT_NS) == "running"
    assert RecorderRun(1, NOON).state(NOON_NS + LIMIT_NS + 10**6) == "lost"
