"""The rows of the tables that can be exported, as a tape's source has them."""

from collections.abc import Iterator
from pathlib import Path

from wiretape.recorder.clock import SYSTEM
from wiretape.recorder.decode.stalls import DEFAULT
from wiretape.recorder.tape.reader import Connection
from wiretape.viewer.export import text
from wiretape.viewer.record import rows
from wiretape.viewer.record.rows import TableRow
from wiretape.viewer.source.base import ALL
from wiretape.viewer.source.place import TapePlace


def table_rows(connection: Connection, table: str) -> Iterator[TableRow]:
    """Return the rows of a table, oldest first, with its fields in their order."""
    source = TapePlace(Path()).source_on(connection)
    match table:
        case "chunks" | "reads" | "turns":
            return source.table(table, ALL)
        case "conversations":
            return rows.only(source.sessions(ALL, DEFAULT, SYSTEM)[::-1], text.TABLES[table])
    return source.rows(text.TABLES[table])
