"""SQL functions of a connection to a tape: verdicts about the cache, turns, duplicates (`wiretape.viewer.sessions`).

They need all generations of a session, and are computed when a statement first uses them; after that, only for sessions
with new exchanges.
"""

import functools
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from wiretape.recorder.decode.exchange import FAILURES, Outcome
from wiretape.recorder.decode.operation import GENERATIONS
from wiretape.recorder.facts import ClockName
from wiretape.recorder.tape.reader import Connection
from wiretape.recorder.tape.selects import case, select
from wiretape.recorder.tape.tables import exchanges, measures, sessions
from wiretape.viewer.sessions import cache
from wiretape.viewer.sessions.axis import IMPORTED, placed
from wiretape.viewer.sessions.cache import Prompted
from wiretape.viewer.sessions.duplicates import SentRequest, duplicates
from wiretape.viewer.sessions.predecessors import Generation, Tie, ties, turn_numbers
from wiretape.viewer.source.base import Version
from wiretape.viewer.source.tape.columns import BOOT, JOINED, OF_SESSION, PREDECESSOR, among, column
from wiretape.viewer.source.tape.following import current_version
from wiretape.viewer.source.tape.functions import ONLY, Resolver

_ASKED: Final = (
    select(
        exchanges.c.no, exchanges.c.started_at, BOOT, exchanges.c.boot_ns, exchanges.c.clock, exchanges.c.upstream,
        column("model"),
        *(measures.c[name] for name in (
            "api", "outcome", "prompt_elements", "response_id", "previous_response_id", "retries", "input_tokens",
            "cache_read_input_tokens", "messages_hash", "answer_hash", "continues_hash", "continued_answer_hash",
        )),
        exchanges.c.id, exchanges.c.path, case((exchanges.c.request_size > 0, exchanges.c.request_sha256)),
    )
    .select_from(JOINED.join(sessions, sessions.c.no == exchanges.c.session_no))
    .where(measures.c.operation.in_(GENERATIONS), exchanges.c.resent_from.is_(None))  # repetitions have no turn
    .order_by(exchanges.c.no)
)  # fmt: skip


def tied(connection: Connection, sessions: Mapping[int, str]) -> dict[int, Tie]:
    """Return the ties of the measured generations among some exchanges, by their numbers.

    `sessions` maps the number of each exchange to its session.
    """
    with connection.begin():
        rows = connection.fetch(_ASKED.where(among(sessions)))
    tie_by_no: dict[int, Tie] = {}
    for session_rows in _by_session(rows, sessions):
        tie_by_no |= ties(prompted.generation for prompted in _prompted(session_rows))
    return tie_by_no


