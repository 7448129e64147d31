"""The chunks of a body for whoever reads all of a tape: as `derive.decode` gives them, several at a time.

A body of nothing but events of one `data` line each, and comments between them, as nearly every API sends it, is read
without an object for each event, and its payloads that repeat (see `repeats`) without decoding them. Whatever else a
body holds (events of several lines or with other fields, text outside of events, a cut or broken end, bytes that are no
UTF-8), it is `decode` that reads all of it. Which of the two did it cannot be told from what comes out.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Final

from recorder.decode import chunks, encoding
from recorder.decode.chat import Chunk
from recorder.decode.derive import MAX_ITEMS, decode, is_stream
from recorder.decode.outcome import Exchange, Read, TimedChunk
from recorder.decode.templates import Reader

Span = tuple[int, int, int, int] | Read
"""Of a read: seq, instant in ns, start and size; or all of it."""

# A chunk, its open part and the texts there, and how many bytes each of its events takes: None for what is no chunk.
_Row = tuple[Chunk | None, str | None, list[str], list[int]]

_LF: Final = b"\n\n"
_CRLF: Final = b"\r\n\r\n"


@dataclass(slots=True)
class Run:
    """One chunk, or several in a row that are the same but for one text.

    `part` (one of `repeats.PARTS`) says which text, `texts` has it for each chunk; of a chunk by itself it is None.
    `items`, `at_ns` and `reads` are, for each chunk, what `TimedChunk` has of it.
    """

    chunk: Chunk
    part: str | None
    texts: list[str]
    items: Sequence[int]
    at_ns: Sequence[int | None]
    reads: Sequence[int | None]


@dataclass(slots=True)
class Events:
    """A body of nothing but events of one `data` line each, and comments between them.

    A block is one of these; behind it comes a blank line, which is two of `line_end`. `starts` is where in `data` each
    begins, `ends` where that line has come, `comments` which blocks are comments; `runs` are their chunks. `at_ns` and
    `reads` have for each the instant and the seq of the read with the last byte of that line, None if the tape does not
    have it. `read_ends` is where in `data` each read ends, `read_at_ns` when it came, None for what no read covers.
    """

    data: bytes
    line_end: bytes
    starts: list[int]
    ends: list[int]
    comments: list[int]
    at_ns: list[int | None]
    reads: list[int | None]
    runs: list[Run]
    read_ends: Sequence[int]
    read_at_ns: Sequence[int | None]

    @property
    def blocks(self) -> list[bytes]:
        """The blocks, without the blank lines."""
        return self.data.split(2 * self.line_end)[:-1]


class _Unusual(Exception):
    """The body is not of the kind that is read here."""


def runs(exchange: Exchange, reads: Sequence[Span], body: bytes) -> list[Run]:
    """Decode the chunks of a body, in order; `reads` are as `decode` takes them."""
    found = events(exchange, reads, body)
    if found is not None:
        return found.runs
    timed = decode(exchange, [Read(one[0], one[1], None, one[-2], one[-1]) for one in reads], body)
    return [alone(one) for one in timed.chunks]


def alone(timed: TimedChunk) -> Run:
    """Give one chunk as a run."""
    return Run(timed.chunk, None, [""], (timed.item,), (timed.at_ns,), (timed.read,))


def events(exchange: Exchange, reads: Sequence[Span], body: bytes) -> Events | None:
    """Decode a body as events, if it holds nothing else and all of it could be had; else None."""
    columns = list(zip(*reads, strict=True)) or 4 * [()]
    span_ends, places = encoding.spans(columns[-2], columns[-1], len(body))
    plain = encoding.plain(exchange.content_encoding, body, span_ends)
    blank = _CRLF if b"\r" in plain.data else _LF
    try:
        if plain.flag is not None or not is_stream(exchange, plain.data):
            raise _Unusual
        found = list(_read(plain.data, blank))
    except _Unusual:
        return None
    starts = list(accumulate(chain.from_iterable(row[3] for row in found), initial=0))
    # A blank line ends at its CR: the LF after it is not waited for.
    ends = starts[1:] if blank is _LF else [end - 1 for end in starts[1:]]
    owners = _owners(plain.ends, places, ends)
    seqs, at_ns = ([None if place is None else column[place] for place in owners] for column in columns[:2])
    arrived = [None if place is None else columns[1][place] for place in places]
    line_end = blank[len(blank) // 2 :]
    events = Events(plain.data, line_end, starts[:-1], ends, [], at_ns, seqs, [], plain.ends, arrived)
    _tell(events, found)
    return events


def _owners(span_ends: Sequence[int], places: Sequence[int | None], ends: Sequence[int]) -> Sequence[int | None]:
    """Give the place of the read that holds the byte before each end."""
    if span_ends == ends:
        return places
    owners = [*places, None]
    return [owners[bisect_left(span_ends, end)] for end in ends]


def _read(data: bytes, blank: bytes) -> Iterator[_Row]:
    """Put together what repeats: one row for each block by itself, and for each few that repeat another."""
    reader = Reader()
    at = count = 0
    while at < len(data):
        row = _next(reader, data, at, blank)
        at += sum(row[3])
        count += len(row[3])
        if 2 * count >= MAX_ITEMS:
            raise _Unusual
        yield row


def _next(reader: Reader, data: bytes, at: int, blank: bytes) -> _Row:
    lead = b"data: " if data.startswith(b"data: ", at) else b"data:"
    found = reader.find(data, at, lead, blank)
    if found is not None:
        known, (texts, sizes) = found
        return known.chunk, known.part, texts, sizes
    end = data.find(blank, at)
    block = data[at : max(end, at)]
    if b"\n" in block or b"\r" in block or not block.startswith((lead, b":")):
        raise _Unusual
    chunk = _chunk(reader, block.removeprefix(lead)) if block.startswith(lead) else None
    return chunk, None, [""], [len(block) + len(blank)]


def _chunk(reader: Reader, raw: bytes) -> Chunk | None:
    payload = raw.decode("utf-8", "replace")
    chunk = chunks.read(payload)
    if chunk is chunks.MALFORMED or chunk is chunks.EMPTY:
        raise _Unusual
    if chunk is chunks.DONE:
        return None
    reader.learn(payload, chunk)
    return chunk


def _tell(events: Events, rows: Iterable[_Row]) -> None:
    """Say which blocks are comments, and which are chunks."""
    place = 0
    for chunk, part, texts, sizes in rows:
        end = place + len(sizes)
        if chunk is not None:
            arrived = events.at_ns[place:end], events.reads[place:end]
            events.runs.append(Run(chunk, part, texts, range(place, end), *arrived))
        elif events.data.startswith(b":", events.starts[place]):
            events.comments.append(place)
        place = end
