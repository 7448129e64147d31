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
from typing import BinaryIO, Final

from wiretape.recorder.decode.decoder import TimedChunk
from wiretape.recorder.decode.silences import awaited
from wiretape.recorder.decode.stalls import DEFAULT, Thresholds
from wiretape.recorder.sanitize import safe
from wiretape.viewer.exchange.colours import coloured
from wiretape.viewer.source.tape.exchange import FullExchange
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
_CLEARED: Final = "\x1b[?25l\x1b[2J"
"""Hides the cursor and clears the screen."""
_ENDED: Final = "\x1b[?25h"
"""Shows the cursor again."""
_MARK_FIRST, _OUTPUT, _MARK_AFTER, _END = range(4)

Event = tuple[int, int, str, str]
"""The timestamp in ns, the order among events with the same timestamp, asciicast's code, and its data."""


def write(
    out: BinaryIO,
    one: FullExchange,
    limits: Thresholds = DEFAULT,
    pace: Pace = RECORDED,
    size: ScreenSize = USUAL_SIZE,
) -> int:
    """Write a recording that marks stalls by these limits; return the number of its events."""
    return _written(out, lines(one, limits, pace, size))


def write_race(out: BinaryIO, a: FullExchange, b: FullExchange, film: Film) -> int:
    """Write a recording of the film of two exchanges; return the number of its events."""
    return _written(out, itertools.chain([_header([a, b], film.size)], _lines(_drawn(film))))


def _written(out: BinaryIO, lines: Iterable[str]) -> int:
    count = -1
    for line in lines:
        out.write(f"{line}\n".encode())
        count += 1
    return count


def lines(
    one: FullExchange, limits: Thresholds = DEFAULT, pace: Pace = RECORDED, size: ScreenSize = USUAL_SIZE
) -> Iterator[str]:
    """Yield a recording line by line: its header, then its events in time; stalls are marked by these limits."""
    yield _header([one], size)
    events = sorted(_events(one, limits), key=lambda event: event[:2])
    at = list(itertools.accumulate((at_ns for at_ns, *_ in events), max))
    playback = pace.playback(at, at[-1], lambda: 0)
    played = zip(map(playback.playing_ns, at), events, strict=True)
    yield from _lines((at_ns, code, data) for at_ns, (_, _, code, data) in played)


def _header(shown: Sequence[FullExchange], size: ScreenSize) -> str:
    named = (filter(None, (one.row.id, one.row.model, one.row.outcome)) for one in shown)
    title = safe(" | ".join(map(" · ".join, named)))
    term = {"cols": size.columns, "rows": size.lines, "type": "xterm-256color"}
    return json.dumps({"version": 3, "term": term, "timestamp": int(shown[0].started.timestamp()), "title": title})


def _lines(events: Iterable[tuple[int, str, str]]) -> Iterator[str]:
    before = 0
    for at_ns, code, data in events:
        at = max(at_ns // 1000, before)
        # Plain decimals: players read the digits themselves, and know no exponents.
        seconds, micros = divmod(at - before, 1_000_000)
        yield f'[{seconds}.{micros:06}, "{code}", {json.dumps(data)}]'
        before = at


def _drawn(film: Film) -> Iterator[tuple[int, str, str]]:
    """Yield an event for each frame, with its changed lines, at its exact time."""
    before: Sequence[Sequence[Part]] = [()] * film.size.lines
    start = _CLEARED
    for frame in film.frames(each_event=True):
        pairs = enumerate(zip(frame.lines, before, strict=True), 1)
        drawn = start + "".join(f"\x1b[{number};1H{_styled(line)}" for number, (line, old) in pairs if line != old)
        if drawn:
            yield frame.at_ns, "o", drawn
        start, before = "", frame.lines
    yield frame.at_ns, "o", _ENDED
    yield frame.at_ns, "x", "0"


def _styled(line: Sequence[Part]) -> str:
    return "".join(f"{sgr}{text}{_RESET}" if (sgr := _TONES[tone]) else text for text, tone in joined(line))


def _events(one: FullExchange, limits: Thresholds) -> Iterator[Event]:
    chunks = list(one.decoded.chunks())
    outputs = [timed for timed in chunks if timed.chunk.output]
    yield from ((at_ns, _OUTPUT, "o", shown) for at_ns, shown in coloured(chunks, one.last_ns or 0))
    first = next((timed.at_ns for timed in outputs if timed.at_ns is not None), None)
    if first is not None and one.decoded.stream:
        yield first, _MARK_FIRST, "m", f"ttft {formatting.ms(first / 1e6)} ms"
    for answer in awaited(one.exchange, one.decoded):
        for from_ns, to_ns in answer.stalls(limits):
            yield from_ns, _MARK_AFTER, "m", f"stall {formatting.ms((to_ns - from_ns) / 1e6)} ms"
    for timed in chunks:
        if timed.chunk.fault is not None:
            said = ": ".join(filter(None, (timed.chunk.fault.code, timed.chunk.fault.message)))
            yield _at(timed, one), _MARK_AFTER, "m", f"error {safe(said)}".rstrip()
    yield from _ending(one)


def _ending(one: FullExchange) -> Iterator[Event]:
    row, at_ns, said = one.row, one.last_ns or 0, safe(one.ending)
    reason = f", finish reason {safe(row.finish_reason)}" if row.finish_reason else ""
    is_complete = row.outcome == "complete"
    yield at_ns, _END, "o", "\r\n" if is_complete else f"\r\n{_RED}[{said}]{_RESET}\r\n"
    yield at_ns, _END, "m", said + reason
    if row.ended_by is not None:
        yield at_ns, _END, "x", "0" if is_complete else "1"


def _at(timed: TimedChunk, one: FullExchange) -> int:
    """Return the timestamp of a chunk, or the end of the exchange where the tape lacks it."""
    return timed.at_ns if timed.at_ns is not None else one.last_ns or 0
