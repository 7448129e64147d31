"""Output of commands: rows in the chosen format, lines for people, to stdout or an error of one line."""

import contextlib
import io
import os
import select
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar, cast

import click

from wiretape.recorder import terminals
from wiretape.recorder.commands import hints
from wiretape.recorder.commands.options import gathered
from wiretape.recorder.errors import WiretapeError
from wiretape.recorder.plurals import counted
from wiretape.recorder.tape.redact import message
from wiretape.viewer.commands import completion

if TYPE_CHECKING:
    from rich.text import Text

    from wiretape.viewer.export.text import Format
    from wiretape.viewer.record.rows import TableRow
    from wiretape.viewer.report.tables import Table
    from wiretape.viewer.source.base import Place, Selection, Source

F = TypeVar("F", bound=Callable[..., Any])

PLAIN_WIDTH = 100
"""Width of a drawing without a terminal, in cells."""

FORMATS = ("table", "tsv", "csv", "jsonl", "json", "markdown")
"""Formats of rows: `table` and `markdown` are for people, the others are for machines and never change."""

_NAMED = 10


@dataclass(frozen=True, slots=True)
class Output:
    """The format of rows (None: the default), and its options; rows that are `exact` keep the bytes of their texts."""

    format: str | None = None
    raw_csv: bool = False
    no_header: bool = False
    columns: str | None = None
    mark: bool = False
    exact: bool = False

    @property
    def chosen(self) -> str:
        """The chosen format, or the default for the reader of stdout: a table for people, TSV for programs."""
        return self.format or ("table" if on_terminal() else "tsv")

    @property
    def is_table(self) -> bool:
        return self.chosen == "table"

    def fields(self, meanings: Mapping[str, str]) -> tuple[str, ...] | None:
        """Return the fields that `--columns` names, None if there is none; `meanings` has their meanings.

        `ttft` stands for `ttft_ms`, `all` for all. For `help`, print all of them and end the command. Raise
        `click.BadParameter`.
        """
        if self.columns == "help":
            show_definitions(meanings)
            raise click.exceptions.Exit
        if self.columns is None:
            return None
        if self.columns == "all":
            return tuple(meanings)
        return tuple(dict.fromkeys(_column(name.strip(), meanings) for name in self.columns.split(",")))

    def with_headings(self, aliases: Mapping[str, str]) -> "Output":
        """Return the same, with names of columns for their headings in `--columns`, which may end with an offset."""
        if self.columns is None:
            return self
        headings = [name.strip() for name in self.columns.split(",")]
        names = (aliases.get(heading) or aliases.get(heading.rpartition(" ")[0], heading) for heading in headings)
        return replace(self, columns=",".join(names))

    def put(
        self,
        fields: Sequence[str],
        rows: "Iterable[TableRow]",
        file: BinaryIO | None = None,
        *,
        header: bool = True,
        important: Sequence[str] = (),
        narrowest: int | None = None,
    ) -> int:
        """Write rows to stdout, or to a file, and return their count. `ids` writes their ids only.

        `header` is TSV's and CSV's. On a narrow terminal, the `important` fields of a table give way last, after texts
        are cut to `narrowest` cells.
        """
        from wiretape.viewer.export import text
        from wiretape.viewer.record.chunks import with_first_read

        if self.is_table:
            from wiretape.viewer.report import tables

            room = width() if file is None else None
            row_list = list(rows)
            table = tables.grid(fields, row_list, room, important, narrowest or tables.NARROWEST)
            if file is None:
                show_table(table)
            else:
                _write_plain(table.lines, file)
            return len(row_list)
        rows = with_first_read(rows)  # an early failure, such as an unreachable server, prints nothing
        is_ids = self.chosen == "ids"
        format, fields = ("tsv", ("id",)) if is_ids else (cast("Format", self.chosen), fields)
        header = header and not self.no_header and not is_ids
        with stdout() if file is None else contextlib.nullcontext(file) as out:
            is_shown = file is None and on_terminal()
            return text.write(
                out,
                format,
                fields,
                rows,
                raw_csv=self.raw_csv,
                terminal=is_shown,
                exact=self.exact,
                header=header,
                mark=self.mark,
            )

    def put_rounded(
        self,
        fields: Sequence[str],
        rows: "Iterable[TableRow]",
        important: Sequence[str] = (),
        narrowest: int | None = None,
    ) -> None:
        from wiretape.viewer.report import tables

        rounded_rows = map(tables.rounded, rows) if self.chosen in ("table", "markdown") else rows
        self.put(fields, rounded_rows, important=important, narrowest=narrowest)

    def put_one(self, row: "TableRow") -> None:
        """Write one row to stdout; as JSON it is an object, and no list of one."""
        if self.format != "json":
            self.put(list(row), [row])
            return
        from wiretape.viewer.export.text import write_object

        with stdout() as out:
            write_object(out, row)

    def explain(self, meanings: Mapping[str, str]) -> None:
        self.put(("field", "meaning"), [{"field": name, "meaning": text} for name, text in meanings.items()])


@contextlib.contextmanager
def opened(place: "Place") -> Iterator["Source"]:
    with place.opened() as source:
        for line in filter(None, (source.advice(), source.unmeasured())):
            click.echo(message(hints.complete(line, sys.argv[1:])), err=True)
        yield source


