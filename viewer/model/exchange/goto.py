"""Pure: a position of the playhead as it is typed: `3.2s`, `50%`, `#120`, `+500ms`, `12:00:03.5`, or words to look for.

Times are those of the screen's clock (`clocks.Times`). Going there is `playback`'s.
"""

import dataclasses
import re
from collections import deque
from dataclasses import dataclass
from typing import Final, Literal

from viewer.model.exchange.clocks import Times
from viewer.model.exchange.tracks import Track
from viewer.model.exchange.transcript import Transcript
from viewer.timing.playback import Playback

_NS: Final = {"ms": 1_000_000, "s": 1_000_000_000, "m": 60_000_000_000}
_NUMBER: Final = r"([0-9]{1,12}(?:\.[0-9]{1,9})?)"
_TIME: Final = re.compile(rf"([+-]?){_NUMBER}\s*(ms|s|m)")
_SHARE: Final = re.compile(rf"{_NUMBER}\s*%")
_TIME_OF_DAY: Final = re.compile(r"([0-9]{1,2}):([0-9]{2}):([0-9]{2}(?:\.[0-9]{1,9})?)")
_BLOCK: Final = 1 << 16
_EVENT: Final = re.compile(r"#([0-9]{1,12})")

EXAMPLES: Final = "3.2s, 50%, #120, +500ms, 12:00:03"
HELP: Final = f"{EXAMPLES.replace(',', ' ·')} · words"
"""What can be typed; events are numbered from 0."""


@dataclass(frozen=True, slots=True)
class Goal:
    """Where to go: to a displayed time in ns (`instant`), to a time of day in ns since midnight (`time_of_day`), that
    far from here (`offset`), to a share of the whole stream of 0 to 1 (`share`), to an event by its seq (`event`),
    or to the next place that says `words`.
    """

    kind: Literal["instant", "time_of_day", "offset", "share", "event", "words"]
    value: float = 0
    words: str = ""


def read(text: str) -> Goal | None:
    """Parse what was typed; None if that is nothing."""
    text = text.strip()
    if not text:
        return None
    if match := _TIME_OF_DAY.fullmatch(text):
        minutes = int(match[1]) * 60 + int(match[2])
        return Goal("time_of_day", minutes * _NS["m"] + round(float(match[3]) * _NS["s"]))
    if match := _TIME.fullmatch(text):
        ns = round(float(match[2]) * _NS[match[3]])
        return Goal("offset", -ns if match[1] == "-" else ns) if match[1] else Goal("instant", ns)
    if match := _SHARE.fullmatch(text):
        return Goal("share", min(float(match[1]) / 100, 1.0))
    if match := _EVENT.fullmatch(text):
        return Goal("event", int(match[1]))
    return Goal("words", words=text)


def place(goal: Goal, playback: Playback, transcript: Transcript, times: Times) -> tuple[int, int | None] | None:
    """Return the timestamp to go to, in ns since T0, or with it the position; None if there is no such place.

    A time goes to the last of the events that `times` displays at it.
    """
    match goal.kind:
        case "instant":
            return _at(times.at(int(goal.value)), transcript, times)
        case "time_of_day":
            at_ns = times.at_time_of_day(int(goal.value))
            return None if at_ns is None else _at(at_ns, transcript, dataclasses.replace(times, format="wall"))
        case "offset":
            return playback.media_ns + int(goal.value), None
        case "share":
            return int(playback.end_ns * goal.value), None
        case "event":
            return (0, int(goal.value) + 1) if goal.value < len(transcript) else None
    said = found(transcript, playback.position, goal.words)
    return None if said is None else (0, said)


def _at(at_ns: int, transcript: Transcript, times: Times) -> tuple[int, int | None]:
    position = times.position(transcript, at_ns)
    return (at_ns, None) if position == transcript.position(at_ns) else (0, position)


def found(transcript: Transcript, position: int, words: str, *, back: bool = False) -> int | None:
    """Give the next position after this one at which `words` have just been said, past the end from the start; or the
    one before it, past the start from the end. None if they never are. Case does not matter.
    """
    pattern = re.compile(re.escape(words), re.IGNORECASE)
    if back:
        before = [place for track in _tracks(transcript) for place in _before(track, pattern, len(words), position)]
        return max(before, key=lambda place: (place < position, place), default=None)
    said = [place for track in _tracks(transcript) for place in _in_track(track, pattern, position)]
    return min(said, key=lambda place: (place <= position, place), default=None)


def _tracks(transcript: Transcript) -> list[Track]:
    found = []
    for voice in transcript.voices:
        found += [voice.reasoning, voice.content, voice.refusal]
        for call in voice.calls:
            found += [call.name, call.arguments]
    return found


def _in_track(track: Track, pattern: re.Pattern[str], position: int) -> list[int]:
    """Give the position of the first match in a text, and that of the first one after a position."""
    ends = [pattern.search(track.text)]
    if ends[0] is not None:
        # A match that begins in what has been said may be completed only later.
        start = max(track.length(position) - len(pattern.pattern), 0)
        later = (match for match in pattern.finditer(track.text, start) if match.end() > track.length(position))
        ends.append(next(later, None))
    return [_said(track, match.end()) for match in ends if match is not None]


def _before(track: Track, pattern: re.Pattern[str], size: int, position: int) -> list[int]:
    """Give the position of the last match in a text that is complete before a position, and that of the last one."""
    ends = [_last(pattern, size, track.text, track.length(position - 1)), _last(pattern, size, track.text, len(track))]
    return [_said(track, end) for end in ends if end is not None]


def _last(pattern: re.Pattern[str], size: int, text: str, end: int) -> int | None:
    """Give where the last match before `end` ends; looking from there backwards, for a text may be long."""
    for stop in range(end, 0, -_BLOCK):
        found = deque(pattern.finditer(text, max(stop - _BLOCK, 0), min(stop + size - 1, end)), maxlen=1)
        if found:
            return found[0].end()
    return None


def _said(track: Track, end: int) -> int:
    """Give the position at which a text had come up to a place."""
    return next(track.deltas(end - 1)).event + 1
