"""The messages of gRPC and Connect as events: in a line, and taken apart."""

import gzip

from tests.support.cases import each_case
from tests.support.rpc import end_stream, message, of_json, trailers
from wiretape.recorder.decode.decoder import decode
from wiretape.recorder.decode.exchange import Exchange, Headers
from wiretape.viewer.exchange import events, plain, tree
from wiretape.viewer.exchange.clocks import Times
from wiretape.viewer.exchange.transcript import Transcript

HELLO = message(b"\x0a\x05hello")
CHUNK = {"choices": [{"index": 0, "delta": {"content": "Hi"}}]}


def call(body: bytes, content_type: str = "application/grpc", coding: str = "gzip") -> Transcript:
    headers = Headers((), (("grpc-encoding", coding), ("connect-content-encoding", coding)), (("grpc-status", "0"),))
    return Transcript(
        decode(
            Exchange(
                status=200,
                content_type=content_type,
                ended_by="end",
                connected_ns=0,
                headers_ns=0,
                end_ns=1,
                headers=headers,
            ),
            [],
            body,
        )
    )


@each_case(
    ("body", "content_type", "kind", "summary"),
    [
        (HELLO, "application/grpc", "other", "(7 bytes) ␊␅hello · 0a 05 68 65 6c 6c 6f"),
        (message(b""), "application/grpc", "other", "(0 bytes)"),
        (message(b"\x01", 1), "application/grpc", "other", "(1 byte, compressed) ␁ · 01"),
        (message("plain"), "application/grpc", "other", "plain"),
        (of_json(CHUNK), "application/grpc+json", "content", "'Hi'"),
        (of_json({"a": 1}), "application/grpc+json", "other", '{"a":1}'),
        (message(gzip.compress(b'{"a":1}'), 1), "application/connect+json", "other", '{"a":1}'),
        (message("{no"), "application/grpc+json", "other", "{no"),
        (message("\x1b[31m\0"), "application/grpc", "other", "(6 bytes) ␛[31m␀ · 1b 5b 33 31 6d 00"),
        (trailers("grpc-status: 0\r\nx: y\r\n"), "application/grpc-web", "done", "trailers grpc-status: 0, x: y"),
        (trailers("grpc-status: 8\r\n"), "application/grpc-web", "error", "trailers grpc-status: 8"),
        (end_stream(), "application/connect+proto", "done", "end-stream {}"),
        (
            end_stream({"error": {"code": "internal", "message": "crash"}}), "application/connect+proto",
            "error", "crash",
        ),
    ],
)  # fmt: skip
def test_a_message_has_a_kind_and_a_line(body: bytes, content_type: str, kind: str, summary: str) -> None:
    transcript = call(body, content_type)
    assert (transcript.kind(0), events.summary(transcript, 0)) == (kind, summary)


def test_the_line_of_a_long_message_is_short() -> None:
    assert len(events.summary(call(message(bytes(range(256)) * 400)), 0)) <= 200


def test_the_events_table_has_index_size_and_hex() -> None:
    transcript = call(HELLO + message(b""))
    lines = list(events.lines(transcript, Times()))
    assert [line.split()[0] for line in lines] == ["#", "0", "1"]
    assert " 12 " in lines[1]
    headers = Headers((), (), (("grpc-status", "0"),))
    decoded = decode(
        Exchange(
            status=200,
            content_type="application/grpc",
            ended_by="end",
            connected_ns=0,
            headers_ns=0,
            end_ns=1,
            headers=headers,
        ),
        [],
        HELLO,
    )
    (row,) = events.table(Transcript(decoded), decoded)
    assert (row["type"], row["data"], row["start"], row["end"]) == ("message", "0a0568656c6c6f", 0, 12)


def rows_of(transcript: Transcript) -> list[tuple[str, str, bytes]]:
    return [(node.label, node.text, transcript.data[node.start : node.end]) for node in tree.of(transcript, 0)[1:]]


def test_an_opaque_message_is_taken_apart_to_its_payload() -> None:
    assert rows_of(call(HELLO)) == [
        ("flags", "0x00", b"\0"), ("length", "7", b"\0\0\0\x07"), ("data", "0a 05 68 65 6c 6c 6f", b"\x0a\x05hello"),
    ]  # fmt: skip
    assert rows_of(call(message(b"\x01\x02", 1), coding="snappy"))[0] == ("flags", "0x01, compressed", b"\x01")


def test_a_json_message_is_split_into_its_values() -> None:
    rows = rows_of(call(of_json({"a": 1}), "application/connect+json"))
    assert [part[:2] for part in rows[2:]] == [("type", "message"), ("data", "object"), ("a", "1")]


def test_a_message_is_copied_as_text_or_hex() -> None:
    assert plain.event(call(HELLO), 1) == "0a0568656c6c6f"
    assert plain.event(call(of_json({"a": 1})), 1) == '{"a":1}'
