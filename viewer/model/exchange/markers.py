"""Pure: the places of a stream that are worth going to: firsts, stalls, errors and its end.

A place is given as a position: how many events have come, so that the one that matters is the last of them. What a
stall is, is judged in `verdicts`; going there is `playback`'s.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from viewer import formatting
from viewer.model.exchange.transcript import KINDS, OUTPUT, Transcript

SIGNS: Final = {
    "B": "first byte", "R": "first reasoning", "C": "first content", "T": "first tool call", "S": "stall",
    "E": "error, or an event that cannot be read", "D": "done",
}  # fmt: skip
"""What each marker stands for."""

_FIRSTS: Final = {"R": "reasoning", "C": "content", "T": "tool"}
_WRONG: Final = frozenset({"error", "malformed"})
_MOST: Final = 10_000


@dataclass(frozen=True, slots=True)
class Marker:
    """A place with a sign of `SIGNS`; `position` counts the events up to and including the one meant.

    `at_ns` is None where its instant is not on the tape.
    """

    sign: str
    position: int
    at_ns: int | None


def markers(transcript: Transcript, first_byte_ns: int | None, stalls_end_ns: Iterable[int] = ()) -> list[Marker]:
    """Give the markers of a stream in their order; `stalls_end_ns` are the instants at which stalls ended."""
    found = []
    if first_byte_ns is not None and len(transcript):
        found.append(Marker("B", transcript.position(first_byte_ns), first_byte_ns))
    firsts = {sign: transcript.kinds.find(KINDS.index(kind)) for sign, kind in _FIRSTS.items()}
    found += [_marker(transcript, sign, event) for sign, event in firsts.items() if event >= 0]
    found += [_marker(transcript, "S", output_at(transcript, at)) for at in stalls_end_ns]
    wrong = {KINDS.index(kind) for kind in _WRONG}
    found += [_marker(transcript, "E", event) for event, kind in enumerate(transcript.kinds) if kind in wrong][:_MOST]
    done = transcript.kinds.rfind(KINDS.index("done"))
    if done >= 0:
        found.append(_marker(transcript, "D", done))
    return sorted(found, key=lambda marker: (marker.position, marker.at_ns or 0))


def beyond(markers: Sequence[Marker], position: int, signs: str = "", *, back: bool = False) -> Marker | None:
    """Give the next marker after a position, or the one before it; of these signs, if any are given. Past the last one
    come the first ones again.
    """
    fitting = [marker for marker in markers if not signs or marker.sign in signs]
    if back:
        fitting = [marker for marker in fitting[::-1] if marker.position < position] or fitting[::-1]
    else:
        fitting = [marker for marker in fitting if marker.position > position] or fitting
    return fitting[0] if fitting else None


def label(position: int) -> str:
    """Return the number of the last event that has come at a position, as `#6`; before the first event, `#–`.

    Events are numbered from 0, as their `seq` is in `show --part events` and in exports.
    """
    return f"#{position - 1:,}" if position else f"#{formatting.UNKNOWN}"


def missing(signs: str) -> str:
    """Say that there is no marker with one of these signs, or none at all without signs."""
    if signs == "E":
        return "no error and no unreadable event here"
    return f"no {SIGNS[signs] if signs else 'marker'} here"


def first(transcript: Transcript, kind: str) -> int | None:
    """Give the position of the first event of a kind."""
    event = transcript.kinds.find(KINDS.index(kind))
    return None if event < 0 else event + 1


def output_at(transcript: Transcript, at_ns: int) -> int:
    """Give the first event with output of those that came at an instant, or just the first. There must be one."""
    start, end = bisect_left(transcript.at, at_ns), bisect_right(transcript.at, at_ns)
    start = min(start, len(transcript) - 1)
    return next((event for event in range(start, end) if transcript.kind(event) in OUTPUT), start)


def _marker(transcript: Transcript, sign: str, event: int) -> Marker:
    return Marker(sign, event + 1, transcript.at[event] if transcript.timed[event] else None)
