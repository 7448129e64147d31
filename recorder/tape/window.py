"""The frames that a writer gathers for one commit, and the time of that commit. No I/O."""

from collections.abc import Sequence

from wiretape.recorder.clock import Clock
from wiretape.recorder.tape import journal
from wiretape.recorder.tape.append import Batch

WINDOW_NS = 100_000_000
"""Time from the first frame of a batch to its commit: with a relay's `GATHER_SECONDS`, less than the 0.2 s that a kill
may cost. Each commit waits for the disk once, whatever it holds."""
PROMPT_NS = 20_000_000
"""Time from a request's or an exchange's end to its commit, so that viewers see it soon."""
SPACING_NS = 50_000_000
"""Minimum time between commits. It also applies to measuring: many ended exchanges share transactions."""
WINDOW_BYTES = 1 << 20
"""Bytes of a batch that is committed without delay."""
WINDOW_FRAMES = 2000
"""Frames of a batch that is committed without delay."""


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
        may_wait = (journal.SocketReads, journal.Upload, journal.Heartbeat)
        window_ns = WINDOW_NS if all(isinstance(frame, may_wait) for frame in frames) else PROMPT_NS
        due = max(self._clock.now() + window_ns, self._committed_at + SPACING_NS)
        self.due = due if self.due is None else min(self.due, due)

    def is_due(self) -> bool:
        """Return True if the batch is to be committed now."""
        is_full = self._size >= WINDOW_BYTES or self._count >= WINDOW_FRAMES
        return self._count > 0 and (is_full or (self.due is not None and self._clock.now() >= self.due))

    def start_next(self) -> None:
        """Begin the next batch, after the commit of this one."""
        self.batch, self._count, self._size, self.due = {}, 0, 0, None
        self._committed_at = self._clock.now()


def by_exchange(batch: Batch) -> dict[str, dict[int, list[journal.Frame]]]:
    """Return the frames of each exchange by its id, in their order; those of none by the empty one."""
    parts: dict[str, dict[int, list[journal.Frame]]] = {}
    for session_no, frames in batch.items():
        for frame in frames:
            pieces: list[tuple[str, journal.Frame]]
            match frame:
                case journal.SocketReads():
                    pieces = [(run.id, journal.SocketReads([run], data)) for run, data in frame.parts()]
                case journal.Begin() | journal.Upload() | journal.Uploaded() | journal.Head() | journal.End():
                    pieces = [(frame.id, frame)]
                case _:
                    pieces = [("", frame)]
            for id, piece in pieces:
                parts.setdefault(id, {}).setdefault(session_no, []).append(piece)
    return parts
