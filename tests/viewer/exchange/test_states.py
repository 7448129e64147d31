"""States of exchanges, as signs, words and cells; and a line of the list."""

import time
from datetime import UTC, datetime

import pytest
from rich.cells import cell_len

from tests.support.cases import each_case
from tests.support.exchanges import LOOK, plain
from tests.support.exchanges import listed as row
from tests.support.sample_tape import HOSTILE
from tests.support.zones import local_time
from wiretape.recorder.decode.exchange import FLAGS, OUTCOMES
from wiretape.recorder.decode.stalls import Thresholds
from wiretape.viewer.exchange import states
from wiretape.viewer.exchange.states import Look, Silence, silence
from wiretape.viewer.listing import layout
from wiretape.viewer.record.rows import ListRow
from wiretape.viewer.text import cells, formatting
from wiretape.viewer.text.cells import Part
from wiretape.viewer.text.waterfall import Axis

S = 1_000_000_000
MS = 1_000_000


def cells_of(name: str, values: ListRow, look: Look = LOOK, width: int = 20) -> list[Part]:
    (column,) = [column for column in layout.COLUMNS if column.name == name]
    return list(column.render(values, look, width))


def test_every_outcome_has_a_sign_and_a_word() -> None:
    assert set(states.STATES) == set(OUTCOMES)
    assert all(state.word == name and state.ascii.isascii() for name, state in states.STATES.items())


def test_every_notable_flag_is_one() -> None:
    assert set(states.NOTABLE) <= set(FLAGS)


def test_exchange_without_a_recorder_is_an_orphan() -> None:
    open_row = row(outcome="open")
    assert states.state(open_row, recording=True).word == "open"
    assert states.state(open_row, recording=False) is states.ORPHAN
    assert states.state(row(outcome="open", ended_by="end"), recording=False).word == "open"
    assert plain(cells_of("outcome", open_row)) == "orphan"


def test_a_running_duration_grows_and_an_orphans_does_not() -> None:
    open_row = row(outcome="open", last_read_ms=1500.0)
    assert plain(cells_of("duration", open_row, Look(wall_ns=LOOK.wall_ns, recording=True))) == "59.9+"
    assert plain(cells_of("duration", open_row)) == "1.5"
    assert plain(cells_of("duration", row(duration_ms=7201.0))) == "7.2"


def test_unknown_is_a_dash() -> None:
    for name in ("ttft", "icl_p50", "max_gap", "events", "tokens", "tps", "status", "model"):
        assert plain(cells_of(name, row())) == "–"


def test_figures_that_may_still_come_differ_from_unknown_ones() -> None:
    live_look = Look(wall_ns=LOOK.wall_ns, recording=True)
    for name in ("ttft", "icl_p50", "max_gap", "events", "tokens", "tps", "status"):
        assert cells_of(name, row(outcome="open"), live_look) == [("…", "muted")]
        assert cells_of(name, row(outcome="open"), LOOK) == [("–", "muted")]  # nothing records it any more


def test_running_figures_are_dim_with_a_plus() -> None:
    running_row = row(outcome="open", ttft_ms=2500.0, max_gap_ms=2914.0, icl_p50_ms=11.0, events=1234)
    look = Look(wall_ns=LOOK.wall_ns, recording=True)
    assert cells_of("ttft", running_row, look, 6) == [("2,500", "muted")]
    assert cells_of("max_gap", running_row, look, 6) == [("2,914+", "muted")]
    assert cells_of("icl_p50", running_row, look, 6) == [("11+", "muted")]
    assert cells_of("events", running_row, look, 5) == [("1,234", "muted")]  # there is no room


def test_flags_are_ranked_by_gravity() -> None:
    assert states.ranked(["no_done", "malformed", "stall"]) == ["stall", "malformed", "no_done"]


def test_slow_figures_have_a_tone_and_all_one_unit() -> None:
    assert cells_of("ttft", row(ttft_ms=388.4)) == [("388", "plain")]
    assert cells_of("ttft", row(ttft_ms=9999.0)) == [("9,999", "warning")]
    assert cells_of("ttft", row(ttft_ms=10_000.1)) == [("10,000", "error")]
    assert cells_of("ttft", row(ttft_ms=10_000.1), width=5) == [("10000", "error")]
    assert cells_of("ttft", row(ttft_ms=100_000.1), width=5) == [("100s", "error")]
    assert cells_of("max_gap", row(max_gap_ms=2000.1)) == [("2,000", "error")]


def test_an_outcome_is_worded_with_its_fitting_flags() -> None:
    cut = row(outcome="truncated", flags=["comments", "stall", "burst"])
    assert plain(cells_of("happened", cut, width=30)) == "cut by upstream stall burst"
    assert plain(cells_of("happened", cut, width=21)) == "cut by upstream stall"
    assert plain(cells_of("happened", cut, width=11)) == "cut by upstream"
    assert plain(cells_of("happened", row(outcome="http_error", status=429))) == "429"
    refused = row(outcome="http_error", status=429, outcome_detail="rate_limited")
    assert plain(cells_of("happened", refused, width=16)) == "429 rate_limited"
    assert plain(cells_of("happened", refused, width=11)) == "429"
    assert plain(cells_of("happened", row(outcome="malformed", flags=["malformed"]))) == "invalid JSON"


