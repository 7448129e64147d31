"""A WebSocket is decoded in both directions, measured from the message that asked, and judged by how it was closed."""

import json

import pytest

from tests.support.websockets import ASK, MS, response, side, websocket
from wiretape.recorder.decode.decoder import decode
from wiretape.recorder.decode.derive import derive


def conversation(*turns: tuple[int, list[tuple[int, str]]], close: tuple[str, int] | None = ("client", 1000)):
    """Return received and sent data: each turn has the time of its request, in ms, and messages with their times."""
    upstream, client = side(), side(client=True)
    received, sent = list[tuple[int, bytes]](), list[tuple[int, bytes]]()
    for asked_ms, messages in turns:
        sent.append((asked_ms, bytes(client.send_data(ASK))))
        received += [(at_ms, bytes(upstream.send_data(message))) for at_ms, message in messages]
    if close is not None:
        (sent if close[0] == "client" else received).append(
            (900, bytes(client.close(close[1], "why") if close[0] == "client" else upstream.close(close[1], "why")))
        )
    return received, sent


ONE = (100, [*zip((110, 150, 170, 180), response(1, "Hel", "lo", output_tokens=3, input_tokens=7), strict=True)])
TWO = (
    500,
    [*zip((505, 560, 570, 600, 610), response(2, "a", "b", "c", output_tokens=5, input_tokens=20), strict=True)],
)


def test_a_response_is_timed_from_its_request() -> None:
    measures = derive(*websocket(*conversation(ONE)))
    assert (measures.outcome, measures.api, measures.operation) == ("complete", "openai.responses", "chat")
    assert (measures.content, measures.response_model, measures.finish_reason) == ("Hello", "gpt-test", "completed")
    timed = (measures.ttf_byte_ns, measures.ttft_ns, measures.latency_ns, measures.duration_ns, measures.tpot_ns)
    assert timed == (10 * MS, 50 * MS, 70 * MS, 80 * MS, 10 * MS)
    assert (measures.max_gap_ns, measures.max_silence_ns, measures.output_tokens) == (20 * MS, 40 * MS, 3)
    assert (measures.events, measures.flags) == (4, ())


def test_what_lies_between_two_responses_counts_for_neither() -> None:
    measures = derive(*websocket(*conversation(ONE, TWO)))
    assert measures.flags == ("multi_response",)
    assert (measures.ttft_ns, measures.duration_ns, measures.latency_ns) == (50 * MS, 190 * MS, 180 * MS)
    assert (measures.max_gap_ns, measures.icl_mean_ns, measures.max_silence_ns) == (30 * MS, 20 * MS, 55 * MS)
    assert (measures.content, [choice["content"] for choice in measures.choices or ()]) == ("Hello", ["abc"])
    assert (measures.input_tokens, measures.output_tokens, measures.tpot_ns) == (27, 8, 10 * MS)


def test_each_response_has_its_own_times() -> None:
    received, sent = conversation(ONE, TWO)
    result = json.dumps(json.loads(ASK) | {"input": [{"type": "function_call_output", "call_id": "c", "output": "x"}]})
    sent[1] = (500, bytes(side(client=True).send_data(result)))
    first, second = derive(*websocket(received, sent)).turn_spans or ()
    assert first == [100 * MS, 150 * MS, 170 * MS, 180 * MS, 2, False, False, None]
    assert second == [500 * MS, 560 * MS, 600 * MS, 610 * MS, 3, False, True, None]
    unended = conversation(ONE, (500, TWO[1][:2]), close=None)
    assert (derive(*websocket(*unended)).turn_spans or ())[1][:5] == [500 * MS, 560 * MS, 560 * MS, None, 1]
    assert derive(*websocket(*conversation(close=None))).turn_spans is None


def test_a_final_text_belongs_to_its_own_responses_deltas() -> None:
    def answer(number: int, at_ms: int, cipher: str, text: str) -> tuple[int, list[tuple[int, str]]]:
        created, delta, *_, completed = response(number, cipher)
        item = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
        finished = {"type": "response.output_item.done", "output_index": 0, "item": item}
        return at_ms, [(at_ms + 10, message) for message in (created, delta, json.dumps(finished), completed)]

    measures = derive(*websocket(*conversation(answer(1, 100, "gA", "Hi"), answer(2, 300, "gB", "Bye"))))
    assert (measures.content, [choice["content"] for choice in measures.choices or ()]) == ("Hi", ["Bye"])
    assert measures.output_chunks == 2


