"""Bodies with their secrets masked: the texts of events, the framings around them, and what stays equal."""

import base64
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.support import eventstream, websockets
from tests.support.compressors import COMPRESS
from tests.support.websockets import MS, timed
from wiretape.recorder.decode.decoder import Decoded, decode
from wiretape.recorder.decode.exchange import Exchange
from wiretape.recorder.decode.framings import websocket
from wiretape.recorder.decode.uncoding import Body
from wiretape.recorder.tape import masked
from wiretape.recorder.tape.masked import Unmaskable
from wiretape.recorder.tape.masking import Masker

KEY = "sk-ant-api03-Zq81LmX0wPvT6yRk92bcDE"
PIECES = ("Use ü\n", "sk", "-ant-", "api03-Zq81LmX0", "wPvT6yRk92bcDE", " of call_01A09q90qw90lq917835lq9.")
MASKED = f"Use ü\n{'*' * len(KEY)} of call_01A09q90qw90lq917835lq9."


def sse(event: Any, name: str = "") -> bytes:
    return f"{f'event: {name}' if name else ''}\ndata: {json.dumps(event)}\n\n".lstrip().encode()


def chat(pieces: Sequence[str]) -> list[bytes]:
    base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "m"}
    events = [base | {"choices": [{"index": 0, "delta": {"content": piece}}]} for piece in pieces]
    end = base | {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": {"completion_tokens": 6}}
    return [*map(sse, [*events, end]), b"data: [DONE]\n\n"]


def chat_call(pieces: Sequence[str]) -> list[bytes]:
    """Return a call of a tool, whose arguments are these pieces as one JSON value."""
    text = json.dumps({"note": "".join(pieces)})
    calls = [{"index": 0, "id": "call_1", "type": "function", "function": {"name": "run", "arguments": ""}}]
    calls += [{"index": 0, "function": {"arguments": text[at : at + 7]}} for at in range(0, len(text), 7)]
    events = [{"id": "c", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}
              for call in calls]  # fmt: skip
    return [*map(sse, events), b"data: [DONE]\n\n"]


def messages(pieces: Sequence[str]) -> list[bytes]:
    start = {"type": "message_start", "message": {"id": "msg_1", "model": "m", "usage": {"input_tokens": 3}}}
    deltas = [{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}}
              for piece in pieces]  # fmt: skip
    block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 6}}
    return [sse(event, event["type"]) for event in (start, block, *deltas, end, {"type": "message_stop"})]


def responses(pieces: Sequence[str]) -> list[bytes]:
    text = "".join(pieces)
    place = {"output_index": 0, "content_index": 0, "item_id": "m"}
    deltas = [{"type": "response.output_text.delta", "delta": piece} | place for piece in pieces]
    done = {"type": "response.output_text.done", "text": text} | place
    item = {"type": "message", "id": "m", "content": [{"type": "output_text", "text": text}]}
    answer = {"id": "resp_1", "object": "response", "model": "m", "status": "completed", "output": [item]}
    end = {"type": "response.completed", "response": answer | {"usage": {"output_tokens": 6}}}
    return [sse(event, event["type"]) for event in (*deltas, done, end)]


def ollama(pieces: Sequence[str]) -> list[bytes]:
    events = [{"model": "m", "message": {"role": "assistant", "content": piece}, "done": False} for piece in pieces]
    end = {"model": "m", "message": {"role": "assistant", "content": ""}, "done": True, "eval_count": 6}
    return [json.dumps(event).encode() + b"\n" for event in (*events, end)]


def bedrock(pieces: Sequence[str]) -> list[bytes]:
    deltas = [
        eventstream.event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": piece}}) for piece in pieces
    ]
    return [*deltas, eventstream.event("messageStop", {"stopReason": "end_turn"})]


def bedrock_invoke(pieces: Sequence[str]) -> list[bytes]:
    events = [json.loads(event.partition(b"data: ")[2]) for event in messages(pieces)]
    wrapped = [{"bytes": base64.b64encode(json.dumps(event).encode()).decode(), "p": "abcd"} for event in events]
    return [eventstream.event("chunk", event) for event in wrapped]


WIRES: dict[str, tuple[Callable[[Sequence[str]], list[bytes]], str, str]] = {
    "chat": (chat, "/v1/chat/completions", "text/event-stream"),
    "messages": (messages, "/v1/messages", "text/event-stream"),
    "responses": (responses, "/v1/responses", "text/event-stream"),
    "ollama": (ollama, "/api/chat", "application/x-ndjson"),
    "bedrock": (bedrock, "/model/m/converse-stream", "application/vnd.amazon.eventstream"),
    "bedrock_invoke": (
        bedrock_invoke, "/model/m/invoke-with-response-stream", "application/vnd.amazon.eventstream",
    ),
}  # fmt: skip


