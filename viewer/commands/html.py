"""The pages of `export --html`, of one exchange or of a run: what they are made of is read from the tape here.

Pages are laid out in `viewer.page`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, BinaryIO

from recorder.errors import NotFound
from viewer.filters import coverage

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from recorder.decode.stalls import Thresholds
    from viewer.filters.syntax import Filter
    from viewer.page import run, stream
    from viewer.stats.summary import Sample
    from viewer.tape.conditions import Condition
    from viewer.tape.run import Columns

_MOST_LABELS = 3


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a page shows: the exchanges that a filter selects, and two groups of them that are compared."""

    where: "Filter | None"
    selected: "Condition | None"
    sides: "tuple[Filter, Filter] | None" = None
    with_text: bool = False
    every_operation: bool = False


def write_one(
    connection: "Connection", no: int, limits: "Thresholds", file: BinaryIO, *, text: bool, bodies: bool
) -> int:
    """Write the page of an exchange and return its size in bytes."""
    from viewer.page import stream

    return stream.write(file, exchange(connection, no, limits), stream.Shared(text, bodies))


def exchange(connection: "Connection", no: int, limits: "Thresholds") -> "stream.Source":
    """Read all that the page of an exchange is made of."""
    from recorder.clock import Clock
    from viewer.model.exchange import opened, pages
    from viewer.page import stream
    from viewer.tape import exchange, observed, queries

    known, full = exchange.known(connection, no), exchange.full(connection, no)
    known = replace(known, row=replace(known.row, **queries.belonging(connection, no)))
    stored = opened.Stored(full.row.id, full.facts, full.reads, full.body, known.row.outcome, full.decoded)
    return stream.Source(
        known,
        full,
        opened.opened(stored, limits),
        observed.one(connection, no),
        recording=not pages.is_dead(known, Clock().wall_ns()),
    )


def write_run(connection: "Connection", wanted: Wanted, limits: "Thresholds", file: BinaryIO) -> int:
    """Write the page of a run and return its size in bytes."""
    from viewer.page import run
    from viewer.tape import overview, queries
    from viewer.tape import run as tape

    covered, left_out = wanted.selected, None
    every_operation = wanted.every_operation or coverage.names_operation(wanted.where)
    if not every_operation:
        counts = overview.left_out(connection, wanted.selected)
        covered, left_out = overview.covered(wanted.selected), coverage.described(counts) if counts else None
    columns = tape.columns(connection, wanted.selected, run.MOST_ROWS, run.MOST_GAPS)
    (whole,) = overview.samples(connection, (), covered)
    samples = {by: overview.samples(connection, (by,), covered) for by in _keys(connection, covered)}
    comparisons = [*_asked_for(connection, wanted, columns), *run.comparisons(samples, columns)]
    compared = [id for one in comparisons for id in one.worst if id is not None]
    numbers = dict(zip(columns.values["id"], columns.numbers, strict=True))
    found = run.Run(
        filter="" if wanted.where is None else str(wanted.where),
        columns=columns,
        total=queries.count(connection, wanted.selected),
        every_operation=every_operation,
        left_out=left_out,
        headlines=run.headlines(whole),
        groups={"": [run.group(whole, None)], **{by: run.groups(found, by) for by, found in samples.items()}},
        failures=overview.failures(connection, covered),
        comparisons=comparisons,
        streams={id: exchange(connection, numbers[id], limits) for id in run.to_play(columns, compared)},
        limits=limits,
        texts=tape.texts(connection, columns.numbers[::-1], run.MOST_TEXT) if wanted.with_text else None,
    )
    return run.write(file, found)


def _keys(connection: "Connection", covered: "Condition | None") -> Iterator[str]:
    """Yield what the exchanges are grouped by: their models, and the labels that most of them have."""
    from viewer.tape import overview

    yield "model"
    yield from (f"label.{key}" for key in overview.label_keys(connection, covered, _MOST_LABELS))


def _asked_for(connection: "Connection", wanted: Wanted, columns: "Columns") -> "Iterator[run.Comparison]":
    """Compare the two groups that were asked for. Raise `NotFound` if one of them has no exchanges."""
    from viewer.page import run
    from viewer.tape import conditions, overview, queries

    if wanted.sides is None:
        return
    samples, members = list["Sample"](), list[list[int]]()
    rows = {no: at for at, no in enumerate(columns.numbers)}
    for side in wanted.sides:
        condition = conditions.condition(side)
        condition = condition if wanted.selected is None else condition & wanted.selected
        if not wanted.every_operation and not coverage.names_operation(side):
            condition = overview.covered(condition)
        samples += overview.samples(connection, (), condition, gaps=False)
        members.append([rows[no] for no in queries.numbers(connection, condition) if no in rows])
        if not samples[-1].size:
            raise NotFound(f"nothing to compare: no exchange matches {side}")
    yield run.compared(None, (str(wanted.sides[0]), str(wanted.sides[1])), samples, members, columns)
