"""Records of exchanges with given fields; the others are unknown, or those of a short chat."""

from collections.abc import Sequence
from typing import Any

from wiretape.recorder.decode.decoder import Decoded, decode
from wiretape.recorder.decode.exchange import Exchange, Read, Reads
from wiretape.recorder.decode.stalls import Thresholds
from wiretape.recorder.tape.reader import Connection
from wiretape.viewer.exchange import opened as opening
from wiretape.viewer.exchange.opened import FullExchange, OpenedExchange
from wiretape.viewer.exchange.states import Look
from wiretape.viewer.record import rows
from wiretape.viewer.record.fields import field_name
from wiretape.viewer.record.rows import DetailRow, ListRow, RequestRow
from wiretape.viewer.source.tape import exchange, queries
from wiretape.viewer.stats.dashboard import FinishedExchange
from wiretape.viewer.stats.tools.request import Judged

_USUAL: dict[str, Any] = {
    "id": "7f3a81000000aaaa", "started_at": "2026-03-01T12:00:00.123456Z", "method": "POST", "path": "/v1",
    "upstream": "https://h.example:1", "outcome": "complete", "sparkline": "",
}  # fmt: skip


def listed(**fields: Any) -> ListRow:
    """Make a row of the list."""
    return ListRow(**{"no": 1, **dict.fromkeys(rows.LISTED), **_USUAL, "flags": [], **fields})


def detailed(**stored: Any) -> DetailRow:
    """Make a row of all that is known, from values as they are stored."""
    values = dict.fromkeys(rows.DETAILED) | _USUAL | {field_name(name): value for name, value in stored.items()}
    return rows.detail(1, *values.values())


def full(
    reads: Sequence[Read] = (),
    decoded: Decoded | None = None,
    *,
    connected_ns: int | None = None,
    sent_ns: int | None = None,
    headers_ns: int | None = None,
    end_ns: int | None = None,
    **stored: Any,
) -> FullExchange:
    """Make all of an exchange, with a row of such values."""
    facts = Exchange(path="/v1", connected_ns=connected_ns, sent_ns=sent_ns, headers_ns=headers_ns, end_ns=end_ns)
    request, decoded = RequestRow("", facts, None, 0, "", {}), decoded or Decoded(b"", "json")
    return FullExchange(detailed(**stored), request, facts, Reads.of(reads), b"", decoded)


MS = 1_000_000
CHUNKS = [b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'] * 3
FACTS = Exchange(status=200, content_type="text/event-stream", ended_by="end", end_ns=500 * MS, framing="chunked")


def body(facts=FACTS, pieces=CHUNKS, at=None):
    reads = at or [
        Read(seq, (10 + 20 * seq) * MS, None, seq * len(CHUNKS[0]), len(data)) for seq, data in enumerate(pieces)
    ]
    return decode(facts, reads, b"".join(pieces))


ONE = FinishedExchange(
    operation="chat", api="openai.chat", upstream="https://api.example.com/v1", upstream_name="main",
    request_model="m", response_model="m-2", exchange=FACTS, judged=Judged("complete", None, 500 * MS), body=body(),
    flags=["stall"], input_tokens=7, output_tokens=None,
)  # fmt: skip


def opened(connection: Connection, id: str) -> OpenedExchange:
    return opening.open_exchange(exchange.stored(connection, queries.find(connection, id)), Thresholds())


LOOK = Look(times="utc", wall_ns=1_772_366_460 * 10**9)


def plain(parts: Any) -> str:
    return "".join(text for text, _ in parts)
