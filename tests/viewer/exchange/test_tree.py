"""An event taken apart."""

import pytest

from tests.support.sample_tape import COMPLETE, LIMITED
from wiretape.recorder.decode.decoder import decode
from wiretape.recorder.decode.exchange import Exchange
from wiretape.recorder.tape.reader import Connection
from wiretape.viewer.exchange import tree
from wiretape.viewer.exchange.transcript import Transcript
from wiretape.viewer.source.tape import queries

FACTS = Exchange(
    status=200,
    content_type="text/event-stream",
    ended_by="end",
    connected_ns=0,
    headers_ns=0,
    end_ns=1,
    path="/v1/chat/completions",
)


@pytest.fixture
def transcript(connection: Connection) -> Transcript:
    return Transcript(queries.observed(connection, queries.find(connection, COMPLETE))[2])


def test_an_event_precedes_its_lines_and_values(transcript: Transcript) -> None:
    nodes = tree.of(transcript, 1)
    assert nodes[0].text.startswith("(read 1, bytes ")
    assert [(node.depth, node.label, node.text) for node in nodes[1:]] == [
        (1, "data", "object"), (2, "id", '"r1"'), (2, "object", '"chat.completion.chunk"'),
        (2, "model", '"gpt-x-2026"'), (2, "choices", "array"), (3, "[0]", "object"), (4, "index", "0"),
        (4, "delta", "object"), (5, "content", '"Hel"'), (4, "finish_reason", "null"),
    ]  # fmt: skip


def test_each_part_has_its_bytes(transcript: Transcript) -> None:
    content_node = next(node for node in tree.of(transcript, 1) if node.label == "content")
    assert transcript.data[content_node.start : content_node.end] == b'"Hel"'


def test_comments_and_bare_lines_are_taken_apart_too(transcript: Transcript, connection: Connection) -> None:
    assert [(node.label, node.text) for node in tree.of(transcript, 2)][1:] == [("comment", "keep-alive")]
    limited = Transcript(queries.observed(connection, queries.find(connection, LIMITED))[2])
    nodes = tree.of(limited, 0)
    assert nodes[0].text.startswith("(read 0, bytes 0–")
    assert [node.label for node in nodes][1:4] == ["(no field)", "error", "message"]


def rows_of(body: bytes, event: int = 0) -> list[tuple[str, str, bytes]]:
    transcript = Transcript(decode(FACTS, [], body))
    nodes = tree.of(transcript, event)[1:]
    return [(node.label, node.text, transcript.data[node.start : node.end]) for node in nodes]


def test_a_malformed_event_has_reason_and_place() -> None:
    line = b"data: {not json \x1b]0;x\x07 [/]"
    assert rows_of(b"event: odd\n" + line + b"\n\n") == [
        ("event", "odd", b"event: odd"),
        ("data", "{not json \x1b]0;x\x07 [/]", line),
        ("no JSON from byte 1", "expecting property name enclosed in double quotes", b"n"),
    ]
    assert rows_of(b"data: {\xff\n\n")[1:] == [
        ("no JSON from byte 1", "expecting property name enclosed in double quotes", b"\xff")
    ]
    assert rows_of(b"data: 42\n\n") == [("data", "42", b"data: 42")]
    assert rows_of(b'data: {"a":\ndata: oops}\n\n')[2:] == [
        ("no JSON from byte 6", "expecting value", b'data: {"a":\ndata: oops}\n\n')
    ]


def test_a_value_printed_over_several_lines_is_one() -> None:
    body = b'data: {\n"choices": [],\n"model": "m"\n}\n\n'
    assert [(label, value) for label, value, _ in rows_of(body)] == [
        ("data", "object"), ("choices", "array"), ("model", '"m"'),
    ]  # fmt: skip


def test_truncated_body_is_shown_in_lines() -> None:
    assert [node.label for node in tree.of_body(b'{"a": 1}')] == ["body", "", "a"]
    assert [node.text for node in tree.of_body(b'{"a": 1')][1:] == ['{"a": 1']
