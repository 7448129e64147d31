"""Terminal recordings: asciicast v3, as asciinema specifies it and its players play it.

The answer of one exchange appears with its recorded timing: content plain, reasoning dim, tool calls in cyan, a refusal
in red. Markers show the first output, the beginning of each stall, errors, and the outcome. Times count from T0, the
moment before the request was sent, exact to the microsecond: rounding errors do not accumulate. A race is a film.

Recorded text is hostile: all of it passes `safe`, so that a player's terminal gets no control characters except line
ends.
"""

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import BinaryIO, Final, Literal, NamedTuple

from wiretape.recorder.decode.silences import awaited
from wiretape.recorder.decode.stalls import DEFAULT, Thresholds
from wiretape.recorder.sanitize import safe
from wiretape.viewer.exchange.colours import coloured
from wiretape.viewer.exchange.opened import FullExchange
from wiretape.viewer.text import formatting
from wiretape.viewer.text.cells import Part, Tone, joined
from wiretape.viewer.timing.playback import RECORDED, Pace
from wiretape.viewer.wings.films.film import USUAL_SIZE, Film, ScreenSize

_RED: Final = "\x1b[31m"
_RESET: Final = "\x1b[0m"
_TONES: Final[dict[Tone, str]] = {
    "plain": "", "strong": "\x1b[1m", "muted": "\x1b[2m", "accent": "\x1b[36m", "success": "\x1b[32m",
    "warning": "\x1b[33m", "error": _RED, "reasoning": "\x1b[35m",
}  # fmt: skip


class _Order(IntEnum):
    """The order of events with the same timestamp."""

    MARK_BEFORE = 0
    OUTPUT = 1
    MARK_AFTER = 2
    END = 3


class Event(NamedTuple):
    """An event of asciicast: output, a marker, or the exit status."""

    at_ns: int
    code: Literal["o", "m", "x"]
    data: str
    order: _Order = _Order.OUTPUT


def write(
    out: BinaryIO,
    full: FullExchange,
    limits: Thresholds = DEFAULT,
    pace: Pace = RECORDED,
    size: ScreenSize = USUAL_SIZE,
) -> int:
    """Write a recording that marks stalls by these limits; return the number of its events."""
    return _write_lines(out, lines(full, limits, pace, size))


def write_race(out: BinaryIO, a: FullExchange, b: FullExchange, film: Film) -> int:
    """Write a recording of the film of two exchanges; return the number of its events."""
    return _write_lines(out, itertools.chain([_header([a, b], film.size)], _lines(_frame_events(film))))


def _write_lines(out: BinaryIO, lines: Iterable[str]) -> int:
    count = -1
    for line in lines:
        out.write(f"{line}\n".encode())
        count += 1
    return count


def lines(
    full: FullExchange, limits: Thresholds = DEFAULT, pace: Pace = RECORDED, size: ScreenSize = USUAL_SIZE
) -> Iterator[str]:
    """Yield a recording line by line: its header, then its events in time; stalls are marked by these limits."""
    yield _header([full], size)
    events = sorted(_events(full, limits), key=lambda event: (event.at_ns, event.order))
    recorded_ns = list(itertools.accumulate((event.at_ns for event in events), max))
    playback = pace.playback(recorded_ns, recorded_ns[-1], lambda: 0)
    playing_ns = map(playback.playing_ns, recorded_ns)
    yield from _lines(event._replace(at_ns=at_ns) for event, at_ns in zip(events, playing_ns, strict=True))


def _header(exchanges: Sequence[FullExchange], size: ScreenSize) -> str:
    names = (filter(None, (full.row.id, full.row.model, full.row.outcome)) for full in exchanges)
    title = safe(" | ".join(map(" · ".join, names)))
    term = {"cols": size.columns, "rows": size.lines, "type": "xterm-256color"}
    return json.dumps({"version": 3, "term": term, "timestamp": int(exchanges[0].started.timestamp()), "title": title})


def _lines(events: Iterable[Event]) -> Iterator[str]:
    previous_us = 0
    for event in events:
        at_us = max(event.at_ns // 1000, previous_us)
        # Plain decimals: players read the digits themselves, and know no exponents.
        seconds, micros = divmod(at_us - previous_us, 1_000_000)
        yield f'[{seconds}.{micros:06}, "{event.code}", {json.dumps(event.data)}]'
        previous_us = at_us


def _frame_events(film: Film) -> Iterator[Event]:
    """Yield an event for each frame, with its changed lines, at its exact time."""
    previous: Sequence[Sequence[Part]] = [()] * film.size.lines
    start = "\x1b[?25l\x1b[2J"  # hides the cursor and clears the screen
    for frame in film.frames(each_event=True):
        pairs = enumerate(zip(frame.lines, previous, strict=True), 1)
        changes = start + "".join(f"\x1b[{number};1H{_styled(line)}" for number, (line, old) in pairs if line != old)
        if changes:
            yield Event(frame.at_ns, "o", changes)
        start, previous = "", frame.lines
    yield Event(frame.at_ns, "o", "\x1b[?25h")  # shows the cursor again
    yield Event(frame.at_ns, "x", "0")


def _styled(line: Sequence[Part]) -> str:
    return "".join(f"{sgr}{text}{_RESET}" if (sgr := _TONES[tone]) else text for text, tone in joined(line))


def _events(full: FullExchange, limits: Thresholds) -> Iterator[Event]:
    chunks = list(full.decoded.chunks())
    outputs = [timed for timed in chunks if timed.chunk.output]
    yield from (Event(at_ns, "o", text) for at_ns, text in coloured(chunks, full.last_ns or 0))
    first_output_ns = next((timed.at_ns for timed in outputs if timed.at_ns is not None), None)
    if first_output_ns is not None and full.decoded.stream:
        yield Event(first_output_ns, "m", f"ttft {formatting.ms(first_output_ns / 1e6)} ms", _Order.MARK_BEFORE)
    for answer in awaited(full.exchange, full.decoded):
        for from_ns, to_ns in answer.stalls(limits):
            yield Event(from_ns, "m", f"stall {formatting.ms((to_ns - from_ns) / 1e6)} ms", _Order.MARK_AFTER)
    for timed in chunks:
        if timed.chunk.fault is not None:
            message = ": ".join(filter(None, (timed.chunk.fault.code, timed.chunk.fault.message)))
            at_ns = timed.at_ns if timed.at_ns is not None else full.last_ns or 0
            yield Event(at_ns, "m", f"error {safe(message)}".rstrip(), _Order.MARK_AFTER)
    yield from _ending(full)


def _ending(full: FullExchange) -> Iterator[Event]:
    row, at_ns, message = full.row, full.last_ns or 0, safe(full.ending)
    reason = f", finish reason {safe(row.finish_reason)}" if row.finish_reason else ""
    is_complete = row.outcome == "complete"
    yield Event(at_ns, "o", "\r\n" if is_complete else f"\r\n{_RED}[{message}]{_RESET}\r\n", _Order.END)
    yield Event(at_ns, "m", message + reason, _Order.END)
    if row.ended_by is not None:
        yield Event(at_ns, "x", "0" if is_complete else "1", _Order.END)
