"""Recovering: the open exchanges of recorders that have died are ended, and those that they could not store entered.

An exchange stays open as long as its recorder may return: one whose process runs has only lost its writer, and sends
its unacknowledged frames to the next one. Of one that has died, the exchange ends as the last read on the tape shows,
or as the recorder itself noted before it died (`wiretape.recorder.tape.losses`). Bytes that passed and are not stored
are counted as missing.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Connection, exists, insert, select, update

from wiretape.recorder import facts
from wiretape.recorder.facts import Answered, Begun, Connected, Ended
from wiretape.recorder.process import may_return
from wiretape.recorder.tape import reading, tables
from wiretape.recorder.tape.append import Appending, model_of_path
from wiretape.recorder.tape.file import driver_of, reader_of
from wiretape.recorder.tape.losses import Relayed, Unstored
from wiretape.recorder.tape.schema import exchanges, sessions

_begun, _relayed = facts.reader(Begun), facts.reader(Connected, Answered, Ended)


@dataclass(frozen=True, slots=True)
class ReturningSession:
    """A session whose recorder has lost its writer, and the recorder's process."""

    no: int
    uuid: str
    pid: int


def returning(connection: Connection, uuids: Collection[str] = ()) -> list[ReturningSession]:
    """Return the sessions with open exchanges, and those of `uuids`, whose recorder may still run.

    It has lost its writer and joins the next one: it knows more of its exchanges than the tape does.
    """
    is_open = exists().where(exchanges.c.session_no == sessions.c.no, exchanges.c.ended_by.is_(None))
    columns = (sessions.c.no, sessions.c.uuid, sessions.c.pid, sessions.c.boot_id)
    statement = select(*columns).where(sessions.c.ended_at.is_(None), is_open | sessions.c.uuid.in_(uuids))
    with connection.begin():
        rows = connection.execute(statement).all()
    return [ReturningSession(no, uuid, pid) for no, uuid, pid, boot in rows if may_return(pid, boot)]


class Amount(NamedTuple):
    """A number of exchanges, and the bytes of their bodies."""

    exchanges: int
    bytes: int


def count_missing(connection: Connection, unstored: Iterable[Unstored]) -> Amount:
    """Count the unstored exchanges that are not on the tape at all."""
    exchange_count = byte_count = 0
    with connection.begin():
        for part in unstored:
            sizes = [relayed.all_bytes for relayed in part.exchanges if number_of(connection, relayed.id) is None]
            exchange_count += part.unlisted + len(sizes)
            byte_count += part.unlisted_bytes + sum(sizes)
    return Amount(exchange_count, byte_count)


def number_of(connection: Connection, id: str) -> int | None:
    """Return the number of an exchange; None if the tape does not hold it."""
    row = driver_of(connection).execute("SELECT no FROM exchanges WHERE id = ?", (id,)).fetchone()
    return None if row is None else int(row[0])


def recover(
    appending: Appending,
    unstored: Iterable[Unstored] = (),
    *,
    of: Collection[int] | None = None,
    spared: Collection[int] = (),
    ids: Collection[str] | None = None,
) -> list[int]:
    """End the open exchanges of recorders that died, and enter those that the tape lacks; return their numbers.

    Only those `of` some sessions, if given, or with `ids`, and none of `spared` sessions. Each ends as its recorder
    knew it to have ended, where that is in `unstored`.
    """
    connection = appending.connection
    columns = (exchanges.c.no, exchanges.c.id, exchanges.c.status, exchanges.c.framing)
    statement = select(*columns).where(exchanges.c.ended_by.is_(None), exchanges.c.session_no.not_in(spared))
    if of is not None:
        statement = statement.where(exchanges.c.session_no.in_(of))
    if ids is not None:
        statement = statement.where(exchanges.c.id.in_(ids))
    relayed = {exchange.id: exchange for part in unstored for exchange in part.exchanges}
    with connection.begin():
        dead = connection.execute(statement).all()
        for no, id, status, framing in dead:
            if appending.uploaded(no) is not None:
                appending.end_request(no, b"", None)
            is_websocket = framing == "websocket"
            _mark_died(connection, no, relayed.get(id), is_answered=status is not None, is_websocket=is_websocket)
            appending.forget(id)
        numbers = [row.no for row in dead]
        for part in unstored:
            session_no = connection.execute(select(sessions.c.no).where(sessions.c.uuid == part.session)).scalar()
            if session_no is not None and session_no not in spared and (of is None or session_no in of):
                for exchange in part.exchanges:
                    is_known = exchange.began is not None and (ids is None or exchange.id in ids)
                    if is_known and number_of(connection, exchange.id) is None:
                        numbers.append(_enter(appending, session_no, exchange))
    return numbers


def _enter(appending: Appending, session_no: int, relayed: Relayed) -> int:
    """Enter an exchange that began while nothing could be stored, without its bytes; return its number."""
    began, redactor = relayed.began, appending.redactor
    assert began is not None
    path = redactor.path(began.path)
    row = (
        _facts_of(relayed, is_answered=False)
        | _begun(began)
        | {
            "id": relayed.id,
            "session_no": session_no,
            "path": path,
            "upstream": redactor.url(began.upstream),
            "request_model": model_of_path(began.method, path),
            "request_headers": [],
            "labels": {},
            "ended_by": relayed.ended_by or "died",
            "end_ns": relayed.end_ns,
            "bytes": relayed.bytes,
            "gap_bytes": relayed.bytes,
            "client_bytes": relayed.client_bytes,
            "client_gap_bytes": relayed.client_bytes,
        }
    )
    key: Any = appending.connection.execute(insert(exchanges).values(row)).inserted_primary_key
    return int(key[0])


def _mark_died(
    connection: Connection, no: int, relayed: Relayed | None, *, is_answered: bool, is_websocket: bool
) -> None:
    reads, sent = (reading.reads_of(reader_of(connection), no, stream) for stream in tables.STREAMS)
    last_ns, size = max((*reads.at_ns, *sent.at_ns), default=None), sum(reads.size)
    values: dict[str, Any] = {"ended_by": "died", "end_ns": last_ns, "bytes": size}
    if relayed is not None:
        values = _facts_of(relayed, is_answered) | {
            "ended_by": relayed.ended_by or "died",
            "end_ns": last_ns if relayed.end_ns is None else relayed.end_ns,
            "bytes": max(relayed.bytes, size),
            "gap_bytes": max(relayed.bytes - size, 0),
        }
    if is_websocket or values.get("framing") == "websocket":
        size = sum(sent.size)
        received = max(size, (relayed and relayed.client_bytes) or 0)
        values |= {"client_bytes": received, "client_gap_bytes": received - size}
    connection.execute(update(exchanges).where(exchanges.c.no == no).values(values))


def _facts_of(relayed: Relayed, is_answered: bool) -> dict[str, Any]:
    """Return the relay's facts that were not stored, without the head of an answer whose head is stored."""
    omitted = ("client_bytes", "client_gap_bytes", *(facts.names(Answered) if is_answered else ()))
    return {name: value for name, value in _relayed(relayed).items() if value is not None and name not in omitted}
