"""The commands `wiretape db …`: what a tape is, whether it is whole, deriving its measures again, making one up."""

import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from recorder.clock import SYSTEM
from recorder.commands import options
from recorder.errors import TapeDamaged
from recorder.plurals import counted

if TYPE_CHECKING:
    from rich.progress import Progress

    from recorder.tape.merge import Plan
    from recorder.tape.store import Store

_DAMAGED_SHOWN = 10


@click.group()
def db() -> None:
    """Look after a tape."""


@db.command()
@options.db
def info(db: Path | None) -> None:
    """Say what the tape holds."""
    from sqlalchemy import func, select

    from recorder.tape import file, lock
    from recorder.tape.schema import REVISION, exchanges, measures, sessions

    path = options.tape_path(db)
    with file.explained(path), file.read_engine(path).connect() as connection:
        outcome = func.coalesce(measures.c.outcome, "open")
        counts = connection.execute(
            select(outcome, func.count()).select_from(exchanges).outerjoin(measures).group_by(outcome).order_by(outcome)
        ).all()
        runs = connection.execute(select(func.count()).select_from(sessions)).scalar()
        (sqlite,) = connection.exec_driver_sql("SELECT sqlite_version()").one()
    size, is_terminal = path.stat().st_size, sys.stdout.isatty()
    rows: list[tuple[str, object]] = [
        ("tape", path),
        ("size", counted(size, "byte") if is_terminal else size),
        ("schema", REVISION),
        ("sqlite", sqlite),
    ]
    rows += [("sessions", runs), ("exchanges", sum(count for _, count in counts))]
    rows += [(f"  {name}", count) for name, count in counts]
    rows.append(("written by", lock.holder(path) or "nobody now"))
    for name, value in rows:
        click.echo(f"{name:<16} {value}" if is_terminal else f"{name.strip()}\t{value}")


@db.command()
@click.option("--db", type=click.Path(path_type=Path), help="A tape whose own definitions to print.")
def schema(db: Path | None) -> None:
    """Print the SQL that makes a tape: every table, column and view, with its meaning and unit."""
    from recorder.sanitize import safe
    from recorder.tape import file
    from recorder.tape.schema import statements

    for statement in statements() if db is None else file.statements(db):
        click.echo(f"{safe(statement.expandtabs(2), multiline=True) if sys.stdout.isatty() else statement};")


@db.command()
@options.db
def check(db: Path | None) -> None:
    """Check that the tape is whole; exit 3 if it is not."""
    from sqlalchemy.exc import DatabaseError

    from recorder.sanitize import safe
    from recorder.tape import checks, file

    path = options.tape_path(db)
    try:
        with file.read_engine(path, limited=False).connect() as connection:
            found = list(checks.problems(connection))
    except DatabaseError as error:
        raise TapeDamaged(f"{path} cannot be read ({error.orig}): restore it from a backup") from error
    for problem in found:
        click.echo(safe(problem))
    if found:
        raise TapeDamaged(f"{path} has {counted(len(found), 'problem')}")
    click.echo(f"{path} is whole")


@db.command()
@options.db
def upgrade(db: Path | None) -> None:
    """Bring the tape to this program's schema, after a backup beside it, and derive what older decoders derived."""
    from recorder.tape import file
    from recorder.tape.schema import REVISION
    from recorder.tape.store import Store

    path = options.tape_path(db)
    with file.writing(path, "wiretape db upgrade", create=False, any_revision=True) as connection:
        before = file.revision(connection)
        connection.rollback()
        if before == REVISION:
            click.echo(f"{path} has schema {before} already")
        else:
            backup = file.upgrade(connection, path)
            click.echo(f"{path}: schema {before} → {REVISION}; the tape as it was is {backup}")
        derived, changed = _derive(Store(connection), outdated=True)
    if derived:
        click.echo(f"{path}: {counted(derived, 'exchange')} derived again, {changed} changed")


@db.command()
@options.db
def rebuild(db: Path | None) -> None:
    """Derive all measures again from the facts; on a tape of this version nothing changes."""
    from recorder.sanitize import safe
    from recorder.tape import cells, file
    from recorder.tape.schema import metadata
    from recorder.tape.store import Store

    path = options.tape_path(db)
    with file.writing(path, "wiretape db rebuild", create=False) as connection:
        derived, changed = _derive(Store(connection))
        connection.rollback()
        for line in cells.damage_of(connection).lines(connection, metadata):
            click.echo(f"wiretape: {safe(line)}", err=True)
    click.echo(f"{path}: {counted(derived, 'exchange')} derived again, {changed} changed")


def _derive(store: "Store", *, outdated: bool = False) -> tuple[int, int]:
    """Derive the measures again, all or the `outdated` ones; return how many there were and how many changed."""
    derived = changed = 0
    numbers = store.ended(outdated=outdated)
    with _progress() as progress:
        for differs in progress.track(store.rebuild(numbers), total=len(numbers), description="deriving"):
            derived += 1
            changed += differs
    return derived, changed


@db.command()
@options.db
@click.option("--older", type=options.read_age, metavar="AGE", help="Those that began longer ago: 12h, 30d, 8w.")
@click.option("--max-size", type=options.read_size, metavar="SIZE",
              help="The oldest, until the rest takes at most so much: 500MB, 2GB.")  # fmt: skip
