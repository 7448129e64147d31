"""What the list asks of a tape, each as a question for `TapeReader`: it runs in the tape's thread.

The database library is imported there, beside the first frame. The SELECTs are those of `watching` and `queries`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal

from recorder.clock import Clock
from recorder.decode.stalls import Thresholds
from recorder.errors import NotFound, WiretapeError
from viewer.filters.completion import FROM_TAPE
from viewer.filters.syntax import Filter
from viewer.model.listing import notices
from viewer.model.listing.catalog import PAGE
from viewer.model.listing.notices import Term
from viewer.model.text import curl
from viewer.rows import Row
from viewer.tape.decoder import LARGE
from viewer.timing.verdicts import Verdict

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from viewer.filters.sql import Condition
    from viewer.tape.live import Change, Seen

Order = tuple[str, bool]
"""A field of a row, and whether the largest come first."""

_ASCENDING: Final = frozenset({"model", "upstream", "path", "outcome", "flags", "status"})
_BY_TIME: Final = ("started_at", True)
_FROM_THE_START: Final = frozenset({"started_at", "upstream", "path"})


Copied = Literal["curl", "text", "SSE", "tool arguments"]
COPIED: Final[dict[Copied, str]] = {
    "curl": "its request, as a command",
    "text": "the content, assembled",
    "SSE": "the answer, as it came",
    "tool arguments": "of its calls, assembled",
}
"""The parts of an exchange that can be copied, and what each is."""

MOST_COPIED: Final = 8 << 20
"""No longer answer, in bytes, goes to a clipboard."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the list is to show: a filter and an order; None is everything, the newest first.

    `text` is the filter as people wrote it, as far as that goes on to mean the same.
    """

    filter: Filter | None = None
    order: Order | None = None
    text: str = ""

    def by(self, field: str) -> "Wanted":
        """Give the same in the order of a field; where that is its order already, the other way round."""
        now = self.order or _BY_TIME
        order = (field, not now[1] if field == now[0] else field not in _ASCENDING)
        return replace(self, order=None if order == _BY_TIME else order)

    @property
    def settles(self) -> bool:
        """Whether an exchange's place is only known when it has ended."""
        return self.order is not None and self.order[0] not in _FROM_THE_START

    def reversed(self) -> "Wanted":
        """Give the same the other way round."""
        return self.by((self.order or _BY_TIME)[0])


@dataclass(frozen=True, slots=True)
class Loaded:
    """A list: the numbers in their order, how long it took to find them, the first rows, and the state of the tape.

    `ids` are those of the exchanges that were asked about, `started` is when the first and the last began.
    """

    numbers: list[int]
    took_ns: int
    rows: list[Row]
    change: "Change"
    ids: dict[int, str]
    started: tuple[str, str] | None


@dataclass(frozen=True, slots=True)
class Known:
    """What a filter can be completed with: the values of fields on the tape, and what fields mean."""

    values: Mapping[str, Sequence[str]] = field(default_factory=dict)
    meanings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Previewed:
    """An exchange, and the verdicts on it, where it was short enough to be judged in passing."""

    row: Row | None
    verdicts: list[Verdict] = field(default_factory=list)


def load(wanted: Wanted, clock: Clock, known: Sequence[int]) -> "Callable[[Connection], Loaded]":
    """Ask for the whole list, and for the ids of the exchanges that are `known` by their numbers."""

    def question(connection: "Connection") -> Loaded:
        from viewer.tape import live

        condition = _condition(wanted)
        change = live.change(connection, None, condition)
        assert change is not None
        began = clock.now()
        by, descending = wanted.order or (None, False)
        numbers = live.numbers(connection, condition, by, descending=descending)
        took = clock.now() - began
        first = numbers[:PAGE] if wanted.order else numbers[-PAGE:]
        started = live.started(connection, None if condition is None else numbers)
        return Loaded(numbers, took, live.listed(connection, first), change, ids(known)(connection), started)

    return question


def ids(numbers: Sequence[int]) -> "Callable[[Connection], dict[int, str]]":
    """Ask for the ids of these exchanges, as far as they are on the tape."""

    def question(connection: "Connection") -> dict[int, str]:
        from viewer.tape import queries

        return {number: row["id"] for number in numbers for row in queries.numbered(connection, ("id",), [number])}

    return question


