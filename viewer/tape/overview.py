"""What a tape looks like from above: figures of its groups, a heatmap over time, its failures; the SELECTs for these.

The figures are those of `samples` and `stats`, the same as the command's. As in `queries`, each query is short, and its
transaction ends before the next begins. How a map is laid out is left to `heatmap`.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, Connection, Select, func, select, true

from recorder.tape import cells
from recorder.tape.schema import exchanges, measures
from viewer.columns import JOINED, column, each_label
from viewer.rows import Row
from viewer.stats import heatmap, samples, summary
from viewer.stats.heatmap import Heatmap
from viewer.stats.metrics import Bound
from viewer.stats.samples import Sample

Condition = ColumnElement[bool]

MOST_GAPS: Final = 12_000_000
"""More pooled gaps than this are not held in memory, of 8 bytes each: their figures are left to the command."""

_BATCH = 2000
_SPREAD: Final = {"gap": "icl_max_ms", "ttft": "ttft_ms", "tps": "tps_user"}
_NOT_FAILED: Final = ("complete", "open")


@dataclass(frozen=True, slots=True)
class Failures:
    """How many exchanges failed in one way; None is unknown."""

    outcome: str
    detail: str | None
    code: str | None
    status: int | None
    count: int


def figures(
    connection: Connection,
    by: str,
    where: Condition | None = None,
    bounds: Sequence[Bound] = (),
    *,
    gaps: bool = True,
) -> list[Row]:
    """Give the statistics of each group; without `gaps` those of pooled gaps are left unknown, which is far faster."""
    return [summary.row(one, (by,), bounds=bounds) for one in samples.read(connection, (by,), where, gaps=gaps)]


def figures_and_total(
    connection: Connection,
    by: str,
    where: Condition | None = None,
    bounds: Sequence[Bound] = (),
    *,
    gaps: bool = True,
) -> tuple[list[Row], Row | None]:
    """Give the statistics of each group, and those of all together, without a key; None if there are none."""
    found = samples.read(connection, (by,), where, gaps=gaps)
    rows = [summary.row(one, (by,), bounds=bounds) for one in found]
    return rows, summary.row(_together(found), (), bounds=bounds) if found else None


def _together(found: Sequence[Sample]) -> Sample:
    """Make one sample of many, which give their gaps up: of many millions no two copies are held."""
    gaps, at = np.empty(sum(len(one.gaps) for one in found), np.int64), 0
    for one in found:
        gaps[at : at + len(one.gaps)] = one.gaps
        at, one.gaps = at + len(one.gaps), gaps[:0]
    names = found[0].columns if found else ()
    moments = [moment for one in found for moment in (one.first_at, one.last_at) if moment is not None]
    return Sample(
        (),
        sum((one.outcomes for one in found), Counter()),
        sum((one.after_2xx for one in found), Counter()),
        np.concatenate([np.empty(0, bool), *(one.complete for one in found)]),
        np.concatenate([np.empty(0, bool), *(one.measured for one in found)]),
        {name: np.concatenate([one.columns[name] for one in found]) for name in names},
        gaps,
        min(moments, default=None),
        max(moments, default=None),
        sum(one.withheld for one in found),
        sum(one.held_up for one in found),
        sum(one.hidden for one in found),
    )


def pooled(connection: Connection, where: Condition | None = None) -> int:
    """Count the gaps that the figures of groups would pool, about."""
    statement = select(func.coalesce(func.sum(measures.c.output_chunks), 0)).select_from(JOINED)
    with connection.begin():
        return int(connection.execute(_filtered(statement, where)).scalar_one())


def failures(connection: Connection, where: Condition | None = None, most: int = 50) -> list[Failures]:
    """Count the ways in which exchanges did not become complete, the most frequent first."""
    names = [column(name).label(name) for name in ("outcome", "outcome_detail", "error_code", "status")]
    failed = column("outcome").not_in(_NOT_FAILED)
    statement = _filtered(select(*names, func.count().label("count")).select_from(JOINED), where).where(failed)
    order = (func.count().desc(), *names)
    with connection.begin():
        found = connection.execute(statement.group_by(*names).order_by(*order).limit(most)).all()
    return [Failures(*row) for row in found]


def label_keys(connection: Connection, where: Condition | None = None, most: int = 20) -> list[str]:
    """Give the keys of labels, the most frequent first."""
    each = each_label()
    statement = _filtered(select(each.c.key).select_from(JOINED.join(each, true())), where)
    with connection.begin():
        found = connection.execute(statement.group_by(each.c.key).order_by(func.count().desc(), each.c.key).limit(most))
        return [str(key) for (key,) in found]


_NO_GAPS: Final = bytes(4 * 64)


def heat(connection: Connection, metric: str, room: tuple[int, int], where: Condition | None = None) -> Heatmap | None:
    """Count a metric of `heatmap.METRICS` over time, in at most `room` columns and rows; None if there is nothing."""
    ends = cells.least(exchanges.c.started_at), cells.greatest(exchanges.c.started_at)
    statement = select(*ends).select_from(JOINED)
    with connection.begin():
        first, last = connection.execute(_filtered(statement, where)).one()
    if first is None:
        return None
    earliest, latest = sorted(_seconds([first, last]).tolist())
    start, step_s, count = heatmap.columns(earliest, latest, room[0])
    counts = np.zeros((64, count), np.int64)
    found: list[NDArray[np.int64]] = []
    had: list[NDArray[np.uint64]] = []
    for at_s, values, hists in _batches(connection, metric, where):
        places, bits = (at_s - start) // step_s, _bits(values, metric)
        known = (places >= 0) & (places < count)  # the others began at a time that cannot be read
        places, bits, hists = places[known], bits[known], None if hists is None else hists[known]
        if hists is None:
            np.add.at(counts, (bits, places), 1)
            continue
        for place in np.unique(places):
            counts[:, place] += hists[places == place].sum(axis=0, dtype=np.int64)
        found.append(places)
        had.append(np.packbits(hists > 0, axis=1, bitorder="little").view("<u8")[:, 0])
    each = (np.concatenate(found), np.concatenate(had)) if found else None
    return _laid(metric, (start, step_s), counts, each, room[1])


def _laid(
    metric: str,
    times: tuple[int, int],
    counts: NDArray[np.int64],
    each: tuple[NDArray[np.int64], NDArray[np.uint64]] | None,
    room: int,
) -> Heatmap | None:
    """Lay counts out; `each` has the column of each exchange, and a bit for each bit length of which it has gaps."""
    same_read = int(counts[0].sum()) if metric == "gap" else 0
    if metric != "tps":
        counts[0] = 0
    seen = np.flatnonzero(counts.sum(axis=1))
    if not len(seen):
        return None
    floor = heatmap.FLOORS[metric]
    bands = heatmap.bands(max(floor, int(seen[0])), max(floor, int(seen[-1])), room)
    lows = [0 if at == len(bands) - 1 else low for at, (low, _) in enumerate(bands)]
    ends = [64, *lows[:-1]]
    spans = list(zip(lows, ends, strict=True))
    rows = [counts[low:end].sum(axis=0).tolist() for low, end in spans]
    of = rows if each is None else [_having(*each, max(low, 1), end, counts.shape[1]) for low, end in spans]
    return Heatmap(metric, *times, bands, rows, of, same_read)


def _having(places: NDArray[np.int64], had: NDArray[np.uint64], low: int, end: int, columns: int) -> list[int]:
    """Count, column by column, the exchanges that have a gap of at least `low` and less than `end` bits."""
    wanted = np.uint64((1 << end) - (1 << low))
    counted: list[int] = np.bincount(places[(had & wanted) != 0], minlength=columns).tolist()
    return counted


def _batches(
    connection: Connection, metric: str, where: Condition | None
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.uint32] | None]]:
    """Give the start of each exchange (s), its value, and its gaps by bit length; those without a value do not come."""
    value = column(_SPREAD[metric])
    names: list[ColumnElement[Any]] = [exchanges.c.no, exchanges.c.started_at, value]
    names += [measures.c.gap_hist] if metric == "gap" else []
    statement = _filtered(select(*names).select_from(JOINED), where).where(value.is_not(None))
    statement, last = statement.order_by(exchanges.c.no).limit(_BATCH), 0
    while True:
        with connection.begin():
            batch = connection.execute(statement.where(exchanges.c.no > last)).all()
        if batch:
            last = batch[-1][0]
            hists = None
            if metric == "gap":
                hists = np.frombuffer(b"".join(row[3] or _NO_GAPS for row in batch), "<u4").reshape(-1, 64)
            yield _seconds([row[1] for row in batch]), np.array([row[2] for row in batch], np.float64), hists
        if len(batch) < _BATCH:
            return


def _bits(values: NDArray[np.float64], metric: str) -> NDArray[np.int64]:
    """Give the bit lengths of whole numbers, or of the whole parts of rates; below 2^53 that is exact."""
    return np.minimum(np.frexp(np.floor(values))[1].astype(np.int64), 63)


def _seconds(instants: Sequence[str]) -> NDArray[np.int64]:
    return np.array([text[:19] for text in instants], "datetime64[s]").astype(np.int64)


def _filtered(statement: Select[Any], where: Condition | None) -> Select[Any]:
    return statement if where is None else statement.where(where)