def test_a_complete_answer_says_its_stall_or_buffering() -> None:
    stalled = row(flags=["stall", "no_done"], max_output_silence_ms=2_400.4)
    assert cells_of("happened", stalled, width=11) == [("stall 2.4 s", "warning")]
    assert plain(cells_of("happened", row(flags=["stall"]))) == "stall"
    assert cells_of("happened", row(flags=["burst"])) == [("buffered", "warning")]
    assert cells_of("happened", row(flags=["storage_gap"])) == [("storage_gap", "error")]
    assert cells_of("happened", row()) == []


def test_finish_reason_other_than_stop_is_muted() -> None:
    assert cells_of("happened", row(finish_reason="stop")) == []
    assert cells_of("happened", row(finish_reason="length")) == [("length", "muted")]
    assert plain(cells_of("happened", row(finish_reason="tool_calls", flags=["stall"]))) == "stall"
    assert plain(cells_of("happened", row(outcome="truncated", finish_reason="length"))) == "cut by upstream"


@pytest.mark.parametrize(
    ("times", "width", "text"),
    [
        ("utc", 6, "12:00Z"),
        ("utc", 9, "12:00:00Z"),
        ("utc", 13, "12:00:00.123Z"),
        ("date", 11, "03-01 12:00"),
        ("date", 14, "03-01 12:00:00"),
        ("ago", 8, "59.9 s"),
    ],
)
def test_starts_are_shown_in_the_chosen_format(
    times: str, width: int, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "UTC")
    assert states.moment("2026-03-01T12:00:00.123456Z", Look(times=times, wall_ns=LOOK.wall_ns), width) == text


def test_times_of_day_are_dated_unless_all_are_todays() -> None:
    def with_room(*starts: str, times: str = "clock") -> tuple[bool, int]:
        look = states.with_room(Look(times=times, wall_ns=LOOK.wall_ns), starts)
        return look.needs_dates, look.start_cells

    assert with_room("2026-03-01T00:00:00Z", "2026-03-01T23:59:59.9Z") == (False, 0)
    assert with_room("2026-02-28T23:59:59.9Z", "2026-03-01T00:00:00Z") == (True, len("02-28 "))
    assert with_room("2025-02-28T23:59:59.9Z", HOSTILE) == (True, len("2025-02-28 "))
    assert with_room("2026-02-28T23:59:59.9Z", times="utc") == (True, len("02-28 Z"))
    assert with_room("2026-02-28T23:59:59.9Z", times="ago") == (False, 0)
    look = Look(wall_ns=LOOK.wall_ns, needs_dates=True)
    assert states.moment("2026-03-01T12:00:00Z", look, 14) == "03-01 12:00:00"


def test_an_hour_that_occurs_twice_has_its_offset() -> None:
    with local_time("America/New_York"):
        look = Look(wall_ns=round(datetime(2026, 11, 1, 18, tzinfo=UTC).timestamp()) * 10**9)
        texts = [states.moment(f"2026-11-01T0{hour}:30:00Z", look, 15) for hour in (5, 6, 7)]
        assert states.with_room(look, ["2026-11-01T06:30:00Z"]).start_cells == len(" -05:00")
    assert texts == ["01:30:00 -04:00", "01:30:00 -05:00", "02:30:00.000"]


def test_invalid_start_is_a_question_mark() -> None:
    assert states.moment(HOSTILE, LOOK, 12) == "?"
    assert states.elapsed_ms(row(outcome="open", started_at="x"), Look(recording=True)) is None


def test_a_start_without_local_time_is_a_question_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    latest = "9999-12-31T23:59:59Z"
    assert states.moment(latest, Look(times="clock"), 12) == "?"
    assert states.moment(latest, Look(times="utc"), 24) == "9999-12-31 23:59:59.000Z"
    assert not states.with_room(Look(wall_ns=LOOK.wall_ns), [latest]).needs_dates
    monkeypatch.undo()
    time.tzset()


@each_case(
    ("ms", "text"),
    [
        (None, "–"),
        (0.4, "0 ms"),
        (9999.4, "9,999 ms"),
        (10_000, "10.0 s"),
        (7.2e6, "2 h"),
        (1.8e8, "2 d"),
        (3e5, "5 m"),
    ],
)
def test_a_span_is_short(ms: float | None, text: str) -> None:
    assert formatting.span(ms) == text


def test_durations_of_a_column_have_one_unit() -> None:
    assert [formatting.seconds(ms) for ms in (None, 87, 3_070, 93_600_000)] == ["–", "0.087", "3.070", "93,600.000"]
    assert [formatting.beside(ms, 9_999) for ms in (87, 9_999)] == ["87 ms", "9,999 ms"]
    assert [formatting.beside(ms, 93_600_000) for ms in (87, 93_600_000)] == ["0.1 s", "93,600.0 s"]


