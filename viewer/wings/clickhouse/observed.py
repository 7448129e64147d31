"""Exchanges of a server as other tools would have measured them, for definitions that need its columns only."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from wiretape.recorder.clock import wall_ns
from wiretape.recorder.decode.exchange import Exchange
from wiretape.recorder.tape.reader import Connection
from wiretape.recorder.tape.selects import select
from wiretape.recorder.tape.tables import exchanges, measures
from wiretape.viewer.source.base import Unsupported
from wiretape.viewer.source.querying import JOINED, Condition, in_batches
from wiretape.viewer.stats.tools.request import Judged, MeasuredRequest, admitted
from wiretape.viewer.stats.tools.summary import Addend, measure_seen
from wiretape.viewer.stats.tools.tools import authority

_NEEDED: Final = {
    "vllm": "which chunks have choices, and when each came",
    "vllm-0.32": "which chunks have choices, and when each came",
    "sglang": "the lines of each stream, and when each came",
    "aiperf": "the first choice of each chunk",
    "guidellm": "the lines of each stream, and the first choice in each",
    "litellm": "the role and the output of each chunk",
    "traceloop": "which chunks are errors",
}
_ABSENT: Final = {"otel": ("time_per_output_chunk_s",), "langfuse": ()}
"""Metrics that need more than a server has, by tool: a server has gaps between output chunks only."""

_FACTS: Final = select(
    exchanges.c.no, exchanges.c.started_at, exchanges.c.status, exchanges.c.ended_by, exchanges.c.end_ns,
    exchanges.c.gap_bytes, exchanges.c.framing, measures.c.outcome, measures.c.error_code, measures.c.duration_ns,
    measures.c.flags, measures.c.api, measures.c.events, measures.c.chunks, measures.c.ttfc_ns, measures.c.ttft_ns,
    measures.c.latency_ns, measures.c.output_tokens,
).select_from(JOINED)  # fmt: skip


@dataclass(frozen=True)
class _Counted(MeasuredRequest):
    """An exchange without its body; of chunks the first and the last are known, of gaps none."""

    first_ns: int | None = None
    output_ns: tuple[int | None, int | None] = (None, None)
    tokens: int | None = None

    def reported_tokens(self) -> int | None:
        return self.tokens

    def chunk_times(self, *, output: bool) -> list[int]:
        return [at for at in (self.output_ns if output else (self.first_ns,)) if at is not None]


def absent(tool: str) -> list[str]:
    """Return the names of the metrics of a tool that a server lacks."""
    return [metric.name for metric in authority(tool).metrics if metric.key in _ABSENT[tool]]


def measured(connection: Connection, tool: str, where: Condition | None = None) -> Iterator[Addend]:
    """Yield the exchanges that `where` selects as a tool measures them. Raises `Unsupported` for most tools."""
    if tool in _NEEDED:
        raise Unsupported(
            f"--as {tool} needs {_NEEDED[tool]}, which a server does not have: copy the exchanges to a tape "
            "with 'wiretape pull'"
        )
    apis = (*authority(tool).apis, None)
    for batch in in_batches(connection, _FACTS, where):
        for row in batch:
            flags = set((row.flags or "").split())
            exchange = Exchange(status=row.status, ended_by=row.ended_by, end_ns=row.end_ns)
            judged = Judged(row.outcome or "open", row.error_code, row.duration_ns)
            counted = _Counted(
                exchange,
                judged,
                first_ns=row.ttfc_ns,
                output_ns=(row.ttft_ns, row.latency_ns),
                tokens=row.output_tokens,
            )
            is_of_api = not row.chunks if not row.events else row.api in apis or "malformed" in flags
            request = admitted(
                MeasuredRequest(exchange, judged),
                counted,
                is_stream="nonstream" not in flags,
                is_whole=not row.gap_bytes and not flags & {"decode_limit", "undecoded", "no_timing"},
                is_known=row.framing != "websocket" and is_of_api,
            )
            started_ns = wall_ns(row.started_at)
            end_ns = None if started_ns is None or row.end_ns is None else started_ns + row.end_ns
            yield measure_seen(tool, request), judged.outcome, started_ns, end_ns
