"""Pure: comparisons for people: a headline, and the metrics that matter, with their intervals in one column."""

import re
from collections.abc import Sequence
from typing import Any, Final

from rich.text import Text

from wiretape.recorder.decode.exchange import FAILURES
from wiretape.recorder.plurals import counted
from wiretape.viewer.record.rows import TableRow
from wiretape.viewer.report.tables import LEAST, Table, TableColumn, happened, number, paragraph, table
from wiretape.viewer.stats import compare
from wiretape.viewer.text.formatting import UNKNOWN, cell

_LABELS: Final = {
    "ttft_p50_ms": "first token (ttft) ms",
    "ttft_p95_ms": "first token p95 ms",
    "icl_p50_p50_ms": "between chunks (icl_p50) ms",
    "max_gap_p50_ms": "longest gap (max_gap) ms",
    "latency_p50_ms": "whole answer ms",
    "tps_user_p50": "speed (tps_user) tokens/s",
    "error_rate_pct": "failed %",
}


def groups(rows: Sequence[TableRow], width: int | None = None) -> Table:
    """Lay out a comparison of two groups: a headline and seven rows."""

    def label(row: TableRow) -> str:
        return _LABELS[row["metric"]]

    visible_rows = [row for row in rows if row["metric"] in _LABELS]
    columns = [
        TableColumn("metric", "", label, lambda row: re.sub(r" \(.*?\)", "", label(row))),
        TableColumn("base", "base", lambda row: number(row["base"])),
        TableColumn("new", "new", lambda row: number(row["new"])),
        TableColumn("change", "change", _change),
        TableColumn("verdict", "verdict", _verdict, lambda row: _verdict(row).removesuffix(" to decide")),
    ]
    laid_out = table(columns, visible_rows, width, ("metric", "base", "new", "change", "verdict"))
    sizes = [(row["base_n"], row["new_n"]) for row in visible_rows if row["metric"] == "latency_p50_ms"]
    answers = "".join(f"{base:,} and {new:,} complete answers" for base, new in sizes)
    note = f"medians of {answers}; all intervals hold together with 95 %; --all has every metric"
    head = paragraph("", headline(visible_rows), width, "bold")
    return Table([*head, *laid_out.lines, *paragraph("", note, width, "dim")], laid_out.hidden)


def headline(rows: Sequence[TableRow]) -> str:
    """Return the verdict of a comparison of groups: the first metric that got worse, else the first that got better."""
    words_of_units = {
        "_ms": ("slower", "faster"),
        "tps": ("slower", "faster"),
        "_pct": ("failing more", "failing less"),
    }
    for verdict, place in ((compare.WORSE, 0), (compare.BETTER, 1)):
        for row in rows:
            if row["verdict"] == verdict:
                words = next(words for unit, words in words_of_units.items() if unit in row["metric"])
                return f"new is {words[place]}: {_short(row)}"
    decided = [row for row in rows if row["verdict"] == compare.UNCLEAR]
    if decided:
        return f"no clear difference: {_short(decided[0])}"
    return f"undecided: {_verdict(rows[0])}" if rows else "undecided"


def pairs(sums: Sequence[TableRow], width: int | None = None) -> list[Text]:
    """Return the headline of pairs of two sides: their count, the gateway's shares, and its changes.

    Of repetitions, which have no share of a gateway, it is what differs.
    """
    count = {row["metric"]: row["n"] for row in sums}
    shares = ", ".join(
        f"{row['metric'][8:-3].replace('_', ' ')} {_signed(row['difference'], ' ms')}"
        for row in sums
        if row["metric"].startswith("gateway_") and row["n"]
    )
    changes = (
        f"merged chunks in {count['merged_chunks']}, reads in {count['merged_reads']}, text changed in "
        f"{count['text_differs']}, usage in {count['usage_differs']}; {count['aborts_travelled']} of "
        f"{counted(count['aborts'], 'abort')} travelled"
    )
    alone = f"without a partner: {count['unpaired_a']} of A, {count['unpaired_b']} of B"
    if not shares:
        differences = f"text differs in {count['text_differs']}, usage in {count['usage_differs']}"
        return [*paragraph("", f"{counted(count['pairs'], 'pair')}; {alone}; {differences}", width, "bold")]
    return [
        *paragraph("", f"{counted(count['pairs'], 'pair')}; {alone}", width),
        *paragraph("", f"the gateway's shares (medians): {shares}", width, "bold"),
        *paragraph("", changes, width),
    ]


