"""A race: two exchanges on one clock, aligned at a chosen event, with one playhead, and the state of each."""

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from tests.support.cases import each_case
from tests.support.exchanges import detailed
from tests.support.sample_tape import COMPLETE, LIMITED, MS, TOOLS, event
from wiretape.recorder.decode.decoder import decode
from wiretape.recorder.decode.exchange import Exchange, Read
from wiretape.recorder.tape.reader import Connection
from wiretape.viewer.exchange import race
from wiretape.viewer.exchange.race import ALIGNMENTS, Lane, Race
from wiretape.viewer.exchange.race_drawing import Drawing
from wiretape.viewer.exchange.states import Silence
from wiretape.viewer.exchange.transcript import Transcript
from wiretape.viewer.record.rows import DetailRow
from wiretape.viewer.source.tape import exchange, queries


class Now:
    """A clock that stands until it is set."""

    at = 0

    def __call__(self) -> int:
        return self.at


def lane(texts: list[tuple[int, str]], end_ms: int | None = None) -> Lane:
    """Make a lane of deltas from their times, in ms, and texts."""
    parts = [(at, event({"content": text})) for at, text in texts]
    reads, start = [], 0
    for seq, (at, data) in enumerate(parts):
        reads.append(Read(seq, at * MS, None, start, len(data)))
        start += len(data)
    last_ms = end_ms if end_ms is not None else parts[-1][0] if parts else 0
    exchange = Exchange(status=200, content_type="text/event-stream", ended_by="end", end_ns=last_ms * MS)
    decoded = decode(exchange, reads, b"".join(data for _, data in parts))
    return Lane(Transcript(decoded), last_ms * MS, parts[0][0] * MS if parts else None)


FAST = [(100, "one "), (200, "two "), (300, "three")]
SLOW = [(400, "one "), (800, "two "), (1200, "four")]


def taped(connection: Connection, id: str) -> Lane:
    no = queries.find(connection, id)
    full = exchange.full(connection, no)
    return Lane(Transcript(full.decoded), full.exchange.end_ns, None)


def texts_of(race: Race) -> tuple[str, str]:
    a, b = (
        "".join(part.text[: part.length] for part in side.parts(position))
        for side, position in zip(race.lanes, race.positions, strict=True)
    )
    return a, b


def gaps(drawing: Drawing) -> tuple[str, str]:
    a, b = ("".join(cell.sign for cell in row).rstrip() for row in drawing.rows[-2:])
    return a, b


def test_both_lanes_follow_the_clock() -> None:
    race = Race(lane(FAST), lane(SLOW), Now())
    race.playback.seek_to(450 * MS)
    assert texts_of(race) == ("one two three", "one ")
    assert race.positions == (3, 1)


def test_a_step_goes_to_either_lanes_next_event() -> None:
    race = Race(lane(FAST), lane([(150, "x"), (400, "y")]), Now())
    seen = []
    for _ in range(5):
        race.playback.step(1)
        seen.append(race.positions)
    assert seen == [(1, 0), (1, 1), (2, 1), (3, 1), (3, 2)]
    race.playback.step(-2)
    assert race.positions == (2, 1)


def test_one_clock_drives_both() -> None:
    now = Now()
    race = Race(lane(FAST), lane(SLOW), now)
    race.playback.play()
    assert race.playback.deadline() == 100 * MS
    now.at = 400 * MS
    race.playback.advance()
    assert (race.positions, race.playback.playing) == ((3, 1), True)
    assert race.playback.deadline() == 800 * MS
    now.at = 5000 * MS
    race.playback.advance()
    assert (race.positions, race.playback.playing) == ((3, 3), False)


@each_case(
    ("alignment", "at_zero"),
    [("request sent", (0, 0)), ("first byte", (1, 1)), ("first content", (1, 1)), ("content offset", (0, 0))],
)
def test_aligned_events_come_at_once(alignment: str, at_zero: tuple[int, int]) -> None:
    race = Race(lane(FAST), lane(SLOW), Now())
    race.align(alignment)  # type: ignore[arg-type]
    race.playback.seek_to(race.origin_ns)
    assert race.clock_ns == 0
    assert race.positions == at_zero


