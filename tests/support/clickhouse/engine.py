"""The part of a ClickHouse server that shipping needs: tables, and inserted rows in RowBinary."""

import re
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import httpx

from wiretape.recorder.destinations import Credentials, Target
from wiretape.viewer.ship.acknowledged import held
from wiretape.viewer.ship.clickhouse.sink import CentreSink
from wiretape.viewer.ship.shipper import Shipper
from wiretape.viewer.ship.sink import ShippedLabels
from wiretape.viewer.source.clickhouse import tables
from wiretape.viewer.source.clickhouse.client import Centre
from wiretape.viewer.source.clickhouse.tables import EngineTable
from wiretape.viewer.source.tape import queries

FORMATS = {"Int64": "q", "UInt64": "Q", "Int32": "i", "UInt32": "I", "UInt8": "B", "Float64": "d"}
FORMATS["DateTime('UTC')"] = "I"
HEADERS = {"X-ClickHouse-Server-Display-Name": "a test"}
TARGET = Target(("http://127.0.0.1:1", "http://127.0.0.1:2"))

Fault = Callable[[httpx.Request], httpx.Response | None]


class Reader:
    """Reads values of RowBinary off the front of some bytes."""

    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 0

    def take(self, size: int) -> bytes:
        piece = self.data[self.place : self.place + size]
        assert len(piece) == size, "the bytes end within a row"
        self.place += size
        return piece

    def length(self) -> int:
        number = shift = 0
        while (byte := self.take(1)[0]) >= 0x80:
            number, shift = number | (byte & 0x7F) << shift, shift + 7
        return number | byte << shift

    def value(self, type: str) -> Any:
        if match := re.fullmatch(r"Nullable\((.*)\)", type):
            return None if self.take(1)[0] else self.value(match[1])
        if match := re.fullmatch(r"Array\((.*)\)", type):
            return [self.value(match[1]) for _ in range(self.length())]
        if type == "String":
            return self.take(self.length())
        (number,) = struct.unpack(f"<{FORMATS[type]}", self.take(struct.calcsize(f"<{FORMATS[type]}")))
        return number

    def rows(self, types: Sequence[str]) -> list[list[Any]]:
        found = []
        while self.place < len(self.data):
            found.append([self.value(type) for type in types])
        return found


class Engine:
    """Answers as a server does; `faults` are what becomes of the next requests, None: nothing."""

    def __init__(self, known: Sequence[EngineTable] = tables.TABLES) -> None:
        self.types = {table.name: {column.name: column.type for column in table.columns} for table in known}
        self.blocks: dict[tuple[str, bytes], int] = {}
        self.rows: dict[str, list[dict[str, Any]]] = {table.name: [] for table in known}
        self.asked: list[httpx.Request] = []
        self.faults: list[Fault | None] = []

    def handle(self, request: httpx.Request) -> httpx.Response:
        request.read()
        self.asked.append(request)
        fault = self.faults.pop(0) if self.faults else None
        answer = fault(request) if fault is not None else None
        return answer or self.answered(request)

    def answered(self, request: httpx.Request) -> httpx.Response:
        query = request.url.params.get("query") or request.content.decode()
        if match := re.match(r"INSERT INTO (\w+) \((.*)\) FORMAT RowBinary$", query):
            self.insert(match[1], match[2].split(", "), request.content)
            return httpx.Response(200, headers=HEADERS)
        if match := re.match(r"DESCRIBE TABLE (\w+) ", query):
            columns = self.types.get(match[1])
            if columns is None:
                return failed(404, 60, f"Table default.{match[1]} doesn't exist")
            described = [[name, kind, "", ""] for name, kind in columns.items()]
            return httpx.Response(200, headers=HEADERS, json={"data": described})
        return httpx.Response(200, headers=HEADERS, json={"data": []})

    def insert(self, table: str, names: list[str], data: bytes) -> None:
        """Store rows; a block that came before is dropped, as a replicated table does."""
        rows = Reader(data).rows([self.types[table][name] for name in names])
        self.blocks[table, data] = self.blocks.get((table, data), 0) + 1
        if self.blocks[table, data] == 1:
            self.rows[table] += [dict(zip(names, row, strict=True)) for row in rows]

    def inserts(self, table: str) -> list[bytes]:
        """Return the bytes of all inserts into a table, in their order."""
        start = f"INSERT INTO {table} "
        return [one.content for one in self.asked if one.url.params.get("query", "").startswith(start)]

    def final(self, table: str = "exchanges") -> dict[str, dict[str, Any]]:
        """Return the current rows by id: of each id the row with the highest version."""
        found: dict[str, dict[str, Any]] = {}
        for row in sorted(self.rows[table], key=lambda row: row["row_version"]):
            found[row["id"].decode()] = row
        return found


