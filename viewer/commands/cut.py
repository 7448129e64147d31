"""The command `db cut`: chosen exchanges as a small tape, or as text, to commit beside a test."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from wiretape.recorder.commands.db import db as group
from wiretape.recorder.commands.options import db
from wiretape.recorder.errors import NotFound, OutputRefused
from wiretape.recorder.plurals import counted
from wiretape.recorder.tape.redact import shown
from wiretape.viewer.commands import masking, options, output
from wiretape.viewer.commands.progress import ProgressBar

if TYPE_CHECKING:
    from wiretape.viewer.query.syntax import Filter


def _read_patterns(context: click.Context, _option: click.Parameter, patterns: tuple[str, ...]) -> tuple[str, ...]:
    from wiretape.viewer import config

    names = {name for parameter in context.command.params for name in parameter.opts}
    for pattern in patterns:
        if pattern.partition("=")[0] in names:
            raise click.UsageError(f"--redact lacks its pattern, a regular expression: {pattern} was taken for it")
        options.parsed("--redact", config.regex, pattern)
    return patterns


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
    help="Write to FILE: text if its suffix is .jsonl, else a tape; - is text on stdout.  [required]",
)
@click.option("--text", is_flag=True, help="Write text even if the suffix is not .jsonl.")
@click.option(
    "--redact",
    "patterns",
    multiple=True,
    is_eager=True,  # before what else a missing pattern shifts
    callback=_read_patterns,
    metavar="REGEX",
    help="Replace each match, too, in bodies, headers, paths and labels by * of the same length: reads keep their "
    "sizes. The bytes are searched, decompressed, where JSON is escaped, and the texts of answers. A compressed body "
    "with a match is kept without its compression.",
)
@masking.no_redact
def cut(
    ids: tuple[str, ...],
    db: Path | None,
    filter: "Filter | None",
    file: Path | None,
    text: bool,
    patterns: tuple[str, ...],
    no_redact: bool,
) -> None:
    """Copy exchanges, chosen by id or filter, to a small tape.

    ID is 4 or more characters of an exchange's id, @ (the newest), @-1, @err (a failed one), @stall or @slow; or s:KEY
    or @s, all exchanges of a session; - reads ids from stdin, one per line. With ids and a filter, an exchange must
    match both.

    What looks like a key or a password in a body is replaced by *, unless --no-redact keeps it: see 'wiretape help
    security'.

    The same exchanges give the same file, byte for byte, without the machine and the process that recorded them. Text
    has a line for each session and exchange, for the timestamps of its reads, and for each read, for diffs and editors:
    see 'wiretape help cut'. Every command that reads a tape reads text, too, and db merge copies it.
    """
    from wiretape.recorder.tape import cut as cutting
    from wiretape.recorder.tape.lock import TEXT_SUFFIX
    from wiretape.viewer import outfile
    from wiretape.viewer.source.place import TapePlace

    if file is None:
        hint = f" ({patterns[-1]} is the pattern of --redact)" if patterns else ""
        raise click.UsageError(f"Missing option '-o' / '--output'{hint}: name the file to write.")
    is_text = text or file.suffix == TEXT_SUFFIX
    if not is_text and outfile.holds_text(file):
        raise OutputRefused(f"{file} is a text, which no database replaces: add --text, or name another file")
    mask = masking.mask(no_redact, patterns)
    path, is_stdout = options.tape(db), str(file) == "-"
    bar = ProgressBar("cutting", lambda: len(numbers), "exchange", hidden=is_stdout and sys.stdout.isatty())
    with output.opened(TapePlace(path)) as source, bar:
        numbers = source.numbers(options.selection(source, ids, filter))[::-1]
        if not numbers:
            raise NotFound(options.nothing(source, filter, ids))
        lines: Iterator[bytes] = source.lines(bar.over(numbers), mask)
        if is_stdout:
            with output.stdout() as out:
                out.writelines(lines)
            return
        with outfile.replacing(file, path) as out:
            if is_text:
                out.writelines(lines)
            else:
                cutting.make_tape(lines, out)
    wrote = f"wrote {shown(click.format_filename(file))} ({counted(len(numbers), 'exchange')}{masking.counts(mask)})"
    click.echo(wrote, err=True)
