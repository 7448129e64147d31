"""The application's services for its screens: the tape, a clock, and threads for work that must not block the screen.

The tape has one thread with one read-only connection, which answers one question at a time. A question is a function of
a `Source`, or of the tape's connection. It is abandoned for a newer one with its key, or when no caller waits
for its answer any more; its errors are raised in the caller. Threads are daemons, since none may keep the program from
ending, and the database library is loaded there, beside the first frame.
"""

import asyncio
import contextlib
import functools
import queue
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

from textual.screen import Screen

from wiretape.recorder.clock import Clock
from wiretape.recorder.decode.stalls import Thresholds
from wiretape.recorder.errors import TapeGone, WiretapeError
from wiretape.recorder.sanitize import safe
from wiretape.viewer.tui.base.terminal import Lag

if TYPE_CHECKING:
    from wiretape.viewer.source.base import Browsed, Place
    from wiretape.viewer.source.decoder import Decoders
    from wiretape.viewer.source.tape_source import TapeSource

T = TypeVar("T")
S = TypeVar("S", bound="Browsed")


class Host(Protocol):
    """The application, as a screen sees it: `list_reader` reads the tape, or the source from which it is filled."""

    tape: "TapeReader"
    list_reader: "TapeReader | SourceReader"
    clock: Clock
    lag: Lag
    limits: Thresholds
    decoders: "Decoders"

    def show_streams(self, filter_text: str) -> None:
        """Go back to the list of exchanges, filtered."""

    def give_up(self, error: WiretapeError) -> None:
        """Exit with an error of one line."""

    def open_outside(self, program: Callable[..., Awaitable[str | None]], screen: Screen[Any]) -> None:
        """Suspend the viewer while a program shows the text of a screen."""


def host(screen: Screen[Any]) -> Host:
    return cast(Host, screen.app)


def is_seen(screen: Screen[Any]) -> bool:
    """Return True if a screen is on top, or under menus only; to Textual, one under any screen is current, too."""
    stack = screen.app.screen_stack
    return screen in stack and all(above.is_modal for above in stack[stack.index(screen) + 1 :])


async def in_thread(work: Callable[[], T]) -> T:
    """Run slow work in a daemon thread of its own, which does not delay the end of the viewer."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()
    # Not `asyncio.to_thread`: its pool is joined when the program ends.
    threading.Thread(target=lambda: _resolve(answer, work), name="work", daemon=True).start()
    return await answer


def _resolve(answer: "asyncio.Future[T]", work: Callable[[], T]) -> None:
    """Execute the work, and settle the future with its result or error, from another thread."""

    def settle() -> None:
        if answer.cancelled():  # its caller was left meanwhile
            return
        if failure is None:
            answer.set_result(cast(T, result))
        else:
            answer.set_exception(failure)

    result, failure = None, None
    try:
        result = work()
    except Exception as error:  # noqa: BLE001 - it is raised where the answer is awaited
        failure = error
    with contextlib.suppress(RuntimeError):  # the loop has ended
        answer.get_loop().call_soon_threadsafe(settle)


class Superseded(Exception):
    """A newer question with the same key, or the end of the reader, has made this one obsolete."""


@dataclass(eq=False, slots=True)
class _Question:
    function: Callable[[Any], Any]
    key: str | None
    answer: "asyncio.Future[Any]"


class SourceThread(Generic[S]):
    """A source in a thread of its own; the first question opens it.

    One that was missing, failed or has been replaced is opened again by the next question.
    """

    def __init__(self, place: "Place") -> None:
        self.place, self.name = place, place.name
        self._questions: queue.SimpleQueue[_Question | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="tape", daemon=True)
        self._cleanup = contextlib.ExitStack()
        self._source: S | None = None
        self._newest: dict[str, _Question] = {}
        self._current: _Question | None = None
        self._closed = False

    async def read(self, question: Callable[[S], T], key: str | None = None) -> T:
        """Answer a question. Raise `WiretapeError`, or `Superseded` after a newer one with its key."""
        if self._closed:
            raise Superseded
        pending = _Question(question, key, asyncio.get_running_loop().create_future())
        if key is not None:
            self._newest[key] = pending
        if not self._thread.is_alive():
            self._thread.start()
        self._questions.put(pending)
        return cast(T, await pending.answer)

    def close(self) -> None:
        """Close the tape; a question that is being answered is abandoned, and is not waited for if it goes on."""
        self._closed = True
        self._questions.put(None)
        if self._thread.is_alive():
            # A question may go on for long on a large tape; its thread is a daemon, and is left behind.
            self._thread.join(0.2)

    def _run(self) -> None:
        while (question := self._questions.get()) is not None:
            _resolve(question.answer, functools.partial(self._answer, question))
        self._disconnect()

    def _answer(self, question: _Question) -> Any:
        self._current = question
        try:
            if self._is_stale():  # a newer one came while this one waited for those before it
                raise Superseded
            return self._evaluate(question.function)
        except WiretapeError as error:
            if self._is_stale():  # SQLite was interrupted: the connection is as good as before
                raise Superseded from error
            self._disconnect()  # so that the next question opens a tape that was replaced or has come back
            raise
        finally:
            self._current = None
            if self._source is not None:
                self._source.release()  # an open transaction would keep the writer's log from being reset

    def _is_stale(self) -> bool:
        """Return True if the running question was superseded; SQLite calls it repeatedly."""
        question = self._current
        if question is None:
            return False
        is_replaced = question.key is not None and self._newest[question.key] is not question
        return self._closed or is_replaced or question.answer.cancelled()

    def _evaluate(self, function: Callable[[S], Any]) -> Any:
        raise NotImplementedError

    def _disconnect(self) -> None:
        self._source = None
        with contextlib.suppress(WiretapeError):  # it was reported when the question failed
            self._cleanup.close()


class TapeReader(SourceThread["TapeSource"]):
    """The reader of the tape at `path`; a question that is superseded is broken off."""

    def __init__(self, path: Path) -> None:
        from wiretape.viewer.source.place import TapePlace

        super().__init__(TapePlace(path))
        self.path = path
        self._file: tuple[int, int] | None = None

    def _evaluate(self, function: "Callable[[TapeSource], Any]") -> Any:
        from wiretape.viewer.source.place import TapePlace

        with TapePlace(self.path).explained():
            return function(self._connected())

    def _connected(self) -> "TapeSource":
        from wiretape.recorder.tape.lock import identity
        from wiretape.viewer.source.place import TapePlace

        file = identity(self.path)
        if file is None and self._file is not None:
            raise TapeGone(f"the tape was deleted or moved while it was viewed: {safe(str(self.path))}")
        if self._source is not None and file != self._file:
            self._disconnect()
        if self._source is None:
            source = self._cleanup.enter_context(TapePlace(self.path).opened())
            source.interrupted_by(self._is_stale, 10_000)  # SQLite's instructions: a few milliseconds between checks
            self._source, self._file = source, file
        return self._source


class SourceReader(SourceThread["Browsed"]):
    """The reader of a source whose exchanges are opened elsewhere; a question that was begun is answered."""

    def _evaluate(self, function: "Callable[[Browsed], Any]") -> Any:
        if self._source is None:
            self._source = self._cleanup.enter_context(self.place.opened())
        return function(self._source)
