"""One exchange for looking at closely: what can be told of it at once, and all of it with its body decoded.

The first is quick however large the exchange is, the second takes as long as decoding does (`opening`): that of a large
one is left to a process of its own, so that it neither holds up a screen nor leaves its memory behind. As in `queries`,
each query is short.
"""

import dataclasses
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, select

from recorder import store
from recorder.errors import TapeError, WiretapeError
from recorder.safe import safe
from recorder.schema import exchanges, measures, sessions
from viewer import queries
from viewer.model import opening
from viewer.model.opening import Opened, Stored
from viewer.model.transcript import Transcript
from viewer.rows import Row
from viewer.thresholds import Thresholds

LARGE: Final = 1 << 20
"""A body of more bytes is decoded in a process of its own."""

_CHILD: Final = "import gc; gc.disable(); from viewer.inspecting import _child; _child()"


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
    timed = select(exchanges.c.end_ns, exchanges.c.response_headers).where(exchanges.c.no == no)
    gaps = select(measures.c.icl).where(measures.c.exchange_no == no)
    with connection.begin():
        end_ns, headers = connection.execute(timed).one()
        packed: bytes | None = connection.execute(gaps).scalar()
    return Known(row, request, body, headers or [], recorder(connection, no), end_ns or 0, packed or b"")


def recorder(connection: Connection, no: int) -> Recorder:
    """Give the run of a recorder that an exchange belongs to, as it stands. Raises sqlalchemy's `NoResultFound`."""
    columns = (sessions.c.pid, sessions.c.heartbeat_at, sessions.c.ended_at)
    joined = exchanges.join(sessions, sessions.c.no == exchanges.c.session_no)
    with connection.begin():
        found = connection.execute(select(*columns).select_from(joined).where(exchanges.c.no == no)).one()
    return Recorder(*found)


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


def apart(
    tape: Path,
    no: int,
    limits: Thresholds,
    started: "list[subprocess.Popen[bytes]] | None" = None,
    begun: Callable[[Opened], None] | None = None,
) -> Opened:
    """Open an exchange in a process of its own, and wait for it. Raises `TapeError` in its words.

    The process is put into `started`, so that somebody may end it; `begun` is given what is not judged yet.
    """
    pipe = subprocess.PIPE
    with tempfile.TemporaryFile() as words:
        command = [sys.executable, "-c", _CHILD]
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=words, start_new_session=True)
        if started is not None:
            started.append(process)
        try:
            return _answered(process, (tape, no, limits), begun)
        except (EOFError, pickle.UnpicklingError, BrokenPipeError) as error:
            process.wait()
            words.seek(0)
            told = words.read().decode("utf-8", "replace").strip().rpartition("\n")[2]
            why = safe(told) or "its process was ended"
            raise TapeError(f"the exchange cannot be decoded ({why})") from error


def _answered(process: "subprocess.Popen[bytes]", asked: object, begun: Callable[[Opened], None] | None) -> Opened:
    """Ask the process, and take what it writes as it comes, so that it is never held twice."""
    assert process.stdin is not None
    assert process.stdout is not None
    with process, process.stdin, process.stdout:
        pickle.dump(asked, process.stdin)
        process.stdin.close()
        found: Opened = pickle.load(process.stdout)
        if begun is not None:
            begun(found)
        return dataclasses.replace(found, **pickle.load(process.stdout))


def preliminary(row: Row) -> Transcript:
    """Give the texts that are on the tape already, as if one event had brought them all: until the body is decoded."""
    texts = [("reasoning", row["reasoning"]), ("content", row["content"]), ("refusal", row["refusal"])]
    calls = [(call["name"] or "", call["arguments"] or "") for call in row["tool_calls"] or ()]
    return Transcript.of_texts({kind: text for kind, text in texts if text}, calls)


def _child() -> None:
    """Open the exchange that stdin asks for, and write it to stdout: first what is quick to have."""
    tape, no, limits = pickle.load(sys.stdin.buffer)
    try:
        with queries.opened(tape) as connection:
            answer = stored(connection, no)
    except WiretapeError as error:
        sys.exit(str(error))
    found, judged = opening.stages(answer, limits)
    pickle.dump(found, sys.stdout.buffer, pickle.HIGHEST_PROTOCOL)
    sys.stdout.buffer.flush()
    pickle.dump(judged(), sys.stdout.buffer, pickle.HIGHEST_PROTOCOL)
    sys.stdout.buffer.flush()
    os._exit(0)  # what is in memory need not be put away one by one
