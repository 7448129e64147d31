"""Pure: the events of an exchange as a table, the same in the viewer's pages and in `show --part events`.

What an event is and says is `transcript`'s and `gist`'s. Recorded text passes `safe` in `lines`, not in `rows`.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from recorder.decode.outcome import TimedItem
from recorder.sanitize import safe
from viewer import formatting, rows
from viewer.model.exchange import events
from viewer.model.exchange.clocks import SAME, Times
from viewer.model.exchange.transcript import KINDS, UNKNOWN, Transcript
from viewer.rows import Row

_KIND: Final = max(map(len, KINDS))


def lines(transcript: Transcript, times: Times, only: Sequence[int] | None = None) -> Iterator[str]:
    """Yield a heading and a line for each event, or for `only` some; `times` display the timestamps."""
    number, at = len(str(len(transcript))), times.width(transcript)
    yield f"{'#':>{number}} {times.title:>{at}} {'Δ ms':>9} {'kind':<{_KIND}} {'bytes':>9} {'read':>6} data"
    above = None
    for event in range(len(transcript)) if only is None else only:
        size = transcript.ends[event] - transcript.starts[event]
        gap = SAME if transcript.shares_read(event) else formatting.ms(rows.ms(transcript.gap_ns(event)))
        read = formatting.UNKNOWN if transcript.reads[event] == UNKNOWN else transcript.reads[event]
        start = f"{event:>{number}} {times.of(transcript, event, above):>{at}} {gap:>9}"
        yield f"{start} {transcript.kind(event):<{_KIND}} {size:>9} {read:>6} {safe(events.of(transcript, event))}"
        above = event


def table(transcript: Transcript, items: Sequence[TimedItem]) -> Iterator[Row]:
    """Yield a row of `rows.EVENT_FIELDS` for each event; `items` are those that the transcript is made of.

    `gap_ms` is the time since the event before, None for the first; `delta` what it adds to the answer.
    """
    for event, item in enumerate(items):
        yield {
            "seq": item.seq,
            "kind": transcript.kind(event),
            "at_ms": rows.ms(item.at_ns),
            "gap_ms": rows.ms(transcript.gap_ns(event)),
            "read": item.read,
            "type": item.type,
            "id": item.id,
            "data": item.data,
            "start": item.start,
            "end": item.end,
            "delta": transcript.text(event) or None,
        }
