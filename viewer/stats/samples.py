"""A tape as columns of numbers, one sample for each group of exchanges: the SELECTs for statistics.

As in `queries`, each query is short and its transaction ends before the next begins. Numbers are read as columns and
never pass through rows of named fields; the gaps of all exchanges of a group lie side by side in one array. What is
made of them is left to `aggregates`.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, Connection, Select, Text, and_, case, func, null, select

from recorder.decode.outcome import OUTCOMES
from recorder.tape import cells
from recorder.tape.schema import exchanges, measures
from viewer.columns import JOINED, flagged, label
from viewer.columns import column as column_of
from viewer.stats.metrics import QUANTITIES

Key = tuple[str | int | None, ...]
Values = NDArray[Any]
"""One-dimensional, float64 or int64."""

UNMEASURED: Final = "unmeasured"
TOKENS: Final = ("prompt_tokens", "completion_tokens", "reasoning_tokens", "total_tokens")

_BATCH = 2000
_HEADS: Final = {"day": len("2026-01-01"), "hour": len("2026-01-01T00")}
_CODES: Final = {name: code for code, name in enumerate((*OUTCOMES, UNMEASURED))}
_FLAGGED: Final = (
    and_(flagged("burst"), measures.c.tps_user.is_not(None)),
    flagged("backpressure"),
    and_(flagged("hidden_tokens"), measures.c.tps_user.is_not(None)),
)
_COLUMNS: Final = {quantity.name: quantity for quantity in QUANTITIES.values() if quantity.column is not None}


@dataclass(slots=True)
class Sample:
    """What the tape knows of a group of exchanges.

    `columns` hold one value for each exchange, NaN where unknown: the quantities by name, durations in ms, and
    `TOKENS`. `measured` says which exchanges enter figures of latency; `gaps` are all gaps between their output
    chunks, in ns. Of `withheld` of the measured ones the tokens per second are left out: they came in a burst;
    `held_up` of them were so by the client: reading from upstream was paused for it. Of `hidden` ones they are
    left out, and so are the times per token: usage counts tokens that did not come.
    """

    key: Key
    outcomes: Counter[str]
    after_2xx: Counter[str]
    complete: NDArray[np.bool_]
    measured: NDArray[np.bool_]
    columns: dict[str, Values]
    gaps: NDArray[np.int64]
    first_at: str | None = None
    last_at: str | None = None
    withheld: int = 0
    held_up: int = 0
    hidden: int = 0

    @property
    def size(self) -> int:
        """How many exchanges there are."""
        return len(self.measured)


@dataclass(slots=True)
class _Gathering:
    """What is read so far: numbers batch by batch, and for each group its number, its gaps and its time span."""

    numbers: list[NDArray[np.float64]] = field(default_factory=list)
    groups: list[int] = field(default_factory=list)
    gaps: dict[Key, bytearray] = field(default_factory=dict)
    spans: dict[Key, tuple[str, str]] = field(default_factory=dict)


def read(
    connection: Connection,
    by: Sequence[str] = (),
    where: ColumnElement[bool] | None = None,
    *,
    include_failed: bool = False,
    gaps: bool = True,
) -> list[Sample]:
    """Read the exchanges that `where` selects, in groups, ordered by their keys; without `by`, one group of all.

    Only complete exchanges are `measured`, unless `include_failed`. `gaps` false leaves the gaps unread.
    """
    gathered = _gather(connection, _statement(by, where, gaps, include_failed), len(by))
    if not by and not gathered.gaps:
        gathered.gaps[()] = bytearray()
    width = 2 + len(TOKENS) + len(_COLUMNS) + len(_FLAGGED)
    table = np.concatenate([np.empty((0, width)), *gathered.numbers])
    gathered.numbers.clear()
    numbers = {key: number for number, key in enumerate(gathered.gaps)}
    order = np.argsort(np.array(gathered.groups, np.int64), kind="stable")
    places = np.split(order, np.cumsum(np.bincount(gathered.groups, minlength=len(numbers)))[:-1]) if numbers else []
    return [
        _sample(key, table[places[numbers[key]]], gathered.gaps[key], gathered.spans.get(key), include_failed)
        for key in sorted(numbers, key=_sortable)
    ]


def group_of(name: str) -> ColumnElement[Any]:
    """Give the expression of a group's name: `label.KEY`, or one of `GROUPS`."""
    if name.startswith("label."):
        return label(name.removeprefix("label."))
    if name in _HEADS:
        head = func.substr(exchanges.c.started_at, 1, _HEADS[name], type_=Text)
        return case((func.typeof(exchanges.c.started_at) == "text", head))  # of a blob it is one, too
    return column_of(name)