@options.deleting
def prune(
    db: Path | None, older: timedelta | None, max_size: int | None, dry_run: bool, yes: bool, vacuum: bool
) -> None:
    """Delete old exchanges; `wiretape rm` deletes chosen ones.

    On a terminal it asks first. Deleting leaves free pages in the file, which new recordings fill.
    """
    if older is None and max_size is None:
        raise click.UsageError("say what to delete: --older AGE, --max-size SIZE, or both")

    from recorder.tape import deleting, file, retention

    path = options.tape_path(db)
    limits = retention.Limits(older, max_size)
    with file.explained(path), file.read_engine(path).connect() as connection:
        ids = retention.past(connection, limits, SYSTEM)
    deleting.delete(
        path,
        ids,
        lambda connection: retention.enforce(connection, limits, SYSTEM),
        by="wiretape db prune",
        dry_run=dry_run,
        yes=yes,
        vacuum=vacuum,
        about="" if max_size is None else "about ",
    )


@db.command()
@options.db
@click.option("--dry-run", is_flag=True, help="Only say how much is free.")
def vacuum(db: Path | None, dry_run: bool) -> None:
    """Rewrite the tape: free space goes back to the disk, and nothing deleted stays in the file."""
    from recorder.tape import deleting

    deleting.rewrite(options.tape_path(db), dry_run=dry_run)


@db.command()
@click.argument("tapes", nargs=-1, required=True, metavar="TAPE...", type=click.Path(path_type=Path))
@options.db
@click.option("--dry-run", is_flag=True, help="Only say what would be copied.")
def merge(tapes: tuple[Path, ...], db: Path | None, dry_run: bool) -> None:
    """Copy the exchanges of other tapes onto this one, which is made if need be.

    Exchanges that are on it already are left out, so that a merge can be repeated; so are those that still run.
    Damaged ones are named and left out; the exit code is 3 then.
    """
    from recorder.tape import file, merge
    from recorder.tape.store import Store

    path = options.tape_path(db)
    merge.refuse_itself(path, tapes)
    if dry_run:
        plan = _planned(path, tapes)
        _report_damaged(plan)
        click.echo(f"would copy {counted(len(plan.exchanges), 'exchange')} to {path}{_left_out(plan)}")
        return
    early = None if path.exists() else merge.plan(None, tapes)  # no tape is made of what cannot be read
    with file.writing(path, "wiretape db merge") as connection:
        plan = early or merge.plan(connection, tapes)
        copied = 0
        with _progress() as progress:
            task = progress.add_task("copying", total=len(plan.exchanges))
            for count in merge.copy(connection, tapes, plan):
                copied += count
                progress.advance(task, count)
            store = Store(connection)
            store.recover()
            for no in progress.track(store.unsettled(), description="deriving"):
                store.settle([no])
    _report_damaged(plan)
    click.echo(f"{counted(copied, 'exchange')} copied to {path}{_left_out(plan)}")
    if plan.damaged:
        raise TapeDamaged(f"{counted(len(plan.damaged), 'exchange')} could not be copied: see 'wiretape db check'")


def _report_damaged(plan: "Plan") -> None:
    from recorder.sanitize import safe

    for line in plan.damaged[:_DAMAGED_SHOWN]:
        click.echo(f"wiretape: {safe(line)}", err=True)


def _planned(path: Path, tapes: tuple[Path, ...]) -> "Plan":
    from recorder.tape import file, merge

    if not path.exists():
        return merge.plan(None, tapes)
    with file.explained(path), file.read_engine(path).connect() as connection:
        return merge.plan(connection, tapes)


def _left_out(plan: "Plan") -> str:
    parts = [(plan.present, "on it already"), (plan.running, "still running"), (len(plan.damaged), "damaged")]
    left_out = ", ".join(f"{count:,} {why}" for count, why in parts if count)
    return f"; left out: {left_out}" if left_out else ""


def _progress() -> "Progress":
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    return Progress(console=console, disable=not console.is_terminal, transient=True)


@db.command()
@options.db
@click.option("--exchanges", type=click.IntRange(1), default=1000, show_default=True, metavar="N", help="How many.")
@click.option(
    "--chunks",
    type=click.IntRange(2),
    default=200,
    show_default=True,
    metavar="M",
    help="Output chunks of a whole answer.",
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=1,
    show_default=True,
    metavar="S",
    help="The same seed gives the same tape.",
)
def fixture(db: Path | None, exchanges: int, chunks: int, seed: int) -> None:
    """Make a synthetic tape with every outcome, for measuring speed and trying commands."""
    from recorder.demo import synthetic
    from recorder.tape import file

    path = options.tape_path(db)
    with file.writing(path, "wiretape db fixture") as connection, _progress() as progress:
        task = progress.add_task("making", total=exchanges)
        for done in synthetic.fill(connection, exchanges, chunks, seed):
            progress.update(task, completed=done)
    click.echo(f"{path}: {counted(exchanges, 'exchange')} of up to {counted(chunks, 'chunk')}, seed {seed}")
