"""Reads and timed chunks in, the timing of one exchange out.

Integer nanoseconds since T0 (the moment before the upstream request is issued) or between two instants, None where
unknown and never 0 in its place. A gap is between two output chunks, and 0 if one read brought both; a *burst gap* is
between reads that brought output, so that it survives coalescing. Tokens come from `usage` only: chunks are never
counted as tokens. Percentiles interpolate linearly (Hyndman and Fan's type 7, numpy's default).

What a chunk carries is decided in `chat`, how an exchange ended in `exchange`; statistics over many are the viewer's.
"""

import struct
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import sub
from typing import Any

from recorder.decode.assembly import completion_tokens
from recorder.decode.outcome import Exchange, Read, TimedChunk

Packed = bytes
"""Little-endian integers side by side."""

STALL_NS = 2_000_000_000
_BURST_CHUNKS = 20
_SPARK_CELLS = 24
_SPARKS = "▁▂▃▄▅▆▇█"
SPARK_STEPS_NS = tuple(step * 1_000_000 for step in (3, 10, 30, 100, 300, 1000, 3000))
"""The gaps from which on each sign of a sparkline but the first stands."""

_HISTOGRAM_BUCKETS = 64
_MAX_TOKENS_LISTED = 1_000_000


def doc(meaning: str) -> dict[str, str]:
    """Return field metadata that says what the field means, for a glossary to print."""
    return {"doc": meaning}


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The timing of one exchange; the meaning of each field is its metadata."""

    connect_ns: int | None = field(default=None, metadata=doc("T0 to connected"))
    ttfb_ns: int | None = field(default=None, metadata=doc("T0 to the response head"))
    ttf_byte_ns: int | None = field(default=None, metadata=doc("T0 to the first byte of the body, comments included"))
    ttfc_ns: int | None = field(
        default=None, metadata=doc("T0 to the first JSON chunk of any kind that is not an error")
    )
    ttft_ns: int | None = field(default=None, metadata=doc("T0 to the first content, reasoning or tool-call delta"))
    ttfo_ns: int | None = field(default=None, metadata=doc("T0 to the first content or tool-call delta"))
    ttf_content_ns: int | None = field(default=None, metadata=doc("T0 to the first content delta"))
    thinking_ns: int | None = field(
        default=None, metadata=doc("first reasoning to first answer; null unless reasoning came first")
    )
    ttst_ns: int | None = field(default=None, metadata=doc("first to second output chunk"))
    latency_ns: int | None = field(default=None, metadata=doc("T0 to the last output chunk"))
    duration_ns: int | None = field(default=None, metadata=doc("T0 to [DONE], else to the end of the exchange"))
    tail_ns: int | None = field(default=None, metadata=doc("last output chunk to the end: duration less latency"))
    max_stall_ns: int | None = field(default=None, metadata=doc("longest gap: between reads with output"))
    max_silence_ns: int | None = field(
        default=None,
        metadata=doc(
            "longest silence: without any byte, from the first of the body (from the head if none came) to the end"
        ),
    )
    tpot_ns: float | None = field(
        default=None, metadata=doc("ns per token after the first: first to last output over N - 1 tokens")
    )
    tpot_est_ns: float | None = field(
        default=None, metadata=doc("the same over output chunks, an estimate for when there is no usage")
    )
    tpot_adj_ns: float | None = field(
        default=None, metadata=doc("the same over N less the tokens of the first chunk; continuous usage only")
    )
    tps_user: float | None = field(default=None, metadata=doc("tokens per second after the first token"))
    e2e_tps: float | None = field(default=None, metadata=doc("tokens per second of the whole latency"))
    tokens_per_chunk: float | None = field(default=None, metadata=doc("completion tokens per output chunk"))
    coalesced_fraction: float | None = field(
        default=None, metadata=doc("share of output chunks in the same read as an earlier one")
    )
    icl_p50_ns: float | None = field(default=None, metadata=doc("median gap between output chunks"))
    icl_p90_ns: float | None = field(default=None, metadata=doc("90th percentile of the gaps"))
    icl_p99_ns: float | None = field(default=None, metadata=doc("99th percentile of the gaps"))
    icl_mean_ns: float | None = field(default=None, metadata=doc("mean gap"))
    icl_max_ns: int | None = field(default=None, metadata=doc("longest gap"))
    reads: int = field(default=0, metadata=doc("socket reads of the body"))
    bytes: int = field(default=0, metadata=doc("bytes of the body as they came"))
    chunks: int = field(default=0, metadata=doc("chat-completion chunks"))
    output_chunks: int = field(
        default=0, metadata=doc("chunks with content, reasoning or a tool call's name or arguments")
    )
    icl: Packed = field(default=b"", metadata=doc("all gaps between output chunks, packed as little-endian int64 ns"))
    gap_hist: Packed = field(default=b"", metadata=doc("64 little-endian uint32; bucket i counts the gaps of i bits"))
    sparkline: str = field(default="", metadata=doc("gaps from first to last output, as up to 24 characters"))


def transport(exchange: Exchange, reads: Sequence[Read]) -> dict[str, Any]:
    """Return the fields of `Timing` that need no decoding."""
    return {
        "connect_ns": exchange.connected_ns,
        "ttfb_ns": exchange.headers_ns,
        "ttf_byte_ns": next((read.at_ns for read in reads if read.size > 0), None),
        "duration_ns": exchange.end_ns,
        "reads": len(reads),
        "bytes": sum(read.size for read in reads),
    }


def stream(exchange: Exchange, chunks: Sequence[TimedChunk], done_ns: int | None, tokens: int | None) -> dict[str, Any]:
    """Return the fields of `Timing` that a stream of chunks gives. `tokens` are the completion tokens of its usage."""
    counted = [timed for timed in chunks if timed.chunk.counts]
    outputs = [timed for timed in counted if timed.chunk.output]
    timed = [output for output in outputs if output.at_ns is not None]
    at = [output.at_ns for output in timed if output.at_ns is not None]
    return {
        "ttfc_ns": next((chunk.at_ns for chunk in counted if chunk.at_ns is not None), None),
        "chunks": len(counted),
        "output_chunks": len(outputs),
        "coalesced_fraction": _coalesced(timed),
        "tokens_per_chunk": tokens / len(outputs) if outputs and tokens is not None else None,
        **_end(exchange, done_ns, counted, at[-1] if at else None),
        **_firsts(timed, at),
        **_rates(timed, at, tokens),
        **_gaps(at),
        "max_stall_ns": max(burst_gaps(timed), default=None),
    }


def longest_silence(exchange: Exchange, reads: Sequence[Read], end_ns: int | None) -> int | None:
    """Return the longest time, in ns, in which no byte of the body came, up to `end_ns` (`duration_ns` of `Timing`).

    It lies between two reads, whatever they brought, or between the last one and the end; of a body without any byte,
    between the head and the end. The wait for the first byte is not part of it. None if the response is one instant, or
    if nothing is known: what is missing from the tape may have come at any time.
    """
    if exchange.ended_by in (None, "died"):
        end_ns = None  # where a recorder died, the end is only its last read
    longest, last, missing = _between_reads(reads, end_ns)
    if last is None and exchange.framing != "none":
        last = exchange.headers_ns
    if last is not None and end_ns is not None and end_ns > last and missing == exchange.gap_bytes:
        longest = max(end_ns - last, longest or 0)
    return longest


def _between_reads(reads: Sequence[Read], end_ns: int | None) -> tuple[int | None, int | None, int]:
    """Return the longest time between two reads that nothing is missing between, when the last one came, and how many
    bytes are missing before it; reads without bytes, or after `end_ns`, are passed over.
    """
    longest: int | None = None
    last: int | None = None
    position = missing = 0
    for _, at_ns, _, start, size in reads:
        if not size or (end_ns is not None and at_ns > end_ns):
            continue
        if start != position:
            missing += start - position
        elif last is not None and (longest is None or at_ns - last > longest):
            longest = at_ns - last
        last, position = at_ns, start + size
    return longest, last, missing


def flags(outputs: Sequence[TimedChunk]) -> set[str]:
    """Return the flags that the timing of the output chunks raises."""
    timed = [output for output in outputs if output.at_ns is not None]
    if not timed:
        return {"single_chunk"} if len(outputs) == 1 else set()
    reads = Counter(output.read for output in timed)
    raised = {
        "coalesced": len(timed) - len(reads) >= len(timed) / 2,
        "single_chunk": len(reads) == 1,
        "stall": any(gap > STALL_NS for gap in burst_gaps(timed)),
        "burst": len(timed) >= _BURST_CHUNKS and _is_burst(timed, reads),
    }
    return {flag for flag, is_raised in raised.items() if is_raised}


def burst_gaps(outputs: Sequence[TimedChunk]) -> list[int]:
    """Return the gaps, in ns, between the reads that completed at least one of the output chunks."""
    gaps = []
    last: TimedChunk | None = None
    for output in outputs:
        if output.at_ns is None or (last is not None and output.read == last.read):
            continue
        if last is not None and last.at_ns is not None:
            gaps.append(output.at_ns - last.at_ns)
        last = output
    return gaps


def itl_tokens(outputs: Sequence[TimedChunk]) -> list[float] | None:
    """Return one gap per token, in ns, where every output chunk reports the tokens so far; else None.

    A gap that brought k tokens counts k times at 1/k of its length; one that brought none is added to the next.
    """
    totals = [completion_tokens(output.chunk.usage) for output in outputs]
    gaps: list[float] = []
    waited = 0
    for (earlier, before), (later, after) in zip(
        zip(outputs, totals, strict=True), zip(outputs[1:], totals[1:], strict=True), strict=False
    ):
        if before is None or after is None or earlier.at_ns is None or later.at_ns is None:
            return None
        new = after - before
        if new < 0 or len(gaps) + new > _MAX_TOKENS_LISTED:
            return None
        waited += later.at_ns - earlier.at_ns
        if new:
            gaps += [waited / new] * new
            waited = 0
    return gaps or None


def percentile(ordered: Sequence[int], fraction: float) -> float:
    """Return the percentile of ascending, non-empty values by linear interpolation; `fraction` is 0 to 1."""
    position = (len(ordered) - 1) * fraction
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def sparkline(at: Sequence[int], cells: int = _SPARK_CELLS, span: tuple[int, int] | None = None) -> str:
    """Draw the gaps between ascending instants, in ns: each cell is the longest gap that ends in its slice of time.

    The scale is logarithmic and absolute, so that two lines compare: ▁ is below 3 ms, then come 3, 10, 30, 100 and
    300 ms, 1 s, and █ is 3 s or more. A space is a slice in which no gap ended. No gaps, no line. The slices are of
    the time from the first instant to the last, at most `cells` and no more than there are gaps; or, of a `span` that
    is longer than nothing, exactly `cells`.
    """
    if len(at) < 2:
        return ""
    start, end = span or (at[0], at[-1])
    if span is None:
        cells = min(cells, len(at) - 1) if end > start else 1
    gaps = list(map(sub, at[1:], at))
    # A gap that ends on a border ends the cell before it: an even stream fills every cell.
    borders = [start + cell * (end - start) // cells for cell in range(1, cells + 1)] if end > start else [at[-1]]
    drawn, done = "", 0
    for border in borders:
        until = bisect_right(at, border, done + 1) - 1  # the gap before an instant has a number less by one
        drawn += _spark(max(gaps[done:until])) if until > done else " "
        done = until
    return drawn.ljust(cells)


def _spark(gap: int) -> str:
    return " " if gap < 0 else _SPARKS[bisect_right(SPARK_STEPS_NS, gap)]


def _end(exchange: Exchange, done_ns: int | None, counted: Sequence[TimedChunk], latency: int | None) -> dict[str, Any]:
    # Chunks after [DONE] belong to the answer too: then only the end of the exchange ends it.
    last = max((timed.at_ns for timed in counted if timed.at_ns is not None), default=0)
    duration = done_ns if done_ns is not None and done_ns >= last else exchange.end_ns
    if duration is not None:
        duration = max(duration, last)
    tail = duration - latency if duration is not None and latency is not None else None
    return {"latency_ns": latency, "duration_ns": duration, "tail_ns": tail}


def _firsts(timed: Sequence[TimedChunk], at: Sequence[int]) -> dict[str, Any]:
    chunks = [output.chunk for output in timed]
    thought = next((i for i, chunk in enumerate(chunks) if chunk.reasoning), None)
    answer = next((i for i, chunk in enumerate(chunks) if chunk.content or chunk.tool), None)
    text = next((i for i, chunk in enumerate(chunks) if chunk.content), None)
    thinking = at[answer] - at[thought] if answer is not None and thought is not None and thought < answer else None
    return {
        "ttft_ns": at[0] if at else None,
        "ttfo_ns": at[answer] if answer is not None else None,
        "ttf_content_ns": at[text] if text is not None else None,
        "thinking_ns": thinking,
        "ttst_ns": at[1] - at[0] if len(at) > 1 else None,
    }


def _rates(timed: Sequence[TimedChunk], at: Sequence[int], tokens: int | None) -> dict[str, Any]:
    window = at[-1] - at[0] if at else 0
    first = completion_tokens(timed[0].chunk.usage) if timed else None
    tpot = _ratio(window, tokens - 1 if tokens is not None else None)
    return {
        "tpot_ns": tpot,
        "tpot_est_ns": _ratio(window, len(at) - 1),
        "tpot_adj_ns": _ratio(window, tokens - first if tokens is not None and first is not None else None),
        "tps_user": 1e9 / tpot if tpot else None,
        "e2e_tps": 1e9 * tokens / at[-1] if tokens is not None and at and at[-1] > 0 else None,
    }


def _ratio(window: int, divisor: int | None) -> float | None:
    # A window of 0 (all in one read) says nothing about speed: neither 0 nor infinity.
    return window / divisor if divisor is not None and divisor > 0 and window > 0 else None


def _gaps(at: Sequence[int]) -> dict[str, Any]:
    gaps = [later - earlier for earlier, later in pairwise(at)]
    if not gaps:
        return {}
    ordered = sorted(gaps)
    counts = [0] * _HISTOGRAM_BUCKETS
    for bits, times in Counter(map(int.bit_length, gaps)).items():
        counts[min(bits, _HISTOGRAM_BUCKETS - 1)] += times
    return {
        "icl_p50_ns": percentile(ordered, 0.5),
        "icl_p90_ns": percentile(ordered, 0.9),
        "icl_p99_ns": percentile(ordered, 0.99),
        "icl_mean_ns": sum(gaps) / len(gaps),
        "icl_max_ns": ordered[-1],
        "icl": struct.pack(f"<{len(gaps)}q", *gaps),
        "gap_hist": struct.pack(f"<{_HISTOGRAM_BUCKETS}I", *counts),
        "sparkline": sparkline(at),
    }


def _coalesced(timed: Sequence[TimedChunk]) -> float | None:
    return (len(timed) - len({output.read for output in timed})) / len(timed) if timed else None


def _is_burst(timed: Sequence[TimedChunk], reads: Counter[int | None]) -> bool:
    in_two_reads = sum(times for _, times in reads.most_common(2))
    first, last = timed[0].at_ns, timed[-1].at_ns
    in_a_flash = first is not None and last is not None and last - first < 0.05 * last
    return in_two_reads >= 0.8 * len(timed) or in_a_flash
