"""A stream in rows of cells on one axis, and its waits."""

import math
import struct
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.sample_tape import COMPLETE, COMPLETE_READS, MS, TOOLS, TOOLS_READS, event
from wiretape.recorder.decode.decoder import decode
from wiretape.recorder.decode.exchange import Exchange, Read
from wiretape.recorder.tape.reader import Connection
from wiretape.viewer.exchange import markers, strips
from wiretape.viewer.exchange.strips import StripWait
from wiretape.viewer.exchange.transcript import KINDS, Transcript
from wiretape.viewer.source.tape import queries
from wiretape.viewer.text import sparkline


@pytest.fixture
def tools(connection: Connection) -> Transcript:
    return Transcript(queries.observed(connection, queries.find(connection, TOOLS))[2])


def reads(parts: list[tuple[int, bytes]]) -> list[tuple[int, int]]:
    return [(at * MS, len(data)) for at, data in parts]


def test_all_rows_have_one_axis(connection: Connection) -> None:
    transcript = Transcript(queries.observed(connection, queries.find(connection, COMPLETE))[2])
    marks = markers.markers(transcript, 100 * MS)
    drawing = strips.draw(transcript, reads(COMPLETE_READS), marks, 180 * MS, 18)
    assert drawing.kinds == "         occ    cf"
    assert drawing.gaps() == ["           ▁    ▃ "]
    assert drawing.marks == "         BC      D"
    assert len(drawing.bytes()[0]) == 18
    assert drawing.bytes()[0][-1] == "█"


def test_markers_are_explained_where_there_is_room() -> None:
    assert strips.explained("    B C                 S  D", 28) == "    B C first content   S  D"
    assert strips.explained("           BC    D", 18) == "first byte BC    D"
    assert strips.explained(" E   E", 14) == " E   E".ljust(14)


def test_gaps_end_in_their_cell(tools: Transcript) -> None:
    drawing = strips.draw(tools, reads(TOOLS_READS), [], 3100 * MS, 31)
    assert drawing.gaps() == [" " + "╱" * 11 + " 3.0 s " + "╱" * 11 + "█"]


def test_silences_that_are_not_played_are_marked(tools: Transcript) -> None:
    drawing = strips.draw(tools, reads(TOOLS_READS), [], 3100 * MS, 31, 2_000 * MS)
    assert drawing.gaps() == [" " + "╱" * 10 + " ┆3.0 s┆ " + "╱" * 10 + "█"]


def test_waits_of_an_incomplete_stream_are_unknown(tools: Transcript) -> None:
    drawing = strips.draw(tools, reads(TOOLS_READS), [], 3100 * MS, 31, 2_000 * MS, is_whole=False)
    assert drawing.gaps() == [" " * 30 + "█"]
    tools.timed[tools.kinds.index(KINDS.index("tool"))] = 0
    assert strips.draw(tools, reads(TOOLS_READS), [], 3100 * MS, 31).waits == ()


def test_lowest_of_several_rows_has_the_shade() -> None:
    drawing = strips.draw_gaps(100.0, struct.pack("<3q", 5 * MS, 2 * MS, 1_000 * MS), 1_107 * MS, 12)
    assert drawing.gaps(4) == [
        "           ▇",
        "           █",
        "           █",
        " ▁· 1.0 s ·█",
    ]


@given(
    st.lists(st.tuples(st.integers(0, 2_000), st.integers(1, 30)), min_size=1, max_size=30),
    st.integers(0, 500),
    st.integers(1, 60),
    st.integers(1, 4),
)
def test_each_curve_cell_has_the_characters_so_far(
    steps: list[tuple[int, int]], more: int, cells: int, rows: int
) -> None:
    at = list(accumulate(ms for ms, _ in steps))
    transcript = streamed([(ms, event({"content": "x" * size})) for ms, (_, size) in zip(at, steps, strict=True)])
    axis, total = (at[-1] + more) * MS, sum(size for _, size in steps)
    drawing = strips.draw(transcript, [], [], axis, cells)
    levels = [_highest(drawing.curve(rows), column) for column in range(2 * cells)]
    for column, level in enumerate(levels if axis else ()):
        size_so_far = sum(
            size for ms, (_, size) in zip(at, steps, strict=True) if ms * MS * 2 * cells <= (column + 1) * axis
        )
        assert level == math.ceil(size_so_far * 4 * rows / total), column
    assert drawing.characters == total * bool(axis)


