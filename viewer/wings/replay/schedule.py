"""Pure: the bytes to write and their times, so that a client receives the answer as the recorder did.

One read of the recording is one write. All times are ns after the request, on one clock: lateness does not add up.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Final, Literal

from wiretape.recorder.decode import encoding
from wiretape.recorder.decode.decoder import decode
from wiretape.recorder.decode.exchange import Exchange, RecordedExchange

End = Literal["end", "close", "reset", "garbage", "silence"]
"""The end of an answer: as it is framed; cut by a close or a TCP reset; by bytes that are not HTTP; or never."""

_ENDS: Final[dict[str, End]] = {
    "end": "end", "reset": "reset", "framing": "garbage", "protocol": "garbage",
    "connect_timeout": "silence", "headers_timeout": "silence", "idle_timeout": "silence",
}  # fmt: skip
"""By how the transport ended; any other is a close: of a recording that was cut, too, nobody knows what followed."""

_PIECE = 256 << 10
"""Limit of a write of a cut body: no more than this waits for a slow client anyway."""
_LATEST: Final = 1 << 62
"""No time is later, ns: a century and a half."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """The writes of an answer: number *i* is `body` from `ends[i-1]` to `ends[i]`, and is due at `at_ns[i]`.

    The head is due at `head_ns`, None if none came; the first write goes with it, or the end with the last one, if they
    came in one read, or the end with the head if there is no write.
    """

    body: bytes
    head_ns: int | None
    at_ns: Sequence[int]
    ends: Sequence[int]
    end_ns: int
    end: End
    joins_head: bool = False
    joins_end: bool = False
    apart_size: int = 0
    """Bytes at the beginning of the body whose writes are kept apart in time, also where they are due at once."""

    def gap_ns(self, index: int) -> int:
        """Return the time of a write since the one before it, in ns."""
        return self.at_ns[index] - self.at_ns[index - 1] if index else 0


def recorded(answer: RecordedExchange) -> Schedule:
    """Return the schedule of an answer by its reads on the tape."""
    facts, reads = answer.exchange, answer.reads
    ends, read_indexes = encoding.spans(reads.start, reads.size, len(answer.body))
    at_ns, last_ns = list[int](), facts.headers_ns or 0
    for index in read_indexes:  # -1: the tape lacks the read, and its bytes go with the one before
        last_ns = max(last_ns, reads.at_ns[index]) if index >= 0 else last_ns
        at_ns.append(last_ns)
    end_ns = max(last_ns, facts.end_ns or 0)
    return Schedule(
        body=answer.body,
        head_ns=None if facts.status is None else facts.headers_ns or 0,
        at_ns=at_ns,
        ends=ends,
        end_ns=end_ns,
        end=_end(facts),
        joins_head=bool(at_ns) and at_ns[0] == facts.headers_ns,
        joins_end=(bool(at_ns) or facts.headers_ns is not None) and last_ns == facts.end_ns,
    )


def _end(facts: Exchange) -> End:
    """Return the end of an answer; one with a part missing on the tape is cut there, and never looks whole."""
    end = _ENDS.get(facts.ended_by or "", "close")
    if end == "end" and facts.gap_bytes:
        return "reset" if facts.framing == "close" else "close"
    return end


def rechunked(schedule: Schedule, ends: Sequence[int]) -> Schedule:
    """Cut the body at other offsets, ascending, the last its size; each piece is due when its last byte came.

    A long piece is several writes, so that no more of an answer waits for a slow client than of one as recorded.
    """
    if not schedule.at_ns:
        return schedule
    starts = [0, *ends[:-1]]
    ends = [at for start, end in zip(starts, ends, strict=True) for at in (*range(start + _PIECE, end, _PIECE), end)]
    at_ns = [schedule.at_ns[min(bisect_left(schedule.ends, end), len(schedule.at_ns) - 1)] for end in ends]
    return replace(schedule, at_ns=at_ns, ends=ends)


def in_pieces(body: bytes, size: int) -> Sequence[int]:
    return [*range(size, len(body), size), len(body)]


def events(answer: RecordedExchange) -> Sequence[tuple[int, int]]:
    """Return the span of each event in the body, in the order in which `show` numbers them.

    Of a compressed body, an event is where the read that completed it is.
    """
    decoded = decode(*answer)
    if encoding.is_identity(answer.exchange.coding):
        # An event starts where the one before it ended: the bytes between them are its own.
        ends = decoded.whole_ends
        return [*zip([*accumulate(ends, max, initial=0)][:-1], ends, strict=True)]
    spans = {stored_read.seq: (stored_read.start, stored_read.start + stored_read.size) for stored_read in answer.reads}
    return [spans.get(-1 if seq is None else seq, (0, 0)) for seq in decoded.reads]


def silence(schedule: Schedule, silence_ns: int) -> int | None:
    """Return the offset behind the first time without a write of `silence_ns` or more, from the head on, or None."""
    times = [schedule.head_ns or 0, *schedule.at_ns, schedule.end_ns]
    waits = (later - earlier for earlier, later in pairwise(times))
    return next(
        (offset for offset, wait_ns in zip((0, *schedule.ends), waits, strict=True) if wait_ns >= silence_ns), None
    )


def paced(schedule: Schedule, speed: float = 1.0, cap_ns: int | None = None) -> Schedule:
    """Speed a schedule up by a factor (`math.inf`: without any wait), and limit each wait to `cap_ns`."""
    if cap_ns is not None:
        instants = sorted({0, schedule.head_ns or 0, *schedule.at_ns, schedule.end_ns})
        shortened = accumulate((min(later - earlier, cap_ns) for earlier, later in pairwise(instants)), initial=0)
        shortened_ns = dict(zip(instants, shortened, strict=True))
        schedule = timed(schedule, shortened_ns.__getitem__)
    return schedule if speed == 1 else timed(schedule, lambda at: int(min(at / speed, _LATEST)))


def wait(wait_ns: int, speed: float, cap_ns: int | None) -> int:
    """Return the duration of a wait, played as `paced` does."""
    return int(min((wait_ns if cap_ns is None else min(wait_ns, cap_ns)) / speed, _LATEST))


def timed(schedule: Schedule, time_of: Callable[[int], int]) -> Schedule:
    head_ns = None if schedule.head_ns is None else time_of(schedule.head_ns)
    return replace(schedule, head_ns=head_ns, at_ns=[*map(time_of, schedule.at_ns)], end_ns=time_of(schedule.end_ns))
