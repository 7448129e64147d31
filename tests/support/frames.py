"""Journal frames for tests, and their contents on a tape."""

import hashlib
import json
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import accumulate, zip_longest
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import Connection, select

from wiretape.recorder.tape import digits, file, journal, packing, reader, tables
from wiretape.recorder.tape.reading import stored_body
from wiretape.recorder.tape.schema import FROM_UPSTREAM, STREAMS, Stream, exchanges, measures, reads
from wiretape.recorder.tape.store import Store

AT = "2026-03-01T12:00:00.000000Z"
SESSION = journal.Session("session-1", "0.1.0", 4711, None, "http://127.0.0.1:8377", [("", "https://api.test")], AT)
BODY = b'{"model":"gpt-test","stream":true}'
STREAM = [
    b'data: {"object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":"Hel"}}]}\n\n',
    b'data: {"object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":"lo"},',
    b'"finish_reason":"stop"}]}\n\n',
    b"data: [DONE]\n\n",
]
STEP = 1_000_000


@dataclass(eq=False)
class Source:
    """The source of an exchange's reads."""

    id: str
    seq: int = 0
    is_client: bool = False


def begin(id: str, **other: Any) -> journal.Begin:
    facts = dict(
        id=id, started_at=AT, method="POST", path="/v1/chat/completions", upstream="https://api.test",
        headers=[(b"content-type", b"application/json")], body=BODY, labels={"run": "a"},
    ) | other  # fmt: skip
    sha256 = hashlib.sha256(facts["body"]).hexdigest()
    return journal.Begin(**facts, body_size=len(facts["body"]), body_sha256=sha256)


def upload(
    id: str, pieces: Sequence[bytes], truncated: bool = False, whole: bytes | None = None
) -> list[journal.Frame]:
    """Return the frames of a request whose body comes in pieces; `whole` is the whole body, if not all is stored."""
    sent = b"".join(pieces) if whole is None else whole
    starts = accumulate(map(len, pieces), initial=0)
    return [
        msgspec.structs.replace(begin(id), body=None, body_size=None, body_sha256=None),
        *(journal.Upload(id, start, data) for start, data in zip(starts, pieces, strict=False)),
        journal.Uploaded(id, len(sent), hashlib.sha256(sent).hexdigest(), truncated),
    ]


def head(id: str, headers: Sequence[tuple[bytes, bytes]] = ((b"content-type", b"text/event-stream"),)) -> journal.Head:
    return journal.Head(
        id=id,
        status=200,
        headers=list(headers),
        framing="chunked",
        connected_ns=STEP,
        sent_ns=2 * STEP,
        headers_ns=3 * STEP,
    )


def read(id: str, seq: int, at_ns: int, relayed_ns: int | None, data: bytes) -> journal.SocketReads:
    """Return the frame of a single read."""
    return journal.SocketReads([journal.ReadRun(id, seq, [at_ns], [relayed_ns], [len(data)])], data)


def body(id: str, pieces: Sequence[bytes]) -> Iterator[journal.SocketReads]:
    for seq, data in enumerate(pieces):
        at_ns = (4 + seq) * STEP
        yield read(id, seq, at_ns, at_ns + 5000, data)


def end(id: str, pieces: Sequence[bytes], ended_by: str = "end", gap: int = 0) -> journal.End:
    size = sum(map(len, pieces))
    return journal.End(
        id=id,
        ended_by=ended_by,
        end_ns=(5 + len(pieces)) * STEP,
        connected_ns=STEP,
        sent_ns=2 * STEP,
        bytes=size + gap,
        gap_bytes=gap,
    )


def exchange(id: str, pieces: Sequence[bytes] = STREAM) -> list[journal.Frame]:
    return [begin(id), head(id), *body(id, pieces), end(id, pieces)]


TRAILERS = [(b"grpc-status", b"8"), (b"authorization", b"Bearer sk-c4n4ryc4n4ry1234")]


def http2(id: str, pieces: Sequence[bytes] = STREAM, *, is_reset: bool = False) -> list[journal.Frame]:
    """Return the frames of an HTTP/2 stream with trailers, or of one that upstream reset."""
    facts = {"ended_by": "reset", "reset_code": "rst_cancel"} if is_reset else {"trailers": TRAILERS}
    opening = msgspec.structs.replace(head(id), framing="h2", protocol="h2")
    ending = msgspec.structs.replace(end(id, pieces), protocol="h2", **facts)
    return [begin(id), opening, *body(id, pieces), ending]


