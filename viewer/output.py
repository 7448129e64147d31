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


def formatted(command: F) -> F:
    """Add the options for the format of what is written."""
    raw = click.option("--raw-csv", is_flag=True, help="CSV: leave texts that a spreadsheet takes for formulas alone.")
    choice = click.Choice(["table", "csv", "jsonl", "json"])
    chosen = click.option("--format", "format", type=choice, default="table", show_default=True, help="Output format.")
    return chosen(raw(command))


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


def put(format: str, fields: Sequence[str], found: "Iterable[Row]", raw_csv: bool = False) -> None:
    """Write rows to stdout as csv, jsonl or json."""
    from viewer.export import write

    with stdout() as out:
        write(out, cast("Format", format), fields, found, raw_csv=raw_csv, terminal=on_terminal())


def show(lines: "Iterable[Text]") -> None:
    """Print lines for people: in colour on a terminal, as plain text on a pipe."""
    from viewer import report

    if on_terminal():
        report.emit(lines)
    else:
        with stdout() as out:
            report.emit(lines, out)


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
