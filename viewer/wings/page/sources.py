"""The data of pages, of one exchange or of a run: read from the tape here, laid out in the modules beside this."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import BinaryIO, Final

from sqlalchemy import Connection
from sqlalchemy.exc import NoResultFound

from wiretape.recorder.clock import SYSTEM
from wiretape.recorder.decode.exchange import RecordedExchange
from wiretape.recorder.decode.stalls import Thresholds
from wiretape.recorder.errors import NotFound, TapeDamaged
from wiretape.recorder.tape.masking import Masker
from wiretape.viewer.exchange import opened, pages
from wiretape.viewer.query import coverage
from wiretape.viewer.query.syntax import Filter
from wiretape.viewer.sessions.account import account, by_turn, stretches
from wiretape.viewer.sessions.exchanges import spans
from wiretape.viewer.source.tape import conditions, conversations, observed, overview, queries
from wiretape.viewer.source.tape import exchange as tape_exchange
from wiretape.viewer.source.tape import run as tape_run
from wiretape.viewer.source.tape import sessions as tape_sessions
from wiretape.viewer.source.tape.conditions import Condition
from wiretape.viewer.source.tape.run import Columns, OutputText
from wiretape.viewer.stats.summary import Sample
from wiretape.viewer.wings.page import document, run, sessions, stream

_MOST_LABELS: Final = 3


@dataclass(frozen=True, slots=True)
class PageContent:
    """The content of a page: the exchanges that a filter selects, and two groups of them to compare.

    One that is not `whole` is made in a fraction of the time: nothing is compared in it, and nothing played. With
    `belonging`, exchanges have their conversations and verdicts about caches, which takes a second on a large tape.
    `mask` replaces secrets in its texts.
    """

    where: Filter | None
    selected: Condition | None
    sides: tuple[Filter, Filter] | None = None
    with_text: bool = False
    every_operation: bool = False
    whole: bool = True
    belonging: bool = True
    mask: Masker | None = None
    most_rows: int = run.MOST_ROWS
    most_gaps: int = run.MOST_GAPS


def write_one(
    connection: Connection, no: int, limits: Thresholds, file: BinaryIO, shared: stream.Shared, mask: Masker | None
) -> int:
    """Write the page of an exchange and return its size in bytes."""
    return stream.write(file, exchange(connection, no, limits, mask), shared)


def exchange(
    connection: Connection, no: int, limits: Thresholds, mask: Masker | None = None, *, belonging: bool = True
) -> stream.StreamPage:
    """Read the data for the page of an exchange, masked, with its conversation and attempts if `belonging`.

    Raise `TapeDamaged` if a part is missing.
    """
    try:
        known, full = tape_exchange.known(connection, no), tape_exchange.full(connection, no, mask)
    except NoResultFound as error:
        raise TapeDamaged("the tape is damaged (an exchange lacks its session): run 'wiretape db check'") from error
    if belonging:
        known = replace(known, row=replace(known.row, **queries.worked_out(connection, no)))
    if mask is not None:
        known = replace(known, row=tape_exchange.masked_row(known.row, mask), request=full.request)
    message = document.without_credentials(known.row.error_message)
    known = replace(known, row=replace(known.row, error_message=message))
    recording = RecordedExchange(full.exchange, full.reads, full.body)
    stored = opened.StoredAnswer(full.row.id, recording, known.row.outcome, full.decoded)
    return stream.StreamPage(
        known,
        full,
        opened.opened(stored, limits),
        observed.one(connection, no),
        recording=not pages.is_dead(known, SYSTEM.wall_ns()),
        is_masked=mask is not None,
    )


def write_run(connection: Connection, wanted: PageContent, limits: Thresholds, file: BinaryIO) -> int:
    """Write the page of a run and return its size in bytes."""
    return run.write(file, read_run(connection, wanted, limits))


def read_run(connection: Connection, wanted: PageContent, limits: Thresholds) -> run.RunPage:
    """Read all that the page of a run is made of."""
    covered, left_out = wanted.selected, None
    every_operation = wanted.every_operation or coverage.names_operation(wanted.where)
    if not every_operation:
        counts = overview.left_out(connection, wanted.selected)
        covered, left_out = overview.covered(wanted.selected), coverage.described(counts) if counts else None
    without = () if wanted.belonging else tape_run.BELONGING
    columns = tape_run.columns(connection, wanted.selected, wanted.most_rows, wanted.most_gaps, without, wanted.mask)
    (whole,) = overview.samples(connection, (), covered)
    samples = {by: overview.samples(connection, (by,), covered) for by in _keys(connection, covered)}
    everything, total = run.group(whole, None), queries.count(connection, wanted.selected)
    comparisons, played = list[run.Comparison](), list[str]()
    if wanted.whole:
        comparisons = [*_asked_for(connection, wanted, columns), *run.comparisons(samples, columns)]
        played = run.to_play(columns, (id for one in comparisons for id in one.worst if id is not None))
    numbers = dict(zip(columns.values["id"], columns.numbers, strict=True))
    return run.RunPage(
        filter="" if wanted.where is None else str(wanted.where),
        columns=columns,
        total=total,
        every_operation=every_operation,
        left_out=left_out,
        headlines=run.headlines(whole, everything.row),
        groups={"": [everything], **{by: run.groups(found, by) for by, found in samples.items()}},
        smaller={by: len(found) - run.MOST_GROUPS for by, found in samples.items() if len(found) > run.MOST_GROUPS},
        endings=overview.endings(connection, covered),
        comparisons=comparisons,
        streams=dict(_played(connection, {id: numbers[id] for id in played}, limits, wanted.mask)),
        limits=limits,
        trend=overview.trend(connection, run.TREND, covered) if len(columns) < total else None,
        texts=_texts(connection, columns, wanted.mask) if wanted.with_text else None,
        sessions=_sessions(connection, wanted, limits) if wanted.belonging else sessions.NONE,
        is_masked=wanted.mask is not None,
    )


def _texts(connection: Connection, columns: Columns, mask: Masker | None) -> dict[int, OutputText]:
    texts = tape_run.texts(connection, columns.numbers[::-1], run.MOST_TEXT)
    return {no: one if mask is None else replace(one, text=mask.value(one.text)) for no, one in texts.items()}


def _sessions(connection: Connection, wanted: PageContent, limits: Thresholds) -> sessions.PageSessions:
    """Read the newest sessions with at least two exchanges that are selected."""
    selected = wanted.selected
    listed = [row for row in conversations.listed(connection, selected) if row.exchanges > 1]
    newest = {row.conversation: row for row in listed[: sessions.MOST]}
    members = dict(tape_sessions.members(connection, limits, SYSTEM, selected, newest)) if newest else {}
    verdicts = tape_sessions.verdicts(connection, selected, newest) if newest else {}
    each = list[sessions.PageSession]()
    for name, row in newest.items():
        found, is_stepped = spans(members.get(name, ()), limits)
        its = account(found, limits, clock_step=is_stepped)
        parts = list(stretches(found, limits)) if its.is_known else []
        turns = list(by_turn(found, limits))
        row = row if wanted.mask is None else replace(row, asked=wanted.mask.value(row.asked))
        each.append(sessions.PageSession(row, its, parts, turns, verdicts.get(name, {})))
    return sessions.PageSessions(each, len(listed))


def _played(
    connection: Connection, numbers: dict[str, int], limits: Thresholds, mask: Masker | None
) -> Iterator[tuple[str, stream.StreamPage]]:
    """Yield exchanges to play, by their ids; one that is damaged cannot be played."""
    for id, no in numbers.items():
        with contextlib.suppress(TapeDamaged):
            yield id, exchange(connection, no, limits, mask)


def _keys(connection: Connection, covered: Condition | None) -> Iterator[str]:
    """Yield the fields to group by: the model, and the most common labels."""
    yield "model"
    yield from (f"label.{key}" for key in overview.label_keys(connection, covered, _MOST_LABELS))


def _asked_for(connection: Connection, wanted: PageContent, columns: Columns) -> Iterator[run.Comparison]:
    """Compare the two requested groups. Raise `NotFound` if one of them has no exchanges."""
    if wanted.sides is None:
        return
    samples, members = list[Sample](), list[list[int]]()
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
