"""Counts exchanges by hour: for figures of months without reading months of exchanges.

Hours are counted again as a whole, from `FINAL`, so that a row that was shipped twice, or derived again, counts once. A
view that the engine fills by itself would count it twice.
"""

from datetime import UTC, datetime
from typing import Final

from wiretape.recorder.clock import Clock
from wiretape.recorder.decode.exchange import FAILURES
from wiretape.viewer.wings.clickhouse.client import Centre
from wiretape.viewer.wings.clickhouse.ddl import literal
from wiretape.viewer.wings.clickhouse.tables import HOURS

_FIGURES: Final = {
    "exchanges": "count()",
    "failed": f"countIf(outcome IN ({', '.join(map(literal, sorted(FAILURES)))}))",
    "client_closed": "countIf(outcome = 'client_closed')",
    "input_tokens": "sum(input_tokens)",
    "output_tokens": "sum(output_tokens)",
    "usage_known": "count(output_tokens)",
    "ttft_known": "count(ttft_ns)",
    "ttft_mean_ns": "avg(ttft_ns)",
    "ttft_p50_ns": "quantileExactOrNull(0.5)(ttft_ns)",
    "ttft_p99_ns": "quantileExactOrNull(0.99)(ttft_ns)",
    "gap_hist": "sumForEach(gap_hist)",
}
"""The aggregate of each figure."""
_NOTHING: Final = "0, 0, 0, NULL, NULL, 0, 0, NULL, NULL, NULL, CAST([] AS Array(UInt64))"
"""The figures of no exchanges."""
_KINDS: Final = """tenant, toStartOfHour(started) AS hour, host, upstream,
    ifNull(request_model, ifNull(response_model, '')) AS model_of, ifNull(operation, '') AS operation_of,
    ifNull(api, '') AS api_of"""
_READ: Final = "outcome, input_tokens, output_tokens, ttft_ns, gap_hist"


def count(centre: Centre, seconds: int, clock: Clock) -> str:
    """Count the exchanges of the last `seconds`, in whole hours, and return the start of the first hour, UTC.

    Raises as `Centre.execute` does.
    """
    version = clock.wall_ns() // 1000
    first = (clock.wall_ns() // 10**9 - seconds) // 3600 * 3600
    since = f"toDateTime({first})"
    columns = ", ".join(column.name for column in HOURS.columns)
    for statement in (_counted(version + 1, since), _emptied(version, since)):
        centre.execute(f"INSERT INTO {HOURS.name} ({columns}) {statement}")
    return datetime.fromtimestamp(first, UTC).strftime("%Y-%m-%dT%H:%MZ")


def _counted(version: int, since: str) -> str:
    figures = ", ".join(_FIGURES.values())
    kinds = "tenant, hour, host, upstream, model_of, operation_of, api_of"
    return (
        f"SELECT {kinds}, {version}, {figures} FROM "
        f"(SELECT {_KINDS}, {_READ} FROM exchanges FINAL WHERE started >= {since}) GROUP BY {kinds}"
    )


def _emptied(version: int, since: str) -> str:
    """Return rows for the kinds that were counted before: where one is counted now, that is of a higher version."""
    key = ", ".join(HOURS.key)
    older = f"FROM {HOURS.name} FINAL WHERE started >= {since} AND row_version < {version} AND exchanges > 0"
    return f"SELECT {key}, {version}, {_NOTHING} {older}"
