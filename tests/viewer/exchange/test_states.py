"""States of exchanges, as signs, words and cells; and a line of the list."""

import struct

import pytest
from rich.cells import cell_len

from tests.support.cases import each_case
from tests.support.exchanges import LOOK, plain
from tests.support.exchanges import listed as row
from tests.support.sample_tape import HOSTILE
from wiretape.recorder.decode.exchange import FLAGS, OUTCOMES
from wiretape.recorder.decode.stalls import Thresholds
from wiretape.viewer.exchange import states
from wiretape.viewer.exchange.states import Look, Silence, silence
from wiretape.viewer.listing import layout
from wiretape.viewer.rows import ListRow
from wiretape.viewer.text import cells, formatting, sparkline
from wiretape.viewer.text.cells import Part


def cells_of(name: str, values: ListRow, look: Look = LOOK, width: int = 20) -> list[Part]:
    (column,) = [column for column in layout.COLUMNS if column.name == name]
    return list(column.shown(values, look, width))


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


def test_duration_of_a_running_exchange_grows_and_that_of_an_orphan_does_not() -> None:
    open_row = row(outcome="open", last_read_ms=1500.0)
    assert plain(cells_of("duration", open_row, Look(wall_ns=LOOK.wall_ns, recording=True))) == "59.9+"
    assert plain(cells_of("duration", open_row)) == "1.5"
    assert plain(cells_of("duration", row(duration_ms=7201.0))) == "7.2"


def test_unknown_is_a_dash() -> None:
    for name in ("ttft", "icl_p50", "max_gap", "events", "tokens", "tps", "status", "model"):
        assert plain(cells_of(name, row())) == "–"


def test_figures_that_may_still_come_differ_from_unknown_ones() -> None:
    running = Look(wall_ns=LOOK.wall_ns, recording=True)
    for name in ("ttft", "icl_p50", "max_gap", "events", "tokens", "tps", "status"):
        assert cells_of(name, row(outcome="open"), running) == [("…", "muted")]
        assert cells_of(name, row(outcome="open"), LOOK) == [("–", "muted")]  # nothing records it any more


def test_figures_of_a_running_exchange_are_dim_with_a_plus_if_they_may_grow() -> None:
    running = row(outcome="open", ttft_ms=2500.0, max_gap_ms=2914.0, icl_p50_ms=11.0, events=1234)
    look = Look(wall_ns=LOOK.wall_ns, recording=True)
    assert cells_of("ttft", running, look, 6) == [("2,500", "muted")]
    assert cells_of("max_gap", running, look, 6) == [("2,914+", "muted")]
    assert cells_of("icl_p50", running, look, 6) == [("11+", "muted")]
    assert cells_of("events", running, look, 5) == [("1,234", "muted")]  # there is no room


def test_flags_are_ranked_by_gravity() -> None:
    assert states.ranked(["no_done", "malformed", "stall"]) == ["stall", "malformed", "no_done"]


def test_slow_figures_have_a_tone_and_large_ones_another_unit() -> None:
    assert cells_of("ttft", row(ttft_ms=388.4)) == [("388", "plain")]
    assert cells_of("ttft", row(ttft_ms=9999.0)) == [("9,999", "warning")]
    assert cells_of("ttft", row(ttft_ms=10_000.1)) == [("10.0s", "error")]
    assert cells_of("max_gap", row(max_gap_ms=2000.1)) == [("2,000", "error")]


def test_outcome_precedes_the_flags_where_it_has_no_column() -> None:
    cut = row(outcome="truncated", flags=["comments", "stall", "burst"])
    assert plain(cells_of("flags", cut)) == "truncated stall burst"
    assert plain(cells_of("flags", cut, Look(worded=False))) == "stall burst"
    assert plain(cells_of("flags", row(outcome="http_error", status=429))) == "429"
    assert plain(cells_of("flags", row(outcome="http_error", status=429, flags=["stall"]))) == "429 stall"
    assert plain(cells_of("flags", row(outcome="malformed", flags=["malformed"]))) == "malformed"


def test_finish_reason_other_than_stop_is_muted() -> None:
    assert cells_of("flags", row(finish_reason="stop")) == []
    assert cells_of("flags", row(finish_reason="length")) == [("length", "muted")]
    assert plain(cells_of("flags", row(finish_reason="tool_calls", flags=["stall"]))) == "stall"
    assert plain(cells_of("flags", row(outcome="truncated", finish_reason="length"))) == "truncated"


