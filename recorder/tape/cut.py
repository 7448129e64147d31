"""Cutting: chosen exchanges of a tape as lines of text, and a tape made of such lines.

The text is for people, who review it and may edit it, and for version control; each command that reads a tape can read
it. It is JSON Lines (`LINES`), without unknown values and counts of 0.

Measures are no part of it: they are derived again, but for exchanges whose bytes were not shipped. The same exchanges
give the same lines, and the same lines the same tape, byte for byte: with one version of wiretape and of SQLite.
"""

import atexit
import base64
import contextlib
import functools
import hashlib
import json
import re
import shutil
import sqlite3
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from sqlalchemy import JSON, Connection, LargeBinary, Table, func, insert, select, update
from sqlalchemy.exc import SQLAlchemyError

from wiretape.recorder import paths, private
from wiretape.recorder.clock import Clock
from wiretape.recorder.decode.exchange import Reads
from wiretape.recorder.decode.uncoding import Body
from wiretape.recorder.errors import NotFound, TapeDamaged, WiretapeError
from wiretape.recorder.sanitize import safe
from wiretape.recorder.tape import cells, checks, file, lock, masked, packing, reader, reading, selects, tables
from wiretape.recorder.tape.column_types import declared
from wiretape.recorder.tape.masked import Unmaskable
from wiretape.recorder.tape.masking import Masker
from wiretape.recorder.tape.schema import (
    FROM_CLIENT,
    FROM_UPSTREAM,
    STREAMS,
    Stream,
    exchanges,
    measures,
    sessions,
    settlements,
)
from wiretape.recorder.tape.settle import settle
from wiretape.recorder.tape.store import Store

Line = dict[str, Any]

LINES: Final = {
    '{"wiretape": "cut", "format": 2}': "the first line",
    '{"session": UUID, …}': "a run of a recorder, before its first exchange: its version, the upstreams that the "
    "exchanges here used, and the name of an imported file. It lasts from its first exchange to its last one",
    '{"exchange": ID, "session": UUID, …}': "columns of the table exchanges; sizes and hashes are those of the bytes. "
    "Ports of this machine that the system assigns (32768 and above) are left out, unless upstreams differ in nothing "
    "else",
    '{"exchange": …, "bytes": N, "client_bytes": N, "measures": {…}}': "one whose bytes were not shipped, and which "
    "has no reads: its columns of the table measures",
    '{"reads": COUNT, "at_ns": [T, …], "relayed_ns": [T, …]}': "the timestamps of the reads that follow; with "
    '"from": "client" after COUNT the client sent them over a WebSocket',
    '{"read": N, "text": "…"}': "a read of the exchange above: in the order in which they came, numbered from 0; with "
    '"from": "client" as above. A read without a line of timestamps before it is a whole body that came at an unknown '
    "time",
    '{"read": …, "base64": "…"}': 'bytes that are no UTF-8; a request_body is {"base64": "…"} then',
}
"""The kinds of lines in a cut, with their meaning."""

FIRST: Final = {"wiretape": "cut", "format": 2}
_PREFIX: Final = "wiretape-text-"
_PURPOSE: Final = "the tape that is made of a text"
OF_SESSION: Final = [
    column.name for column in sessions.c if column.name not in ("no", "uuid", "pid", "boot_id", "salt")
]
_NOT_OF_EXCHANGE: Final = {"no", "id", "session_no", "request_body", "bytes", "client_bytes"}
OF_EXCHANGE: Final = [column.name for column in exchanges.c if column.name not in _NOT_OF_EXCHANGE]
COUNTED: Final = ("bytes", "client_bytes")
OF_MEASURES: Final = [column.name for column in measures.c if column.name != "exchange_no"]
_OF_READ: Final = {"read", "from", "text", "base64"}
_OF_READS: Final = {"reads", "from", "at_ns", "relayed_ns"}
_READS: Final = (b'{"read"', b'{"reads"')
_COUNTS: Final = {column.name for column in exchanges.c if column.server_default is not None} | {"client_gap_bytes"}
"""Left out where they are 0."""

