"""Pure: faults on top of a recording, as changes of its schedule.

A fault is `KIND[:VALUE][:PROBABILITY][@POSITION]`: `cut@50%`, `stall:5s@#120`, `status:429:0.1`, `reset@#3`,
`corrupt@#7`, `slow:3x`, `hold@#3`; `positions` has the positions, before which it strikes. Whether it does depends only
on the seed, on the exchange and on the number of times that it was served. A `hold` changes no schedule: whoever writes
the answer holds it.
"""

import random
import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from wiretape.viewer.wings.replay import positions
from wiretape.viewer.wings.replay.positions import HEAD, Places, Position
from wiretape.viewer.wings.replay.schedule import Schedule, timed

_FAULT = re.compile(r"(?P<kind>[a-z]+)(?::(?P<first>[^:@]+))?(?::(?P<second>[^:@]+))?(?:@(?P<position>.+))?")
_VALUE_FORMS: Final = {
    "stall": re.compile(r"(\d{1,9}(?:\.\d+)?)(ms|s)"),
    "slow": re.compile(r"(\d{1,6}(?:\.\d+)?)x"),
    "status": re.compile(r"([45]\d\d)"),
}
"""The kinds that take a value, and what that looks like."""
_KINDS_WITH_POSITION: Final = ("cut", "reset", "corrupt", "stall", "hold")
EXAMPLES: Final = "cut@50%, reset@#3, stall:5s@#120, corrupt@#7, hold@#3, slow:3x, status:429:0.1"


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: `value` is ns of a stall, the factor of a slow-down or a status."""

    text: str
    kind: str
    value: float = 0
    probability: float = 1
    position: Position | None = None
    is_limited: bool = False
    """True for a hold that may last for some time only."""


def parse(text: str) -> Fault:
    """Read a fault. Raise ValueError, with examples, if it is none."""
    match = _FAULT.fullmatch(text.strip())
    kind = match["kind"] if match else ""
    if match is None or kind not in (*_KINDS_WITH_POSITION, *_VALUE_FORMS):
        raise ValueError(f"{text!r} is no fault: use {EXAMPLES}")
    parts = [part for part in (match["first"], match["second"]) if part is not None]
    value = _value(kind, parts.pop(0) if parts else "", text) if kind in _VALUE_FORMS else 0
    probability = _probability(parts.pop(0), text) if parts else 1.0
    if parts or (kind in _KINDS_WITH_POSITION) != (match["position"] is not None):
        raise ValueError(f"{text!r}: {kind} is written as in {EXAMPLES}")
    position = _position(match["position"], text) if match["position"] else None
    if kind == "corrupt" and position is not None and position.text in ("head", "end"):
        raise ValueError(f"{text!r}: no event is there: corrupt is written as in {EXAMPLES}")
    return Fault(text, kind, value, probability, position)


def _value(kind: str, text: str, fault: str) -> float:
    match = _VALUE_FORMS[kind].fullmatch(text)
    if match is None or not float(match[1]):
        forms = {
            "stall": "a time above 0: stall:5s@#120",
            "slow": "a factor above 0: slow:3x",
            "status": "a status from 400 to 599: status:429:0.1",
        }
        raise ValueError(f"{fault!r}: {kind} takes {forms[kind]}")
    return float(match[1]) * (1 if kind != "stall" else 1e9 if match[2] == "s" else 1e6)


def _probability(text: str, fault: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 <= value <= 1:
        raise ValueError(f"{fault!r}: {text} is no probability: use a number from 0 to 1")
    return value


def _position(text: str, fault: str) -> Position:
    try:
        return positions.parse(text)
    except ValueError as error:
        raise ValueError(f"{fault!r}: {error}") from error


def striking(faults: Sequence[Fault], seed: int, id: str, turn: int) -> list[Fault]:
    """Return the faults that strike when an exchange is served for the `turn`-th time."""
    chance = random.Random(f"{seed} {id} {turn}")  # of its own: the order of other requests changes nothing
    return [fault for fault in faults if chance.random() < fault.probability]


def applied(schedule: Schedule, faults: Sequence[Fault], places: Places) -> tuple[Schedule, list[Fault]]:
    """Apply faults to the schedule of a whole body; return it with those that found their place in it."""
    done = []
    for fault in faults:
        changed = changed_by(schedule, fault, None if fault.position is None else places.span(fault.position))
        if changed is not None:
            schedule = changed
            done.append(fault)
    return schedule, done


def changed_by(schedule: Schedule, fault: Fault, span: tuple[int, int] | None) -> Schedule | None:
    """Return a schedule with a fault at a span; None if the fault does not find its place there."""
    size = len(schedule.body)
    if fault.position is None:
        span = 0, size
    if span is None or span[0] > size or (fault.kind == "corrupt" and span[0] == size):
        return None
    if schedule.head_ns is None or fault.kind not in _APPLY:
        return None
    return _APPLY[fault.kind](schedule, fault, (span[0], min(span[1], size)))


def unplaced(struck: Sequence[Fault], done: Sequence[str]) -> tuple[str, ...]:
    """Return the faults, without holds, whose place an answer does not have."""
    kinds = [kind for kind in _KINDS_WITH_POSITION if kind != "hold"]
    return tuple(fault.text for fault in struck if fault.kind in kinds and fault.text not in done)


def _broken(schedule: Schedule, fault: Fault, place: tuple[int, int]) -> Schedule:
    """End before the place, at the time of the next recorded byte."""
    start, end = place[0], "reset" if fault.kind == "reset" else "close"
    if start == HEAD:
        end_ns = schedule.head_ns or 0
        return replace(schedule, body=b"", head_ns=None, at_ns=[], ends=[], end_ns=end_ns, end=end, joins_end=False)  # type: ignore[arg-type]
    at = _write_at(schedule, start)
    ends = [*schedule.ends[:at], *([start] if start > (schedule.ends[at - 1] if at else 0) else [])]
    at_ns = schedule.at_ns[: len(ends)]
    end_ns = schedule.at_ns[at] if at < len(schedule.at_ns) else schedule.end_ns
    body = schedule.body[:start]
    return replace(schedule, body=body, at_ns=at_ns, ends=ends, end_ns=end_ns, end=end, joins_end=False)  # type: ignore[arg-type]


def _stalled(schedule: Schedule, fault: Fault, place: tuple[int, int]) -> Schedule:
    """Delay the bytes from the place on."""
    start, more = place[0], int(fault.value)
    if start == HEAD:
        return timed(schedule, lambda at: at + more)
    at = _write_at(schedule, start)
    ends, at_ns = [*schedule.ends], [*schedule.at_ns]
    if at < len(ends) and start > (ends[at - 1] if at else 0):  # a part of that write comes before the stall
        ends.insert(at, start)
        at_ns.insert(at, at_ns[at])
        at += 1
    at_ns[at:] = [at + more for at in at_ns[at:]]
    joins_head, joins_end = schedule.joins_head and at > 0, schedule.joins_end and at < len(ends)
    end_ns = schedule.end_ns + more
    return replace(schedule, ends=ends, at_ns=at_ns, end_ns=end_ns, joins_head=joins_head, joins_end=joins_end)


def _corrupt(schedule: Schedule, _: Fault, place: tuple[int, int]) -> Schedule:
    """Replace the first brace of an event, or else its first byte: it is no JSON any more."""
    start, end = place
    brace = schedule.body.find(b"{", start, end)
    at = start if brace < 0 else brace
    return replace(schedule, body=schedule.body[:at] + b"\xff" + schedule.body[at + 1 :])


def _slow(schedule: Schedule, fault: Fault, _: tuple[int, int]) -> Schedule:
    return timed(schedule, lambda at: int(at * fault.value))


def _write_at(schedule: Schedule, offset: int) -> int:
    """Return the number of the write that brings the byte at an offset."""
    return bisect_right(schedule.ends, offset)


_APPLY: Final[dict[str, Callable[[Schedule, Fault, tuple[int, int]], Schedule]]] = {
    "cut": _broken, "reset": _broken, "stall": _stalled, "corrupt": _corrupt, "slow": _slow,
}  # fmt: skip
