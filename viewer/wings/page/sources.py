"""The data of pages, of one exchange or of a run: read from the tape here, laid out in the modules beside this."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import BinaryIO, Final

from wiretape.recorder.clock import SYSTEM
from wiretape.recorder.decode.exchange import RecordedExchange
from wiretape.recorder.decode.stalls import Thresholds
from wiretape.recorder.errors import NoResultFound, NotFound, TapeDamaged
from wiretape.recorder.tape.masking import Masker
from wiretape.recorder.tape.reader import Connection
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

    One that is not `is_whole` is made in a fraction of the time: nothing is compared in it, and nothing played. With
    `has_conversations`, exchanges have their conversations and verdicts about caches, which takes a second on a
    large tape. `mask` replaces secrets in its texts.
    """

    filter: Filter | None
    selected: Condition | None
    sides: tuple[Filter, Filter] | None = None
    with_text: bool = False
    every_operation: bool = False
    is_whole: bool = True
    has_conversations: bool = True
    mask: Masker | None = None
    most_rows: int = run.MOST_ROWS
    most_gaps: int = run.MOST_GAPS


def write_one(
    connection: Connection, no: int, limits: Thresholds, file: BinaryIO, shared: stream.Shared, mask: Masker | None
) -> int:
    return stream.write(file, exchange(connection, no, limits, mask), shared)


def exchange(
    connection: Connection, no: int, limits: Thresholds, mask: Masker | None = None, *, has_conversations: bool = True
) -> stream.StreamPage:
    """Read the data for the page of an exchange, masked, with its conversation and attempts if `has_conversations`.

    Raise `TapeDamaged` if a part is missing.
    """
    try:
        detail, full = tape_exchange.known(connection, no), tape_exchange.full(connection, no, mask)
    except NoResultFound as error:
        raise TapeDamaged("the tape is damaged (an exchange lacks its session): run 'wiretape db check'") from error
    if has_conversations:
        detail = replace(detail, row=replace(detail.row, **queries.worked_out(connection, no)))
    if mask is not None:
        detail = replace(detail, row=tape_exchange.masked_row(detail.row, mask), request=full.request)
    message = document.without_credentials(detail.row.error_message)
    detail = replace(detail, row=replace(detail.row, error_message=message))
    stored = opened.StoredAnswer(
        full.row.id, RecordedExchange(full.exchange, full.reads, full.body), detail.row.outcome, full.decoded
    )
    return stream.StreamPage(
        detail,
        full,
        opened.open_exchange(stored, limits),
        observed.one(connection, no),
        recording=not pages.is_dead(detail, SYSTEM.wall_ns()),
        is_masked=mask is not None,
    )


def write_run(connection: Connection, content: PageContent, limits: Thresholds, file: BinaryIO) -> int:
    return run.write(file, read_run(connection, content, limits))


def read_run(connection: Connection, content: PageContent, limits: Thresholds) -> run.RunPage:
    """Read all that the page of a run is made of."""
    covered, left_out = content.selected, None
    every_operation = content.every_operation or coverage.names_operation(content.filter)
    if not every_operation:
        counts = overview.left_out(connection, content.selected)
        covered, left_out = overview.covered(content.selected), coverage.described(counts) if counts else None
    without = () if content.has_conversations else tape_run.BELONGING
    columns = tape_run.columns(
        connection, content.selected, content.most_rows, content.most_gaps, without, content.mask
    )
    (everything_sample,) = overview.samples(connection, (), covered)
    samples = {by: overview.samples(connection, (by,), covered) for by in _keys(connection, covered)}
    everything, total = run.group(everything_sample, None), queries.count(connection, content.selected)
    comparisons, played = list[run.Comparison](), list[str]()
    if content.is_whole:
        comparisons = [*_asked_for(connection, content, columns), *run.comparisons(samples, columns)]
        played = run.to_play(columns, (id for comparison in comparisons for id in comparison.worst if id is not None))
    numbers = dict(zip(columns.values["id"], columns.numbers, strict=True))
    return run.RunPage(
        filter="" if content.filter is None else str(content.filter),
        columns=columns,
        total=total,
        every_operation=every_operation,
        left_out=left_out,
        headlines=run.headlines(everything_sample, everything.row),
        groups={"": [everything], **{by: run.groups(group_samples, by) for by, group_samples in samples.items()}},
        smaller={
            by: len(group_samples) - run.MOST_GROUPS
            for by, group_samples in samples.items()
            if len(group_samples) > run.MOST_GROUPS
        },
        endings=overview.endings(connection, covered),
        comparisons=comparisons,
        streams=dict(_played(connection, {id: numbers[id] for id in played}, limits, content.mask)),
        limits=limits,
        trend=overview.trend(connection, run.TREND, covered) if len(columns) < total else None,
        texts=_texts(connection, columns, content.mask) if content.with_text else None,
        sessions=_sessions(connection, content, limits) if content.has_conversations else sessions.NONE,
        is_masked=content.mask is not None,
    )


def _texts(connection: Connection, columns: Columns, mask: Masker | None) -> dict[int, OutputText]:
    texts = tape_run.texts(connection, columns.numbers[::-1], run.MOST_TEXT)  # of the newest, up to the limit
    return {
        no: output if mask is None else replace(output, text=mask.value(output.text)) for no, output in texts.items()
    }


def _sessions(connection: Connection, content: PageContent, limits: Thresholds) -> sessions.PageSessions:
    """Read the newest sessions with at least two exchanges that are selected."""
    selected = content.selected
    rows = [row for row in conversations.listed(connection, selected) if row.exchanges > 1]
    newest = {row.conversation: row for row in rows[: sessions.MOST]}
    members = dict(tape_sessions.members(connection, limits, SYSTEM, selected, newest)) if newest else {}
    verdicts = tape_sessions.verdicts(connection, selected, newest) if newest else {}
    page_sessions = list[sessions.PageSession]()
    for name, row in newest.items():
        session_spans, is_stepped = spans(members.get(name, ()), limits)
        session_account = account(session_spans, limits, clock_step=is_stepped)
        parts = list(stretches(session_spans, limits)) if session_account.is_known else []
        turns = list(by_turn(session_spans, limits))
        row = row if content.mask is None else replace(row, asked=content.mask.value(row.asked))
        page_sessions.append(sessions.PageSession(row, session_account, parts, turns, verdicts.get(name, {})))
    return sessions.PageSessions(page_sessions, len(rows))


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


def _asked_for(connection: Connection, content: PageContent, columns: Columns) -> Iterator[run.Comparison]:
    """Compare the two requested groups. Raise `NotFound` if one of them has no exchanges."""
    if content.sides is None:
        return
    samples, members = list[Sample](), list[list[int]]()
    rows = {no: at for at, no in enumerate(columns.numbers)}
    for side in content.sides:
        condition = conditions.condition(side)
        condition = condition if content.selected is None else condition & content.selected
        if not content.every_operation and not coverage.names_operation(side):
            condition = overview.covered(condition)
        samples += overview.samples(connection, (), condition, gaps=False)
        members.append([rows[no] for no in queries.numbers(connection, condition) if no in rows])
        if not samples[-1].size:
            raise NotFound(f"nothing to compare: no exchange matches {side}")
    yield run.compared(None, (str(content.sides[0]), str(content.sides[1])), samples, members, columns)
