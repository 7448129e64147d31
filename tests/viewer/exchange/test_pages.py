"""One exchange in words."""

import dataclasses
import json
from array import array
from collections.abc import Iterable

from tests.support.cases import each_case
from tests.support.sample_tape import COMPLETE, FAILED, LIMITED, LIVE, TOOLS, TRUNCATED
from wiretape.recorder.decode.stalls import Thresholds
from wiretape.recorder.process import RecorderRun
from wiretape.recorder.tape.reader import Connection
from wiretape.viewer.exchange import opened as opening
from wiretape.viewer.exchange import pages
from wiretape.viewer.exchange.facts import Line
from wiretape.viewer.exchange.opened import Known, OpenedExchange
from wiretape.viewer.exchange.transcript import UNKNOWN
from wiretape.viewer.source.tape import exchange, queries

NOON_NS = 1_772_366_400 * 10**9


def known(connection: Connection, id: str) -> Known:
    return exchange.known(connection, queries.find(connection, id))


def opened(connection: Connection, id: str) -> OpenedExchange:
    return opening.open_exchange(exchange.stored(connection, queries.find(connection, id)), Thresholds())


def text(lines: Iterable[Line]) -> str:
    return "\n".join("".join(piece for piece, _ in line).rstrip() for line in lines)


def test_heading_begins_with_the_outcome(connection: Connection) -> None:
    assert text([pages.heading(known(connection, COMPLETE))]).split() == [
        "aaaa0000", "✓", "complete", "200", "gpt-x-mini", "comments", "POST", "api.example.com/v1/chat/completions",
    ]  # fmt: skip


def test_bytes_that_no_read_brought_are_counted(connection: Connection) -> None:
    found = opened(connection, COMPLETE)
    holed = dataclasses.replace(found, owners=array("q", [0, UNKNOWN, 2, UNKNOWN, *found.owners[4:]]))
    size = found.sizes[1] + found.sizes[3]
    told = pages.trouble(known(connection, COMPLETE), holed, died=False)
    assert text([told or []]) == f" of {size} bytes no read is on the tape: when they came is not known"
    assert pages.trouble(known(connection, COMPLETE), found, died=False) is None


def test_a_heading_without_flags_has_no_gap_for_them(connection: Connection) -> None:
    found = known(connection, COMPLETE)
    plain = dataclasses.replace(found, row=dataclasses.replace(found.row, flags=[]))
    assert "  gpt-x-mini  POST " in text([pages.heading(plain)])


@each_case(
    ("recorder", "dead"),
    [
        (RecorderRun(1, "2026-03-01T12:00:00.000000Z", None), False),
        (RecorderRun(1, "2026-03-01T11:59:40.000000Z", None), True),
        (RecorderRun(1, "2026-03-01T12:00:00.000000Z", "2026-03-01T12:00:01.000000Z"), True),
        (RecorderRun(1, "no time", None), False),
    ],
)
def test_silent_recorder_is_gone(connection: Connection, recorder: RecorderRun, dead: bool) -> None:
    running = dataclasses.replace(known(connection, LIVE), recorder=recorder)
    assert pages.is_dead(running, NOON_NS + 2 * 10**9) == dead
    assert not pages.is_dead(known(connection, COMPLETE), 2 * NOON_NS)


def test_trouble_in_words(connection: Connection) -> None:
    told = {id: pages.trouble(known(connection, id), None, died=False) for id in (COMPLETE, FAILED, TRUNCATED, LIMITED)}
    assert told[COMPLETE] is None
    assert text([told[FAILED] or []]) == " upstream sent an error in mid-stream: server_overloaded: overloaded"
    assert text([told[TRUNCATED] or []]).endswith("without [DONE] or a finish reason (closed mid-chunk)")
    died = pages.trouble(known(connection, LIVE), None, died=True)
    assert text([died or []]).startswith(" recorder pid 1 gone; last heard of 2026-03-01 12:00:00")
    missing = dataclasses.replace(opened(connection, COMPLETE), missing=1234)
    line = pages.trouble(known(connection, COMPLETE), missing, died=False)
    assert text([line or []]) == " missing from the tape: 1,234 bytes; the rest is shown"


def test_a_request_shows_as_stored_and_json_in_order(connection: Connection) -> None:
    shown = text(pages.request(known(connection, COMPLETE)))
    assert "sk-secret" not in shown
    assert '{\n  "model": "gpt-x-mini",\n  "stream": true\n}' in shown
    assert "(not UTF-8)" in text(pages.request(known(connection, LIMITED)))
    found = known(connection, COMPLETE)
    request = dataclasses.replace(found.request, body=json.dumps("x" * 2_000_000).encode())
    long = dataclasses.replace(found, request=request)
    assert "bytes more than the tape keeps" in text(pages.request(long))


def test_trailers_follow_the_head_of_the_response(connection: Connection) -> None:
    found = known(connection, COMPLETE)
    headers = found.exchange.headers._replace(trailers=(("grpc-status", "8"),))
    request = dataclasses.replace(found.request, exchange=dataclasses.replace(found.exchange, headers=headers))
    with_trailers = dataclasses.replace(found, request=request)
    assert text(pages.request(with_trailers)).endswith("text/event-stream\n\ntrailers\n\ngrpc-status: 8")
    assert "trailers" not in text(pages.request(found))


def test_the_timing_says_who_was_slow_and_where(connection: Connection) -> None:
    shown = text(pages.timing(known(connection, TOOLS), opened(connection, TOOLS), 100))
    assert "stall               3,000.0" in shown
    assert "upstream gap              2" in shown
    assert "3,000.0 ms from 0.050 s, before event #1: 'Think. ' … 'get_weather" in shown
    assert "no stall of more than 2,000 ms" in text(
        pages.timing(known(connection, COMPLETE), opened(connection, COMPLETE), 100)
    )


def test_measures_are_shown_before_decoding(connection: Connection) -> None:
    shown = text(pages.timing(known(connection, COMPLETE), None, 80))
    assert "ttft 110.0" in shown
    assert shown.endswith("decoding …")


def test_labels_stand_below_the_measures(connection: Connection) -> None:
    found = known(connection, COMPLETE)
    labelled = dataclasses.replace(found, row=dataclasses.replace(found.row, labels={"run": "a7"}))
    assert "labels            run=a7" in text(pages.timing(labelled, None, 100))


@each_case("width", [50, 57, 77, 117])
def test_figures_of_who_was_slow_are_never_cut(connection: Connection, width: int) -> None:
    lines = list(pages.timing(known(connection, TOOLS), opened(connection, TOOLS), width))
    shown = text(lines)
    assert shown.count("← ") == 3
    assert "3,000.0" in next(line for line in shown.splitlines() if line.startswith("upstream gap"))
    told = [line for line in shown.splitlines() if "p50 ms" in line or "←" in line or "ttft" in line]
    assert max(map(len, told)) <= width


def test_running_stream_has_no_stall_so_far(connection: Connection) -> None:
    shown = text(pages.timing(known(connection, LIVE), opened(connection, LIVE), 100))
    assert "no burst so far" in shown


def test_an_answer_in_one_piece_has_no_verdict(connection: Connection) -> None:
    shown = text(pages.timing(known(connection, LIMITED), opened(connection, LIMITED), 100))
    assert "no stall" not in shown
    assert "the answer is one piece, so it has no gaps" in shown
