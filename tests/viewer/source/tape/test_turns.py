"""Turns as read from a tape: their predecessors, and the messages of a WebSocket."""

import json
from pathlib import Path

import pytest

from tests.support import frames, turns
from tests.support.sample_tape import LIMITED, recorded
from tests.support.websockets import ASK, response, side
from wiretape.recorder.decode.prompt import Prompt, Text
from wiretape.recorder.errors import NotFound
from wiretape.viewer.exchange.turn import Turn
from wiretape.viewer.source.tape import exchange, queries


def turn_of(tape: Path, id: str) -> Turn:
    with queries.opened(tape) as connection:
        return exchange.turn(connection, queries.find(connection, id))


def prompt_of(tape: Path, id: str) -> Prompt:
    with queries.opened(tape) as connection:
        return exchange.prompt(connection, queries.find(connection, id))


def test_a_turn_is_read_with_its_predecessor(tmp_path: Path) -> None:
    tape = recorded(tmp_path / "t.db", list(turns.frames()))
    first, second = turn_of(tape, turns.FIRST), turn_of(tape, turns.SECOND)
    assert (first.since, first.repeated) == ("", 0)
    assert (second.since, second.repeated) == (turns.FIRST[:8], 2)


def test_what_was_asked_over_a_websocket_is_one_conversation(tmp_path: Path) -> None:
    upstream, client = side(), side(client=True)
    more = json.dumps({"type": "response.create", "input": "Again", "previous_response_id": "resp_1"})
    received = [
        bytes(upstream.send_data("".join(message))) for number in (1, 2) for message in response(number, f"Hi {number}")
    ]
    sent = [bytes(client.send_data(ASK)), b"", b"", bytes(client.send_data(more)), b"", b""]
    tape = recorded(tmp_path / "t.db", frames.websocket("abcd000000000001", received, sent))
    turn = turn_of(tape, "abcd000000000001")
    assert turn.content.prompt is not None
    assert [message.parts for message in turn.content.prompt.messages] == [
        (Text("Hi"),),
        (Text("Hi 1"),),
        (Text("Again"),),
    ]
    assert (turn.content.answer, turn.repeated) == ((Text("Hi 2"),), 2)
    assert "on this WebSocket" in turn.since


def test_a_request_without_messages_cannot_be_compared(tape: Path) -> None:
    with pytest.raises(NotFound, match=f"in the request of {LIMITED}: its body is no JSON object"):
        prompt_of(tape, LIMITED)