def report_unshipped(source: "Source", selection: "Selection", lacking: str) -> None:
    """Print on stderr the count of exchanges without bytes, if any, with the consequence, `lacking`."""
    from wiretape.recorder.decode.exchange import FLAGS, NOT_SHIPPED

    if count := source.without_bytes(selection):
        click.echo(f"wiretape: {counted(count, 'exchange')} {lacking}: {FLAGS[NOT_SHIPPED]}", err=True)


def formatted(
    formats: Sequence[str] = FORMATS, default: str = "table on a terminal, else tsv", *, columns: bool = False
) -> Callable[[F], F]:
    """Return a decorator that adds the options of `Output`, which the command gets as `out`."""
    added = [
        click.option("--format", type=click.Choice(formats), help=f"Output format. [default: {default}]"),
        click.option("--raw-csv", is_flag=True, help="CSV: do not escape texts that a spreadsheet takes for formulas."),
        click.option("--no-header", is_flag=True, help="TSV, CSV: leave out the line of field names."),
    ]
    if not columns:
        return gathered("out", lambda format, raw_csv, no_header: Output(format, raw_csv, no_header), *added)
    text = "Only these columns, in this order, such as id,model,ttft_ms; 'all' for all, which 'help' lists."
    columns_option = click.option("--columns", metavar="NAMES", shell_complete=completion.columns, help=text)

    def make(format: str | None, raw_csv: bool, no_header: bool, columns: str | None) -> Output:
        return Output(format, raw_csv, no_header, columns)

    return gathered("out", make, columns_option, *added)


def _column(name: str, choosable: Mapping[str, str]) -> str:
    from wiretape.viewer.query import guesses
    from wiretape.viewer.query.fields import NAMES

    field = next((candidate for candidate in (name, f"{name}_ms", NAMES.get(name, "")) if candidate in choosable), None)
    if field is None:
        advice = guesses.advice(name, choosable, "--columns help lists all, 'wiretape help fields' explains them")
        raise click.BadParameter(f"there is no column {name!r}{advice}", param_hint="--columns")
    return field


def show_definitions(meanings: Mapping[str, str]) -> None:
    formatter = click.HelpFormatter(width=min(width() or PLAIN_WIDTH, PLAIN_WIDTH))
    formatter.write_dl(list(meanings.items()))
    click.echo(formatter.getvalue(), nl=False)


def show(lines: "Iterable[Text]", *, ascii: bool = False) -> None:
    """Print lines for people: in colour on a terminal, as plain text on a pipe unless `FORCE_COLOR` is set.

    On a terminal without UTF-8, or if `ascii`, the signs of drawings are ASCII.
    """
    from wiretape.viewer.report import tables

    if ascii or (on_terminal() and not terminals.has_utf8()):
        lines = map(tables.in_ascii, lines)
    if not on_terminal() and not os.environ.get("FORCE_COLOR"):
        with stdout() as out:
            _write_plain(lines, out)
        return
    from rich.console import Console

    console = Console(file=sys.stdout, width=width(), highlight=False, markup=False, emoji=False, soft_wrap=True)
    for line in lines:
        console.print(line)


def _write_plain(lines: "Iterable[Text]", out: BinaryIO) -> None:
    for line in lines:
        out.write(f"{line.plain}\n".encode("utf-8", "replace"))


def show_table(table: "Table", *, ascii: bool = False) -> None:
    show(table.lines, ascii=ascii)
    tell_hidden(table.hidden)


def tell_hidden(names: Iterable[str]) -> None:
    """Print the columns without room on the terminal, and the option that shows them; nothing if there are none."""
    from rich.text import Text

    from wiretape.viewer.report import tables

    hidden = list(dict.fromkeys(names))
    if hidden:
        more = f" and {len(hidden) - _NAMED} more" if len(hidden) > _NAMED else ""
        text = f"{', '.join(hidden[:_NAMED])}{more}; widen the terminal{_remedy()}"
        show(Text(line.plain, "dim") for line in tables.paragraph("hidden: ", text, width()))


def _remedy() -> str:
    """Return the option of the running command that shows a hidden column."""
    context = click.get_current_context(silent=True)
    if context is None:
        return ""
    if context.params.get("spark"):
        return " or leave out --spark"
    remedies = {"columns": " or use --columns", "format": " or use --format json"}
    return next((text for option, text in remedies.items() if option in context.params), "")


def width() -> int | None:
    """Return the terminal's width in cells; None if stdout is none."""
    return shutil.get_terminal_size().columns if on_terminal() else None  # rich takes a dumb one for 80 wide


def on_terminal() -> bool:
    return sys.stdout.isatty()


def raise_if_unread() -> None:
    """Raise `BrokenPipeError` if stdout is a pipe whose reader has gone, which otherwise only a write detects."""
    if not hasattr(select, "poll"):  # Windows
        return
    poll = select.poll()
    try:
        poll.register(sys.stdout.fileno(), 0)  # POSIX reports POLLERR without being asked
    except (OSError, ValueError):  # not a file of the system's
        return
    if any(events & select.POLLERR for _, events in poll.poll(0)):
        raise BrokenPipeError


@contextlib.contextmanager
def stdout() -> Iterator[BinaryIO]:
    """Open stdout for bytes: all are written at the end. Raises `WiretapeError` if they cannot be.

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
