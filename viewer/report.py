"""Rows for people: aligned tables, and one exchange in a page.

Every recorded text passes `safe` on its way here and is only ever put into `rich.text.Text`, never into markup, so it
can neither drive a terminal nor style itself. Unknown is `–`. What machines read is written by `export`.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, BinaryIO, Final
from urllib.parse import urlsplit

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from recorder.exchange import FLAGS, OUTCOMES
from recorder.safe import safe
from viewer import rows
from viewer.rows import Row

LISTED: Final = (
    "id", "started_at", "model", "upstream", "status", "outcome", "outcome_detail", "ttft_ms", "icl_p50_ms",
    "max_stall_ms", "completion_tokens", "duration_ms", "flags", "sparkline",
)  # fmt: skip
"""The fields that `listing` wants."""

_UNKNOWN = "–"
_SHORT_ID = 8
_PREVIEW = 60
_TAB = 4
_NARROWEST = 26
_STYLES = {"complete": "green", "open": "cyan", "client_closed": "yellow", "outcome": ""}

_TITLES: Final = (
    "id", "started (UTC)", "model", "upstream", "status", "outcome", "ttft ms", "icl p50 ms", "max gap ms", "tokens",
    "total ms", "flags", "gaps",
)  # fmt: skip
# The order in which the columns of a list give way on a narrow terminal, the first to go first.
_GIVES_WAY = ("upstream", "gaps", "started (UTC)", "icl p50 ms", "flags", "status", "tokens", "max gap ms", "total ms")


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


def grid(fields: Sequence[str], found: Iterable[Row], width: int | None = None) -> Iterator[Text]:
    """Lay out rows of any kind under their field names; given a width in cells, the last columns give way first."""
    cells = [[_cell(row[field]) for field in fields] for row in found]
    return _table(fields, cells, width, range(len(fields), 0, -1))


def page(row: Row) -> Iterator[Text]:
    """Tell about one exchange: `row` is `queries.detail`'s."""
    yield Text.assemble((safe(row["id"]), "bold"), f"  {_line(row['method'])} {_line(row['upstream'] + row['path'])}")
    for label, text in (*_story(row), *_numbers(row)):
        yield _labelled(label, text)
    for flag in row["flags"]:
        yield _labelled("flag", f"{safe(flag)}: {FLAGS.get(flag, 'not known to this version')}")
    for name in ("reasoning", "content", "refusal"):
        if row[name] is not None:
            yield _labelled(name, f"{len(row[name]):,} characters: {_cut(_line(row[name]), _PREVIEW)}")
    for call in row["tool_calls"] or ():
        yield _labelled("tool call", _cut(_line(f"{call['name']}({call['arguments']})"), 2 * _PREVIEW))


def answer(row: Row) -> Iterator[Text]:
    """Show the assembled texts of an exchange: reasoning dimmed, then content, refusal and tool calls."""
    for name, style in (("reasoning", "dim"), ("content", ""), ("refusal", "red")):
        if row[name] is not None:
            if name != "content":
                yield Text(f"{name}:", f"bold {style}")
            yield Text(_block(row[name]), style)
    for call in row["tool_calls"] or ():
        yield Text.assemble(("tool call: ", "bold"), _line(f"{call['name']}({call['arguments']})"))


def request(row: Row) -> Iterator[Text]:
    """Show a request: its line, its headers as stored (redacted), and its body."""
    yield Text(f"{_line(row['method'])} {_line(row['upstream'] + row['path'])}", "bold")
    for name, value in row["headers"]:
        yield Text.assemble((f"{_line(name)}: ", "dim"), _line(value))
    yield Text()
    if row["body"]:
        yield Text(_block(row["body"]))
    if row["body"] is None or len(row["body"].encode()) != row["size"]:
        yield Text(f"({row['size']:,} bytes, not all of them shown: not UTF-8, or more than the tape keeps)", "dim")


def _table(
    titles: Sequence[str], cells: Sequence[Sequence[str]], width: int | None, order: Sequence[int]
) -> Iterator[Text]:
    widths = [max(map(_width, column)) for column in zip(titles, *cells, strict=True)]
    if width is not None:
        widths = _fitted(widths, width, order)
    shown = [at for at, size in enumerate(widths) if size]
    right = {at for at in shown if _is_numeric(cells, at)}
    for number, row in enumerate([titles, *cells]):
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


