"""One exchange for looking at closely: what can be told of it at once, and all of it with its body decoded.

The first is quick however large the exchange is, the second takes as long as decoding does (`opening`): that of a large
one is left to a process of its own, so that it neither holds up a screen nor leaves its memory behind. As in `queries`,
each query is short.
"""

import pickle
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, select

from recorder import store
from recorder.errors import TapeError, WiretapeError
from recorder.safe import safe
from recorder.schema import exchanges, measures, sessions
from viewer import opening, queries
from viewer.opening import Opened, Stored
from viewer.rows import Row
from viewer.thresholds import Thresholds
from viewer.transcript import Transcript

LARGE: Final = 1 << 20
"""A body of more bytes is decoded in a process of its own."""

_CHILD: Final = "from viewer.inspecting import _child; _child()"


@dataclass(frozen=True, slots=True)
class Recorder:
    """The run of a recorder that an exchange belongs to; `heartbeat_at` is when it was last heard of, wall time."""

    pid: int
    heartbeat_at: str
    ended_at: str | None


@dataclass(frozen=True, slots=True)
class Known:
    """What can be told at once: the row of `queries.detail`, the request and its body, and the gaps between outputs.

    `gaps` are packed as on the tape; `end_ns` is when the exchange ended, 0 if it has not.
    """

    row: Row
    request: Row
    request_body: bytes | None
    response_headers: list[list[str]]
    recorder: Recorder
    end_ns: int
    gaps: bytes = field(repr=False)


def known(connection: Connection, no: int) -> Known:
    """Give what can be told of an exchange without decoding it. Raises sqlalchemy's `NoResultFound`."""
    row = queries.detail(connection, no)
    request, body = queries.request(connection, no)
    columns = (sessions.c.pid, sessions.c.heartbeat_at, sessions.c.ended_at)
    joined = exchanges.join(sessions, sessions.c.no == exchanges.c.session_no)
    session = select(*columns).select_from(joined).where(exchanges.c.no == no)
    timed = select(exchanges.c.end_ns, exchanges.c.response_headers).where(exchanges.c.no == no)
    gaps = select(measures.c.icl).where(measures.c.exchange_no == no)
    with connection.begin():
        recorder = Recorder(*connection.execute(session).one())
        end_ns, headers = connection.execute(timed).one()
        packed: bytes | None = connection.execute(gaps).scalar()
    return Known(row, request, body, headers or [], recorder, end_ns or 0, packed or b"")


def stored(connection: Connection, no: int) -> Stored:
    """Read an exchange's answer. Raises sqlalchemy's `NoResultFound`."""
    judged = select(measures.c.outcome).where(measures.c.exchange_no == no)
    with connection.begin():
        facts, its_reads = store.facts(connection, no)
        body = store.stored_body(connection, no)
        outcome: str | None = connection.execute(judged).scalar()
    return Stored(facts, its_reads, body, outcome or "open")


def size(connection: Connection, no: int) -> int:
    """Give how many bytes of an answer have come so far. Raises sqlalchemy's `NoResultFound`."""
    with connection.begin():
        return int(connection.execute(select(exchanges.c.bytes).where(exchanges.c.no == no)).scalar_one())


def version(connection: Connection) -> int:
    """Give a number that is another whenever somebody else has written to the tape."""
    with connection.begin():
        return int(connection.exec_driver_sql("PRAGMA data_version").scalar_one())


def apart(tape: Path, no: int, limits: Thresholds, started: "list[subprocess.Popen[bytes]] | None" = None) -> Opened:
    """Open an exchange in a process of its own, and wait for it. Raises `TapeError` in its words.

    The process is put into `started`, so that somebody may end it.
    """
    command = [sys.executable, "-c", _CHILD]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True)
    if started is not None:
        started.append(process)
    answer, words = process.communicate(pickle.dumps((tape, no, limits)))
    if process.returncode:
        told = words.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise TapeError(f"the exchange cannot be decoded ({safe(told) or 'its process was ended'})")
    found: Opened = pickle.loads(answer)
    return found


def preliminary(row: Row) -> Transcript:
    """Give the texts that are on the tape already, as if one event had brought them all: until the body is decoded."""
    texts = [("reasoning", row["reasoning"]), ("content", row["content"]), ("refusal", row["refusal"])]
    calls = [(call["name"] or "", call["arguments"] or "") for call in row["tool_calls"] or ()]
    return Transcript.of_texts({kind: text for kind, text in texts if text}, calls)


def _child() -> None:
    """Open the exchange that stdin asks for, and write it to stdout."""
    tape, no, limits = pickle.load(sys.stdin.buffer)
    try:
        with queries.opened(tape) as connection:
            answer = stored(connection, no)
    except WiretapeError as error:
        sys.exit(str(error))
    pickle.dump(opening.opened(answer, limits), sys.stdout.buffer, pickle.HIGHEST_PROTOCOL)
