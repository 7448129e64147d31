"""Pure: destinations in a stream: its markers, and typed positions.

A position is the number of received events; the current event is the last of them. Times are those of the screen's
clock (`clocks.Times`).
"""

import dataclasses
import re
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from wiretape.viewer.exchange.clocks import Times
from wiretape.viewer.exchange.transcript import KINDS, OUTPUT, Track, Transcript
from wiretape.viewer.text import formatting
from wiretape.viewer.timing.playback import Playback

SIGNS: Final = {
    "B": "first byte", "R": "first reasoning", "C": "first content", "T": "first tool call", "S": "stall",
    "E": "error, or an event that cannot be read", "D": "done",
}  # fmt: skip
"""The meaning of each marker."""

EXAMPLES: Final = "3.2s, 50%, +10%, #120, +500ms, 2:30, 12:00:03, @content"
HELP: Final = f"{EXAMPLES.replace(',', ' ·')} · words"
"""The syntax of a position; events are numbered from 0, `@` and a kind is the first event of that kind."""

_NS: Final = {"ms": 1_000_000, "s": 1_000_000_000, "m": 60_000_000_000}
_NUMBER: Final = r"([0-9]{1,12}(?:\.[0-9]{1,9})?)"
_TIME: Final = re.compile(rf"([+-]?){_NUMBER}\s*(ms|s|m)")
_SHARE: Final = re.compile(rf"([+-]?){_NUMBER}\s*%")
_TIME_OF_DAY: Final = re.compile(r"([0-9]{1,2}):([0-9]{2}):([0-9]{2}(?:\.[0-9]{1,9})?)")
_MINUTES: Final = re.compile(r"([0-9]{1,6}):([0-9]{2}(?:\.[0-9]{1,9})?)")
_EVENT: Final = re.compile(r"#([0-9]{1,12})")


@dataclass(frozen=True, slots=True)
class Marker:
    """A place with a sign of `SIGNS`; `at_ns` is None where its timestamp is not on the tape."""

    sign: str
    position: int
    at_ns: int | None


def markers(transcript: Transcript, first_byte_ns: int | None, stalls_end_ns: Iterable[int] = ()) -> list[Marker]:
    """Return the markers of a stream in their order; `stalls_end_ns` are the timestamps at which stalls ended."""
    kinds_of_signs = {"R": "reasoning", "C": "content", "T": "tool"}
    events = [(sign, transcript.kinds.find(KINDS.index(kind))) for sign, kind in kinds_of_signs.items()]
    events += [("S", _output_at(transcript, at_ns)) for at_ns in stalls_end_ns]
    errors = {KINDS.index(kind) for kind in ("error", "malformed")}
    events += [("E", event) for event, kind in enumerate(transcript.kinds) if kind in errors][:10_000]
    events.append(("D", transcript.end_event))
    places = [
        Marker(sign, event + 1, transcript.at[event] if transcript.timed[event] else None)
        for sign, event in events
        if event >= 0
    ]
    if first_byte_ns is not None and len(transcript):
        places.insert(0, Marker("B", transcript.position(first_byte_ns), first_byte_ns))
    return sorted(places, key=lambda marker: (marker.position, marker.at_ns or 0))


def beyond(markers: Sequence[Marker], position: int, sign: str) -> Marker | None:
    markers_of_sign = [marker for marker in markers if marker.sign == sign]
    return next(
        (marker for marker in markers_of_sign if marker.position > position),
        markers_of_sign[0] if markers_of_sign else None,
    )


def label(position: int) -> str:
    """Return the number of the last event that has come at a position, as `#6`; before the first event, `#–`.

    Events are numbered from 0, as their `seq` is in `show --part events` and in exports.
    """
    return f"#{position - 1:,}" if position else f"#{formatting.UNKNOWN}"


def missing(sign: str) -> str:
    return "no error and no unreadable event here" if sign == "E" else f"no {SIGNS[sign]} here"


def position_of_kind(transcript: Transcript, kind: str) -> int | None:
    return transcript.kinds.find(KINDS.index(kind)) + 1 or None


def _output_at(transcript: Transcript, at_ns: int) -> int:
    """Return the first event with output of those at a timestamp, or just the first. There must be one."""
    start, end = bisect_left(transcript.at, at_ns), bisect_right(transcript.at, at_ns)
    start = min(start, len(transcript) - 1)
    return next((event for event in range(start, end) if transcript.kind(event) in OUTPUT), start)


