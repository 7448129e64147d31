"""Writes the tape, as a recorder does: it appends journal frames to a tape and derives measures from the facts.

A batch of frames is one transaction. Appending is idempotent: frames that are already on the tape are passed over, so
a relay may send again what was not acknowledged. What has ended is settled after that, in a transaction of its own:
its measures are derived and its body is packed, so that no decoding stands in the way of facts. Opening, locking and
migrating are left to `recorder.tape.file`; reading to `viewer.tape`; synthetic tapes to `recorder.demo.synthetic`.
"""

import dataclasses
import secrets
import sqlite3
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, delete, func, insert, select, update
from sqlalchemy.exc import OperationalError

from recorder.clock import Clock
from recorder.decode.derive import DECODER_VERSION, Measures
from recorder.tape import cells, journal
from recorder.tape.reading import facts, readable_body, stored_body
from recorder.tape.redact import Redactor
from recorder.tape.retention import Limits, Pruner
from recorder.tape.schema import bodies, exchanges, measures, reads, segments, sessions
from recorder.tape.settling import Decoded, Facts, decode_facts, measured
from recorder.tape.unstored import Relayed, Unstored

_SHOWN_FACTS = [exchanges.c[name] for name in ("id", "method", "path", "status", "request_model")]
_SHOWN_MEASURES = [measures.c[name] for name in journal.Finished.__struct_fields__ if name in measures.c]


class _Asked(msgspec.Struct):
    model: str | None = None


@dataclasses.dataclass(slots=True)
class _Open:
    """How far an exchange has been written."""

    no: int
    next_seq: int = 0
    stored: int = 0
    ended: bool = False