_FROM_EXCHANGES: Final[dict[str, Callable[..., Any]]] = {
    "started_at": func.min,
    "heartbeat_at": func.max,
    "ended_at": func.max,
}
"""The times of a session that a line leaves out, each by its exchanges' `started_at`."""


def lines(connection: reader.Connection, numbers: Iterable[int], mask: Masker | None = None) -> Iterator[bytes]:
    """Yield the lines of exchanges, masked, one exchange in memory at a time.

    Raises `TapeDamaged` for one that is not whole, and `WiretapeError` for one that still runs or cannot be masked.
    """
    yield encoded(FIRST)
    introduced_sessions = set[int]()
    numbers = list(numbers)
    origins = _origins(connection, numbers)
    assert connection.path is not None
    with file.reading(connection.path) as checked:
        for no in numbers:
            if problem := next(iter(checks.of_exchange(checked, no)), None):
                row = cells.row_of(connection.driver, exchanges.name, no)
                raise TapeDamaged(f"{row} is damaged ({problem}): leave it out")
            with connection.begin():
                exchange_lines = list(_exchange(connection, no, introduced_sessions, origins, mask))
            yield from map(encoded, exchange_lines)


class _Origins(NamedTuple):
    """The upstream URLs of the chosen exchanges: as lines have them, by recorded URL; as recorded, by session."""

    urls_in_lines: dict[str, str]
    by_session: dict[int, set[str]]


def _origins(connection: reader.Connection, numbers: Sequence[int]) -> _Origins:
    """Read the upstreams of exchanges, and leave out assigned ports, unless two upstreams differ by nothing else."""
    by_session, chosen_numbers = dict[int, set[str]](), set(numbers)
    column = tables.exchanges.c
    columns = selects.select(column.no, column.session_no, column.upstream)
    if numbers:
        with connection.begin():
            for no, session, url in connection.execute(columns.where(column.no.between(min(numbers), max(numbers)))):
                if no in chosen_numbers:
                    by_session.setdefault(session, set()).add(url)
    portless = {url: _without_assigned_port(url) for url in set().union(*by_session.values())}
    counts = Counter(portless.values())
    urls_in_lines = {url: short if counts[short] == 1 else url for url, short in portless.items()}
    return _Origins(urls_in_lines, by_session)


_LOCAL_PORT: Final = re.compile(r"((?:https?://)?(?:localhost|127(?:\.\d+){3}|\[::1\])):(\d{5})(?=/|$)")


def _without_assigned_port(address: str) -> str:
    """Return a URL, or the value of a header `host`, without a port of this machine that the system assigned."""
    match = _LOCAL_PORT.match(address)
    # Ports that systems assign on request for any free port.
    assigned_ports = range(32768, 65536)
    return match[1] + address[match.end() :] if match and int(match[2]) in assigned_ports else address


_SESSION: Final = selects.select(*tables.sessions.c.values()).where(tables.sessions.c.no == selects.bindparam("no"))


def _exchange(
    connection: reader.Connection, no: int, introduced_sessions: set[int], origins: _Origins, mask: Masker | None
) -> Iterator[Line]:
    row = reading.row_of(connection, no)
    if row.ended_by is None:
        raise WiretapeError(f"exchange {row.id} still runs: leave it out, or wait until it has ended")
    session = connection.execute(_SESSION, {"no": row.session_no}).one()
    if row.session_no not in introduced_sessions:
        introduced_sessions.add(row.session_no)
        forms = {url: origins.urls_in_lines[url] for url in origins.by_session[session.no]}
        upstreams = [[name, forms[url]] for name, url in session.upstreams if url in forms] or None
        facts = {"version": session.version, "upstreams": upstreams, "imported_from": session.imported_from}
        facts["dialects"] = session.dialects
        yield known_of({"session": session.uuid, **facts})
    if row.lacks_bytes:  # its measures cannot be derived again, so the line has them
        of_measures = tables.measures.c
        statement = selects.select(*(of_measures[name] for name in OF_MEASURES)).where(
            of_measures.exchange_no == row.no
        )
        measured = connection.execute(statement).one_or_none()
        values = _facts(row, (*OF_EXCHANGE, *COUNTED), origins)
        row_measures = {} if measured is None else dict(zip(OF_MEASURES, measured, strict=True))
        yield unshipped(row.id, session.uuid, _masked(values, mask), _masked(row_measures, mask))
        return
    values = _facts(row, OF_EXCHANGE, origins)
    answer = Body(row.response_headers or (), reading.reads_of(connection, no), reading.stored_body(connection, no))
    exchange, request = reading.facts_of(connection, row), reading.request_body(connection, no)
    try:
        values |= _request(row, request, values["request_headers"], mask)
        exchange, answer = (exchange, answer) if mask is None else masked.answer(exchange, answer, mask)
    except Unmaskable as error:
        raise error.of(row.id) from error
    if row.response_headers is not None:
        values["response_headers"] = answer.headers
    yield known_of({"exchange": row.id, "session": session.uuid, **_masked(values, mask)})
    yield from reads_of(answer.reads, answer.data, is_client=False)
    if exchange.sent is not None:
        yield from reads_of(exchange.sent.reads, exchange.sent.data, is_client=True)


