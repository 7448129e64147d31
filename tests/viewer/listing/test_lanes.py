"""Lanes on the wall clock, cell by cell against the tape."""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.cases import each_case
from tests.support.exchanges import listed as row
from tests.support.growing_tape import Parts, recorder
from tests.support.sample_tape import DONE, USAGE, event
from wiretape.recorder.clock import wall_ns
from wiretape.viewer.exchange.states import Look
from wiretape.viewer.listing import lanes
from wiretape.viewer.listing.lane_chart import LaneChart
from wiretape.viewer.listing.lanes import ClockLanes
from wiretape.viewer.record.rows import ListRow
from wiretape.viewer.source.tape import live, queries
from wiretape.viewer.text.clock_axis import ClockLine, ClockView, ClockZoom

MS = 1_000_000
S = 1000 * MS
SIGNS = {"░": "wait", "▓": "reasoning", "█": "content", "╱": "stall"}
SIZES = [(80, 24), (120, 40), (200, 60)]
NOON_NS = wall_ns("2026-03-01T12:00:00.000000Z")


@dataclass(frozen=True)
class Written:
    """An exchange as it was written: its phases in ms since noon, and the sign of its end."""

    phases: Sequence[tuple[str, float, float]]
    ending: str
    parts: Parts
    at_s: int

    @property
    def span(self) -> tuple[float, float]:
        return self.phases[0][1], self.phases[-1][2]


