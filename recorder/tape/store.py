"""The writer's access to a tape: sessions, and the size of the file.

Each work on exchanges has a module of its own: `append` (frames become facts), `settle` (facts become measures),
`recover` (after a recorder's death) and `rederive` (after a change of decoders). Opening, locking and migrating are
left to `wiretape.recorder.tape.file`.
"""

import contextlib
import secrets
import sqlite3
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, insert, select

from wiretape.recorder.clock import SYSTEM, Clock
from wiretape.recorder.tape import journal
from wiretape.recorder.tape.append import Appending
from wiretape.recorder.tape.file import driver_of
from wiretape.recorder.tape.progress import FactsInMemory
from wiretape.recorder.tape.recover import number_of, recover, returning
from wiretape.recorder.tape.redact import Redactor
from wiretape.recorder.tape.schema import sessions
from wiretape.recorder.tape.settle import Settling, settle


class Store:
    """One tape through its only writing `connection`."""

    def __init__(self, connection: Connection, clock: Clock = SYSTEM) -> None:
        self.connection = connection
        memory = FactsInMemory()
        self.appending = Appending(connection, memory)
        self.settling = Settling(connection, clock, memory)
        self._driver = driver_of(connection)
        self._session_no = 0

    def begin_session(self, session: journal.Session) -> int:
        """Enter a recorder's run; then end open exchanges of recorders that have ended. Return the session's number."""
        self._session_no = self.enter(session)
        spared = {self._session_no, *(session.no for session in returning(self.connection))}
        recover(self.appending, spared=spared)
        return self._session_no

    def enter(self, session: journal.Session) -> int:
        """Enter a recorder's run, or find it again; return its number."""
        with self.connection.begin():
            if (no := self.number_of(session.uuid)) is None:
                salt = self.connection.execute(select(sessions.c.salt).order_by(sessions.c.no).limit(1)).scalar()
                redactor = Redactor(salt := salt or secrets.token_bytes(32))
                values = msgspec.structs.asdict(session) | {
                    "salt": salt,
                    "upstreams": [[name, redactor.url(url)] for name, url in session.upstreams],
                    "imported_from": session.imported_from and redactor.text(session.imported_from),
                }
                self.connection.execute(insert(sessions).values(**values, heartbeat_at=session.started_at))
                no = int(self._driver.execute("SELECT max(no) FROM sessions").fetchone()[0])
            salt = self.connection.execute(select(sessions.c.salt).where(sessions.c.no == no)).scalar_one()
            self.appending.redactor = Redactor(salt)  # the same for all sessions of a tape
        with contextlib.suppress(sqlite3.Error):  # a full disk: the log has it
            # Into the file: a copy of that alone shows an open run, by which `wiretape db check` knows it.
            self._pragma("wal_checkpoint(PASSIVE)")
        return no

    def number_of(self, uuid: str) -> int | None:
        """Return the number of a session; None if it is not on the tape."""
        row = self._driver.execute("SELECT no FROM sessions WHERE uuid = ?", (uuid,)).fetchone()
        return None if row is None else int(row[0])

    def open_ids(self, session_no: int) -> list[str]:
        """Return the ids of a session's open exchanges."""
        statement = "SELECT id FROM exchanges WHERE ended_by IS NULL AND session_no = ?"
        return [str(id) for (id,) in self._driver.execute(statement, (session_no,))]

    def knows(self, id: str) -> bool:
        """Return True if an exchange is on the tape."""
        return number_of(self.connection, id) is not None

    def newest(self) -> int:
        row = self._driver.execute("SELECT max(no) FROM exchanges").fetchone()
        return row[0] or 0

    def append(self, frames: Sequence[journal.Frame]) -> list[int]:
        """Commit frames of the session that was begun last; return the numbers of the exchanges that ended."""
        return self.appending.append({self._session_no: frames})

    def settle(self, numbers: Iterable[int]) -> list[journal.Finished]:
        """Settle finished exchanges one by one; return their summaries."""
        queue, finished = deque(numbers), list[journal.Finished]()
        while queue:
            finished += self.settling.put([settle(facts) for facts in self.settling.take(queue, 1, 0)])
        return finished

    def size(self) -> int:
        """Return the bytes of the whole database, in the file and in its log."""
        pages, page = (self._pragma(name)[0] for name in ("page_count", "page_size"))
        return int(pages * page)

    def give_back(self, pages: int) -> bool:
        """Return free pages to the file system, at most `pages`; return True if more are left to return."""
        self._driver.executescript(f"PRAGMA incremental_vacuum({pages})")  # `execute` would take one step: one page
        return bool(self._pragma("freelist_count")[0])

    def checkpoint(self) -> bool:
        """Move all of the log into the tape itself; return True if that was possible."""
        try:
            busy, pages, moved = self._pragma("wal_checkpoint(TRUNCATE)")
        except sqlite3.Error:
            return False
        return not busy and pages == moved

    def _pragma(self, statement: str) -> tuple[Any, ...]:
        row: tuple[Any, ...] = self._driver.execute(f"PRAGMA {statement}").fetchone()
        return row
