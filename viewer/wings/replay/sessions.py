"""Pure: the turns of hosted sessions in a replay: a stream's events wait for the request that began their turn.

A recorded stream tells when its turns came, but a client that is slower, or faster, sends its requests at other times.
A turn's first event, and all behind it, follow the request that began it, by their recorded distance. A
turn whose request is not on the tape comes at its recorded time.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from wiretape.recorder.decode.decoder import decode
from wiretape.recorder.decode.exchange import RecordedExchange
from wiretape.viewer.wings.replay.positions import Spans


@dataclass(frozen=True, slots=True)
class TurnWait:
    """A place in a body that waits for a request, by the id of its recording; it came `delay_ns` before the place."""

    place: int
    exchange_id: str
    delay_ns: int


def waits(answer: RecordedExchange, rows: Sequence[Mapping[str, Any]], spans: Spans) -> list[TurnWait]:
    """Return the waits of a stream, whose turns are `rows` as the tape has them, and whose events have these spans."""
    decoded, turn_waits = decode(*answer), list[TurnWait]()
    # A turn that ends on another stream has no end here.
    ends = {None if draft.end is None else decoded.at_ns[draft.end] for draft in decoded.drafts}
    row_by_key = {
        (row.get("thread") or "", row.get("first_output_at_ns"), end_ns if (end_ns := row.get("ended_at_ns")) in ends
         else None): row
        for row in rows
    }  # fmt: skip
    for draft in decoded.drafts:
        output_ns, end_ns = (None if item is None else decoded.at_ns[item] for item in (draft.first_output, draft.end))
        row, first_ns = row_by_key.get((draft.thread, output_ns, end_ns)), decoded.at_ns[draft.first]
        if row is not None and "begun_by_id" in row and first_ns is not None and draft.first < len(spans):
            delay_ns = max(first_ns - row["started_at_ns"], 0)
            turn_waits.append(TurnWait(spans[draft.first][0], row["begun_by_id"], delay_ns))
    return turn_waits


@dataclass(slots=True)
class TurnRequests:
    """The requests that were answered, and the streams that wait for some, by the ids of the recordings."""

    _sent: dict[str, deque[int]] = field(default_factory=lambda: defaultdict(lambda: deque(maxlen=1000)))
    _waiting: dict[str, deque[Callable[[int], bool]]] = field(default_factory=lambda: defaultdict(deque))

    def add(self, exchange_id: str, at_ns: int) -> None:
        """Note the time of a request: the stream that waits longest for it goes on."""
        waiting = self._waiting[exchange_id]
        while waiting:
            if waiting.popleft()(at_ns):  # False: the stream is over
                return
        self._sent[exchange_id].append(at_ns)

    def wait(self, exchange_id: str, go_on: Callable[[int], bool]) -> int | None:
        """Return the time of a request that no stream has waited for yet; or call when one comes."""
        if sent := self._sent[exchange_id]:
            return sent.popleft()
        self._waiting[exchange_id].append(go_on)
        return None
