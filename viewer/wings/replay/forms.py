"""Pure: the forms in which a recorded answer may come as well: bytes and writes in, other bytes and writes out.

A form changes bytes or their framing, never an answer: type and data of each event, the texts, the usage and the end
stay. Clients break on streams that are legal; each form has the clause that allows it (`FORMS`). The order of the
steps: the recorded content coding goes, lines of the text change, the text is cut into writes, a coding is added, and
chunks get their heads. Faults come after the text, so that their positions count the recording's items, and none that a
form adds.

Text that a form adds is due with the bytes behind it. Events that the standard drops and lenient readers repair (JSON
on lines of its own, an unfinished last event) get no lines: a reader could not tell them from the payload.
"""

import re
import sys
import zlib
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import unquote

from wiretape.recorder.decode.decoder import Framing
from wiretape.recorder.decode.framings.sse import BOM
from wiretape.recorder.plurals import counted
from wiretape.viewer.wings.replay.positions import Spans
from wiretape.viewer.wings.replay.schedule import Schedule, in_pieces, rechunked

APART_BYTES: Final = 16 << 10
"""The beginning of a body whose cuts are kept apart in time, by 0.3 ms each: 5 s if each byte is cut."""
Kind = Literal["", "cut", "text", "coding", "wire"]


class Form(NamedTuple):
    """A form: its meaning, the clause that allows it, and the framings that take it; (): all."""

    kind: Kind
    meaning: str
    clause: str
    framings: tuple[str, ...] = ()


_HTTP: Final = ("SSE", "NDJSON", "JSON", "AWS event stream", "gRPC")
FORMS: Final[dict[str, Form]] = {
    "recorded": Form("", "as recorded; alone, it turns the other forms off for one request", ""),
    "event": Form("cut", "one event a write", "RFC 9112 7.1, RFC 9113 6.1"),
    "byte": Form("cut", "one byte a write", "RFC 9112 7.1, RFC 9113 6.1"),
    "split": Form(
        "cut",
        "the recorded writes, cut again within characters and line ends, behind an event's first byte and before the "
        "blank line that ends it",
        "RFC 9112 7.1, RFC 9113 6.1; WHATWG HTML 9.2.6",
    ),
    "glued": Form("cut", "the whole body in one write, with head and end", "RFC 9112 7.1, RFC 9113 6.1"),
    "crlf": Form("text", "every line ends in CR LF", "WHATWG HTML 9.2.5; RFC 8259 2", ("SSE", "NDJSON")),
    "cr": Form("text", "every line ends in CR", "WHATWG HTML 9.2.5", ("SSE",)),
    "nospace": Form("text", "no space behind the colon of a field", "WHATWG HTML 9.2.5", ("SSE",)),
    "bom": Form("text", "a byte order mark before the first byte", "WHATWG HTML 9.2.5", ("SSE",)),
    "comment": Form("text", "a comment before and behind the first line of each event", "WHATWG HTML 9.2.5", ("SSE",)),
    "ping": Form(
        "text",
        "in a silence, a comment every 15 seconds, or every TIME (ping:50ms), between events; over a WebSocket a Ping",
        "WHATWG HTML 9.2.7; RFC 6455 5.5.2",
        ("SSE", "WebSocket"),
    ),
    "id+retry": Form("text", "each event has the fields id and retry", "WHATWG HTML 9.2.6", ("SSE",)),
    "gzip": Form("coding", "compressed by gzip, flushed with each write", "RFC 9110 8.4", _HTTP),
    "br": Form("coding", "compressed by Brotli, flushed with each write", "RFC 9110 8.4, RFC 7932", _HTTP),
    "zstd": Form("coding", "compressed by Zstandard, flushed with each write", "RFC 9110 8.4, RFC 8878", _HTTP),
    "chunk-extensions": Form(
        "wire", "chunks with extensions, and sizes in upper case with a leading 0", "RFC 9112 7.1, 7.1.1", _HTTP
    ),
    "h2": Form("wire", "over HTTP/2, if the client speaks it", "RFC 9113 3.2, 3.3, 8.2.2", _HTTP),
}
"""All forms, in the order in which they are explained."""
_TITLES: Final[dict[Framing, str]] = {
    "sse": "SSE", "ndjson": "NDJSON", "json": "JSON", "json-array": "JSON", "aws-eventstream": "AWS event stream",
    "websocket": "WebSocket", "grpc": "gRPC", "grpc-web": "gRPC", "connect": "gRPC",
}  # fmt: skip
_PING_NS: Final = 15_000_000_000
_IN_PATH: Final = re.compile(rb"(/@[0-9a-f]+)?/@form=([^/?]{0,400})(/.*|\?.*|$)", re.DOTALL)


