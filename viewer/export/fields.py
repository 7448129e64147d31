"""Every field of the exported tables: its kind, its unit and its meaning.

A field's meaning is written beside its definition: the column of the tape (`wiretape.recorder.tape.schema`), the
metadata of a measure (`wiretape.recorder.decode.metrics`) or of a statistic (`stats`). This module describes only the
viewer's own fields, and those that differ from the tape's. `text` and `parquet` write the kinds.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from wiretape.recorder.decode.metrics import METRICS, Measures
from wiretape.recorder.tape.tables import measures
from wiretape.viewer.export import text
from wiretape.viewer.record import rows
from wiretape.viewer.record.fields import ACCOUNT_FIELDS, GAP_PERCENTILES, WORKED_OUT, stored_name
from wiretape.viewer.sessions.account import MEANINGS
from wiretape.viewer.stats.metrics import QUANTITIES, token_buckets

if TYPE_CHECKING:
    from sqlalchemy import Column

Kind = Literal["text", "integer", "number", "boolean", "timestamp", "words", "json"]

TABLES: Final = (*text.TABLES, "summary")
"""Tables with one row for each exchange, exchange with its texts, chunk, read, turn, conversation, or group."""

SCHEMA_FIELDS: Final = ("table", "column", "type", "unit", "meaning")

_MEASURED: Final = {field.name: field.metadata["doc"] for field in dataclasses.fields(Measures)}
_OWN: Final = {
    "started_at": "wall time at T0, ISO 8601",
    "method": "HTTP method of the request",
    "model": "the model asked for; where the request names none, the one that answered",
    "labels": "the labels of its request: {key: value}; in CSV and TSV words, key=value, a space is %20",
    "gap_bytes": "bytes of the body that could not be stored",
}
_OF_GROUPS: Final = {
    "day": "the day when the exchanges started, local time",
    "hour": "the hour when the exchanges started, local time",
    "upstream": "the upstream's name in --upstream NAME=URL, else its URL",
}
_WORKED_OUT: Final = {
    "conversation": "the conversation: by the key that its client gave, or else by the id of its first exchange",
    "continues": "the id of the exchange that the request continues, by its messages or by the response it names",
    "cost": "cost by the prices of the configuration (help prices); of complete exchanges",
    "currency": "the currency of the cost",
    "cache_hit_rate": "tokens read from the provider's cache / all tokens of the request",
    "cache_verdict": "why it read its prompt from the provider's cache, or did not (help sessions); of complete ones",
    "cache_broken_at": "the first place where its prompt differs from its predecessor's, as tools[3]",
    "cache_expected_tokens": "tokens that a read could have had: the input tokens of its predecessor",
    "cache_idle_ms": "time since the last request of the session with the same tools and system prompt, start to start",
    "cache_common_tokens": "of the expected tokens, those before the first difference: an estimate by bytes",
    "cache_remedy": "a setting of the client that keeps the first difference out of the prompt",
    "duplicate_of": "the id of the same request in its session, at most 5 s before it: both were answered, and paid",
    "turn": "its number in its branch of the session, from 1; another attempt has that of the first (help sessions)",
}
"""Fields that the viewer computes from several exchanges, the configuration, or several columns."""
_COMPUTED_UNITS: Final = {
    "cost": "currency", "cache_hit_rate": "share of 1", "cache_expected_tokens": "tokens", "cache_idle_ms": "ms",
    "cache_common_tokens": "tokens", "turn": "count",
}  # fmt: skip

_OF_CONVERSATION: Final = {
    "conversation": "the key that its client gave, or else the id of its first exchange",
    "id": "the id of its first exchange",
    "started_at": "wall time when its first exchange started, ISO 8601 (UTC)",
    "last_at": "wall time when its newest exchange started, ISO 8601 (UTC)",
    "exchanges": "number of its exchanges",
    "failed": "number of its failed exchanges",
    "open": "number of its running exchanges",
    "models": "the models asked for",
    "duration_ms": "sum of the durations of its exchanges, concurrent ones included",
    "cost": "sum of the known costs of its exchanges, by the prices of the configuration (help prices)",
    "currency": "the currency of the cost",
    "argv0": "program that sent the first exchange, from its label argv0",
    "asked": "the last text of the user in the first request with tools, or else in the first",
}

_COUNTS: Final = ("exchanges", "failed", "open")

_CHUNK: Final[dict[str, tuple[Kind, str]]] = {
    "seq": ("integer", "0, 1, 2, … within its exchange; the same on the rows of all its choices"),
    "at_ms": ("number", "T0 → the read that holds its last byte"),
    "gap_ms": ("number", "time since the chunk before; 0 if both share a read"),
    "read": ("integer", "seq of that read"),
    "event": ("integer", "seq of its event, as in show --part events and in the viewer"),
    "kinds": (
        "words",
        "contents of the row: content, reasoning, refusal, tool, finish, usage, error, ping, or empty",
    ),
    "output": ("boolean", "whether the chunk carries content, reasoning or a tool call in any choice"),
    "choice": ("integer", "index of the choice; empty: the chunk has none"),
    "content": ("text", "text added to the content"),
    "reasoning": ("text", "text added to the reasoning"),
    "refusal": ("text", "text added to the refusal"),
    "tool_name": ("text", "name of the tool call that begins; several are joined by a space"),
    "tool_arguments": ("text", "text added to the arguments; of several calls joined by a line feed"),
    "finish_reason": ("text", "reason why the choice ended, verbatim from upstream"),
    "output_tokens": ("integer", "running count of output tokens, from the chunk's own usage"),
}
_UNITS: Final = {
    "status": "HTTP status", **dict.fromkeys(("gap_bytes", "size", "start"), "bytes"),
    **dict.fromkeys(("seq", "read", "event", "choice"), "index"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ExportField:
    """One column of a table; `unit` is None where the kind has none, as a text."""

    name: str
    kind: Kind
    unit: str | None
    meaning: str


def of(table: str, by: Sequence[str] = ()) -> tuple[ExportField, ...]:
    """Return the fields of a table in their order; `by` are the groups of a summary."""
    if table == "summary":
        from wiretape.viewer.stats import summary  # numpy is slow to load, and only a summary needs it

        return (*map(_group, by), *(_statistic(name, meaning) for name, meaning in summary.schema().items()))
    names = text.TABLES[table]
    if table == "conversations":
        return tuple(map(_conversation, names))
    column_field = {"chunks": _chunk, "reads": _read, "turns": _turn}.get(table, exchange_field)
    return tuple(exchange_field(name) if name == "id" else column_field(name) for name in names)


def choosable(table: str, by: Sequence[str] = ()) -> tuple[ExportField, ...]:
    """Return the fields that a table can have: its own, and the computed ones of exchanges."""
    table_fields = of(table, by)
    names = {field.name for field in table_fields}
    more = WORKED_OUT if table in ("exchanges", "texts") else ()
    return (*table_fields, *(exchange_field(name) for name in more if name not in names))


def aliases(table: str) -> Mapping[str, str]:
    """Return the fields of a table by aliases that only this table has."""
    if table != "summary":
        return {}
    from wiretape.viewer.stats import summary

    return summary.ALIASES


def schema(tables: Iterable[str], by: Sequence[str] = ()) -> list[rows.TableRow]:
    """Return one row of `SCHEMA_FIELDS` for each field of some tables."""
    return [
        dict(zip(SCHEMA_FIELDS, (table, field.name, field.kind, field.unit, field.meaning), strict=True))
        for table in tables
        for field in of(table, by)
    ]


def meanings(names: Iterable[str]) -> dict[str, str]:
    return described(map(exchange_field, names))


def described(fields: Iterable[ExportField]) -> dict[str, str]:
    """Return the meanings of fields by name, each followed by its unit: `T0 → first output chunk (ms)`."""
    return {field.name: f"{field.meaning} ({field.unit})" if field.unit else field.meaning for field in fields}


def conversations() -> dict[str, str]:
    """Return the meanings of a conversation's fields by name."""
    return described(of("conversations"))


