"""The options by which a command selects exchanges, and reading them: one filter from all of them.

Only click is imported at the top: `--help` must not wait for a database library. What is wrong with a filter is a usage
error that names the option. The language is `filtering.parser`'s.
"""

import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from recorder.plurals import counted
from recorder.sanitize import safe
from viewer.commands import completing

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from viewer.filters.sql import Condition
    from viewer.filters.syntax import Filter

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


def filtered(command: F) -> F:
    """Add the options that select exchanges; the command gets them as `where`: a `Filter`, or None for all."""
    return _selecting("where", read, command)


def filtered_in_words(command: F) -> F:
    """Add the same options; the command gets them as `filter_text`, in the words of `text`."""
    return _selecting("filter_text", text, command)


def _selecting(name: str, reader: Callable[..., Any], command: F) -> F:
    """Add the options that select exchanges; the command gets what the reader makes of them by this name."""

    @functools.wraps(command)
    def wrapped(
        *args: Any,
        filters: tuple[str, ...],
        models: tuple[str, ...],
        since: str | None,
        until: str | None,
        errors: bool,
        labels: tuple[str, ...],
        **kwargs: Any,
    ) -> Any:
        return command(*args, **{name: reader(filters, models, since, until, errors, labels)}, **kwargs)

    added = (
        click.option("-f", "--filter", "filters", multiple=True, metavar="EXPR", shell_complete=completing.filters,
                     help="Only what fits, such as 'model:gpt-* ttft>800ms -is:ok' or a word to search for; see "
                     "'wiretape help filters'. Several must all fit."),
        click.option("--model", "models", multiple=True, metavar="NAME", shell_complete=completing.models,
                     help="Only of this model; * is a wildcard."),
        click.option("--since", metavar="TIME", help="Only from then on: 2h (ago), today, 14:00, 2026-11-21T14:00Z."),
        click.option("--until", metavar="TIME", help="Only before then."),
        click.option("--errors", is_flag=True, help="Only failed ones."),
        click.option("--label", "labels", multiple=True, metavar="K[=V]", shell_complete=completing.labels,
                     help="Only with this label."),
    )  # fmt: skip
    return cast(F, _with(added, wrapped))


def limited(command: F) -> F:
    """Add `-n`: how many rows are given at most, after filter and order."""
    number = click.IntRange(min=0)
    return click.option("-n", "--limit", type=number, metavar="N", help="At most N rows.")(command)


def sorted_by(command: F) -> F:
    """Add `-s`; the command gets it as `sort`: a row's field and whether the largest come first, or None."""

    @functools.wraps(command)
    def wrapped(*args: Any, sort: str | None, **kwargs: Any) -> Any:
        return command(*args, sort=None if sort is None else read_sort(sort), **kwargs)

    said = "Sort by a field, such as ttft, or -gap.max for the largest first; unknown comes last."
    option = click.option("-s", "--sort", metavar="FIELD", shell_complete=completing.sorts, help=said)
    return cast(F, _with((option,), wrapped))


def read(
    filters: Sequence[str] = (),
    models: Sequence[str] = (),
    since: str | None = None,
    until: str | None = None,
    errors: bool = False,
    labels: Sequence[str] = (),
) -> "Filter | None":
    """Make one filter of all that was asked for; None if nothing was. Raises `click.BadParameter`."""
    from viewer.filters.syntax import every

    parts = [*_expressions(filters), *_terms(models, since, until, errors, labels)]
    return every(parts) if parts else None


def text(
    filters: Sequence[str] = (),
    models: Sequence[str] = (),
    since: str | None = None,
    until: str | None = None,
    errors: bool = False,
    labels: Sequence[str] = (),
) -> str:
    """Give the text of that filter, empty for all: as it was typed, if it is one and no more was asked for.

    Raises `click.BadParameter`.
    """
    where = read(filters, models, since, until, errors, labels)
    is_typed = len(filters) == 1 and not any((models, since, until, errors, labels))
    if is_typed and safe(filters[0]) == filters[0]:
        return filters[0]
    return "" if where is None else str(where)


def read_sort(text: str) -> tuple[str, bool]:
    """Read a field to sort by, and whether it is the largest first. Raises `click.BadParameter`."""
    from viewer.filters.parser import sort_order

    return _read("--sort", sort_order, text)


