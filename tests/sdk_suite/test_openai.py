"""The program with OpenAI's SDK, answered from a tape."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tests.sdk_suite import app
from tests.sdk_suite.app import Reply
from tests.sdk_suite.conftest import is_broken

if TYPE_CHECKING:
    from wiretape import WiretapeServer

pytestmark = pytest.mark.wiretape("tapes/openai.jsonl")

TALE = "Once upon a time a robot learned to wait, and found every pause has a length."
PAUSE = "A pause is as long as nobody speaks."


def test_a_chat_is_shown_whole_or_asked_for_again(judge: Callable[[Reply, str], None]) -> None:
    judge(app.ask(lambda: app.chat("Tell me a tale.", "demo-openai")), TALE)


def test_a_response_is_shown_whole_or_asked_for_again(judge: Callable[[Reply, str], None]) -> None:
    judge(app.ask(lambda: app.respond("What is a pause?", "demo-responses")), PAUSE)


def test_the_sdk_tries_again_after_a_rate_limit(wiretape_server: "WiretapeServer") -> None:
    reply = app.ask(lambda: app.chat("Try again.", "demo-openai", max_retries=1), attempts=1)
    first, *others = wiretape_server.timeline()
    if not is_broken([first, *others]):
        assert reply == Reply(TALE, True, 1)
    if not is_broken([first, *others]) and not wiretape_server.is_recording:
        assert [first.status, *(one.status for one in others)] == [429, 200]
        assert others[0].asked_ms >= first.asked_ms + 10  # as the answer's Retry-After-Ms said
