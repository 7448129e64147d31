"""The chunks of a body for whoever reads all of a tape: as `derive.decode` gives them, several at a time.

A body of nothing but events of one `data` line each, and comments between them, as nearly every API sends it, is read
without an object for each event, and its payloads that repeat (see `repeats`) without decoding them. Whatever else a
body holds (events of several lines or with other fields, text outside of events, a cut or broken end, bytes that are no
UTF-8), it is `decode` that reads all of it. Which of the two did it cannot be told from what comes out.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from recorder import chunks, encoding
from recorder.chat import Chunk
from recorder.derive import MAX_ITEMS, decode, is_stream
from recorder.exchange import Exchange, Read, TimedChunk
from recorder.repeats import Reader

Span = tuple[int, int, int, int]
"""Of a read: seq, instant in ns, start and size."""

# The place of the first, and what a `Run` has.
_Row = tuple[int, Chunk, str | None, list[str]]

_Arrival = tuple[int, int] | tuple[None, None]

_NO_READ: Final = (None, None)
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
    items: Sequence[int | None]
    at_ns: Sequence[int | None]
    reads: Sequence[int | None]


@dataclass(slots=True)
class Events:
    """A body of nothing but events of one `data` line each, and comments between them.

    `blocks` are these, without the blank line behind each, which is two of `line_end`; `ends` is where in `data` that
    line has come, `comments` which of them are comments; `runs` are their chunks. `arrivals` has for each block the seq
    and the instant of the read with the last byte of that line, None if the tape does not have it.
    """

    data: bytes
    blocks: list[bytes]
    line_end: bytes
    ends: list[int]
    comments: list[int]
    arrivals: list[_Arrival]
    runs: list[Run]


class _Unusual(Exception):
    """The body is not of the kind that is read here."""


def runs(exchange: Exchange, reads: Sequence[Span], body: bytes) -> list[Run]:
    """Decode the chunks of a body, in order; `reads` are as `decode` takes them."""
    found = events(exchange, reads, body)
    if found is not None:
        return found.runs
    timed = decode(exchange, [Read(seq, at_ns, None, start, size) for seq, at_ns, start, size in reads], body)
    return [alone(one) for one in timed.chunks]


def alone(timed: TimedChunk) -> Run:
    """Give one chunk as a run."""
    return Run(timed.chunk, None, [""], (timed.item,), (timed.at_ns,), (timed.read,))


def events(exchange: Exchange, reads: Sequence[Span], body: bytes) -> Events | None:
    """Decode a body as events, if it holds nothing else and all of it could be had; else None."""
    ends, places = encoding.spans([read[2] for read in reads], [read[3] for read in reads], len(body))
    plain = encoding.plain(exchange.content_encoding, body, ends)
    try:
        if plain.flag is not None or not is_stream(exchange, plain.data):
            raise _Unusual
        blocks, block_ends = _blocks(plain.data)
        found = list(_read(blocks))
    except _Unusual:
        return None
    owners = [_NO_READ if place is None else reads[place][:2] for place in places]
    arrivals = owners if plain.ends == block_ends else _arrivals(plain.ends, [*owners, _NO_READ], block_ends)
    line_end = b"\n" if plain.data.endswith(b"\n\n") else b"\r\n"
    comments = (
        [place for place, block in enumerate(blocks) if block[:1] == b":"] if b"\n:" in b"\n" + plain.data else []
    )
    runs = [_timed(row, arrivals) for row in found]
    return Events(plain.data, blocks, line_end, block_ends, comments, arrivals, runs)


def _arrivals(span_ends: Sequence[int], owners: Sequence[_Arrival], ends: Sequence[int]) -> list[_Arrival]:
    return [owners[bisect_left(span_ends, end)] for end in ends]


def _blocks(data: bytes) -> tuple[list[bytes], list[int]]:
    """Split a body at its blank lines; give the blocks, and where each ends, its blank line included."""
    separator = _CRLF if b"\r" in data else _LF
    blocks = data.split(separator)
    if blocks.pop() or 2 * len(blocks) >= MAX_ITEMS:
        raise _Unusual
    width = len(separator)
    # A blank line ends at its CR: the LF after it is not waited for.
    ends = accumulate([len(block) + width for block in blocks], initial=0 if separator is _LF else -1)
    return blocks, list(ends)[1:]


def _read(blocks: Sequence[bytes]) -> Iterator[_Row]:
    """Put together what repeats: one row for each chunk by itself, and for each few that repeat another."""
    reader = Reader()
    place = 0
    while place < len(blocks):
        block = blocks[place]
        lead = b"data: " if block.startswith(b"data: ") else b"data:"
        found = reader.find(blocks, place, lead)
        if found is not None:
            known, texts = found
            yield place, known.chunk, known.part, texts
            place += len(texts)
            continue
        if b"\n" in block or b"\r" in block or not block.startswith((lead, b":")):
            raise _Unusual
        chunk = _chunk(reader, block.removeprefix(lead)) if block.startswith(lead) else None
        if chunk is not None:
            yield place, chunk, None, [""]
        place += 1


def _chunk(reader: Reader, raw: bytes) -> Chunk | None:
    payload = raw.decode("utf-8", "replace")
    chunk = chunks.read(payload)
    if chunk is chunks.MALFORMED or chunk is chunks.EMPTY:
        raise _Unusual
    if chunk is chunks.DONE:
        return None
    reader.learn(payload, chunk)
    return chunk


def _timed(row: _Row, arrivals: Sequence[_Arrival]) -> Run:
    place, chunk, part, texts = row
    end = place + len(texts)
    own = arrivals[place:end]
    return Run(chunk, part, texts, range(place, end), [one[1] for one in own], [one[0] for one in own])
