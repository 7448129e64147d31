"""Following a server: the exchanges that arrive there, polled by key, in batches."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from sqlalchemy import Connection, and_, select

from wiretape.recorder.clock import SYSTEM, Clock
from wiretape.recorder.tape.schema import exchanges
from wiretape.viewer.rows import TableRow
from wiretape.viewer.source.tape import queries
from wiretape.viewer.source.tape.conditions import Condition

POLL_SECONDS: Final = 2.0
LATEST_SECONDS: Final = 3600
"""Exchanges that began longer ago are not looked for."""


def arrived(
    connection: Connection,
    fields: tuple[str, ...],
    where: Condition | None = None,
    *,
    last: int = 10,
    wait: Callable[[], None],
    clock: Clock = SYSTEM,
) -> Iterator[list[TableRow]]:
    """Yield the newest `last`, then, for ever, those that arrive; each once, those of a batch as they began.

    What began within the last hour, by the clock of this machine, is looked for. `wait` is called before each time.
    """
    seen = set(_numbers(connection, _since(clock, where)))
    newest = list(_numbers(connection, where, newest_first=True, limit=last))[::-1]
    seen |= set(newest)
    yield list(_rows(connection, fields, newest))
    while True:
        wait()
        recent = _since(clock, where)
        if new := [no for no in _numbers(connection, recent) if no not in seen]:
            seen = {no for no in seen if no >= _first(clock)} | set(new)
            yield list(_rows(connection, fields, new))


def _first(clock: Clock) -> str:
    return clock.wall(clock.wall_ns() - LATEST_SECONDS * 10**9)


def _since(clock: Clock, where: Condition | None) -> Condition:
    recent = exchanges.c.started_at >= _first(clock)
    return recent if where is None else and_(where, recent)


def _numbers(connection: Connection, where: Condition | None, **order: Any) -> Iterator[str]:
    """Yield the server's numbers of exchanges: start time and id."""
    for batch in queries.in_batches(
        connection, select(exchanges.c.no), where, fetch=lambda centre, numbers: centre.execute(numbers).all(), **order
    ):
        yield from (no for (no,) in batch)


def _rows(connection: Connection, fields: tuple[str, ...], numbers: list[str]) -> Iterator[TableRow]:
    if numbers:
        began = exchanges.c.started_at >= min(numbers).partition(" ")[0]
        yield from queries.numbered(connection, fields, numbers, began)  # type: ignore[arg-type]
