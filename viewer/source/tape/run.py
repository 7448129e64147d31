"""The exchanges of a run as columns, for its page: bounded, however many there are and however long they were."""

from collections.abc import Sequence
from typing import Any

from wiretape.recorder.decode.runs import ItemRun
from wiretape.recorder.tape.reader import Connection
from wiretape.recorder.tape.selects import select
from wiretape.recorder.tape.tables import exchanges, measures
from wiretape.viewer.record.chunks import chunk
from wiretape.viewer.source.base import Columns, OutputText
from wiretape.viewer.source.tape import queries
from wiretape.viewer.source.tape.columns import among, column
from wiretape.viewer.source.tape.conditions import Condition


def columns(
    connection: Connection, fields: Sequence[str], where: Condition | None, most: int, most_gaps: int
) -> Columns:
    """Return the newest exchanges that fit, at most `most`, with at most `most_gaps` gaps of those that waited longest.

    `fields` include `max_gap_ms` and `output_chunks`, which tell whose gaps are kept.
    """
    statement = select(exchanges.c.no, *(column(field).label(field) for field in fields))
    newest = queries.in_batches(connection, statement, where, newest_first=True, limit=most)
    rows = [row for batch in newest for row in batch][::-1]
    numbers, *values = map(list, zip(*rows, strict=True)) if rows else ([] for _ in ("no", *fields))
    by_name = dict(zip(fields, values, strict=True))
    gaps = dict(_gaps(connection, _with_gaps(numbers, by_name, most_gaps)))
    return Columns(numbers, by_name, [gaps.get(no) for no in numbers])


def _with_gaps(numbers: Sequence[int], values: dict[str, list[Any]], most: int) -> set[int]:
    """Return the exchanges whose gaps are kept: those with the longest gap come first, up to the limit of gaps."""
    longest_first = sorted(
        zip(values["max_gap_ms"], values["output_chunks"], numbers, strict=True), key=lambda row: -(row[0] or 0)
    )
    with_gaps, gap_count = set[int](), 0
    for _, chunks, no in longest_first:
        gap_count += chunks or 0
        if gap_count > most:
            break
        with_gaps.add(no)
    return with_gaps


def _gaps(connection: Connection, numbers: set[int]) -> list[tuple[int, bytes]]:
    statement = select(exchanges.c.no, measures.c.icl)
    return [
        (no, gaps or b"") for batch in queries.in_batches(connection, statement, among(numbers)) for no, gaps in batch
    ]


def outputs(connection: Connection, numbers: Sequence[int], most: int) -> dict[int, OutputText]:
    """Return the output of these exchanges, in their order, up to a limit of characters."""
    text_by_no, character_count = dict[int, OutputText](), 0
    for no, decoded in queries.decoded_bodies(connection, ((no, no) for no in numbers)):
        parts = [text for run in decoded.runs if run.chunk.output for text in _said(run)]
        text_by_no[no] = OutputText("".join(parts), list(map(len, parts)))
        character_count += len(text_by_no[no].text)
        if character_count > most:
            break
    return text_by_no


def _said(run: ItemRun) -> list[str]:
    """Return the text of each chunk of a run: texts, and names and arguments of tool calls."""
    if run.part is not None:
        return run.texts
    rows = chunk("", run.chunk)
    names = ("reasoning", "content", "refusal", "tool_name", "tool_arguments")
    return ["".join(row[name] or "" for row in rows for name in names)]
