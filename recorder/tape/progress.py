"""The progress of writing exchanges: the additions of a batch to each, and its facts in memory until it is settled.

A transaction may fail, and its batch is tried again: so a batch changes copies, which replace the originals after the
commit.
"""

import dataclasses
from itertools import accumulate
from operator import attrgetter
from typing import Any

from wiretape.recorder.decode.conversation import RecordedRequest
from wiretape.recorder.decode.exchange import Reads
from wiretape.recorder.tape import journal, packing

_KEPT_BYTES = 128 << 10
"""Size limit of an exchange's bodies for keeping its facts in memory until it is settled."""


@dataclasses.dataclass(slots=True)
class Facts:
    """The facts of an exchange, kept in memory to settle it without reading it back.

    `row` has its columns; headers are as they would be read. `size` is the memory of all of them. `is_packed`: its body
    is stored packed already, as it came in one batch.
    """

    row: dict[str, Any]
    request: RecordedRequest
    response_headers: list[list[str]] | None = None
    response_trailers: list[list[str]] | None = None
    runs: list[tuple[journal.ReadRun, bytes]] = dataclasses.field(default_factory=list)
    size: int = 0
    is_packed: bool = False

    @classmethod
    def of(cls, row: dict[str, Any], request: RecordedRequest) -> "Facts | None":
        """Return the facts of an exchange that begins; None if they are too large to be kept."""
        size = (3 << 10) + len(request.body or b"")  # the facts besides the body take about 3 KiB
        return cls(row, request, size=size) if size <= _KEPT_BYTES else None

    def copy(self) -> "Facts":
        """Return a copy to be changed by a transaction that may fail."""
        heads = self.request, self.response_headers, self.response_trailers
        return Facts(self.row.copy(), *heads, self.runs.copy(), self.size)

    def received(self) -> tuple[Reads, bytes]:
        """Return the reads of the body, and its bytes."""
        if len(self.runs) == 1:  # as of nearly all short answers
            (run, _), *_ = self.runs
            at_ns, relayed_ns, sizes = run.at_ns, run.relayed_ns, run.sizes
        else:
            columns = attrgetter("at_ns"), attrgetter("relayed_ns"), attrgetter("sizes")
            at_ns, relayed_ns, sizes = ([value for run, _ in self.runs for value in column(run)] for column in columns)
        reads = Reads(range(len(sizes)), at_ns, relayed_ns, list(accumulate(sizes, initial=0))[:-1], sizes)
        if sizes and not at_ns:
            reads = Reads((), (), (), (), ())
        return reads, b"".join(data for _, data in self.runs)


@dataclasses.dataclass(slots=True)
class FactsInMemory:
    """The facts of finished exchanges that are not settled yet, by their numbers.

    `size` is their memory, in bytes, with that of running exchanges.
    """

    finished: dict[int, Facts] = dataclasses.field(default_factory=dict)
    size: int = 0

    def has_room(self, facts: Facts) -> bool:
        """Return True if these facts can be kept besides all others: those that cannot are read back from the tape."""
        return self.size + facts.size <= 64 << 20

    def take(self, no: int) -> Facts | None:
        """Remove and return the facts of a finished exchange; None if they have to be read back."""
        if (facts := self.finished.pop(no, None)) is not None:
            self.size -= facts.size
        return facts


@dataclasses.dataclass(slots=True)
class Direction:
    """The progress of writing one direction: `size` bytes; `runs` are reads about to be written, with their offsets."""

    next_seq: int = 0
    size: int = 0
    runs: list[tuple[int, journal.ReadRun, bytes]] = dataclasses.field(default_factory=list)

    def copy(self) -> "Direction":
        """Return a copy to be changed by a transaction that may fail; all before is written."""
        return Direction(self.next_seq, self.size)

    def add(self, run: journal.ReadRun, data: bytes) -> None:
        """Append reads that follow the present ones."""
        self.runs.append((self.size, run, data))
        self.next_seq += len(run.sizes)
        self.size += len(data)

    def segments(self, no: int | None) -> list[tuple[Any, ...]]:
        """Return the rows for the reads that are about to be written. Raises `OverflowError` as `packing.packed`."""
        return [
            (no, *packing.packed(run.seq, start, run.at_ns, run.relayed_ns, run.sizes), data)
            for start, run, data in self.runs
        ]


@dataclasses.dataclass(slots=True)
class ExchangeProgress:
    """The progress of writing an exchange; `uploaded` is the stored size of an unfinished request body.

    `body` is upstream's direction, `client` the client's over a WebSocket. `changes` are columns that are about to be
    written.
    """

    no: int | None
    body: Direction = dataclasses.field(default_factory=Direction)
    client: Direction | None = None
    has_ended: bool = False
    uploaded: int | None = None
    facts: Facts | None = None
    changes: dict[str, Any] = dataclasses.field(default_factory=dict)

    def copy(self) -> "ExchangeProgress":
        """Return a copy to be changed by a transaction that may fail; all before is written."""
        client = self.client and self.client.copy()
        facts = self.facts and self.facts.copy()
        return ExchangeProgress(self.no, self.body.copy(), client, self.has_ended, self.uploaded, facts)

    def direction(self, run: journal.ReadRun) -> Direction:
        if not run.is_client:
            return self.body
        self.client = self.client or Direction()
        return self.client

    def change(self, values: dict[str, Any]) -> None:
        self.changes.update(values)
        if self.facts is not None and self.facts.row is not self.changes:  # of a new exchange, they are one dict
            self.facts.row.update(values)

    def keep(self, run: journal.ReadRun, data: bytes) -> None:
        """Keep reads in memory, up to the size limit."""
        if self.facts is not None:
            self.facts.runs.append((run, data))
            self.facts.size += len(data)
            if self.facts.size > _KEPT_BYTES:
                self.facts = None


@dataclasses.dataclass(slots=True)
class UploadPart:
    """A batch's part of a request body."""

    pieces: list[journal.Upload] = dataclasses.field(default_factory=list)
    end: journal.Uploaded | None = None

    def data(self, start: int) -> bytes:
        """Return the body's continuation from `start`; pieces that are on the tape, or repeated, are skipped."""
        data = []
        for piece in self.pieces:
            if piece.start == start:
                start += len(piece.data)
                data.append(piece.data)
        return b"".join(data)