class Store:
    """Appends to one tape through its only writing connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._uuid = ""
        self._session_no = 0
        self._redactor = Redactor(b"")
        self._open: dict[str, _Open] = {}
        self._touched: dict[str, _Open] = {}
        self._lost: dict[str, journal.Lost] = {}

    @property
    def session(self) -> str:
        """The uuid of the session that is recorded; empty before `begin_session`."""
        return self._uuid

    @property
    def lost(self) -> list[journal.Lost]:
        """What the last `append` could not store, as it continues nothing that is on the tape."""
        return list(self._lost.values())

    def pruner(self, limits: Limits, clock: Clock) -> Pruner:
        """Return what deletes exchanges past the limits while this session is recorded."""
        return Pruner(self._connection, limits, clock, self._session_no)

    def begin_session(self, session: journal.Session, unstored: Unstored | None = None) -> None:
        """Enter a recorder's run, or find it again; then end dead recorders' open exchanges.

        `unstored` is what an earlier recorder knew of its exchanges and could not store.
        """
        with self._connection.begin():
            found = self._connection.execute(
                select(sessions.c.no, sessions.c.salt).where(sessions.c.uuid == session.uuid)
            )
            row = found.one_or_none() or self._enter(session)
            self._uuid, self._session_no, self._redactor = session.uuid, row.no, Redactor(row.salt)
        self.recover(unstored, besides=self._session_no)

    def _enter(self, session: journal.Session) -> Any:
        salt = self._connection.execute(select(sessions.c.salt).order_by(sessions.c.no).limit(1)).scalar()
        salt = salt or secrets.token_bytes(32)
        redactor = Redactor(salt)
        values = {
            **msgspec.structs.asdict(session),
            "upstreams": [[name, redactor.url(url)] for name, url in session.upstreams],
            "salt": salt,
            "heartbeat_at": session.started_at,
        }
        self._connection.execute(insert(sessions).values(values))
        return self._connection.execute(
            select(sessions.c.no, sessions.c.salt).where(sessions.c.uuid == session.uuid)
        ).one()

    def recover(self, unstored: Unstored | None = None, besides: int | None = None) -> int:
        """End the open exchanges of recorders that died (those of session `besides` excepted); return how many.

        Each ends as its recorder knew it to have ended, where that is in `unstored`.
        """
        statement = select(exchanges.c.no, exchanges.c.id, exchanges.c.status).where(exchanges.c.ended_by.is_(None))
        if besides is not None:
            statement = statement.where(exchanges.c.session_no != besides)
        known = {one.id: one for one in unstored.exchanges} if unstored else {}
        with self._connection.begin():
            dead = self._connection.execute(statement).all()
            for no, id, status in dead:
                self._mark_died(no, known.get(id), is_answered=status is not None)
        return len(dead)

    def _mark_died(self, no: int, relayed: Relayed | None, *, is_answered: bool) -> None:
        extent = select(func.max(reads.c.at_ns), func.coalesce(func.sum(reads.c.size), 0)).where(
            reads.c.exchange_no == no
        )
        last, size = self._connection.execute(extent).one()
        facts: dict[str, Any] = {"ended_by": "died", "end_ns": last, "bytes": size}
        if relayed is not None:
            facts = _facts_relayed(relayed, is_answered) | {
                "ended_by": relayed.ended_by or "died",
                "end_ns": last if relayed.end_ns is None else relayed.end_ns,
                "bytes": max(relayed.bytes, size),
                "gap_bytes": max(relayed.bytes - size, 0),
            }
        self._connection.execute(update(exchanges).where(exchanges.c.no == no).values(facts))

    def missing(self, unstored: Unstored) -> tuple[int, int]:
        """Count the exchanges of `unstored` that are not on the tape at all, and the bytes of their bodies."""
        missing, size = unstored.unlisted, unstored.unlisted_bytes
        with self._connection.begin():
            for one in unstored.exchanges:
                if self._connection.execute(select(exchanges.c.no).where(exchanges.c.id == one.id)).scalar() is None:
                    missing, size = missing + 1, size + one.bytes
        return missing, size

    def append(self, frames: Sequence[journal.Frame]) -> list[int]:
        """Commit a batch's facts in one transaction; give the numbers of the exchanges that ended in it, to be settled.

        On an error nothing of the batch is on the tape, and the same batch may be tried again.
        """
        self._touched, self._lost = {}, {}
        with self._connection.begin():
            ended = self._append(frames)
        self._open = {id: known for id, known in (self._open | self._touched).items() if not known.ended}
        return ended

    def settle(self, numbers: Iterable[int]) -> list[journal.Finished]:
        """Derive the measures of ended exchanges and pack their bodies; give what to show of them.

        That is apart from `append`, so that no decoding stands in the way of facts. `unsettled_facts` and `put` are
        its two halves, for whoever decodes in between elsewhere.
        """
        return [self.put(decode_facts(self.unsettled_facts(no))) for no in numbers]

    def unsettled_facts(self, no: int) -> Facts:
        """Read what is decoded of an ended exchange; None as its body if it is settled already."""
        with self._connection.begin():
            settled = self._connection.execute(select(bodies.c.size).where(bodies.c.exchange_no == no)).scalar()
            exchange, its_reads = facts(self._connection, no)
            body = stored_body(self._connection, no) if settled is None else None
        return Facts(no, exchange, its_reads, body)

    def put(self, decoded: Decoded) -> journal.Finished:
        """Store a body and its measures, in one transaction; give what to show of the exchange."""
        no = decoded.no
        with self._connection.begin():
            if decoded.packed is not None:
                self._connection.execute(insert(bodies).values(decoded.packed))
                self._connection.execute(delete(segments).where(segments.c.exchange_no == no))
                self._store_measures(no, decoded.measures)
            return self._finished(no)

    def unsettled(self) -> list[int]:
        """Give the ended exchanges that no writer has settled yet."""
        statement = (
            select(exchanges.c.no)
            .outerjoin(bodies)
            .where(exchanges.c.ended_by.is_not(None), bodies.c.exchange_no.is_(None))
        )
        with self._connection.begin():
            return list(self._connection.execute(statement.order_by(exchanges.c.no)).scalars())

    def _append(self, frames: Sequence[journal.Frame]) -> list[int]:
        chunks: dict[str, list[journal.Read]] = {}
        ends: list[journal.End] = []
        for frame in frames:
            match frame:
                case journal.Read():
                    chunks.setdefault(frame.id, []).append(frame)
                case journal.Begin():
                    self._begin(frame)
                case journal.Head():
                    self._head(frame)
                case journal.End():
                    ends.append(frame)
                case _:
                    self._session(frame)
        self._append_reads(chunks)
        return [no for end in ends for no in self._end(end)]

    def _session(self, frame: journal.Frame) -> None:
        match frame:
            case journal.Heartbeat(at=at):
                values = {"heartbeat_at": at}
            case journal.Close(at=at):
                values = {"heartbeat_at": at, "ended_at": at}
            case _:
                return
        self._connection.execute(update(sessions).where(sessions.c.no == self._session_no).values(values))

    def _begin(self, frame: journal.Begin) -> None:
        if self._find(frame.id):
            return
        row = {
            "id": frame.id,
            "session_no": self._session_no,
            "started_at": frame.started_at,
            "method": frame.method,
            "path": self._redactor.path(frame.path),
            "upstream": self._redactor.url(frame.upstream),
            "request_model": _model_asked(frame.body),
            "request_headers": self._redactor.headers(frame.headers),
            "request_body": frame.body,
            "request_size": frame.body_size,
            "request_sha256": frame.body_sha256,
            "labels": self._redactor.labels(frame.labels),
            "coarse_clock": frame.coarse_clock,
        }
        result = self._connection.execute(insert(exchanges).values(row))
        assert result.inserted_primary_key is not None
        self._touched[frame.id] = _Open(result.inserted_primary_key[0])

    def _head(self, frame: journal.Head) -> None:
        known = self._find(frame.id)
        if known is None:
            self._lose(frame.id, 0, whole=True)
            return
        if known.ended:
            return
        row = {
            "status": frame.status,
            "response_headers": self._redactor.headers(frame.headers),
            "framing": frame.framing,
            "connected_ns": frame.connected_ns,
            "sent_ns": frame.sent_ns,
            "headers_ns": frame.headers_ns,
        }
        self._connection.execute(update(exchanges).where(exchanges.c.no == known.no).values(row))

    def _append_reads(self, chunks: dict[str, list[journal.Read]]) -> None:
        rows: list[dict[str, Any]] = []
        pieces: list[dict[str, Any]] = []
        for id, frames in chunks.items():
            known = self._find(id)
            if known is None:
                self._lose(id, sum(len(frame.data) for frame in frames), whole=True)
                continue
            new = [] if known.ended else list(_following(frames, known.next_seq))
            if lost := _unplaced(frames, known.next_seq + len(new)):
                self._lose(id, lost, whole=False)
            if not new:
                continue
            rows += (_read_row(known.no, frame) for frame in new)
            data = b"".join([frame.data for frame in new])
            known.next_seq += len(new)
            known.stored += len(data)
            pieces.append({"exchange_no": known.no, "start": new[0].start, "data": data})
        if rows:
            self._connection.execute(insert(reads), rows)
            self._connection.execute(insert(segments), pieces)

    def _end(self, frame: journal.End) -> Iterator[int]:
        """End an exchange; a relay that sends its end again has not heard of it, and is told again."""
        known = self._find(frame.id)
        if known is None:
            self._lose(frame.id, 0, whole=True)
            return
        if not known.ended:
            values = msgspec.structs.asdict(frame)
            del values["id"]
            values["gap_bytes"] = max(frame.gap_bytes, frame.bytes - known.stored)
            values["ended_detail"] = frame.ended_detail and self._redactor.text(frame.ended_detail.replace("\0", ""))
            self._connection.execute(update(exchanges).where(exchanges.c.no == known.no).values(values))
            known.ended = True
        yield known.no

    def _lose(self, id: str, size: int, *, whole: bool) -> None:
        """Note that frames of an exchange have no place on the tape."""
        before = self._lost.get(id)
        self._lost[id] = journal.Lost(id, size + (before.bytes if before else 0), whole)

    def _find(self, id: str) -> _Open | None:
        """Give how far an exchange has been written, from memory or, after a restart, from the tape."""
        if id in self._touched:
            return self._touched[id]
        known = self._open.get(id)
        if known is None:
            row = self._connection.execute(
                select(exchanges.c.no, exchanges.c.ended_by).where(exchanges.c.id == id)
            ).one_or_none()
            if row is None:
                return None
            extent = (func.coalesce(func.max(reads.c.seq) + 1, 0), func.coalesce(func.sum(reads.c.size), 0))
            next_seq, stored = self._connection.execute(select(*extent).where(reads.c.exchange_no == row.no)).one()
            known = _Open(row.no, next_seq, stored, ended=row.ended_by is not None)
        self._touched[id] = dataclasses.replace(known)
        return self._touched[id]

    def _store_measures(self, no: int, found: Measures | None) -> bool:
        """Store an exchange's measures; say whether they are other than before."""
        try:
            return found is not None and self._put_measures(_measures_row(no, found))
        except OperationalError:
            raise
        except Exception:  # noqa: BLE001 - a value that SQLite refuses must not cost the facts
            traceback.print_exc(file=sys.stderr)
            return False

    def _put_measures(self, row: dict[str, Any]) -> bool:
        its = measures.c.exchange_no == row["exchange_no"]
        before = self._connection.execute(select(measures).where(its)).mappings().one_or_none()
        if before is not None and dict(before) == row:
            return False
        with self._connection.begin_nested():
            self._connection.execute(delete(measures).where(its))
            self._connection.execute(insert(measures).values(row))
        return True

    def _finished(self, no: int) -> journal.Finished:
        columns = (*_SHOWN_FACTS, *_SHOWN_MEASURES)
        shown = select(*columns).select_from(exchanges).outerjoin(measures).where(exchanges.c.no == no)
        row = dict(self._connection.execute(shown).mappings().one())
        asked, flags = row.pop("request_model"), row.pop("flags") or ""
        row["model"], row["outcome"] = row["model"] or asked, row["outcome"] or "not measured"
        return journal.Finished(**row, flags=flags.split())

    def size(self) -> int:
        """Return the bytes of the whole database as SQLite sees it, wherever they are by now."""
        pages, page = (self._pragma(name)[0] for name in ("page_count", "page_size"))
        return int(pages * page)

    def checkpoint(self) -> bool:
        """Move all of the log into the tape itself; return whether that was possible."""
        try:
            busy, left, moved = self._pragma("wal_checkpoint(TRUNCATE)")
        except sqlite3.Error:
            return False
        return not busy and left == moved

    def _pragma(self, statement: str) -> tuple[Any, ...]:
        """Ask SQLite outside of any transaction."""
        row: tuple[Any, ...] = self._connection.connection.cursor().execute(f"PRAGMA {statement}").fetchone()
        return row

    def ended(self, *, outdated: bool = False) -> Sequence[int]:
        """Return the exchanges that have ended; if `outdated`, those whose measures another decoder derived."""
        statement = select(exchanges.c.no).where(exchanges.c.ended_by.is_not(None)).order_by(exchanges.c.no)
        if outdated:
            statement = statement.join(measures).where(measures.c.decoder_version != DECODER_VERSION)
        with self._connection.begin():
            return self._connection.execute(statement).scalars().all()

    def rebuild(self, numbers: Iterable[int] | None = None) -> Iterator[bool]:
        """Derive ended exchanges again, these or all, one transaction each; yield for each whether anything changed."""
        unsettled = set(self.unsettled())
        for no in self.ended() if numbers is None else numbers:
            if no in unsettled:
                self.settle([no])
                yield True
            else:
                yield self._rederive(no)

    def _rederive(self, no: int) -> bool:
        """Derive one exchange again; what was derived of one whose body cannot be unpacked any more is kept."""
        with self._connection.begin():
            exchange, its_reads = facts(self._connection, no)
            body = readable_body(self._connection, no)
            if no in cells.damage_of(self._connection).exchanges:
                return False
            return self._store_measures(no, measured(exchange, its_reads, body))


