"""Timelines of the list against the reads on the tape: every cell of them."""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from tests.support.cases import each_case
from tests.support.exchanges import LOOK
from tests.support.frames import damage
from tests.support.growing_tape import recorder
from tests.support.sample_tape import DONE, event
from wiretape.recorder.decode.stalls import DEFAULT
from wiretape.recorder.tape.reader import Connection
from wiretape.viewer.listing import layout
from wiretape.viewer.record.rows import ListRow
from wiretape.viewer.source.tape import live, queries
from wiretape.viewer.text import waterfall
from wiretape.viewer.text.waterfall import Axis, Phase

STREAMS = 40


def parts(random: Random) -> Iterator[tuple[int, bytes]]:
    """Yield the events of a stream with their times in ms: a wait, reasoning, content, stalls, usage and the end."""
    at = random.choice((3, 90, 700, 4_000))
    for kind in ("reasoning_content", "content"):
        for _ in range(random.choice((0, 1, 12, 60)) if kind == "reasoning_content" else random.randint(1, 80)):
            yield at, event({kind: "word "})
            at += random.choices((1, 30, 400, 2_700, 9_000), (10, 60, 10, 2, 1))[0]
    yield at, event({}, "stop")
    yield at + random.choice((0, 5, 1_500)), DONE


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    path = tmp_path_factory.mktemp("timelines") / "tape.db"
    with recorder(path) as writer:
        for number in range(STREAMS):
            writer.record(f"{number:016}", list(parts(Random(number))), at=number)
    with queries.opened(path) as connection:
        yield connection


@dataclass(frozen=True)
class Span:
    """A phase of a stream, in ns since its request."""

    phase: Phase
    begin: int
    end: int


def spans(connection: Connection, row: ListRow) -> list[Span]:
    """Return the phases of a stream by its reads on the tape; each read holds one event."""
    body = queries.body(connection, row.no)
    with connection.begin():
        query = "SELECT start, size, at_ns FROM reads WHERE exchange_no = ? ORDER BY seq"
        reads = [(body[start : start + size], at) for start, size, at in connection.exec_driver_sql(query, (row.no,))]
        end = connection.exec_driver_sql("SELECT end_ns FROM exchanges WHERE no = ?", (row.no,)).scalar_one()
    deltas = [(json.loads(data[6:])["choices"][0]["delta"], at) for data, at in reads if data != DONE]
    outputs = [at for delta, at in deltas if delta]
    answer = next(at for delta, at in deltas if "content" in delta)

    def phase(begin: int, end: int) -> Phase:
        return "stall" if end - begin > DEFAULT.stall_ns else "reasoning" if end <= answer else "content"

    output = [Span(phase(*times), *times) for times in pairwise(outputs)]
    is_stalled = reads[-1][1] - outputs[-1] > DEFAULT.stall_ns
    return [
        Span("wait", 0, outputs[0]),
        *(output or [Span("content", outputs[0], outputs[0])]),
        Span("stall" if is_stalled else "wait", outputs[-1], reads[-1][1]),
        Span("wait", reads[-1][1], end),
    ]


def place(at: float, axis: Axis, cells: int) -> float:
    """Return the cells before a timestamp, as a fraction."""
    if axis.bend_ns is None:
        return at * cells / axis.length_ns
    return cells * math.log(1 + at / axis.bend_ns) / math.log(1 + axis.length_ns / axis.bend_ns)


def drawn(row: ListRow, axis: Axis | None, width: int) -> list[Phase]:
    """Return the phases of the cells of a timeline, without its ending."""
    timeline = layout.timeline(row, replace(LOOK, axis=axis), width)
    phases = {tone: phase for phase, tone in waterfall.TONES.items()}
    return [phases[tone] for part, tone in timeline[:-1] for _ in part]


@each_case("width", [12, 32, 48, 80, 131])
def test_every_cell_has_its_phase_to_one_cell(streams: Connection, width: int) -> None:
    rows = live.listed(streams, range(1, STREAMS + 1))
    common = layout.axis(rows, LOOK)
    assert common.bend_ns is not None
    for row in rows:
        spans_ = spans(streams, row)
        end = spans_[-1].end
        for axis in (common, replace(common, bend_ns=None), None):
            scale, room = axis or Axis(end), width - 1
            cells = drawn(row, axis, width)
            assert abs(len(cells) - max(place(end, scale, room), 1)) <= 1
            for cell, phase in enumerate(cells):
                near = (
                    span
                    for span in spans_
                    if place(span.end, scale, room) > cell - 1 and place(span.begin, scale, room) < cell + 2
                )
                assert phase in {span.phase for span in near}, (row.no, axis, cell)


@pytest.mark.damages
def test_an_answer_that_began_earlier_keeps_its_times(tmp_path: Path) -> None:
    with recorder(tmp_path / "tape.db") as writer:
        writer.record("a" * 16, list(parts(Random(3))), at=0)
    with queries.opened(tmp_path / "tape.db") as connection:
        (row_before,) = live.listed(connection, [1])
    damage(tmp_path / "tape.db", "UPDATE measures SET flags = trim(flags || ' continuation')")
    with queries.opened(tmp_path / "tape.db") as connection:
        (row_after,) = live.listed(connection, [1])
    assert (row_after.ttft_ms, row_after.ttfo_ms) == (None, None)
    assert row_before.ttft_ms is not None
    assert layout.bar(row_after, LOOK) == layout.bar(row_before, LOOK)
