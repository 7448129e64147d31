"""A tape in Python: exchanges as records, and tables as pandas frames. pandas is loaded with the first frame.

    >>> from wiretape.viewer.export.frames import open_tape
    >>> tape = open_tape("tape.db")
    >>> complete = tape.exchanges("outcome:complete")
    >>> complete["ttft_ms"].describe()[["count", "50%", "max"]].tolist()
    [2.0, 80.0, 110.0]
    >>> complete.attrs["columns"]["ttft_ms"]["unit"]
    'ms'
    >>> reads = tape.reads("outcome:complete")
    >>> reads.groupby("id")["size"].sum().tolist() == complete["bytes"].tolist()
    True

The columns are those of `export` for the same table, in its order and with its values, but numbers are not rounded, and
labels are JSON as texts. `frame.attrs["columns"]` has the dtype, the unit and the meaning of each. All types are
nullable: unknown is `pd.NA` (NaT for a timestamp) and never becomes 0 or NaN; an empty frame has the same types. A lone
surrogate, which UTF-8 cannot encode, is replaced by its escape, as in an export. Statistics over many exchanges are in
`stats`, those of one in `wiretape.recorder.decode.metrics`.
"""

import contextlib
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from wiretape.recorder.clock import SYSTEM
from wiretape.recorder.commands import options
from wiretape.recorder.decode.stalls import DEFAULT, LAYERS, Layer
from wiretape.recorder.errors import NotFound
from wiretape.recorder.tape import peek
from wiretape.viewer.export import fields, text
from wiretape.viewer.export.fields import ExportField, Kind
from wiretape.viewer.query import coverage
from wiretape.viewer.query.parser import parse
from wiretape.viewer.query.syntax import Filter, every
from wiretape.viewer.record import cells, rows, units
from wiretape.viewer.record.fields import is_rounded
from wiretape.viewer.record.rows import DetailRow, TableRow
from wiretape.viewer.source.base import Measuring, Selection, Source
from wiretape.viewer.source.place import TapePlace

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray
    from pandas.arrays import FloatingArray, IntegerArray

    from wiretape.viewer.source.tape_source import TapeSource
    from wiretape.viewer.stats.summary import Method, Sample

GAPS: Final = (
    ExportField("id", "text", None, "the exchange's id, 16 hex digits (X-Wiretape-Id)"),
    ExportField("seq", "integer", "index", "0, 1, 2, … within its exchange: between output chunk seq and the next"),
    ExportField("icl_ms", "number", "ms", "gap between two output chunks; 0 where they share a read"),
)
"""The columns of `Tape.gaps`."""

_KINDS: Final[dict[str, Kind]] = {
    **dict.fromkeys(("metric", "verdict", "group", "layer", "phase"), "text"),
    **dict.fromkeys(("base_n", "new_n", "n", "cut", "cut_good", "cut_dead", "lost_tokens"), "integer"),
    "fits": "boolean",
}
"""The kinds of the columns of `Tape.compare` and `Tape.timeouts` that are not numbers."""

_DTYPES: Final[dict[Kind, str]] = {
    "text": "string", "words": "string", "json": "string", "integer": "Int64", "number": "Float64",
    "boolean": "boolean", "timestamp": "datetime64[us, UTC]",
}  # fmt: skip
_REPEATED: Final = {"chunks": ("id", "kinds"), "reads": ("id",), "gaps": ("id",), "turns": ("exchange_id",)}
_LARGEST: Final = 2**63


def open_tape(path: str | Path | None = None) -> "Tape":
    """Return a tape to read from; None is the default one: `WIRETAPE_DB`, else that in the user's data directory.

    Nothing is kept open: each call of the tape's methods connects for reading and sees the exchanges recorded by then.
    Raises `wiretape.recorder.errors.NotFound` or `ForeignFile` if there is no tape.
    """
    tape = options.tape_path(None if path is None else Path(os.path.expanduser(path)))
    peek.identify(tape)
    return Tape(tape)


