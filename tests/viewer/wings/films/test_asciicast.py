"""Terminal recordings: the lines that asciicast v3 asks for, at true instants, with nothing that a player obeys."""

import io
import json
import re
from bisect import bisect_right
from dataclasses import replace
from typing import Any

import pytest

from tests.support.decoding import of_chunks
from tests.support.exchanges import full
from tests.support.golden import assert_golden
from tests.support.sample_tape import COMPLETE, FAILED, HOSTILE, LIMITED, LIVE, MS, ODD, TOOLS, TRUNCATED
from tests.support.terminal import Screen
from wiretape.recorder.decode.dialect import Chunk, Piece, ReportedError, ToolPiece
from wiretape.recorder.tape.reader import Connection
from wiretape.viewer.source.tape import exchange, queries
from wiretape.viewer.timing.playback import Pace
from wiretape.viewer.wings.films import asciicast
from wiretape.viewer.wings.films.film import Film, ScreenSize

Event = tuple[float, str, str]
SGR = re.compile("\x1b\\[[0-9]+m")


def recorded(connection: Connection, id: str) -> bytes:
    out = io.BytesIO()
    count = asciicast.write(out, exchange.full(connection, queries.find(connection, id)))
    assert count == len(out.getvalue().splitlines()) - 1
    return out.getvalue()


def read_back(data: bytes) -> tuple[dict[str, Any], list[Event]]:
    header, *lines = data.decode().splitlines()
    events, at = list[Event](), 0.0
    for interval, code, text in map(json.loads, lines):
        at += interval
        events.append((round(at, 6), code, text))
    return json.loads(header), events


def events(connection: Connection, id: str) -> list[Event]:
    return read_back(recorded(connection, id))[1]


def film_events(*chunks: Chunk, **facts: Any) -> list[Event]:
    decoded = of_chunks(chunks, [at * 10 * MS for at in range(1, len(chunks) + 1)])
    finished = full((), decoded, **({"ended_by": "end", "end_ns": 90 * MS} | facts))
    return read_back("\n".join(asciicast.lines(finished)).encode())[1]


def answered(index: int = 0, **more: Any) -> Chunk:
    facts: dict[str, Any] = {"content": "", "reasoning": "", "refusal": "", "tools": (), "finish_reason": None}
    return Chunk("openai.chat", pieces=(Piece(index, **(facts | more)),), content=True)


@pytest.mark.parametrize("id", [TOOLS, ODD, TRUNCATED])
def test_a_recording_is_the_golden_file_byte_for_byte(connection: Connection, id: str) -> None:
    assert_golden(f"{id[:4]}.cast", recorded(connection, id))


def test_the_header_says_the_version_the_terminal_and_when(connection: Connection) -> None:
    header, _ = read_back(recorded(connection, COMPLETE))
    assert header == {
        "version": 3,
        "term": {"cols": 80, "rows": 24, "type": "xterm-256color"},
        "timestamp": 1772366401,
        "title": f"{COMPLETE} · gpt-x-mini · complete",
    }


def test_each_delta_appears_at_its_timestamp_since_the_request(connection: Connection) -> None:
    assert events(connection, COMPLETE) == [
        (0.11, "m", "ttft 110.0 ms"),
        (0.11, "o", "Hel"),
        (0.12, "o", "lo"),
        (0.12, "o", ", "),
        (0.17, "o", "world"),
        (0.1815, "o", "\r\n"),
        (0.1815, "m", "complete, finish reason stop"),
        (0.1815, "x", "0"),
    ]


def test_intervals_are_plain_decimals(connection: Connection) -> None:
    for line in recorded(connection, TOOLS).decode().splitlines()[1:]:
        assert re.match(r'\[\d+\.\d{6}, "[omx]", "', line)


def test_a_stall_is_marked_where_it_begins(connection: Connection) -> None:
    assert [event for event in events(connection, TOOLS) if event[1] == "m"] == [
        (0.05, "m", "ttft 50.0 ms"),
        (0.05, "m", "stall 3,000.0 ms"),
        (3.0715, "m", "complete, finish reason tool_calls"),
    ]


def test_reasoning_is_dim_and_tool_calls_stand_apart(connection: Connection) -> None:
    shown = "".join(text for _, code, text in events(connection, TOOLS) if code == "o")
    assert shown.startswith("\x1b[2mThink. \x1b[0m\r\n\r\n\x1b[36mget_weather ")
    assert SGR.sub("", shown) == 'Think. \r\n\r\nget_weather {"city":"Oslo"}\r\n'


def test_an_error_is_marked_with_its_ending(connection: Connection) -> None:
    timeline = events(connection, FAILED)
    assert (0.06, "m", "error server_overloaded: overloaded") in timeline
    assert timeline[-1][1:] == ("x", "1")
    assert "[error_event (mid_stream): overloaded]" in timeline[-3][2]


