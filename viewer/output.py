"""How a command writes: rows in the format asked for, lines for people, all of it to stdout or an error of one line.

Only click is imported at the top, so that commands can take the options from here.
"""

import contextlib
import functools
import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar, cast

import click

from recorder.errors import WiretapeError

if TYPE_CHECKING:
    from rich.text import Text

    from viewer.export import Format
    from viewer.rows import Row

F = TypeVar("F", bound=Callable[..., Any])

_SIGPIPE_EXIT = 128 + 13

PLAIN_WIDTH = 100
"""How many cells a drawing takes where there is no terminal to ask."""


FORMATS = ("table", "tsv", "csv", "jsonl", "json")
"""In what a command writes rows: `table` is for people, the others are for machines and stay as they are."""


def formatted(command: F) -> F:
    """Add the options for the format of what is written; the command gets None where none was asked for."""
    raw = click.option("--raw-csv", is_flag=True, help="CSV: leave texts that a spreadsheet takes for formulas alone.")
    said = "Output format. [default: table on a terminal, else tsv]"
    return click.option("--format", "format", type=click.Choice(FORMATS), help=said)(raw(command))


def chosen(format: str | None) -> str:
    """Give the format asked for; else the one for whoever reads stdout: people a table, programs TSV."""
    return format or ("table" if on_terminal() else "tsv")


def quiet(command: F) -> F:
    """End as other filters do when nobody reads their output any more, such as `stats | head`: without a word."""

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
            sys.stdout.flush()
        except BrokenPipeError:
            # What is still buffered would fail again when the interpreter flushes it at its exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(_SIGPIPE_EXIT)

    return cast(F, wrapped)


def put(
    format: str,
    fields: Sequence[str],
    found: "Iterable[Row]",
    raw_csv: bool = False,
    out: BinaryIO | None = None,
    *,
    header: bool = True,
) -> int:
    """Write rows to `out` (None: stdout) in one of `FORMATS`, and give how many there were; `header` is TSV's."""
    if format == "table":
        return _put_table(fields, list(found), out)
    from viewer.export import write

    chosen = cast("Format", format)
    if out is not None:
        return write(out, chosen, fields, found, raw_csv=raw_csv)
    with stdout() as own:
        return write(own, chosen, fields, found, raw_csv=raw_csv, terminal=on_terminal(), header=header)


def put_one(format: str, row: "Row", raw_csv: bool = False) -> None:
    """Write one row to stdout in one of `FORMATS`; as JSON it is an object, and no list of one."""
    if format != "json":
        put(format, list(row), [row], raw_csv)
        return
    from viewer.export import write_object

    with stdout() as out:
        write_object(out, row, terminal=on_terminal())


def show(lines: "Iterable[Text]") -> None:
    """Print lines for people: in colour on a terminal, as plain text on a pipe."""
    from viewer import report

    if on_terminal():
        report.emit(lines)
    else:
        with stdout() as out:
            report.emit(lines, out)


def _put_table(fields: Sequence[str], found: "list[Row]", out: BinaryIO | None) -> int:
    from viewer import report

    if out is not None:
        report.emit(report.grid(fields, found), out)
    else:
        show(report.grid(fields, found, width()))
    return len(found)


def width() -> int | None:
    """Give the terminal's width in cells; None if stdout is none."""
    from viewer import report

    return report.terminal_width() if on_terminal() else None


def on_terminal() -> bool:
    """Say whether stdout is a terminal."""
    return sys.stdout.isatty()


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
