"""Pure: the fields of filters: their names, the kind of their values, and the fields of a row that they test.

The names are the contract's (`rows.FIELDS` and what `show` adds to them); each has shorter ones for typing. A filter
keeps and prints the contract's name. How a value is written is left to `values`.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final

from wiretape.recorder.decode.exchange import FAILURES, FLAGS, OPERATIONS, OUTCOMES
from wiretape.recorder.decode.metrics import METRICS, SHOWN, Metric
from wiretape.recorder.facts import FACTS, Style, kinds
from wiretape.viewer.query.operators import Kind
from wiretape.viewer.record import fields
from wiretape.viewer.record.fields import CACHE_VERDICTS, GAP_PERCENTILES

OUTCOME_WORDS: Final[dict[str, tuple[str, ...]]] = {
    **{name: (name,) for name in OUTCOMES},
    "cut": ("truncated",), "live": ("open",), "ok": ("complete",), "done": ("complete",), "aborted": ("client_closed",),
    **dict.fromkeys(("err", "error", "failed"), FAILURES),
}  # fmt: skip
"""Words for `is:`, each with its outcomes."""

HAS: Final[dict[str, tuple[str, ...]]] = {
    "tool": ("tool_calls",), "reasoning": ("reasoning",), "usage": ("usage",), "error": ("error_code", "error_message"),
    "content": ("content",), "refusal": ("refusal",),
}  # fmt: skip
"""Short words for `has:`, each with fields of a row: one of them must be known."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field: its name, the kind of its values, the fields of a row with its values (any may match).

    `has` looks at the fields that `having` names. Of `gaps` any may match: all those between the output chunks of an
    exchange, as durations. With `choices`, any other value is a mistake. Fields of an exchange have no `meaning` here.
    """

    name: str
    kind: Kind
    rows: tuple[str, ...]
    style: Style = "whole"
    aliases: tuple[str, ...] = ()
    is_always_known: bool = False
    choices: Collection[str] = ()
    meaning: str = ""


def _text(name: str, style: Style = "whole", *aliases: str, rows: Iterable[str] = (), **more: Any) -> Field:
    return Field(name, "text", tuple(rows) or (name,), style, aliases, **more)


def _time(name: str, meaning: str = "", *aliases: str) -> Field:
    return Field(name, "time", ("started_at",), "whole", aliases, is_always_known=True, meaning=meaning)


def _derived(tape_name: str) -> Field:
    entry, name = SHOWN[tape_name], fields.field_name(tape_name)
    metric: Metric | None = entry.metadata["metric"]
    is_share = metric is not None and metric.unit == "share of 1"
    numbers: dict[Any, Kind] = {int: "count", float: "share" if is_share else "rate"}
    kind = "duration" if name.endswith("_ms") else numbers.get(kinds(entry)[0], "text")
    is_always_known = tape_name in ("reads", "bytes") or (tape_name in FACTS and kinds(entry)[-1] is not type(None))
    return Field(name, kind, (name,), entry.metadata["style"], entry.metadata["aliases"], is_always_known)


def _gap_percentile(name: str) -> Field:
    return Field(name, "duration", ("icl",), "whole", (name.removesuffix("_ms").replace("_", "."),), True)


_NAMED: Final = (
    _text("id", "prefix", is_always_known=True),
    _derived("upstream"),
    _derived("upstream_name"),
    _derived("path"),
    _text("flags", "word", "flag", is_always_known=True, choices=FLAGS),
    _text("error", "within", rows=("error_code", "error_message"), meaning="code or message of an error"),
    _text("text", "within", rows=("content", "reasoning", "refusal", "error_message", "tool_calls"),
          meaning="the answer: content, reasoning, refusal, tool calls, error message"),
    _text("prompt", "within", rows=("request_body",), meaning="the body of the request"),
    _text("conversation", "prefix"),
    Field("has", "has", (), is_always_known=True, choices=HAS,
          meaning="a field that is known, or a word such as usage, tool or reasoning"),
    Field("label", "label", ("labels",), "whole", ("labels",), True,
          meaning="a label of the request, KEY or KEY=VALUE"),
    Field("gap", "gaps", ("icl",), "whole", ("read_gap",), True, meaning="any gap between two reads with output"),
    _time("started_at", "", "at"),
    _time("since", "started at that time or later"),
    _time("until", "started before that time"),
    _derived("method"),
    *map(_text, ("model", "request_model", "response_model")),
    _text("operation", choices=OPERATIONS),
    _text("api"),
    _text("outcome", "whole", "is", "state", is_always_known=True, choices=OUTCOME_WORDS),
    _text("outcome_detail", "whole", "detail"),
    _text("error_code"),
    _text("finish_reason", "whole", "finish"),
    *map(_derived, ("response_id", "framing", "ended_by", "reset_code", "connection_reused", "protocol", "clock")),
    *map(_derived, ("error_message", "content", "reasoning", "refusal", "ended_detail", "status", "gap_bytes")),
    *map(_derived, METRICS),
    *map(_gap_percentile, GAP_PERCENTILES),
    Field("cost", "rate", ("cost",)),
    Field("cache_hit_rate", "share", ("cache_hit_rate",), "whole", ("cache.hit",)),
    _text("cache_verdict", choices=CACHE_VERDICTS),
    _text("cache_broken_at", "prefix"),
    Field("cache_expected_tokens", "count", ("cache_expected_tokens",)),
    Field("cache_idle_ms", "duration", ("cache_idle_ms",)),
    Field("cache_common_tokens", "count", ("cache_common_tokens",)),
    _text("cache_remedy"),
    Field("turn", "count", ("turn",)),
    _text("duplicate_of", "prefix"),
)  # fmt: skip
_OF_ROWS: Final = {"labels", *(field.name for field in _NAMED)}
_ROWS: Final = (*_NAMED, *(_derived(fields.stored_name(name)) for name in fields.FIELDS if name not in _OF_ROWS))

FIELDS: Final[dict[str, Field]] = {field.name: field for field in _ROWS}
"""Every field by the name that a filter prints."""

NAMES: Final[dict[str, str]] = {
    **{name: name for name in FIELDS},
    **{name.removesuffix("_ms"): name for name in FIELDS},
    **{alias: field.name for field in _ROWS for alias in field.aliases},
}
"""Every name that a filter may use, and the field that it means."""

CHOICES: Final = {name: FIELDS[name].choices for name in ("outcome", *FIELDS) if FIELDS[name].choices}
"""The fields with a fixed set of values: any other value is a mistake."""

KNOWABLE: Final = frozenset(name for name, field in FIELDS.items() if not field.is_always_known)
"""The fields that can be unknown: `has:` accepts them, besides its short words."""

MEANINGS: Final = {name: field.meaning for name, field in FIELDS.items() if field.meaning}
"""Meanings of the fields that only filters have."""


def aliases_of(name: str) -> list[str]:
    return sorted((alias for alias, field_name in NAMES.items() if field_name == name and alias != name), key=len)


def having(word: str) -> tuple[str, ...]:
    """Return the fields of a row for a word of `HAS` or a name of `KNOWABLE`: at least one must be known."""
    return HAS.get(word) or FIELDS[word].rows
