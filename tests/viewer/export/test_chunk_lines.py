"""Lines of chunks: to the byte what `csv.writer` makes of the rows."""

import csv
import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.cases import each_case
from tests.support.decoding import of_runs
from tests.support.sample_tape import HOSTILE
from wiretape.recorder.decode.decoder import Decoded
from wiretape.recorder.decode.dialect import Chunk, Piece, ReportedError, ToolPiece
from wiretape.recorder.decode.runs import ItemRun
from wiretape.recorder.decode.templates import PARTS, filler
from wiretape.recorder.errors import TapeDamaged
from wiretape.recorder.tape.reader import Connection
from wiretape.viewer.export import text as export
from wiretape.viewer.record import chunks, units
from wiretape.viewer.record.fields import CHUNK_FIELDS
from wiretape.viewer.source.tape import queries

NS = st.one_of(st.none(), st.integers(0, 200), st.integers(0, 1 << 40), st.integers(-5, 1 << 62))
TEXTS = st.one_of(
    st.sampled_from(["a", " word", "=1", ",", '"', "\r", "\n", "-", "'", "", HOSTILE, "\ud800", "é"]), st.text()
)
KNOWN = TEXTS.filter(bool)


@st.composite
def pieces(draw: st.DrawFn) -> Piece:
    tools = tuple(ToolPiece(0, "", draw(TEXTS), draw(TEXTS)) for _ in range(draw(st.integers(0, 2))))
    return Piece(
        draw(st.integers(0, 3)), draw(TEXTS), draw(TEXTS), draw(TEXTS), tools, draw(st.one_of(st.none(), KNOWN))
    )


CHUNKS = st.builds(
    lambda some, usage, fault, names: Chunk("openai.chat", "", "", tuple(some), *names, usage, fault),
    st.lists(pieces(), max_size=2),
    st.sampled_from([None, {"completion_tokens": 3}, {"completion_tokens": "3"}]),
    st.sampled_from([None, ReportedError("a", "b")]),
    st.tuples(st.booleans(), st.booleans(), st.booleans()),
)


@st.composite
def runs(draw: st.DrawFn) -> list[ItemRun]:
    """Chunks of any kind, and several that repeat one text; some items have no chunk."""
    runs_drawn, item = list[ItemRun](), 0
    for _ in range(draw(st.integers(0, 4))):
        item += draw(st.integers(0, 1))
        if draw(st.booleans()):
            runs_drawn.append(ItemRun(draw(CHUNKS), None, [""], item))
        else:
            part = draw(st.sampled_from(PARTS))
            tools = (ToolPiece(0, "", draw(TEXTS), ""),) if part == "arguments" else ()
            piece = Piece(0, "", "", "", tools, draw(st.one_of(st.none(), KNOWN)))
            empty = Chunk("openai.chat", pieces=(piece,), content=True)
            runs_drawn.append(
                ItemRun(filler(empty, part)("x"), part, draw(st.lists(KNOWN, min_size=1, max_size=5)), item)
            )
        item += len(runs_drawn[-1])
    return runs_drawn


@st.composite
def streams(draw: st.DrawFn) -> Decoded:
    runs_drawn = draw(runs())
    size = runs_drawn[-1].items.stop if runs_drawn else 0
    at_ns = draw(st.lists(NS, min_size=size, max_size=size))
    return of_runs(
        runs_drawn, at_ns, draw(st.lists(st.one_of(st.none(), st.integers(0, 99)), min_size=size, max_size=size))
    )


def one_by_one(decoded: Decoded) -> Decoded:
    alone = [
        ItemRun(chunk, None, [""], item) for run in decoded.runs for item, chunk in enumerate(run.chunks(), run.item)
    ]
    return of_runs(alone, decoded.at_ns, decoded.reads)


def text_of(decoded_items: Any, **options: Any) -> bytes:
    out = io.BytesIO()
    export.write(out, "csv", CHUNK_FIELDS, decoded_items, **options)
    return out.getvalue()


@given(st.lists(streams(), max_size=3), st.booleans(), st.one_of(st.none(), st.integers(0, 12)))
def test_lines_are_what_csv_makes_of_the_rows(found: list[Decoded], raw: bool, limit: int | None) -> None:
    exchanges = [(f"a{place}", decoded) for place, decoded in enumerate(found)]
    rows_apart = [row for id, decoded in exchanges for row in chunks.chunks(id, one_by_one(decoded))]
    assert list(chunks.Chunks(exchanges, limit)) == rows_apart[:limit]
    assert text_of(chunks.Chunks(exchanges, limit), raw_csv=raw) == text_of(rows_apart[:limit], raw_csv=raw)


@given(st.lists(st.one_of(NS, st.floats(-1e3, 1e12))))
def test_milliseconds_are_written_as_python_writes_them(ns: list[float | None]) -> None:
    assert export.milliseconds(ns) == ["" if value is None else repr(units.ms(value)) for value in ns]


@given(st.lists(st.integers(0, 1 << 53), min_size=1))
def test_milliseconds_of_timestamps_are_written_like_pythons(ns: list[int]) -> None:
    assert export.milliseconds(ns) == [repr(units.ms(value)) for value in ns]


@pytest.mark.parametrize("damaged", ["x", b"x"])
def test_a_timestamp_that_is_no_number_is_damage(damaged: Any) -> None:
    for ns in ([damaged], [1, damaged], [None, 1.5, damaged]):
        with pytest.raises(TapeDamaged, match="the tape is damaged"):
            export.milliseconds(ns)


@each_case("middle", [0, 10**2, 10**6, 10**9, 1 << 52, 10**22])
def test_milliseconds_are_written_the_same_at_every_size(middle: int) -> None:
    for ns in range(middle - 120, middle + 120):
        assert export.milliseconds([ns]) == [repr(units.ms(ns))] == [repr(round(ns / 1e6, 6))]
        assert export.milliseconds([10**8, ns, 10**8]) == ["100.0", repr(round(ns / 1e6, 6)), "100.0"]


@each_case("limit", [None, 0, 1, 5, 17, 99])
@each_case("raw", [True, False])
def test_chunks_read_together_are_written_as_those_read_singly(
    connection: Connection, raw: bool, limit: int | None
) -> None:
    chunks_apart = list(queries.all_chunks(connection, None, limit))
    assert text_of(queries.all_chunks(connection, None, limit), raw_csv=raw) == text_of(chunks_apart, raw_csv=raw)


def test_a_cell_is_guarded_like_a_row() -> None:
    first_chunk = Chunk("openai.chat", pieces=(Piece(0, "x", "", "", (), None),), content=True)
    decoded = of_runs([ItemRun(first_chunk, "content", ["=1", 'a"b', "c,d"], 0)], [0, 1, 2])
    text = text_of(chunks.Chunks([("a", decoded)])).decode()
    assert [row["content"] for row in csv.DictReader(io.StringIO(text, newline=""))] == ["'=1", 'a"b', "c,d"]