def _facts(row: Any, names: Iterable[str], origins: _Origins) -> Line:
    """Return columns of an exchange, without the ports that its machine assigned."""
    headers = [
        [name, _without_assigned_port(value) if name.lower() == "host" else value]
        for name, value in row.request_headers
    ]
    values = {name: getattr(row, name) for name in names}
    return values | {"upstream": origins.urls_in_lines[row.upstream], "request_headers": headers}


def unshipped(id: str, session: str, values: Line, row_measures: Line) -> Line:
    """Return the line of an exchange without its bytes, from its columns and those of its measures."""
    return known_of({"exchange": id, "session": session, **values, "measures": known_of(row_measures, ())})


def _request(row: Any, data: bytes | None, headers: Any, mask: Masker | None) -> Line:
    """Return the columns of a request; without its size and hash if they follow from its stored body."""
    if data is None:
        return {"request_body": None}
    body = Body(headers, Reads.of(()), data) if mask is None else masked.request(headers, data, mask)
    values = {"request_headers": body.headers, "request_body": body.data}
    # Size and hash of a request that broke off are those of its body as it came, with its coding.
    is_whole = not row.request_truncated and row.request_size == len(data)
    is_changed = body.headers is not headers
    return values | (dict.fromkeys(("request_size", "request_sha256")) if is_whole or is_changed else {})


def _masked(values: Line, mask: Masker | None) -> Line:
    return values if mask is None else {name: mask.value(value) for name, value in values.items()}


def reads_of(reads: Reads, data: bytes, *, is_client: bool) -> Iterator[Line]:
    """Yield the lines of the reads of one direction; `data` are their bytes."""
    sender = {"from": "client"} if is_client else {}
    if data and not reads:  # its time is unknown
        yield {"read": 0, **sender, **_shown(data)}
    if reads:
        timed = {name: [getattr(socket_read, name) for socket_read in reads] for name in ("at_ns", "relayed_ns")}
        yield {"reads": len(reads), **sender, **{name: at for name, at in timed.items() if at.count(None) < len(at)}}
    for seq, _, _, start, size in reads:
        yield {"read": seq, **sender, **_shown(data[start : start + size])}


def _shown(data: bytes) -> Line:
    text = _text(data)
    return text if isinstance(text, dict) else {"text": text}


def known_of(values: Line, counts: Collection[str] = _COUNTS) -> Line:
    """Return a line without unknown values, and without `counts` that are 0."""
    cells = {name: _text(value) if isinstance(value, bytes) else value for name, value in values.items()}
    return {name: value for name, value in cells.items() if value is not None and (value or name not in counts)}


def _text(data: bytes) -> str | dict[str, str]:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def encoded(line: Line) -> bytes:
    text = json.dumps(line, ensure_ascii=False, separators=(", ", ": "))
    if safe(text) != text:  # a terminal shows a diff as it is
        text = json.dumps(line, separators=(", ", ": "))
    return text.encode() + b"\n"


