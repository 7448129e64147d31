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
from typing import Any, NamedTuple

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

_answered_values, _ended_values = facts.reader(Connected, Answered), facts.reader(Connected, Ended)


@dataclass(slots=True)
class ImportReport:
    """The result of an import: the ids of new exchanges, the number already on the tape, and the refusals and notes."""

    added: list[str] = field(default_factory=list)
    present: int = 0
    untimed: int = 0
    refused: list[Unimportable] = field(default_factory=list)

    @property
    def failed(self) -> int:
        return sum(not refusal.is_note for refusal in self.refused)


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
        self._pending = list[_Entered]()
        self._ids = list[str]()
        self._bytes = 0

    @cached_property
    def _store(self) -> Store:
        return self._open_store()

    def add(self, items: Iterable[ImportedExchange | Unimportable]) -> Iterator[ImportedExchange | Unimportable]:
        """Import a parser's results, and yield each once it is processed; the last are written at the end."""
        try:
            for item in items:
                entered = item if isinstance(item, Unimportable) else attempt(item.place, partial(self._entered, item))
                if isinstance(entered, Unimportable):
                    self.report.refused.append(entered)
                elif entered.id in self._ids or self._store.knows(entered.id):  # of this transaction, or stored
                    self.report.present += 1
                else:
                    self._pending.append(entered)
                    self._ids.append(entered.id)
                    self._bytes += entered.size
                    # A commit for each exchange would take a sync each, all in one all of the memory.
                    if len(self._pending) >= 100 or self._bytes >= 16 << 20:
                        self._write()
                yield item
        finally:
            self._write()
            if self._has_begun:
                self._store.append([journal.Close(SYSTEM.wall())])

    def _entered(self, exchange: ImportedExchange) -> "_Entered":
        """Return an exchange as it is written. Raises `ValueError` for one that cannot be on a tape."""
        if (reason := problem(exchange)) is not None:
            raise ValueError(reason)
        id = exchange.id
        if not id:
            # Equal exchanges without a time, in files of other names, are no repetition that anybody knows of.
            stamp, body = exchange.stamp or self._source, exchange.request or b""
            request = (self._format, stamp, exchange.method, exchange.url, body)
            parts = (*request, exchange.status, exchange.ended_by, exchange.body)
            digest = hashlib.sha256(msgspec.msgpack.encode(parts)).digest()
            self._seen[digest] += 1  # equal exchanges in one file have different ids
            id = exchange_id(hashlib.sha256(digest + str(self._seen[digest]).encode()).hexdigest()[:16])
        return _Entered(id, list(frames(id, exchange, self._labels)), exchange.is_timed, len(exchange.body))

    def _write(self) -> None:
        if not self._pending:
            return
        if not self._has_begun:
            self._store.begin_session(self._session)
            self._has_begun = True
        ended_exchanges = self._store.append([frame for pending in self._pending for frame in pending.frames])
        self._store.settle(ended_exchanges)
        self.report.added += self._ids
        self.report.untimed += sum(not pending.is_timed for pending in self._pending)
        self._pending, self._ids, self._bytes = [], [], 0


def frames(id: str, exchange: ImportedExchange, labels: dict[str, str]) -> Iterator[journal.Frame]:
    """Yield the frames of an exchange, as a recorder sends them to its writer."""
    request = exchange.request
    size = exchange.request_size if request is None else max(len(request), exchange.request_size or 0)
    is_whole = request is not None and size == len(request)
    yield journal.Begin(
        id=id,
        started_at=SYSTEM.wall(round(exchange.started.timestamp() * 1e6) * 1000),
        method=exchange.method,
        path=exchange.path,
        upstream=exchange.base,
        headers=exchange.request_headers,
        body=request and request[:REQUEST_STORED_BYTES],
        body_size=size,
        body_sha256=hashlib.sha256(request).hexdigest() if request is not None and is_whole else None,
        labels={**exchange.labels, **labels},
        coarse_clock=exchange.is_coarse,
        rebuilt=exchange.is_rebuilt,
    )
    clock = "imported" if exchange.is_timed else "none"
    if exchange.status is not None:
        yield journal.Head(id=id, headers=exchange.response_headers, **_answered_values(exchange) | {"clock": clock})
    run = _stored_reads(id, exchange)
    stored_bytes = sum(run.sizes)
    if stored_bytes:
        yield journal.SocketReads([run], exchange.body[:stored_bytes])
    size = len(exchange.body) + exchange.missing
    left_ns = exchange.end_ns if exchange.ended_by == "client" else None
    sizes = {"bytes": size, "gap_bytes": size - stored_bytes}
    end_values = _ended_values(exchange) | sizes | {"clock": clock, "client_closed_ns": left_ns}
    yield journal.End(id=id, trailers=exchange.response_trailers, **end_values)


def _stored_reads(id: str, exchange: ImportedExchange) -> journal.ReadRun:
    """Return the reads that a tape keeps, as of a recording: the first ones, up to the cap."""
    if not exchange.at_ns:
        return journal.ReadRun(id, 0, [], [], [min(len(exchange.body), STORED_BYTES)] if exchange.body else [])
    count = total = 0
    for size in exchange.sizes:
        if total + size > STORED_BYTES:
            break
        count, total = count + 1, total + size
    return journal.ReadRun(id, 0, exchange.at_ns[:count], [None] * count, exchange.sizes[:count])
