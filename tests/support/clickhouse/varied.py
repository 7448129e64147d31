"""A tape whose columns hold all kinds of values, and filters that name each field with each operator."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import JSON, Column, Table, insert

from tests.support.random_filters import packed
from wiretape.recorder.decode.exchange import FLAGS, OUTCOMES
from wiretape.recorder.decode.metrics import DECODER_VERSION
from wiretape.recorder.tape import file
from wiretape.recorder.tape.column_types import declared
from wiretape.recorder.tape.schema import exchanges, measures, sessions, settlements
from wiretape.viewer.query.fields import CHOICES, FIELDS, HAS, KNOWABLE

MS = 1_000_000
TEXTS = (
    "", "a", "A", "ab", "aB%", "_", "é", "É", "日本 é", "a*b", "\\", "a\\b", "'", '"', "b\n", "a b\t", "٣", "7", "--",
    "a\u2028b", "\u202eé🙂", "x" * 300, "chat", "stop", "gpt-x",
)  # fmt: skip
_NUMBERS = (0, 1, 2, 3, 400, MS - 1, MS, MS + 1, 2 * MS, 2**31 - 1, 2**52 + 1, 2**53 - 1)
_SMALL = (0, 1, 2, 3, 200, 429)
_REALS = (0.0, 0.1, 0.25, 1.0, 1.5, 2.0, 20.5, 1e-9, 1e15)
_GAPS = (0, 1, 2, 3, 7, 8, 99, 100, MS - 1, MS, MS + 1, 2**20 - 1, 2**20, 2**40, 2**53 - 1)
_STARTED = (
    "1970-01-01T00:00:00.000000Z", "2026-01-31T23:59:59.999999Z",
    "2026-02-01T00:00:00.000000Z", "2026-03-29T01:30:00.500000Z", "2026-03-29T01:30:00.500001Z",
    "2106-02-07T06:28:15.999999Z", "2106-02-07T06:28:16.000000Z",
    "8999-12-31T23:59:59.999999Z",
)  # fmt: skip
_UPSTREAMS = ("http://a", "https://A.b:1/é", "https://b/a", "http://127.0.0.1:9", "")
REGEXES = (
    "a", "^A", "b$", "^.$", "[ab]+", "é", r"\s", r"\S", r"\d", r"\D", r"\w", r"\W", r"[\w-]",
    r"[^\s]", r"[\S]", r"^[\W_]+$", r"[^\W]", "a{,3}b",
    r"b\Z", r"\u0061", r"\x61", r"\\", "'", "%", "_", "", "a|x{299}", "[]b]$", "[$]", r"\é", "(?m)^b$", "日.", r"\bb",
)  # fmt: skip
"""Regular expressions, as they are written within quotes."""


def tape(path: Path, count: int, seed: int = 1) -> Path:
    """Make a tape of exchanges with values drawn at random, among them each that is awkward."""
    chosen = random.Random(seed)
    with file.writing(path, "a test") as connection:
        at = dict.fromkeys(("started_at", "heartbeat_at"), _STARTED[2])
        for no in (1, 2):
            row = {
                "no": no,
                "uuid": f"varied-{no}",
                "version": "",
                "pid": 1,
                "listen": "",
                "upstreams": [],
                "salt": b"",
            }
            connection.execute(insert(sessions).values(row | at))
        for no in range(1, count + 1):
            connection.execute(insert(exchanges).values(_facts(chosen, no)))
            connection.execute(insert(measures).values(_measures(chosen, no)))
            connection.execute(insert(settlements).values(exchange_no=no, version=no))
        connection.commit()
    return path


def _facts(chosen: random.Random, no: int) -> dict[str, Any]:
    keys = chosen.sample(("run", "a.b-c", "é'\\", "tenant"), chosen.randrange(4))
    return _drawn(chosen, exchanges) | {
        "no": no, "id": f"{chosen.choice('aBcd')}{no:015x}", "session_no": chosen.choice((1, 2)),
        "started_at": chosen.choice(_STARTED), "upstream": chosen.choice(_UPSTREAMS),
        "labels": {key: chosen.choice(TEXTS) for key in keys}, "ended_by": "end",
    }  # fmt: skip


def _measures(chosen: random.Random, no: int) -> dict[str, Any]:
    flags = sorted(chosen.sample(list(FLAGS), chosen.randrange(4)))
    gaps = packed(chosen.choices(_GAPS, k=chosen.randrange(6)))
    facts = {"exchange_no": no, "flags": " ".join(flags), "outcome": chosen.choice([*OUTCOMES][1:])}
    facts["decoder_version"] = DECODER_VERSION  # a server reads tokens of older ones in another way
    return _drawn(chosen, measures) | facts | gaps


def _drawn(chosen: random.Random, table: Table) -> dict[str, Any]:
    return {column.name: _value(chosen, column) for column in table.c}


def _value(chosen: random.Random, column: Column[Any]) -> Any:
    if column.nullable and not chosen.randrange(4):
        return None
    if isinstance(declared(column), JSON):
        return {"a": 1}
    kind = declared(column).python_type
    wide = column.name.endswith("_ns") or column.name == "total_tokens"
    values: dict[type, Any] = {int: _NUMBERS if wide else _SMALL, float: _REALS, str: TEXTS, bytes: (b"",)}
    return chosen.choice(values.get(kind, (False, True)))


def filters() -> Iterator[str]:
    """Yield filters: for each field, each operator and each form of a value."""
    for name, field in FIELDS.items():
        forms = {
            "duration": _of_numbers(name, "1ms", "0.000001ms", "2s"),
            "gaps": _of_numbers(name, "1ms", "0.000002ms", "2s"),
            "count": _of_numbers(name, "1", "2", "10k"), "rate": _of_numbers(name, "1.5", "0.1", "20.5"),
            "share": _of_numbers(name, "10%", "0.25", "100%"), "time": _of_times(name), "text": _of_texts(name),
            "label": _of_labels(), "has": _of_presence(),
        }  # fmt: skip
        yield from forms[field.kind]
    yield from (f"model~{_quoted(regex)}" for regex in REGEXES)
    yield from (f"model!~{_quoted(regex)}" for regex in REGEXES)
    yield "status:200 or (ttft>1ms -is:complete) or -(model:a label:run)"


def _of_numbers(name: str, one: str, least: str, most: str) -> Iterator[str]:
    for value in (one, least, most):
        yield from (f"{name}{order}{value}" for order in (">", ">=", "<", "<=", ":", "!="))
    spans = (f"{least}..{one}", f"{one}..", f"..{one}", f"{least},{one}..{most}")
    yield from (f"{name}{sign}{span}" for span in spans for sign in (":", "!="))
    yield f"-{name}>{one}"


def _of_times(name: str) -> Iterator[str]:
    exact = ("2026-02-01T00:00Z", "2026-03-29T01:30:00.500001Z", "1970-01-01T00:00Z", "2106-02-07T06:28:16Z")
    orders = (":",) if name != "started_at" else (":", ">", ">=", "<", "<=")
    yield from (f"{name}{order}{value}" for value in (*exact, "2026-02-01", "today") for order in orders)
    yield f"-{name}:2026-02-01"


def _of_texts(name: str) -> Iterator[str]:
    words = list(CHOICES.get(name, ())) or ["a", "é", "%", "_", "x*", "*b", "a*b", "A", "''"]
    for value in words:
        yield from (f"{name}:{value}", f"{name}!={value}", f"-{name}:{value}")
    if name not in CHOICES:
        yield from (f"{name}:{_quoted(text)}" for text in TEXTS)
        yield from (f"{name}:a,b*,{_quoted('é')}", f"{name}!=a,A*")
        yield from (f"{name}~a|b", f"{name}!~a", f"-{name}~^a")


def _of_labels() -> Iterator[str]:
    yield from ("label:run", "-label:run", "label:run=*", "label:run=a*", "label!=run=a", "-label:run=a", "label:a.b-c")
    yield from (f"label:run={_quoted(text)}" for text in TEXTS)


def _of_presence() -> Iterator[str]:
    for word in (*HAS, *sorted(KNOWABLE)):
        yield from (f"has:{word}", f"-has:{word}")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
