"""The SELECTs behind a table of several exchanges: their figures, and the gaps between their output chunks.

As in `queries`, each query is short. An exchange that still runs is measured as far as it is.
"""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection, func, select

from recorder.tape import reading
from recorder.tape.schema import measures, reads
from viewer import rows
from viewer.model.listing.ranking import LABELS, Entry
from viewer.tape import queries, running

FIELDS: Final = (
    "id", "started_at", "model", "upstream", "status", "ended_by", "outcome_detail", "flags", "bytes", *LABELS,
)  # fmt: skip
"""The fields of a row of the table; one that has not been measured has a `last_read_ms`, too."""


def entries(connection: Connection, numbers: Sequence[int]) -> list[Entry]:
    """Give these exchanges, as far as they are on the tape."""
    return [found for no in numbers if (found := _entry(connection, no)) is not None]


def _entry(connection: Connection, no: int) -> Entry | None:
    row = next(queries.numbered(connection, FIELDS, [no]), None)
    if row is None:
        return None
    with connection.begin():
        gaps: bytes | None = connection.execute(select(measures.c.icl).where(measures.c.exchange_no == no)).scalar()
        last = connection.execute(select(func.max(reads.c.at_ns)).where(reads.c.exchange_no == no)).scalar()
        run = reading.run_of(connection, no)
    if row["outcome"] == "open":
        row["last_read_ms"] = rows.ms(last)
    if running.is_measurable(row):
        found = running.figures(connection, no)
        row, gaps = running.filled(row, found), found.icl
    return Entry(no, row, run, gaps or b"")