class Caching:
    """Knows the verdicts of the tape of one engine, by the conversations of its `resolver`."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver
        self._figures: dict[int, tuple[str | int | None, ...]] = {}
        self._predecessors: dict[int, int | None] = {}
        self._version: Version | None = None
        self._session_by_no: dict[int, str | None] = {}
        """The sessions of the measured exchanges, by their numbers."""
        self._part: tuple[Version, frozenset[int]] | None = None
        """The exchanges of the only session that is judged, if not all are, and the version of the tape then."""

    def register(self, connection: sqlite3.Connection) -> None:
        """Add the functions to a connection."""
        for place, name in enumerate(OF_SESSION.values()):
            connection.create_function(name, 1, functools.partial(self._figure, place))
        connection.create_function(PREDECESSOR, 1, lambda no: self._predecessors.get(no, 0))

    def _figure(self, place: int, no: int) -> str | int | None:
        return self._figures[no][place] if no in self._figures else None

    def prepare(self, connection: Connection, statement: str, options: Mapping[str, Any]) -> None:
        """Update the verdicts before a statement that uses them, in the same transaction."""
        if not any(f"{function}(" in statement for function in (*OF_SESSION.values(), PREDECESSOR)):
            return
        numbers, version = options.get(ONLY), current_version(connection)
        no = numbers[0] if numbers is not None and len(numbers) == 1 else None
        if version == self._version or (self._part is not None and self._part[0] == version and no in self._part[1]):
            return
        if no is not None:
            related: Iterable[int] | None = self._resolver.update_around(connection, (no,))
            if related is None:  # too many are related: all are resolved, and one session is judged all the same
                self._resolver.update(connection)
                related = self._resolver.conversations.numbers()
            self._part = version, self._judge_session_of(connection, no, related)
            return
        self._resolver.update(connection)
        self._update(connection)
        self._version = version

    def _judge_session_of(self, connection: Connection, no: int, numbers: Iterable[int]) -> frozenset[int]:
        """Judge the session of one exchange, given all that are related to it; return the numbers of its exchanges."""
        name = self._resolver.conversations.name
        session = name(no)
        members = {number: session for number in numbers if name(number) == session}
        self._judge(_by_session(connection.fetch(_ASKED.where(among(members))), members))
        return frozenset((no, *members))

    def _update(self, connection: Connection) -> None:
        name = self._resolver.conversations.name
        measured = connection.execute(select(measures.c.exchange_no)).scalars().all()
        sessions = {no: name(no) for no in measured}
        differing = [no for no, session in sessions.items() ^ self._session_by_no.items() if session is not None]
        changed = {sessions.get(no, self._session_by_no.get(no)) for no in differing}
        affected = [no for no, session in sessions.items() if session in changed]
        if affected:
            few = _ASKED.where(among(affected)) if len(affected) < len(sessions) else _ASKED
            self._judge(_by_session(connection.fetch(few), sessions))
        self._session_by_no = sessions

    def _judge(self, sessions: Iterable[Sequence[Sequence[Any]]]) -> None:
        """Keep the figures of some sessions, as plain tuples, which the garbage collector need not visit."""
        for session_rows in sessions:
            generations = _prompted(session_rows)
            tie_by_no = ties(prompted.generation for prompted in generations)
            figures = cache.figures(generations, tie_by_no)
            turns = turn_numbers((prompted.generation for prompted in generations), tie_by_no)
            ids = {no: id for no, *_, id, _, _ in session_rows}
            contents = {no: (path, sha256) for no, *_, path, sha256 in session_rows if sha256 is not None}
            upstreams = {row[0]: row[5] for row in session_rows}
            earlier_by_no = duplicates(
                SentRequest(prompted.start_ns, no, contents[no], upstreams[no], prompted.generation.response_id)
                for prompted in generations
                if prompted.succeeded and (no := prompted.generation.no) in contents
            )
            self._figures |= {
                no: (*figures.get(no, cache.NONE), turns[no], ids.get(earlier_by_no.get(no, 0))) for no in tie_by_no
            }
            self._predecessors |= {no: tie.predecessor if tie.is_known else 0 for no, tie in tie_by_no.items()}


def _by_session(rows: Iterable[Sequence[Any]], sessions: Mapping[int, str | None]) -> Iterable[Sequence[Sequence[Any]]]:
    """Return the rows of each session."""
    rows_by_session: dict[str, list[Sequence[Any]]] = {}
    for row in rows:
        if (session := sessions.get(row[0])) is not None:
            rows_by_session.setdefault(session, []).append(row)
    return rows_by_session.values()


class _Began(NamedTuple):
    """The T0 of an exchange, as `axis.placed` reads it."""

    started_at: str
    boot: str | None
    boot_ns: int | None
    clock: ClockName | None

    @property
    def is_imported(self) -> bool:
        return self.clock in IMPORTED


def _prompted(rows: Sequence[Sequence[Any]]) -> list[Prompted]:
    """Return the generations of a session in the order of their starts: several recorders number as they write."""
    starts, _ = placed(_Began(*row[1:5]) for row in rows)
    generations = [_generation(start_ns, row[0], *row[5:-3]) for start_ns, row in zip(starts, rows, strict=True)]
    return sorted(generations, key=attrgetter("start_ns"))


def _generation(
    start_ns: int, no: int, upstream: str, model: str | None, api: str | None, outcome: Outcome, elements: bytes | None,
    response_id: str | None, previous_id: str | None, retries: int | None, input: int | None, cached: int | None,
    *hashes: str | None,
) -> Prompted:  # fmt: skip
    from wiretape.recorder.decode.elements import unpack

    prefix = unpack(elements)
    messages = None if prefix is None else prefix.messages
    by_model, head = (prefix.by_model, prefix.leading) if prefix is not None else (False, b"")
    answers = (None if answer is None else f"{request} {answer}" for request, answer in (hashes[:2], hashes[2:]))
    service = _service(upstream)
    return Prompted(
        Generation(
            no, messages, by_model, outcome in FAILURES, response_id, previous_id, retries, head, model, *answers
        ),
        prefix,
        start_ns,
        outcome == "complete",
        cache.provider_of(service, api, model),
        model,
        input,
        cached,
        service == "anthropic",
    )


@functools.lru_cache(maxsize=256)
def _service(upstream: str) -> str | None:
    """Return the name of the API that an upstream's host serves."""
    from wiretape.recorder.relay.apis import at_host

    try:
        api = at_host(urlsplit(upstream).hostname or "")
    except ValueError:  # the cell is damaged
        return None
    return api.name if api else None