def form_of(name: str) -> Form:
    """Return the form of a name as `parse` returns it, which may be a number of bytes."""
    if name.isdecimal():
        return Form("cut", f"{name} bytes a write", FORMS["byte"].clause)
    return FORMS[name.partition(":")[0]]


def explained(name: str, framing: str) -> str:
    """Return a form's name with its meaning, and the clause that allows it in a framing."""
    form = form_of(name)
    clauses = form.clause.split("; ")
    clause = clauses[form.framings.index(framing)] if len(form.framings) == len(clauses) > 1 else form.clause
    return f"form {name} ({form.meaning}; {clause})"


def parse(text: str) -> tuple[str, ...]:
    """Parse names of forms, separated by commas; return () for `recorded`.

    Raise ValueError for an unknown name, and for names that contradict each other.
    """
    names = tuple(part.strip() for part in text.split(","))
    for name in names:
        is_size = name.isascii() and name.isdecimal() and len(name) < 11 and 0 < int(name) <= 1 << 30
        if not is_size and (name not in FORMS and not name.startswith("ping:")):
            raise ValueError(f"{name!r} is no form: use {', '.join(FORMS)}, or a number of bytes")
        if name.startswith("ping:"):
            ping_ns((name,))
    for kind, title in (("cut", "the cut"), ("coding", "the content coding")):
        if len(rivals := [name for name in names if form_of(name).kind == kind]) > 1:
            raise ValueError(f"{rivals[0]} and {rivals[1]} contradict each other: name one for {title}")
    bases = [name.partition(":")[0] for name in names]
    if repeated := next((base for base in bases if bases.count(base) > 1), None):
        raise ValueError(f"{repeated} is named twice: name it once")
    for first, second in (("crlf", "cr"), ("chunk-extensions", "h2")):
        if first in bases and second in bases:
            raise ValueError(f"{first} and {second} contradict each other: name one of them")
    if "recorded" in names and len(names) > 1:
        raise ValueError("recorded is no form: name it alone, or leave it out")
    return () if names == ("recorded",) else names


def ping_ns(names: Sequence[str]) -> int | None:
    """Return the interval of pings in ns; None without them. Raise ValueError for a wrong one."""
    from wiretape.viewer.query.values import number

    name = next((name for name in names if name.partition(":")[0] == "ping"), None)
    if name is None:
        return None
    try:
        interval = int(number(name[5:], "duration")) if name != "ping" else _PING_NS
    except ValueError:
        interval = 0
    if interval < 1_000_000:
        raise ValueError(f"{name!r}: give a time of 1 ms or more, such as ping:15s or ping:50ms")
    return interval


def read_target(target: bytes, header: bytes | None) -> tuple[bytes, tuple[str, ...] | None]:
    """Return a request's target and the forms that it names: by a path that begins with `/@form=…/`, or by the header.

    `/@ID/` may stand before or behind it. None: it names none. Raises ValueError as `parse`.
    """
    if match := _IN_PATH.fullmatch(target):
        path = match[3] if match[3].startswith(b"/") else b"/" + match[3]
        return (match[1] or b"") + path, parse(unquote(match[2].decode("latin-1")))
    return target, None if header is None else parse(header.decode("latin-1"))