@dataclass(slots=True)
class _Direction:
    """The reads of one direction, gathered from lines."""

    at_ns: list[int] = field(default_factory=list)
    relayed_ns: list[int | None] = field(default_factory=list)
    data: list[bytes] = field(default_factory=list)
    count: int | None = None
    """The count of reads that the line before them has, with their timestamps."""

    def add(self, line: Line) -> None:
        if unknown := line.keys() - (_OF_READS if "reads" in line else _OF_READ):
            raise ValueError(f"unknown: {', '.join(sorted(unknown))}")
        if "reads" in line:
            self._add_times(line)
            return
        if line["read"] != len(self.data):
            raise ValueError(f"read {len(self.data)} is expected")
        if self.data and self.count is None:
            raise ValueError("its reads have no timestamps")
        self.data.append(_bytes(line["text"] if "text" in line else {"base64": line["base64"]}))

    def _add_times(self, line: Line) -> None:
        if self.count is not None or self.data:
            raise ValueError("the timestamps of reads come once, before them")
        self.count = line["reads"]
        relayed = line.get("relayed_ns", [None] * len(line["at_ns"]))
        if not self.count == len(line["at_ns"]) == len(relayed):
            raise ValueError(f"it has not {self.count} timestamps")
        for at_ns, relayed_ns in zip(line["at_ns"], relayed, strict=True):
            if not isinstance(at_ns, int) or not isinstance(relayed_ns, int | None):
                raise ValueError("a time is no whole number")
            if self.at_ns and at_ns < self.at_ns[-1]:
                raise ValueError("it came before the one that it follows")
            self.at_ns.append(at_ns)
            self.relayed_ns.append(relayed_ns)

    def check_whole(self) -> None:
        """Raise ValueError if there are more or fewer reads than timestamps."""
        if self.count not in (None, len(self.data)):
            raise ValueError(f"{self.count} reads are announced, and {len(self.data)} are there")

    @property
    def size(self) -> int:
        return sum(map(len, self.data))


Streams = dict[Stream, _Direction]


def load(connection: Connection, lines: Iterable[bytes], name: str = "the text") -> None:
    """Enter exchanges into an empty tape, in the order of their lines, and derive their measures.

    Raises `TapeDamaged`, which names the invalid line of `name`.
    """
    entering = _Entering(connection)
    try:
        with connection.begin():
            for group in _groups(lines):
                entering.enter(group)
            of_session = exchanges.c.session_no == sessions.c.no
            for name, extreme in _FROM_EXCHANGES.items():  # of sessions whose lines have no times
                at = select(func.coalesce(extreme(exchanges.c.started_at), cells.EPOCH)).where(of_session)
                undated = update(sessions).where(sessions.c[name] == "")
                connection.execute(undated.values({name: at.scalar_subquery()}))
    except (ValueError, TypeError, LookupError, OverflowError, RecursionError, SQLAlchemyError, sqlite3.Error) as error:
        cause = str(getattr(error, "orig", error)).split("\n")[0]
        cause = f"{cause} is missing" if isinstance(error, KeyError) else cause
        raise TapeDamaged(f"{name}: line {entering.number} is not of a cut ({safe(cause)})") from error
    settling = Store(connection, Clock(wall_ns=lambda: 0)).settling  # the same lines make the same tape at any time
    unsettled = deque(settling.unsettled())
    while unsettled:
        # 100 exchanges, or 16 MiB, in memory at once.
        settling.put([settle(facts) for facts in settling.take(unsettled, 100, 16 << 20)])
    if problem := next(checks.problems(connection), None):
        raise TapeDamaged(f"{name} makes no tape: {problem}")


def _groups(lines: Iterable[bytes]) -> Iterator[list[tuple[int, bytes]]]:
    """Yield the lines that belong together, each with its number: an exchange and its reads; any other is alone."""
    group = list[tuple[int, bytes]]()
    for number, line in enumerate(lines, 1):
        if group and not _is_more(line):
            yield group
            group = []
        group.append((number, line))
    if group:
        yield group


def _is_more(line: bytes) -> bool:
    """Return True if a line belongs to the one before: of reads, an empty line, or one that is no line of a cut."""
    heads = (b'{"wiretape"', b'{"session"', b'{"exchange"')
    if line.startswith((*_READS, *heads)):
        return line.startswith(_READS)
    try:
        return not {"read", "reads"}.isdisjoint(json.loads(line))  # as people write it
    except (ValueError, TypeError, RecursionError):
        return True


