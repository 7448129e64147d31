"""The part of a request that the turn before has already, and reasons for a request without messages."""

import json
from typing import Any

import pytest

from tests.support import turns
from tests.support.exchanges import detailed
from tests.support.websockets import ASK, response, side, websocket
from wiretape.recorder.decode.decoder import decode
from wiretape.recorder.decode.exchange import Exchange, Headers
from wiretape.recorder.decode.prompt import Message, Text
from wiretape.viewer.exchange.turn import (
    Turn,
    WebsocketRequest,
    answer,
    over_websocket,
    request_content,
    turn,
    websocket_content,
)
from wiretape.viewer.record.rows import RequestRow

CALLS = [{"id": "call_1", "name": "get_weather", "arguments": '{"city":"Oslo"}'}]
ANSWERED = detailed(content="I look.", tool_calls=CALLS)
USER = {"role": "user", "content": "And in Bern?"}


def request(body: bytes | None, size: int | None = -1, *headers: list[str]) -> RequestRow:
    exchange = Exchange(path="/v1", headers=Headers(tuple((name, value) for name, value in headers)))
    return RequestRow("", exchange, body, len(body or b"") if size == -1 else size, "", {})


def follows(messages: list[Any], previous: list[Any] = turns.QUESTION, **parameters: Any) -> Turn:
    first_request = request_content(ANSWERED, request(turns.asked(*previous)))
    return turn(request_content(detailed(), request(turns.asked(*messages, **parameters))), first_request)


def test_the_previous_turns_messages_and_answer_are_old() -> None:
    part = follows([*turns.QUESTION, *turns.GOES_ON])
    assert (part.repeated, part.dropped) == (2, 0)


def test_an_answer_that_the_client_changed_is_new() -> None:
    changed = {"role": "assistant", "content": "I looked."}
    assert follows([*turns.QUESTION, changed, USER]).repeated == 1


def test_an_answers_reasoning_items_and_calls_are_old() -> None:
    question = [{"role": "user", "content": "Is it cold?"}]
    items = [
        {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "x"},
        {"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": '{"city": "Oslo"}'},
        {"role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
    ]
    assert follows([*question, *items, USER], question).repeated == 4


def test_omitted_messages_of_the_previous_turn_are_counted() -> None:
    part = follows([turns.QUESTION[0], USER], [*turns.QUESTION, *turns.GOES_ON])
    assert (part.repeated, part.dropped) == (0, 3)


def test_a_turn_whose_server_keeps_the_messages_repeats_nothing() -> None:
    unchanged = follows(turns.QUESTION, previous_response_id="r")
    assert (unchanged.content.is_rest, unchanged.repeated, unchanged.dropped) == (True, 0, 0)


def test_each_websocket_message_continues_its_predecessor() -> None:
    row = detailed(framing="websocket")
    asks = [{"input": [], "instructions": "Be brief.", "generate": False}, {"input": "1", "previous_response_id": "r0"},
            {"input": "2", "previous_response_id": "r1"}, {"input": "3", "previous_response_id": "r2"}]  # fmt: skip
    bodies = [json.dumps({"type": "response.create", **ask}).encode() for ask in asks]
    answers = [(), (Text("One."),), (Text("Two."),), (Text("Three."),)]
    content = websocket_content(row, list(map(WebsocketRequest, bodies, answers)))
    assert content.prompt is not None
    assert [(message.role, *message.parts) for message in content.prompt.messages] == [
        ("user", Text("1")), ("assistant", Text("One.")), ("user", Text("2")), ("assistant", Text("Two.")),
        ("user", Text("3")),
    ]  # fmt: skip
    assert (content.prompt.system, content.answer, content.earlier) == ((Text("Be brief."),), (Text("Three."),), 4)
    assert not content.is_rest
    assert turn(content, content).repeated == 4


def test_a_websocket_message_that_repeats_everything_stands_alone() -> None:
    row = detailed(framing="websocket")
    follow_up = b'{"input": "2", "previous_response_id": "r1"}'
    requests = [
        WebsocketRequest(b'{"input": "1"}', (Text("One."),)),
        WebsocketRequest(follow_up, ()),
        WebsocketRequest(b'{"input": "3"}', (Text("Three."),)),
    ]
    content = websocket_content(row, requests)
    assert content.prompt is not None
    assert content.prompt.messages == (Message("user", (Text("3"),)),)
    assert (content.answer, content.earlier) == ((Text("Three."),), 0)
    assert "requested a response" in websocket_content(row, []).problem
    voice = websocket_content(
        detailed(framing="websocket", api="openai.realtime"), [WebsocketRequest(b'{"type":"x"}', ())]
    )
    assert (voice.prompt, "--table turns" in voice.problem) == (None, True)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (request(None, 0), "it has no body"),
        (request(None, None), "has not ended yet"),
        (request(None, 12), "its body of 12 bytes is not on the tape"),
        (request(b'{"messages": [', 99), "is longer than the tape keeps: of JSON, 14 bytes"),
        (
            request(b"a=1", 3, ["Content-Type", "multipart/form-data; boundary=x"]),
            "no JSON object (multipart/form-data)",
        ),
        (request(b'{"a":' * 10_000 + b"}" * 10_000), "nested too deeply"),
        (request(b"\x1f", 1, ["content-encoding", "gzip2"]), "compressed in a way that is not read (gzip2)"),
    ],
)
def test_a_request_without_messages_says_why(body: RequestRow, reason: str) -> None:
    content = request_content(detailed(), body)
    assert content.prompt is None
    assert reason in content.problem


def test_a_request_that_broke_off_says_so() -> None:
    assert "broke off" in request_content(detailed(request_truncated=True), request(b'{"mess')).problem


def test_an_answer_is_the_parts_of_a_message() -> None:
    row = detailed(reasoning="Hm.", content="Yes.", refusal="No.", tool_calls=[])
    assert [part.kind for part in answer(row)] == ["reasoning", "text", "refusal"]


def test_a_failed_websocket_response_has_no_answer() -> None:
    upstream, client = side(), side(client=True)
    failed = ['{"type":"error","error":{"code":"bad","message":"No"}}']
    received = [
        bytes(upstream.send_data(message)) for messages in (failed, response(2, "Two."), failed) for message in messages
    ]
    facts = websocket(
        [*zip((20, 40, 41, 42, 60), received, strict=True)], [(at, bytes(client.send_data(ASK))) for at in (10, 30, 50)]
    )
    decoded = decode(*facts)
    assert [parts for _, parts in over_websocket(decoded)] == [(), (Text("Two."),), ()]
