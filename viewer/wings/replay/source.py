"""The recordings that are served: a tape, opened for reading only, which may be written meanwhile."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from wiretape.recorder.decode.exchange import RecordedExchange
from wiretape.recorder.errors import NotFound
from wiretape.recorder.tape.reader import Connection, NoResultFound
from wiretape.viewer.source.tape import columns, queries, replayed
from wiretape.viewer.source.tape.conditions import Condition
from wiretape.viewer.source.tape.replayed import ExchangeHead

Select = Callable[[Connection], Condition | None]
"""Chooses the exchanges of a tape; None is for all."""


class ReplaySource:
    """A tape's ended exchanges. It is used by one thread, the one that opened it."""

    def __init__(self, path: Path, select: Select = lambda _: None) -> None:
        self._path, self._last_no = path, 0
        self._unfinished: set[int] = set()
        with ExitStack() as cleanup:
            self._connection = cleanup.enter_context(queries.opened(path))
            self._condition = select(self._connection)
            self._cleanup = cleanup.pop_all()

    def newer(self) -> Sequence[ExchangeHead]:
        """Return the exchanges that were not returned before, oldest first; one that still runs is returned later.

        Raises `TapeError`.
        """
        with queries.explained(self._path):
            # Running exchanges first: one that ends or begins between the queries is found once.
            previous_last, unfinished = self._last_no, self._unfinished
            still_running, self._last_no = replayed.running(self._connection, previous_last)
            groups = [columns.among(unfinished)] if unfinished else []
            groups.append(replayed.numbers(previous_last, self._last_no))
            heads = [head for numbers in groups for head in replayed.heads(self._connection, self._condition, numbers)]
            self._unfinished = (unfinished | still_running).difference(head.no for head in heads)
            return heads

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
        self._cleanup.close()