def condition(where: "Filter | None") -> "Condition | None":
    """Give a filter as the condition that `queries` takes."""
    from viewer.filters import sql

    return None if where is None else sql.condition(where)


def named(connection: "Connection", ids: Sequence[str], where: "Filter | None") -> "Condition | None":
    """Return the condition for the exchanges that are named, of those the ones that fit; None is for all.

    `-` reads references from stdin, one a line. Raises `NotFound` for a reference to no exchange, or to several.
    """
    from viewer.tape import queries

    fits = condition(where)
    if not ids:
        return fits
    numbers = queries.among(queries.find(connection, id) for id in _references(ids))
    return numbers if fits is None else numbers & fits


def _references(ids: Sequence[str]) -> Iterator[str]:
    for id in ids:
        if id != "-":
            yield id
            continue
        lines = (line.strip() for line in sys.stdin)
        # The first line of a column cut from a table is its name, which is too short for an id.
        yield from (line for line in lines if line not in ("", "id"))


def report_nothing(connection: "Connection", where: "Filter | None", ids: Sequence[str] = ()) -> None:
    """Print on stderr that nothing was selected, in the words of `nothing`."""
    click.echo(f"wiretape: {nothing(connection, where, ids)}", err=True)


def nothing(connection: "Connection", where: "Filter | None", ids: Sequence[str] = ()) -> str:
    """Say that no exchange matches a filter, of all or of those that `ids` name; or that the tape holds none at all.

    On a terminal, each term of the filter is followed by how many match that alone: a count of the whole tape each, for
    which no program should wait.
    """
    from viewer.filters.syntax import is_starred
    from viewer.tape import queries

    total = queries.count(connection)
    if not total:
        return queries.EMPTY
    if ids:
        return "no exchange was named" if where is None else "0 of the exchanges that were named match"
    notes = list(_matching_alone(connection, where)) if sys.stderr.isatty() else []
    if where is not None and is_starred(where):
        notes.append('In quotes * is itself; for a part of a text write ~: error~"rate limit"')
    notes += _still_to_come(where)
    return ". ".join([f"0 of {counted(total, 'exchange')} {'matches' if total == 1 else 'match'}", *notes])


def _still_to_come(where: "Filter | None") -> Iterator[str]:
    """Yield a sentence for each term that asks for exchanges of the future."""
    from viewer.filters.parser import now
    from viewer.filters.syntax import And, Compare

    latest = now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    for term in where.parts if isinstance(where, And) else (where,):
        match term:
            case Compare("started_at", ">" | ">=", str(limit)) if limit > latest:
                yield f"`{term}` is still to come"


def _matching_alone(connection: "Connection", where: "Filter | None") -> Iterator[str]:
    from viewer.filters.syntax import And
    from viewer.tape import queries

    terms = where.parts if isinstance(where, And) else ()
    if terms:
        yield "; ".join(
            f"`{safe(str(term))}` alone matches {queries.count(connection, condition(term)):,}" for term in terms
        )


def _expressions(filters: Sequence[str]) -> Iterator["Filter"]:
    from viewer.filters.parser import parse

    for text in filters:
        yield _read("--filter", parse, text)


def _terms(
    models: Sequence[str], since: str | None, until: str | None, errors: bool, labels: Sequence[str]
) -> Iterator["Filter"]:
    from recorder.decode.outcome import FAILURES
    from viewer.filters.parser import label, now, started
    from viewer.filters.syntax import Labelled, Match
    from viewer.filters.values import pattern

    if models:
        yield Match("model", tuple(_read("--model", pattern, model) for model in models))
    if since is not None:
        yield _read("--since", lambda text: started(">=", text, now()), since)
    if until is not None:
        yield _read("--until", lambda text: started("<", text, now()), until)
    if errors:
        yield Match("outcome", tuple((name,) for name in FAILURES))
    for text in labels:
        yield Labelled((_read("--label", label, text),))


def _read(option: str, reader: Callable[[str], T], text: str) -> T:
    from viewer.filters.parser import checked

    try:
        return reader(checked(text))
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=option) from error


def _with(added: Sequence[Callable[[Any], Any]], command: Callable[..., Any]) -> Any:
    for option in reversed(added):
        command = option(command)
    return command
