"""The recordings that are served: a tape, opened for reading only, which may be written meanwhile."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from sqlalchemy import Connection
from sqlalchemy.exc import NoResultFound

from wiretape.recorder.decode.exchange import RecordedExchange
from wiretape.recorder.errors import NotFound
from wiretape.viewer.source.tape import columns, queries, replayed
from wiretape.viewer.source.tape.conditions import Condition
from wiretape.viewer.source.tape.replayed import ExchangeHead

Select = Callable[[Connection], Condition | None]
"""Chooses the exchanges of a tape; None is for all."""


class ReplaySource:
    """A tape's ended exchanges. It is used by one thread, the one that opened it."""

    def __init__(self, path: Path, select: Select = lambda _: None) -> None:
        self._path, self._last = path, 0
        self._running: set[int] = set()
        with ExitStack() as opened:
            self._connection = opened.enter_context(queries.opened(path))
            self._where = select(self._connection)
            self._opened = opened.pop_all()

    def newer(self) -> Sequence[ExchangeHead]:
        """Return the exchanges that were not returned before, oldest first; one that still runs is returned later.

        Raises `TapeError`.
        """
        with queries.explained(self._path):
            return self._newer()

    def _newer(self) -> Sequence[ExchangeHead]:
        # Running exchanges first: one that ends or begins between the queries is found once.
        after, waited_for = self._last, self._running
        running, self._last = replayed.running(self._connection, after)
        chosen = [columns.among(waited_for)] if waited_for else []
        chosen.append(replayed.numbers(after, self._last))
        found = [head for among in chosen for head in replayed.heads(self._connection, self._where, among)]
        self._running = (waited_for | running).difference(head.no for head in found)
        return found

    def labelled(self, key: str) -> dict[int, str]:
        """Return the value of a label, by the number of each exchange that has it."""
        return replayed.labelled(self._connection, key)

    def request_bodies(self, heads: Sequence[ExchangeHead]) -> Iterator[bytes | None]:
        """Yield the body of each request without its content coding; None if not all of it is there.

        Raises `TapeError`.
        """
        with queries.explained(self._path):
            yield from replayed.request_bodies(self._connection, heads)

    def answer(self, head: ExchangeHead) -> RecordedExchange:
        """Return the answer to a request. Raises `TapeError`, and `NotFound` if it was deleted meanwhile."""
        try:
            with queries.explained(self._path):
                return replayed.answer(self._connection, head.no)
        except NoResultFound as error:
            raise NotFound(f"the recording {head.id}, which answers this, was deleted meanwhile") from error

    def close(self) -> None:
        """Close the tape; damage found in it is reported."""
        self._opened.close()
