"""Going to where somebody wants to be: as it is typed, to marked places, and again to what was looked for last."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence

from viewer.model.exchange import markers
from viewer.model.exchange.clocks import Times
from viewer.model.exchange.opened import Opened
from viewer.model.exchange.transcript import Transcript
from viewer.timing.playback import Playback

_FIRSTS = ("content", "reasoning", "tool", "refusal")


class Going:
    """Knows what was looked for last: words, or events that fit a filter; what there is not is told to `fails`."""

    def __init__(self, fails: Callable[[str], None]) -> None:
        self._fails = fails
        self._words = ""
        self._filter = ""

    def to(
        self, text: str, playback: Playback, transcript: Transcript, times: Times
    ) -> Callable[[Playback], None] | None:
        """Return what moves a playhead to a position as it is typed; None if there is no such place."""
        goal = markers.parse_goal(text)
        if goal is None:
            return None
        if goal.words:
            self._words, self._filter = goal.words, ""
        place = markers.place(goal, playback, transcript, times)
        if place is None:
            return self._fails(_refused(text))
        at_ns, position = place
        return lambda moved: moved.seek_to(at_ns) if position is None else moved.seek(position)

    def filtered(self, text: str) -> None:
        """Take note that events are what was looked for last, by a filter; without any it is the last words again."""
        self._filter = text

    def again(
        self, playback: Playback, transcript: Transcript, fitting: Sequence[int] | None, *, back: bool
    ) -> Callable[[Playback], None] | None:
        """Give what moves a playhead to where that is next, or was before; None if it is nowhere.

        `fitting` are the events that fit the filter, ascending; None if there is no filter.
        """
        if self._filter and fitting is not None:
            position = _beside(fitting, playback.position, back=back)
            missing = f"no event fits {self._filter}"
        elif self._words:
            position = markers.position_of_words(transcript, playback.position, self._words, back=back)
            missing = f"never said: {self._words}"
        else:
            return self._fails("nothing looked for yet: g and words, or / and a filter for events")
        if position is None:
            return self._fails(missing)
        return lambda moved: moved.seek(position)

    def marker(self, opened: Opened, playback: Playback, signs: str, *, back: bool) -> int | None:
        """Give the position of the next marker with one of these signs, or the one before; of any without signs.

        From the end, the next stall is the longest.
        """
        found = markers.beyond(opened.markers, playback.position, signs, back=back)
        if signs == "S" and not back and playback.at_end:
            found = opened.longest
        return found.position if found is not None else self._fails(markers.missing(signs))


def refusal(text: str, playback: Playback, transcript: Transcript, times: Times) -> str | None:
    """Return why a position as it is typed is none of this stream, None if it is one."""
    goal = markers.parse_goal(text)
    if goal is None or markers.place(goal, playback, transcript, times) is not None:
        return None
    return _refused(text)


def _refused(text: str) -> str:
    return f"no such position: '{text.strip()}'; use {markers.EXAMPLES} or words of the answer"


def first(transcript: Transcript, position: int) -> int | None:
    """Give where content begins; from there, where reasoning does, and so on; None if nothing was said."""
    places = [markers.first(transcript, kind) for kind in _FIRSTS]
    known = [place for place in places if place]
    if not known:
        return None
    at = known.index(position) + 1 if position in known else 0
    return known[at % len(known)]


def _beside(events: Sequence[int], position: int, *, back: bool) -> int | None:
    """Give the position of the next of these events, or of the one before; past the last one comes the first."""
    if not events:
        return None
    place = bisect_left(events, position - 1) - 1 if back else bisect_right(events, position - 1)
    return events[place % len(events)] + 1
