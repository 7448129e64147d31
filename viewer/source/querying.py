"""Questions that any engine answers which runs the statements for tapes: a tape, or a server with its columns.

An engine of its own is a `Queried` over a connection that writes the statements in its dialect; what it needs of them
is imported from here, and from `grouping` for figures: `wiretape.viewer.source.tape` is this folder's own.
"""

import itertools
from collections.abc import Collection, Iterator, Sequence
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

from wiretape.recorder.clock import Clock
from wiretape.recorder.decode.stalls import Thresholds
from wiretape.recorder.tape.reader import Connection
from wiretape.recorder.tape.tables import COVERED, exchanges
from wiretape.viewer.record.rows import ConversationRow, TableRow
from wiretape.viewer.source import base
from wiretape.viewer.source.base import ALL, Selection
from wiretape.viewer.source.tape import conditions, live, queries
from wiretape.viewer.source.tape.columns import (
    ABOVE,
    BILLED,
    CONTINUED,
    CONVERSATION,
    COST,
    COST_TYPE,
    CURRENCY_TYPE,
    JOINED,
    OF_SESSION,
    Statement,
    among,
    cache_total,
    column,
    flagged,
)
from wiretape.viewer.source.tape.conditions import Condition
from wiretape.viewer.source.tape.functions import ADDITIVE, MOST_TOKENS, cost_of
from wiretape.viewer.source.tape.live import HAS_STALL, MOST_GAPS, row_of, short_columns, without_texts
from wiretape.viewer.source.tape.queries import filtered, in_batches, numbered

if TYPE_CHECKING:
    from wiretape.recorder.decode.causes import Ending
    from wiretape.viewer.sessions.account import Account
    from wiretape.viewer.sessions.exchanges import SessionExchange
    from wiretape.viewer.source.stored import StoredExchange
    from wiretape.viewer.stats.summary import Sample
    from wiretape.viewer.stats.timeouts import StoredSilences
    from wiretape.viewer.stats.trend import Trend

__all__ = [
    "ABOVE", "ADDITIVE", "BILLED", "CONTINUED", "CONVERSATION", "COST", "COST_TYPE", "CURRENCY_TYPE",
    "HAS_STALL", "JOINED", "MOST_GAPS", "MOST_TOKENS", "OF_SESSION", "Condition", "Queried", "Statement",
    "cache_total", "column", "condition", "cost_of", "filtered", "flagged", "in_batches", "numbered", "row_of",
    "short_columns", "without_texts",
]  # fmt: skip


def condition(selection: Selection) -> Condition | None:
    """Return a selection as the condition of a statement; None for all exchanges."""
    parts: list[Condition] = []
    if selection.numbers is not None:
        parts.append(among(selection.numbers))
    if selection.first is not None:
        parts.append(exchanges.c.no >= selection.first)
    if selection.filter is not None:
        parts.append(conditions.condition(selection.filter))
    if selection.generations:
        parts.append(COVERED)
    if selection.bytes:
        parts.append(queries.has_bytes())
    return reduce(and_, parts) if parts else None


