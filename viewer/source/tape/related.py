"""The exchanges of a tape that can be part of one conversation, found by indexes without reading any other.

An exchange can belong to those with its key, to the ones that it looks for, and to the ones that look for it, as
`wiretape.viewer.listing.conversations` ties exchanges; these again to others. Each has the same place among all of them
as among all exchanges of the tape.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from wiretape.recorder.tape.reader import Connection
from wiretape.viewer.listing.conversations import ConversationLink

LEAST_LIMIT: Final = 1000
"""Number of related exchanges and ties that may be many for their tape, as after a load test of one dialogue."""
_SHARE: Final = 10
"""Following ties stops at one related exchange in ten: from there on, reading the whole tape takes no longer."""

KEY_MARK: Final = "mark_of_key"
"""SQL function (`functions`): the hash that a redacted header has of a key."""

# The function gets keys as bytes: see `selects.as_blob`.
_MARK_OF_A, _MARK_OF_B, _MARK_OF_X = (
    f"{KEY_MARK}(CAST({key} AS BLOB))" for key in ("a.conversation_key", "b.conversation_key", "x")
)

# A tie that an exchange looks for leads to those that it finds, and a tie by which it is found to those that look for
# it: many equal first requests that nothing continues stay apart.
_TIES: Final = {
    "key": ("a.conversation_key", "NULL"),
    "parent": ("a.conversation_parent", "NULL"),
    "response": ("a.previous_response_id", "NULL"),
    "after response": ("a.response_id", "NULL"),
    "messages": ("a.continues_hash", _MARK_OF_A),
    "after messages": ("a.messages_hash", _MARK_OF_A),
    "answer": ("a.continues_hash", "a.continued_answer_hash"),
    "after answer": ("a.messages_hash", "a.answer_hash"),
    "failed": ("CASE WHEN a.retries > 0 THEN a.messages_hash END", _MARK_OF_A),
    "retried": ("CASE WHEN a.outcome <> 'complete' THEN a.messages_hash END", _MARK_OF_A),
}
"""The values of an exchange's row by which others are tied to it."""
_TIED: Final = {
    "key": f"b.conversation_key IN (x, {_MARK_OF_X}) OR b.conversation_parent IN (x, {_MARK_OF_X})",
    "parent": f"b.conversation_key IN (x, {_MARK_OF_X})",
    "response": "b.response_id = x",
    "after response": "b.previous_response_id = x",
    "messages": f"b.messages_hash = x AND {_MARK_OF_B} IS y",
    "after messages": f"b.continues_hash = x AND {_MARK_OF_B} IS y",
    "answer": "b.messages_hash = x AND b.answer_hash = y",
    "after answer": "b.continues_hash = x AND b.continued_answer_hash = y",
    "failed": f"b.messages_hash = x AND b.outcome <> 'complete' AND {_MARK_OF_B} IS y",
    "retried": f"b.messages_hash = x AND b.retries > 0 AND {_MARK_OF_B} IS y",
}
"""The exchanges that a tie leads to, by its two values."""


def _case(place: int) -> str:
    return (
        f"CASE kinds.kind {' '.join(f'''WHEN '{kind}' THEN {values[place]}''' for kind, values in _TIES.items())} END"
    )


_FROM_TIES: Final = " ".join(
    f"UNION SELECT b.exchange_no, NULL, NULL, NULL FROM related CROSS JOIN measures b ON {tied} WHERE kind = '{kind}'\n"
    for kind, tied in _TIED.items()
)
_RELATED: Final = f"""
WITH RECURSIVE
kinds(kind) AS (VALUES {", ".join(f"('{kind}')" for kind in _TIES)}),
related(no, kind, x, y) AS (
  SELECT value, NULL, NULL, NULL FROM json_each(?)
  UNION SELECT NULL, value ->> 0, value ->> 1, value ->> 2 FROM json_each(?)
  UNION SELECT NULL, kinds.kind, {_case(0)}, {_case(1)}
    FROM related CROSS JOIN measures a ON a.exchange_no = related.no CROSS JOIN kinds WHERE {_case(0)} IS NOT NULL
  {_FROM_TIES}
  LIMIT ?
)
SELECT related.no, m.conversation_key FROM related LEFT JOIN measures m ON m.exchange_no = related.no"""

# Each step of the recursion looks for the next key in the index.
_PLAIN_KEYS: Final = f"""
WITH RECURSIVE each(key) AS (
  SELECT min(conversation_key) FROM measures WHERE conversation_key IS NOT NULL
  UNION ALL SELECT (SELECT min(conversation_key) FROM measures WHERE conversation_key > key) FROM each
    WHERE key IS NOT NULL
)
SELECT key FROM each WHERE key NOT GLOB '{"[0-9a-f]" * 8}'"""


def ties_of(link: ConversationLink, marked: Callable[[str], str]) -> Iterator[tuple[str, str, str | None]]:
    """Yield the ties that an exchange without measures looks for: the kind of each, and its values."""
    mark = None if link.key is None else marked(link.key)
    plain = {"key": link.key, "parent": link.parent_key, "response": link.previous_response_id}
    yield from ((kind, value, None) for kind, value in plain.items() if value is not None)
    if link.continues is not None:
        yield "messages", link.continues, mark
        if link.continued_answer is not None:
            yield "answer", link.continues, link.continued_answer
    if link.retries and link.messages is not None:
        yield "failed", link.messages, mark


def numbers(
    connection: Connection, seeds: Sequence[int], links: Sequence[ConversationLink], marked: Callable[[str], str]
) -> list[int] | None:
    """Return the numbers of the measured exchanges related to some, within a transaction; None if they are too many.

    `links` are those of exchanges without measures, which have to be among them. A key may be on the tape as it is, and
    as its hash in a redacted header: `marked` returns that hash.
    """
    newest = connection.exec_driver_sql("SELECT max(no) FROM exchanges").scalar() or 0
    most = max(LEAST_LIMIT, newest // _SHARE)
    first_seeds, ties = seeds, [tie for link in links for tie in ties_of(link, marked)]
    while True:
        rows = connection.exec_driver_sql(_RELATED, (json.dumps(seeds), json.dumps(ties), most)).all()
        if len(rows) == most:
            return None
        # A damaged cell may hold anything: only a text is a key.
        keys = {key for _, key in rows if isinstance(key, str)}.union(
            x for kind, x, _ in ties if kind in ("key", "parent")
        )
        hashed = {key for key in keys if marked(key) == key}
        plain = connection.exec_driver_sql(_PLAIN_KEYS).scalars() if hashed else ()
        if not (
            more_keys := [key for key in plain if isinstance(key, str) and key not in keys and marked(key) in hashed]
        ):
            return sorted({number for number, _ in rows if number is not None})
        owners = "SELECT exchange_no FROM measures WHERE conversation_key IN (SELECT value FROM json_each(?))"
        seeds = [*first_seeds, *connection.exec_driver_sql(owners, (json.dumps(more_keys),)).scalars()]
