"""The program with Anthropic's SDK, answered from a tape."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tests.sdk_suite import app
from tests.sdk_suite.app import Reply
from tests.sdk_suite.conftest import is_broken

if TYPE_CHECKING:
    from wiretape import WiretapeServer

pytestmark = pytest.mark.wiretape("tapes/anthropic.jsonl")

SAID = "Let me see what the sky does."


def test_a_message_is_shown_whole_or_asked_for_again(judge: Callable[[Reply, str], None]) -> None:
    judge(app.ask(lambda: app.message("How is the weather in Tokyo?", "demo-messages")), SAID)


def test_a_tool_is_called_with_what_was_streamed(wiretape_server: "WiretapeServer") -> None:
    import anthropic

    try:
        with (
            anthropic.Anthropic(max_retries=0) as client,
            client.messages.stream(
                model="demo-messages", max_tokens=100, messages=[{"role": "user", "content": "Look the weather up."}]
            ) as stream,
        ):
            *_, call = stream.get_final_message().content
    except Exception:  # noqa: BLE001 - whatever breaks in an SDK
        assert is_broken(wiretape_server.timeline())
    else:
        assert (call.type, call.name, call.input) == ("tool_use", "get_weather", {"city": "Tokyo"})
        assert wiretape_server.is_recording or wiretape_server.timeline()[0].ended == "end"