@dataclass(frozen=True, slots=True)
class Choice:
    """The forms of one answer, those that it does not take, each with the reason, and the title of its framing."""

    names: tuple[str, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()
    framing: str = ""

    @property
    def cut(self) -> str | None:
        return next((name for name in self.names if form_of(name).kind == "cut"), None)

    @property
    def coding(self) -> str | None:
        return next((name for name in self.names if form_of(name).kind == "coding"), None)


AS_RECORDED: Final = Choice()


def chosen(
    names: Sequence[str], framing: Framing | None, body: bytes, version: str, accepts: Callable[[str], bool]
) -> Choice:
    """Choose the forms that an answer takes, of a framing (None: it cannot be decoded) and without its content coding.

    `version` is that of the request's HTTP; `accepts` returns True for a content coding that the client takes.
    """
    done, left_out = list[str](), list[tuple[str, str]]()
    for name in names:
        form, reason = form_of(name), ""
        if name == "h2":
            reason = "" if version == "2" else f"HTTP/{version}"
        elif not body and framing != "websocket":
            reason = "no body"
        elif framing is None and form.kind in ("text", "coding"):
            reason = "a content coding that cannot be decoded"
        elif framing is not None and form.framings and _TITLES[framing] not in form.framings:
            reason = _TITLES[framing]
        elif form.kind == "coding" and not accepts(name):
            reason = "Accept-Encoding"
        elif name == "chunk-extensions" and version == "2":
            reason = "HTTP/2"
        elif name == "bom" and body.startswith(BOM):
            reason = "there is one"
        if reason:
            left_out.append((name, reason))
        else:
            done.append(name)
    return Choice(tuple(done), tuple(left_out), "" if framing is None else _TITLES[framing])


# The text


class _Edit(NamedTuple):
    """The bytes from `start` to `end` are replaced."""

    start: int
    end: int
    text: bytes


class _Edits:
    """Changes of a text in ascending order, and their effect on its offsets."""

    def __init__(self, edits: Sequence[_Edit]) -> None:
        self._edits = edits
        self._starts = [edit.start for edit in edits]
        self._shifts = [*accumulate((len(edit.text) - (edit.end - edit.start) for edit in edits), initial=0)]

    def applied(self, data: bytes) -> bytes:
        pieces, at = list[bytes](), 0
        for edit in self._edits:
            pieces += (data[at : edit.start], edit.text)
            at = edit.end
        return b"".join([*pieces, data[at:]])

    def moved(self, offset: int) -> int:
        """Return the new place of an offset; bytes inserted there come behind it."""
        index = bisect_left(self._starts, offset)
        if index and offset < self._edits[index - 1].end:
            start, _, text = self._edits[index - 1]
            return start + self._shifts[index - 1] + min(offset - start, len(text))
        return offset + self._shifts[index]


class _Block(NamedTuple):
    """Lines up to a blank one: the offsets of its first line, second line, blank line and end; the names of its fields.

    It is `regular` if a standard reader uses all of its lines, and dispatches an event.
    """

    start: int
    second: int
    blank: int
    end: int
    names: frozenset[bytes]
    is_regular: bool


# The text behind the last line end is matched, too: a search that found none there would try each of its bytes.
_LINE: Final = re.compile(rb"([^\r\n]*+)(\r\n|\r|\n|\Z)")
_FIELD: Final = re.compile(rb"(data|event|id|retry)(?::|\Z)")


def _blocks(data: bytes) -> Iterator[_Block]:
    """Yield the finished blocks of an event stream; comments in front of one are not a part of it."""
    start = second = -1
    names, is_regular = set[bytes](), True
    for match in _LINE.finditer(data, len(BOM) if data.startswith(BOM) else 0):
        line, line_end = match.groups()
        if not line_end:
            return
        if not line:
            if start >= 0:
                regular = is_regular and b"data" in names
                yield _Block(start, second, match.start(), match.end(), frozenset(names), regular)
            start, names, is_regular = -1, set(), True
        elif not line.startswith(b":"):
            if start < 0:
                start, second = match.start(), match.end()
            field = _FIELD.match(line)
            names.add(field[1] if field else b"")
            is_regular = is_regular and field is not None


def _line_end(data: bytes) -> bytes:
    line = _LINE.match(data)
    return (line and line[2]) or b"\n"


def _ids(data: bytes) -> Iterator[_Edit]:
    line_end = _line_end(data)
    for number, block in enumerate(block for block in _blocks(data) if block.is_regular):
        fields = {b"id": b"id: %d" % number, b"retry": b"retry: 3000"}
        lines = [line + line_end for name, line in fields.items() if name not in block.names]
        if lines:
            yield _Edit(block.blank, block.blank, b"".join(lines))


def _comments(data: bytes) -> Iterator[_Edit]:
    line = b": wiretape" + _line_end(data)
    for block in _blocks(data):
        if block.is_regular:
            yield _Edit(block.start, block.start, line)
            yield _Edit(block.second, block.second, line)


def _replaced(pattern: bytes, text: bytes) -> Callable[[bytes], Iterator[_Edit]]:
    """Return the edits that put a text in the place of a pattern, or of its group if it has one."""
    compiled = re.compile(pattern)
    return lambda data: (_Edit(*match.span(compiled.groups), text) for match in compiled.finditer(data))


_EDITS: Final[dict[str, Callable[[bytes], Iterator[_Edit]]]] = {
    "id+retry": _ids,
    "comment": _comments,
    # Only the standard's fields lose a space: on other lines lenient readers find payloads, in which it may be text. A
    # value that begins with a space needs the one before it.
    "nospace": _replaced(rb"(?:\A(?:\xef\xbb\xbf)?|(?<=[\r\n]))(?:data|event|id|retry):( )(?! )", b""),
    "crlf": _replaced(rb"\r(?!\n)|(?<!\r)\n", b"\r\n"),
    "cr": _replaced(rb"\r?\n", b"\r"),
    "bom": lambda _: iter([_Edit(0, 0, BOM)]),
}
"""The changes of a text, in the order in which they are made."""
# A CR alone ends no line of NDJSON: it is white space, also within a line.
_CRLF_LINES: Final = _replaced(rb"(?<!\r)\n", b"\r\n")
# The first byte of a character of several bytes; bytes that are no UTF-8 are cut nowhere.
_LEADING_BYTE: Final = re.compile(
    rb"[\xc2-\xdf](?=[\x80-\xbf])|[\xe0-\xef](?=[\x80-\xbf]{2})|[\xf0-\xf4](?=[\x80-\xbf]{3})"
)


class Shaped(NamedTuple):
    """The writes of an answer in its forms, without its content coding and chunks; the spans of the recording's items.

    `between` are the offsets in the body at which a comment may be inserted, if there are pings.
    """

    writes: Schedule
    spans: Spans
    between: frozenset[int] = frozenset()


def shaped(writes: Schedule, spans: Spans, framing: Framing | None, choice: Choice) -> Shaped:
    """Return an answer's writes in the forms chosen for it; `writes` are as recorded, without a content coding."""
    for name, edits_of in _EDITS.items():
        if name in choice.names:
            changes = [*(_CRLF_LINES if name == "crlf" and framing == "ndjson" else edits_of)(writes.body)]
            edits = _Edits(changes)
            spans = [(edits.moved(start), edits.moved(end)) for start, end in spans]
            writes = _moved(writes, edits)
    cut = choice.cut
    if cut == "byte" and choice.coding:  # the coded bytes are cut, when they are written
        writes = replace(writes, apart_size=APART_BYTES)
    elif cut is not None:
        writes = recut(writes, cut, [end for _, end in spans], split_ends(writes.body, framing, spans))
    between = frozenset[int]()
    if framing == "sse" and ping_ns(choice.names) is not None:
        between = frozenset(_between(writes.body))
    return Shaped(writes, spans, between)


def _moved(writes: Schedule, edits: _Edits) -> Schedule:
    """Change the body; leave out writes that lose all their bytes, such as an LF behind a CR."""
    body = edits.applied(writes.body)
    ends = [len(body) if end == len(writes.body) else edits.moved(end) for end in writes.ends]
    places = [place for place, end in enumerate(ends) if end > (ends[place - 1] if place else 0)]
    return replace(
        writes,
        body=body,
        ends=[ends[place] for place in places],
        at_ns=[writes.at_ns[place] for place in places],
        joins_end=writes.joins_end and places[-1:] == [len(ends) - 1],
    )


def recut(writes: Schedule, cut: str, item_ends: Sequence[int], splits: Iterator[int]) -> Schedule:
    """Cut a body into other writes; each is due when its last byte came, so that no cut delays an event."""
    size = len(writes.body)
    by_item = sorted({end for end in item_ends if 0 < end < size} | {size})
    match cut:
        case "event":
            return rechunked(writes, by_item)
        case "byte":
            byte_count = min(APART_BYTES, size)
            ends = [*range(1, byte_count + 1), *(end for end in by_item if end > byte_count)]
            return replace(rechunked(writes, ends), apart_size=APART_BYTES)
        case "split":
            ends = sorted({*writes.ends, *(end for end in splits if 0 < end < size)})
            return replace(rechunked(writes, ends), apart_size=APART_BYTES)
        case "glued" if writes.at_ns:
            at = writes.at_ns[-1]
            glued = rechunked(replace(writes, at_ns=[at], ends=[size]), [size])
            head_ns = None if writes.head_ns is None else at
            is_whole = writes.end == "end"
            return replace(glued, head_ns=head_ns, end_ns=at, joins_head=True, joins_end=is_whole)
        case "glued":
            return writes
    return rechunked(writes, in_pieces(writes.body, int(cut)))


def split_ends(data: bytes, framing: Framing | None, spans: Spans) -> Iterator[int]:
    """Yield the places at which a reader that takes a write for an event, or for text, breaks."""
    yield from (match.end() for match in _LEADING_BYTE.finditer(data))
    if framing in ("sse", "ndjson"):
        yield from (match.start() + 1 for match in re.finditer(rb"\r\n", data))
    if framing == "sse":
        for block in _blocks(data):
            yield from (block.start + 1, block.blank)
    elif framing in ("json", "json-array"):
        yield 1
    else:
        yield from (start + 1 for start, _ in spans)


def _between(data: bytes) -> Iterator[int]:
    """Yield the places at which no event is open, and that a comment may follow."""
    start = len(BOM) if data.startswith(BOM) else 0
    if not start:  # a mark is one only as the first bytes
        yield 0
    is_open = False
    for match in _LINE.finditer(data, start):
        if not match[2]:
            return
        is_open = bool(match[1]) and (is_open or not match[1].startswith(b":"))
        if not is_open:
            yield match.end()


def ping_of(data: bytes, names: Sequence[str]) -> bytes:
    """Return the bytes of a ping in an event stream."""
    line_end = b"\r\n" if "crlf" in names else b"\r" if "cr" in names else _line_end(data)
    return b": ping" + 2 * line_end


# The wire


class Coder:
    """A content coding, flushed with each write, so that a reader gets each event when it is due."""

    def __init__(self, coding: str) -> None:
        self.add: Callable[[bytes], bytes]
        self.end: Callable[[], bytes]
        if coding == "gzip":
            packer = zlib.compressobj(wbits=31)  # 16 beside the 15 bits means a gzip header
            self.add = lambda data: packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH)
            self.end = packer.flush
        elif coding == "br":
            import brotli

            brotli_packer = brotli.Compressor(quality=4)  # 11, the default, takes 1 ms a write
            self.add = lambda data: brotli_packer.process(data) + brotli_packer.flush()
            self.end = brotli_packer.finish
        else:
            zstd_packer = _zstd().ZstdCompressor()
            self.add = lambda data: zstd_packer.compress(data, zstd_packer.FLUSH_BLOCK)
            self.end = zstd_packer.flush


