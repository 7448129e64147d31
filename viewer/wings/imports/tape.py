"""Writes imported exchanges to a tape with the recorder's writer: redacted, measured, packed alike.

An exchange's id is derived from its content, so that a second import of a file adds nothing.
"""

import hashlib
import os
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Final, NamedTuple

import msgspec

from wiretape.recorder import __version__, facts
from wiretape.recorder.clock import SYSTEM
from wiretape.recorder.facts import Answered, Connected, Ended
from wiretape.recorder.ids import exchange_id
from wiretape.recorder.process import boot_id
from wiretape.recorder.relay.recording import REQUEST_STORED_BYTES, STORED_BYTES
from wiretape.recorder.tape import journal
from wiretape.recorder.tape.store import Store
from wiretape.viewer.imported import ImportedExchange, Unimportable, attempt, problem

_MOST: Final = 100
_MOST_BYTES: Final = 16 << 20
"""Limit of one transaction, in bytes."""
_answered, _ended = facts.reader(Connected, Answered), facts.reader(Connected, Ended)


@dataclass(slots=True)
class ImportReport:
    """The result of an import: the ids of new exchanges, the number already on the tape, and the refusals and notes."""

    added: list[str] = field(default_factory=list)
    present: int = 0
    untimed: int = 0
    refused: list[Unimportable] = field(default_factory=list)

    @property
    def failed(self) -> int:
        return sum(not one.is_note for one in self.refused)


class _Entered(NamedTuple):
    """An exchange as a recorder would have sent it to its writer; its body has `size` bytes."""

    id: str
    frames: list[journal.Frame]
    is_timed: bool
    size: int


class Importer:
    """Imports one file: opens the tape, and enters a session for it, at the first exchange to import."""

    def __init__(
        self,
        open_store: Callable[[], Store],
        source: str,
        format: str,
        labels: dict[str, str],
        dialects: list[dict[str, Any]] | None = None,
    ) -> None:
        self.report = ImportReport()
        self._open_store, self._labels, self._format, self._source = open_store, labels, format, source
        now = SYSTEM.wall()
        listen, upstreams = "", list[tuple[str, str]]()
        self._session = journal.Session(
            str(uuid.uuid4()),
            __version__,
            os.getpid(),
            boot_id(),
            listen,
            upstreams,
            now,
            imported_from=f"{format} {source}",
            dialects=dialects or None,
        )
        self._has_begun = False
        self._seen = Counter[bytes]()
        self._waiting = list[_Entered]()
        self._ids = list[str]()
        self._bytes = 0

    @cached_property
    def _store(self) -> Store:
        return self._open_store()

    def add(self, found: Iterable[ImportedExchange | Unimportable]) -> Iterator[ImportedExchange | Unimportable]:
        """Import a parser's results, and yield each once it is processed; the last are written at the end."""
        try:
            for one in found:
                made = one if isinstance(one, Unimportable) else attempt(one.place, partial(self._entered, one))
                if isinstance(made, Unimportable):
                    self.report.refused.append(made)
                elif made.id in self._ids or self._store.knows(made.id):
                    self.report.present += 1
                else:
                    self._waiting.append(made)
                    self._ids.append(made.id)
                    self._bytes += made.size
                    if len(self._waiting) >= _MOST or self._bytes >= _MOST_BYTES:
                        self._write()
                yield one
        finally:
            self._write()
            if self._has_begun:
                self._store.append([journal.Close(SYSTEM.wall())])

    def _entered(self, one: ImportedExchange) -> "_Entered":
        """Return an exchange as it is written. Raises `ValueError` for one that cannot be on a tape."""
        if (reason := problem(one)) is not None:
            raise ValueError(reason)
        id = one.id or self._id_of(one)
        return _Entered(id, list(frames(id, one, self._labels)), one.is_timed, len(one.body))

    def _id_of(self, one: ImportedExchange) -> str:
        """Return the id of an exchange; equal exchanges in one file have different ids."""
        # Equal exchanges without a time, in files of other names, are no repetition that anybody knows of.
        stamp = one.stamp or self._source
        parts = (self._format, stamp, one.method, one.url, one.request or b"", one.status, one.ended_by, one.body)
        digest = hashlib.sha256(msgspec.msgpack.encode(parts)).digest()
        self._seen[digest] += 1
        return exchange_id(hashlib.sha256(digest + str(self._seen[digest]).encode()).hexdigest()[:16])

    def _write(self) -> None:
        if not self._waiting:
            return
        if not self._has_begun:
            self._store.begin_session(self._session)
            self._has_begun = True
        ended = self._store.append([frame for one in self._waiting for frame in one.frames])
        self._store.settle(ended)
        self.report.added += self._ids
        self.report.untimed += sum(not one.is_timed for one in self._waiting)
        self._waiting, self._ids, self._bytes = [], [], 0


def frames(id: str, one: ImportedExchange, labels: dict[str, str]) -> Iterator[journal.Frame]:
    """Yield the frames of an exchange, as a recorder sends them to its writer."""
    request = one.request
    size = one.request_size if request is None else max(len(request), one.request_size or 0)
    is_whole = request is not None and size == len(request)
    yield journal.Begin(
        id=id,
        started_at=SYSTEM.wall(round(one.started.timestamp() * 1e6) * 1000),
        method=one.method,
        path=one.path,
        upstream=one.base,
        headers=one.request_headers,
        body=request and request[:REQUEST_STORED_BYTES],
        body_size=size,
        body_sha256=hashlib.sha256(request).hexdigest() if request is not None and is_whole else None,
        labels={**one.labels, **labels},
        coarse_clock=one.is_coarse,
        rebuilt=one.is_rebuilt,
    )
    clock = "imported" if one.is_timed else "none"
    if one.status is not None:
        yield journal.Head(id=id, headers=one.response_headers, **_answered(one) | {"clock": clock})
    run = _stored(id, one)
    stored = sum(run.sizes)
    if stored:
        yield journal.SocketReads([run], one.body[:stored])
    size = len(one.body) + one.missing
    left_ns = one.end_ns if one.ended_by == "client" else None
    sizes = {"bytes": size, "gap_bytes": size - stored}
    ended = _ended(one) | sizes | {"clock": clock, "client_closed_ns": left_ns}
    yield journal.End(id=id, trailers=one.response_trailers, **ended)


def _stored(id: str, one: ImportedExchange) -> journal.ReadRun:
    """Return the reads that a tape keeps, as of a recording: the first ones, up to the cap."""
    if not one.at_ns:
        return journal.ReadRun(id, 0, [], [], [min(len(one.body), STORED_BYTES)] if one.body else [])
    count = total = 0
    for size in one.sizes:
        if total + size > STORED_BYTES:
            break
        count, total = count + 1, total + size
    return journal.ReadRun(id, 0, one.at_ns[:count], [None] * count, one.sizes[:count])