def changed(wanted: Wanted, seen: "Seen", looked_at: Iterable[int]) -> "Callable[[Connection], Change | None]":
    """Ask what has changed."""

    def question(connection: "Connection") -> "Change | None":
        from viewer.tape import live

        return live.change(connection, seen, _condition(wanted), looked_at)

    return question


def pages(numbers: Sequence[int]) -> "Callable[[Connection], list[Row]]":
    """Ask for the rows of these exchanges."""

    def question(connection: "Connection") -> list[Row]:
        from viewer.tape import live

        return live.listed(connection, numbers)

    return question


def preview(number: int, limits: Thresholds) -> "Callable[[Connection], Previewed]":
    """Ask what there is to say of one exchange."""

    def question(connection: "Connection") -> Previewed:
        from viewer.tape import live, queries
        from viewer.timing.timed import Timed
        from viewer.timing.verdicts import verdicts

        row = live.preview(connection, number)
        if row is None or row["outcome"] == "open" or row["bytes"] > LARGE:
            return Previewed(row)
        return Previewed(row, verdicts(Timed(*queries.observed(connection, number)), row["outcome"], limits))

    return question


def copied(number: int, id: str, part: Copied) -> "Callable[[Connection], str]":
    """Ask for a part of an exchange as one text, empty where it has none.

    Raises `NotFound` where the exchange is another one by now, `WiretapeError` where the part is too long.
    """

    def question(connection: "Connection") -> str:
        from viewer.tape import queries

        if ids([number])(connection).get(number) != id:
            raise NotFound(f"{id[:8]} is not on this tape any more")
        if part == "curl":
            asked, body = queries.request(connection, number)
            return curl.of(asked, body)
        if part == "SSE":
            return _answer(connection, number, id)
        found = queries.detail(connection, number)
        return str(found["content"] or "") if part == "text" else arguments(found["tool_calls"])

    return question


def arguments(calls: "Iterable[Row] | None") -> str:
    """Give the arguments of tool calls, each call's on a line of its own."""
    return "\n".join(call["arguments"] or "" for call in calls or ())


def _answer(connection: "Connection", number: int, id: str) -> str:
    """Give an answer as it came, its content coding undone."""
    from recorder.decode import encoding
    from recorder.tape import reading

    with connection.begin():
        facts, _ = reading.facts(connection, number)
        body = reading.stored_body(connection, number)
    data = encoding.plain(facts.content_encoding, body, [len(body)]).data
    if len(data) > MOST_COPIED:
        raise WiretapeError(f"{len(data):,} bytes are too many to copy: use wiretape show {id[:8]} --part raw")
    return data.decode("utf-8", "replace")


def terms(filter: Filter) -> "Callable[[Connection], list[Term]]":
    """Ask how many exchanges fit each term of a filter alone; of a long duration, whether a thousandth was meant."""

    def question(connection: "Connection") -> list[Term]:
        from viewer.filters import sql
        from viewer.tape import live, queries

        found = []
        for term, count in live.alone(connection, filter):
            smaller = notices.smaller_unit(term) if not count else None
            is_meant = smaller is not None and queries.count(connection, sql.condition(smaller)) > 0
            found.append(Term(str(term), count, str(smaller) if is_meant else None))
        return found

    return question


def known() -> "Callable[[Connection], Known]":
    """Ask what a filter can be completed with."""

    def question(connection: "Connection") -> Known:
        from viewer.export import fields
        from viewer.filters.fields import FIELDS, MEANINGS
        from viewer.formatting import host
        from viewer.tape import live

        found = {name: live.values(connection, name) for name in FROM_TAPE}
        found |= {"upstream": list(dict.fromkeys(map(host, found["upstream"])))}
        return Known(found, fields.meanings(name for name in FIELDS if name not in MEANINGS) | MEANINGS)

    return question


def _condition(wanted: Wanted) -> "Condition | None":
    from viewer.filters import sql

    return None if wanted.filter is None else sql.condition(wanted.filter)
