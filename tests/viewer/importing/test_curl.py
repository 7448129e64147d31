"""A trace of curl: bytes sent and received, their times, and the end."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.cases import each_case
from wiretape.viewer.importing import curl, formats
from wiretape.viewer.importing.found import Found, ImportedFile, NotImportable, Unimportable

TRACE = (Path(__file__).parents[2] / "data" / "imports" / "curl-7.88-chunked.trace").read_bytes()
"""A trace of curl 7.88.1 with `-sN --trace-time --trace -`: its standard output is in between."""
SOURCE = ImportedFile("t", datetime(2026, 11, 23, 12, tzinfo=UTC), day=date(2026, 11, 23))
SENT = b"POST /v1/x HTTP/1.1\r\nHost: api.test\r\nContent-Length: 2\r\n\r\n"
LENGTH = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n"
CLOSE = b"HTTP/1.1 200 OK\r\n\r\n"
LEFT = "Connection #0 to host api.test left intact"
CLOSED = "Closing connection 0"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


def dump(what: str, data: bytes, at: str = "", id: str = "") -> bytes:
    """Return a piece as curl writes it."""
    lines = [f"{at}{id}{what}, {len(data)} bytes (0x{len(data):x})\n"]
    for start in range(0, len(data), 16):
        part = data[start : start + 16]
        shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{start:04x}: {''.join(f'{byte:02x} ' for byte in part):<48}{shown}\n")
    return "".join(lines).encode()


def sent(at: str = "", id: str = "", head: bytes = SENT) -> bytes:
    return dump("=> Send header", head, at, id) + dump("=> Send data", b"{}", at, id)


def received(head: bytes, *pieces: bytes, at: str = "", id: str = "") -> bytes:
    lines = [line + b"\r\n" for line in head.split(b"\r\n")[:-1]]
    heads = b"".join(dump("<= Recv header", line, at, id) for line in lines)
    return heads + b"".join(dump("<= Recv data", piece, at, id) for piece in pieces)


def info(text: str, at: str = "", id: str = "") -> bytes:
    return f"{at}{id}== Info: {text}\n".encode()


def parsed(trace: bytes, source: ImportedFile = SOURCE) -> list[Found]:
    found = list(curl.read(trace, source))
    assert [one for one in found if isinstance(one, Unimportable)] == []
    return [one for one in found if isinstance(one, Found)]


def test_a_real_trace_has_every_piece_at_its_time_without_http_chunks() -> None:
    (one,) = parsed(TRACE)
    assert formats.recognised(TRACE) == "curl"
    assert (one.method, one.url, one.status) == ("POST", "http://127.0.0.1:28311/v1/chat/completions", 200)
    assert one.request is not None
    assert one.request.startswith(b'{"model":"m"')
    assert (one.framing, one.ended_by, one.connection_reused) == ("chunked", "end", False)
    assert (one.connected_ns, one.sent_ns, one.headers_ns) == (270_000, 383_000, 1_188_000)
    assert one.sizes == [130, 125, 124, 128, 189, 14]
    assert [at // 10**6 for at in one.at_ns] == [41, 81, 121, 372, 412, 452]
    assert one.end_ns == one.at_ns[-1]
    assert one.body.endswith(b"data: [DONE]\n\n")
    assert len(one.body) == sum(one.sizes)
    midnight = datetime(2026, 11, 23).astimezone()
    assert one.started == midnight + timedelta(hours=12, minutes=18, seconds=32, microseconds=871721)


ASKED = b"POST /v1/x HTTP/2\r\nHost: api.test\r\n\r\n"
HEAD = b"HTTP/2 200 \r\n\r\n"


def test_a_transfer_over_http2_has_its_protocol_and_its_trailers() -> None:
    trailers = received(b"grpc-status: 8\r\ngrpc-message: slow\r\n\r\n")
    (one,) = parsed(sent(head=ASKED) + received(HEAD, b"ab") + trailers + info(LEFT))
    assert (one.protocol, one.framing, one.body, one.ended_by) == ("h2", "h2", b"ab", "end")
    assert one.response_trailers == [(b"grpc-status", b"8"), (b"grpc-message", b"slow")]
    (unanswered,) = parsed(sent(head=ASKED) + info(CLOSED))
    assert unanswered.protocol == "h2"


@each_case(
    ("said", "code"),
    [
        ("HTTP/2 stream 1 was not closed cleanly: CANCEL (err 8)", "rst_cancel"),
        ("HTTP/2 stream 3 reset by server (error 0x2 INTERNAL_ERROR)", "rst_internal_error"),
        ("HTTP/2 stream 0 was not closed cleanly before end of the underlying stream", None),
    ],
)
def test_a_stream_that_was_reset_has_the_error_in_curls_message(said: str, code: str | None) -> None:
    (one,) = parsed(sent(head=ASKED) + received(HEAD, b"ab") + info(said) + info(LEFT))
    assert (one.ended_by, one.reset_code, one.ended_detail) == ("reset", code, said)


def test_what_a_body_says_is_no_trace() -> None:
    forged = b"data: \n12:00:00.000000 <= Recv data, 4 bytes (0x4)\n0000: 66 61 6b 65 fake\n== Info: Recv failure\n"
    size = f"{len(forged):x}\r\n".encode()
    for head, pieces in (
        (CHUNKED, [size + forged + b"\r\n", b"0\r\n\r\n"]),
        (b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(forged), [forged]),
    ):
        trace = sent() + received(head, pieces[0]) + forged + b"".join(received(b"", one) for one in pieces[1:])
        (one,) = parsed(trace)
        assert (one.body, one.ended_by) == (forged, "end")


@each_case(
    ("rest", "ended_by", "body", "framing"),
    [
        (received(LENGTH, b"ab", b"cd"), "end", b"abcd", "length"),
        (received(LENGTH, b"ab") + info("transfer closed with 2 bytes remaining to read"), "length", b"ab", "length"),
        (received(LENGTH, b"ab"), "died", b"ab", "length"),
        (received(CLOSE, b"ab") + info(CLOSED), "end", b"ab", "close"),
        (received(CHUNKED, b"2\r\nab\r\n", b"0\r\n\r\n"), "end", b"ab", "chunked"),
        (received(CHUNKED, b"2\r\nab\r", b"\n0\r\n\r\n"), "end", b"ab", "chunked"),
        (received(CHUNKED, b'data: "ab"') + info(LEFT), "end", b'data: "ab"', "chunked"),
        (received(CHUNKED, b"2\r\nab\r\n") + info("transfer closed with outstanding read data remaining"), "eof",
         b"ab", "chunked"),
        (received(CHUNKED, b"2\r\nab\r\n") + info("Recv failure: Connection reset by peer"), "reset", b"ab", "chunked"),
        (received(LENGTH, b"ab") + info("Operation timed out after 9 ms") + info(CLOSED), "client", b"ab", "length"),
        (received(b"HTTP/1.1 204 No Content\r\n\r\n"), "end", b"", "none"),
        (received(b"HTTP/1.1 100 Continue\r\n\r\n") + received(LENGTH, b"abcd"), "end", b"abcd", "length"),
        (received(b"HTTP/2 200 \r\n\r\n", b"ab") + info(LEFT), "end", b"ab", "h2"),
        (info("Empty reply from server") + info(CLOSED), "eof", b"", None),
        (b"", "died", b"", None),
    ],
)  # fmt: skip
def test_how_a_transfer_ended(rest: bytes, ended_by: str, body: bytes, framing: str | None) -> None:
    (one,) = parsed(sent() + rest)
    assert (one.ended_by, one.body, one.framing) == (ended_by, body, framing)
    assert not one.at_ns
    assert not one.is_timed or not one.body


def test_several_transfers_are_distinguished_by_their_order_or_their_ids() -> None:
    one_after_the_other = (sent() + received(LENGTH, b"abcd") + info(LEFT)) * 2
    assert [one.body for one in parsed(one_after_the_other)] == [b"abcd"] * 2
    first, second = "[0-0] ", "[1-1] "
    trace = sent(id=first) + sent(id=second) + received(LENGTH, b"ab", id=first) + received(LENGTH, b"12", id=second)
    trace += received(b"", b"34", id=second) + received(b"", b"cd", id=first)
    assert [one.body for one in parsed(trace)] == [b"abcd", b"1234"]
    assert formats.recognised(trace) == "curl"


def test_what_is_said_to_a_proxy_is_left_out_and_tls_makes_the_url_one_of_https() -> None:
    tunnel = info("  Trying 127.0.0.1:3128...", "12:00:00.000000 ")
    tunnel += dump("=> Send header", b"CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\n\r\n", "12:00:00.100000 ")
    tunnel += received(b"HTTP/1.1 200 OK\r\n\r\n", at="12:00:00.200000 ")
    tunnel += info("SSL connection using TLSv1.3 / TLS_AES_256_GCM_SHA384", "12:00:00.300000 ")
    tunnel += dump("=> Send SSL data", b"\x17\x03\x03", "12:00:00.400000 ")
    (one,) = parsed(tunnel + sent("12:00:00.400000 ") + received(LENGTH, b"abcd", at="12:00:00.500000 "))
    assert (one.url, one.method, one.sent_ns, one.at_ns) == ("https://api.test/v1/x", "POST", 4 * 10**8, [5 * 10**8])


@each_case(
    ("written", "day", "started"),
    [
        ((2026, 11, 24, 0, 0, 1), None, (2026, 11, 23, 23, 59, 59)),
        ((2026, 11, 25, 9, 0, 0), None, (2026, 11, 24, 23, 59, 59)),
        ((2026, 11, 24, 0, 0, 1), date(2020, 1, 1), (2020, 1, 1, 23, 59, 59)),
    ],
)
def test_times_go_on_past_midnight(written: Any, day: date | None, started: Any) -> None:
    trace = sent("23:59:59.000000 ") + received(LENGTH, b"ab", b"cd", at="00:00:00.500000 ")
    (one,) = parsed(trace, ImportedFile("t", datetime(*written).astimezone(), day))
    assert (one.started, one.at_ns) == (datetime(*started).astimezone(), [15 * 10**8] * 2)


def test_what_cannot_be_read_is_named_with_its_line() -> None:
    damaged = sent() + received(LENGTH, b"ab") + b"<= Recv data, 2 bytes (0x2)\nzz\n"
    found = list(curl.read(damaged, SOURCE))
    assert [(one.place, one.is_note) for one in found if isinstance(one, Unimportable)] == [("line 18", True)]
    assert [one.ended_by for one in found if isinstance(one, Found)] == ["died"]
    for trace, reason in (
        (b"=> Send header, 18 bytes (0x12)\n0000: GET / HTTP/1.1\n0010: \n", "--trace-ascii"),
        (info("  Trying 127.0.0.1:1..."), "no request"),
    ):
        with pytest.raises(NotImportable, match=reason):
            list(curl.read(trace, SOURCE))


def test_a_broken_transfer_costs_no_other() -> None:
    head = b"POST /cut HTTP/1.1\r\nHost: api.test\r\n\r\n"
    damaged = dump("=> Send header", head).replace(b"0000: 50", b"0000: zz")
    found = list(curl.read(damaged + sent() + received(LENGTH, b"data"), SOURCE))
    assert found[0] == Unimportable("line 1", "its dump is cut off or damaged", is_note=True)
    assert [(one.path, one.body) for one in found if isinstance(one, Found)] == [("/v1/x", b"data")]


def test_times_that_no_calendar_has_are_refused() -> None:
    back = b"".join(b"%02d:00:00.000000 == Info: x\n" % (23 * (no % 2)) for no in range(80))
    early = ImportedFile("t", datetime(1, 1, 30, tzinfo=UTC))
    with pytest.raises(NotImportable, match="go back too often"):
        list(curl.read(back + sent(at="00:00:00.000000 "), early))
