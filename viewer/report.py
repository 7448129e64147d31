"""Rows for people: aligned tables, and one exchange in a page.

Every recorded text passes `safe` on its way here and is only ever put into `rich.text.Text`, never into markup, so it
can neither drive a terminal nor style itself. Unknown is `–`. What machines read is written by `export`.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import BinaryIO, Final

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from recorder.safe import safe
from viewer import cells, sparks
from viewer.rows import Row

LISTED: Final = (
    "id", "started_at", "model", "upstream", "status", "outcome", "outcome_detail", "ttft_ms", "icl_p50_ms",
    "max_stall_ms", "completion_tokens", "duration_ms", "flags", "sparkline",
)  # fmt: skip
"""The fields that `listing` wants."""

_SHORT_ID = 8
_NARROWEST = 26
_STYLES = {"complete": "green", "open": "cyan", "client_closed": "yellow", "outcome": ""}

_TITLES: Final = (
    "id", "started (UTC)", "model", "upstream", "status", "outcome", "ttft ms", "icl p50 ms", "max gap ms", "tokens",
    "total ms", "flags", "gaps",
)  # fmt: skip
# The order in which the columns of a list give way on a narrow terminal, the first to go first.
_GIVES_WAY = ("upstream", "gaps", "started (UTC)", "icl p50 ms", "flags", "status", "tokens", "max gap ms", "total ms")


SPARKED: Final = ("id", "model", "outcome", "ttft_ms", "duration_ms")
"""The fields that `sparked` wants."""

_SPARKED_TITLES: Final = ("id", "model", "outcome", "total ms")
_LEAST_DRAWN = 20


def emit(lines: Iterable[Text], out: BinaryIO | None = None) -> None:
    """Print lines to the terminal, in its colours and without wrapping; or write them to `out` as plain UTF-8."""
    if out is None:
        console = Console(file=sys.stdout, highlight=False, markup=False, emoji=False, soft_wrap=True)
        for line in lines:
            console.print(line)
    else:
        for line in lines:
            out.write(f"{line.plain}\n".encode("utf-8", "replace"))


def terminal_width() -> int:
    """Give the terminal's width in cells."""
    return Console(file=sys.stdout).width


def listing(found: Iterable[Row], width: int | None = None) -> Iterator[Text]:
    """Lay out exchanges, one a line; given a width in cells, columns give way until the lines fit."""
    order = [_GIVES_WAY.index(title) if title in _GIVES_WAY else len(_GIVES_WAY) for title in _TITLES]
    return _table(_TITLES, [_listed(row) for row in found], width, order)


