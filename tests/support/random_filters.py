"""Random filters, and random tapes for them: small alphabets, so that much fits by chance."""

import contextlib
import sqlite3
import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import sqlalchemy
from hypothesis import strategies as st
from sqlalchemy import JSON, Column, StaticPool, Table, create_engine, delete, insert

from tests.support.reference_filter import needed
from wiretape.recorder.decode.exchange import FLAGS, OPERATIONS, OUTCOMES
from wiretape.recorder.tape.column_types import declared
from wiretape.recorder.tape.reader import Connection
from wiretape.recorder.tape.schema import exchanges, measures, metadata, sessions
from wiretape.viewer.query import syntax
from wiretape.viewer.query.fields import FIELDS, HAS, KNOWABLE
from wiretape.viewer.query.values import Searches
from wiretape.viewer.record import fields
from wiretape.viewer.source.tape import conditions
from wiretape.viewer.source.tape.caching import Caching
from wiretape.viewer.source.tape.columns import CONVERSATION, OF_SESSION
from wiretape.viewer.source.tape.functions import Pricing, Resolver

Stored = list[tuple[dict[str, Any], dict[str, Any] | None]]
"""Exchanges: the facts of each, and its measures if it has ended."""

MS = 1_000_000
TEXTS = st.text("aAb%_*\\ éÉ.\n\"'", max_size=4)
STARTED = [f"2026-03-0{day}T12:00:0{day}.000000Z" for day in range(1, 5)]
KEYS = ("run", "a.b-c")
_COUNTS = st.integers(0, 3)
_NUMBERS = {
    "gaps": st.sampled_from([0, 1, 2, 3, 4, 7, 8, 100, MS - 1, MS, 2**20 - 1, 2**20, 2**62 + 1, 2**63 - 1]),
    "duration": st.integers(0, 3) | st.integers(0, 4).map(lambda ms: ms * MS) | st.just(2**62 + 1),
    "count": _COUNTS | st.just(1.5),
    "rate": _COUNTS | st.just(0.1),
    "share": st.sampled_from([0, 0.1, 0.25, 1]),
}
_GAPS = st.lists(st.sampled_from([0, 1, 2, 3, 5, 8, 99, 100, MS, 2**20 - 1, 2**20]), max_size=4)
_PATTERNS = st.one_of(
    st.tuples(TEXTS),
    st.lists(st.sampled_from(["", "a", "B", "_", "é", "-b", "%"]), min_size=2, max_size=4).map(tuple),
)


def _named(*kinds: str) -> st.SearchStrategy[str]:
    return st.sampled_from([name for name, field in FIELDS.items() if field.kind in kinds])


def _among(field: str) -> st.SearchStrategy[syntax.Filter]:
    numbers = _NUMBERS[FIELDS[field].kind]
    span = st.tuples(numbers, numbers) | st.tuples(numbers, st.none()) | st.tuples(st.none(), numbers)
    spans = st.lists(span, min_size=1, max_size=3).map(tuple)
    return st.builds(syntax.Among, st.just(field), spans, st.booleans())


def _compare(field: str) -> st.SearchStrategy[syntax.Filter]:
    limits = _NUMBERS[FIELDS[field].kind]
    return st.builds(syntax.Compare, st.just(field), st.sampled_from([">", ">=", "<", "<="]), limits)


def _match(field: str) -> st.SearchStrategy[syntax.Filter]:
    words: dict[str, list[str]] = {
        "outcome": [*OUTCOMES],
        "flags": [*FLAGS][:4],
        "operation": [*OPERATIONS],
        "has": [*HAS, *sorted(KNOWABLE)],
    }
    strategy = st.tuples(st.sampled_from(words[field])) if field in words else _PATTERNS
    if field in ("outcome", "flags"):
        strategy |= st.sampled_from([("", ""), ("", "e", ""), ("b", ""), ("", "t")])
    return st.builds(syntax.Match, st.just(field), st.lists(strategy, min_size=1, max_size=3).map(tuple), st.booleans())


def _labelled(negated: bool) -> st.SearchStrategy[syntax.Filter]:
    values = _PATTERNS if negated else _PATTERNS | st.none()
    labels = st.lists(st.tuples(st.sampled_from(KEYS), values), min_size=1, max_size=2).map(tuple)
    return st.builds(syntax.Labelled, labels, st.just(negated))


_REGEXES = st.sampled_from(["a", "^A", "b$", "[ab]+", "é", r"\s", r"a|\"", "", r"\\"])
_WORDS = _PATTERNS.filter(lambda pattern: len(pattern) == 1 or not pattern[0].startswith("-"))
GAPS = _compare("gap") | _among("gap")
"""Random filters that look for gaps."""

LEAVES = st.one_of(
    _WORDS.map(syntax.Word),
    _named("duration", "gaps", "count", "rate", "share").flatmap(_compare),
    _named("duration", "gaps", "count", "rate", "share").flatmap(_among),
    _named("text", "has").flatmap(_match),
    st.builds(syntax.Regex, _named("text"), _REGEXES, st.booleans()),
    st.booleans().flatmap(_labelled),
    st.builds(syntax.Compare, st.just("started_at"), st.sampled_from([">", ">=", "<", "<="]), st.sampled_from(STARTED)),
)


def _joined(parts: st.SearchStrategy[syntax.Filter]) -> st.SearchStrategy[syntax.Filter]:
    several = st.lists(parts, min_size=2, max_size=3).map(tuple)
    return several.map(syntax.And) | several.map(syntax.Or) | parts.map(syntax.Not)


TREES = st.recursive(LEAVES, _joined, max_leaves=6)
"""Random filters, of every kind that the parser makes."""


