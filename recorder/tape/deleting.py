"""Deleting exchanges at a person's request: what would go, the question, the work, and what is erased by it.

What `rm` and `db prune` have in common. Choosing is left to them, the work itself to `recorder.tape.retention`.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from recorder.plurals import counted
from recorder.tape import file, retention

if TYPE_CHECKING:
    from sqlalchemy import Connection

_UNITS = ("bytes", "kB", "MB", "GB", "TB")


def delete(
    path: Path,
    ids: Sequence[str],
    work: Callable[["Connection"], Iterator[int]],
    *,
    by: str,
    dry_run: bool,
    yes: bool,
    vacuum: bool,
    about: str = "",
) -> None:
    """Say what `work` deletes, which is these exchanges, ask on a terminal, and let it.

    `by` is the command, for whoever finds the tape taken; `about` stands before a number that is estimated. Raises
    `click.UsageError` if nobody can be asked, and the kinds of `TapeError`.
    """
    with file.explained(path), file.read_engine(path).connect() as connection:
        summary = retention.summary(connection, ids)
    if not summary.exchanges:
        click.echo(f"nothing to delete from {path}")
    elif dry_run:
        click.echo(f"would delete {about}{_described(summary)} from {path}")
    else:
        _ask(f"Delete {about}{_described(summary)} from {path}?", yes)
    if dry_run or not (summary.exchanges or vacuum):
        return
    with file.writing(path, by, create=False) as connection:
        count = _work(work(connection), summary.exchanges)
        if count:
            click.echo(f"deleted {counted(count, 'exchange')} from {path}")
        sizes = retention.vacuum(connection, path) if vacuum else None
        size = retention.size(connection)
    if sizes is not None:
        _say_rewritten(path, *sizes)
    elif count:
        click.echo(
            f"{bytes_(size.free)} of the file are free for new recordings; until these fill them, what was deleted can "
            f"still be read there: 'wiretape db vacuum' rewrites the tape without it"
        )


def _work(deleting: Iterator[int], expected: int) -> int:
    from rich.console import Console
    from rich.progress import Progress

    count = 0
    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal, transient=True) as progress:
        task = progress.add_task("deleting", total=expected)
        for deleted in deleting:
            count += deleted
            progress.update(task, completed=count, total=max(count, expected))
    return count


def rewrite(path: Path, *, dry_run: bool) -> None:
    """Rewrite a tape without its free pages, and say what that gave back."""
    if dry_run:
        with file.explained(path), file.read_engine(path).connect() as connection:
            size = retention.size(connection)
        click.echo(f"would rewrite {path}: {bytes_(size.free)} of {bytes_(size.file)} are free pages")
        return
    with file.writing(path, "wiretape db vacuum", create=False) as connection:
        sizes = retention.vacuum(connection, path)
    _say_rewritten(path, *sizes)


def _say_rewritten(path: Path, before: retention.Size, after: retention.Size) -> None:
    click.echo(f"{path}: {bytes_(before.file)} → {bytes_(after.file)}; nothing deleted is left in the file")
    backups = sorted(one.name for one in path.resolve().parent.glob(f"{path.resolve().name}.before-*"))
    named = f" (beside it: {', '.join(backups)})" if backups else ""
    click.echo(f"not reached: copies and backups of the tape{named}, snapshots, and what the disk itself has put aside")


def _ask(question: str, yes: bool) -> None:
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise click.UsageError(f"{question} There is no terminal to ask: add --yes, or look first with --dry-run")
    click.confirm(question, abort=True, err=True)


def _described(summary: retention.Summary) -> str:
    began = [at[:16].replace("T", " ") for at in (summary.oldest, summary.newest) if at]
    span = began[0] if len(set(began)) == 1 else " … ".join(began)
    return f"{counted(summary.exchanges, 'exchange')} ({span} UTC, {bytes_(summary.body_bytes)} of response bodies)"


def bytes_(count: int) -> str:
    """Return a number of bytes for people: three digits and a decimal unit."""
    value, unit = float(count), 0
    while value >= 999.5 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{count} {_UNITS[0]}" if unit == 0 else f"{value:.3g} {_UNITS[unit]}"