def test_aligning_leaves_a_where_it_is() -> None:
    race = Race(lane(FAST), lane(SLOW), Now())
    race.playback.seek_to(200 * MS)
    race.align("first content")
    assert (race.clock_ns, race.playback.media_ns) == (100 * MS, 500 * MS)
    assert texts_of(race) == ("one two ", "one ")
    race.align("request sent")
    assert race.clock_ns == 200 * MS


def test_aligning_at_the_start_stays_at_the_start() -> None:
    race = Race(lane(FAST), lane(SLOW), Now())
    race.align("first content")
    assert race.playback.media_ns == 0


def test_aligned_by_content_b_is_as_far_as_a() -> None:
    race = Race(lane(FAST), lane([(400, "one two "), (900, "six"), (950, "!")]), Now(), "content offset")
    seen = []
    for position in range(4):
        race.playback.seek(position)
        seen.append(texts_of(race))
    assert seen == [
        ("", ""),
        ("one ", "one two "),
        ("one two ", "one two "),
        ("one two three", "one two six!"),
    ]
    assert race.places(race.drawing(95), 95) == (30, 94)  # of as much text, each at its own instant


def test_swapping_leaves_the_clock_where_it_is() -> None:
    race = Race(lane(FAST), lane(SLOW), Now())
    race.playback.seek_to(450 * MS)
    race.swap()
    assert texts_of(race) == ("one ", "one two three")
    assert race.clock_ns == 450 * MS


def test_aligning_keeps_speed_and_idle_cap() -> None:
    race = Race(lane(FAST), lane(SLOW), Now())
    race.playback.set_speed(4.0)
    race.playback.set_cap(500 * MS)
    race.playback.play()
    race.align("first byte")
    assert (race.playback.speed, race.playback.cap_ns, race.playback.playing) == (4.0, 500 * MS, True)


def test_only_common_silences_are_cut() -> None:
    now = Now()
    race = Race(lane([(0, "a"), (10_000, "b")]), lane([(5_000, "c"), (10_000, "d")]), now)
    race.playback.set_cap(2_000 * MS)
    race.playback.play()
    now.at = 2_000 * MS
    race.playback.advance()
    assert race.positions == (1, 1)


def test_gaps_are_drawn_on_one_axis() -> None:
    race = Race(lane(FAST), lane(SLOW), Now())
    assert gaps(race.drawing(12)) == ("·▁▁", "░░░····▃···▃"), "the unit is the gap of the faster one"
    waits = [(cell.wait or " ")[0] for cell in race.drawing(12).rows[1]]
    assert "".join(waits) == "fff sss sss "
    race.align("first byte")
    assert gaps(race.drawing(12)) == ("   ·▁▁", "░░░····▃···▃")
    assert [race.places(race.drawing(cells), cells) for cells in (12, 1)] == [(0, 0), (0, 0)]


def test_a_tools_long_wait_is_no_stall_in_races() -> None:
    texts = [(100, "a"), (3100, "b"), (6200, "c")]
    judged = Lane(lane(texts).transcript, 6200 * MS, None, stalls=[(3100 * MS, 6200 * MS)])
    race = Race(lane(FAST), judged, Now(), "first content")
    waits = [cell.wait for cell in race.drawing(60).rows[1] if cell.wait]
    assert list(dict.fromkeys(waits)) == ["slow", "stalled"]


def test_playhead_stays_within_the_strip() -> None:
    race = Race(lane(FAST), lane(SLOW), Now())
    race.playback.seek_to(10**12)
    assert race.places(race.drawing(12), 12) == (11, 11)


def test_the_last_gap_is_the_texts_so_far() -> None:
    side = lane(SLOW)
    assert [side.gap_ns(position) for position in range(4)] == [None, None, 400 * MS, 400 * MS]


def test_output_chunks_are_counted_with_their_pace() -> None:
    side = lane(FAST)
    assert [side.outputs(position) for position in range(4)] == [0, 1, 2, 3]
    assert [side.chunks_per_s(position) for position in range(4)] == [None, None, 10.0, 10.0]
    assert [side.instant_ns(position) for position in range(3)] == [None, 100 * MS, 200 * MS]
    assert lane([(100, "a"), (100, "b")]).chunks_per_s(2) is None