@dataclass(frozen=True)
class Tape:
    """A tape with its tables as frames, the oldest exchange first, and with the answers of the commands.

    `filter` is a filter as `--filter` takes it, such as `"model:gpt-* ttft>800ms"`; an empty one selects all, and an
    invalid one raises a `ValueError` with the position and the reason. `limit` is the maximum number of rows. A tape
    that cannot be read raises a `wiretape.recorder.errors.TapeError`. A `with` block works, and is not needed: there is
    nothing to close.
    """

    path: Path

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def records(self, filter: str | None = None, *, limit: int | None = None) -> Iterator[DetailRow]:
        """Yield a record of each exchange: its attributes are the columns of `exchanges`, and the answer's texts.

        `ttft_ms` is a float, `outcome` a text, `labels` a dictionary; unknown is None. No pandas is needed.
        """
        with self._selected(filter) as (source, selection):
            yield from source.records(selection, limit)

    def exchanges(self, filter: str | None = None, *, limit: int | None = None) -> "pd.DataFrame":
        """Return one row for each exchange: its start, model and outcome (text), durations in ms, counts.

        `started_at` is a timestamp in UTC, to the microsecond; `flags` are words joined by spaces, `labels` JSON.
        """
        return self._exchanges("exchanges", limit, filter)

    def texts(self, filter: str | None = None, *, limit: int | None = None) -> "pd.DataFrame":
        """Return the columns of `exchanges`, then the answer: content, reasoning, refusal, and tool calls as JSON."""
        return self._exchanges("texts", limit, filter)

    def chunks(self, filter: str | None = None, *, limit: int | None = None) -> "pd.DataFrame":
        """Return one row for each choice of each chunk; each is decoded from the bytes, so a million take their time.

        `at_ms` is since T0, `gap_ms` since the chunk before; `output` is whether the chunk counts as output.
        """
        with self._selected(filter) as (source, selection):
            return _frame("chunks", itertools.islice(source.table("chunks", selection), limit))

    def reads(self, filter: str | None = None, *, limit: int | None = None) -> "pd.DataFrame":
        """Return one row for each socket read: timestamps in ms since T0, `start` and `size` in bytes of the body."""
        import numpy as np

        ids, parts, remaining = list[str](), [np.empty((5, 0))], limit
        with self._selected(filter) as (source, selection):
            for id, reads in source.packed_reads(selection):
                if remaining is not None and remaining <= 0:
                    break
                columns = (reads.seq, reads.at_ns, reads.relayed_ns, reads.start, reads.size)
                parts.append(np.array(columns, np.float64)[:, :remaining])  # None becomes NaN, which is masked below
                ids.append(id)
                remaining = None if remaining is None else remaining - parts[-1].shape[1]
        place = np.repeat(np.arange(len(ids)), [part.shape[1] for part in parts[1:]])
        seq, at, relayed, start, size = np.concatenate(parts, axis=1)
        arrays = _category(place, ids), _integers(seq), _ms(at), _ms(relayed), _integers(start), _integers(size)
        return _described("reads", fields.of("reads"), arrays)

    def turns(self, filter: str | None = None, *, limit: int | None = None) -> "pd.DataFrame":
        """Return one row for each turn over a WebSocket: what began it, its times in ms, outcome, tokens and audio."""
        with self._selected(filter) as (source, selection):
            return _frame("turns", itertools.islice(source.table("turns", selection), limit))

    def conversations(self, filter: str | None = None, *, limit: int | None = None) -> "pd.DataFrame":
        """Return one row for each conversation with the parts of its time; it covers the exchanges that fit."""
        with self._selected(filter) as (source, selection):
            return _frame("conversations", source.sessions(selection, DEFAULT, SYSTEM)[::-1][:limit])

    def gaps(self, filter: str | None = None) -> "pd.DataFrame":
        """Return one row for each gap between two output chunks of an exchange: its number and its length in ms.

        They are the gaps of `icl` in `stats`, which takes those of the complete exchanges. Millions take seconds.
        """
        import numpy as np

        with self._selected(filter) as (source, selection):
            # A damaged tape may have a part of another gap behind the last one.
            exchanges = [(id, packed[: len(packed) // 8 * 8]) for id, packed in source.packed_gaps(selection)]
        counts = np.array([len(packed) // 8 for _, packed in exchanges], np.int64)
        gaps = np.frombuffer(b"".join(packed for _, packed in exchanges), "<i8")
        ends = np.cumsum(counts)
        seq = np.arange(len(gaps)) - np.repeat(ends - counts, counts)
        place = np.repeat(np.arange(len(exchanges)), counts)
        return _described("gaps", GAPS, (_category(place, [id for id, _ in exchanges]), _integers(seq), _ms(gaps)))

    def stats(
        self,
        filter: str | None = None,
        *,
        by: str | None = None,
        slo: str | None = None,
        percentile_method: "Method" = "linear",
        include_failed: bool = False,
        all_operations: bool = False,
    ) -> "pd.DataFrame":
        """Return the figures of `wiretape stats`, with its options, by group: `by="model,label.run"`.

        The columns are those of `wiretape stats --schema`; `frame.attrs["notes"]` lists the messages about
        old and missing measures and about excluded exchanges.
        """
        from wiretape.viewer.stats import metrics, summary

        keys = () if by is None else metrics.groups(by)
        measuring = Measuring(percentile_method, metrics.objective(slo) if slo else (), include_failed)
        with TapePlace(self.path).opened() as source:
            selection = Selection(_filter(filter))
            groups = source.figures(keys, selection.covered(all_operations), measuring)
            frame = _frame("summary", (summary.row_of(figures, keys) for figures in groups), fields.of("summary", keys))
            frame.attrs["notes"] = _notes(source, selection, all_operations)
        return frame

    def timeouts(
        self,
        filter: str | None = None,
        *,
        by: str | None = None,
        on: Layer | None = None,
        first: str | None = None,
        idle: str | None = None,
    ) -> "pd.DataFrame":
        """Return the rows of `wiretape timeouts`, with its options: `by="model"`, `idle="30s,60s"`."""
        from wiretape.viewer.stats import metrics, timeouts

        keys = () if by is None else metrics.groups(by)
        if len(keys) > 1:
            raise ValueError(f"{by}: name one group")
        tried = (timeouts.USUAL_NS if limits is None else timeouts.limits(limits) for limits in (first, idle))
        with self._selected(filter) as (source, selection):
            groups = timeouts.what_if(source.silences(by, selection), LAYERS if on is None else (on,), *tried)
            return _frame("timeouts", timeouts.rows(groups), _columns(timeouts.MEANINGS))

    def compare(
        self,
        a: str | None = None,
        b: str | None = None,
        *,
        base: str | None = None,
        new: str | None = None,
        filter: str | None = None,
        include_failed: bool = False,
        all_operations: bool = False,
        seed: int = 0,
    ) -> "pd.DataFrame":
        """Return the rows of `wiretape compare`: of two exchanges, `a` and `b`, or of two groups, selected by filters.

        Of groups, `frame.attrs["notes"]` is that of `stats`. Raises `wiretape.recorder.errors.NotFound` if there is no
        such exchange, or if a group is empty.
        """
        from wiretape.viewer.stats import compare

        is_pair = a is not None and b is not None and base is new is filter is None
        if not is_pair and (a is not None or b is not None or base is None or new is None):
            raise ValueError("name two exchanges, or two groups with base and new")
        with TapePlace(self.path).opened() as source:
            if a is not None and b is not None:
                pair = [source.exchange(source.find(id)).detail() for id in (a, b)]
                return _frame("pair", compare.pair(*pair), _columns(compare.PAIR_FIELDS))
            sides: list[Sample] = []
            notes = list[str]()
            for name, text in (("base", base), ("new", new)):
                selection = Selection(_filter(filter, text))
                sides += source.samples(selection.covered(all_operations), include_failed=include_failed)
                notes += _notes(source, selection, all_operations)
                if not sides[-1].size:
                    raise NotFound(f"nothing to compare: {name} selects no exchange")
        base_sample, new_sample = sides
        frame = _frame("compared", compare.groups(base_sample, new_sample, seed), _columns(compare.FIELDS))
        frame.attrs["notes"] = list(dict.fromkeys(notes))
        return frame

    def show(self, id: str) -> TableRow:
        """Return an exchange as `wiretape show --format json` does: its fields, texts, labels and headers by name.

        `id` is 4 or more characters of its id, `@` (the newest), `@-1` (the one before) or `@err` (the newest that
        failed). Raises `wiretape.recorder.errors.NotFound`.
        """
        with TapePlace(self.path).opened() as source:
            exchange = source.exchange(source.find(id))
            record = rows.record(exchange.worked_out(), exchange.headers())
            return cells.rounded(record, filter(is_rounded, record))

    def _exchanges(self, table: str, limit: int | None, filter: str | None) -> "pd.DataFrame":
        with self._selected(filter) as (source, selection):
            return _frame(table, source.rows(text.TABLES[table], selection, limit=limit))

    @contextlib.contextmanager
    def _selected(self, filter: str | None) -> Iterator[tuple["TapeSource", Selection]]:
        selection = Selection(_filter(filter))
        with TapePlace(self.path).opened() as source:
            yield source, selection


def _filter(*texts: str | None) -> Filter | None:
    """Return the conjunction of these filters, None for no filter. Raises `ValueError`."""
    filters = [parse(text) for text in texts if text and not text.isspace()]
    return every(filters) if filters else None


def _notes(source: Source, selection: Selection, all_operations: bool) -> list[str]:
    """Return the messages of `wiretape stats` about old and missing measures and about excluded exchanges."""
    left_out = source.left_out(selection) if selection.covered(all_operations).generations else {}
    notes = (source.advice(), source.unmeasured(), coverage.described(left_out) if left_out else None)
    return [note for note in notes if note is not None]


def _columns(meanings: Mapping[str, str]) -> tuple[ExportField, ...]:
    """Return the columns of a comparison, or of limits on silences."""
    return tuple(
        ExportField(name, _KINDS.get(name, "number"), "ms" if name.endswith("_ms") else None, meaning)
        for name, meaning in meanings.items()
    )


def _frame(table: str, table_rows: Iterable[TableRow], columns_of: Sequence[ExportField] = ()) -> "pd.DataFrame":
    """Make a frame of the rows of a table; only the columns are held, not the rows."""
    export_fields = columns_of or fields.of(table)
    columns: dict[str, list[Any]] = {field.name: [] for field in export_fields}
    appends = [(name, column.append) for name, column in columns.items()]
    for row in table_rows:
        for name, append in appends:
            append(row[name])
    kinds = [(field, _dtype(table, field)) for field in export_fields]
    return _described(table, export_fields, [as_array(dtype, columns[field.name]) for field, dtype in kinds])


def _dtype(table: str, field: ExportField) -> str:
    if table == "pair" and field.name in ("a", "b"):
        return "object"
    return "category" if field.name in _REPEATED.get(table, ()) else _DTYPES[field.kind]


def as_array(dtype: Any, values: list[Any]) -> Any:
    """Return values as an array of a type; an integer that no column of a tape could hold is unknown."""
    import pandas as pd

    if dtype == "category":
        values = [cells.encodable(value) for value in values]
        return pd.Categorical(values, categories=pd.Index(list(dict.fromkeys(values)), dtype="string"))
    if dtype == "object":
        values = [pd.NA if value is None else value for value in values]
    if dtype == _DTYPES["timestamp"]:
        timestamps = [pd.NaT if value is None else units.timestamp(value) for value in values]
        return pd.DatetimeIndex(timestamps, tz="UTC").as_unit("us")
    if dtype == "Int64":
        values = [None if value is None or abs(value) >= _LARGEST else value for value in values]
    if dtype == "string":
        values = [None if value is None else cells.encodable(value) for value in values]
    return pd.array(values, dtype=dtype)


def _category(places: "NDArray[Any]", names: list[str]) -> Any:
    import numpy as np
    import pandas as pd

    return pd.Categorical.from_codes(
        places.astype(np.int64), pd.Index(list(map(cells.encodable, names)), dtype="string")
    )


def _integers(values: "NDArray[Any]") -> "IntegerArray":
    import numpy as np
    from pandas.arrays import IntegerArray

    return IntegerArray(values.astype(np.int64), np.zeros(len(values), bool))


def _ms(ns: "NDArray[Any]") -> "FloatingArray":
    """Return whole nanoseconds as `rows.ms` does; NaN is unknown."""
    import numpy as np
    from pandas.arrays import FloatingArray

    return FloatingArray(ns / 1e6, np.isnan(ns))


def _described(table: str, columns: Sequence[ExportField], arrays: Sequence[object]) -> "pd.DataFrame":
    """Build a frame of columns; their descriptions go into its attributes."""
    import pandas as pd

    frame = pd.DataFrame({field.name: array for field, array in zip(columns, arrays, strict=True)})
    frame.attrs["columns"] = {
        field.name: {"dtype": _dtype(table, field), "unit": field.unit, "meaning": field.meaning} for field in columns
    }
    return frame