def some(source: random.Random, at_s: int) -> Written:
    """Return an exchange of random phases: a wait, maybe reasoning, content, maybe with a stall in it."""
    at, phases, parts = 0, list[tuple[str, float, float]](), list[tuple[int, bytes]]()

    def phase(name: str, lasts_ms: int) -> None:
        nonlocal at
        if phases and phases[-1][0] == name:
            phases[-1] = name, phases[-1][1], phases[-1][2] + lasts_ms
        else:
            phases.append((name, 1000 * at_s + at, 1000 * at_s + at + lasts_ms))
        at += lasts_ms

    phase("wait", source.randint(20, 3000))
    if source.random() < 0.5:
        lasts = source.randint(200, 2000)
        parts += [(at + lasts * step // 4, event({"reasoning_content": "x"})) for step in range(4)]
        phase("reasoning", lasts)
    parts.append((at, event({"content": "x"})))
    for _ in range(source.randint(1, 20)):
        is_stall = source.random() < 0.1
        phase(*("stall", source.randint(2100, 6000)) if is_stall else ("content", source.randint(20, 900)))
        parts.append((at, event({"content": "x"})))
    is_ended = source.random() < 0.8
    final = event({}, "stop") + USAGE + DONE if is_ended else b'data: {"error":{"message":"overloaded"}}\n\n'
    parts.append((at + 1, final))
    lasts = at + 1 + (0 if is_ended else 1.5)  # after an error until the end of the connection
    return Written([*phases, ("wait", 1000 * at_s + at, 1000 * at_s + lasts)], "✓" if is_ended else "!", parts, at_s)


Tapes = Sequence[tuple[dict[int, Written], ClockLanes]]


@pytest.fixture(scope="module")
def tapes(tmp_path_factory: pytest.TempPathFactory) -> Tapes:
    """Tapes of random exchanges with an idle time among them: the phases of each, and the lanes."""
    exchanges = []
    for seed in range(6):
        path, source = tmp_path_factory.mktemp("lanes") / "tape.db", random.Random(seed)
        exchanges_by_no = {no: some(source, at) for no, at in enumerate([0, 1, 1, 3, 8, 9, 40, 41, 56], 1)}
        with recorder(path) as writing:
            for no, exchange in exchanges_by_no.items():
                writing.record(f"{no:016x}", exchange.parts, exchange.at_s)
        with queries.opened(path) as connection:
            exchanges.append(
                (
                    exchanges_by_no,
                    lanes.lanes(live.listed(connection, list(exchanges_by_no)), Look(), lambda row: row.model),
                )
            )
    return exchanges


def drawing(clock_lanes: ClockLanes, place: int, view: ClockView) -> str:
    return "".join(sign for sign, _ in clock_lanes.line(place, ClockLine(clock_lanes.axis, view)))


def views(clock_lanes: ClockLanes) -> Iterator[ClockView]:
    """Yield the views of three sizes of terminals, of everything and of the middle third."""
    for width, height in SIZES:
        chart = LaneChart(clock_lanes, Look(), width, height, None, ClockZoom())
        yield chart.view
        yield ClockView(clock_lanes.length_ns // 3, clock_lanes.length_ns // 3, chart.view.cells)


def borders(clock_lanes: ClockLanes, view: ClockView, *cells: float) -> list[float]:
    """Return the times at borders of cells, in ms since noon."""
    return [
        (clock_lanes.axis.wall_ns(round(view.start + at * view.length / view.cells)) - NOON_NS) / MS for at in cells
    ]


def test_every_cell_has_the_phase_of_its_time(tapes: Tapes) -> None:
    checked = Counter[str]()
    for exchanges_by_no, clock_lanes in tapes:
        for view in views(clock_lanes):
            for place, lane in enumerate(clock_lanes.lanes):
                owners: dict[int, list[Written]] = {}
                for bar in lane.bars:
                    for cell in range(*clock_lanes.span(bar, view)):
                        owners.setdefault(cell, []).append(exchanges_by_no[bar.row.no])
                for cell, sign in enumerate(drawing(clock_lanes, place, view)):
                    edges = borders(clock_lanes, view, cell - 1, cell + 2)
                    assert sign in signs_within(owners.get(cell, ()), *edges), (view, cell, sign)
                    checked[sign] += 1
    assert min(checked[sign] for sign in ["✓", "!", *SIGNS]) > 30


def signs_within(owners: Sequence[Written], start: float, end: float) -> set[str]:
    """Return the signs that a cell may have whose time, a cell more on each side, is that from `start` to `end`."""
    near = {phase for bar in owners for phase, begins, ends in bar.phases if begins <= end and ends >= start}
    signs = {sign for sign, phase in SIGNS.items() if phase in near}
    signs |= {bar.ending for bar in owners if start <= bar.span[1] <= end}
    return (signs | set(" 0123456789.s") if "stall" in near else signs) if owners else {" ", "┆"}


def test_segments_add_up_to_an_exchanges_duration(tapes: Tapes) -> None:
    for exchanges_by_no, clock_lanes in tapes:
        for width, height in SIZES:
            view = LaneChart(clock_lanes, Look(), width, height, None, ClockZoom()).view
            for bar in clock_lanes.bars:
                from_ns, until = clock_lanes.span(bar, view)
                of, cell_ms = exchanges_by_no[bar.row.no], view.length / view.cells / MS
                assert abs((until - from_ns) * cell_ms - (of.span[1] - of.span[0])) <= cell_ms
                line = drawing(clock_lanes, clock_lanes.places[bar.row.no], view)[from_ns:until]
                for name, signs in (("reasoning", "▓"), ("stall", "╱ 0123456789.s")):
                    lasted = [end - start for phase, start, end in of.phases if phase == name]
                    seen_ms = sum(sign in signs for sign in line) * cell_ms
                    assert abs(seen_ms - sum(lasted)) <= (len(lasted) + 1) * cell_ms


def test_the_number_at_once_counts_running_exchanges(tapes: Tapes) -> None:
    for exchanges_by_no, clock_lanes in tapes:
        for view in views(clock_lanes):
            for cell, count in enumerate(clock_lanes.at_once(view)):
                start, until = borders(clock_lanes, view, cell - 0.05, cell + 1.05)
                inside = [at for exchange in exchanges_by_no.values() for at in exchange.span if start <= at <= until]
                bar = [
                    sum(exchange.span[0] <= at < exchange.span[1] for exchange in exchanges_by_no.values())
                    for at in (start, *inside)
                ]
                assert min(bar) <= count <= max(bar)


def at(second: float, lasts: float, **more: Any) -> ListRow:
    """Return the row of an exchange with a start and a duration, in seconds."""
    no = more.pop("no", round(second * 1000) + 1)
    started = f"2026-03-01T12:00:{second:09.6f}Z"
    return row(no=no, started_at=started, duration_ms=lasts * 1000, model=more.pop("model", "m"), **more)


def lanes_of(*rows: ListRow, look: Look = Look()) -> ClockLanes:  # noqa: B008 - immutable
    return lanes.lanes(rows, look, lambda row: row.model)


def test_only_consecutive_exchanges_share_a_lane() -> None:
    clock_lanes = lanes_of(at(0, 2), at(1, 2), at(2, 2), at(3.5, 1, model="b"))
    assert [(lane.name, lane.leading, len(lane.bars)) for lane in clock_lanes.lanes] == [
        ("b", True, 1), ("m", True, 2), ("m", False, 1),
    ]  # fmt: skip


def test_lanes_stay_when_a_running_exchange_ends() -> None:
    look = Look(wall_ns=NOON_NS + 10 * S, recording=True)
    running_row = row(no=1, started_at="2026-03-01T12:00:00.000000Z", outcome="open", model="m")
    growing = lanes_of(running_row, at(1, 2), at(4, 1), look=look)
    finished = lanes_of(at(0, 10.5, no=1), at(1, 2), at(4, 1), at(11, 1))
    assert {no: growing.places[no] for no in growing.places} == {no: finished.places[no] for no in growing.places}


def test_a_running_exchange_grows_on_an_axis_that_stays() -> None:
    def end_at(now_s: int) -> tuple[str, int]:
        look = Look(wall_ns=NOON_NS + now_s * S, recording=True)
        clock_lanes = lanes_of(row(started_at="2026-03-01T12:00:00.000000Z", outcome="open", model="m"), look=look)
        return drawing(clock_lanes, 0, ClockView(0, clock_lanes.length_ns, 100)).rstrip(), clock_lanes.length_ns

    (first, length), (second, later) = end_at(51), end_at(57)
    assert length == later
    assert first.endswith("●")
    assert len(second) - len(first) == 10


@pytest.mark.parametrize("started", ["never", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z"])
def test_an_exchange_without_a_valid_start_is_omitted(started: str) -> None:
    assert lanes_of(row(started_at=started, model="m")).lanes == []


def test_the_cursor_moves_to_a_lanes_nearest_exchange() -> None:
    clock_lanes = lanes_of(at(0, 5), at(1, 1, model="n"), at(2.5, 1, model="n"), at(9, 1, model="n"))
    by_no = {bar.row.no: bar for bar in clock_lanes.bars}
    assert clock_lanes.beside(by_no[1], 1).row.no == 1001
    assert clock_lanes.following(by_no[1001], 1).row.no == 2501
    assert clock_lanes.beside(by_no[9001], -1).row.no == 1
    assert clock_lanes.beside(by_no[9001], 1) is by_no[9001] is clock_lanes.following(by_no[9001], 1)


def test_a_shared_cell_shows_selected_or_failed_exchanges() -> None:
    clock_lanes = lanes_of(at(0, 0.001), at(0.002, 0.001, outcome="http_error"), at(0.004, 0.001), at(50, 50))
    view = ClockView(0, clock_lanes.length_ns, 60)
    assert drawing(clock_lanes, 0, view)[0] == "✗"
    assert clock_lanes.line(0, ClockLine(clock_lanes.axis, view), selected=1)[0][0] == "✓"


def test_times_to_first_token_stand_above_lanes() -> None:
    clock_lanes = lanes_of(
        at(0, 4, ttft_ms=110.0), at(4, 1, ttft_ms=90.0), at(5, 1, ttft_ms=80.0), at(6, 4, ttft_ms=2300.0)
    )
    wide, narrow = (
        clock_lanes.above(0, ClockLine(clock_lanes.axis, ClockView(0, clock_lanes.length_ns, cells)))
        for cells in (80, 30)
    )
    assert wide == f"{'TTFT 110 ms':32}90 ms   80 ms   {'TTFT 2.3 s':32}"
    assert narrow.split() == ["TTFT", "110", "ms", "TTFT", "2.3", "s"]


@each_case("size", [*SIZES, (60, 16)])
def test_a_picture_fills_its_lines_and_never_more(size: tuple[int, int]) -> None:
    clock_lanes = lanes_of(*(at(place, 3, model=f"model-{place % 4}", ttft_ms=400.0) for place in range(0, 50, 2)))
    for bar in clock_lanes.bars[:: len(clock_lanes.bars) // 3]:
        chart = LaneChart(clock_lanes, Look(), *size, bar, ClockZoom())
        lines = ["".join(text for text, _ in chart.line(y)[0]) for y in range(size[1])]
        assert max(len(line.rstrip()) for line in lines) <= size[0]
        assert sum("▌" in line for line in lines) == 1
        assert any("at once, max 2" in line for line in lines)
        (y,) = [y for y, line in enumerate(lines) if "▌" in line]
        assert chart.bar_at(lines[0].index("▼"), y) is bar


def test_turns_run_only_where_they_lie_in_time() -> None:
    turns = [[S, 2 * S, 3 * S, 3 * S, 4, False, False, None], [8 * S, 9 * S, 9 * S, None, 2, False, False, None]]
    exchange = row(ttft_ms=1000.0, ttfo_ms=1000.0, latency_ms=3000.0, duration_ms=4000.0, turn_spans=turns)
    drawn = lanes.lanes([exchange], Look(), lambda _: "x")
    (bar,) = drawn.bars
    view = ClockView(0, 10 * S, 10)
    assert bar.end_ns - bar.start_ns == 10 * S
    assert "".join(sign for sign, _ in drawn.line(0, ClockLine(drawn.axis, view))) == " ░█     ░✓"
    assert drawn.at_once(view) == [0, 1, 1, 0, 0, 0, 0, 0, 1, 1]
