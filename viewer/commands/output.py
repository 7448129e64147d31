"""How a command writes: rows in the format asked for, lines for people, all of it to stdout or an error of one line.

Only click is imported at the top, so that commands can take the options from here.
"""

import contextlib
import io
import os
import re
import select
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar, cast

import click

from recorder.errors import WiretapeError

if TYPE_CHECKING:
    from rich.text import Text

    from viewer.export.text import Format
    from viewer.report.tables import Table
    from viewer.rows import Row

F = TypeVar("F", bound=Callable[..., Any])

PLAIN_WIDTH = 100
"""How many cells a drawing takes where there is no terminal to ask."""


FORMATS = ("table", "tsv", "csv", "jsonl", "json")
"""In what a command writes rows: `table` is for people, the others are for machines and stay as they are."""

_NAMED = 10
_NO_HEADER = f"{__name__}.no_header"


def formatted(command: F) -> F:
    """Add the options for the format of what is written; the command gets None where none was asked for."""
    return _formatted(command, FORMATS)


def formatted_or_ids(command: F) -> F:
    """Add the same options, with one format more: `ids`, one whole id a line, for other commands to read."""
    return _formatted(command, (*FORMATS, "ids"))


def formatted_page(command: F) -> F:
    """Add the options of `formatted` to a command that shows a page of one exchange, or what belongs to it."""
    default = "a page; on a pipe tsv of timing, events and reads, bytes of text and request"
    return _formatted(command, FORMATS, default)


def _formatted(command: F, formats: Sequence[str], default: str = "table on a terminal, else tsv") -> F:
    raw = click.option("--raw-csv", is_flag=True, help="CSV: leave texts that a spreadsheet takes for formulas alone.")
    bare = click.option("--no-header", is_flag=True, expose_value=False, callback=_leave_header,
                        help="TSV, CSV: leave out the line of field names.")  # fmt: skip
    said = f"Output format. [default: {default}]"
    return click.option("--format", "format", type=click.Choice(formats), help=said)(raw(bare(command)))


def columned(command: F) -> F:
    """Add `--columns`; the command gets its text, or None, for `columns_of`."""
    from viewer.commands import completing

    said = "Only these columns, in this order, such as id,model,ttft_ms; 'help' lists all of them."
    option = click.option("--columns", metavar="NAMES", shell_complete=completing.columns, help=said)
    return option(command)


def columns_of(text: str, known: Mapping[str, str]) -> tuple[str, ...]:
    """Return the columns that `--columns` names; `known` says what each means. `ttft` stands for `ttft_ms`.

    For `help`, print all of them and end the command. Raise `click.BadParameter` for one that is not known.
    """
    if text == "help":
        show_definitions(known)
        raise click.exceptions.Exit
    return tuple(dict.fromkeys(_column(name.strip(), known) for name in text.split(",")))


def _column(name: str, known: Mapping[str, str]) -> str:
    from viewer.filters.fields import NAMES, closest_first

    found = next((one for one in (name, f"{name}_ms", NAMES.get(name, "")) if one in known), None)
    if found is None:
        choices = ", ".join(closest_first(name, known))
        raise click.BadParameter(f"there is no column {name!r}: choose from {choices}", param_hint="--columns")
    return found


def show_definitions(known: Mapping[str, str]) -> None:
    """Print names and what each means, wrapped to the terminal."""
    formatter = click.HelpFormatter(width=min(width() or PLAIN_WIDTH, PLAIN_WIDTH))
    formatter.write_dl(list(known.items()))
    click.echo(formatter.getvalue(), nl=False)


def _leave_header(context: click.Context, _: click.Parameter, value: bool) -> None:
    context.meta[_NO_HEADER] = value  # for `put`, so that no command has to hand it on


def _with_header() -> bool:
    context = click.get_current_context(silent=True)
    return context is None or not context.meta.get(_NO_HEADER)


def chosen(format: str | None) -> str:
    """Give the format asked for; else the one for whoever reads stdout: people a table, programs TSV."""
    return format or ("table" if on_terminal() else "tsv")


def put(
    format: str,
    fields: Sequence[str],
    found: "Iterable[Row]",
    raw_csv: bool = False,
    out: BinaryIO | None = None,
    *,
    header: bool = True,
) -> int:
    """Write rows to `out` (None: stdout) in one of `FORMATS`, or as `ids`, and give how many there were.

    `header` is TSV's and CSV's, unless `--no-header` was said.
    """
    if format == "table":
        return _put_table(fields, list(found), out)
    from viewer.export.text import write

    header = header and format != "ids" and _with_header()
    chosen, fields = ("tsv", ("id",)) if format == "ids" else (cast("Format", format), fields)
    if out is not None:
        return write(out, chosen, fields, found, raw_csv=raw_csv, header=header)
    with stdout() as own:
        return write(own, chosen, fields, found, raw_csv=raw_csv, terminal=on_terminal(), header=header)


