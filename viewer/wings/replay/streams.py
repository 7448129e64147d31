"""Pure: the states of an answer that may be held, and every step between them.

A hold is a place: the answer is held as soon as all before the place is written, however late the bytes behind it are
due. The writer of the answer asks `Stream.limit` for the end of each write, and reports it to `Stream.wrote`.
A held answer goes on only by `release` (which a step uses, too, with a hold further on), or ends.
"""

import bisect
from collections.abc import Callable
from typing import Final, NamedTuple

from wiretape.recorder.errors import WiretapeError
from wiretape.recorder.relay.states import State, TransitionTable
from wiretape.viewer.wings.replay.positions import HEAD

SILENCE_NS: Final = 2_000_000_000
"""Least time without a write of a stalled answer, in ns."""


class ControlError(WiretapeError):
    """A request to hold, step or end an answer that is wrong, or that its state does not allow.

    `code` is `passed`, `not_held`, `not_reached`, `head_sent`, `over`, `unknown_stream` or `bad_request`.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class StreamState(State):
    """The state of an answer; its name in lower case is the one that users see."""

    WAITING = "no head is written yet"
    HELD = "all before a position is written, and nothing more until it is released"
    SENDING = "the next write is due soon"
    STALLED = "the next write is due after a silence of 2 s or more"
    CUT = "it ended by a close, a reset or garbage"
    DONE = "it ended as a whole"
    LEFT = "the client closed it before its end"
    REFUSED = "an error of wiretape's own, such as for a request that is not recorded"
    RELAYED = "upstream answers, and is recorded"

    @property
    def label(self) -> str:
        """The name that users see."""
        return self.name.lower()


_RUNNING: Final = (StreamState.WAITING, StreamState.SENDING, StreamState.STALLED)
_ENDINGS: Final = {
    "end": StreamState.DONE, "list": StreamState.DONE, "close": StreamState.CUT, "reset": StreamState.CUT,
    "garbage": StreamState.CUT, "fault": StreamState.CUT, "stopped": StreamState.CUT, "client": StreamState.LEFT,
    "refused": StreamState.REFUSED, "relayed": StreamState.RELAYED,
}  # fmt: skip
STREAM = TransitionTable[StreamState]({
    **{(state, "hold"): StreamState.HELD for state in _RUNNING},
    **{(state, "write"): StreamState.SENDING for state in _RUNNING},
    **{(state, "stall"): StreamState.STALLED for state in _RUNNING},
    (StreamState.HELD, "release"): StreamState.WAITING,
    **{(state, ending): last for state in (*_RUNNING, StreamState.HELD) for ending, last in _ENDINGS.items()},
})  # fmt: skip
"""The end of an answer is an event by the name of `Served.ending`."""


class Hold(NamedTuple):
    """A place to hold at; `is_limited`: for some time only, unlike a fault's."""

    place: int
    is_limited: bool = True


class Stream:
    """The state of an answer, its holds, and `place`: before the head, then the count of body bytes written."""

    __slots__ = ("_holds", "held_ns", "is_limited", "on_change", "place", "state")

    def __init__(self) -> None:
        self.state, self.place = StreamState.WAITING, HEAD
        self._holds: list[Hold] = []
        self.held_ns: int | None = None
        """When it was held, while it is; the clock's ns."""
        self.is_limited = False
        """True if it may be held for some time only."""
        self.on_change: Callable[[], None] = lambda: None

    @property
    def is_held(self) -> bool:
        return self.state is StreamState.HELD

    @property
    def is_over(self) -> bool:
        return self.state is not StreamState.HELD and self.state not in _RUNNING

    def require(self, *, is_held: bool = False) -> None:
        """Raise `ControlError` if the answer is over, or is not held and has to be."""
        if self.is_over:
            raise ControlError("over", f"the stream is over ({self.state.label}): nothing more is written")
        if is_held and not self.is_held:
            raise ControlError("not_held", f"the stream is not held ({self.state.label}): hold it first")

    def _step(self, event: str) -> None:
        state = STREAM[self.state, event]
        if state is not self.state:
            self.state = state
            self.on_change()

    def add(self, hold: Hold, now: int) -> None:
        """Add a hold, and hold at once if its place is reached; while it is held, the hold is a later one."""
        if not self.is_held:
            bisect.insort(self._holds, hold)
            self.reach(now)
        elif hold.place > self.place:
            bisect.insort(self._holds, hold)

    def forget(self) -> None:
        """Forget the holds that are still to come."""
        self._holds.clear()

    def limit(self, end: int) -> int:
        """Return the place up to which a write that would go to `end` may go."""
        return min(end, self._holds[0].place) if self._holds else end

    def is_hold_at(self, place: int) -> bool:
        """Return True if the answer will be held at a place."""
        return bool(self._holds) and self._holds[0].place <= place

    def wrote(self, place: int, now: int, silence_ns: int = 0) -> bool:
        """Note a write up to a place; the next one is due in `silence_ns`. Return True if the answer is held there."""
        self.place = place
        if self._holds and self.reach(now):
            return True
        # Of thousands of writes a second, nearly all are steps from sending to sending: looking them up costs more.
        if self.state is not StreamState.SENDING or silence_ns >= SILENCE_NS:
            self._step("stall" if silence_ns >= SILENCE_NS else "write")
        return False

    def reach(self, now: int) -> bool:
        """Hold if all before the place of a hold is written; return True then."""
        if not self.is_hold_at(self.place):
            return False
        reached = [hold for hold in self._holds if hold.place <= self.place]
        self._holds = self._holds[len(reached) :]
        self.held_ns, self.is_limited = now, any(hold.is_limited for hold in reached)
        self._step("hold")
        return True

    def release(self) -> None:
        """Go on: the next write follows."""
        self.held_ns = None
        self._step("release")
        if self.place > HEAD:
            self._step("write")

    def end(self, ending: str) -> None:
        """End, by the name of `Served.ending`."""
        self.held_ns = None
        self._step(ending)
