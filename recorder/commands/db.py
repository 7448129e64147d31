"""The commands `wiretape db …`: show, check, rebuild, prune, merge and make up tapes."""

import shutil
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from wiretape.recorder import paths
from wiretape.recorder.clock import SYSTEM
from wiretape.recorder.commands import dialects, hints, options
from wiretape.recorder.commands.cli import CommandGroup
from wiretape.recorder.errors import TapeDamaged
from wiretape.recorder.plurals import counted
from wiretape.recorder.tape.redact import message

if TYPE_CHECKING:
    from rich.progress import Progress
    from sqlalchemy import Connection

    from wiretape.recorder.tape.retention import DeletionSummary, Size


@click.group(cls=CommandGroup)
def db() -> None:
    """Inspect, check, repair and merge tapes."""


@db.command()
@options.db
def info(db: Path | None) -> None:
    """Show the tape's contents and size."""
    import sqlite3

    from wiretape.recorder.tape import lock, reader, reading
    from wiretape.recorder.tape.peek import REVISION

    path = options.tape_path(db)
    with reader.opened(path) as connection:
        runs, outcomes = reading.runs(connection), reading.outcomes(connection)
    size, is_terminal = path.stat().st_size, sys.stdout.isatty()
    rows: list[tuple[str, object]] = [
        ("tape", path),
        ("size", counted(size, "byte") if is_terminal else size),
        ("schema", REVISION),
        ("sqlite", sqlite3.sqlite_version),
        ("sessions", runs),
        ("exchanges", sum(outcomes.values())),
        *((f"  {name}", count) for name, count in outcomes.items()),
        ("written by", lock.holder(path) or "nobody now"),
    ]
    for name, value in rows:
        click.echo(f"{name:<16} {value}" if is_terminal else f"{name.strip()}\t{value}")


@db.command()
@click.option("--db", type=click.Path(path_type=Path), help="Print the definitions of this tape.")
def schema(db: Path | None) -> None:
    """Print the SQL of a tape, with meanings and units.

    It has every table, column and view.
    """
    from wiretape.recorder.sanitize import safe
    from wiretape.recorder.tape import file
    from wiretape.recorder.tape.schema import statements

    for statement in statements() if db is None else file.statements(db):
        click.echo(f"{safe(statement.expandtabs(2), multiline=True)};")


@db.command()
@options.db
def check(db: Path | None) -> None:
    """Check that the tape is whole; exit 3 if it is not."""
    from sqlalchemy.exc import DatabaseError

    from wiretape.recorder.sanitize import safe
    from wiretape.recorder.tape import backup, checks, file, peek

    path = options.tape_path(db)
    peek.identify(path)
    lacked_log = backup.lacks_log(path)
    try:
        with file.read_engine(path, limited=False).connect() as connection:
            problems = list(checks.problems(connection))
            suspect, count = checks.suspect_clocks(connection)
            is_open = checks.has_open_run(connection)
    except DatabaseError as error:
        raise TapeDamaged(f"{path} cannot be read ({error.orig}): restore it from a backup") from error
    for problem in problems:
        click.echo(safe(hints.complete(problem, sys.argv[1:])))
    if suspect:
        click.echo(f"note: timestamps of {suspect:,} of {counted(count, 'exchange')} may be late by more than 1 ms")
    if problems:
        raise TapeDamaged(f"{path} has {counted(len(problems), 'problem')}")
    if is_open and lacked_log and backup.lacks_log(path):  # also after the check: no recorder has started since
        click.echo(
            "note: its newest run has no end, nobody writes the tape, and it has no log: a recorder was killed, or this"
            " is a copy by cp of a tape that was recorded, without its newest data; 'wiretape db copy' makes whole ones"
        )
        click.echo(f"{path} has no damage")
    else:
        click.echo(f"{path} is whole")


