"""Pure: the quantities that statistics are made of, their names and units, and limits on them as people write them.

A quantity is either one value of each exchange (`ttft`, or `icl_p99`: an exchange's own 99th percentile), under the
name of its field without the unit, or pooled: all gaps of all exchanges together, where long answers weigh more and a
single stall hardly shows. Durations are in ms.
"""

import re
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from wiretape.recorder.clock import zone
from wiretape.recorder.decode.metrics import METRICS, Measures, Metric
from wiretape.viewer.query import guesses
from wiretape.viewer.query.fields import aliases_of
from wiretape.viewer.record import fields


@dataclass(frozen=True, slots=True)
class Quantity:
    """A measured quantity; `column` is its column on the tape, None if it is pooled from the gaps of all exchanges.

    `is_whole`: the tape has it in whole nanoseconds. `aliases` are accepted for its name. Its statistics are those of
    complete exchanges, or `of_every_outcome`.
    """

    name: str
    column: str | None
    unit: str
    meaning: str
    is_whole: bool = False
    aliases: tuple[str, ...] = ()
    of_every_outcome: bool = False

    @property
    def suffix(self) -> str:
        """The unit at the end of a field's name: `_ms`, or nothing for a rate."""
        return "_ms" if self.unit == "ms" else ""

    @property
    def low_is_good(self) -> bool:
        return self.unit == "ms"


def _of(metric: Metric) -> Quantity:
    name, field = metric.name.removesuffix("_ns"), fields.field_name(metric.name)
    prefix = "each exchange's own " if name.startswith("icl_") else ""
    unit = "ms" if metric.unit == "ns" else metric.unit
    is_whole = metric.unit == "ns" and Measures.__dataclass_fields__[metric.name].type in (int, int | None)
    aliases = tuple(alias for alias in aliases_of(field) if alias != name)
    names = (field, *aliases)
    return Quantity(name, metric.name, unit, prefix + metric.meaning, is_whole, names, metric.of_every_outcome)


_POOLED: Final = (
    Quantity("icl", None, "ms", "gaps between output chunks, pooled over all exchanges; 0 where a read is shared"),
    Quantity(
        "gap", None, "ms", "gaps between reads with output, pooled: those of icl above 0", aliases=(*aliases_of("gap"),)
    ),
)
_ALL: Final = {
    quantity.name: quantity
    for quantity in (*_POOLED, *(_of(metric) for metric in METRICS.values() if metric.has_statistics))
}
_FIRST: Final = (
    "ttft", "ttfc", "ttfo", "icl", "gap", "icl_p50", "icl_p99", "icl_max", "tpot", "tps_user",
    "latency", "duration", "max_silence",
)  # fmt: skip

QUANTITIES: Final = {name: _ALL[name] for name in (*_FIRST, *_ALL)}
"""Every quantity that has statistics, by name; their order is a contract, which grows at its end."""

NAMES: Final[dict[str, str]] = {
    **{alias: name for name, quantity in QUANTITIES.items() for alias in quantity.aliases},
    **{name: name for name in QUANTITIES},
}
"""Every name that a quantity has in rules, objectives and options, and the quantity that it means."""

STATISTICS: Final = ("n", "mean", "std", "min", "p50", "p90", "p95", "p99", "max")
"""Statistics of the values of each quantity."""

VALUES_NEEDED: Final = {"p50": 2, "p90": 10, "p95": 20, "p99": 100}
"""Fewest values of a percentile p, 1/(1 − p): of fewer, p is beyond the last rank, and is little but the maximum."""

RATES: Final = (
    "error_rate", "error_rate_all", "stream_error_rate", "cancel_rate", "goodput", "stalled", "given_up",
    "cache_hit_rate",
)  # fmt: skip
"""The shares of the exchanges of a group, or of their input tokens, in percent."""

GROUPS: Final = (
    "model", "request_model", "response_model", "operation", "api", "upstream", "method", "path", "status", "outcome",
    "outcome_detail", "error_code", "finish_reason", "day", "hour", "conversation", "upstream_name",
    "cache_verdict", "cache_broken_at", "protocol", "rpc_method", "tool_name", "turn",
)  # fmt: skip
"""Keys of groups of exchanges, besides `label.KEY` and `TokenBuckets`; days and hours are local time."""

OF_SESSIONS: Final = ("conversation", "cache_verdict", "cache_broken_at", "turn")
"""The groups that need all exchanges of a session, and so a tape."""

PERIODS: Final = ("day", "hour")
"""The groups by the time of the start."""

