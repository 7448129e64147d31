"""Pure: faults on top of a recording, as changes of its schedule.

A fault is `KIND[:VALUE][:PROBABILITY][@POSITION]`: `cut@50%`, `stall:5s@#120`, `status:429:0.1`, `reset@#3`,
`corrupt@#7`, `slow:3x`. A position is a share of the body, or the number of an item of `show --part events` (which
counts comments, too), before which the fault strikes. Whether it strikes depends only on the seed, on the exchange and
on the number of times that it was served.
"""

import random
import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from wiretape.viewer.wings.replay.schedule import Schedule, timed

_FAULT = re.compile(r"(?P<kind>[a-z]+)(?::(?P<first>[^:@]+))?(?::(?P<second>[^:@]+))?(?:@(?P<position>.+))?")
_POSITION = re.compile(r"#(\d{1,9})|(\d{1,3}(?:\.\d+)?)%")
_VALUE_FORMS: Final = {
    "stall": re.compile(r"(\d{1,9}(?:\.\d+)?)(ms|s)"),
    "slow": re.compile(r"(\d{1,6}(?:\.\d+)?)x"),
    "status": re.compile(r"([45]\d\d)"),
}
"""The kinds that take a value, and what that looks like."""
_KINDS_WITH_POSITION: Final = ("cut", "reset", "corrupt", "stall")
EXAMPLES: Final = "cut@50%, reset@#3, stall:5s@#120, corrupt@#7, slow:3x, status:429:0.1"


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: `value` is ns of a stall, the factor of a slow-down or a status; `event` or `share` is where."""

    text: str
    kind: str
    value: float = 0
    probability: float = 1
    event: int | None = None
    share: float = 0


Spans = Sequence[tuple[int, int]]
"""The span of each event in the body."""


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
    event, share = _position(match["position"], text) if match["position"] else (None, 0.0)
    return Fault(text, kind, value, probability, event, share)


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


def _position(text: str, fault: str) -> tuple[int | None, float]:
    match = _POSITION.fullmatch(text)
    if match is None or (match[2] and float(match[2]) > 100):
        raise ValueError(f"{fault!r}: {text} is no position: use #120 (an event) or 50% (of the body)")
    return (int(match[1]), 0.0) if match[1] else (None, float(match[2]) / 100)


def striking(faults: Sequence[Fault], seed: int, id: str, turn: int) -> list[Fault]:
    """Return the faults that strike when an exchange is served for the `turn`-th time."""
    chance = random.Random(f"{seed} {id} {turn}")  # of its own: the order of other requests changes nothing
    return [fault for fault in faults if chance.random() < fault.probability]


def applied(schedule: Schedule, faults: Sequence[Fault], spans: Callable[[], Spans]) -> tuple[Schedule, list[Fault]]:
    """Apply faults to a schedule; return it with those that found their place. `spans` decodes the body."""
    done = []
    for fault in faults:
        place = _place(schedule, fault, spans)
        if place is not None and schedule.head_ns is not None and fault.kind in _APPLY:
            schedule = _APPLY[fault.kind](schedule, fault, place)
            done.append(fault)
    return schedule, done


def unplaced(struck: Sequence[Fault], done: Sequence[str]) -> tuple[str, ...]:
    """Return the faults whose place an answer does not have."""
    return tuple(fault.text for fault in struck if fault.kind in _KINDS_WITH_POSITION and fault.text not in done)


def _place(schedule: Schedule, fault: Fault, spans: Callable[[], Spans]) -> tuple[int, int] | None:
    """Return the span of a fault in the body; None if the body has no such place."""
    size = len(schedule.body)
    if fault.event is None:
        start = int(size * fault.share)
        return None if fault.kind == "corrupt" and start == size else (start, size)
    events = spans()
    return events[fault.event] if fault.event < len(events) and events[fault.event][1] <= size else None


def _broken(schedule: Schedule, fault: Fault, place: tuple[int, int]) -> Schedule:
    """End before the place, at the time of the next recorded byte."""
    at, (start, _) = _write_at(schedule, place[0]), place
    ends = [*schedule.ends[:at], *([start] if start > (schedule.ends[at - 1] if at else 0) else [])]
    at_ns = schedule.at_ns[: len(ends)]
    end_ns = schedule.at_ns[at] if at < len(schedule.at_ns) else schedule.end_ns
    end = "reset" if fault.kind == "reset" else "close"
    body = schedule.body[:start]
    return replace(schedule, body=body, at_ns=at_ns, ends=ends, end_ns=end_ns, end=end, joins_end=False)  # type: ignore[arg-type]


def _stalled(schedule: Schedule, fault: Fault, place: tuple[int, int]) -> Schedule:
    """Delay the bytes from the place on."""
    start, more = place[0], int(fault.value)
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