def put_one(format: str, row: "Row", raw_csv: bool = False) -> None:
    """Write one row to stdout in one of `FORMATS`; as JSON it is an object, and no list of one."""
    if format != "json":
        put(format, list(row), [row], raw_csv)
        return
    from viewer.export.text import write_object

    with stdout() as out:
        write_object(out, row, terminal=on_terminal())


def show(lines: "Iterable[Text]", *, ascii: bool = False) -> None:
    """Print lines for people: in colour on a terminal, as plain text on a pipe unless `FORCE_COLOR` is set.

    On a terminal without UTF-8, or if `ascii`, the signs of drawings are ASCII.
    """
    from viewer.report import lines as report

    if ascii or (on_terminal() and not has_utf8()):
        lines = map(report.in_ascii, lines)
    if on_terminal() or os.environ.get("FORCE_COLOR"):
        report.emit(lines)
    else:
        with stdout() as out:
            report.emit(lines, out)


def show_table(table: "Table", *, ascii: bool = False) -> None:
    """Print a table for people, and below it which columns had no room."""
    show(table.lines, ascii=ascii)
    tell_hidden(table.hidden)


def tell_hidden(names: Iterable[str]) -> None:
    """Print which columns had no room on the terminal, and how to see them all the same; nothing if all had."""
    from rich.text import Text

    from viewer.report import tables

    hidden = list(dict.fromkeys(names))
    if hidden:
        more = f" and {len(hidden) - _NAMED} more" if len(hidden) > _NAMED else ""
        said = f"{', '.join(hidden[:_NAMED])}{more}; widen the terminal{_remedy()}"
        for line in tables.paragraph("hidden: ", said, width()):
            show([Text(line.plain, "dim")])


def _remedy() -> str:
    """Name the option of the running command that shows a hidden column."""
    context = click.get_current_context(silent=True)
    options = {} if context is None else context.params
    if options.get("spark"):
        return " or leave out --spark"
    known = {"columns": " or use --columns", "format": " or use --format json"}
    return next((text for option, text in known.items() if option in options), "")


def _put_table(fields: Sequence[str], found: "list[Row]", out: BinaryIO | None) -> int:
    from viewer.report import lines as report
    from viewer.report import tables

    if out is not None:
        report.emit(tables.grid(fields, found).lines, out)
    else:
        show_table(tables.grid(fields, found, width()))
    return len(found)


def width() -> int | None:
    """Give the terminal's width in cells; None if stdout is none."""
    from viewer.report import lines as report

    return report.terminal_width() if on_terminal() else None


def on_terminal() -> bool:
    """Say whether stdout is a terminal."""
    return sys.stdout.isatty()


def raise_if_unread() -> None:
    """Raise `BrokenPipeError` if stdout is a pipe whose reader has gone, which otherwise only a write tells."""
    if not hasattr(select, "poll"):
        return
    poll = select.poll()
    try:
        poll.register(sys.stdout.fileno(), 0)
    except (OSError, ValueError):  # not a file of the system's
        return
    if any(what & select.POLLERR for _, what in poll.poll(0)):
        raise BrokenPipeError


def has_utf8() -> bool:
    """Say whether the locale promises a terminal that shows UTF-8; where there is none, it is taken for granted."""
    everything, characters, language = (os.environ.get(name, "") for name in ("LC_ALL", "LC_CTYPE", "LANG"))
    if characters == "C.UTF-8" and language in ("C", "POSIX"):
        characters = ""  # Python itself has set it
    return re.search(r"utf-?8", everything or characters or language or "utf-8", re.IGNORECASE) is not None


@contextlib.contextmanager
def stdout() -> Iterator[BinaryIO]:
    """Give stdout for bytes: all of them are written when this ends, or what hindered it is raised in our words.

    Python's own stdout will not do: unbuffered, a write may stop half-way; buffered, it fails only at the exit.
    """
    try:
        descriptor = sys.stdout.fileno()
    except io.UnsupportedOperation:
        yield sys.stdout.buffer
        return
    try:
        with open(descriptor, "wb", closefd=False) as out:
            yield out
    except BrokenPipeError:
        raise
    except OSError as error:
        raise WiretapeError(f"the output cannot be written ({error.strerror})") from error
