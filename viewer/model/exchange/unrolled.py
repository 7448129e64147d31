"""Pure: a body of nothing but events, read several at a time, as those need it who look at each of its events.

What `decode.batch` finds is much quicker to have than what decoding in full gives, and holds the same. Bodies of
another kind are left to `derive.decode`. A test holds both to each other.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, count, pairwise, repeat
from typing import Final

from recorder.decode import batch, encoding
from recorder.decode.batch import Events, Run
from recorder.decode.chat import Chunk
from recorder.decode.derive import Decoded
from recorder.decode.outcome import Exchange, Read, TimedChunk, TimedItem
from recorder.decode.templates import filler
from viewer.model.exchange.transcript import KINDS, Transcript

_DONE: Final = KINDS.index("done")


def events(exchange: Exchange, reads: Sequence[Read], body: bytes) -> Events | None:
    """Decode a body as events; None if it holds anything else, or its comments cannot be told their reads."""
    found = batch.events(exchange, reads, body)
    if found is None or not found.comments:
        return found
    is_plain = encoding.is_identity(exchange.content_encoding)
    if not is_plain or not _is_gapless(reads, len(body)):
        return None
    _arrive(found, reads)
    return found


def decoded(found: Events, transcript: Transcript) -> Decoded:
    """Give what verdicts need of a decoded body; the transcript must be made of it.

    What its items hold is left out, and of chunks that repeat one another all have the text of the first: `spoken`
    gives those with their own.
    """
    made = Decoded(transcript.data, True)
    places = found.at_ns, found.reads, repeat(""), repeat(""), repeat(""), transcript.starts, transcript.ends
    made.items = list(map(TimedItem, count(), repeat("event"), *places))
    for place in found.comments:
        made.items[place] = made.items[place]._replace(kind="comment")
    made.chunks = [one for run in found.runs for one in _chunks(run, transcript.ends)]
    made.done = _DONE in transcript.kinds
    made.dialect = _dialect(made)
    return made


def spoken(found: Events) -> Callable[[int], Chunk]:
    """Give what gives the chunk of a number, with its text."""
    begins = list(accumulate((len(run.texts) for run in found.runs), initial=0))

    def chunk(no: int) -> Chunk:
        place = bisect_right(begins, no) - 1
        run = found.runs[place]
        return run.chunk if run.part is None else filler(run.chunk, run.part)(run.texts[no - begins[place]])

    return chunk


def _is_gapless(reads: Sequence[Read], size: int) -> bool:
    follows = all(one.start + one.size == following.start for one, following in pairwise(reads))
    return bool(reads) and not reads[0].start and follows and reads[-1].start + reads[-1].size == size


def _arrive(found: Events, reads: Sequence[Read]) -> None:
    """Give comments the read with the end of their own line; until then it is that of the blank line below it."""
    starts = [read.start for read in reads]
    for place in found.comments:
        read = reads[bisect_right(starts, found.ends[place] - 1 - len(found.line_end)) - 1]
        found.at_ns[place], found.reads[place] = read.at_ns, read.seq


def _chunks(run: Run, ends: Sequence[int]) -> Iterator[TimedChunk]:
    first = run.items[0]
    return map(TimedChunk, run.items, run.at_ns, run.reads, repeat(run.chunk), ends[first : first + len(run.items)])


def _dialect(made: Decoded) -> str | None:
    """Say what `derive.decode` says of a stream that holds nothing but events which can be read."""
    claimed = next((timed.chunk.dialect for timed in made.chunks if timed.chunk.dialect), None)
    if claimed is None and any(timed.chunk.counts for timed in made.chunks):
        return "unknown"
    return claimed or ("chat" if made.done else None)
