"""Forms of an answer: other bytes and other writes, the same answer."""

import functools
import itertools
from pathlib import Path
from typing import Any

import pytest

from tests.support.decoding import derived, said
from tests.support.wires import WIRES
from wiretape.recorder.decode import encoding
from wiretape.recorder.decode.decoder import decode, framing_of
from wiretape.recorder.decode.exchange import Exchange, Reads, RecordedExchange
from wiretape.recorder.decode.framings import sse
from wiretape.viewer.wings.replay import forms, schedule
from wiretape.viewer.wings.replay.forms import Coder, Shaped

STREAMS = sorted((Path(__file__).parents[3] / "data" / "streams").glob("*.sse"))
ANSWERS = {path.stem: (path.read_bytes(), {}) for path in STREAMS} | {
    name: (b"".join(wire.parts), {"content_type": wire.type, "path": wire.path}) for name, wire in WIRES.items()
}
EXAMPLE = b'event: a\ndata: {"x": "\xc3\xa4"}\n\n: note\n\ndata:  y\nid: 7\n\ndata: [DONE]\n\n'


def answer(body: bytes, *cuts: int, content_type: str = "text/event-stream", **facts: Any) -> RecordedExchange:
    bounds = [0, *cuts, len(body)]
    count = len(bounds) - 1
    exchange = Exchange(status=200, content_type=content_type, ended_by="end", end_ns=900, headers_ns=1, **facts)
    sizes = [end - start for start, end in itertools.pairwise(bounds)]
    reads = Reads(range(count), [*range(10, 10 + count)], [None] * count, bounds[:-1], sizes)
    return RecordedExchange(exchange, reads, body)


def shaped(recorded: RecordedExchange, *names: str) -> Shaped:
    framing = framing_of(recorded.exchange, recorded.body)
    choice = forms.chosen(names, framing, recorded.body, "1.1", lambda _: True)
    return forms.shaped(schedule.recorded(recorded), schedule.events(recorded), framing, choice)


def written(shape: Shaped) -> list[bytes]:
    return [shape.writes.body[start:end] for start, end in itertools.pairwise([0, *shape.writes.ends])]


def events(body: bytes, facts: dict[str, Any]) -> list[tuple[str, str]]:
    return [(item.type, item.data) for item in decode(*answer(body, **facts)).items() if item.kind == "event"]


@functools.cache
def expected(name: str) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    body, facts = ANSWERS[name]
    return said(derived(body, **facts)), events(body, facts)


@pytest.mark.parametrize(
    "form",
    ["crlf", "cr", "nospace", "bom", "comment", "id+retry", "cr,comment,id+retry,nospace,bom", "crlf,comment,id+retry"],
)
def test_a_form_changes_no_answer(form: str) -> None:
    for name, (body, facts) in ANSWERS.items():
        changed = shaped(answer(body, **facts), *forms.parse(form)).writes.body
        assert (said(derived(changed, **facts)), events(changed, facts)) == expected(name), name


@pytest.mark.parametrize("cut", ["event", "byte", "split", "glued", "7"])
def test_a_cut_changes_no_byte(cut: str) -> None:
    for name, (body, facts) in ANSWERS.items():
        shape = shaped(answer(body, *range(11, len(body), 11), **facts), cut)
        assert b"".join(written(shape)) == body, name
        assert b"" not in written(shape), name


@pytest.mark.parametrize(("form", "body"), [
    ("crlf", EXAMPLE.replace(b"\n", b"\r\n")),
    ("cr", EXAMPLE.replace(b"\n", b"\r")),
    ("nospace", b'event:a\ndata:{"x": "\xc3\xa4"}\n\n: note\n\ndata:  y\nid:7\n\ndata:[DONE]\n\n'),
    ("bom", b"\xef\xbb\xbf" + EXAMPLE),
    ("comment", b': wiretape\nevent: a\n: wiretape\ndata: {"x": "\xc3\xa4"}\n\n: note\n\n'
                b': wiretape\ndata:  y\n: wiretape\nid: 7\n\n: wiretape\ndata: [DONE]\n: wiretape\n\n'),
    ("id+retry", b'event: a\ndata: {"x": "\xc3\xa4"}\nid: 0\nretry: 3000\n\n: note\n\ndata:  y\nid: 7\nretry: 3000\n\n'
                 b'data: [DONE]\nid: 2\nretry: 3000\n\n'),
])  # fmt: skip
def test_a_text_form_has_its_bytes(form: str, body: bytes) -> None:
    shape = shaped(answer(EXAMPLE), form)
    assert shape.writes.body == body
    # The items of the recording, and none that the form adds, each with its whole line end.
    spans = schedule.events(answer(EXAMPLE))
    assert [sse.fields(body[start:end].removeprefix(sse.BOM)) for start, end in shape.spans] == [
        sse.fields(EXAMPLE[start:end]) for start, end in spans
    ]


def test_added_text_is_due_with_the_bytes_behind_it() -> None:
    shape = shaped(answer(b"data: 1\n\ndata: 2\n\n", 9), "comment")
    assert written(shape) == [b": wiretape\ndata: 1\n: wiretape\n\n", b": wiretape\ndata: 2\n: wiretape\n\n"]
    assert list(shape.writes.at_ns) == [10, 11]


def test_a_line_end_read_in_two_is_one_cr() -> None:
    shape = shaped(answer(b"data: 1\r\n\r\n", 8, 9, 10), "cr")
    assert written(shape) == [b"data: 1\r", b"\r"]
    assert (list(shape.writes.at_ns), shape.writes.joins_end) == ([10, 12], False)


