"""Recordings that tests share: a tape is opened once for as long as it does not change, and each test has its own part.

A test's recordings have the label `test`, which is the test's id. A test is served its own recordings and those without
that label; if it has none of its own, because the tape was cut by hand or recorded for another test, all of the tape.

All of this is used by one thread.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from wiretape.recorder import paths
from wiretape.recorder.decode.exchange import RecordedExchange
from wiretape.recorder.tape import cut
from wiretape.recorder.tape.redact import Redactor
from wiretape.viewer.query.parser import parse
from wiretape.viewer.source.base import Selection
from wiretape.viewer.source.replayed import ExchangeHead, ReplaySource

LABEL: Final = "test"

T = TypeVar("T")


def label_of(test: str) -> str:
    """Return the label of a test: its id, or a hash of an id that a recorder would take for a credential."""
    label = Redactor(None).labels({LABEL: test})[LABEL]
    return test if label == test else f"id-{hashlib.sha256(test.encode()).hexdigest()[:16]}"


class _ShelvedTape(NamedTuple):
    """A tape as it was when it was opened; `state` differs after a change of its files."""

    state: object
    recordings: "TapeRecordings"


class Shelf:
    """The tapes that are open."""

    def __init__(self) -> None:
        self._tapes: dict[tuple[Path, str | None], _ShelvedTape] = {}

    def excerpt(self, tape: Path, filter_text: str | None, test: str) -> "Excerpt":
        """Return the part of a tape, within a filter, to be served to a test. Raises `WiretapeError`."""
        # A recorder that runs writes to the log only; the tape's own file changes at its checkpoints.
        state = [_file_state(tape), _file_state(tape.with_name(f"{tape.name}-wal"))]
        shelved = self._tapes.get((tape, filter_text))
        if shelved is None or shelved.state != state:
            if shelved is not None:
                shelved.recordings.close()
                del self._tapes[tape, filter_text]
            shelved = self._tapes[tape, filter_text] = _ShelvedTape(state, TapeRecordings(tape, filter_text))
        return Excerpt(shelved.recordings, test)

    def suffices(self, tape: Path, filter_text: str | None, test: str) -> bool:
        """Return True if a tape need not be recorded for a test. Raises `WiretapeError`."""
        if not paths.exists(tape):
            return False
        self.excerpt(tape, filter_text, test)
        return self._tapes[tape, filter_text].recordings.suffices(test)

    def close(self) -> None:
        for shelved in self._tapes.values():
            shelved.recordings.close()
        self._tapes.clear()


def _file_state(path: Path) -> object:
    """Return a file's identity, modification time and size; None if there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def selection(filter_text: str | None) -> Selection:
    """Return the exchanges of a filter, or all without one. Raises `WiretapeError`."""
    return Selection(None if filter_text is None else parse(filter_text))


class TapeRecordings:
    """The ended exchanges of a tape; answers are cached in memory once read, as long as there is room."""

    def __init__(self, tape: Path, filter_text: str | None) -> None:
        filtered = selection(filter_text)
        self._source = ReplaySource(cut.readable(tape), lambda _: filtered)
        self._heads = self._source.newer()
        self.turns = self._source.turns
        self._tests = self._source.labelled(LABEL)
        self._cache: dict[tuple[str, int], Any] = {}
        self._cached_bytes = 0

    def of(self, test: str) -> Sequence[ExchangeHead]:
        if test not in self._tests.values():
            return self._heads
        return [head for head in self._heads if self._tests.get(head.no, test) == test]

    def suffices(self, test: str) -> bool:
        """Return True if any of the test's recordings has an answer; without labelled ones, all of them count."""
        of_test = [head for head in self._heads if self._tests.get(head.no) == test] if self._tests else self._heads
        return any(head.is_answered for head in of_test)

    def request_bodies(self, heads: Sequence[ExchangeHead]) -> Iterator[bytes | None]:
        missing = self._source.request_bodies([head for head in heads if ("request", head.no) not in self._cache])
        for head in heads:
            yield self._cached(("request", head.no), lambda: next(missing), lambda body: len(body or b""))

    def answer(self, head: ExchangeHead) -> RecordedExchange:
        return self._cached(("answer", head.no), lambda: self._source.answer(head), lambda answer: len(answer.body))

    def _cached(self, key: tuple[str, int], read_value: Callable[[], T], size: Callable[[T], int]) -> T:
        if key in self._cache:
            cached: T = self._cache[key]
            return cached
        value = read_value()
        # Later tests of a run ask for the same; what a large tape holds beyond that is read again.
        if self._cached_bytes + size(value) <= 64 << 20:
            self._cache[key] = value
            self._cached_bytes += size(value)
        return value

    def close(self) -> None:
        self._source.close()


class Excerpt:
    """The recordings for one test, as a planner reads them."""

    def __init__(self, recordings: TapeRecordings, test: str) -> None:
        self._newer = recordings.of(test)
        self.request_bodies, self.answer, self.turns = recordings.request_bodies, recordings.answer, recordings.turns

    def newer(self) -> Sequence[ExchangeHead]:
        newer, self._newer = self._newer, ()
        return newer

    def close(self) -> None:
        """Leave the tape open, for other tests."""