def test_a_timeline_has_its_phases_tones_and_end() -> None:
    look = Look(axis=Axis(4 * S))
    stalled_row = row(
        ttft_ms=500.0, ttfo_ms=1_000.0, thinking_ms=500.0, latency_ms=3_500.0, duration_ms=4_000.0,
        stalls=[(1_500 * MS, 3_500 * MS)],
    )  # fmt: skip
    assert layout.timeline(stalled_row, look, 9) == [
        ("░", "muted"), ("▓", "reasoning"), ("█", "accent"), ("╱╱╱╱", "warning"), ("░", "muted"), ("✓", "success"),
    ]  # fmt: skip
    refused = row(outcome="http_error", duration_ms=1_000.0)
    assert layout.timeline(refused, look, 9) == [("░░", "muted"), ("✗", "error")]
    assert layout.timeline(refused, Look(axis=None), 9) == [("░░░░░░░░", "muted"), ("✗", "error")]
    assert layout.timeline(stalled_row, Look(), 9) == []


def test_a_running_timeline_grows_until_now() -> None:
    running_row = row(outcome="open", ttft_ms=1_000.0, ttfo_ms=1_000.0, last_read_ms=2_000.0)
    began_ns = 1_772_366_400 * S + 123_456_000
    drawings = [
        plain(layout.timeline(running_row, Look(wall_ns=began_ns + s * S, recording=True, axis=Axis(8 * S)), 9))
        for s in (2, 4, 8)
    ]
    assert drawings == ["░█●", "░█░░●", "░█░░░░░░●"]


def test_the_axis_is_as_long_as_its_longest_row() -> None:
    rows = [row(duration_ms=120.0), row(outcome="open", last_read_ms=2_100.0), row()]
    assert layout.axis(rows, Look()) == Axis(2_500 * MS)
    assert layout.axis([], Look()) == Axis()


def test_only_streams_with_output_make_a_logarithmic_axis() -> None:
    short, long = row(ttft_ms=100.0, duration_ms=200.0), row(ttft_ms=100.0, duration_ms=5_000.0)
    refused = row(outcome="http_error", duration_ms=2.0)
    assert layout.axis([long, refused], Look()) == Axis(5 * S)
    assert layout.axis([long, refused, short], Look()) == Axis(5 * S, 200 * MS)


@each_case(
    ("ms", "width", "text"),
    [
        (999_900.0, 5, "999.9"),
        (1_234_500.0, 5, "1,234"),
        (1_234_500.0, 7, "1,234.5"),
        (36_000_000.0, 5, "36000"),
        (360_000_000.0, 5, "4 d"),
    ],
)
def test_a_duration_is_never_cut(ms: float, width: int, text: str) -> None:
    assert plain(cells_of("duration", row(duration_ms=ms), width=width)) == text


@each_case(
    ("tokens", "text"),
    [(0, "0"), (50_000, "50,000"), (99_999, "99,999"), (100_000, "100k"), (1_234_567, "1,235k"), (12_345_678, "12M")],
)
def test_a_number_of_tokens_is_never_cut(tokens: int, text: str) -> None:
    assert plain(cells_of("tokens", row(output_tokens=tokens), width=6)) == text


def test_the_title_of_the_timelines_is_their_axis() -> None:
    (column,) = [column for column in layout.COLUMNS if column.name == "timeline"]
    axes = {
        axis: plain(layout.titles([layout.Slot(column, 32)], Look(axis=axis), 1, None)).strip()
        for axis in (Axis(500 * MS), Axis(60 * S, S), None)
    }
    assert [*axes.values()] == [
        "TIMELINE    ╷200 ms      500 ms╷", "TIMELINE log      ╷10 s    60 s╷", "TIMELINE, each on its own scale",
    ]  # fmt: skip


@each_case("text", ["日本語日本語", "e\u0301" * 9, "\U0001f468\u200d\U0001f469\ufe0f" * 4, "a" * 9])
def test_cells_are_cut_by_their_width(text: str) -> None:
    for width in range(8):
        assert cell_len(plain(cells.laid_out([(text, "plain")], width, right=False))) == width


def test_parts_of_one_tone_absorb_blanks_between_them() -> None:
    parts: list[Part] = [("  ", "error"), ("a", "muted"), (" ", "plain"), ("b", "muted"), ("c", "error")]
    assert list(cells.joined(parts)) == [("  a b", "muted"), ("c", "error")]


MS = 1_000_000


@each_case(
    ("passed", "last_ms", "expected"),
    [
        (1_000, 600, None),
        (1_100, 600, "silent for 0.5 s"),
        (2_500, 600, "silent for 1.9 s"),
        (1_900, None, "waiting for 1.9 s"),
        (400, None, None),
    ],
)
def test_silence_is_shown_from_half_a_second_on(passed: int, last_ms: int | None, expected: str | None) -> None:
    silence_ = silence(passed * MS, None if last_ms is None else last_ms * MS, Thresholds())
    assert (None if silence_ is None else str(silence_)) == expected


def test_silence_above_the_limit_is_a_stall() -> None:
    assert silence(2_601 * MS, 600 * MS, Thresholds()) == Silence(2_001 * MS, stalled=True)
    assert silence(2_600 * MS, 600 * MS, Thresholds()) == Silence(2_000 * MS)