def websocket(
    id: str, pieces: Sequence[bytes], sent: Sequence[bytes], path: str = "/v1/responses"
) -> list[journal.Frame]:
    """Return the frames of a WebSocket: data from upstream and from the client, by turns."""
    received = [*body(id, pieces)]
    runs = [msgspec.structs.replace(frame.runs[0], is_client=True) for frame in body(id, sent)]
    client = [journal.SocketReads([run], data) for run, data in zip(runs, sent, strict=True)]
    by_turns = [frame for pair in zip_longest(client, received) for frame in pair if frame is not None]
    switched = msgspec.structs.replace(head(id, ()), status=101, framing="websocket")
    ending = msgspec.structs.replace(end(id, pieces), client_bytes=sum(map(len, sent)), client_gap_bytes=0)
    return [begin(id, method="GET", path=path, body=b""), switched, *by_turns, ending]


@contextmanager
def opened(tape: Path, session: journal.Session = SESSION) -> Iterator[Store]:
    """Hold a tape as a writer of that session would."""
    with file.writing(tape, "a test") as connection:
        store = Store(connection)
        store.begin_session(session)
        yield store


def other_session(uuid: str) -> journal.Session:
    return msgspec.structs.replace(SESSION, uuid=uuid)


@contextmanager
def reading(tape: Path) -> Iterator[Connection]:
    with file.read_engine(tape).connect() as connection:
        yield connection


def bodies_of(tape: Path, stream: Stream = FROM_UPSTREAM) -> dict[str, bytes]:
    """Return the body of each exchange, or its client's side, by id."""
    with reader.opened(tape) as connection:
        rows = connection.exec_driver_sql("SELECT id, no FROM exchanges ORDER BY id")
        return {id: stored_body(connection, no, tables.STREAMS[STREAMS.index(stream)]) for id, no in rows}


def outcomes_of(tape: Path) -> dict[str, str | None]:
    """Return the outcome of each exchange by id; None while it is not measured."""
    with reading(tape) as connection:
        rows = connection.execute(select(exchanges.c.id, measures.c.outcome).outerjoin(measures)).all()
    return {id: outcome for id, outcome in rows}


def reads_of(tape: Path, id: str) -> list[tuple[int, int, int | None, int, int]]:
    columns = (reads.c.seq, reads.c.at_ns, reads.c.relayed_ns, reads.c.start, reads.c.size)
    with reading(tape) as connection:
        rows = connection.execute(select(*columns).join(exchanges).where(exchanges.c.id == id).order_by(reads.c.seq))
        return [tuple(row) for row in rows]


def as_digits(numbers: str) -> str | bytes:
    """Return an array of JSON as the digits of a tape; one with other values as it is."""
    try:
        return digits.packed(json.loads(numbers))
    except TypeError:
        return numbers


def damage(tape: Path, *statements: str) -> None:
    """Change a tape behind wiretape's back, without SQLite's own checks."""
    with closing(sqlite3.connect(tape)) as connection:
        connection.create_function("as_json", 1, lambda array: json.dumps(packing.numbers_of(array)))
        connection.create_function("as_digits", 1, as_digits)
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def until(fact: Callable[[], Any], seconds: float = 60) -> Any:
    """Wait until `fact` is true, and give it; fail after `seconds`."""
    deadline, pause = time.monotonic() + seconds, 0.01
    while not (result := fact()):
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(pause)
        pause = min(pause * 1.1, 0.1)
    return result


def snapshot(directory: Path) -> dict[str, Any]:
    """Return the contents of a directory: names, kinds, modes, and the bytes of files (not of the readers' `-shm`)."""
    results = {}
    for path in sorted(directory.rglob("*")):
        holds = path.is_file() and path.suffix != ".db-shm"
        results[path.name] = (path.lstat().st_mode, path.read_bytes() if holds else None)
    return results


def record(store: Store, frames: Sequence[journal.Frame]) -> list[journal.Finished]:
    """Append and settle, as a writer does that has nothing else to do."""
    return store.settle(store.append(frames))
