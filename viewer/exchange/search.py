"""Pure: targets of the inspector's playhead: typed positions, matches of a search, and markers."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import Final

from wiretape.viewer.exchange import markers
from wiretape.viewer.exchange.clocks import Times
from wiretape.viewer.exchange.opened import OpenedExchange
from wiretape.viewer.exchange.transcript import Transcript
from wiretape.viewer.timing.playback import Move, Playback
from wiretape.viewer.timing.verdicts import Verdict, longest_stall

BEFORE_NS: Final = 3_000_000_000
"""Time before a stall that is played with it, in ns."""

AFTER_NS: Final = 1_000_000_000
"""Time after a stall that is played with it, in ns."""


class Search:
    """The last words, filter of events, and words in the request; why there is no place is passed to `fails`."""

    def __init__(self, fails: Callable[[str], None]) -> None:
        self.filter_text = self.in_request = ""
        self._words = ""
        self._fails = fails

    def go_to(self, text: str, playback: Playback, transcript: Transcript, times: Times) -> Move | None:
        """Return the move to a typed position; None if there is no such place."""
        goal = markers.parse_goal(text)
        if goal is None:
            return None
        if goal.kind == "words":
            self._words, self.filter_text = goal.words, ""
        place = markers.place(goal, playback, transcript, times)
        if place is None:
            return self._fails(_no_position(text))
        at_ns, position = place
        return lambda moved: moved.seek_to(at_ns) if position is None else moved.seek(position)

    def next_match(
        self, playback: Playback, transcript: Transcript, matches: Sequence[int] | None, *, back: bool
    ) -> int | None:
        """Return the position of the next match, or of the one before; None if there is none.

        `matches` are the events that match the filter, ascending; None if there is no filter.
        """
        if self.filter_text and matches is not None:
            position = _beside(matches, playback.position, back=back)
            missing = f"no event fits {self.filter_text}"
        elif self._words:
            position = markers.position_of_words(transcript, playback.position, self._words, back=back)
            missing = f"not in the answer: {self._words}"
        else:
            return self._fails("nothing looked for yet: : and words, or / and a filter for events")
        if position is None:
            self._fails(missing)
        return position


def refusal(text: str, playback: Playback, transcript: Transcript, times: Times) -> str | None:
    """Return the error for a typed position that this stream does not have, or None."""
    goal = markers.parse_goal(text)
    if goal is None or markers.place(goal, playback, transcript, times) is not None:
        return None
    return _no_position(text)


def _no_position(text: str) -> str:
    return f"no such position: '{text.strip()}'; use {markers.EXAMPLES} or words of the answer"


def stall(exchange: OpenedExchange, playback: Playback, *, back: bool) -> Verdict | None:
    """Return the next stall that begins after the playhead, or the one before it; after the last comes the first.

    From the end, the next one is the longest.
    """
    stalls, at_ns = exchange.stalls, playback.media_ns
    if back:
        return next(
            (verdict for verdict in reversed(stalls) if verdict.from_ns < at_ns), stalls[-1] if stalls else None
        )
    if playback.at_end:
        return longest_stall(stalls)
    return next((verdict for verdict in stalls if verdict.from_ns > at_ns), stalls[0] if stalls else None)


def stall_here(exchange: OpenedExchange, playback: Playback) -> Verdict | None:
    """Return the stall that the playback is at or near; at its start, or far from any, the longest one."""
    at_ns = playback.media_ns
    near = (
        verdict
        for verdict in exchange.stalls
        if verdict.from_ns - BEFORE_NS <= at_ns <= verdict.from_ns + verdict.lasted_ns + AFTER_NS
    )
    inside = [*near] if at_ns else []
    return min(inside, key=lambda verdict: abs(verdict.from_ns - at_ns), default=longest_stall(exchange.stalls))


def _beside(events: Sequence[int], position: int, *, back: bool) -> int | None:
    """Return the position of the next of these events, or of the one before; past the last one comes the first."""
    if not events:
        return None
    place = bisect_left(events, position - 1) - 1 if back else bisect_right(events, position - 1)
    return events[place % len(events)] + 1