def test_an_error_is_marked_behind_what_came_with_it() -> None:
    failed = replace(answered(content="a"), fault=ReportedError("c", "overloaded"))
    assert [text for _, code, text in film_events(failed, end_ns=10 * MS) if code in "om"][:4] == [
        "ttft 10.0 ms", "a", "error c: overloaded", "\r\n",
    ]  # fmt: skip


def test_an_unstreamed_answer_appears_at_its_last_read(connection: Connection) -> None:
    timeline = events(connection, LIMITED)
    assert [event[1] for event in timeline] == ["m", "o", "m", "x"]
    assert [event[0] for event in timeline] == [0.03, 0.0315, 0.0315, 0.0315]
    assert "http_error (rate_limited): slow down" in timeline[1][2]


def test_an_open_exchange_has_no_exit(connection: Connection) -> None:
    timeline = events(connection, LIVE)
    assert (timeline[-1][1:], timeline[-1][0]) == (("m", "open"), 0.11)


def test_only_line_ends_and_our_colours_control_terminals(connection: Connection) -> None:
    data = recorded(connection, ODD)
    assert data.isascii()
    header, timeline = read_back(data)
    for text in [header["title"], *(text for _, _, text in timeline)]:
        assert not {sign for sign in SGR.sub("", text) if not sign.isprintable()} - {"\r", "\n"}
        assert "\n" not in text.replace("\r\n", "")
    assert HOSTILE not in json.dumps(timeline)


def test_a_line_end_is_return_and_line_feed() -> None:
    assert film_events(answered(content="a\r\nb\nc\td"))[1][2] == "a\r\nb\r\nc   d"


def test_a_halved_character_is_shown_whole() -> None:
    timeline = film_events(answered(content="a\ud83d"), answered(content="\ude00b\ud83d"), answered(content="c"))
    assert [text for _, code, text in timeline if code == "o"] == ["a", "\U0001f600b", "\ufffdc", "\r\n"]


def test_only_the_first_choice_is_shown() -> None:
    assert [
        text for _, code, text in film_events(answered(0, content="a"), answered(1, content="b")) if code == "o"
    ] == ["a", "\r\n"]


def test_each_call_begins_a_line_and_kinds_paragraphs() -> None:
    calls = [answered(tools=(ToolPiece(at, "", name, arguments),)) for at, name, arguments in
             ((0, "f", ""), (0, "", "1"), (1, "g", "2"))]  # fmt: skip
    timeline = film_events(answered(content="a"), *calls, answered(refusal="no"))
    shown = "".join(text for _, code, text in timeline if code == "o")
    assert SGR.sub("", shown) == "a\r\n\r\nf 1\r\ng 2\r\n\r\nno\r\n"


def test_time_never_runs_backwards(connection: Connection) -> None:
    finished = exchange.full(connection, queries.find(connection, COMPLETE))
    early = replace(finished, exchange=replace(finished.exchange, end_ns=5 * MS))
    intervals = [json.loads(line)[0] for line in list(asciicast.lines(early))[1:]]
    assert min(intervals) >= 0


def test_a_pace_changes_the_times_of_all_events(connection: Connection) -> None:
    finished = exchange.full(connection, queries.find(connection, TOOLS))
    lines = asciicast.lines(finished, pace=Pace(speed=2, cap_ns=500 * MS), size=ScreenSize(100, 30))
    header, timeline = read_back("\n".join(lines).encode())
    assert header["term"]["cols"], header["term"]["rows"] == (100, 30)
    assert [at for at, code, _ in timeline if code == "o"] == [0.025, 0.275, 0.28, 0.285750]


def raced(connection: Connection, *ids: str) -> tuple[dict[str, Any], list[Event], Film]:
    a, b = (exchange.full(connection, queries.find(connection, id)) for id in ids)
    out, film = io.BytesIO(), Film([a, b])
    asciicast.write_race(out, a, b, film)
    return *read_back(out.getvalue()), film


def test_a_race_plays_what_its_film_shows(connection: Connection) -> None:
    header, timeline, film = raced(connection, TOOLS, COMPLETE)
    assert header["title"] == f"{TOOLS} · gpt-x-mini · complete | {COMPLETE} · gpt-x-mini · complete"
    frames = [*film.frames(each_event=True)]
    screen = Screen(80, 24)
    for at, code, text in timeline[:-2]:
        assert code == "o"
        screen.feed(text)
        frame = frames[bisect_right([frame.at_ns // 1000 for frame in frames], round(at * 1e6)) - 1]
        assert screen.lines == ["".join(part for part, _ in line).rstrip() for line in frame.lines]
    assert timeline[-1] == (3.0715, "x", "0")


def test_a_hostile_races_terminal_gets_only_our_sequences(connection: Connection) -> None:
    _, timeline, _ = raced(connection, ODD, COMPLETE)
    sequences = re.compile("\x1b\\[(?:[0-9]*m|[0-9]+;1H|\\?25[lh]|2J)")
    for _, _, text in timeline:
        assert not {sign for sign in sequences.sub("", text) if not sign.isprintable()}
    assert HOSTILE not in json.dumps(timeline)