def _is_numeric(cells: Sequence[Sequence[str]], at: int) -> bool:
    return all(row[at] == _UNKNOWN or row[at].replace(",", "").replace(".", "").lstrip("-").isdigit() for row in cells)


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


def _listed(row: Row) -> tuple[str, ...]:
    """Give the cells of one line of a list, in the order of `_TITLES`."""
    return (
        _line(row["id"])[:_SHORT_ID],
        _moment(row["started_at"]),
        _line(row["model"]),
        _line(_host(row["upstream"])),
        _cell(row["status"]),
        _outcome(row),
        _ms(row["ttft_ms"]),
        _ms(row["icl_p50_ms"]),
        _ms(row["max_stall_ms"]),
        _count(row["completion_tokens"]),
        _ms(row["duration_ms"]),
        safe(" ".join(row["flags"])),
        safe(row["sparkline"] or ""),
    )


def _story(row: Row) -> Iterator[tuple[str, str]]:
    """Say what was asked, what came of it and how it ended."""
    yield "started", f"{_moment(row['started_at'])} UTC"
    asked = f" (asked for {_line(row['request_model'])})" if row["request_model"] not in (None, row["model"]) else ""
    answered = f", answer {_line(row['response_id'])}" if row["response_id"] else ""
    yield "model", f"{_line(row['model'])}{asked}{answered}"
    meaning = OUTCOMES.get(row["outcome"])
    yield "outcome", _outcome(row) + (f": {meaning}" if meaning else "")
    yield "status", f"{_cell(row['status'])}, finish reason {_line(row['finish_reason'])}"
    if row["error_code"] or row["error_message"]:
        yield "error", f"{_line(row['error_code'])}: {_line(row['error_message'])}"
    if row["ended_detail"]:
        yield "transport", f"{_line(row['ended_by'])}: {_line(row['ended_detail'])}"
    for key, value in row["labels"].items():
        yield "label", _line(f"{key}={value}")


def _numbers(row: Row) -> Iterator[tuple[str, str]]:
    yield "times, ms", _listed_ms(row, "ttfb", "ttfc", "ttft", "ttfo", "ttst", "latency", "duration")
    yield "gaps, ms", _listed_ms(row, "icl_p50", "icl_p90", "icl_p99", "icl_max", "max_stall")
    yield "pace", f"tpot {_ms(row['tpot_ms'])} ms, {_ms(row['tps_user'])} tokens a second"
    tokens = ("prompt", "completion", "reasoning", "total")
    yield "tokens", ", ".join(f"{name} {_count(row[f'{name}_tokens'])}" for name in tokens)
    counts = ("reads", "events", "comments", "chunks", "output_chunks", "bytes", "gap_bytes")
    yield "counts", ", ".join(f"{name.replace('_', ' ')} {_count(row[name])}" for name in counts)
    if row["sparkline"]:
        yield "", safe(row["sparkline"])


def _listed_ms(row: Row, *names: str) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {_ms(row[f'{name}_ms'])}" for name in names)


def _labelled(label: str, text: str) -> Text:
    return Text.assemble((f"{label:<11}", "dim"), text)


def _outcome(row: Row) -> str:
    return _line(row["outcome"]) + (f" ({_line(row['outcome_detail'])})" if row["outcome_detail"] else "")


def _line(text: str | None) -> str:
    return _UNKNOWN if text is None else safe(text)


def _block(text: str) -> str:
    return safe(text.expandtabs(_TAB), multiline=True)


def _cell(value: Any) -> str:
    flat = rows.flat(value)
    return _UNKNOWN if flat is None else safe(str(flat))


def _ms(value: float | None) -> str:
    return _UNKNOWN if value is None else f"{value:,.1f}"


def _count(value: int | None) -> str:
    return _UNKNOWN if value is None else f"{value:,}"


def _moment(started_at: str) -> str:
    return safe(started_at)[:23].replace("T", " ")


def _host(upstream: str) -> str:
    try:
        return urlsplit(upstream).netloc or upstream
    except ValueError:
        return upstream


def _cut(text: str, size: int) -> str:
    return text if len(text) <= size else f"{text[: size - 1]}…"
