"""Stores request bodies: what one repeats of another is stored once.

Which bodies are versions of one family, and in which parts, is decided by `wiretape.recorder.tape.weaving` from the
bodies in memory: a writer that starts knows none, and begins new families.
"""

import sqlite3
from collections.abc import Iterable
from typing import Final

from wiretape.recorder.tape.weaving import LAST_VERSION, Extension, Family, Part, Recent, may_share

_INSERT_VERSION: Final = "INSERT INTO request_versions (exchange_no, family, version) VALUES (?, ?, ?)"


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
            if (extension := family.extended(no, body)) is None:
                continue
            self._recent.drop(family)
            # If the exchange was deleted meanwhile, so were its parts.
            is_stored = self._driver.execute("SELECT 1 FROM exchanges WHERE no = ?", (family.exchange_no,))
            if is_stored.fetchone() is not None:
                self._store(extension)
                return True
        return False

    def _store(self, extension: Extension) -> None:
        """Store the parts of a version.

        Rows never grow, and the larger piece of a part stays where it is: both would leave pages half empty.
        """
        family, successor = extension.family, extension.successor
        run, rows = self._driver.execute, family.rows
        if family.version == 1:
            (family.no,) = run("SELECT coalesce(max(family), 0) + 1 FROM request_parts").fetchone()
            successor.no = family.no
            self._insert(family, 1, family.parts())
            run(_INSERT_VERSION, (family.exchange_no, family.no, 1))
            run("UPDATE exchanges SET request_body = NULL WHERE no = ?", (family.exchange_no,))
        for split in extension.splits:
            row = rows[split.position]
            start, end = (split.size, split.position, 1), (split.end_size, split.end_position, split.size + 1)
            (small, small_position, small_start), (large, large_position, large_start) = sorted([start, end])
            rows[small_position] = self._insert_row(
                """INSERT INTO request_parts (family, position, since, until, data)
                SELECT family, ?, since, until, substr(data, ?, ?) FROM request_parts WHERE no = ?""",
                (small_position, small_start, small, row),
            )
            reduce = "UPDATE request_parts SET position = ?, data = substr(data, ?, ?) WHERE no = ?"
            run(reduce, (large_position, large_start, large, row))
            rows[large_position] = row
        end_parts = "UPDATE request_parts SET until = ? WHERE no = ?"
        ended_rows = [(family.version, rows.pop(position)) for position in extension.ended_positions]
        self._driver.executemany(end_parts, ended_rows)
        self._insert(family, successor.version, extension.added)
        run(_INSERT_VERSION, (successor.exchange_no, successor.no, successor.version))
        self._recent.put(successor)

    def _insert(self, family: Family, since: int, parts: Iterable[Part]) -> None:
        statement = f"""INSERT INTO request_parts (family, position, since, until, data)
            VALUES (?, ?, ?, {LAST_VERSION}, ?)"""
        for position, data in parts:
            family.rows[position] = self._insert_row(statement, (family.no, position, since, data))

    def _insert_row(self, statement: str, values: tuple[object, ...]) -> int:
        cursor = self._driver.execute(statement, values)
        assert cursor.lastrowid is not None
        return cursor.lastrowid