class Readable(Engine):
    """An engine that also answers a `SELECT … FINAL` with all current rows of its table."""

    def answered(self, request: httpx.Request) -> httpx.Response:
        match = re.match(r"SELECT (.*) FROM (\w+) FINAL WHERE ", request.content.decode("utf-8", "replace"))
        if match is None:
            return super().answered(request)
        rows = self.rows["sessions"][-1:] if match[2] == "sessions" else self.final(match[2]).values()
        data = [[_shown(row, asked) for asked in match[1].split(", ")] for row in rows]
        return httpx.Response(200, headers=HEADERS, json={"data": data})


def _shown(row: dict[str, Any], asked: str) -> Any:
    is_hex = asked.startswith("hex(")
    value = row[asked.removeprefix("hex(").removesuffix(")")]
    if isinstance(value, list):
        return [one.decode() if isinstance(one, bytes) else one for one in value]
    if not isinstance(value, bytes):
        return value
    return value.hex() if is_hex else value.decode()


class Listed(Readable):
    """An engine whose exchanges are listed: their numbers by key, the newest first, and rows by numbers."""

    def answered(self, request: httpx.Request) -> httpx.Response:
        asked = request.content.decode("utf-8", "replace")
        numbers = {f"{row['started_at'].decode()} {id}": row for id, row in self.final().items()}
        if "max(started)" in asked:
            return _rows(["String"], [[max(numbers)[:19].replace("T", " ")]])
        if asked.startswith("SELECT count("):
            return _rows(["UInt64"], [[str(len(numbers))]])
        if "[label_names, label_values] AS" in asked:
            named = {one: [_shown(row, "label_names"), _shown(row, "label_values")] for one, row in numbers.items()}
            kinds = ["String", "String", "Array(Array(String))"]
            return _rows(kinds, [[one, one[-16:], of] for one, of in sorted(named.items()) if f"'{one}'" in asked])
        if match := re.search(r" LIMIT (\d+)", asked):
            before = re.search(r"concat\(started_at, ' ', id\) < '([^']*)'", asked)
            since = re.search(r"started_at >= '([^']*)'", asked)
            found = [one for one in numbers if (not before or one < before[1]) and (not since or one >= since[1])]
            return _rows(["String"], [[one] for one in sorted(found, reverse=True)[: int(match[1])]])
        if "arraySlice" in asked:
            names = re.findall(r' AS "?_(\w+)', asked)
            listed = [number for number in numbers if f"'{number}'" in asked]
            return _rows(
                ["String", "String", "Array(Int64)", *["String"] * (len(names) - 2)],
                [[one, None, [], *(_field(numbers[one], name) for name in names[2:])] for one in listed],
            )
        return super().answered(request)


def _rows(types: Sequence[str], data: Sequence[Sequence[Any]]) -> httpx.Response:
    meta = [{"name": f"c{place}", "type": type} for place, type in enumerate(types)]
    return httpx.Response(200, headers=HEADERS, json={"meta": meta, "data": data})


def _field(row: dict[str, Any], name: str) -> Any:
    value = row.get({"model": "request_model", "bytes": "bytes"}.get(name, name.replace("_ms", "_ns")))
    return value.decode() if isinstance(value, bytes) else value


def failed(status: int, code: int, message: str) -> httpx.Response:
    text = f"Code: {code}, e.displayText() = DB::Exception: {message}, e.what() = DB::Exception\n"
    return httpx.Response(status, text=text)


def centre(engine: Engine, target: Target = TARGET) -> Centre:
    return Centre(target, Credentials("someone", "a secret"), transport=httpx.MockTransport(engine.handle))


def ship(tape: Path, engine: Engine, **more: Any) -> tuple[int, list[str]]:
    """Ship a tape once; return the number of exchanges shipped, and the messages."""
    said: list[str] = []
    with (
        queries.opened(tape) as connection,
        held(tape, TARGET.name) as known,
        centre(engine) as there,
    ):
        origin = more.pop("origin", ShippedLabels("a-host"))
        sink = CentreSink(there, origin, more.pop("bodies", False))
        shipper = Shipper(sink, known, warn=said.append, **more)
        shipper.run(connection, once=True)
    return shipper.shipped, said
