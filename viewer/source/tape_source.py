"""An open tape as a source."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from wiretape.recorder.clock import Clock
from wiretape.recorder.commands import options
from wiretape.recorder.decode.exchange import Reads, Standing
from wiretape.recorder.decode.stalls import DEFAULT, Thresholds
from wiretape.recorder.tape import reading
from wiretape.recorder.tape.reader import Connection
from wiretape.recorder.tape.selects import not_
from wiretape.viewer.listing.catalog import PAGE
from wiretape.viewer.query.syntax import Filter
from wiretape.viewer.record.rows import DetailRow, ListRow, TableRow
from wiretape.viewer.source import base
from wiretape.viewer.source.base import Selection
from wiretape.viewer.source.decoder import LARGE
from wiretape.viewer.source.querying import Queried, condition
from wiretape.viewer.source.tape import live, queries
from wiretape.viewer.source.tape.columns import column

if TYPE_CHECKING:
    from wiretape.recorder.process import RecorderRun
    from wiretape.recorder.tape.masking import Masker
    from wiretape.viewer.listing.ranking import RankedExchange
    from wiretape.viewer.record.rows import TurnRow
    from wiretape.viewer.stats.metrics import Bound
    from wiretape.viewer.stats.summary import Figures
    from wiretape.viewer.stats.tools.summary import Addend
    from wiretape.viewer.timing.verdicts import Verdict

_SOON_MEASURED: Final = 100
"""While a recorder runs, a few exchanges have always just ended."""


class TapeSource(Queried):
    """An open tape."""

    empty = queries.EMPTY
    judges = True

    def __init__(self, place: base.Place, path: Path, connection: Connection) -> None:
        super().__init__(place, connection)
        self._path = path

    @property
    def is_sound(self) -> bool:
        """True if no damage was found yet."""
        return not self.connection.damage

    def interrupted_by(self, is_stale: Callable[[], bool], steps: int) -> None:
        """Break a question off when `is_stale`, called at an interval of SQLite's steps, returns True."""
        self.connection.driver.set_progress_handler(is_stale, steps)

    def release(self) -> None:
        """End the transaction: an open one would keep the writer's log from being reset."""
        self.connection.rollback()

    def version(self) -> base.Version:
        """Return a value that is another whenever somebody else has written to the tape, or over another connection."""
        from wiretape.viewer.source.tape import following

        return following.version(self.connection)

    def numbers_of(self, ids: Collection[str]) -> list[int]:
        """Return the numbers of the exchanges that have these ids, the oldest first."""
        return list(queries.numbers(self.connection, column("id").in_(ids)))

    def newest_run(self) -> "RecorderRun | None":
        """Return the newest run of a recorder on the tape, as it stands."""
        with self.connection.begin():
            return reading.newest_run(self.connection)

    def entries(self, numbers: Sequence[int]) -> "list[RankedExchange]":
        """Return exchanges as a table of several shows them, except those that are gone."""
        return live.entries(self.connection, numbers)

    def trees(self, names: Iterable[str], selection: Selection, *, judged: bool) -> "dict[str, list[TurnRow]]":
        """Return exchanges of some conversations, as the tree of each has them; see `conversations.turns`."""
        from wiretape.viewer.source.tape import conversations

        return conversations.turns(self.connection, names, condition(selection), judged=judged)

    def lines(self, numbers: Iterable[int], mask: "Masker | None") -> Iterator[bytes]:
        from wiretape.recorder.tape import cut  # it needs SQLAlchemy, which takes longer to load than a list to print

        return cut.lines(self.connection, numbers, mask)

    def records(self, selection: Selection, limit: int | None = None) -> Iterator[DetailRow]:
        """Yield the facts and measures of exchanges, oldest first: at most `limit`."""
        return queries.details(self.connection, condition(selection), limit)

    def packed_reads(self, selection: Selection) -> Iterator[tuple[str, Reads]]:
        """Yield the id and the reads of each exchange that has any, oldest first."""
        return queries.all_reads_packed(self.connection, condition(selection))

    def packed_gaps(self, selection: Selection) -> Iterator[tuple[str, bytes]]:
        """Yield the id of each exchange, oldest first, and the gaps between its output chunks: int64, in ns."""
        return queries.packed_gaps(self.connection, condition(selection))

    def advice(self) -> str | None:
        return queries.advice(self.connection)

    def unmeasured(self) -> str | None:
        from wiretape.recorder.commands import status

        with self.connection.begin():
            count, ended = queries.unmeasured(self.connection)
            is_recording = count > 0 and bool(reading.running_recorders(self.connection))
        if count <= (_SOON_MEASURED if is_recording else 0):
            return None
        return status.unmeasured(count, ended, options.naming(self._path), soon=is_recording)

    def without_bytes(self, selection: Selection) -> int:
        has_none, where = not_(queries.has_bytes()), condition(selection)
        return queries.count(self.connection, has_none if where is None else where & has_none)

    def figures(self, keys: Sequence[str], selection: Selection, measuring: base.Measuring) -> "Iterator[Figures]":
        """Measure each group here."""
        from wiretape.viewer.source.tape import overview
        from wiretape.viewer.stats import summary

        where = condition(selection)
        samples = overview.samples(self.connection, keys, where, include_failed=measuring.include_failed)
        return (summary.measure(sample, measuring.method, measuring.bounds, measuring.drawn) for sample in samples)

    def overview(self, by: str, selection: Selection, bounds: "Sequence[Bound]", *, gaps: bool) -> base.Overview | None:
        from wiretape.viewer.source.tape import overview

        where = condition(selection)
        if gaps and overview.pooled(self.connection, where) > overview.MOST_GAPS:
            return None
        return base.Overview(*overview.figures(self.connection, by, where, bounds, gaps=gaps))

    def measured(
        self, tool: str, selection: Selection, count_tokens: base.CountTokens | None = None
    ) -> "Iterator[Addend]":
        from wiretape.viewer.source.tape import observed

        return observed.measured(self.connection, self._path, tool, condition(selection.with_bytes()), count_tokens)

    def label_keys(self, selection: Selection) -> list[str]:
        from wiretape.viewer.source.tape import overview

        return overview.label_keys(self.connection, condition(selection))

    def follow(
        self, fields: tuple[str, ...], selection: Selection, *, last: int, wait: Callable[[], None]
    ) -> Iterator[list[TableRow]]:
        return live.ended(self.connection, fields, condition(selection), last=last, wait=wait)

    def listed(self, filter: Filter | None, order: base.Order | None, clock: Clock) -> base.Listed:
        """Return the whole list: by time the oldest first."""
        where = condition(Selection(filter))
        change = live.change(self.connection, None, where)
        assert change is not None
        began_ns = clock.now()
        by, descending = order or (None, False)
        numbers = live.numbers(self.connection, where, by, descending=descending)
        took_ns = clock.now() - began_ns
        first = numbers[:PAGE] if order else numbers[-PAGE:]
        started = live.started(self.connection, None if where is None else numbers)
        return base.Listed(numbers, took_ns, live.listed(self.connection, first), change, started)

    def further(self, filter: Filter | None, order: base.Order | None, page: base.Page) -> base.Page:
        """Return nothing: the list is read as a whole."""
        return base.Page([])

    def visible(self, numbers: Sequence[int]) -> list[ListRow]:
        return live.listed(self.connection, numbers)

    def changes(self, filter: Filter | None, previous: base.Change, visible: Sequence[int]) -> base.Change | None:
        return live.change(self.connection, previous, condition(Selection(filter)), visible)

    def stalls(self, numbers: Sequence[int]) -> "dict[int, Verdict]":
        from wiretape.viewer.timing.verdicts import longest_stall

        rows = ((no, row) for no in numbers for row in queries.numbered(self.connection, ("outcome", "bytes"), [no]))
        verdicts = ((no, self._verdicts(no, row["outcome"], row["bytes"], DEFAULT)) for no, row in rows)
        return {no: stall for no, judged in verdicts if (stall := longest_stall(judged)) is not None}

    def details(self, number: int, limits: Thresholds) -> base.Details:
        """Return an exchange for the preview, with verdicts if it has ended and is short."""
        preview = live.preview(self.connection, number)
        if preview is None:
            return base.Details(None)
        return base.Details(preview, self._verdicts(number, preview.row.outcome, preview.row.bytes, limits))

    def _verdicts(self, number: int, outcome: Standing, size: int | None, limits: Thresholds) -> "Sequence[Verdict]":
        """Return the verdicts on an exchange that has ended and is short, of any other none."""
        from wiretape.recorder.decode.attribution import Attribution
        from wiretape.viewer.timing.verdicts import verdicts

        if outcome == "open" or size is None or size > LARGE:  # unknown on a damaged tape
            return ()
        return verdicts(Attribution(*queries.observed(self.connection, number)), outcome, limits)