def recorded(events: Sequence[bytes], path: str, type: str, coding: str | None = None) -> tuple[Exchange, Body]:
    headers = [("content-type", type), *([("content-encoding", coding)] if coding else [])]
    reads, data = timed([(10 * number, event) for number, event in enumerate(events)])
    return Exchange(
        status=200,
        content_type=type,
        content_encoding=coding,
        ended_by="end",
        connected_ns=1 * MS,
        headers_ns=2 * MS,
        end_ns=900 * MS,
        path=path,
    ), Body(headers, reads, data)


def texts(decoded: Decoded) -> str:
    pieces = [piece for run in decoded.runs for chunk in run.chunks() for piece in chunk.pieces]
    return "".join(piece.content + "".join(tool.arguments for tool in piece.tools) for piece in pieces)


def measures(decoded: Decoded) -> object:
    """Return what is measured: times, ends, usage and errors, without texts."""
    chunks = [(run.item, len(run), run.chunk.usage, run.chunk.id, run.chunk.fault, run.chunk.output)
              for run in decoded.runs]  # fmt: skip
    return (decoded.kinds, decoded.starts, decoded.ends, decoded.at_ns, decoded.reads, decoded.flags, decoded.api,
            decoded.done_item, decoded.end_item, decoded.whole, chunks)  # fmt: skip


@pytest.mark.parametrize("wire", WIRES)
def test_a_key_split_over_events_is_masked(wire: str) -> None:
    make, path, type = WIRES[wire]
    exchange, body = recorded(make(PIECES), path, type)
    mask = Masker()
    facts, masked_body = masked.answer(exchange, body, mask)
    original, changed = decode(exchange, *body[1:]), decode(facts, *masked_body[1:])
    assert texts(original) == "".join(PIECES)
    assert texts(changed) == MASKED
    assert measures(changed) == measures(original)
    assert masked_body.reads == body.reads
    assert len(masked_body.data) == len(body.data)
    assert mask.count >= 1
    assert masked.answer(facts, masked_body, Masker())[1] is masked_body
    assert decode(facts, *masked_body[1:]).flags == set()


def test_a_key_split_over_a_calls_arguments_is_masked() -> None:
    exchange, body = recorded(chat_call(PIECES), *WIRES["chat"][1:])
    mask = Masker()
    _, masked_body = masked.answer(exchange, body, mask)
    assert json.loads(texts(decode(exchange, *masked_body[1:]))) == {"note": MASKED}
    assert mask.count == 1


@pytest.mark.parametrize("coding", COMPRESS)
def test_a_compressed_answer_with_a_key_loses_its_coding(coding: str) -> None:
    packed = [piece for piece in COMPRESS[coding](chat(PIECES), True) if piece]
    exchange, body = recorded(packed, *WIRES["chat"][1:], coding)
    facts, masked_body = masked.answer(exchange, body, Masker())
    assert texts(decode(facts, *masked_body[1:])) == MASKED
    assert "content-encoding" not in dict(masked_body.headers)
    displayed = masked.decoded(exchange, body, Masker())
    assert texts(displayed) == MASKED
    assert measures(displayed) == measures(decode(exchange, *body[1:]))


def talk(extensions: str | None) -> tuple[Exchange, Body]:
    """Return a WebSocket with the key in both directions, fragmented, with control frames between the fragments."""
    upstream, client = websockets.side(extensions), websockets.side(extensions, client=True)
    received = [bytes(upstream.send_data(message)) for message in websockets.response(1, *PIECES, output_tokens=2)]
    parts = [bytes(upstream.send_data('{"type": "note", "api_key": "hun', fin=False))]
    parts.append(bytes(upstream.send_data('ter2"}')))
    received += [parts[0], bytes(websockets.side().ping(b"\xff")), parts[1]]
    request = json.dumps({"type": "response.create", "model": "m", "input": f"Use {KEY} " + "x" * 200})
    sent = [bytes(client.send_data(request)), bytes(client.pong(b"\xff")), bytes(client.close(1000))]
    facts, reads, data = websockets.websocket(
        [(10 * number + 5, frame) for number, frame in enumerate(received)],
        [(10 * number, frame) for number, frame in enumerate(sent)],
        extensions=extensions,
    )
    headers = [("sec-websocket-extensions", extensions)] if extensions else [("upgrade", "websocket")]
    return facts, Body(headers, reads, data)


