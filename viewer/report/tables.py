"""Pure: tables for people, whose least important columns give way on a narrow terminal; the list of exchanges is one.

Where rows do not fit, cells are shortened and cut, then whole columns are dropped; a table keeps their names, so that
whoever prints it can say what is missing. A row is never wider than the terminal. Recorded text passes `safe` in
`formatting` and only ever becomes `rich.text.Text`, never markup. What machines read is written by
`wiretape.viewer.export`.
"""

import functools
import textwrap
import unicodedata
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import chain
from typing import Any, Final

from rich.cells import cell_len
from rich.text import Text

from wiretape.recorder import local_time
from wiretape.recorder.decode import causes
from wiretape.recorder.decode.causes import Ending
from wiretape.recorder.decode.exchange import Outcome
from wiretape.viewer.exchange.states import ORPHAN, STATES
from wiretape.viewer.record.fields import DETAIL_FIELDS, FIELDS, GAP_PERCENTILES, TEXT_FIELDS
from wiretape.viewer.record.rows import TableRow, ending
from wiretape.viewer.record.units import ns
from wiretape.viewer.sessions.account import PARTS
from wiretape.viewer.text import curve, formatting, sparkline

NARROWEST: Final = 26
"""A text of more terminal cells than this is cut before a column is dropped; in the first, one of half the width."""

NO_BREAK: Final = "\N{NO-BREAK SPACE}"
"""A space at which `paragraph` does not wrap, and which it prints as a plain one."""

LEAST: Final = 12
"""No text is cut to fewer terminal cells than this."""

_BETWEEN: Final = 2
_STYLES: Final = {
    "complete": "green", "✓": "green", "open": "cyan", "running": "cyan", "●": "cyan",
    **dict.fromkeys(("client_closed", "cancelled", "⊘", "stall", "buffered"), "yellow"),
}  # fmt: skip
"""Colours of outcomes and causes by their first word or sign; all others are red."""


# Terminals disagree about the width of characters with these joiners and modifiers, and agree without them.
_JOINERS: Final = dict.fromkeys((0x200D, 0xFE0E, 0xFE0F, 0x20E3, *range(0x1F3FB, 0x1F400)))

LISTED: Final = (
    "mark", "started_at", "model", "upstream", "status", "outcome", "ttft_ms", "max_gap_ms", "icl_p50_ms",
    "duration_ms", "sparkline", "output_tokens", "flags", "happened",
)  # fmt: skip
"""The default columns of `listing`: when, who, what, how long, how much, why."""

PIPED: Final = (
    "id", *LISTED[1 : LISTED.index("upstream") + 1], "upstream_name", "status", "outcome", "outcome_detail",
    *LISTED[LISTED.index("outcome") + 1 :],
)  # fmt: skip
"""The same columns for programs: each value is a field of its own."""

IN_WORDS: Final = {
    "mark": "the sign of the outcome, and the id",
    "happened": "the cause of a failure, or the stall, in words",
}
"""The columns that only `listing` has, with their meanings."""
COLUMNS: Final = (*FIELDS, "sparkline", *TEXT_FIELDS, *DETAIL_FIELDS, *GAP_PERCENTILES)
"""All columns that `listing` can have: the fields of an exchange."""

_IMPORTANT: Final = (
    "mark", "happened", "ttft_ms", "max_gap_ms", "output_tokens", "model", "started_at", "duration_ms", "flags",
    "outcome", "status", "icl_p50_ms", "sparkline", "upstream",
)  # fmt: skip
_IMPORTANT_WHERE_NARROW: Final = ("mark", "happened", "ttft_ms", "model", "max_gap_ms", "output_tokens")
OF_SESSIONS: Final = {"largest": "the largest part of its wall time, as a bar and in percent of it"}
"""The columns that only `conversations` has, with their meanings."""
_BAR: Final = 8
"""Length of a bar for all of a session's time, in cells."""
_SHORT_NAME: Final = 13
"""Length of a conversation's short name: the first eight characters of a UUID may be only its time."""

_TITLES: Final = {
    "last_at": "last", "input_tokens": "in", "cache_read_input_tokens": "cached",
    "started_at": "started", "ttft_ms": "ttft ms", "icl_p50_ms": "icl p50 ms", "max_gap_ms": "max gap ms",
    "max_silence_ms": "max silence ms", "max_output_silence_ms": "max output silence ms",
    "first_output_silence_ms": "first output silence ms",
    "output_tokens": "tokens", "duration_ms": "duration ms", "sparkline": "gaps", "mark": "  id",
    "happened": "what happened", "wall_ms": "wall s", "largest": "largest part",
}  # fmt: skip
NAMED: Final = {title: name for name, title in _TITLES.items()}
"""Names of columns by their headings."""