def _conversation(name: str) -> ExportField:
    if name in ACCOUNT_FIELDS:
        kind: Kind = "boolean" if name == "clock_step" else "number" if name.endswith("_ms") else "integer"
        return _field(name, kind, MEANINGS[stored_name(name)])
    meaning, unit = _OF_CONVERSATION.get(name), "currency" if name == "cost" else None
    if meaning is None:
        return dataclasses.replace(exchange_field(name), meaning=f"{exchange_field(name).meaning}, of all")
    kinds: dict[str, Kind] = {"models": "words", "cost": "number", "started_at": "timestamp", "last_at": "timestamp"}
    kind = kinds.get(name, "number" if name.endswith("_ms") else "integer" if name in _COUNTS else "text")
    return ExportField(name, kind, unit, meaning) if unit else _field(name, kind, meaning)


def exchange_field(name: str) -> ExportField:
    """Return a field of an exchange by its name, also one that only details have."""
    if name in GAP_PERCENTILES:
        percent = round(100 * GAP_PERCENTILES[name])
        return ExportField(name, "number", "ms", f"{percent}th percentile of the gaps between reads with output")
    if name in _WORKED_OUT:
        kind: Kind = "integer" if name == "turn" else "number" if name in _COMPUTED_UNITS else "text"
        return ExportField(name, kind, _COMPUTED_UNITS.get(name), _WORKED_OUT[name])
    column_name = "request_model" if name == "model" else stored_name(name)
    column = _column("measures" if column_name in measures.c else "exchanges", column_name)
    meaning = _OWN.get(name) or _MEASURED.get(column_name) or _comment(column)
    return _field(name, _kind(name, column), meaning)


