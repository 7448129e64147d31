"""The command `db cut`: chosen exchanges as a small tape, or as text, to commit beside a test."""

import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from wiretape.recorder.commands.db import db as group
from wiretape.recorder.commands.options import db
from wiretape.recorder.errors import WiretapeError
from wiretape.recorder.plurals import counted
from wiretape.recorder.tape.redact import shown
from wiretape.viewer.commands import options, output
from wiretape.viewer.commands.progress import ProgressBar

if TYPE_CHECKING:
    from wiretape.recorder.tape.cut import Redact
    from wiretape.viewer.query.syntax import Filter

REDACT_SECONDS: Final = 10.0
"""The processor time that the patterns of `--redact` may take for one text."""


@group.command()
@options.exchange_ids()
@db
@options.filtered
@click.option(
    "-o",
    "--output",
    "file",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    metavar="FILE",
    required=True,
    help="Write to FILE: text if its suffix is .jsonl, else a tape; - is text on stdout.",
)
@click.option("--text", is_flag=True, help="Write text even if the suffix is not .jsonl.")
@click.option(
    "--redact",
    "patterns",
    multiple=True,
    metavar="REGEX",
    help="Replace each match in bodies, headers, paths and labels by * of the same length: reads keep their sizes. "
    "The bytes are searched, decompressed: JSON is escaped there, and a word may be split over two events. A "
    "compressed body with a match is kept without its compression.",
)
def cut(
    ids: tuple[str, ...], db: Path | None, where: "Filter | None", file: Path, text: bool, patterns: tuple[str, ...]
) -> None:
    """Copy exchanges, chosen by id or filter, to a small tape.

    ID is 4 or more characters of an exchange's id, @ (the newest), @-1, @err (a failed one), @stall or @slow; or s:KEY
    or @s, all exchanges of a session; - reads ids from stdin, one per line. With ids and a filter, an exchange must
    match both.

    The same exchanges give the same file, byte for byte, without the machine and the process that recorded them. Text
    has a line for each session and exchange, for the timestamps of its reads, and for each read, for diffs and editors:
    see 'wiretape help cut'. Every command that reads a tape reads text, too, and db merge copies it.
    """
    from wiretape.recorder.tape import cut as cutting
    from wiretape.recorder.tape.lock import TEXT_SUFFIX
    from wiretape.viewer import outfile
    from wiretape.viewer.source.tape.place import TapePlace

    redact = options.parsed("--redact", lambda _: _redactor(patterns), "") if patterns else bytes
    path, is_stdout = options.tape(db), str(file) == "-"
    bar = ProgressBar("cutting", lambda: len(numbers), "exchange", hidden=is_stdout and sys.stdout.isatty())
    with output.opened(TapePlace(path)) as source, bar:
        numbers = source.numbers(options.named(source, ids, where))[::-1]
        if not numbers:
            options.report_nothing(source, where, ids)
        lines: Iterator[bytes] = cutting.lines(source.tape("bodies"), bar.over(numbers), redact)
        if is_stdout:
            with output.stdout() as out:
                out.writelines(lines)
            return
        with outfile.replacing(file, path) as out:
            if text or file.suffix == TEXT_SUFFIX:
                out.writelines(lines)
            else:
                cutting.make_tape(lines, out)
    click.echo(f"wrote {shown(click.format_filename(file))} ({counted(len(numbers), 'exchange')})", err=True)


def _redactor(patterns: tuple[str, ...]) -> "Redact":
    from wiretape.recorder.tape import cut as cutting

    try:
        redact = cutting.redactor(patterns)
    except re.error as error:
        raise ValueError(f"{error.pattern!r} is no regular expression: {error}") from error

    def give_up(*_: object) -> None:
        raise WiretapeError(
            f"a --redact pattern took more than {REDACT_SECONDS:g} s for one text: write it without a repetition "
            "within a repetition, such as (a+)+, or leave out exchanges with long texts"
        )

    def redact_in_time(data: bytes) -> bytes:
        signal.setitimer(signal.ITIMER_VIRTUAL, REDACT_SECONDS)
        try:
            return redact(data)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)

    signal.signal(signal.SIGVTALRM, give_up)  # matching looks after signals
    return redact_in_time