def _following(frames: Iterable[journal.Read], seq: int) -> Iterator[journal.Read]:
    """Give the reads that continue a stream at `seq`; those that are on the tape, or come twice, are passed over."""
    for frame in frames:
        if frame.seq == seq:
            seq += 1
            yield frame


def _unplaced(frames: Iterable[journal.Read], next_seq: int) -> int:
    """Count the bytes of reads that are beyond the end of what is stored: one before them is missing."""
    return sum(len(frame.data) for frame in frames if frame.seq >= next_seq)


def _facts_relayed(relayed: Relayed, is_answered: bool) -> dict[str, Any]:
    """Return what a relay knew beyond what was stored; of an answer whose head is stored, not the head again."""
    names = ["client_closed_ns", "connected_ns", "sent_ns", "paused", "surplus"]
    if not is_answered:
        names += ["status", "framing", "headers_ns"]
    return {name: value for name in names if (value := getattr(relayed, name)) is not None}


def _read_row(no: int, frame: journal.Read) -> dict[str, Any]:
    return {
        "exchange_no": no,
        "seq": frame.seq,
        "at_ns": frame.at_ns,
        "relayed_ns": frame.relayed_ns,
        "start": frame.start,
        "size": len(frame.data),
    }


def _measures_row(no: int, found: Measures) -> dict[str, Any]:
    row = {field.name: getattr(found, field.name) for field in dataclasses.fields(found)}
    return {"exchange_no": no, **row, "flags": " ".join(found.flags)}


def _model_asked(body: bytes | None) -> str | None:
    try:
        model = msgspec.json.decode(body or b"", type=_Asked).model
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return model and model.replace("\0", "�")