class Queried(base.Browsed):
    """A source whose questions are statements over the tables of a tape."""

    def __init__(self, place: base.Place, connection: Connection) -> None:
        self._place, self.connection = place, connection

    def _tape(self, capability: base.Capability, asked: str = "") -> Connection:
        """Return the connection for a question that only tapes answer. Raises `Unsupported`."""
        self._place.require(capability, asked)
        return self.connection

    def count(self, selection: Selection = ALL) -> int:
        return queries.count(self.connection, condition(selection))

    def numbers(self, selection: Selection = ALL, limit: int | None = None) -> list[int]:
        numbers = queries.numbers(self.connection, condition(selection), newest_first=True)
        return list(itertools.islice(numbers, limit))

    def rows(
        self,
        fields: tuple[str, ...],
        selection: Selection = ALL,
        *,
        order: base.Order | None = None,
        newest_first: bool = False,
        limit: int | None = None,
    ) -> Iterator[TableRow]:
        where = condition(selection)
        if order is None:
            return queries.exchanges(self.connection, fields, newest_first=newest_first, limit=limit, where=where)
        return queries.ordered(self.connection, fields, order[0], descending=order[1], limit=limit, where=where)

    def gaps(self, ids: Sequence[str]) -> dict[str, bytes]:
        return dict(queries.packed_gaps(self.connection, column("id").in_(ids)))

    def find(self, reference: str) -> int:
        return self.referred(reference)[0]

    def referred(self, reference: str) -> list[int]:
        if not base.names_session(reference):
            return [queries.find(self.connection, reference)]
        from wiretape.viewer.source.tape import sessions

        key = self.session(reference)
        return sessions.numbers(self.connection, key)

    def session(self, reference: str) -> str:
        from wiretape.viewer.source.tape import sessions

        return sessions.find(self._tape("conversations", reference), reference)

    def accounts(self, selection: Selection, limits: Thresholds, clock: Clock) -> "Iterator[tuple[str, Account]]":
        from wiretape.viewer.source.tape import sessions

        return sessions.accounts(self._tape("conversations"), limits, clock, condition(selection))

    def sessions(
        self, selection: Selection, limits: Thresholds, clock: Clock, limit: int | None = None
    ) -> list[TableRow]:
        from wiretape.viewer.source.tape import sessions

        return sessions.listed(self._tape("conversations"), limits, clock, condition(selection), limit)

    def members(
        self, keys: Collection[str], limits: Thresholds, clock: Clock, selection: Selection = ALL
    ) -> "Iterator[tuple[str, list[SessionExchange]]]":
        from wiretape.viewer.source.tape import sessions

        return sessions.members(self._tape("conversations"), limits, clock, condition(selection), keys)

    def without_session(self, selection: Selection) -> int:
        from wiretape.viewer.source.tape import conversations

        return conversations.left_out(self._tape("conversations"), condition(selection))

    def table(self, name: base.BodyTable, selection: Selection) -> Iterator[TableRow]:
        tables = {"chunks": queries.all_chunks, "reads": queries.all_reads, "turns": queries.all_turns}
        return tables[name](self._tape("bodies"), condition(selection))

    def exchange(self, number: int) -> "StoredExchange":
        from wiretape.viewer.source.stored import StoredExchange

        return StoredExchange(self._place, self.connection, number)

    def columns(self, fields: Sequence[str], selection: Selection, most: int, most_gaps: int) -> base.Columns:
        from wiretape.viewer.source.tape import run

        return run.columns(self._tape("bodies"), fields, condition(selection), most, most_gaps)

    def outputs(self, numbers: Sequence[int], most: int) -> dict[int, base.OutputText]:
        from wiretape.viewer.source.tape import run

        return run.outputs(self._tape("bodies"), numbers, most)

    def trend(self, selection: Selection, room: int) -> "Trend | None":
        from wiretape.viewer.source.tape import overview

        return overview.trend(self._tape("bodies"), room, condition(selection))

    def conversations(self, selection: Selection) -> list[ConversationRow]:
        from wiretape.viewer.source.tape import conversations

        return conversations.listed(self._tape("conversations"), condition(selection))

    def cache_verdicts(self, keys: Collection[str], selection: Selection) -> dict[str, dict[str, int]]:
        from wiretape.viewer.source.tape import sessions

        return sessions.verdicts(self._tape("conversations"), condition(selection), keys)

    def samples(
        self, selection: Selection, by: Sequence[str] = (), *, include_failed: bool = False, gaps: bool = False
    ) -> "list[Sample]":
        from wiretape.viewer.source.tape import overview

        return overview.samples(
            self.connection,
            by,
            condition(selection),
            include_failed=include_failed,
            gaps=gaps,
            has_sessions=self._place.supports("conversations"),
        )

    def silences(self, by: str | None, selection: Selection) -> "dict[Any, StoredSilences]":
        from wiretape.viewer.source.tape import overview

        return overview.silences(self.connection, by, condition(selection))

    def left_out(self, selection: Selection) -> dict[str, int]:
        from wiretape.viewer.source.tape import overview

        return overview.left_out(self.connection, condition(selection))

    def ids(self, numbers: Sequence[int]) -> dict[int, str]:
        return {no: row["id"] for no in numbers for row in queries.numbered(self.connection, ("id",), [no])}

    def values(self, field: str) -> list[str]:
        return live.values(self.connection, field)

    def failures(self, selection: Selection) -> list[base.Failures]:
        from wiretape.viewer.source.tape import overview

        return overview.failures(self.connection, condition(selection))

    def endings(self, selection: Selection) -> "dict[Ending, int]":
        from wiretape.viewer.source.tape import overview

        return overview.endings(self.connection, condition(selection))