def sparked(found: Sequence[Row], gaps: Iterable[bytes | None], width: int) -> Iterator[Text]:
    """Lay out exchanges, one a line of `width` cells, and draw the packed gaps of each, all on the first line's axis.

    `gaps` has one item for each exchange and is read as lines are taken.
    """
    body = [_named(row, max(width // 5, _SHORT_ID)) for row in found]
    beside = list(_table(_SPARKED_TITLES, body, width - _LEAST_DRAWN, (9, 1, 0, 2)))
    left = 2 + max(cell_len(text.plain) for text in beside)
    room = max(width - left, _LEAST_DRAWN)
    axis_ns = max((_ns(row["duration_ms"]) or 0 for row in found), default=0)
    drawn = chain(
        [Text(sparks.axis(axis_ns, room), "bold")],
        (_drawing(row, packed, axis_ns, room) for row, packed in zip(found, gaps, strict=True)),
    )
    for text, drawing in zip(beside, drawn, strict=True):
        text.pad_right(left - cell_len(text.plain))
        yield text.append_text(drawing)
    yield Text(sparks.LEGEND, "dim")


def in_ascii(line: Text) -> Text:
    """Give a line with ASCII for the signs of drawings and tables; recorded text stays as it is otherwise."""
    line.plain = line.plain.translate(sparks.ASCII)
    return line


def grid(fields: Sequence[str], found: Iterable[Row], width: int | None = None) -> Iterator[Text]:
    """Lay out rows of any kind under their field names; given a width in cells, the last columns give way first."""
    body = [[cells.cell(row[field]) for field in fields] for row in found]
    return _table(fields, body, width, range(len(fields), 0, -1))


def _table(
    titles: Sequence[str], body: Sequence[Sequence[str]], width: int | None, order: Sequence[int]
) -> Iterator[Text]:
    widths = [max(map(_width, column)) for column in zip(titles, *body, strict=True)]
    if width is not None:
        widths = _fitted(widths, width, order)
    shown = [at for at, size in enumerate(widths) if size]
    right = {at for at in shown if _is_numeric(body, at)}
    for number, row in enumerate([titles, *body]):
        line, spans = "", []
        for at in shown:
            padded = _padded(row[at], widths[at], at in right)
            if titles[at] == "outcome" and number:
                spans.append((len(line), len(line) + len(padded)))
            line += padded + "  "
        text = Text(line.rstrip(" "), "" if number else "bold")
        for start, end in spans:
            text.stylize(_outcome_style(row[titles.index("outcome")]), start, end)
        yield text


def _fitted(widths: list[int], width: int, order: Sequence[int]) -> list[int]:
    """Make columns narrower, then drop them (0) in their order, until a line of them fits; the first column stays."""
    fitted = list(widths)

    def excess() -> int:
        return sum(fitted) + 2 * (sum(map(bool, fitted)) - 1) - width

    while excess() > 0 and max(fitted) > _NARROWEST:
        widest = fitted.index(max(fitted))
        fitted[widest] = max(_NARROWEST, fitted[widest] - excess())
    for at in sorted(range(1, len(fitted)), key=lambda at: order[at]):
        if excess() > 0:
            fitted[at] = 0
    return fitted


def _is_numeric(body: Sequence[Sequence[str]], at: int) -> bool:
    return all(
        row[at] == cells.UNKNOWN or row[at].replace(",", "").replace(".", "").lstrip("-").isdigit() for row in body
    )


def _padded(text: str, width: int, right: bool) -> str:
    size = _width(text)
    if size > width:
        return set_cell_size(_cut_cells(text, width - 1) + "…", width)
    return " " * (width - size) + text if right else text + " " * (width - size)


def _cut_cells(text: str, width: int) -> str:
    return set_cell_size(text[: 4 * width], width).rstrip(" ")


def _width(text: str) -> int:
    return len(text) if text.isascii() else cell_len(text)


def _outcome_style(cell: str) -> str:
    return _STYLES.get(cell.partition(" ")[0], "red")


def _named(row: Row, longest: int) -> tuple[str, ...]:
    """Give the cells of one line beside a drawing, in the order of `_SPARKED_TITLES`."""
    id, model = cells.line(row["id"])[:_SHORT_ID], cells.cut(cells.line(row["model"]), longest)
    return id, model, cells.line(row["outcome"]), cells.ms(row["duration_ms"])


def _drawing(row: Row, packed: bytes | None, axis_ns: int, width: int) -> Text:
    drawn = Text(sparks.line(_ns(row["ttft_ms"]), packed, _ns(row["duration_ms"]), axis_ns, width))
    drawn.highlight_regex(f"[{sparks.SLOW}]+", "yellow")
    drawn.highlight_regex(f"[{sparks.STALLED}]+", "red")
    return drawn


def _ns(ms: float | None) -> int | None:
    return None if ms is None else round(ms * 1e6)


def _listed(row: Row) -> tuple[str, ...]:
    """Give the cells of one line of a list, in the order of `_TITLES`."""
    return (
        cells.line(row["id"])[:_SHORT_ID],
        cells.moment(row["started_at"]),
        cells.line(row["model"]),
        cells.line(cells.host(row["upstream"])),
        cells.cell(row["status"]),
        cells.outcome(row),
        cells.ms(row["ttft_ms"]),
        cells.ms(row["icl_p50_ms"]),
        cells.ms(row["max_stall_ms"]),
        cells.count(row["completion_tokens"]),
        cells.ms(row["duration_ms"]),
        safe(" ".join(row["flags"])),
        safe(row["sparkline"] or ""),
    )
