"""Pure: the cost of exchanges, and the share of their input that came from a provider's cache.

Prices are the user's: none are built in, as they would go out of date. An amount is a whole number of millionths of a
millionth of the currency, so that sums are exact. An unknown cost is None, never 0.

A count of cached tokens missing in usage is 0: APIs, and the servers that follow them, omit a count of 0, or do not
bill cached tokens separately. If tokens were written to a cache, the count of those that it keeps for an hour is never
taken for 0, since these cost more.
"""

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final
from urllib.parse import urlsplit

from wiretape.recorder.sanitize import clipped, safe

UNITS: Final = 10**12
"""Number of units of an amount in 1 of the currency: the price of a million tokens may have six decimals."""

DEFAULT_CURRENCY: Final = "USD"

PATTERNS: Final = {
    "model": "the model asked for; where the request names none, the one that answered",
    "response_model": "the model that answered",
    "upstream": "the upstream: its host, or its whole URL",
    "api": "whose API, such as openai.chat",
}
AMOUNTS: Final = {
    "input": "a million tokens of the request; required",
    "output": "a million tokens of the answer, reasoning included; required, 0 for embeddings",
    "cached_input": "a million tokens read from the provider's cache; without it, they cost what input does",
    "cache_write": "a million tokens written to that cache; without it, they cost what input does",
    "cache_write_1h": "a million written tokens that are kept for an hour; without it, the cost of an exchange with "
    "such tokens is unknown",
}
SINCE: Final = "first day, or time, of the price's validity, by the start of an exchange; UTC"
"""Meaning of `since`; the other keys of an entry of `[[prices]]` are `PATTERNS` and `AMOUNTS`."""

_HIGHEST: Final = 10**6