def _chunk(name: str) -> ExportField:
    return _field(name, *_CHUNK[name])


def _read(name: str) -> ExportField:
    column = _column("reads", stored_name(name))
    meaning = f"T0 → {_comment(column)}" if name.endswith("_ms") else _comment(column)
    return _field(name, _kind(name, column), meaning)


def _turn(name: str) -> ExportField:
    column = _column("turns", name)
    return _field(name, _kind(name, column), _comment(column).removesuffix("; ms"))


def _column(table: str, name: str) -> "Column[Any]":
    """Return a column with its description, for which SQLAlchemy is loaded."""
    from wiretape.recorder.tape import schema

    column: Column[Any] = getattr(schema, table).c[name]
    return column


def _comment(column: "Column[Any]") -> str:
    # A NULL on the tape is an empty cell, or null in JSON.
    return (column.comment or "").replace("NULL", "empty")


def _statistic(name: str, meaning: str) -> ExportField:
    from wiretape.viewer.stats.summary import TOKENS

    kinds: dict[str, Kind] = {
        "first_at": "timestamp", "last_at": "timestamp", "warnings": "words", "currency": "text",
    }  # fmt: skip
    is_count = name in (*TOKENS, "duplicate_tokens") or name == "n" or name.startswith("n_") or name.endswith("_n")
    kind = kinds.get(name, "integer" if is_count else "number")
    rates = {quantity.name: quantity.unit for quantity in QUANTITIES.values() if not quantity.suffix}
    units = [unit for quantity, unit in rates.items() if name.startswith(f"{quantity}_")]
    unit = "currency" if name in ("cost", "cost_mean") else units[0] if units and kind == "number" else None
    return ExportField(name, kind, unit, meaning) if unit else _field(name, kind, meaning)


def _group(name: str) -> ExportField:
    if name.startswith("label."):
        return ExportField(name, "text", None, "the group: the value of this label")
    if (buckets := token_buckets(name)) is not None:
        meaning = f"the group: {buckets.field} by {buckets.width:,}, the lower bound included"
        return ExportField(name, "text", None, meaning)
    field = ExportField(name, "text", None, _OF_GROUPS[name]) if name in _OF_GROUPS else exchange_field(name)
    return dataclasses.replace(field, meaning=f"the group: {field.meaning}")


def _field(name: str, kind: Kind, meaning: str) -> ExportField:
    return ExportField(name, kind, _unit(name, kind), meaning)


def _kind(name: str, column: "Column[Any]") -> Kind:
    from wiretape.recorder.tape import column_types

    if name.endswith("_ms"):
        return "number"
    kinds_by_name: dict[str, Kind] = {"started_at": "timestamp", "flags": "words"}
    kinds_by_type: dict[str, Kind] = {
        "JSON": "json", "Boolean": "boolean", "Integer": "integer", "BigInteger": "integer", "Float": "number",
    }  # fmt: skip
    kind = kinds_by_type.get(column_types.type_name(column_types.declared(column)), "text")
    return kinds_by_name.get(name, kind)


def _unit(name: str, kind: Kind) -> str | None:
    if kind == "timestamp":
        return "UTC"
    if kind not in ("integer", "number"):
        return None
    endings = {"_ms": "ms", "_pct": "%", "_tokens": "tokens"}
    ending = next((unit for end, unit in endings.items() if name.endswith(end)), None)
    metric = METRICS.get(name)
    return ending or (metric and metric.unit) or _UNITS.get(name, "count")