def _statement(by: Sequence[str], where: ColumnElement[bool] | None, gaps: bool, include_failed: bool) -> Select[Any]:
    # Elsewhere what has ended and is not measured counts as open; here, where it is missing from figures, it is told.
    outcome = case((exchanges.c.ended_by.is_(None), "open"), else_=func.coalesce(measures.c.outcome, UNMEASURED))
    wanted = measures.c.icl if include_failed else case((measures.c.outcome == "complete", measures.c.icl))
    columns = (
        exchanges.c.no,
        wanted if gaps else null(),
        exchanges.c.started_at,
        *map(group_of, by),
        case(_CODES, value=outcome, else_=_CODES[UNMEASURED]),
        exchanges.c.status,
        *(measures.c[name] for name in TOKENS),
        *(column_of(quantity.column) for quantity in _COLUMNS.values() if quantity.column),
        *_FLAGGED,
    )
    statement = select(*columns).select_from(JOINED).order_by(exchanges.c.no).limit(_BATCH)
    return statement if where is None else statement.where(where)


def _gather(connection: Connection, statement: Select[Any], keys: int) -> _Gathering:
    gathered, numbers, last = _Gathering(), dict[Key, int](), 0
    while True:
        with connection.begin():
            batch = cells.fetch(connection, statement.where(exchanges.c.no > last))
        for row in batch:
            key = tuple(row[3 : 3 + keys])
            gathered.groups.append(numbers.setdefault(key, len(numbers)))
            gathered.gaps.setdefault(key, bytearray()).extend(row[1] or b"")
            first, latest = gathered.spans.get(key, (row[2], row[2]))
            gathered.spans[key] = min(first, row[2]), max(latest, row[2])
        if batch:
            gathered.numbers.append(np.array([tuple(row[3 + keys :]) for row in batch], np.float64))
            last = batch[-1][0]
        if len(batch) < _BATCH:
            return gathered


def _sample(
    key: Key, table: NDArray[np.float64], gaps: bytearray, span: tuple[str, str] | None, include_failed: bool
) -> Sample:
    codes, statuses = table[:, 0], table[:, 1]
    columns = {name: table[:, 2 + at].copy() for at, name in enumerate(TOKENS)}
    for at, quantity in enumerate(_COLUMNS.values(), 2 + len(TOKENS)):
        columns[quantity.name] = table[:, at] / (1e6 if quantity.unit == "ms" else 1)
    complete = codes == _CODES["complete"]
    measured = np.ones(len(table), bool) if include_failed else complete
    first_at, last_at = span or (None, None)
    return Sample(
        key,
        _counts(codes),
        _counts(codes[(statuses >= 200) & (statuses < 300)]),
        complete,
        measured,
        columns,
        np.frombuffer(gaps, "<i8"),
        first_at,
        last_at,
        *np.count_nonzero(table[measured, -len(_FLAGGED) :] > 0, axis=0).tolist(),
    )


def _counts(codes: NDArray[np.float64]) -> Counter[str]:
    found = np.bincount(codes.astype(np.int64), minlength=len(_CODES)).tolist()
    return Counter({name: count for name, count in zip(_CODES, found, strict=True) if count})


def _sortable(key: Iterable[Any]) -> list[tuple[bool, str]]:
    return [(part is None, f"{part:>9}" if isinstance(part, int) else str(part)) for part in key]
