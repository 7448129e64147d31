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


def facts_of(connection: Connection, id: str) -> Known:
    return exchange.known(connection, queries.find(connection, id))


def opened_of(connection: Connection, id: str) -> OpenedExchange:
    return opening.open_exchange(exchange.stored(connection, queries.find(connection, id)), Thresholds())


def text(lines: Iterable[Line]) -> str:
    return "\n".join("".join(piece for piece, _ in line).rstrip() for line in lines)


def test_heading_begins_with_the_outcome(connection: Connection) -> None:
    assert text([pages.heading(facts_of(connection, COMPLETE))]).split() == [
        "aaaa0000", "✓", "complete", "200", "gpt-x-mini", "comments", "POST", "api.example.com/v1/chat/completions",
    ]  # fmt: skip


def test_bytes_that_no_read_brought_are_counted(connection: Connection) -> None:
    opened_exchange = opened_of(connection, COMPLETE)
    holed = dataclasses.replace(
        opened_exchange, owners=array("q", [0, UNKNOWN, 2, UNKNOWN, *opened_exchange.owners[4:]])
    )
    size = opened_exchange.sizes[1] + opened_exchange.sizes[3]
    sentences = pages.trouble(facts_of(connection, COMPLETE), holed, died=False)
    assert text([sentences or []]) == f" of {size} bytes no read is on the tape: when they came is not known"
    assert pages.trouble(facts_of(connection, COMPLETE), opened_exchange, died=False) is None


def test_a_heading_without_flags_has_no_gap_for_them(connection: Connection) -> None:
    facts = facts_of(connection, COMPLETE)
    plain = dataclasses.replace(facts, row=dataclasses.replace(facts.row, flags=[]))
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
    running_facts = dataclasses.replace(facts_of(connection, LIVE), recorder=recorder)
    assert pages.is_dead(running_facts, NOON_NS + 2 * 10**9) == dead
    assert not pages.is_dead(facts_of(connection, COMPLETE), 2 * NOON_NS)


def test_trouble_in_words(connection: Connection) -> None:
    sentences = {
        id: pages.trouble(facts_of(connection, id), None, died=False) for id in (COMPLETE, FAILED, TRUNCATED, LIMITED)
    }
    assert sentences[COMPLETE] is None
    assert text([sentences[FAILED] or []]) == " upstream sent an error in mid-stream: server_overloaded: overloaded"
    assert text([sentences[TRUNCATED] or []]).endswith("without [DONE] or a finish reason (closed mid-chunk)")
    died = pages.trouble(facts_of(connection, LIVE), None, died=True)
    assert text([died or []]).startswith(" recorder pid 1 gone; last heard of 2026-03-01 12:00:00")
    missing = dataclasses.replace(opened_of(connection, COMPLETE), missing=1234)
    line = pages.trouble(facts_of(connection, COMPLETE), missing, died=False)
    assert text([line or []]) == " missing from the tape: 1,234 bytes; the rest is shown"


def test_a_request_shows_as_stored_and_json_in_order(connection: Connection) -> None:
    page_text = text(pages.request(facts_of(connection, COMPLETE)))
    assert "sk-secret" not in page_text
    assert '{\n  "model": "gpt-x-mini",\n  "stream": true\n}' in page_text
    assert "(not UTF-8)" in text(pages.request(facts_of(connection, LIMITED)))
    facts = facts_of(connection, COMPLETE)
    request = dataclasses.replace(facts.request, body=json.dumps("x" * 2_000_000).encode())
    long = dataclasses.replace(facts, request=request)
    assert "bytes more than the tape keeps" in text(pages.request(long))


def test_trailers_follow_the_head_of_the_response(connection: Connection) -> None:
    facts = facts_of(connection, COMPLETE)
    headers = facts.exchange.headers._replace(trailers=(("grpc-status", "8"),))
    request = dataclasses.replace(facts.request, exchange=dataclasses.replace(facts.exchange, headers=headers))
    with_trailers = dataclasses.replace(facts, request=request)
    assert text(pages.request(with_trailers)).endswith("text/event-stream\n\ntrailers\n\ngrpc-status: 8")
    assert "trailers" not in text(pages.request(facts))


def test_the_timing_says_who_was_slow_and_where(connection: Connection) -> None:
    page_text = text(pages.timing(facts_of(connection, TOOLS), opened_of(connection, TOOLS), 100))
    assert "stall               3,000.0" in page_text
    assert "upstream gap              2" in page_text
    assert "3,000.0 ms from 0.050 s, before event #1: 'Think. ' … 'get_weather" in page_text
    assert "no stall of more than 2,000 ms" in text(
        pages.timing(facts_of(connection, COMPLETE), opened_of(connection, COMPLETE), 100)
    )


def test_measures_are_shown_before_decoding(connection: Connection) -> None:
    page_text = text(pages.timing(facts_of(connection, COMPLETE), None, 80))
    assert "ttft 110.0" in page_text
    assert page_text.endswith("decoding …")


def test_labels_stand_below_the_measures(connection: Connection) -> None:
    facts = facts_of(connection, COMPLETE)
    labelled = dataclasses.replace(facts, row=dataclasses.replace(facts.row, labels={"run": "a7"}))
    assert "labels            run=a7" in text(pages.timing(labelled, None, 100))


@each_case("width", [50, 57, 77, 117])
def test_figures_of_who_was_slow_are_never_cut(connection: Connection, width: int) -> None:
    lines = list(pages.timing(facts_of(connection, TOOLS), opened_of(connection, TOOLS), width))
    page_text = text(lines)
    assert page_text.count("← ") == 3
    assert "3,000.0" in next(line for line in page_text.splitlines() if line.startswith("upstream gap"))
    sentences = [line for line in page_text.splitlines() if "p50 ms" in line or "←" in line or "ttft" in line]
    assert max(map(len, sentences)) <= width


def test_running_stream_has_no_stall_so_far(connection: Connection) -> None:
    page_text = text(pages.timing(facts_of(connection, LIVE), opened_of(connection, LIVE), 100))
    assert "no burst so far" in page_text


def test_an_answer_in_one_piece_has_no_verdict(connection: Connection) -> None:
    page_text = text(pages.timing(facts_of(connection, LIMITED), opened_of(connection, LIMITED), 100))
    assert "no stall" not in page_text
    assert "the answer is one piece, so it has no gaps" in page_text
