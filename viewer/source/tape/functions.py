"""SQL functions of a connection to a tape: the conversations of its exchanges, their costs, the names of upstreams.

Conversations are derived from all exchanges when a statement first needs them, and updated after that from new and
newly measured exchanges; of an exchange that is not measured yet, only the request is read. Prices are read when a
statement first uses them.
"""

import functools
import json
import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from wiretape.recorder.decode.operation import GENERATIONS, operation, resumed
from wiretape.recorder.tape import reading
from wiretape.recorder.tape.reader import Connection
from wiretape.recorder.tape.selects import case, func, or_, select
from wiretape.recorder.tape.tables import exchanges, measures, sessions
from wiretape.viewer.listing.conversations import ConversationLink, Conversations
from wiretape.viewer.source.base import Version
from wiretape.viewer.source.tape import related
from wiretape.viewer.source.tape.columns import (
    ABOVE,
    CONTINUED,
    CONTINUED_NUMBER,
    CONVERSATION,
    COST,
    CURRENCY,
    JOINED,
    RESOLVED,
    among,
)
from wiretape.viewer.source.tape.following import current_version, unsettled
from wiretape.viewer.stats.prices import Names, Prices, Usage

_LINKS: Final = select(
    exchanges.c.no, exchanges.c.id, measures.c.exchange_no,
    *(measures.c[name] for name in (
        "operation", "conversation_key", "conversation_parent",
    )),
    # A request that continues a response continues the recorded one, and not that of a repetition.
    case((exchanges.c.resent_from.is_(None), measures.c.response_id)),
    *(measures.c[name] for name in (
        "previous_response_id", "messages_hash", "continues_hash", "answer_hash", "continued_answer_hash",
        "retries", "outcome",
    )),
).select_from(JOINED).order_by(exchanges.c.no)  # fmt: skip
_IS_MEASURED: Final = measures.c.exchange_no.is_not(None)
ONLY: Final = "only_of_exchanges"
"""Option of a statement about the conversations of some exchanges only: the numbers of these."""
_HASH: Final = re.compile("[0-9a-f]{8}")
_MOST_OPEN: Final = 1000
"""Maximum number of unmeasured exchanges whose requests are read: the newest."""

ADDITIVE: Final = "reasoning_additive"
"""The flag of usage whose output does not count reasoning."""

MOST_TOKENS: Final = (1 << 52) - 1
"""Limit of a count of tokens; a higher number is not a count."""


def key_marks(connection: Connection) -> Callable[[str], str]:
    """Return the function from the key of a session to the hash that a redacted header has of it on this tape."""
    from wiretape.recorder.tape.redact import Redactor

    salt = connection.execute(select(sessions.c.salt).order_by(sessions.c.no).limit(1)).scalar()
    redactor = Redactor(salt if isinstance(salt, bytes) else b"")

    @functools.lru_cache(maxsize=4096)
    def mark(key: str) -> str:
        return key if _HASH.fullmatch(key) else redactor.mark(key).rpartition(":")[2]

    return mark


