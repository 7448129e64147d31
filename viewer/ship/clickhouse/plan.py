"""Estimates of a server's size: rows, bytes, shards, memory and cost, as formulas of their inputs. Pure.

Inputs that are not chosen were measured: 119,865 exchanges with 56.7 million gaps, from six hosts, on two cores.
`RANKED_GAP_BYTES` was measured with 33 to 140 million gaps on release 18.16: 15 to 24 bytes, with the blocks read.
"""

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

FIELDS: Final = ("kind", "name", "value", "unit", "origin")
"""Fields of a row: `origin` is the meaning of an input, or the formula of a result."""
RANKED_GAP_BYTES: Final = 24
"""Memory that a server needs for each gap that it ranks for exact percentiles, in bytes, at most."""
NOTE: Final = (
    "Bytes are those of one replica. To rank all gaps of a day takes up to exact_memory on the queried server; "
    "days_exact is the range that half of its memory suffices for. Cost is unknown without --server-cost and --tb-cost."
)


def _input(default: float | None, unit: str, meaning: str, least: float = 0) -> Any:
    return field(default=default, metadata={"unit": unit, "doc": meaning, "least": least})


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The inputs of a plan; None is unknown, and so is every result that needs it."""

    exchanges_per_day: float = field(metadata={"unit": "1/day", "doc": "exchanges of all recorders", "least": 1})
    gaps_per_exchange: float = _input(473, "1", "gaps between output chunks of an exchange; measured", 1)
    row_bytes: float = _input(270, "B", "an exchange without its gaps, compressed on disk; measured")
    gap_bytes: float = _input(3.3, "B", "a gap, compressed on disk; measured")
    stream_bytes: float = _input(0, "B", "the bodies of an exchange, compressed, for ship --bodies; measured: 6,500")
    peak_factor: float = _input(5, "1", "the busiest second by the average", 1)
    days_kept: float = _input(396, "day", "how long exchanges are kept", 1)
    stream_days_kept: float = _input(14, "day", "how long bodies are kept")
    replicas: int = _input(2, "1", "copies of each shard", 1)
    cores: float = _input(32, "1", "cores of a server", 1)
    memory_gb: float = _input(128, "GB", "memory of a server", 1)
    disk_tb: float = _input(16, "TB", "disk of a server", 0.001)
    disk_filled: float = _input(0.7, "1", "how much of a disk may be filled", 0.01)
    inserts_per_second: float = _input(6600, "1/s", "exchanges that a server takes; the least measured", 1)
    inserts_with_bodies_per_second: float = _input(
        2000, "1/s", "exchanges with bodies that a server takes; the least measured", 1
    )
    gaps_per_second: float = _input(31.5e6, "1/s", "gaps that a core takes into a sketch of percentiles; measured", 1)
    ranked_gap_bytes: float = _input(RANKED_GAP_BYTES, "B", "memory for a gap that is ranked; the most measured", 8)
    seconds: float = _input(8, "s", "how long percentiles of all gaps of a day may take", 0.001)
    server_cost: float | None = _input(None, "money/month", "a server without its disk")
    tb_cost: float | None = _input(None, "money/month", "a TB of disk")


@dataclass(frozen=True, slots=True)
class Result:
    """A result of a plan; `formula` has names of inputs, and of results before this one. None is unknown."""

    name: str
    value: float | None
    unit: str
    formula: str


def results(of: Inputs) -> list[Result]:
    """Return the results of inputs, each one behind its operands."""
    gaps = of.exchanges_per_day * of.gaps_per_exchange
    peak = of.exchanges_per_day / 86400 * of.peak_factor
    per_day = of.exchanges_per_day * of.row_bytes + gaps * of.gap_bytes
    streams_per_day = of.exchanges_per_day * of.stream_bytes
    kept = (per_day * of.days_kept + streams_per_day * of.stream_days_kept) / 1e12
    inserts = of.inserts_with_bodies_per_second if of.stream_bytes else of.inserts_per_second
    for_inserts = _whole(peak / inserts)
    for_disk = _whole(kept / (of.disk_tb * of.disk_filled))
    for_queries = _whole(gaps / (of.gaps_per_second * of.cores * of.seconds))
    shards = max(for_inserts, for_disk, for_queries)
    servers = shards * of.replicas
    exact_memory = gaps * of.ranked_gap_bytes / 1e9
    return [
        Result("rows_per_day", of.exchanges_per_day, "1/day", "exchanges_per_day"),
        Result("rows_kept", of.exchanges_per_day * of.days_kept, "1", "rows_per_day * days_kept"),
        Result("gaps_per_day", gaps, "1/day", "exchanges_per_day * gaps_per_exchange"),
        Result("peak", peak, "1/s", "exchanges_per_day / 86400 * peak_factor"),
        Result("bytes_per_day", per_day, "B/day", "rows_per_day * row_bytes + gaps_per_day * gap_bytes"),
        Result("stream_bytes_per_day", streams_per_day, "B/day", "rows_per_day * stream_bytes"),
        Result("kept", kept, "TB",
               "(bytes_per_day * days_kept + stream_bytes_per_day * stream_days_kept) / 1e12"),
        Result("inserts", inserts, "1/s",
               "inserts_with_bodies_per_second if stream_bytes else inserts_per_second"),
        Result("shards_for_inserts", for_inserts, "1", "max(ceil(peak / inserts), 1)"),
        Result("shards_for_disk", for_disk, "1", "max(ceil(kept / (disk_tb * disk_filled)), 1)"),
        Result("shards_for_queries", for_queries, "1",
               "max(ceil(gaps_per_day / (gaps_per_second * cores * seconds)), 1)"),
        Result("shards", shards, "1", "max(shards_for_inserts, shards_for_disk, shards_for_queries)"),
        Result("servers", servers, "1", "shards * replicas"),
        Result("exact_memory", exact_memory, "GB", "gaps_per_day * ranked_gap_bytes / 1e9"),
        Result("days_exact", of.memory_gb / 2 / exact_memory, "day", "memory_gb / 2 / exact_memory"),
        Result("cost", _cost(of, servers, kept), "money/month", "servers * server_cost + kept * replicas * tb_cost"),
    ]  # fmt: skip


def rows(of: Inputs) -> Iterator[dict[str, Any]]:
    """Yield inputs and results as rows of `FIELDS`."""
    for one in dataclasses.fields(of):
        values = ("input", one.name, getattr(of, one.name), one.metadata["unit"], one.metadata["doc"])
        yield dict(zip(FIELDS, values, strict=True))
    for result in results(of):
        values = ("result", result.name, result.value, result.unit, result.formula)
        yield dict(zip(FIELDS, values, strict=True))


def _whole(shards: float) -> int:
    return max(math.ceil(shards), 1)


def _cost(of: Inputs, servers: int, kept: float) -> float | None:
    if of.server_cost is None or of.tb_cost is None:
        return None
    return servers * of.server_cost + kept * of.replicas * of.tb_cost
