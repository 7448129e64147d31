"""Costs of exchanges, as SQL functions; the prices are read when a statement first uses them."""

import sqlite3
from typing import Final

from sqlalchemy import Connection

from wiretape.viewer.source.tape.columns import CACHE_TOTAL, COST, CURRENCY
from wiretape.viewer.stats.prices import Names, Prices, usage

ADDITIVE: Final = "reasoning_additive"
"""The flag of usage whose output does not count reasoning."""

MOST_TOKENS: Final = (1 << 52) - 1
"""More are no count."""


class Pricing:
    """Knows the prices for the statements of one engine."""

    def __init__(self) -> None:
        self._prices: Prices | None = None

    def register(self, connection: sqlite3.Connection) -> None:
        """Add the functions to a connection."""
        connection.create_function(COST, 13, self._cost)
        connection.create_function(CURRENCY, 1, self._currency)
        connection.create_function(CACHE_TOTAL, 4, _cache_total, deterministic=True)

    def prepare(self, _connection: Connection, _cursor: object, statement: str, *__: object) -> None:
        """Read the prices before a statement that asks for a cost. Raises `ConfigError`."""
        if self._prices is None and (f"{COST}(" in statement or f"{CURRENCY}(" in statement):
            from wiretape.viewer import config

            self._prices = config.read().prices

    @property
    def _known(self) -> Prices:
        return self._prices or Prices()

    def _currency(self, cost: object) -> str | None:
        """Return the currency of a cost; None if there is no cost, or there are no prices."""
        return self._known.currency if cost is not None and self._known else None

    def _cost(self, *facts: object) -> int | None:
        return cost(self._known, *facts)


def cost(prices: Prices, outcome: object, flags: object, started_at: object, *rest: object) -> int | None:
    """Return the cost of an exchange by prices, given the arguments of `COST`, or None if it is unknown."""
    names, (input, output, reasoning, *cached) = Names(*map(_text, rest[:4])), map(_count, rest[4:])
    if outcome != "complete" or not isinstance(started_at, str):
        return None
    besides = (reasoning or 0) if isinstance(flags, str) and ADDITIVE in flags.split() else 0
    return prices.cost(names, started_at, usage(names.api, input, output, *cached, reasoning_besides=besides))


def _cache_total(api: object, input: object, read: object, write: object) -> int | None:
    known = usage(_text(api), _count(input), None, _count(read), _count(write))
    return None if known.cache_hit_rate is None else known.total_input


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _count(value: object) -> int | None:
    """Return an unchecked cell if it holds a count, or None."""
    return value if isinstance(value, int) and 0 <= value <= MOST_TOKENS else None