BOUNDED: Final = {name: quantity for name, quantity in QUANTITIES.items() if quantity.column is not None}
"""Quantities that an objective can bound: one value of each exchange."""

_MS: Final = {"us": 1e-3, "µs": 1e-3, "ms": 1.0, "s": 1e3, "m": 6e4, "min": 6e4}


@dataclass(frozen=True, slots=True)
class Bound:
    """One term of an objective: the quantity, True if `limit` is an upper one (else a lower one), the limit."""

    quantity: Quantity
    is_highest: bool
    limit: float


_BUCKETED: Final = ("input_tokens",)
_UNITS: Final = {1: "", 1_000: "k", 1_000_000: "M"}
_WIDTH: Final = re.compile(r"0*([1-9][0-9]{0,8})([kKM]?)")


class TokenBuckets(NamedTuple):
    """Groups by a count of tokens, each of this width; a bucket holds its lower bound, which is its key."""

    field: str
    width: int

    def label(self, lowest: int) -> str:
        """Return the name of a bucket, such as `10k–20k`."""
        unit = next(unit for unit in sorted(_UNITS, reverse=True) if self.width % unit == 0)
        from_number, to_number = (f"{number // unit:,}" for number in (lowest, lowest + self.width))
        return f"{from_number}{_UNITS[unit] if lowest else ''}–{to_number}{_UNITS[unit]}"


def token_buckets(key: str) -> TokenBuckets | None:
    """Return the buckets that a key such as `input_tokens:10k` names. Raises `ValueError` for their width."""
    field, colon, text = key.partition(":")
    if field not in _BUCKETED or not colon:
        return None
    if (width := _WIDTH.fullmatch(text)) is None:
        raise ValueError(f"{key!r} has no width of buckets: give a number of tokens above 0, such as {field}:10k")
    units = {suffix.lower(): unit for unit, suffix in _UNITS.items()}
    return TokenBuckets(field, int(width[1]) * units[width[2].lower()])


def group_value(key: str, value: Any) -> Any:
    """Return the name of a group: its value; of a bucket, its range."""
    buckets = None if value is None else token_buckets(key)
    return value if buckets is None else buckets.label(value)


_LABEL: Final = re.compile(r"label\.[A-Za-z0-9_.-]{1,64}")


def groups(text: str) -> tuple[str, ...]:
    """Return the keys of groups that a text names, such as `model,label.run`. Raises `ValueError`."""
    keys = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    names = (*GROUPS, "label.KEY", *(f"{field}:10k" for field in _BUCKETED))
    for key in keys:
        if key not in GROUPS and not _LABEL.fullmatch(key) and token_buckets(key) is None:
            source = "label.KEY groups by a label, 'wiretape help fields' lists fields"
            raise ValueError(f"{key!r} is no group{guesses.advice(key, names, source)}")
    return keys


def group_title(key: str) -> str:
    """Return the heading of groups; that of days and hours has the names of their time zone."""
    return f"{key} ({zone()})" if key in PERIODS else key


_AMOUNT = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([a-zµ%]*)")


def amount(text: str, unit: str) -> float:
    """Parse an amount in a unit: `800ms` or `0.8s` as ms, `1%` as percent, a bare number as any other unit.

    Raises `ValueError` with the expected syntax.
    """
    match = _AMOUNT.fullmatch(text.strip())
    number, suffix = (float(match[1]), match[2]) if match else (0.0, "")
    if match and unit == "ms" and suffix in _MS:
        return number * _MS[suffix]
    if match and unit != "ms" and suffix == ("%" if unit == "%" else ""):
        return number
    expected = {"ms": "a duration with its unit, such as 800ms or 0.8s", "%": "a percentage, such as 1%"}
    raise ValueError(f"{text!r} is not {expected.get(unit, 'a plain number')}")


def objective(text: str) -> list[Bound]:
    """Parse an objective such as `ttft<800ms,icl_p99<200ms,tps_user>20`; raises `ValueError`."""
    return [_bound(part) for part in text.split(",")]


_BOUND = re.compile(r"\s*([a-z0-9_.]+)\s*(<|>)\s*([^<>=,]+?)\s*")


def _bound(text: str) -> Bound:
    match = _BOUND.fullmatch(text)
    if match is None:
        raise ValueError(f"{text.strip()!r} is not a bound: write a name, < or >, and a limit, such as ttft<800ms")
    quantity = BOUNDED.get(NAMES.get(match[1], ""))
    if quantity is None:
        raise ValueError(f"{match[1]!r} cannot be bounded{guesses.advice(match[1], BOUNDED)}")
    return Bound(quantity, match[2] == "<", amount(match[3], quantity.unit))
