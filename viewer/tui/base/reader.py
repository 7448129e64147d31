"""Asking a tape without ever holding up the screen: one thread, one read-only connection, one question at a time.

A question is a function of a connection, such as those of `queries`. Of questions with the same key only the newest is
worth answering: the one before is given up, and so is one for whose answer nobody waits any more. What goes wrong is
raised in `queries`' words. The thread is a daemon, as no question, however long, may keep the program from ending; the
database library is loaded there, beside the first frame.
"""

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from recorder.errors import WiretapeError

if TYPE_CHECKING:
    from sqlalchemy import Connection

T = TypeVar("T")

_CLOSING_SECONDS: Final = 0.2
_STEPS: Final = 10_000
"""So many instructions of SQLite, a few milliseconds, pass between two looks whether the answer is still wanted."""


class Superseded(Exception):
    """A newer question of the same key has been asked, or the reader was closed: nobody waits for this answer."""


@dataclass(eq=False, slots=True)
class _Asked:
    """A question that waits for its answer."""

    question: "Callable[[Connection], Any]"
    key: str | None
    number: int
    answer: "asyncio.Future[Any]"


class TapeReader:
    """A tape's read-only connection in a thread of its own; it is opened by the first question.

    A tape that is not there yet, or was replaced, is opened again by the next question; `openings` counts how often.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.openings = 0
        self._asked: queue.SimpleQueue[_Asked | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="tape", daemon=True)
        self._opened = contextlib.ExitStack()
        self._connection: Connection | None = None
        self._file: tuple[int, int] | None = None
        self._newest: dict[str, int] = {}
        self._running: _Asked | None = None
        self._count = 0
        self._closed = False

    async def ask(self, question: "Callable[[Connection], T]", key: str | None = None) -> T:
        """Answer a question. Raises `WiretapeError`, or `Superseded` where a newer one of its key has been asked."""
        if self._closed:
            raise Superseded
        self._count += 1
        asked = _Asked(question, key, self._count, asyncio.get_running_loop().create_future())
        if key is not None:
            self._newest[key] = asked.number
        if not self._thread.is_alive():
            self._thread.start()
        self._asked.put(asked)
        found: T = await asked.answer
        return found

    def close(self) -> None:
        """Give the tape back; a question that is being answered is given up, and not waited for if it goes on."""
        self._closed = True
        self._asked.put(None)
        if self._thread.is_alive():
            self._thread.join(_CLOSING_SECONDS)

    def _run(self) -> None:
        while (asked := self._asked.get()) is not None:
            try:
                found, failure = self._answer(asked), None
            except Exception as error:  # noqa: BLE001 - it is raised where the question was asked
                found, failure = None, error
            with contextlib.suppress(RuntimeError):  # the loop has ended before
                asked.answer.get_loop().call_soon_threadsafe(_deliver, asked.answer, found, failure)
        self._disconnect()

    def _answer(self, asked: _Asked) -> Any:
        from viewer.tape import queries

        self._running = asked
        try:
            if self._is_stale(asked):
                raise Superseded
            with queries.explained(self.path):
                return asked.question(self._connected())
        except WiretapeError as error:
            if self._is_stale(asked):
                raise Superseded from error
            self._disconnect()
            raise
        finally:
            self._running = None
            self._end_transaction()

    def _end_transaction(self) -> None:
        """End what a question that failed has left: an open one would keep the writer's log from being reset."""
        if self._connection is not None and self._connection.in_transaction():
            self._connection.rollback()

    def _gives_up(self) -> bool:
        """Say to SQLite, again and again, whether to go on."""
        asked = self._running
        return asked is not None and self._is_stale(asked)

    def _is_stale(self, asked: _Asked) -> bool:
        replaced = asked.key is not None and self._newest[asked.key] != asked.number
        return self._closed or replaced or asked.answer.cancelled()

    def _connected(self) -> "Connection":
        from viewer.tape import queries

        try:
            status = self.path.stat()
            file = (status.st_dev, status.st_ino)
        except OSError:  # `queries` tells what is wrong with it
            file = None
        if self._connection is not None and file != self._file:
            self._disconnect()
        if self._connection is None:
            self._connection = self._opened.enter_context(queries.opened(self.path))
            driver: Any = self._connection.connection.driver_connection
            driver.set_progress_handler(self._gives_up, _STEPS)
            self._file = file
            self.openings += 1
        return self._connection

    def _disconnect(self) -> None:
        self._connection = None
        with contextlib.suppress(WiretapeError):  # what fails as it is closed has been told of already
            self._opened.close()


def _deliver(answer: "asyncio.Future[Any]", found: Any, failure: Exception | None) -> None:
    if answer.cancelled():
        return
    if failure is None:
        answer.set_result(found)
    else:
        answer.set_exception(failure)