class Resolver:
    """Knows the conversations of the tape of one engine; `conversations` are as they were when last asked for."""

    def __init__(self) -> None:
        self.conversations = Conversations()
        self._mark_of_key: Callable[[str], str] = str
        self._version: Version | None = None
        self._part: tuple[Version, frozenset[int]] | None = None
        """The numbers of the exchanges that are known, if those are not all of the tape, and its version then."""
        self._newest = 0
        self._open: set[int] = set()
        """Numbers of exchanges that were not measured yet."""
        self._read: set[int] = set()
        """Those of them whose requests were complete when read: they are not read again."""

    def register(self, connection: sqlite3.Connection) -> None:
        """Add the functions to a connection."""
        connection.create_function(CONVERSATION, 1, lambda no: self.conversations.name(no))
        connection.create_function(ABOVE, 1, lambda no: self.conversations.above(no))
        connection.create_function(CONTINUED_NUMBER, 1, lambda no: self.conversations.continued(no))
        connection.create_function(CONTINUED, 1, lambda no: self.conversations.id(self.conversations.continued(no)))
        connection.create_function(RESOLVED, 0, lambda: json.dumps(self.conversations.numbers()))
        connection.create_function(
            related.KEY_MARK, 1, lambda key: None if key is None else self._mark_of_key(text_of(key) or "")
        )

    def prepare(self, connection: Connection, statement: str, options: Mapping[str, Any]) -> None:
        """Update the links before a statement that uses them, in the same transaction."""
        if any(f"{function}(" in statement for function in (CONVERSATION, CONTINUED, ABOVE, CONTINUED_NUMBER)):
            self.update(connection, options.get(ONLY))

    def update_around(self, connection: Connection, seeds: tuple[int, ...]) -> frozenset[int] | None:
        """Read the exchanges related to some, within a transaction, and return their numbers.

        None if all of the tape have to be read, or are known already.
        """
        version = current_version(connection)
        if self._part is not None and self._part[0] == version and self._part[1].issuperset(seeds):
            return self._part[1]
        if self._version is not None:
            return None
        self._mark_of_key = key_marks(connection)
        links = self._unmeasured(connection, seeds)
        if links is None or (numbers := related.numbers(connection, seeds, links, self._mark_of_key)) is None:
            return None
        links += map(_measured_link, connection.fetch(_LINKS.where(among(numbers), _IS_MEASURED)))
        self.conversations = Conversations(sorted(links), self._mark_of_key)
        self._part = version, frozenset(link.no for link in links)
        return self._part[1]

    def _unmeasured(self, connection: Connection, seeds: tuple[int, ...]) -> list[ConversationLink] | None:
        """Read the links of the unmeasured exchanges, unless the only seed is measured; None if they are too many."""
        unmeasured = unsettled(connection)
        if len(seeds) == 1 and seeds[0] not in unmeasured:
            return []
        if len(unmeasured) > _MOST_OPEN:
            return None
        return [self._asked(connection, number) for number in unmeasured]

    def update(self, connection: Connection, seeds: tuple[int, ...] | None = None) -> None:
        """Read the changes, within a transaction; where not all of the tape are known yet, those around some."""
        version = current_version(connection)
        if version == self._version or (seeds is not None and self.update_around(connection, seeds) is not None):
            return
        if self._part is not None:
            self.conversations, self._part = Conversations(), None
        total = connection.execute(select(func.count()).select_from(exchanges)).scalar_one()
        if not self.conversations:
            self._mark_of_key = key_marks(connection)
            # Those around some exchanges may have been read, and left out as too many.
            self.conversations, self._read = Conversations(mark_of_key=self._mark_of_key), set()
        is_new = or_(exchanges.c.no > self._newest, among(self._open))
        rows = connection.fetch(_LINKS.where(is_new) if self.conversations else _LINKS)
        new = sum(no > self._newest for no, *_ in rows)
        if len(self.conversations) + new != total:  # some were deleted
            self.conversations, self._newest, self._open, self._read = (
                Conversations(mark_of_key=self._mark_of_key),
                0,
                set(),
                set(),
            )
            rows = connection.fetch(_LINKS)
        self._take(connection, rows)
        self._version = version

    def _take(self, connection: Connection, rows: list[tuple[Any, ...]]) -> None:
        unmeasured = [no for no, _, measured, *_ in rows if measured is None]
        self._open, read_numbers = set(unmeasured), set(unmeasured[-_MOST_OPEN:])
        for row in rows:
            no, id, measured = row[:3]
            if measured is not None:
                self.conversations.put(_measured_link(row))
            elif no not in self._read:
                self.conversations.put(self._asked(connection, no) if no in read_numbers else ConversationLink(no, id))
        self._newest = max([self._newest, *(no for no, *_ in rows)])
        self._read &= self._open

    def _asked(self, connection: Connection, no: int) -> ConversationLink:
        """Read an unmeasured exchange's ties to others: all but its answer."""
        if reading.row_of(connection, no).request_truncated is not None:
            self._read.add(no)
        return _unmeasured_link(connection, no)