class _Entering:
    """Enters lines into a tape; `number` is that of the current line."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.number = 0

    def enter(self, group: list[tuple[int, bytes]]) -> None:
        (head_number, line), *reads = group
        self.number = head_number
        head = json.loads(line)
        if (head_number == 1) != (head == FIRST):
            raise ValueError(f"the first line is {json.dumps(FIRST)}")
        streams = {stream: _Direction() for stream in STREAMS}
        for self.number, line in reads:
            if not line.strip():
                continue
            read_line = json.loads(line)
            if "exchange" not in head:
                raise ValueError("it is of no exchange")
            streams[FROM_CLIENT if read_line.get("from") == "client" else FROM_UPSTREAM].add(read_line)
        for direction in streams.values():
            direction.check_whole()
        self.number = head_number
        if "exchange" in head:
            _enter_exchange(self._connection, head, streams)
        elif head_number > 1:
            _enter_session(self._connection, head)


def _enter_session(connection: Connection, line: Line) -> None:
    undated = {} if "started_at" in line else dict.fromkeys(_FROM_EXCHANGES, "")
    values = {"listen": "", "upstreams": [], **undated, **line, "uuid": line["session"], "pid": 0}
    del values["session"]
    salt = connection.execute(select(sessions.c.salt).limit(1)).scalar()
    values["salt"] = salt or hashlib.sha256(values["uuid"].encode()).digest()  # the same for all sessions of a tape
    _insert(connection, sessions, values)


def _enter_exchange(connection: Connection, line: Line, streams: Streams) -> None:
    session = connection.execute(select(sessions.c.no).where(sessions.c.uuid == line["session"])).scalar()
    if session is None:
        raise ValueError("no line before it is of its session")
    values = {**line, "id": line["exchange"], "session_no": session}
    del values["exchange"], values["session"]
    if "measures" in values:
        _enter_unshipped(connection, values, streams)
        return
    values["bytes"] = streams[FROM_UPSTREAM].size + values.get("gap_bytes", 0)
    if values.get("framing") == "websocket":
        values["client_gap_bytes"] = values.get("client_gap_bytes", 0)
        values["client_bytes"] = streams[FROM_CLIENT].size + values["client_gap_bytes"]
    if "request_body" in values:
        body = values["request_body"] = _bytes(values["request_body"])
        if "request_size" not in values and not values.get("request_truncated"):
            values |= {"request_size": len(body), "request_sha256": hashlib.sha256(body).hexdigest()}
    (no,) = _insert(connection, exchanges, values)
    for stream, direction in streams.items():
        if direction.data:
            sizes = [len(data) for data in direction.data]
            packed = packing.packed(0, 0, direction.at_ns, direction.relayed_ns, sizes)
            segment = {"exchange_no": no, **packed._asdict(), "data": b"".join(direction.data)}
            _insert(connection, stream.segments, segment)


def _enter_unshipped(connection: Connection, values: Line, streams: Streams) -> None:
    """Enter an exchange without bytes, as settled: nothing is derived from it."""
    if any(direction.data for direction in streams.values()):
        raise ValueError("it has both measures and reads, but measures are derived from reads: remove either")
    measured = {
        name: _bytes(value) if isinstance(declared(measures.c[name]), LargeBinary) else value
        for name, value in values.pop("measures").items()
    }
    (no,) = _insert(connection, exchanges, values)
    counts = (values.get("bytes", 0), "gap_bytes"), (values.get("client_bytes"), "client_gap_bytes")
    for stream, (received, gap_name) in zip(STREAMS, counts, strict=True):
        if received is not None:
            size = received - values.get(gap_name, 0)
            packed = packing.untimed(size)._asdict()
            arrays = {name: packed[name] for name in ("at_ns", "relayed_ns", "sizes")}
            absent = {"exchange_no": no, "size": size, "sha256": "", **arrays, "data": b""}
            _insert(connection, stream.bodies, absent)
    if measured:
        _insert(connection, measures, {"exchange_no": no, **measured})
    newest = select(func.coalesce(func.max(settlements.c.version), 0) + 1).scalar_subquery()
    connection.execute(insert(settlements).values(exchange_no=no, version=newest))


def _insert(connection: Connection, table: Table, values: Line) -> Any:
    if unknown := values.keys() - set(table.c.keys()):
        raise ValueError(f"unknown: {', '.join(sorted(unknown))}")
    for name, value in values.items():
        if isinstance(value, list | dict) and not isinstance(declared(table.c[name]), JSON):
            raise ValueError(f"{name} is no single value")
    return connection.execute(insert(table), values).inserted_primary_key


def _bytes(value: str | dict[str, str]) -> bytes:
    if not isinstance(value, str | dict):
        raise ValueError("a text, or one in base64, is expected")
    return value.encode() if isinstance(value, str) else base64.b64decode(value["base64"], validate=True)


def make_tape(lines: Iterable[bytes], out: BinaryIO, name: str = "the text") -> None:
    """Write a tape made of lines: the same lines make the same file. Raises `TapeDamaged`."""
    with private.directory(_PREFIX, _PURPOSE) as directory:
        path, compact = directory / "tape.db", directory / "compact.db"
        with _temporary(path, lines, name) as connection:
            connection.rollback()
            # Rewritten, as the pages that writing left free depend on its order, and the same lines make the same file.
            file.driver_of(connection).execute("VACUUM INTO ?", (paths.sqlite_uri(compact, "mode=rwc"),))
        with compact.open("rb") as source:
            shutil.copyfileobj(source, out)


def make_temporary_tape(lines: Iterable[bytes], path: Path, name: str) -> None:
    """Make a tape of lines for reading once: it does not survive a crash. Raises `TapeDamaged`."""
    with _temporary(path, lines, name):
        pass


@contextlib.contextmanager
def _temporary(path: Path, lines: Iterable[bytes], name: str) -> Iterator[Connection]:
    with file.writing(path, "wiretape db cut") as connection:
        file.driver_of(connection).execute("PRAGMA synchronous=OFF")  # it is removed at once
        load(connection, lines, name)
        yield connection


def readable(path: Path) -> Path:
    """Return a tape to read: `path`, or for text a tape made of it, which is removed when the process ends.

    Raises `NotFound` and `TapeDamaged`.
    """
    if path.suffix != lock.TEXT_SUFFIX:
        return path
    _check_there(path)
    status = path.stat()
    return _tape_of_text(path, status.st_mtime_ns, status.st_size)


@functools.cache
def _tape_of_text(path: Path, _changed_ns: int, _size: int) -> Path:
    """Return a tape made of a text, once as long as that does not change."""
    with contextlib.ExitStack() as resources:
        tape = resources.enter_context(opened(path))
        atexit.register(resources.pop_all().close)
    return tape


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Path]:
    """Yield a tape to read as `readable` returns it, for a process that does not end as others do.

    Raises `NotFound` and `TapeDamaged`.
    """
    if path.suffix != lock.TEXT_SUFFIX:
        yield path
        return
    with private.directory(_PREFIX, _PURPOSE) as directory:
        yield make_tape_at(path, directory / f"{path.stem}.db")


def _check_there(path: Path) -> None:
    if not paths.is_file(path):
        raise NotFound(f"no tape at {path}: cut one with 'wiretape db cut', or name another with --db")


def make_tape_at(path: Path, tape: Path) -> Path:
    """Make a private tape of the text at `path`, and return it. Raises `NotFound` and `TapeDamaged`."""
    _check_there(path)
    with path.open("rb") as source, tape.open("wb") as out:
        tape.chmod(0o600)
        make_tape(source, out, str(path))
    return tape


def without(lines: Iterable[bytes], session: str, ids: Collection[str]) -> Iterator[bytes]:
    """Yield lines verbatim, without those of a session and of the exchanges with these ids.

    A session is left out, too, if it has no other exchanges. Raises `ValueError` for an invalid line.
    """
    groups = [[line for _, line in group] for group in _groups(lines)]
    heads = [json.loads(group[0]) for group in groups]
    remaining = {head["session"] for head in heads if "exchange" in head and head["exchange"] not in ids}
    emptied = {head["session"] for head in heads if head.get("exchange") in ids} - remaining | {session}
    for head, group in zip(heads, groups, strict=True):
        if head.get("session") not in emptied and head.get("exchange") not in ids:
            yield from group