@db.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@options.db
@click.option("--replace", is_flag=True, help="Replace FILE, if it is a tape.")
def copy(file: Path, db: Path | None, replace: bool) -> None:
    """Copy the tape to FILE, also while it is recorded.

    FILE is a tape of its own, private to you. It has the state at the start of the copy: running exchanges are running
    there. It takes its name when it is whole. A copy by `cp` lacks the newest data, which is in the tape's log.
    """
    from wiretape.recorder.tape import backup

    path = options.tape_path(db)
    with _progress() as progress:
        task = progress.add_task("copying", total=None)
        backup.back_up(
            path,
            file,
            replace=replace,
            report=lambda done, total: progress.update(task, completed=done, total=total),
        )
    click.echo(f"{path} copied to {file} ({bytes_(file.stat().st_size)})")


@db.command()
@options.db
def upgrade(db: Path | None) -> None:
    """Upgrade the tape to this program's schema and decoders.

    The old tape stays beside the new one. If the upgrade is interrupted, run it again: it continues. Tapes of versions
    before 0.1.0 are not supported.
    """
    from wiretape.recorder.tape import file
    from wiretape.recorder.tape.peek import REVISION

    path = options.tape_path(db)
    with _progress() as progress:
        task = progress.add_task("upgrading", total=None)
        upgraded = file.upgrade(
            path, "wiretape db upgrade", lambda done, total: progress.update(task, completed=done, total=total)
        )
    if upgraded is None:
        click.echo(f"{path} has schema {REVISION} already")
    else:
        revision, backup = upgraded
        click.echo(f"{path}: schema {revision} → {REVISION}; the old tape is {backup}")
    with file.writing(path, "wiretape db upgrade", create=False) as connection:
        derived, changed = _derive(connection, outdated=True)
    if derived:
        click.echo(f"{path}: {counted(derived, 'exchange')} derived again, {changed} changed")


@db.command()
@options.db
@dialects.option
def rebuild(db: Path | None, declared: tuple[Path, ...]) -> None:
    """Derive all measures again from the recorded facts.

    On a tape of this version nothing changes. Declarations of dialects that are given, or configured, replace those of
    the same names on the tape.
    """
    from wiretape.recorder.tape import file, rederive

    path, declared_dialects = options.tape_path(db), dialects.read(declared)
    with file.writing(path, "wiretape db rebuild", create=False) as connection:
        if declared_dialects:
            rederive.declare(connection, declared_dialects)
        derived, changed = _derive(connection)
        connection.rollback()
        for line in file.reader_of(connection).damaged_rows():
            click.echo(message(line), err=True)
    click.echo(f"{path}: {counted(derived, 'exchange')} derived again, {changed} changed")


def _derive(connection: "Connection", *, outdated: bool = False) -> tuple[int, int]:
    """Derive the measures again, all or the `outdated` ones; return the count of exchanges and of changes."""
    from wiretape.recorder.tape import rederive
    from wiretape.recorder.tape.store import Store

    derived = changed = 0
    numbers = rederive.finished_exchanges(connection, outdated=outdated)
    with _progress() as progress:
        results = rederive.rederive(Store(connection), numbers)
        for differs in progress.track(results, total=len(numbers), description="deriving"):
            derived += 1
            changed += differs
    return derived, changed


@db.command()
@options.db
@click.option(
    "--older", type=options.read_age, metavar="AGE", help="Delete exchanges that are older than this: 12h, 30d, 8w."
)
@click.option("--max-size", type=options.read_size, metavar="SIZE",
              help="Delete the oldest, until the rest has this size: 500MB, 2GB.")  # fmt: skip