def test_split_cuts_where_readers_break() -> None:
    text = b'data: {"x":"\xc3\xa4"}\r\n\r\ndata: 2\r\n\r\n'
    assert written(shaped(answer(text, 5), "split")) == [
        b"d", b"ata:", b' {"x":"\xc3', b'\xa4"}\r', b"\n", b"\r", b"\nd", b"ata: 2\r", b"\n", b"\r", b"\n",
    ]  # fmt: skip
    assert written(shaped(answer(b'{"x":"\xe2\x82\xac"}', content_type="application/json"), "split")) == [
        b"{", b'"x":"\xe2', b'\x82\xac"}',
    ]  # fmt: skip


def test_only_the_beginning_is_cut_by_bytes() -> None:
    event = b"data: %s\n\n" % (b"x" * 92)
    shape = shaped(answer(event * 200), "byte")
    sizes = [*map(len, written(shape))]
    assert sizes[: 16 << 10] == [1] * (16 << 10)
    assert sizes[16 << 10 :] == [100 - (16 << 10) % 100] + [100] * ((20_000 - (16 << 10)) // 100)
    assert shape.writes.apart_size == 16 << 10


def test_glued_writes_head_body_and_end_at_once() -> None:
    writes = shaped(answer(EXAMPLE, 9, 20), "glued").writes
    assert (writes.head_ns, list(writes.at_ns), writes.end_ns, list(writes.ends)) == (12, [12], 12, [len(EXAMPLE)])
    assert (writes.joins_head, writes.joins_end) == (True, True)


def test_pings_stand_only_between_events() -> None:
    shape = shaped(answer(EXAMPLE), "ping:50ms")
    assert sorted(shape.between) == [0, 28, 35, 36, 52, 66]
    assert forms.ping_of(shape.writes.body, ("ping:50ms", "crlf")) == b": ping\r\n\r\n"
    assert 0 not in shaped(answer(EXAMPLE), "bom", "ping").between


@pytest.mark.parametrize("coding", ["gzip", "br", "zstd"])
def test_each_coded_write_can_be_decoded_at_once(coding: str) -> None:
    coder = Coder(coding)
    parts = [coder.add(b"data: 1\n\n"), coder.add(b"data: 2\n\n"), coder.end()]
    body = b"".join(parts)
    plain = encoding.plain(coding, body, list(itertools.accumulate(map(len, parts))))
    assert (plain.data, list(plain.ends), plain.flag) == (b"data: 1\n\ndata: 2\n\n", [9, 18, 18], None)


def test_a_chunk_carries_extensions() -> None:
    assert forms.chunk(b"x" * 26) == b'01A;wt=1;q="a;b"\r\n' + b"x" * 26 + b"\r\n"
    assert forms.chunk(b"") == b'00;wt=1;q="a;b"\r\n\r\n'


@pytest.mark.parametrize(("form", "framing", "version", "reason"), [
    ("cr", "ndjson", "1.1", "NDJSON"), ("ping:50ms", "json", "1.1", "JSON"), ("gzip", "websocket", "1.1", "WebSocket"),
    ("gzip", "sse", "1.1", "Accept-Encoding"), ("h2", "sse", "1.1", "HTTP/1.1"),
    ("chunk-extensions", "sse", "2", "HTTP/2"), ("crlf", None, "1.1", "a content coding that cannot be decoded"),
    ("crlf", "aws-eventstream", "1.1", "AWS event stream"),
])  # fmt: skip
def test_a_form_that_is_not_taken_has_its_reason(form: str, framing: Any, version: str, reason: str) -> None:
    assert forms.chosen((form,), framing, b"x", version, lambda _: False).left_out == ((form, reason),)


def test_a_form_has_the_clause_of_its_framing() -> None:
    assert forms.explained("crlf", "NDJSON") == "form crlf (every line ends in CR LF; RFC 8259 2)"
    assert forms.explained("ping:1s", "WebSocket").endswith("over a WebSocket a Ping; RFC 6455 5.5.2)")
    assert forms.explained("7", "JSON") == "form 7 (7 bytes a write; RFC 9112 7.1, RFC 9113 6.1)"


@pytest.mark.parametrize(("text", "message"), [
    ("crlf,nonsense", "'nonsense' is no form: use recorded, event, byte"), ("event,byte", "event and byte contradict"),
    ("gzip,br", "gzip and br contradict"), ("crlf,cr", "crlf and cr contradict"), ("7,byte", "7 and byte contradict"),
    ("bom,bom", "bom is named twice"), ("ping:1s,ping", "ping is named twice"), ("ping:5", "'ping:5': give a time"),
    ("recorded,crlf", "recorded is no form: name it alone"), ("", "'' is no form"), ("0", "'0' is no form"),
    ("h2,chunk-extensions", "contradict"),
])  # fmt: skip
def test_contradictory_forms_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        forms.parse(text)


def test_a_request_names_its_forms() -> None:
    assert forms.read_target(b"/@form=crlf%2Cbyte/@a1/v1?x=1", None) == (b"/@a1/v1?x=1", ("crlf", "byte"))
    assert forms.read_target(b"/@a1/@form=cr/v1", None) == (b"/@a1/v1", ("cr",))
    assert forms.read_target(b"/@form=id+retry", b"cr") == (b"/", ("id+retry",))
    assert forms.read_target(b"/v1", b" recorded ") == (b"/v1", ())
    assert forms.read_target(b"/v1", None) == (b"/v1", None)