def begun(connection: Connection, no: int) -> dict[str, str | None]:
    """Return the conversation fields of an exchange that begins its conversation, from its own row; else {}."""
    row = connection.execute(_LINKS.where(exchanges.c.no == no)).one()
    link = _unmeasured_link(connection, no) if row.exchange_no is None else _measured_link(row)
    if not link.begins:
        return {}
    return {"conversation": link.id if link.is_turn else None, "continues": None}


def _measured_link(row: Sequence[Any]) -> ConversationLink:
    """Return the link of a measured exchange, from its row of `_LINKS`."""
    no, id, _, operation_name, *link_facts, outcome = row
    return ConversationLink(no, id, operation_name in GENERATIONS, outcome != "complete", *link_facts)


def _unmeasured_link(connection: Connection, no: int) -> ConversationLink:
    """Read the link of an exchange from its request."""
    from wiretape.recorder.decode.conversation import RecordedRequest, belonging, resent
    from wiretape.recorder.decode.sessions import session_named

    row = reading.row_of(connection, no)
    exchange = reading.exchange_of(row)
    operation_name = operation(exchange)
    request = RecordedRequest(row.request_headers or [], reading.request_body(connection, no))
    of_answer = resumed(exchange), session_named(exchange.path)
    belonging_values = (
        belonging(request, operation_name, None, None, *of_answer)
        if exchange.resent_from is None
        else resent(exchange.resent_in)
    )
    fact_by_field = {
        "key": "conversation_key", "parent_key": "conversation_parent", "previous_response_id": "previous_response_id",
        "messages": "messages_hash", "continues": "continues_hash", "continued_answer": "continued_answer_hash",
        "retries": "retries",
    }  # fmt: skip
    link_facts: dict[str, Any] = {name: belonging_values.get(field) for name, field in fact_by_field.items()}
    return ConversationLink(row.no, row.id, operation_name in GENERATIONS, **link_facts)


class Pricing:
    """Knows the prices for the statements of one engine."""

    def __init__(self) -> None:
        self._prices: Prices | None = None

    def register(self, connection: sqlite3.Connection) -> None:
        connection.create_function(COST, 13, lambda *facts: cost_of(self._read_prices, *facts))
        connection.create_function(CURRENCY, 1, self._currency)

    def prepare(self, _connection: Connection, statement: str, _options: object) -> None:
        """Read the prices before a statement that asks for a cost. Raises `ConfigError`."""
        if self._prices is None and (f"{COST}(" in statement or f"{CURRENCY}(" in statement):
            from wiretape.viewer import config

            self._prices = config.read().prices

    @property
    def _read_prices(self) -> Prices:
        return self._prices or Prices()

    def _currency(self, cost: object) -> str | None:
        """Return the currency of a cost; None if there is no cost, or there are no prices."""
        return self._read_prices.currency if cost is not None and self._read_prices else None


def cost_of(prices: Prices, *facts: object) -> int | None:
    """Return the cost of an exchange by prices, given the arguments of `COST`, or None if it is unknown."""
    outcome, flags, started_at, *names = map(text_of, facts[:7])
    uncached, output, reasoning, *cached = map(_count, facts[7:])
    if outcome != "complete" or started_at is None:
        return None
    if output is not None and flags is not None and ADDITIVE in flags.split():
        output += reasoning or 0
    return prices.cost(Names(*names), started_at, Usage(uncached, output, *cached))


def text_of(value: object) -> str | None:
    """Return a text that a statement gives as it is, or `as_blob`; None for other values."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, str) else None


def _count(value: object) -> int | None:
    """Return an unchecked cell if it holds a count, or None."""
    return value if isinstance(value, int) and 0 <= value <= MOST_TOKENS else None