@options.deleting
def prune(
    db: Path | None, older: timedelta | None, max_size: int | None, dry_run: bool, yes: bool, vacuum: bool
) -> None:
    """Delete old exchanges, by age or by the tape's size.

    `wiretape rm` deletes chosen ones. On a terminal it asks first. Deleting leaves free pages in the file, which new
    recordings fill.
    """
    if older is None and max_size is None:
        raise click.UsageError("nothing is selected: add --older AGE, --max-size SIZE, or both")

    from wiretape.recorder.tape import file, retention

    path = options.tape_path(db)
    limits = retention.TapeLimits(older, max_size)
    with file.reading(path) as connection:
        ids = retention.past(connection, limits, SYSTEM)
    delete(
        path,
        ids,
        lambda connection: retention.enforce(connection, limits, SYSTEM),
        by="wiretape db prune",
        dry_run=dry_run,
        yes=yes,
        vacuum=vacuum,
        about="" if max_size is None else "about ",
    )


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
    """Print the number of these exchanges, ask on a terminal, and delete them with `work`.

    `by` is the command, shown to others that find the tape locked; `about` stands before an estimated number. Raises
    `click.UsageError` if there is no terminal to ask on, and the kinds of `TapeError`.
    """
    from wiretape.recorder.tape import file, retention

    with file.reading(path) as connection:
        summary = retention.summary(connection, ids)
    doomed = f"{about}{_described(summary)}"
    if not summary.exchanges:
        click.echo(f"nothing to delete from {path}")
    elif dry_run:
        click.echo(f"would delete {doomed} from {path}")
    elif not yes:
        _ask(f"Delete {doomed} from {path}?")
    if not dry_run and (summary.exchanges or vacuum):
        _delete(path, work, summary.exchanges, by=by, vacuum=vacuum)


def _described(summary: "DeletionSummary") -> str:
    from wiretape.recorder.local_time import period

    began = period(summary.oldest, summary.newest, "minutes") if summary.oldest and summary.newest else "–"
    bodies = f"{bytes_(summary.body_bytes)} of response bodies"
    return f"{counted(summary.exchanges, 'exchange')} ({began}, {bodies})"


def _delete(path: Path, work: Callable[["Connection"], Iterator[int]], expected: int, *, by: str, vacuum: bool) -> None:
    from wiretape.recorder.tape import file, retention

    count = 0
    with file.writing(path, by, create=False) as connection:
        with _progress() as progress:
            task = progress.add_task("deleting", total=expected)
            for deleted in work(connection):
                count += deleted
                progress.update(task, completed=count, total=max(count, expected))
        if count:
            click.echo(f"deleted {counted(count, 'exchange')} from {path}")
        sizes = retention.vacuum(connection, path) if vacuum else None
        free = retention.size(connection).free
    if sizes is not None:
        _report_rewritten(path, *sizes)
    elif count:
        text = (
            f"{bytes_(free)} of the file are free for new recordings; until these fill them, deleted data can "
            f"still be read there: 'wiretape db vacuum' removes it"
        )
        click.echo(hints.complete(text, sys.argv[1:]))


def _ask(question: str) -> None:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise click.UsageError(f"{question} There is no terminal to ask: add --yes, or look first with --dry-run")
    click.confirm(question, abort=True, err=True)


_UNITS = ("bytes", "kB", "MB", "GB", "TB")


def bytes_(count: int) -> str:
    """Return a number of bytes for people: three digits and a decimal unit."""
    value, unit = float(count), 0
    while value >= 999.5 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{count} {_UNITS[0]}" if unit == 0 else f"{value:.3g} {_UNITS[unit]}"


@db.command()
@options.db
@click.option("--dry-run", is_flag=True, help="Only print the size of the free pages.")
def vacuum(db: Path | None, dry_run: bool) -> None:
    """Rewrite the tape without deleted data and free pages."""
    from wiretape.recorder.tape import file, retention

    path = options.tape_path(db)
    if dry_run:
        with file.reading(path) as connection:
            size = retention.size(connection)
        click.echo(f"would rewrite {path}: {bytes_(size.free)} of {bytes_(size.file)} are free pages")
        return
    with file.writing(path, "wiretape db vacuum", create=False) as connection:
        sizes = retention.vacuum(connection, path)
    _report_rewritten(path, *sizes)


def _report_rewritten(path: Path, size_before: "Size", size_after: "Size") -> None:
    click.echo(f"{path}: {bytes_(size_before.file)} → {bytes_(size_after.file)}; it has no deleted data any more")
    backups = sorted(backup.name for backup in paths.real(path).parent.glob(f"{paths.real(path).name}.before-*"))
    backup_names = f" (beside it: {', '.join(backups)})" if backups else ""
    click.echo(f"not cleaned: copies and backups of the tape{backup_names}, snapshots, and spare blocks of the disk")


