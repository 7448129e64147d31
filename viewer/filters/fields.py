"""Pure: the fields that a filter can name, what kind of value each has, and which fields of a row it looks at.

The names are the contract's (`rows.FIELDS` and what `show` adds to them); each has shorter ones for typing. A filter
keeps and prints the contract's name. How a value is written is left to `values`, what it means to `sql`.
"""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from wiretape.recorder.decode.metrics import METRICS, Metric
from wiretape.recorder.decode.operation import OPERATIONS
from wiretape.recorder.decode.outcome import FAILURES, FLAGS, OUTCOMES
from wiretape.viewer import rows

Kind = Literal["text", "duration", "gaps", "count", "rate", "share", "time", "label", "has"]
Style = Literal["whole", "prefix", "within", "host", "path", "word"]


@dataclass(frozen=True, slots=True)
class Field:
    """A field: its name, the kind of its values, the fields of a row that hold them (any may match).

    `style` says what a text has to fit: the whole value, its beginning, a part of it; the host of a URL, or the whole
    of it; a path, with or without its query; one of the words of a list. What `has` looks at is said by `having`.
    Of `gaps` any may match: all those between the output chunks of an exchange, as durations.
    """

    name: str
    kind: Kind
    rows: tuple[str, ...]
    style: Style = "whole"


OUTCOME_WORDS: Final[dict[str, tuple[str, ...]]] = {
    **{name: (name,) for name in OUTCOMES},
    "cut": ("truncated",),
    "live": ("open",),
    "ok": ("complete",),
    "done": ("complete",),
    "aborted": ("client_closed",),
    "err": FAILURES,
    "error": FAILURES,
    "failed": FAILURES,
}
"""What `is:` takes: each outcome, and short words for some."""

HAS: Final[dict[str, tuple[str, ...]]] = {
    "tool": ("tool_calls",),
    "reasoning": ("reasoning",),
    "usage": ("usage",),
    "error": ("error_code", "error_message"),
    "content": ("content",),
    "refusal": ("refusal",),
}
"""The short words that `has:` takes, and the fields of a row of which one must be known."""

CHOICES: Final[dict[str, Iterable[str]]] = {
    "outcome": OUTCOME_WORDS,
    "flags": FLAGS,
    "has": HAS,
    "operation": OPERATIONS,
}
"""The fields that have only certain values, for which anything else is a mistake."""

_WHOLE = (
    "method", "model", "request_model", "response_model", "operation", "api", "outcome", "outcome_detail",
    "error_code", "finish_reason", "response_id", "framing", "ended_by", "connection_reused", "clock",
)  # fmt: skip
_WITHIN = ("error_message", "content", "reasoning", "refusal", "ended_detail")
_COUNTS = ("status", "gap_bytes")
_ALIASES = {
    "at": "started_at", "host": "upstream", "is": "outcome", "state": "outcome", "detail": "outcome_detail",
    "finish": "finish_reason", "flag": "flags", "labels": "label",
    "cache.hit": "cache_hit_rate", "gap.p50": "gap_p50_ms", "gap.p90": "gap_p90_ms", "gap.p99": "gap_p99_ms",
    **{alias: rows.field_name(name) for name, metric in METRICS.items() for alias in metric.aliases},
}  # fmt: skip


def _fields() -> Iterable[Field]:
    yield Field("id", "text", ("id",), "prefix")
    yield Field("upstream", "text", ("upstream",), "host")
    yield Field("path", "text", ("path",), "path")
    yield Field("flags", "text", ("flags",), "word")
    yield Field("error", "text", ("error_code", "error_message"), "within")
    yield Field("text", "text", ("content", "reasoning", "refusal", "error_message", "tool_calls"), "within")
    yield Field("prompt", "text", ("request_body",), "within")
    yield Field("conversation", "text", ("conversation",), "prefix")
    yield Field("has", "has", ())
    yield Field("label", "label", ("labels",))
    yield Field("gap", "gaps", ("icl",))
    for name in ("started_at", "since", "until"):
        yield Field(name, "time", ("started_at",))
    yield from (Field(name, "text", (name,)) for name in _WHOLE)
    yield from (Field(name, "text", (name,), "within") for name in _WITHIN)
    yield from (Field(name, "count", (name,)) for name in _COUNTS)
    yield from map(_measured, METRICS.values())
    yield from (Field(name, "duration", ("icl",)) for name in rows.GAP_PERCENTILES)
    yield Field("cost", "rate", ("cost",))
    yield Field("cache_hit_rate", "share", ("cache_hit_rate",))


def _measured(metric: Metric) -> Field:
    name = rows.field_name(metric.name)
    kinds: dict[str, Kind] = {"ns": "duration", "share of 1": "share"}
    return Field(name, kinds.get(metric.unit, "rate" if "/" in metric.unit else "count"), (name,))


DURATIONS: Final = frozenset({"duration", "gaps"})
"""The kinds whose values are durations, in ns."""

FIELDS: Final[dict[str, Field]] = {field.name: field for field in _fields()}
"""Every field by the name that a filter prints."""

NAMES: Final[dict[str, str]] = {
    **{name: name for name in FIELDS},
    **{name.removesuffix("_ms"): name for name in FIELDS},
    **_ALIASES,
}
"""Every name that a filter may use, and the field that it means."""

KNOWABLE: Final = frozenset(FIELDS) - {
    "id", "method", "path", "upstream", "started_at", "since", "until", "outcome", "flags", "reads", "bytes",
    "gap_bytes", "label", "has", "gap", *rows.GAP_PERCENTILES,
}  # fmt: skip
"""The fields that can be unknown: what `has:` takes beside its short words."""


MEANINGS: Final = {
    "text": "what was answered: content, reasoning, refusal, tool calls, error message",
    "prompt": "the body of the request",
    "error": "code or message of an error",
    "has": "a field that is known, or a word such as usage, tool or reasoning",
    "label": "a label of the request, KEY or KEY=VALUE",
    "gap": "any gap between two output chunks",
    "since": "started at that time or later",
    "until": "started before that time",
}
"""What the fields mean that only filters have; the others are those of an exchange."""


def others(name: str) -> list[str]:
    """Return the other names of a field, shorter ones first."""
    return sorted((other for other, meant in NAMES.items() if meant == name and other != name), key=len)


def having(word: str) -> tuple[str, ...]:
    """Return the fields of a row of which one must be known: of a word of `HAS`, or of one of `KNOWABLE`."""
    return HAS.get(word) or FIELDS[word].rows


def closest_first(word: str, known: Iterable[str]) -> list[str]:
    """Return the known names, those that are most like a word first."""
    typed = word.lower()
    return sorted(known, key=lambda name: -difflib.SequenceMatcher(None, typed, name).ratio())
