"""A stream in rows of cells on one axis."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection

from recorder.decode.derive import decode
from recorder.decode.outcome import Exchange, Read
from tests.viewer.conftest import COMPLETE, COMPLETE_READS, MS, TOOLS, TOOLS_READS
from viewer.model.exchange import markers as landmarks
from viewer.model.exchange import strips
from viewer.model.exchange.transcript import KINDS, Transcript
from viewer.tape import queries


@pytest.fixture
def tools(connection: Connection) -> Transcript:
    return Transcript(queries.decoded(connection, queries.find(connection, TOOLS)))


def reads(parts: list[tuple[int, bytes]]) -> list[tuple[int, int]]:
    return [(at * MS, len(data)) for at, data in parts]


def test_all_rows_have_one_axis(connection: Connection) -> None:
    transcript = Transcript(queries.decoded(connection, queries.find(connection, COMPLETE)))
    markers = landmarks.markers(transcript, 100 * MS)
    drawn = strips.made(transcript, reads(COMPLETE_READS), markers, 180 * MS, 18)
    assert drawn.kinds == "         occ    cf"
    assert drawn.gaps() == ["           ▃    ▄ "]
    assert drawn.marks == "         BC      D"
    assert len(drawn.bytes()[0]) == 18
    assert drawn.bytes()[0][-1] == "█"


def test_gaps_are_on_the_absolute_scale_and_end_in_their_cell(tools: Transcript) -> None:
    drawn = strips.made(tools, reads(TOOLS_READS), [], 3100 * MS, 31)
    assert drawn.gaps() == [" " + "·" * 12 + "3.0 s" + "·" * 12 + "█"]


def test_silences_that_are_not_played_are_marked(tools: Transcript) -> None:
    drawn = strips.made(tools, reads(TOOLS_READS), [], 3100 * MS, 31, 2_000 * MS)
    assert drawn.gaps() == [" " + "·" * 11 + "┆3.0 s┆" + "·" * 11 + "█"]


def test_waits_of_a_stream_that_is_not_whole_are_not_known(tools: Transcript) -> None:
    drawn = strips.made(tools, reads(TOOLS_READS), [], 3100 * MS, 31, 2_000 * MS, is_whole=False)
    assert drawn.gaps() == [" " * 30 + "█"]
    tools.timed[tools.kinds.index(KINDS.index("tool"))] = 0
    assert strips.made(tools, reads(TOOLS_READS), [], 3100 * MS, 31).waits == ()


def test_where_there_are_several_rows_the_lowest_has_the_shade_and_bars_go_through_all() -> None:
    drawn = strips.first(100.0, struct.pack("<3q", 5 * MS, 2 * MS, 1_000 * MS), 1_107 * MS, 12)
    assert drawn.gaps(4) == [
        "           ▁",
        "           █",
        "           █",
        " ▆" + "·" * 2 + "1.0 s" + "·" * 2 + "█",
    ]


def test_before_anything_is_decoded_the_gaps_are_known() -> None:
    drawn = strips.first(100.0, struct.pack("<2q", 100 * MS, 5 * MS), 300 * MS, 3)
    assert drawn.gaps() == [" ▅▂"]


def test_an_exchange_without_a_body_is_drawn_empty() -> None:
    drawn = strips.made(Transcript.of_texts({}), [], [], 0, 5)
    rows = (*drawn.bytes(), drawn.kinds, *drawn.gaps(), drawn.marks)
    assert [row.strip() for row in rows] == ["", "", "", ""]


@given(st.integers(1, 10**12), st.integers(1, 300), st.data())
def test_the_instant_of_a_cell_is_in_that_cell(axis: int, cells: int, data: st.DataObject) -> None:
    cell = data.draw(st.integers(0, cells - 1))
    at = strips.instant(cell, axis, cells)
    assert strips.cell(at, axis, cells) == cell or axis < cells


def test_what_has_no_instant_is_in_no_row() -> None:
    facts = Exchange(200, "application/json", None, "end", 0, 0, 9 * MS)
    body = b'{"object":"chat.completion","choices":[{"index":0,"message":{"content":"Hi"},"finish_reason":"stop"}]}'
    transcript = Transcript(decode(facts, [], body))
    markers = landmarks.markers(transcript, 5 * MS)
    drawn = strips.made(transcript, [(5 * MS, len(body))], markers, 9 * MS, 9)
    assert (drawn.kinds.strip(), drawn.gaps()[0].strip(), drawn.marks.strip()) == ("", "", "B")
    assert [(marker.sign, marker.at_ns) for marker in markers if marker.sign == "C"] == [("C", None)]
    transcript.come_by(9 * MS)
    assert list(transcript.at) == [9 * MS]


def test_the_legend_has_the_letters_that_a_stream_has() -> None:
    facts, body = Exchange(200, "text/event-stream", None, "end", 0, 0, 9 * MS), b"data: x\n\n: x\n\ndata: [DONE]\n\n"
    transcript = Transcript(decode(facts, [Read(0, 5 * MS, None, 0, len(body))], body))
    assert strips.legend(transcript) == ": comment d done ! malformed"