@db.command()
@click.argument("tapes", nargs=-1, required=True, metavar="TAPE...", type=click.Path(path_type=Path))
@options.named_tape("The target: the tape to copy to.")
@click.option("--dry-run", is_flag=True, help="Only print the number of exchanges to copy.")
def merge(tapes: tuple[Path, ...], db: Path | None, dry_run: bool) -> None:
    """Copy the exchanges of other tapes, or of cuts, to the tape of --db.

    The target is created if it does not exist. Exchanges that are on it already are left out, so that a merge can be
    repeated; so are running ones. Damaged ones are named and left out, and the exit code is 3.
    """
    merged(options.tape_path(db), tapes, "wiretape db merge", dry_run=dry_run)


def merged(
    path: Path,
    tapes: Sequence[Path],
    purpose: str,
    selected: Collection[int] | None = None,
    *,
    dry_run: bool = False,
) -> None:
    """Copy the exchanges of tapes, or those selected of a single tape, onto one; report their number.

    `purpose` is shown to others that find the tape locked. Raises `TapeDamaged` if some could not be copied.
    """
    from wiretape.recorder.tape import cut, file, merge, recover
    from wiretape.recorder.tape.store import Store

    merge.refuse_itself(path, tapes)
    tapes = tuple(map(cut.readable, tapes))
    plan = None if paths.exists(path) else merge.plan(None, tapes, selected)  # no tape is made of an unreadable source
    if dry_run:
        if plan is None:
            with file.reading(path) as connection:
                plan = merge.plan(connection, tapes, selected)
        done = f"would copy {counted(len(plan.exchanges), 'exchange')} to {path}"
    else:
        with file.writing(path, purpose) as connection, _progress() as progress:
            plan = plan or merge.plan(connection, tapes, selected)
            task, copied = progress.add_task("copying", total=len(plan.exchanges)), 0
            for count in merge.copy(connection, tapes, plan):
                copied += count
                progress.advance(task, count)
            store = Store(connection)
            recover.recover(store.appending, spared=[session.no for session in recover.returning(connection)])
            for no in progress.track(store.settling.unsettled(), description="deriving"):
                store.settle([no])
        done = f"{counted(copied, 'exchange')} copied to {path}"
    for line in plan.damaged[:10]:
        click.echo(message(line), err=True)
    parts = [(plan.present, "on it already"), (plan.running, "still running"), (len(plan.damaged), "damaged")]
    left_out = ", ".join(f"{count:,} {reason}" for count, reason in parts if count)
    click.echo(f"{done}; left out: {left_out}" if left_out else done)
    if plan.damaged and not dry_run:
        raise TapeDamaged(f"{counted(len(plan.damaged), 'exchange')} could not be copied: see 'wiretape db check'")


def _progress() -> "Progress":
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True, width=shutil.get_terminal_size().columns)  # rich takes COLUMNS=0 for a width
    return Progress(console=console, disable=not console.is_terminal, transient=True)


@db.command()
@options.db
@click.option(
    "--exchanges", type=click.IntRange(1), default=1000, show_default=True, metavar="N", help="Number of exchanges."
)
@click.option("--chunks", type=click.IntRange(2), default=200, show_default=True, metavar="M",
              help="Number of output chunks of a complete answer.")  # fmt: skip
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, metavar="S",
              help="The same seed gives the same tape.")  # fmt: skip
def fixture(db: Path | None, exchanges: int, chunks: int, seed: int) -> None:
    """Make a synthetic tape with every outcome, for tests of speed."""
    from wiretape.recorder.demo import synthetic
    from wiretape.recorder.tape import file

    path = options.tape_path(db)
    with file.writing(path, "wiretape db fixture") as connection, _progress() as progress:
        task = progress.add_task("making", total=exchanges)
        for done in synthetic.fill(connection, exchanges, chunks, seed):
            progress.update(task, completed=done)
    click.echo(f"{path}: {counted(exchanges, 'exchange')} of up to {counted(chunks, 'chunk')}, seed {seed}")