@pytest.mark.parametrize("extensions", [None, "permessage-deflate", "permessage-deflate; server_no_context_takeover"])
def test_messages_of_a_websocket_are_masked_on_both_sides(extensions: str | None) -> None:
    exchange, body = talk(extensions)
    facts, masked_body = masked.answer(exchange, body, Masker())
    original, changed = decode(exchange, *body[1:]), decode(facts, *masked_body[1:])
    assert measures(changed) == measures(original)
    assert texts(original) == "".join(PIECES)
    assert texts(changed) == MASKED
    assert changed.data == original.data.replace(KEY.encode(), b"*" * len(KEY)).replace(b"hunter2", b"*" * 7).replace(
        b'"sk"', b'"**"').replace(b"-ant-", b"*" * 5).replace(b"api03-Zq81LmX0", b"*" * 14).replace(
        b"wPvT6yRk92bcDE", b"*" * 14)  # fmt: skip
    assert len(changed.data) == len(original.data)
    if extensions is None:
        assert len(masked_body.data) == len(body.data)
        assert masked_body.reads == body.reads


@pytest.mark.parametrize("is_whole_frame", [True, False])
@pytest.mark.parametrize("is_client", [True, False])
def test_a_cut_off_websocket_message_is_masked(is_client: bool, is_whole_frame: bool) -> None:
    side = websockets.side(None, client=is_client)
    text = json.dumps({"text": f"Use {KEY}", "more": "x" * 90})
    frame = bytes(side.send_data(text, fin=False))
    ending = frame if is_whole_frame else frame[:-20]
    came, sent = ([], [(1, ending)]) if is_client else ([(1, ending)], [])
    facts, reads, received = websockets.websocket(came, sent)
    facts, masked_body = masked.answer(facts, Body([("upgrade", "websocket")], reads, received), Masker())
    data = facts.sent.data if is_client and facts.sent is not None else masked_body.data
    assert len(data) == len(ending)
    ((_, ((start, end, key),)),) = websocket.payloads(data)
    expected = text.replace(KEY, "*" * len(KEY)).encode()
    assert websocket.masked(data[start:end], key) == expected[: end - start]


def test_ids_and_signatures_of_an_answer_stay() -> None:
    names = {"id": "chatcmpl-9f8e7d6c5b4a39281706", "previous_response_id": "resp_68a1b2c3d4e5f60718293a4b5c6d7e8f"}
    names |= {"call_id": "call_Zq81LmX0wPvT6yRk92bcDE12", "tool_use_id": "toolu_01A09q90qw90lq917835lq9"}
    names |= {"signature": "ErUBCkYIBxgCIkDGm9tTq3pX7hJw+/" * 9, "encrypted_content": "gAAAAABo_sk-" + "aZ09_-" * 99}
    names |= {"next_page_token": "CAESB2Zvb2JhcjEyMzQ1Njc4OTA", "prompt_cache_key": "019a3c5e7b8f70a1b2c3d4e5f6071829"}
    exchange, body = recorded([json.dumps(names).encode()], "/v1/x", "application/json")
    assert masked.answer(exchange, body, Masker()) == (exchange, body)


def test_tokens_of_log_probabilities_lose_parts_of_a_key() -> None:
    events = [
        {"id": "c", "object": "chat.completion.chunk", "choices": [
            {"index": 0, "delta": {"content": piece}, "logprobs": {"content": [{"token": piece, "logprob": -0.5}]}}]}
        for piece in PIECES
    ]  # fmt: skip
    exchange, body = recorded([*map(sse, events), b"data: [DONE]\n\n"], *WIRES["chat"][1:])
    data = masked.answer(exchange, body, Masker())[1].data
    assert not any(piece.encode() in data for piece in PIECES[1:5])


def test_a_key_that_cannot_be_reached_is_reported() -> None:
    compressed = b"".join(COMPRESS["gzip"]([f'{{"k": "{KEY}"}}'.encode()], False))
    exchange, body = recorded([compressed[:-8] + bytes(8)], "/v1/x", "application/json", "gzip")
    with pytest.raises(Unmaskable, match="cannot be decoded"):
        masked.answer(exchange, body, Masker())
    harmless = b"".join(COMPRESS["gzip"]([b'{"k": "v"}'], False))
    exchange, body = recorded([harmless[:-8] + bytes(8)], "/v1/x", "application/json", "gzip")
    assert masked.answer(exchange, body, Masker())[1] is body


def test_a_broken_message_with_a_checksum_stays_broken() -> None:
    make, path, type = WIRES["bedrock"]
    events = make([KEY])
    events[0] = events[0][:-1] + bytes([events[0][-1] ^ 1])
    exchange, body = recorded(events, path, type)
    masked_body = masked.answer(exchange, body, Masker())[1]
    assert KEY.encode() not in masked_body.data
    assert decode(exchange, *masked_body[1:]).flags == decode(exchange, *body[1:]).flags