_CALLS = st.lists(st.fixed_dictionaries({"index": _COUNTS, "name": st.none() | TEXTS, "arguments": TEXTS}), max_size=2)


def _column(column: Column[Any]) -> st.SearchStrategy[Any]:
    if column.name == "tool_calls":
        return st.none() | _CALLS
    if isinstance(declared(column), JSON):
        return st.sampled_from([{"a": 1}, None] if column.nullable else [{}])
    kinds = {int: _COUNTS, float: _COUNTS.map(float), str: TEXTS, bytes: st.just(b""), bool: st.booleans()}
    if column.name.endswith("_ns"):
        return st.sampled_from([0, 1, 2, MS, 2 * MS, 3 * MS]) | (st.none() if column.nullable else st.nothing())
    values_by_kind = kinds[declared(column).python_type]
    return values_by_kind | st.none() if column.nullable else values_by_kind


@st.composite
def cases(draw: st.DrawFn, filters: st.SearchStrategy[syntax.Filter]) -> tuple[syntax.Filter, Stored]:
    """Draw a filter and a few exchanges as they are stored, with many values in the columns that the filter sees."""
    filter = draw(filters)
    seen = {fields.stored_name(field) for field in needed(filter)} | {"request_model"}

    def stored(table: Table) -> dict[str, Any]:
        return {column.name: draw(_column(column)) if column.name in seen else _filler(column) for column in table.c}

    facts_found: Stored = []
    for no in range(1, draw(st.integers(1, 4)) + 1):
        facts = stored(exchanges)
        labels = draw(st.dictionaries(st.sampled_from(KEYS), TEXTS, max_size=2))
        body = draw(st.sampled_from([None, b"", b"a\0b", b"\xffa", b"\xc3\xa9\xc3"]) | TEXTS.map(str.encode))
        facts |= {"no": no, "id": f"{draw(st.sampled_from('aB'))}{no:015}", "session_no": 1, "labels": labels}
        facts |= {"request_body": body, "started_at": draw(st.sampled_from(STARTED)), "ended_by": None}
        facts |= {"upstream": draw(st.sampled_from(["http://a", "https://A.b:1/é", "https://b/a"]))}
        measured = None
        if draw(st.integers(0, 3)):
            facts["ended_by"] = "end"
            measured = stored(measures) | {"exchange_no": no}
            measured["flags"] = " ".join(sorted(draw(st.sets(st.sampled_from([*FLAGS][:4]), max_size=2))))
            if "icl" in seen:
                measured |= packed(draw(_GAPS))
            measured["outcome"] = draw(st.sampled_from(list(OUTCOMES)[1:]))
        facts_found.append((facts, measured))
    return filter, facts_found


def _filler(column: Column[Any]) -> Any:
    if column.nullable or isinstance(declared(column), JSON):
        return None if column.nullable else {}
    return {int: 0, str: "", bytes: b"", bool: False}[declared(column).python_type]


def packed(gaps: list[int]) -> dict[str, bytes]:
    """Return gaps, in ns, in the tape's form: all of them, and their counts by bit length."""
    counted = Counter(map(int.bit_length, gaps))
    hist = struct.pack("<64I", *(counted[bits] for bits in range(64))) if gaps else b""
    return {"icl": struct.pack(f"<{len(gaps)}q", *gaps), "gap_hist": hist}


def ended(**given: Any) -> Stored:
    """Make one exchange, with these columns and otherwise as little as the tape allows."""
    least = {"no": 1, "session_no": 1, "id": "a", "exchange_no": 1, "ended_by": "end", "outcome": "complete"} | given
    facts, measured = (
        {column.name: least.get(column.name, _filler(column)) for column in table.c} for table in (exchanges, measures)
    )
    return [(facts, measured)]


def _resolve(connection: Connection, statement: str, options: Mapping[str, Any]) -> None:
    """Resolve conversations of the present exchanges: a resolver does not see writes of its own connection."""
    resolver = Resolver()
    for resolver_, functions in ((resolver, [CONVERSATION]), (Caching(resolver), OF_SESSION.values())):
        if any(function in statement for function in functions):
            resolver_.register(connection.driver)
            resolver_.prepare(connection, statement, options)


@contextlib.contextmanager
def _writer(connection: Connection) -> Iterator[sqlalchemy.Connection]:
    """Yield SQLAlchemy's connection over that of a reader."""
    engine = create_engine("sqlite://", creator=lambda: connection.driver, poolclass=StaticPool)
    with engine.connect() as writer:
        yield writer
    conditions.register(connection, Searches())  # SQLAlchemy has a REGEXP of its own


@contextlib.contextmanager
def memory() -> Iterator[Connection]:
    """Make a tape in memory, with a session in it."""
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as driver:
        connection = Connection(driver)
        Pricing().register(driver)
        connection.prepare.append(_resolve)
        at = {"started_at": STARTED[0], "heartbeat_at": STARTED[0]}
        session = {"no": 1, "uuid": "u", "version": "", "pid": 1, "listen": "", "upstreams": [], "salt": b"", **at}
        with _writer(connection) as writer:
            metadata.create_all(writer)
            writer.execute(insert(sessions).values(session))
        yield connection


def fill(connection: Connection, tape: Stored) -> None:
    """Make a tape hold these exchanges and nothing else."""
    with _writer(connection) as writer:
        writer.execute(delete(measures))
        writer.execute(delete(exchanges))
        for facts, measured in tape:
            writer.execute(insert(exchanges).values(facts))
            if measured is not None:
                writer.execute(insert(measures).values(measured))
