"""A server's exchanges as the lines of a cut (`wiretape.recorder.tape.cut`), the source of a new tape.

An exchange shipped with its body is measured again from the bytes, as on any tape. For one without, the tape has the
server's facts, measures and gaps, flagged `bytes_not_shipped`.
"""

import itertools
import json
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import JSON, Boolean, LargeBinary

from wiretape.recorder.decode import encoding
from wiretape.recorder.decode.exchange import NOT_SHIPPED
from wiretape.recorder.errors import TapeDamaged
from wiretape.recorder.tape import cut, packing, schema
from wiretape.recorder.tape.column_types import declared
from wiretape.recorder.tape.packing import Packed
from wiretape.viewer.wings.clickhouse.client import Centre
from wiretape.viewer.wings.clickhouse.ddl import literal
from wiretape.viewer.wings.clickhouse.tables import (
    COUNTS,
    EXCHANGES,
    GAPS,
    SESSIONS,
    STREAMS,
    EngineColumn,
    EngineTable,
)

Row = dict[str, Any]

_NUMBERS: Final = {GAPS: "q", COUNTS: "I"}
_CONVERTERS: Final[Mapping[type, Callable[[Any], Any]]] = {
    LargeBinary: bytes.fromhex, JSON: json.loads, Boolean: bool,
}  # fmt: skip


@dataclass(slots=True)
class Pulled:
    """The number of exchanges converted to lines, and the ids of those without bodies on the server."""

    count: int = 0
    without_body: list[str] = field(default_factory=list)


def lines(centre: Centre, numbers: Iterable[str], pulled: Pulled) -> Iterator[bytes]:
    """Yield the lines of exchanges, given by their numbers on the server: start time and id.

    `pulled` counts them. Raises `UnusableServer` and `Unavailable`, and `TapeDamaged` for data that no tape can hold.
    """
    yield cut.encoded(cut.FIRST)
    written_sessions = set[str]()
    starts = (number.split(" ") for number in numbers)
    while batch := list(itertools.islice(starts, 100)):
        filter = _among("started", {at[:19].replace("T", " ") for at, _ in batch}, "toDateTime({}, 'UTC')")
        filter += f" AND {_among('id', [id for _, id in batch])}"
        facts = {row["id"]: row for row in _rows(centre, EXCHANGES, filter)}
        streams = {row["id"]: row for row in _rows(centre, STREAMS, filter)}
        sessions = {row["session"] for row in facts.values()} - written_sessions
        written_sessions |= sessions
        for row in _rows(centre, SESSIONS, _among("session", sessions)) if sessions else ():
            yield cut.encoded(cut.known_of({"session": row["session"], **{name: row[name] for name in cut.OF_SESSION}}))
        for _, id in batch:
            if id not in facts:
                continue  # it is gone by now
            pulled.count += 1
            if id not in streams:
                pulled.without_body.append(id)
                yield cut.encoded(_measured(facts[id]))
            else:
                yield from map(cut.encoded, _exchange(facts[id], streams[id]))


def _among(column: str, values: Iterable[str], form: str = "{}") -> str:
    return f"{column} IN ({', '.join(form.format(literal(value)) for value in sorted(values))})"


def _rows(centre: Centre, table: EngineTable, filter: str) -> Iterator[Row]:
    """Yield the newest version of rows, with their values as a tape gives them."""
    columns = [column for column in table.columns if column.source is not None or column.name.startswith("label_")]
    converters = [_converter(column) for column in columns]
    pairs = zip(columns, converters, strict=True)
    selected = ", ".join(
        f"hex({column.name})" if convert == bytes.fromhex else column.name for column, convert in pairs
    )
    for row in centre.rows(f"SELECT {selected} FROM {table.name} FINAL WHERE {filter}"):
        yield {
            column.name: value if convert is None or value is None else convert(value)
            for column, convert, value in zip(columns, converters, row, strict=True)
        }


def _converter(column: EngineColumn) -> Callable[[Any], Any] | None:
    """Return the converter of a column's known values to those of a tape, or None if they are the same."""
    if column.type in _NUMBERS:
        return lambda numbers: array(_NUMBERS[column.type], numbers).tobytes()
    kind = None if column.source is None or column.type.startswith("Array") else declared(column.source)
    for cell, convert in _CONVERTERS.items():
        if isinstance(kind, cell):
            return convert
    return None


def _measured(facts: Row) -> cut.Line:
    """Return the line of an exchange without a body."""
    names = {column.source: column.name for column in EXCHANGES.columns if column.source is not None}
    columns = [schema.exchanges.c[name] for name in (*cut.OF_EXCHANGE, *cut.COUNTED)]
    values = {column.name: facts[names[column]] for column in columns if column in names}
    values |= {"labels": _labels(facts), "request_headers": []}
    measured = {column.name: facts[name] for column, name in names.items() if column.table is schema.measures}
    if measured["outcome"] is None:
        return cut.unshipped(facts["id"], facts["session"], values, {})
    measured["flags"] = " ".join(sorted({*measured["flags"].split(), NOT_SHIPPED}))
    return cut.unshipped(facts["id"], facts["session"], values, measured)


def _exchange(facts: Row, stream: Row) -> Iterator[cut.Line]:
    values = {name: stream[name] if name in stream else facts[name] for name in cut.OF_EXCHANGE if name != "labels"}
    values["labels"] = _labels(facts)
    values["request_body"] = stream["request_body"]
    yield cut.known_of({"exchange": facts["id"], "session": facts["session"], **values})
    for prefix, is_client in (("", False), ("client_", True)):
        try:
            packed = stream[f"{prefix}body"]
            data = b"" if packed is None else encoding.unpack(packed, stream[f"{prefix}size"])
            arrays = [stream[prefix + name] for name in ("at_ns", "relayed_ns", "sizes")]
            # Without times none came, or nobody knows when.
            reads = packing.unpack(Packed(0, 0, *map(json.dumps, arrays)) if arrays[0] else packing.untimed(0))
        except (ValueError, zlib.error) as error:
            raise TapeDamaged(f"exchange {facts['id']} is damaged on the server ({error}): leave it out") from error
        yield from cut.reads_of(reads, data, is_client=is_client)


def _labels(facts: Row) -> dict[str, str]:
    return dict(zip(facts["label_names"], facts["label_values"], strict=True))
