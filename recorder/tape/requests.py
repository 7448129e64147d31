"""Stores request bodies: what one repeats of another is stored once.

Which bodies are versions of one family, and in which parts, is decided by `wiretape.recorder.tape.weaving` from the
bodies in memory: a writer that starts knows none, and begins new families.
"""

import sqlite3
from collections.abc import Iterable
from typing import Final

from wiretape.recorder.tape.weaving import LAST_VERSION, Family, Part, Recent, Step, may_share

_IS_STORED: Final = "SELECT 1 FROM exchanges WHERE no = ?"
_NEXT_FAMILY: Final = "SELECT coalesce(max(family), 0) + 1 FROM request_parts"
_CLEAR: Final = "UPDATE exchanges SET request_body = NULL WHERE no = ?"
_INSERT_VERSION: Final = "INSERT INTO request_versions (exchange_no, family, version) VALUES (?, ?, ?)"
_INSERT_PART: Final = f"""INSERT INTO request_parts (family, position, since, until, data)
    VALUES (?, ?, ?, {LAST_VERSION}, ?)"""
_COPY: Final = """INSERT INTO request_parts (family, position, since, until, data)
    SELECT family, ?, since, until, substr(data, ?, ?) FROM request_parts WHERE no = ?"""
_REDUCE: Final = "UPDATE request_parts SET position = ?, data = substr(data, ?, ?) WHERE no = ?"
_END: Final = "UPDATE request_parts SET until = ? WHERE no = ?"


class Requests:
    """Stores the request bodies of a tape through its only writing connection, in the caller's transactions."""

    def __init__(self, driver: sqlite3.Connection) -> None:
        self._driver = driver
        self.forget()

    def forget(self) -> None:
        """Drop all bodies from memory, as the transaction that stored them may have failed."""
        self._recent = Recent()

    def put(self, no: int, body: bytes) -> None:
        """Store the whole body of an exchange whose row has none yet."""
        is_shared = may_share(body)
        if not is_shared or not self._extend(no, body):
            self._driver.execute("UPDATE exchanges SET request_body = ? WHERE no = ?", (body, no))
            if is_shared:
                self._recent.put(Family(no, body))

    def _extend(self, no: int, body: bytes) -> bool:
        """Store a body as the next version of a family; return False if there is none."""
        for family in self._recent.nearest(body):
            if (extended := family.extended(no, body)) is None:
                continue
            self._recent.drop(family)
            # If the exchange was deleted meanwhile, so were its parts.
            if self._driver.execute(_IS_STORED, (family.exchange_no,)).fetchone() is not None:
                self._store(*extended)
                return True
        return False

    def _store(self, cut: Family, after: Family, step: Step) -> None:
        """Store the parts of a version.

        Rows never grow, and the larger piece of a part stays where it is: both would leave pages half empty.
        """
        run, rows = self._driver.execute, cut.rows
        if cut.version == 1:
            (cut.no,) = (after.no,) = run(_NEXT_FAMILY).fetchone()
            self._insert(cut, 1, cut.parts())
            run(_INSERT_VERSION, (cut.exchange_no, cut.no, 1))
            run(_CLEAR, (cut.exchange_no,))
        for position, size, rest, to in step.splits:
            row = rows[position]
            (small, moved, start), (large, kept, first) = sorted([(size, position, 1), (rest, to, size + 1)])
            rows[moved] = _row_of(run(_COPY, (moved, start, small, row)))
            run(_REDUCE, (kept, first, large, row))
            rows[kept] = row
        self._driver.executemany(_END, [(cut.version, rows.pop(position)) for position in step.ended])
        self._insert(cut, after.version, step.added)
        run(_INSERT_VERSION, (after.exchange_no, after.no, after.version))
        self._recent.put(after)

    def _insert(self, family: Family, since: int, parts: Iterable[Part]) -> None:
        for position, data in parts:
            family.rows[position] = _row_of(self._driver.execute(_INSERT_PART, (family.no, position, since, data)))


def _row_of(cursor: sqlite3.Cursor) -> int:
    """Return the number of the row that was inserted."""
    assert cursor.lastrowid is not None
    return cursor.lastrowid