def _zstd() -> Any:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd


def chunk(data: bytes) -> bytes:
    """Return a chunk of HTTP/1.1 with extensions; the last one for b""."""
    return b'0%X;wt=1;q="a;b"\r\n%b\r\n' % (len(data), data)


class FormCounts:
    """The answers in each form, and those that it was left out of, for the end of a log."""

    def __init__(self) -> None:
        self._answers, self._left_out, self._long = Counter[str](), Counter[tuple[str, str]](), Counter[str]()

    def add(self, choice: Choice, size: int) -> None:
        """Add an answer with a body of this size."""
        self._answers.update(choice.names)
        self._left_out.update(choice.left_out)
        if choice.cut in ("byte", "split") and size > APART_BYTES:
            self._long[choice.cut] += 1

    def lines(self) -> Iterator[str]:
        """Yield a line for each form."""
        for name in dict.fromkeys([*self._answers, *(name for name, _ in self._left_out)]):
            line = f"form {name}: {counted(self._answers[name], 'answer')}"
            reasons = {reason: count for (form, reason), count in self._left_out.items() if form == name}
            line += "".join(f", not for {count} ({reason})" for reason, count in reasons.items())
            if self._long[name]:
                way = "by event" if name == "byte" else "without waits"
                line += f"; of {self._long[name]} only the first 16 KiB, the rest {way}"
            yield line