def whole_answer(end_ms: int, read_ms: int | None = None) -> Lane:
    """Make a lane of an answer that was not streamed; without `read_ms`, the tape has no read of it."""
    message = {"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}
    body = json.dumps({"object": "chat.completion", "choices": [message]}).encode()
    facts = Exchange(status=200, content_type="application/json", ended_by="end", end_ns=end_ms * MS)
    its_reads = [] if read_ms is None else [Read(0, read_ms * MS, None, 0, len(body))]
    return Lane(Transcript(decode(facts, its_reads, body)), end_ms * MS, end_ms * MS)


def test_output_without_a_timestamp_has_come_at_the_end() -> None:
    race = Race(whole_answer(500), lane(FAST), Now())
    race.playback.seek_to(499 * MS)
    assert texts_of(race) == ("", "one two three")
    race.playback.seek_to(500 * MS)
    assert (texts_of(race)[0], race.positions) == ("Hi", (1, 3))
    side = race.lanes[0]
    assert (side.instant_ns(1), side.gap_ns(1), side.chunks_per_s(1), side.outputs(1)) == (None, None, None, 1)
    assert side.origin_ns("first content") is None
    assert gaps(race.drawing(10))[0] == "         │"


def test_unstreamed_answer_comes_with_its_last_read() -> None:
    race = Race(whole_answer(500, 300), lane(FAST), Now())
    race.playback.seek_to(300 * MS)
    assert texts_of(race)[0] == "Hi"
    assert race.lanes[0].instant_ns(1) == race.lanes[0].origin_ns("first content") == 300 * MS


@each_case("alignment", ALIGNMENTS)
def test_a_growing_lane_does_not_move_the_playhead(alignment: str) -> None:
    race = Race(lane(FAST), lane(SLOW[:2]), Now(), alignment)  # type: ignore[arg-type]
    race.playback.seek_to(450 * MS)
    previous = race.clock_ns, race.positions
    race.grow(race.lanes[0], lane(SLOW))
    assert (race.clock_ns, race.positions[0]) == (previous[0], previous[1][0])
    assert race.playback.end_ns >= 1200 * MS


def live(texts: list[tuple[int, str]]) -> Lane:
    """Make a lane of one that still runs."""
    return Lane(lane(texts).transcript, texts[-1][0] * MS, texts[0][0] * MS, is_live=True)


def test_following_moves_with_the_end_until_neither_lane_runs() -> None:
    race = Race(lane(FAST), live(SLOW[:2]), Now())
    race.follow()
    assert (race.playback.following, race.playback.media_ns) == (True, 800 * MS)
    race.grow(race.lanes[0], live(SLOW))
    assert (race.playback.following, race.playback.media_ns, race.positions) == (True, 1200 * MS, (3, 3))
    race.grow(race.lanes[0], lane(SLOW, 1300))
    assert (race.playback.following, race.playback.media_ns) == (False, 1300 * MS)


def test_playhead_at_the_end_stays_there_unless_it_follows() -> None:
    race = Race(lane(FAST), live(SLOW[:2]), Now())
    race.playback.seek_to(race.playback.end_ns)
    race.grow(race.lanes[0], live(SLOW))
    assert (race.playback.media_ns, race.playback.end_ns) == (800 * MS, 1200 * MS)


@each_case("alignment", ALIGNMENTS)
def test_race_extends_while_a_live_lane_is_silent(alignment: str) -> None:
    race = Race(lane(FAST), live(SLOW), Now(), alignment)  # type: ignore[arg-type]
    race.follow()
    drawing, end = race.drawing(12), race.playback.end_ns
    race.pass_on((9_000 * MS, 1_205 * MS))
    assert (race.playback.end_ns, race.playback.media_ns) == (end + 5 * MS, end + 5 * MS)
    assert not race.lags(drawing, 12)
    race.playback.following = False
    race.pass_on((9_000 * MS, 3_200 * MS))
    assert (race.playback.end_ns, race.playback.media_ns) == (end + 2_000 * MS, end + 5 * MS)
    assert race.lags(drawing, 12)
    media = race.playback.media_ns
    race.playback.play()
    race.pass_on((9_000 * MS, 4_000 * MS))
    assert (race.playback.end_ns, race.playback.media_ns) == (end + 2_800 * MS, media)


def test_play_freezes_and_resumes_following() -> None:
    now = Now()
    race = Race(lane(FAST), live(SLOW), now)
    race.follow()
    end = race.playback.end_ns
    race.playback.toggle(is_live=any(race.is_live))
    assert (race.playback.following, race.playback.playing, race.playback.media_ns) == (False, False, end)
    race.playback.toggle(is_live=any(race.is_live))
    assert (race.playback.following, race.playback.playing, race.playback.media_ns) == (True, False, end)
    race.playback.toggle(is_live=any(race.is_live))
    race.pass_on((0, end + 500 * MS))
    race.playback.toggle(is_live=any(race.is_live))
    assert (race.playback.following, race.playback.playing, race.playback.media_ns) == (False, True, end)
    now.at += 500 * MS
    race.playback.advance()
    race.catch_up()
    assert (race.playback.following, race.playback.playing, race.playback.media_ns) == (True, False, end + 500 * MS)


def test_a_lane_has_its_own_time_at_the_playhead() -> None:
    race = Race(lane(FAST), lane(SLOW), Now(), "first content")
    race.playback.seek_to(700 * MS)
    assert [race.lane_ns(0), race.lane_ns(1)] == [400 * MS, 700 * MS]
    race = Race(lane(FAST), lane(SLOW), Now(), "content offset")
    race.playback.seek(1)
    assert race.lane_ns(0) == race.lanes[0].at[0]
    assert race.lane_ns(1) == race.lanes[1].at[race.positions[1] - 1]


def test_live_lane_is_drawn_without_an_end() -> None:
    finished, runs = lane(FAST, 900), live(FAST)
    runs.end_ns = 900 * MS
    assert ["│" in strip for strip in gaps(Race(finished, runs, Now()).drawing(12))] == [True, False]


@pytest.mark.parametrize(("alignment", "zero_ms"), [("request sent", 0), ("first byte", 400), ("first content", 400)])
def test_axis_is_zero_where_lanes_are_aligned(alignment: str, zero_ms: int) -> None:
    race = Race(lane(FAST), lane(SLOW), Now(), alignment)  # type: ignore[arg-type]
    assert race.drawing(12).zero_ns == zero_ms * MS
    assert race.clock_ns == -zero_ms * MS  # the request of the one that waited the longest
    race.playback.seek_to(race.playback.end_ns)
    assert race.clock_ns == race.playback.end_ns - zero_ms * MS == (1200 - zero_ms) * MS


def test_growing_lane_does_not_interrupt_playing() -> None:
    now = Now()
    race = Race(lane(FAST), lane(SLOW[:2]), now)
    race.playback.play()
    now.at = 700 * MS
    race.grow(race.lanes[0], lane(SLOW))
    assert (race.playback.playing, race.playback.media_ns) == (True, 700 * MS)
    now.at = 1300 * MS
    race.grow(*race.lanes)
    assert race.positions == (3, 3)


def test_a_late_origin_of_b_leaves_the_clock_alone() -> None:
    race = Race(lane(FAST), lane([], 50), Now(), "first content")
    race.playback.seek_to(200 * MS)
    race.grow(race.lanes[0], lane(SLOW))
    assert (race.clock_ns, texts_of(race)) == (100 * MS, ("one two ", "one "))


def test_reasoning_and_tool_calls_are_parts_of_a_lane(connection: Connection) -> None:
    tools = taped(connection, TOOLS)
    parts = tools.parts(len(tools.transcript))
    assert [(part.kind, part.text) for part in parts] == [
        ("reasoning", "Think. "),
        ("tool", "get_weather"),
        ("tool", '{"city":"Oslo"}'),
    ]


@each_case("alignment", ALIGNMENTS)
def test_exchange_without_text_can_race(alignment: str, connection: Connection) -> None:
    race = Race(taped(connection, LIMITED), taped(connection, COMPLETE), Now(), alignment)  # type: ignore[arg-type]
    race.playback.seek_to(10**12)
    assert texts_of(race)[0] == ""
    assert gaps(race.drawing(20))[0].strip() in ("", "│")


def test_two_empty_lanes_can_race() -> None:
    race = Race(lane([]), lane([]), Now())
    race.playback.play()
    race.playback.advance()
    assert (race.positions, gaps(race.drawing(10)), race.places(race.drawing(10), 10)) == ((0, 0), ("", ""), (0, 0))


def test_positions_of_lanes_never_fall() -> None:
    race = Race(lane(FAST), lane(SLOW), Now())
    seen = []
    for position in range(7):
        race.playback.seek(position)
        seen.append(race.positions)
    assert all(a[0] <= b[0] and a[1] <= b[1] and sum(b) == sum(a) + 1 for a, b in pairwise(seen))


def test_text_without_content_is_its_tool_calls(connection: Connection) -> None:
    tools = taped(connection, TOOLS)
    assert Race(tools, lane(FAST), Now()).texts == ('get_weather({"city":"Oslo"})', "one two three")
    assert Race(lane([]), tools, Now()).texts == ("", 'get_weather({"city":"Oslo"})')


def test_nul_is_replaced_in_the_texts_of_lanes() -> None:
    race = Race(lane([(100, "a\0b")]), lane(SLOW), Now())
    race.playback.seek_to(450 * MS)
    assert texts_of(race)[0] == race.texts[0] == "a\N{REPLACEMENT CHARACTER}b"


@each_case(
    ("at_ms", "standing"),
    [
        (0, ""),
        (99, ""),
        (100, "level"),
        (350, "B is 250 ms behind"),
        (450, "B is 300 ms behind"),
        (850, "B is 600 ms behind"),
        (1200, "A ended 900 ms before B"),
    ],
)
def test_the_shorter_lane_is_behind_since_the_other_led(at_ms: int, standing: str) -> None:
    race = Race(lane(FAST), lane(SLOW), Now())
    race.playback.seek_to(at_ms * MS)
    assert race.standing == standing
    race.swap()
    assert race.standing == standing.translate({ord("A"): "B", ord("B"): "A"})


def test_the_delay_of_steady_streams_grows_only_by_stalls() -> None:
    words = [(100 * at, "word") for at in range(1, 11)]
    late = [(at + 83, text) for at, text in words[:6]] + [(1583, "word")]
    race = Race(lane(words, 2000), lane(late, 2000), Now())
    status = []
    for at_ms in (190, 290, 299, 683, 700, 783, 900, 1500):
        race.playback.seek_to(at_ms * MS)
        status.append(race.standing)
    assert status == [*["B is 83 ms behind"] * 6, "B is 200 ms behind", "B is 800 ms behind"]


def test_a_screen_without_height_has_no_curves() -> None:
    race = Race(lane(FAST), lane(SLOW), Now())
    assert race.drawing(1, -4) == race.drawing(1, 0)


def test_an_ended_lane_with_less_text_is_not_behind() -> None:
    race = Race(lane(FAST), lane([(50, "x")], 150), Now())
    for at_ms, standing in ((60, "A is 10 ms behind"), (110, "B is 10 ms behind"), (160, "B has ended")):
        race.playback.seek_to(at_ms * MS)
        assert race.standing == standing
    race = Race(lane(FAST), lane(FAST), Now())
    race.playback.seek_to(150 * MS)
    assert race.standing == "level"
    race.playback.seek_to(300 * MS)
    assert race.standing == "both ended at once"
    race = Race(lane(FAST), lane([], 150), Now())
    race.playback.seek_to(300 * MS)
    assert race.standing == "B has no text"


def test_the_distance_is_that_of_the_alignment() -> None:
    race = Race(lane(FAST), lane(SLOW), Now(), "first content")
    race.playback.seek_to(450 * MS)
    assert (race.clock_ns, race.standing) == (50 * MS, "level")
    race = Race(lane(FAST), lane(SLOW), Now(), "content offset")
    race.playback.seek_to(250 * MS)
    assert race.standing == "B is 600 ms behind"


WIDE = 200


def status_of(lane: Lane, position: int, row: DetailRow, room: int, **more: Any) -> str:
    return "".join(text for text, _ in race.status(lane, position, row, room, **more))


def row(outcome: str = "complete", **more: Any) -> DetailRow:
    facts = {"ttft_ns": 100 * MS, "tps_user": 12.5, "tokens_per_chunk": 2.0, "ended_by": "end"}
    return detailed(outcome=outcome, **(facts | more))


def test_before_its_first_output_a_lane_waits() -> None:
    assert status_of(lane(FAST), 0, row(), WIDE) == "no output yet  #–/#2  0 ch"


def test_tokens_a_second_are_estimated_before_the_end() -> None:
    status = status_of(lane(FAST), 2, row(), WIDE)
    assert status == "T 100 ms  #1/#2  ~20.0 tok/s  gap 100.0 ms  0.200 s  8 ch"


def test_outcome_and_usage_are_shown_at_the_end() -> None:
    status = status_of(lane(FAST), 3, row(), WIDE)
    assert status == "✓ complete  T 100 ms  #2/#2  12.5 tok/s  gap 100.0 ms  0.300 s  13 ch"


def test_chunks_a_second_replace_usage_but_not_in_bursts() -> None:
    unused = row(tps_user=None, tokens_per_chunk=None)
    assert "  10.0 chunks/s  " in status_of(lane(FAST), 3, unused, WIDE)
    assert "/s" not in status_of(lane(FAST), 2, replace(unused, flags=["burst"]), WIDE)


def test_chunks_of_one_read_have_no_gap() -> None:
    assert "  same read  " in status_of(lane([(100, "a"), (100, "b")]), 2, row(), WIDE)


def test_running_lane_is_open_and_its_time_grows() -> None:
    side = Lane(lane(FAST).transcript, 300 * MS, None, is_live=True)
    open_row = row("open", tps_user=None, tokens_per_chunk=None, ended_by=None)
    assert status_of(side, 3, open_row, WIDE).startswith("● open  T 100 ms  #2/#2  10.0 chunks/s")
    assert status_of(side, 3, open_row, WIDE).endswith("  0.300+ s  13 ch")
    assert status_of(side, 3, replace(open_row, outcome="orphan"), WIDE).startswith("? orphan  T 100 ms")


def test_a_silence_at_the_playhead_shows_stalls_as_errors() -> None:
    side = Lane(lane(FAST).transcript, 300 * MS, None, is_live=True)
    for silence, tone in ((Silence(900 * MS), "warning"), (Silence(2_400 * MS, stalled=True), "error")):
        status = race.status(side, 3, row("open"), WIDE, silence=silence)
        assert status[:2] == [("● open", "accent"), (f"  {silence}", tone)]
        assert status_of(side, 2, row("open"), WIDE, silence=silence).startswith(f"{silence}  T 100 ms")


def test_times_count_from_the_alignment() -> None:
    assert "  −0.100 s  " in status_of(lane(FAST), 1, row(), WIDE, zero_ns=200 * MS)
    assert "  0.100+ s  " not in status_of(lane(FAST), 3, row(), WIDE, zero_ns=200 * MS)
    assert "  0.100 s  " in status_of(lane(FAST), 3, row(), WIDE, zero_ns=200 * MS)


def test_one_that_ended_without_output_says_so() -> None:
    status = status_of(lane([], 50), 0, row("http_error", ttft_ms=None, tps_user=None), WIDE)
    assert status == "✗ http_error  no output  #–/#–  0 ch"


def test_unknown_timestamp_is_not_zero() -> None:
    status = status_of(whole_answer(500), 1, row(ttft_ms=None, tps_user=None), WIDE)
    assert status == "✓ complete  T –  #0/#0  time unknown  2 ch"


@each_case(("room", "status"), [
    (40, "✓ complete  T 100 ms  #2/#2  12.5 tok/s"),
    (39, "✓ complete  T 100 ms  #2/#2  12.5 tok/s"),
    (38, "✓ complete  T 100 ms  #2/#2"),
    (3, "✓ complete"),
])  # fmt: skip
def test_most_telling_parts_stay_where_room_is_short(room: int, status: str) -> None:
    assert status_of(lane(FAST), 3, row(), room) == status
