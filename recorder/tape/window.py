"""The frames that a writer gathers for one commit, and the time of that commit. No I/O."""

from collections.abc import Iterator, Sequence

from wiretape.recorder.clock import Clock
from wiretape.recorder.tape import journal
from wiretape.recorder.tape.append import Batch

WINDOW_NS = 100_000_000
"""Time from the first frame of a batch to its commit, which follows a relay's `GATHER_SECONDS`, …"""
PROMPT_NS = 20_000_000
"""… from a request's or an exchange's end, so that viewers see it soon …"""
SPACING_NS = 50_000_000
"""… and the minimum after the last commit. It also applies to measuring: many ended exchanges share transactions."""
WINDOW_BYTES = 1 << 20
WINDOW_FRAMES = 2000
"""Size of a batch that is committed without delay: bytes, and frames."""
_NOT_URGENT = (journal.SocketReads, journal.Upload, journal.Heartbeat)
_OF_EXCHANGE = journal.Begin | journal.Upload | journal.Uploaded | journal.Head | journal.End


class Window:
    """A batch of frames by the numbers of their sessions; `due` is the time of its commit, None while it is empty."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.batch: dict[int, list[journal.Frame]] = {}
        self.due: int | None = None
        self._count = self._size = self._committed_at = 0

    def __bool__(self) -> bool:
        return self._count > 0

    def add(self, session_no: int, frames: Sequence[journal.Frame], size: int) -> None:
        """Add frames of a session, and the bytes received with them."""
        self._size += size
        if not frames:
            return
        self.batch.setdefault(session_no, []).extend(frames)
        self._count += len(frames)
        window_ns = WINDOW_NS if all(isinstance(frame, _NOT_URGENT) for frame in frames) else PROMPT_NS
        due = max(self._clock.now() + window_ns, self._committed_at + SPACING_NS)
        self.due = due if self.due is None else min(self.due, due)

    def is_due(self) -> bool:
        """Return True if the batch is to be committed now."""
        is_full = self._size >= WINDOW_BYTES or self._count >= WINDOW_FRAMES
        return self._count > 0 and (is_full or (self.due is not None and self._clock.now() >= self.due))

    def committed(self) -> None:
        """Begin the next batch."""
        self.batch, self._count, self._size, self.due = {}, 0, 0, None
        self._committed_at = self._clock.now()


def by_exchange(batch: Batch) -> dict[str, dict[int, list[journal.Frame]]]:
    """Return the frames of each exchange by its id, in their order; those of none by the empty one."""
    parts: dict[str, dict[int, list[journal.Frame]]] = {}
    for session_no, frames in batch.items():
        for frame in frames:
            for id, piece in _pieces(frame):
                parts.setdefault(id, {}).setdefault(session_no, []).append(piece)
    return parts


def _pieces(frame: journal.Frame) -> Iterator[tuple[str, journal.Frame]]:
    """Yield the parts of a frame by exchange, each with the exchange's id; empty for a frame of none."""
    if isinstance(frame, journal.SocketReads):
        yield from ((run.id, journal.SocketReads([run], data)) for run, data in frame.parts())
    else:
        yield (frame.id if isinstance(frame, _OF_EXCHANGE) else ""), frame