@dataclass(frozen=True, slots=True)
class Goal:
    """A destination, as it was typed.

    `instant` is a displayed time and `offset` a distance from here, in ns; `time_of_day` is in ns since midnight,
    `share` of the whole stream is 0 to 1 and `step` such a distance from here, `event` is its seq, `first` the first
    event of a kind in `words`, and `words` is the next occurrence of a text.
    """

    kind: Literal["instant", "time_of_day", "offset", "share", "step", "event", "first", "words"]
    value: float = 0
    words: str = ""


def parse_goal(text: str) -> Goal | None:
    """Parse a destination, or return None if nothing was typed."""
    text = text.strip()
    if not text:
        return None
    if match := _TIME_OF_DAY.fullmatch(text):
        minutes = int(match[1]) * 60 + int(match[2])
        return Goal("time_of_day", minutes * _NS["m"] + round(float(match[3]) * _NS["s"]))
    if match := _MINUTES.fullmatch(text):
        return Goal("instant", int(match[1]) * _NS["m"] + round(float(match[2]) * _NS["s"]))
    if match := _TIME.fullmatch(text):
        ns = round(float(match[2]) * _NS[match[3]])
        return Goal("offset", -ns if match[1] == "-" else ns) if match[1] else Goal("instant", ns)
    if match := _SHARE.fullmatch(text):
        share = min(float(match[2]) / 100, 1.0)
        return Goal("step", -share if match[1] == "-" else share) if match[1] else Goal("share", share)
    if match := _EVENT.fullmatch(text):
        return Goal("event", int(match[1]))
    if text[0] == "@" and text[1:] in KINDS:
        return Goal("first", words=text[1:])
    return Goal("words", words=text)


def place(goal: Goal, playback: Playback, transcript: Transcript, times: Times) -> tuple[int, int | None] | None:
    """Return the timestamp to go to, in ns since T0, or with it the position; None if there is no such place.

    A time goes to the last of the events that `times` displays at it.
    """
    match goal.kind:
        case "instant":
            return _at(int(goal.value), transcript, times)
        case "time_of_day":
            at_ns = times.at_time_of_day(int(goal.value))
            return None if at_ns is None else _at(at_ns, transcript, dataclasses.replace(times, format="wall"))
        case "offset":
            return playback.media_ns + int(goal.value), None
        case "share":
            return int(playback.end_ns * goal.value), None
        case "step":
            return playback.media_ns + int(playback.end_ns * goal.value), None
        case "first":
            event = position_of_kind(transcript, goal.words)
            return None if event is None else (0, event)
        case "event":
            return (0, int(goal.value) + 1) if goal.value < len(transcript) else None
    position = position_of_words(transcript, playback.position, goal.words)
    return None if position is None else (0, position)


def _at(at_ns: int, transcript: Transcript, times: Times) -> tuple[int, int | None]:
    position = times.position(transcript, at_ns)
    return (at_ns, None) if position == transcript.position(at_ns) else (0, position)


def position_of_words(transcript: Transcript, position: int, words: str, *, back: bool = False) -> int | None:
    """Return the next position after this one at which `words` are complete, or the one before it; None if never.

    After the last one comes the first again. Case does not matter.
    """
    pattern = re.compile(re.escape(words), re.IGNORECASE)
    positions = []
    for _, track in (text for voice in transcript.voices for text in voice.texts):
        if match := (_match_before if back else _match_after)(track, pattern, track.length(position - back)):
            positions.append(next(track.deltas(match.end() - 1)).event + 1)
    if back:
        return max(positions, key=lambda place: (place < position, place), default=None)
    return min(positions, key=lambda place: (place <= position, place), default=None)


def _match_after(track: Track, pattern: re.Pattern[str], length: int) -> re.Match[str] | None:
    """Return the first match that is complete only after `length` characters, or else the first one."""
    # A match that ends behind `length` may begin before it: by its own length at most, which is that of the escaped
    # words or less.
    matches = pattern.finditer(track.text, max(length - len(pattern.pattern), 0))
    return next((match for match in matches if match.end() > length), None) or pattern.search(track.text)


def _match_before(track: Track, pattern: re.Pattern[str], length: int) -> re.Match[str] | None:
    """Return the last match that is complete within `length` characters, or else the last one."""
    matches = deque(pattern.finditer(track.text, 0, length), 1) or deque(pattern.finditer(track.text), 1)
    return matches[0] if matches else None