def _highest(curve: list[str], column: int) -> int:
    """Return the height of a column of dots, counted from the bottom; 0 without a dot."""
    bits = (0x01, 0x02, 0x04, 0x40) if column % 2 == 0 else (0x08, 0x10, 0x20, 0x80)
    dots = [sign != " " and bool(ord(sign) & bit) for sign in (row[column // 2] for row in curve) for bit in bits]
    return len(dots) - dots.index(True) if True in dots else 0


def streamed(parts: list[tuple[int, bytes]]) -> Transcript:
    """Return the transcript of a stream from the times of its reads, in ms, and their bytes."""
    its_reads, start = [], 0
    for seq, (ms, data) in enumerate(parts):
        its_reads.append(Read(seq, ms * MS, None, start, len(data)))
        start += len(data)
    facts = Exchange(
        status=200,
        content_type="text/event-stream",
        ended_by="end",
        connected_ns=0,
        headers_ns=0,
        end_ns=parts[-1][0] * MS,
        path="/v1/chat/completions",
    )
    return Transcript(decode(facts, its_reads, b"".join(data for _, data in parts)))


def test_the_curve_sums_all_texts_and_knows_the_last(tools: Transcript) -> None:
    drawing = strips.draw(tools, reads(TOOLS_READS), [], 3100 * MS, 31)
    assert drawing.characters == sum(len(track) for voice in tools.voices for _, track in voice.texts)
    assert drawing.outputs == "r" * 30 + "t"
    assert drawing.curve(2)[1].rstrip() == "⡤" + "⠤" * 29 + "⠃"


def test_the_curve_of_outputs_without_a_timestamp_is_unknown(tools: Transcript) -> None:
    tools.timed[tools.kinds.index(KINDS.index("tool"))] = 0
    drawing = strips.draw(tools, reads(TOOLS_READS), [], 3100 * MS, 31)
    assert (drawing.characters, "".join(drawing.curve(2)).strip()) == (0, "")


def test_gaps_are_drawn_before_decoding() -> None:
    drawing = strips.draw_gaps(100.0, struct.pack("<2q", 100 * MS, 5 * MS), 300 * MS, 3)
    assert drawing.gaps() == [" ▅▁"]


def test_an_exchange_without_a_body_is_drawn_empty() -> None:
    drawing = strips.draw(Transcript.of_texts({}), [], [], 0, 5)
    rows = (*drawing.bytes(), drawing.kinds, *drawing.gaps(), drawing.marks)
    assert [row.strip() for row in rows] == ["", "", "", ""]


@given(st.integers(1, 10**12), st.integers(1, 300), st.data())
def test_the_timestamp_of_a_cell_is_in_that_cell(axis: int, cells: int, data: st.DataObject) -> None:
    cell = data.draw(st.integers(0, cells - 1))
    at = strips.instant(cell, axis, cells)
    assert strips.cell(at, axis, cells) == cell or axis < cells


def test_events_without_a_timestamp_are_in_no_row() -> None:
    facts = Exchange(
        status=200, content_type="application/json", ended_by="end", connected_ns=0, headers_ns=0, end_ns=9 * MS
    )
    body = b'{"object":"chat.completion","choices":[{"index":0,"message":{"content":"Hi"},"finish_reason":"stop"}]}'
    transcript = Transcript(decode(facts, [], body))
    marks = markers.markers(transcript, 5 * MS)
    drawing = strips.draw(transcript, [(5 * MS, len(body))], marks, 9 * MS, 9)
    assert (drawing.kinds.strip(), drawing.gaps()[0].strip(), drawing.marks.strip()) == ("", "", "B")
    assert [(marker.sign, marker.at_ns) for marker in marks if marker.sign == "C"] == [("C", None)]
    transcript.come_by(9 * MS)
    assert list(transcript.at) == [9 * MS]


def test_the_legend_has_the_letters_that_a_stream_has() -> None:
    body = b"data: x\n\n: x\n\ndata: [DONE]\n\n"
    for path, final in (("/v1/chat/completions", "! malformed"), ("/", "? other")):
        facts = Exchange(
            status=200,
            content_type="text/event-stream",
            ended_by="end",
            connected_ns=0,
            headers_ns=0,
            end_ns=9 * MS,
            path=path,
        )
        transcript = Transcript(decode(facts, [Read(0, 5 * MS, None, 0, len(body))], body))
        assert strips.legend(transcript) == f": comment d done {final}"


def found_waits(at: list[int], end: int, cells: int = 30) -> list[StripWait]:
    """Return the waits of outputs at these times, on an axis up to `end`, all in ms."""
    return strips.waits([ms * MS for ms in at], 0, end * MS, end * MS, cells)


def test_waits_before_between_and_after_outputs() -> None:
    assert found_waits([1000, 1100, 2000, 2900], 3000) == [
        StripWait(0, 8, 1000 * MS, "first"),
        StripWait(11, 18, 900 * MS, "slow"),
        StripWait(20, 27, 900 * MS, "slow"),
    ]
    assert found_waits([100], 3000) == [StripWait(1, 29, 2900 * MS, "stalled")]
    assert found_waits([], 3000) == [StripWait(0, 29, 3000 * MS, "stalled")]


def test_a_wait_is_stalled_only_around_a_stall() -> None:
    at, end = [100 * MS, 3000 * MS], 9000 * MS
    for stalls, kinds in (([], ["slow", "slow"]), ([(3000 * MS, 9000 * MS)], ["slow", "stalled"])):
        assert [wait.kind for wait in strips.waits(at, 0, end, end, 30, stalls)] == kinds


def test_time_between_turns_is_idle_and_no_wait() -> None:
    at, idle = [1000 * MS, 9000 * MS], [(2000 * MS, 8000 * MS), (9500 * MS, 12000 * MS)]
    waits = strips.waits(at, 0, 12000 * MS, 12000 * MS, 120, (), idle)
    assert [(wait.kind, wait.lasted_ns // MS) for wait in waits] == [
        ("first", 1000), ("slow", 1000), ("idle", 6000), ("first", 1000), ("slow", 500), ("idle", 2500)
    ]  # fmt: skip
    assert strips.longest_gaps(at, 12000 * MS, 12, idle) == strips.longest_gaps([], 12000 * MS, 12)


def test_short_waits_are_left_out() -> None:
    assert found_waits([300, 600, 900], 1200) == []
    assert found_waits([300, 601, 900], 1200) == [StripWait(8, 14, 301 * MS, "slow")]


def test_a_wait_within_one_cell_takes_none() -> None:
    assert found_waits([1000, 1500], 60_000, 10)[0] == StripWait(1, 9, 58_500 * MS, "stalled")


def test_a_wait_is_shaded_with_its_length() -> None:
    row = "▃         ▇    ▆  ▃"
    shaded = strips.shaded(row, [StripWait(1, 9, 2_400 * MS, "stalled"), StripWait(11, 14, 850 * MS, "slow")], 20)
    assert shaded == "▃╱ 2.4 s ╱▇····▆  ▃ "


def test_a_shortened_wait_is_marked() -> None:
    long, short = StripWait(0, 10, 2_400 * MS, "stalled"), StripWait(12, 14, 2_400 * MS, "stalled")
    assert strips.shaded(" " * 15, [long, short], 15, 2_000 * MS) == "╱ ┆2.4 s┆ ╱ ╱┆╱"
    assert strips.shaded(" " * 15, [long], 15, 2_500 * MS) == "╱╱ 2.4 s ╱╱    "


@given(st.lists(st.integers(0, 10**11), max_size=20).map(sorted), st.integers(0, 10**11), st.integers(1, 200))
def test_waits_spare_cells_in_which_output_came(at: list[int], more: int, cells: int) -> None:
    end = (at[-1] if at else 0) + more
    wait_cells = [
        cell for wait in strips.waits(at, 0, end, end, cells) for cell in range(wait.first_cell, wait.last_cell + 1)
    ]
    assert len(wait_cells) == len(set(wait_cells))
    assert all(0 <= cell < cells for cell in wait_cells)
    ending_cells = {sparkline.cell(at_ns, end, cells) for at_ns in at} if end else set()
    assert not ending_cells & set(wait_cells)