@pytest.mark.parametrize(
    ("times", "width", "shown"),
    [("utc", 8, "12:00:00"), ("utc", 12, "12:00:00.123"), ("date", 14, "03-01 12:00:00"), ("ago", 8, "59.9 s")],
)
def test_starts_are_shown_in_the_chosen_format(
    times: str, width: int, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "UTC")
    assert states.moment("2026-03-01T12:00:00.123456Z", Look(times=times, wall_ns=LOOK.wall_ns), width) == shown


def test_times_of_day_are_dated_where_days_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    assert states.spans_days("2026-03-01T23:59:59.9Z", "2026-03-02T00:00:00Z")
    assert not states.spans_days("2026-03-01T00:00:00Z", "2026-03-01T23:59:59.9Z")
    assert not states.spans_days(HOSTILE, "2026-03-02T00:00:00Z")
    shown = [states.moment("2026-03-01T12:00:00Z", Look(times=one, spans_days=True), 14) for one in ("clock", "utc")]
    assert shown == ["03-01 12:00:00"] * 2


def test_invalid_start_is_a_question_mark() -> None:
    assert states.moment(HOSTILE, LOOK, 12) == "?"
    assert states.elapsed_ms(row(outcome="open", started_at="x"), Look(recording=True)) is None


@each_case(
    ("ms", "shown"),
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
def test_a_span_is_short(ms: float | None, shown: str) -> None:
    assert formatting.span(ms) == shown


def test_gaps_of_all_rows_are_drawn_on_one_axis() -> None:
    look = Look(axis_ns=4_000_000_000)
    gaps = struct.pack("<3q", 500_000_000, 1_500_000_000, 5_000_000)
    one = row(ttft_ms=500.0, latency_ms=2_505.0, duration_ms=3_000.0, sparkline="▆▇▂", gaps=gaps)
    assert layout.gaps(one, look, 8) == [("·", "muted"), ("▆", "warning"), ("  ", "accent"), ("▇", "error"),
                                          ("▂", "accent")]  # fmt: skip
    other = row(ttft_ms=1_000.0, latency_ms=1_400.0, duration_ms=2_900.0, sparkline="▃▃▃▃", gaps=None)
    assert plain(layout.gaps(other, look, 8)) == " ·▃  │"
    assert plain(layout.gaps(row(duration_ms=1_600.0), look, 8)) == "   │"
    assert layout.gaps(one, Look(), 8) == []


def test_the_axis_is_as_long_as_the_longest_row_needs() -> None:
    rows = [row(duration_ms=120.0), row(outcome="open", last_read_ms=2_100.0), row()]
    assert layout.longest_ns(rows) == 2_100_000_000
    assert layout.longest_ns([]) == 0
    assert sparkline.scale_ns(2_100_000_000) == 5_000_000_000


@each_case(("width", "title"), [(8, "0–500 ms"), (12, "0–500 ms"), (13, "GAPS 0–500 ms"), (7, "GAPS")])
def test_the_title_of_the_gaps_says_how_long_their_axis_is(width: int, title: str) -> None:
    (column,) = [column for column in layout.COLUMNS if column.name == "gaps"]
    shown = layout.titles([layout.Slot(column, width)], Look(axis_ns=500_000_000), 1, None)
    assert plain(shown).strip() == title


@each_case("text", ["日本語日本語", "e\u0301" * 9, "\U0001f468\u200d\U0001f469\ufe0f" * 4, "a" * 9])
def test_cells_are_cut_by_their_width(text: str) -> None:
    for width in range(8):
        assert cell_len(plain(cells.laid_out([(text, "plain")], width, right=False))) == width


def test_parts_of_one_tone_are_joined_with_the_blanks_between_them() -> None:
    parts: list[Part] = [("  ", "error"), ("a", "muted"), (" ", "plain"), ("b", "muted"), ("c", "error")]
    assert list(cells.joined(parts)) == [("  a b", "muted"), ("c", "error")]


MS = 1_000_000


@each_case(
    ("passed", "last", "told"),
    [
        (1_000, 600, None),
        (1_100, 600, "silent for 0.5 s"),
        (2_500, 600, "silent for 1.9 s"),
        (1_900, None, "waiting for 1.9 s"),
        (400, None, None),
    ],
)
def test_silence_is_shown_from_half_a_second_on(passed: int, last: int | None, told: str | None) -> None:
    found = silence(passed * MS, None if last is None else last * MS, Thresholds())
    assert (None if found is None else str(found)) == told


def test_silence_above_the_limit_is_a_stall() -> None:
    assert silence(2_601 * MS, 600 * MS, Thresholds()) == Silence(2_001 * MS, stalled=True)
    assert silence(2_600 * MS, 600 * MS, Thresholds()) == Silence(2_000 * MS)
