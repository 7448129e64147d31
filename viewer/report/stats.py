"""Statistics laid out for people: each group in a block of a head, a table and warnings.

As in `report`, recorded text (a group's keys) passes `safe` and only ever becomes `rich.text.Text`. Unknown is `–`.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from rich.text import Text

from wiretape.recorder.decode.exchange import OUTCOMES
from wiretape.recorder.local_time import period
from wiretape.recorder.plurals import counted
from wiretape.recorder.sanitize import safe
from wiretape.viewer.record.rows import TableRow
from wiretape.viewer.report.tables import Table, cut_to_width, grid, number, paragraph, width_of
from wiretape.viewer.stats import summary
from wiretape.viewer.stats.histogram import Bucket
from wiretape.viewer.stats.metrics import QUANTITIES, STATISTICS, Quantity, group_title
from wiretape.viewer.stats.summary import UNMEASURED
from wiretape.viewer.text.formatting import amount

_UNKNOWN: Final = "–"
_IMPORTANT: Final = ("", "n", "p50", "p99", "max", "p95", "mean", "p90", "min", "std")


def block(
    row: TableRow,
    by: Sequence[str],
    objective: str | None = None,
    width: int | None = None,
    statistics: Sequence[str] = STATISTICS,
) -> Table:
    """Lay out one row of statistics; `objective` is that of its goodput, `width` the terminal's, in cells.

    `statistics` are the columns of the table below the head; those without room are its `hidden` ones.
    """
    keys = (f"{safe(group_title(name))} {_UNKNOWN if row[name] is None else safe(str(row[name]))}" for name in by)
    title = ", ".join(keys) or "all"
    span = "" if row["first_at"] is None else f" · {period(row['first_at'], row['last_at'])}"
    of = f"{counted(row['n'], 'exchange')}{span}"
    if width is None or width_of(f"{title} · {of}") <= width:
        head = [Text.assemble((title, "bold"), f" · {of}")]
    else:
        head = [Text(cut_to_width(title, width), "bold"), *paragraph("", of, width)]
    for label, text in _head(row, objective):
        head += paragraph(f"{label:<11}", text, width)
    important = statistics if statistics != STATISTICS else _IMPORTANT
    lines = [
        {"": f"{quantity.name} {quantity.unit}"}
        | {name: number(summary.supported(row, summary.field_name(quantity, name))) for name in statistics}
        for quantity in QUANTITIES.values()
    ]
    table = grid(("", *statistics), lines, width, important)
    texts = [explained(warning) for warning in row["warnings"] if not warning.startswith("few:")]
    fields = [summary.field_name(quantity, name) for quantity in QUANTITIES.values() for name in statistics]
    if few := summary.withheld(row, fields):
        texts.append(f"{_UNKNOWN} {few}")
    notes = [line for note in texts for line in paragraph("note: ", note, width, "yellow")]
    return Table([*head, *table.lines, *notes], table.hidden)


def histogram(filled: Sequence[Bucket], quantity: Quantity, width: int) -> Iterator[Text]:
    yield Text(f"{quantity.name} ({quantity.meaning})", "bold")
    for line in bars(filled, quantity.unit, width):
        yield Text(line)


def bar(count: int, most: int, width: int) -> str:
    # Any count is visible, and only 0 is not.
    eighths = max(round(8 * width * count / most), 1) if count else 0
    eighth_signs = " ▏▎▍▌▋▊▉"
    return ("█" * (eighths // 8) + eighth_signs[eighths % 8]).rstrip(" ")


def bars(filled: Sequence[Bucket], unit: str, width: int) -> Iterator[str]:
    """Draw buckets of a unit, one line for each, at most `width` cells long where that is possible."""
    if not filled:
        return
    labels = [f"{bucket.low:,g} – {bucket.high:,g}" if bucket.high else "0" for bucket in filled]
    most = max(bucket.count for bucket in filled)
    room = max(width - max(map(len, labels)) - len(unit) - len(f"{most:,}") - 3, 8)
    for label, bucket in zip(labels, filled, strict=True):
        count = f"{bucket.count:,}"
        yield f"{label:>{max(map(len, labels))}} {unit} {count:>{len(f'{most:,}')}} {bar(bucket.count, most, room)}"


def explained(warning: str) -> str:
    name, _, about = warning.partition(":")
    return summary.WARNINGS[name] + (f" ({about.replace(',', ', ')})" if about else "")


def percent(value: float | None) -> str:
    return _UNKNOWN if value is None else f"{value:.2f} %"


def _head(row: TableRow, objective: str | None) -> Iterator[tuple[str, str]]:
    counts = [(outcome, row[f"n_{outcome}"]) for outcome in (*OUTCOMES, UNMEASURED)]
    yield "outcomes", ", ".join(f"{name} {count:,}" for name, count in counts if count) or _UNKNOWN
    yield (
        "errors",
        f"{percent(row['error_rate_pct'])}; of all {percent(row['error_rate_all_pct'])}, after a 2xx "
        f"{percent(row['stream_error_rate_pct'])}, cancelled {percent(row['cancel_rate_pct'])}",
    )
    tokens = ("input", "output", "reasoning", "total")
    reported = ", ".join(f"{name} {number(row[f'{name}_tokens'])}" for name in tokens)
    yield (
        "tokens",
        f"{reported}; usage from {row['usage_n']:,}, missing from {row['usage_missing_n']:,}",
    )
    yield from paid(row, objective)
    yield "coalesced", percent(row["coalesced_pct"])


def duplicates(row: TableRow) -> str:
    """Return the requests that were sent twice, with their tokens and cost, in words."""
    parts = [counted(row["duplicate_n"], "request")]
    if row["duplicate_tokens"] is not None:
        parts.append(counted(row["duplicate_tokens"], "token"))
    if row["duplicate_cost"] is not None:
        parts.append(f"{amount(row['duplicate_cost'])} {safe(row['currency'])}")
    return ", ".join(parts)


def paid(row: TableRow, objective: str | None) -> Iterator[tuple[str, str]]:
    """Yield the cost, the hits of the provider's cache, and the goodput by an objective, each with its label."""
    if row["cost"] is not None:
        unknown = f"; unknown of {counted(row['cost_unknown_n'], 'complete one')}" if row["cost_unknown_n"] else ""
        yield "cost", f"{amount(row['cost'])} {safe(row['currency'])} of {counted(row['cost_n'], 'exchange')}{unknown}"
    if row["duplicate_n"]:
        yield "paid twice", duplicates(row)
    if row["cache_hit_rate_n"]:
        of = counted(row["cache_hit_rate_n"], "exchange")
        yield "cache hits", f"{percent(row['cache_hit_rate_pct'])} of the input of {of}"
    if objective is not None:
        yield "goodput", f"{percent(row['goodput_pct'])} ({safe(objective)})"