def test_what_warms_up_is_no_answer() -> None:
    warmed = [*zip((20, 25, 30), response(0, "Hm", input_tokens=4), strict=True)]
    received, sent = conversation((10, warmed), ONE, close=None)
    warming = bytes(side(client=True).send_data('{"type":"response.create","model":"gpt-test","generate":false}'))
    measures = derive(*websocket(received, [(10, warming), *sent[1:]], "client"))
    assert (measures.outcome, measures.flags, measures.content) == ("complete", (), "Hello")
    assert (measures.ttft_ns, measures.duration_ns, measures.input_tokens) == (50 * MS, 80 * MS, 11)
    assert measures.output_chunks == 2


def test_items_of_both_directions_are_in_completion_order() -> None:
    upstream, client = side("permessage-deflate"), side("permessage-deflate", client=True)
    request, answer = bytes(client.send_data(ASK)), bytes(upstream.send_data('{"type":"session.created"}'))
    received = [(50, answer[:5]), (150, answer[5:] + upstream.ping(b"?")), (300, bytes(upstream.close(1000)))]
    sent = [(100, request), (200, bytes(client.pong(b"?"))), (400, bytes(client.close(1000)))]
    decoded = decode(*websocket(received, sent, path="/v1/realtime?model=m", extensions="permessage-deflate"))
    assert [(item.kind, item.sender, item.at_ns) for item in decoded.items()] == [
        ("event", "client", 100 * MS),
        ("event", "upstream", 150 * MS),
        ("ping", "upstream", 150 * MS),
        ("pong", "client", 200 * MS),
        ("close", "upstream", 300 * MS),
        ("close", "client", 400 * MS),
    ]
    assert [item.data for item in decoded.items()][:3] == [ASK, '{"type":"session.created"}', "?"]
    measures = derive(*websocket(received, sent, path="/v1/realtime?model=m", extensions="permessage-deflate"))
    assert (measures.outcome, measures.api, measures.operation) == ("truncated", "openai.realtime", "realtime")
    assert (measures.ttft_ns, measures.events, measures.flags) == (None, 1, ())


@pytest.mark.parametrize(
    ("message_count", "close", "ended_by", "outcome"),
    [
        (4, ("client", 1000), "end", ("complete", None)),
        (4, ("client", 1001), "client", ("complete", None)),
        (4, ("upstream", 1001), "end", ("complete", None)),
        (4, ("upstream", 1011), "end", ("complete", None)),
        (4, None, "reset", ("complete", None)),
        (3, ("client", 1000), "end", ("client_closed", None)),
        (3, None, "client", ("client_closed", None)),
        (3, ("upstream", 1000), "end", ("truncated", "close_1000")),
        (3, ("upstream", 1011), "end", ("truncated", "close_1011")),
        (3, None, "end", ("truncated", "eof")),
        (3, None, "reset", ("truncated", "reset")),
        (3, None, "died", ("interrupted", None)),
    ],
)
def test_the_outcome_follows_the_responses_and_then_the_close(
    message_count: int, close: tuple[str, int] | None, ended_by: str, outcome: tuple[str, str | None]
) -> None:
    measures = derive(*websocket(*conversation((100, ONE[1][:message_count]), close=close), ended_by))
    assert (measures.outcome, measures.outcome_detail) == outcome
    assert measures.error_message == ("why" if outcome[1] and "close" in outcome[1] else None)
    assert ("unclean_end" in measures.flags) == (outcome[0] == "complete" and ended_by == "reset")


def test_frames_that_break_the_protocol_are_an_outcome() -> None:
    received, sent = conversation((100, ONE[1][:2]), close=None)
    measures = derive(*websocket([*received, (160, b"\xff\xff no frame")], sent))
    assert (measures.outcome, measures.outcome_detail, measures.content) == ("truncated", "framing", "Hel")
    assert "malformed" in measures.flags


def test_an_error_message_is_an_error_event() -> None:
    error = '{"type":"error","status":429,"error":{"type":"usage_limit_reached","message":"No more"}}'
    measures = derive(*websocket(*conversation((100, [(120, error)]))))
    assert (measures.outcome, measures.outcome_detail) == ("error_event", "before_output")
    assert (measures.error_code, measures.error_message) == ("usage_limit_reached", "No more")


def test_a_response_requested_during_another_follows_it() -> None:
    received, sent = conversation(ONE, (120, []), close=None)
    measures = derive(*websocket(received, sent))
    assert (measures.outcome, measures.content, measures.ttft_ns) == ("truncated", "Hello", 50 * MS)
    assert (measures.output_tokens, {"multi_response", "no_usage"} <= set(measures.flags)) == (3, True)


def test_without_the_message_that_asked_nothing_is_timed() -> None:
    received, _ = conversation(ONE)
    measures = derive(*websocket(received, []))
    assert (measures.content, measures.output_tokens) == ("Hello", 3)
    assert (measures.ttft_ns, measures.duration_ns, measures.tpot_ns) == (None, None, None)
