"""The data of pages, of one exchange or of a run: read from a source here, laid out in the modules beside this."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from wiretape.recorder.clock import SYSTEM
from wiretape.recorder.decode.exchange import RecordedExchange
from wiretape.recorder.decode.stalls import Thresholds
from wiretape.recorder.errors import NoResultFound, NotFound, TapeDamaged
from wiretape.recorder.tape.masking import Masker
from wiretape.viewer.exchange import opened, pages
from wiretape.viewer.query import coverage
from wiretape.viewer.query.syntax import Filter
from wiretape.viewer.record import rows
from wiretape.viewer.sessions.account import account, by_turn, stretches
from wiretape.viewer.sessions.exchanges import spans
from wiretape.viewer.source.base import ALL, Columns, OutputText, Selection, Source
from wiretape.viewer.stats.summary import Sample
from wiretape.viewer.wings.page import document, run, sessions, stream

_MOST_LABELS: Final = 3

_BELONGING: Final = ("conversation", "cache_verdict", "cache_broken_at")
"""The fields that need the other exchanges of the tape."""

_FIELDS: Final = (
    "id", "started_at", "labels", *run.TEXTS, *run.NUMBERS, *sessions.CONTEXT, "tool_spans", "turn_spans", "end_ns",
)  # fmt: skip
_FREE_TEXTS: Final = ("path", "labels", "error_code", "error_message", "model", "request_model", "response_model")


@dataclass(frozen=True, slots=True)
class PageContent:
    """The content of a page: the exchanges of a selection, and two groups of them to compare.

    One that is not `is_whole` is made in a fraction of the time: nothing is compared in it, and nothing played. With
    `has_conversations`, exchanges have their conversations and verdicts about caches, which takes a second on a
    large tape. `mask` replaces secrets in its texts.
    """

    selection: Selection = ALL
    sides: tuple[Filter, Filter] | None = None
    with_text: bool = False
    every_operation: bool = False
    is_whole: bool = True
    has_conversations: bool = True
    mask: Masker | None = None
    most_rows: int = run.MOST_ROWS
    most_gaps: int = run.MOST_GAPS


def exchange(
    source: Source, number: int, limits: Thresholds, mask: Masker | None = None, *, has_conversations: bool = True
) -> stream.StreamPage:
    """Read the data for the page of an exchange, masked, with its conversation and attempts if `has_conversations`.

    Raise `TapeDamaged` if a part is missing.
    """
    recorded = source.exchange(number)
    try:
        detail, full = recorded.known(worked_out=has_conversations), recorded.full(mask)
    except NoResultFound as error:
        raise TapeDamaged("the tape is damaged (an exchange lacks its session): run 'wiretape db check'") from error
    if mask is not None:
        detail = replace(detail, row=rows.masked(detail.row, mask), request=full.request)
    message = document.without_credentials(detail.row.error_message)
    detail = replace(detail, row=replace(detail.row, error_message=message))
    stored = opened.StoredAnswer(
        full.row.id, RecordedExchange(full.exchange, full.reads, full.body), detail.row.outcome, full.decoded
    )
    return stream.StreamPage(
        detail,
        full,
        opened.open_exchange(stored, limits),
        recorded.as_observed(),
        recording=not pages.is_dead(detail, SYSTEM.wall_ns()),
        is_masked=mask is not None,
    )


def read_run(source: Source, content: PageContent, limits: Thresholds) -> run.RunPage:
    """Read all that the page of a run is made of."""
    selection = content.selection
    covered = selection.covered(content.every_operation)
    counts = {} if covered is selection else source.left_out(selection)
    columns = _columns(source, content)
    (everything_sample,) = source.samples(covered, gaps=True)
    keys = ["model", *(f"label.{key}" for key in source.label_keys(covered)[:_MOST_LABELS])]
    samples = {by: source.samples(covered, (by,), gaps=True) for by in keys}
    everything, total = run.group(everything_sample, None), source.count(selection)
    sides, comparisons, played = dict[str, list[run.Group]](), list[run.Comparison](), list[str]()
    if content.is_whole:
        comparisons = [*_asked_for(source, content, columns, sides), *run.comparisons(samples, columns)]
        played = run.to_play(columns, (id for comparison in comparisons for id in comparison.worst if id is not None))
    numbers = dict(zip(columns.values["id"], columns.numbers, strict=True))
    return run.RunPage(
        filter="" if selection.filter is None else str(selection.filter),
        columns=columns,
        total=total,
        every_operation=covered is selection,
        left_out=coverage.described(counts) if counts else None,
        headlines=run.headlines(everything_sample, everything.row),
        groups={
            "": [everything],
            **sides,
            **{by: run.groups(group_samples, by) for by, group_samples in samples.items()},
        },
        smaller={
            by: len(group_samples) - run.MOST_GROUPS
            for by, group_samples in samples.items()
            if len(group_samples) > run.MOST_GROUPS
        },
        endings=source.endings(covered),
        comparisons=comparisons,
        streams=dict(_played(source, {id: numbers[id] for id in played}, limits, content.mask)),
        limits=limits,
        trend=source.trend(covered, run.TREND) if len(columns) < total else None,
        texts=_texts(source, columns, content.mask) if content.with_text else None,
        sessions=_sessions(source, content, limits) if content.has_conversations else sessions.NONE,
        is_masked=content.mask is not None,
    )


def _columns(source: Source, content: PageContent) -> Columns:
    """Read the exchanges as columns, masked; fields that need other exchanges are unknown without conversations."""
    fields = [field for field in _FIELDS if content.has_conversations or field not in _BELONGING]
    columns = source.columns(fields, content.selection, content.most_rows, content.most_gaps)
    columns.values.update({field: [None] * len(columns) for field in _FIELDS if field not in fields})
    if content.mask is not None:
        columns.values.update({name: list(map(content.mask.value, columns.values[name])) for name in _FREE_TEXTS})
    return columns


def _texts(source: Source, columns: Columns, mask: Masker | None) -> dict[int, OutputText]:
    texts = source.outputs(columns.numbers[::-1], run.MOST_TEXT)  # of the newest, up to the limit
    return {
        no: output if mask is None else replace(output, text=mask.value(output.text)) for no, output in texts.items()
    }


def _sessions(source: Source, content: PageContent, limits: Thresholds) -> sessions.PageSessions:
    """Read the newest sessions with at least two exchanges that are selected."""
    selection = content.selection
    listed = [row for row in source.conversations(selection) if row.exchanges > 1]
    newest = {row.conversation: row for row in listed[: sessions.MOST]}
    members = dict(source.members(newest, limits, SYSTEM, selection)) if newest else {}
    verdicts = source.cache_verdicts(newest, selection) if newest else {}
    page_sessions = list[sessions.PageSession]()
    for name, row in newest.items():
        session_spans, is_stepped, silent = spans(members.get(name, ()), limits)
        session_account = account(session_spans, limits, clock_step=is_stepped, silent=silent)
        parts = list(stretches(session_spans, limits)) if session_account.is_known else []
        turns = list(by_turn(session_spans, limits))
        row = row if content.mask is None else replace(row, asked=content.mask.value(row.asked))
        page_sessions.append(sessions.PageSession(row, session_account, parts, turns, verdicts.get(name, {})))
    return sessions.PageSessions(page_sessions, len(listed))


def _played(
    source: Source, numbers: dict[str, int], limits: Thresholds, mask: Masker | None
) -> Iterator[tuple[str, stream.StreamPage]]:
    """Yield exchanges to play, by their ids; one that is damaged cannot be played."""
    for id, no in numbers.items():
        with contextlib.suppress(TapeDamaged):
            yield id, exchange(source, no, limits, mask)


def _asked_for(
    source: Source, content: PageContent, columns: Columns, sides: dict[str, list[run.Group]]
) -> Iterator[run.Comparison]:
    """Compare the two requested groups, and add them to `sides`. Raise `NotFound` if one of them has no exchanges."""
    if content.sides is None:
        return
    samples, members = list[Sample](), list[list[int]]()
    places = {no: at for at, no in enumerate(columns.numbers)}
    for side in content.sides:
        covered = content.selection.narrowed(side).covered(content.every_operation)
        samples += source.samples(covered, gaps=True)
        members.append([places[no] for no in reversed(source.numbers(covered)) if no in places])
        if not samples[-1].size:
            raise NotFound(f"nothing to compare: no exchange matches {side}")
    names = str(content.sides[0]), str(content.sides[1])
    sides[run.COMPARED] = [run.side(name, sample) for name, sample in zip(names, samples, strict=True)]
    yield run.compared(None, names, samples, members, columns)