_SHORT_ID = 8
SPARKED: Final = ("id", "model", "outcome", "ttft_ms", "duration_ms")
"""The fields that `sparked` wants."""

_LEAST_DRAWN = 20
_ASCII: Final = sparkline.ASCII | curve.ASCII | {ord(state.sign): state.ascii for state in STATES.values()}


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column: its name as `--columns` has it, its heading, and the text of its cell in a row.

    `short` is a shorter text, for a terminal on which the whole ones do not fit.
    """

    name: str
    title: str
    cell: Callable[[TableRow], str]
    short: Callable[[TableRow], str] | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """A table laid out: its lines, and the names of the columns for which there was no room."""

    lines: list[Text]
    hidden: tuple[str, ...] = ()


def plain(field: str) -> TableColumn:
    return TableColumn(field, field, lambda row: formatting.cell(row[field]))


def table(
    columns: Sequence[TableColumn],
    rows: Iterable[TableRow],
    width: int | None = None,
    important: Sequence[str] = (),
    narrowest: int = NARROWEST,
) -> Table:
    """Lay out rows under a line of headings; `width` is the terminal's, in cells, and None where all columns fit.

    `important` names columns, the most important first: they are dropped last. The others are dropped before them, from
    the right; the first column of the table always stays. Texts are cut to `narrowest` cells before that.
    """
    rows = list(rows)
    body = [[_clean(column.cell(row)) for column in columns] for row in rows]
    widths, numeric = _widths(columns, body), {at for at in range(len(columns)) if _is_numeric(body, at)}
    if width is not None and _total([min(size, narrowest) for size in widths]) > width:
        # Short cells before cut ones: they are still whole words.
        body = [[_clean((column.short or column.cell)(row)) for column in columns] for row in rows]
        widths = _widths(columns, body)
    if width is not None:
        names = [column.name for column in columns]
        ranks = {name: rank for rank, name in enumerate(important)}
        order = sorted(range(1, len(names)), key=lambda at: ranks.get(names[at], len(ranks) + at), reverse=True)
        widths = _fitted(widths, width, order, numeric, narrowest)
    hidden = tuple(column.title.strip() for column, size in zip(columns, widths, strict=True) if not size)
    return Table(_lines(columns, body, widths, numeric), hidden)


def grid(
    fields: Sequence[str],
    rows: Iterable[TableRow],
    width: int | None = None,
    important: Sequence[str] = (),
    narrowest: int = NARROWEST,
) -> Table:
    return table([plain(field) for field in fields], rows, width, important, narrowest)


def rounded(row: TableRow) -> TableRow:
    """Return a row of figures with as many decimals as a reader wants."""
    # A truth is an int to Python, and no figure.
    return {
        name: number(value) if isinstance(value, int | float | None) and not isinstance(value, bool) else value
        for name, value in row.items()
    }


def number(value: Any) -> str:
    """Return a figure with as many decimals as a reader wants: fewer for large ones; unknown is `–`."""
    if value is None:
        return formatting.UNKNOWN
    if isinstance(value, int):
        return f"{value:,}"
    text = f"{value:,.{1 if abs(value) >= 10 or value == 0 else 2}f}"
    return text.lstrip("-") if {*text} <= {*"-0."} else text  # what rounds to 0 has no sign


def paragraph(label: str, text: str, width: int | None = None, style: str = "dim") -> list[Text]:
    """Lay out a label and its text, wrapped between words to a terminal of `width` cells."""
    room = None if width is None else max(width - len(label), LEAST)
    lines = [text] if room is None else textwrap.wrap(text, room, break_on_hyphens=False) or [""]
    first_line, *further_lines = (line.replace(NO_BREAK, " ") for line in lines)
    return [Text.assemble((label, style), first_line), *(Text(" " * len(label) + line) for line in further_lines)]


def _fitted(widths: list[int], width: int, order: Sequence[int], numeric: Collection[int], narrowest: int) -> list[int]:
    """Make columns narrower, then drop them (0) in an order, until a row of them fits; a number is never cut."""
    fitted = list(widths)
    texts = [at for at in range(len(widths)) if at not in numeric]
    least = {at: narrowest for at in texts} | {0: max(narrowest, width // 2)}  # the first column tells rows apart
    while _total(fitted) > width and (wide := [at for at in texts if fitted[at] > least[at]]):
        widest = max(wide, key=lambda at: fitted[at])
        fitted[widest] = max(least[widest], fitted[widest] - _total(fitted) + width)
    for at in order:
        if (excess := _total(fitted) - width) > 0:
            is_enough = at in texts and fitted[at] - excess >= LEAST
            fitted[at] = fitted[at] - excess if is_enough else 0
    fitted[0] = min(fitted[0], width)
    for at, size in enumerate(fitted):  # use the room that hidden columns freed
        if size:
            fitted[at] = min(widths[at], size + max(width - _total(fitted), 0))
    return fitted


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _BETWEEN * (sum(map(bool, widths)) - 1)


def _widths(columns: Sequence[TableColumn], body: Sequence[Sequence[str]]) -> list[int]:
    titles = [column.title for column in columns]
    return [max(1, *map(width_of, texts)) for texts in zip(titles, *body, strict=True)]


def _lines(
    columns: Sequence[TableColumn], body: Sequence[Sequence[str]], widths: Sequence[int], numeric: Collection[int]
) -> list[Text]:
    visible = [at for at, size in enumerate(widths) if size]
    lines = []
    # The columns whose colour depends on their first word.
    coloured_columns = ("mark", "happened", "outcome")
    for number, row in enumerate([[column.title for column in columns], *body]):
        padded = [_padded(row[at], widths[at], at in numeric) for at in visible]
        text = Text((" " * _BETWEEN).join(padded).rstrip(" "), "" if number else "bold")
        if number:
            start = 0
            for name, cell in zip([columns[at].name for at in visible], padded, strict=True):
                if name in coloured_columns:
                    word = cell.partition(" ")[0]
                    text.stylize(_STYLES.get(word, "red"), start, start + (len(word) if name == "mark" else len(cell)))
                start += len(cell) + _BETWEEN
        lines.append(text)
    return lines


def _is_numeric(body: Sequence[Sequence[str]], at: int) -> bool:
    return all(
        row[at] == formatting.UNKNOWN or row[at].replace(",", "").replace(".", "").lstrip("-").isdigit() for row in body
    )


def _padded(text: str, width: int, right: bool) -> str:
    text = cut_to_width(text, width)
    space = " " * (width - width_of(text))
    return space + text if right else text + space


def cut_to_width(text: str, width: int) -> str:
    """Return a text cut to `width` terminal cells; `…` marks a cut."""
    text = text if text.isascii() else text.translate(_JOINERS)
    if width_of(text) <= width:
        return text
    room = width - 1
    for at, sign in enumerate(text):
        room -= _sign_width(sign)
        if room < 0:
            return text[:at].rstrip(" ") + "…"
    return text


def width_of(text: str) -> int:
    """Return the maximum width of a text in a terminal, in cells."""
    return len(text) if text.isascii() else sum(map(_sign_width, text))


def _clean(text: str) -> str:
    return text if text.isascii() else text.translate(_JOINERS)


@functools.lru_cache(maxsize=4096)
def _sign_width(sign: str) -> int:
    """Return the maximum width of a code point, in cells; terminals disagree about spacing marks: 0 or 1."""
    return max(cell_len(sign), unicodedata.category(sign) == "Mc")


_NEEDED: Final = {
    "mark": ("id", "outcome"),
    "happened": (
        "id",
        "outcome",
        "outcome_detail",
        "error_code",
        "status",
        "flags",
        "max_output_silence_ms",
        "last_silence_ms",
        "silent_end_by",
        "silent_end_is_quiet",
    ),
    "outcome": ("outcome", "outcome_detail"),
    "upstream": ("upstream", "upstream_name"),
}
"""The fields that a column shows besides its own."""


def needed(names: Sequence[str]) -> tuple[str, ...]:
    """Return the fields that a list with these columns needs: an outcome is shown with its detail."""
    return tuple(dict.fromkeys(field for name in names for field in _NEEDED.get(name, (name,))))


def listing(
    rows: Sequence[TableRow], width: int | None = None, names: Sequence[str] | None = None, today: date | None = None
) -> Table:
    """Lay out exchanges, one a line, with the columns `names`, the most important first; None is `LISTED`.

    `width` is the terminal's, in cells. A row may have the words `stalled` for its stall. Given the local day of
    `today`, days are shown without their year where that is clear.
    """
    columns = [_column(name, names or LISTED, rows, today) for name in names or LISTED]
    # On a terminal of fewer cells, the model is more important than gaps and tokens.
    narrow_width = 78
    is_narrow = width is not None and width < narrow_width
    return table(columns, rows, width, names or (_IMPORTANT_WHERE_NARROW if is_narrow else _IMPORTANT))


def happened(row: TableRow, *, is_brief: bool = False) -> str:
    """Return the ending of an exchange in words: the cause of a failure, or the stall or buffering of an answer."""
    ending = Ending(row["outcome"], row["outcome_detail"], row["error_code"], row["status"])
    ending = ending._replace(given_up="given_up" in (row["flags"] or ()))
    # A comparison has no field of how it broke off.
    if row.get("silent_end_by") == "upstream" and (lasted_ms := row["last_silence_ms"]) is not None:
        return causes.broken_off(ending, lasted_ms, is_quiet=bool(row["silent_end_is_quiet"]), is_brief=is_brief)
    if row["outcome"] == "complete" and "stall" in row["flags"]:
        lasted_ms = row["max_output_silence_ms"]
        length = "" if lasted_ms is None else f"{lasted_ms / 1e3:,.1f} s"
        return f"stall {row.get('stalled') or length}".rstrip()
    if row["outcome"] == "complete" and "burst" in row["flags"]:
        return "buffered by compression" if "buffered_by_compression" in row["flags"] else "buffered"
    return ending.cause


_CONVERSATION: Final = (
    "conversation", "last_at", "models", "argv0", "wall_ms", "largest", "turns", "exchanges", "failed", "input_tokens",
    "output_tokens", "cache_read_input_tokens", "cost", "asked",
)  # fmt: skip
_CONVERSATION_IMPORTANT: Final = (
    "conversation", "wall_ms", "largest", "turns", "asked", "last_at", "cost", "output_tokens", "input_tokens",
    "failed", "models", "cache_read_input_tokens", "exchanges", "argv0",
)  # fmt: skip


def conversations(
    rows: Sequence[TableRow], width: int | None = None, names: Sequence[str] | None = None, today: date | None = None
) -> Table:
    """Lay out conversations as `listing` does exchanges; `conversation:` accepts the short names, too.

    Without `names`, costs have a column only if one is known.
    """
    costs = {row["cost"] is not None for row in rows}
    usual = [name for name in _CONVERSATION if name != "cost" or True in costs]
    columns = [_column(name, names or usual, rows, today) for name in names or usual]
    return table(columns, rows, width, names or _CONVERSATION_IMPORTANT)


def sparked(rows: Sequence[TableRow], gaps: Iterable[bytes | None], width: int) -> Table:
    """Lay out exchanges, one a line of `width` cells, and draw the packed gaps of each, all on the first line's axis.

    `gaps` has one item for each exchange and is read as lines are taken.
    """
    longest = max(width // 5, _SHORT_ID)
    columns = [
        _column("id", SPARKED, rows),
        TableColumn("model", "model", lambda row: cut_to_width(formatting.line(row["model"]), longest)),
        plain("outcome"),
        _column("duration_ms", SPARKED, rows),
    ]
    laid_out = table(columns, rows, width - _LEAST_DRAWN - 2, ("id", "duration_ms", "model", "outcome"))
    indent = 2 + max(width_of(text.plain) for text in laid_out.lines)
    room = max(width - indent, _LEAST_DRAWN)
    axis_ns = max((ns(row["duration_ms"]) or 0 for row in rows), default=0)
    drawings = chain(
        [Text(sparkline.axis(axis_ns, room), "bold")],
        (_drawing(row, packed, axis_ns, room) for row, packed in zip(rows, gaps, strict=True)),
    )
    for text, drawing in zip(laid_out.lines, drawings, strict=True):
        text.pad_right(indent - width_of(text.plain))
        text.append_text(drawing)
    label, entries = sparkline.LEGEND.split(" ", 1)
    joined = "  ".join(entry.replace(" ", NO_BREAK) for entry in entries.split("  "))
    legend = (Text(line.plain, "dim") for line in paragraph(f"{label} ", joined, width))
    return Table([*laid_out.lines, *legend], laid_out.hidden)


def in_ascii(line: Text) -> Text:
    """Return a line with ASCII for the signs of drawings and tables; other characters stay unchanged."""
    line.plain = line.plain.translate(_ASCII)
    return line


def _drawing(row: TableRow, packed: bytes | None, axis_ns: int, width: int) -> Text:
    at = sparkline.timestamps(ns(row["ttft_ms"]), packed)
    drawing = Text(sparkline.line(at, ns(row["duration_ms"]), axis_ns, width))
    drawing.highlight_regex(f"[{sparkline.SLOW}]+", "yellow")
    drawing.highlight_regex(f"[{sparkline.LONG}]+", "red")
    return drawing


def _column(name: str, names: Sequence[str], rows: Sequence[TableRow], today: date | None = None) -> TableColumn:
    title = _TITLES.get(name, name)
    if name == "mark":
        return TableColumn(name, title, lambda row: f"{outcome_sign(row['outcome'])} {_cell('id', row['id'])}")
    if name == "happened":
        # Width of an ending in words where not all columns fit, in cells.
        short_width = 25
        return TableColumn(name, title, happened, lambda row: cut_to_width(happened(row, is_brief=True), short_width))
    if name == "outcome" and "outcome_detail" not in names:
        return TableColumn(
            name,
            title,
            lambda row: formatting.line(ending(row["outcome"], row["outcome_detail"])),
            lambda row: formatting.line(row["outcome"]),
        )
    if name == "upstream" and "upstream_name" not in names:
        return TableColumn(
            name, title, lambda row: formatting.line(formatting.server(row["upstream"], row["upstream_name"]))
        )
    if name in ("started_at", "last_at"):
        offsets = {local_time.offset(time) for row in rows if (time := local_time.local(row[name]))}
        title = f"{title} {offsets.pop() if len(offsets) == 1 else 'local'}"
        return TableColumn(name, title, lambda row: _start(row[name]), lambda row: _start(row[name], today or date.min))
    if name == "conversation":
        return TableColumn(
            name,
            title,
            lambda row: formatting.cell(row[name]),
            lambda row: formatting.cell(row[name] and row[name][:_SHORT_NAME]),
        )
    for column in OF_TIME:
        if name == column.name:
            return column
    return TableColumn(name, title, lambda row: _cell(name, row[name]))


def _start(text: str, today: date | None = None) -> str:
    """Return a local time as below a heading with its offset: to a millisecond, or given `today`, to a second."""
    time = local_time.local(text)
    if time is None:
        return formatting.line(text)
    day, precision = (f"{time:%Y-%m-%d}", "milliseconds") if today is None else (local_time.day(time, today), "seconds")
    return f"{day} {time.replace(tzinfo=None).time().isoformat(precision)}{local_time.distinction(time)}"


def _largest(row: TableRow, room: int = _BAR) -> str:
    """Return the largest part of a session's time: a bar, which is `room` cells long for all of it, and its name."""
    if not row["wall_ms"]:
        return ""
    if None in (row[f"{name}_ms"] for name in PARTS):
        return "unknown"
    part = max(PARTS, key=lambda name: row[f"{name}_ms"])
    share = row[f"{part}_ms"] / row["wall_ms"]
    bar = f"{'█' * max(round(room * share), 1):<{room}} " if room else ""
    return f"{bar}{part} {100 * share:.0f} %"


OF_TIME: Final = [
    TableColumn("wall_ms", _TITLES["wall_ms"], lambda row: formatting.seconds(row["wall_ms"])),
    TableColumn("largest", _TITLES["largest"], _largest, lambda row: _largest(row, 0)),
]
"""The columns of a session's wall time and its largest part."""


def outcome_sign(outcome: Outcome) -> str:
    return STATES[outcome].sign if outcome in STATES else ORPHAN.sign


def _cell(name: str, value: Any) -> str:
    match name:
        case "id":
            return formatting.line(value)[:_SHORT_ID]
        case "upstream":
            return formatting.line(formatting.host(value))
        case "status":
            return formatting.cell(value)
        case "sparkline":
            return formatting.line(value or "")
    if name.endswith("_ms"):
        return formatting.ms(value)
    if name == "cost":
        return formatting.amount(value)
    if type(value) is float:
        return f"{value:,.2f}"
    return formatting.count(value) if type(value) is int else formatting.cell(value)