@dataclass(frozen=True, slots=True)
class Names:
    """The keys of a price."""

    model: str | None
    response_model: str | None
    upstream: str | None
    api: str | None


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that are billed: `uncached` ones of the request, those of the answer, and those of a cache.

    `cache_write_1h` are the part of `cache_write` that is kept for an hour.
    """

    uncached: int | None
    output: int | None
    cache_read: int | None = None
    cache_write: int | None = None
    cache_write_1h: int | None = None


@dataclass(frozen=True, slots=True)
class Paid:
    """The cost of some exchanges, in units, and the input of those with known cached tokens; `…_n` count them.

    `unknown_n` counts complete exchanges with unknown cost.
    """

    cost: int = 0
    cost_n: int = 0
    unknown_n: int = 0
    cached: int = 0
    input: int = 0
    cached_n: int = 0
    currency: str | None = None

    @classmethod
    def together(cls, parts: Sequence["Paid"]) -> "Paid":
        """Add up parts, at least one, in one currency."""
        names = ("cost", "cost_n", "unknown_n", "cached", "input", "cached_n")
        sums = {name: sum(getattr(part, name) for part in parts) for name in names}
        return cls(**sums, currency=parts[0].currency)


@dataclass(frozen=True, slots=True)
class Price:
    """An entry: prices of a token in exchanges that match all `patterns` and started at `since` or later."""

    patterns: tuple[tuple[str, re.Pattern[str]], ...]
    since: str
    input: int
    output: int
    cached_input: int
    cache_write: int
    cache_write_1h: int | None

    def fits(self, names: Names) -> bool:
        return all(
            any(pattern.fullmatch(text) for text in _texts(name, getattr(names, name)))
            for name, pattern in self.patterns
        )

    def cost(self, usage: Usage) -> int | None:
        """Return the cost of the tokens, or None if a count with a price is unknown."""
        cache_write = usage.cache_write or 0
        hour = usage.cache_write_1h if cache_write else 0
        # A part that is larger than the whole: such a usage is not to be trusted.
        if hour and (self.cache_write_1h is None or hour > cache_write):
            return None
        parts = (
            (usage.uncached, self.input),
            (usage.output, self.output),
            (usage.cache_read or 0, self.cached_input),
            (cache_write, self.cache_write),
            (hour, 0 if self.cache_write_1h is None else self.cache_write_1h - self.cache_write),
        )
        if any(tokens is None and price for tokens, price in parts):
            return None
        return sum((tokens or 0) * price for tokens, price in parts)


class Prices:
    """The entries of a configuration, in their order: the first that fits an exchange applies."""

    def __init__(self, entries: Iterable[Price] = (), currency: str = DEFAULT_CURRENCY) -> None:
        self._entries = tuple(entries)
        self.currency = currency
        # The names of a tape's exchanges are few, and each pattern costs microseconds: most look-ups are repeats.
        self._matches = functools.lru_cache(1000)(lambda names: [entry for entry in self._entries if entry.fits(names)])

    def __bool__(self) -> bool:
        return bool(self._entries)

    @property
    def since(self) -> list[str]:
        """The times from which entries apply, in their order: between two of them, prices are constant."""
        return sorted({entry.since for entry in self._entries} - {""})

    def cost(self, names: Names, started_at: str, usage: Usage) -> int | None:
        price = next((entry for entry in self._matches(names) if entry.since <= started_at), None)
        return None if price is None else price.cost(usage)


def entry(values: Mapping[str, object]) -> Price:
    """Read an entry of the configuration. Raises `ValueError`."""
    settings = {name: setting(name, value) for name, value in values.items()}
    if missing := [name for name in ("input", "output") if name not in values]:
        raise ValueError(f"{missing[0]} is missing: the price of {AMOUNTS[missing[0]].partition(';')[0]}")
    return Price(
        tuple((name, settings[name]) for name in PATTERNS if name in settings),
        settings.get("since", ""),
        settings["input"],
        settings["output"],
        settings.get("cached_input", settings["input"]),
        settings.get("cache_write", settings["input"]),
        settings.get("cache_write_1h"),
    )


def setting(name: str, value: object) -> Any:
    """Read the value of a key of an entry. Raises `ValueError`."""
    if name in AMOUNTS:
        number = (
            Decimal(repr(value)) if isinstance(value, int | float) and not isinstance(value, bool) else Decimal("nan")
        )
        if not (number.is_finite() and 0 <= number <= _HIGHEST):
            raise ValueError(f"{name} must be the price of a million tokens, a number from 0 to {_HIGHEST:,}")
        units = number * UNITS / 1_000_000
        if units != units.to_integral_value():
            raise ValueError(f"{name} may have six decimals at most")
        return int(units)
    if name in PATTERNS:
        texts = value if isinstance(value, list) else [value]
        if not texts or not all(isinstance(text, str) and text for text in texts):
            raise ValueError(
                f"{name} must be a text in quotes, in which * stands for anything, or a list of such texts"
            )
        return re.compile("|".join(map(_expression, texts)), re.IGNORECASE | re.DOTALL)
    if name == "since":
        if isinstance(value, datetime):
            moment = value if value.tzinfo else value.replace(tzinfo=UTC)
            return moment.astimezone(UTC).replace(tzinfo=None).isoformat()
        if isinstance(value, date):
            return value.isoformat()
        raise ValueError("since must be a date without quotes, such as 2026-11-21")
    keys = ", ".join((*PATTERNS, *AMOUNTS, "since"))
    raise ValueError(f"{safe(clipped(name, 100))} is not a key of a price: choose from {keys}")


_CURRENCY = re.compile(r"[A-Za-z]{1,8}")


def currency(value: object) -> str:
    if not isinstance(value, str) or not _CURRENCY.fullmatch(value):
        raise ValueError('it must be up to eight letters in quotes, such as "USD"')
    return value


def _expression(text: str) -> str:
    """Return the expression for a text with `*`; the text between two of them is searched without backtracking."""
    start, *parts = map(re.escape, text.split("*"))
    if not parts:
        return start
    *middle, end = parts
    return start + "".join(f"(?>.*?{part})" for part in middle) + f".*{end}"


def _texts(name: str, value: str | None) -> list[str]:
    longest_text = 1000
    if not value or len(value) > longest_text:
        return []
    if name != "upstream":
        return [value]
    try:
        parts = urlsplit(value)
        return [value, *(text for text in (parts.netloc, parts.hostname) if text)]
    except ValueError:
        return [value]