def distinct(rows: Sequence[TableRow]) -> tuple[list[TableRow], list[str]]:
    """Return the rows of a comparison without the durations that are equal to one above, and the metrics of these."""
    distinct_rows, repeated, seen = list[TableRow](), list[str](), set[tuple[Any, ...]]()
    for row in rows:
        values = tuple(value for name, value in row.items() if name != "metric")
        is_known = row.get("difference") is not None and row["metric"].endswith("_ms")
        if is_known and values in seen:
            repeated.append(row["metric"])
        else:
            distinct_rows.append(row)
        if is_known:
            seen.add(values)
    return distinct_rows, repeated


def pair(rows: Sequence[TableRow], width: int | None = None) -> Table:
    """Lay out a comparison of two exchanges: a headline and the metrics that matter."""
    by_name = {row["metric"]: row for row in rows}
    names = ["model", "outcome", "ttft_ms", "max_gap_ms", "latency_ms", "tps_user", "output_tokens"]
    reported = ("server_queue_ms", "server_prefill_ms", "server_decode_ms", "server_total_ms", "network_ms")
    names += [name for name in reported if by_name[name]["a"] is not None or by_name[name]["b"] is not None]
    visible_rows = [by_name[name] for name in names]
    columns = [
        TableColumn(name, title, lambda row, name=name: _side(row[name]))  # type: ignore[misc]
        for name, title in (("metric", ""), ("a", "a"), ("b", "b"), ("difference", "b − a"))
    ]
    columns.append(TableColumn("change", "change", lambda row: _signed(row["change_pct"])))
    laid_out = table(columns, visible_rows, width, ("metric", "b", "a", "difference", "change"), LEAST)
    head = paragraph("", _pair_headline(by_name), width, "bold")
    return Table([*head, *laid_out.lines, *paragraph("", "--all has every metric", width, "dim")], laid_out.hidden)


def _pair_headline(by_name: dict[str, TableRow]) -> str:
    """Return the first time that differs; of answers that are not complete, their ends: their times tell nothing."""
    sides = {side: {name: row[side] for name, row in by_name.items()} for side in ("a", "b")}
    incomplete = [
        f"{side} {'failed' if row['outcome'] in FAILURES else 'is not complete'}: {happened(row)}"
        for side, row in sides.items()
        if row["outcome"] != "complete"
    ]
    if incomplete:
        return "; ".join(incomplete)
    for name in ("latency_ms", "ttft_ms"):
        row = by_name[name]
        if row["difference"]:
            word = "slower" if row["difference"] > 0 else "faster"
            stem = name.removesuffix("_ms")
            return f"b is {word}: {stem} {_signed(row['change_pct'])} ({number(row['a'])} → {number(row['b'])} ms)"
    return "no difference in time is known"


def _side(value: Any) -> str:
    return number(value) if value is None or isinstance(value, int | float) else cell(value)


def _short(row: TableRow) -> str:
    name = row["metric"].removesuffix("_ms").removesuffix("_pct").removesuffix("_p50")
    return f"{name.replace('_', ' ')} {_change(row)}"


def _change(row: TableRow) -> str:
    ends = [row[name] for name in ("difference", "low", "high")]
    base, is_rate = row["base"], row["metric"].endswith("_pct")
    if is_rate or not base:  # of a base of 0 there is no percentage
        unit = " pp" if is_rate else " ms" if row["metric"].endswith("_ms") else ""
        change, low, high = (_signed(end, unit) for end, unit in zip(ends, (unit, "", ""), strict=True))
    else:
        change, low, high = (_signed(100 * end / base if end is not None else None) for end in ends)
    return change if row["low"] is None else f"{change} [{low}, {high}]"


def _signed(value: float | None, unit: str = " %") -> str:
    if value is None:
        return UNKNOWN
    digits = f"{abs(value):,.{0 if abs(value) >= 10 else 1}f}"
    # A value that rounds to 0 has no direction.
    return f"{'' if digits == '0.0' else '−' if value < 0 else '+'}{digits}{unit}"


def _verdict(row: TableRow) -> str:
    words = {compare.BETTER: "better", compare.WORSE: "worse", compare.UNCLEAR: "not clear"}
    return words.get(row["verdict"]) or f"needs n ≥ {compare.least(row['metric'])} to decide"
