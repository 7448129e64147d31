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

_INSERT: Final = f"INSERT INTO {HOURS.name} ({', '.join(column.name for column in HOURS.columns)}) "
_KINDS: Final = "tenant, hour, host, upstream, model_of, operation_of, api_of"
_COUNTED: Final = f"""{_INSERT}
    SELECT {_KINDS}, {{version}}, count(), countIf(outcome IN ({", ".join(map(literal, sorted(FAILURES)))})),
        countIf(outcome = 'client_closed'), sum(input_tokens), sum(output_tokens), count(output_tokens), count(ttft_ns),
        avg(ttft_ns), quantileExactOrNull(0.5)(ttft_ns), quantileExactOrNull(0.99)(ttft_ns), sumForEach(gap_hist)
    FROM (
        SELECT tenant, toStartOfHour(started) AS hour, host, upstream, ifNull(api, '') AS api_of,
            ifNull(request_model, ifNull(response_model, '')) AS model_of, ifNull(operation, '') AS operation_of,
            outcome, input_tokens, output_tokens, ttft_ns, gap_hist
        FROM exchanges FINAL WHERE started >= toDateTime({{start}})
    ) GROUP BY {_KINDS}"""
_EMPTIED: Final = f"""{_INSERT}
    SELECT {", ".join(HOURS.key)}, {{version}}, 0, 0, 0, NULL, NULL, 0, 0, NULL, NULL, NULL, CAST([] AS Array(UInt64))
    FROM {HOURS.name} FINAL WHERE started >= toDateTime({{start}}) AND row_version < {{version}} AND exchanges > 0"""
"""Rows of no exchanges for the kinds that were counted before: where one is counted now, that has a higher version."""


def count(centre: Centre, seconds: int, clock: Clock) -> str:
    """Count the exchanges of the last `seconds`, in whole hours, and return the start of the first hour, UTC.

    Raises as `Centre.execute` does.
    """
    version = clock.wall_ns() // 1000
    start = (clock.wall_ns() // 10**9 - seconds) // 3600 * 3600
    centre.execute(_COUNTED.format(version=version + 1, start=start))
    centre.execute(_EMPTIED.format(version=version, start=start))
    return datetime.fromtimestamp(start, UTC).strftime("%Y-%m-%dT%H:%MZ")
