"""Exchanges as a pandas frame: the only module that imports pandas.

The columns are the contract's, with nullable types, so that unknown stays unknown and never turns into 0 or NaN.
Statistics over many exchanges are here; those of one are `recorder.metrics`'.
"""

from pathlib import Path
from typing import Any, Final

import pandas as pd

from viewer import queries, rows

_INTEGERS = frozenset(
    {
        "status",
        "prompt_tokens",
        "completion_tokens",
        "total_tokens",
        "reasoning_tokens",
        "reads",
        "events",
        "output_chunks",
        "bytes",
    }
)

SUMMARISED: Final = (
    "ttft_ms",
    "ttfc_ms",
    "ttfo_ms",
    "icl_p50_ms",
    "max_stall_ms",
    "tpot_ms",
    "latency_ms",
    "duration_ms",
)


def exchanges_frame(path: Path) -> pd.DataFrame:
    """Give a tape's exchanges, oldest first: contract columns, `started_at` in UTC, `flags` joined by spaces."""
    with queries.opened(path) as connection:
        found = [tuple(map(rows.flat, row.values())) for row in queries.exchanges(connection)]
    frame = pd.DataFrame.from_records(found, columns=list(rows.FIELDS))
    started = pd.to_datetime(frame["started_at"], utc=True, format="ISO8601")
    return frame.astype({field: _kind(field) for field in rows.FIELDS if field != "started_at"}).assign(
        started_at=started
    )


def summary(frame: pd.DataFrame) -> pd.DataFrame:
    """Summarise the complete exchanges: one row for each of `SUMMARISED`; unknown values do not count.

    Columns: n, mean, p50, p90, p99, max, all but n in ms. Percentiles interpolate linearly (type 7).
    """
    values = frame.loc[frame["outcome"] == "complete", list(SUMMARISED)]
    quantiles = values.quantile([0.5, 0.9, 0.99], interpolation="linear")
    columns = {
        "n": values.count(),
        "mean": values.mean(),
        **{f"p{share * 100:.0f}": quantiles.loc[share] for share in quantiles.index},
        "max": values.max(),
    }
    kinds = {name: "Int64" if name == "n" else "Float64" for name in columns}
    return pd.DataFrame(columns, index=pd.Index(SUMMARISED, name="metric")).astype(kinds)


def shown(table: pd.DataFrame) -> str:
    """Lay out a summary for people: one decimal, counts whole, unknown as `–`."""

    def cell(value: Any) -> str:
        return "–" if pd.isna(value) else f"{value:,.1f}"

    cells = table.map(cell).assign(n=table["n"].astype(str))
    return str(cells.rename_axis(None).to_string())


def _kind(field: str) -> str:
    if field.endswith("_ms"):
        return "Float64"
    return "Int64" if field in _INTEGERS else "string"
