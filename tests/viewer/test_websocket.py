"""A WebSocket is shown in both directions, and a pause of its client between two responses is nobody's stall."""

import dataclasses
import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from tests.support.frames import opened, record
from tests.support.frames import websocket as frames
from tests.support.websockets import ASK, CAME, CLIENT, SENT, UPSTREAM, response, websocket
from wiretape.recorder.decode.attribution import Attribution
from wiretape.recorder.decode.decoder import decode
from wiretape.recorder.decode.exchange import RecordedExchange
from wiretape.recorder.decode.stalls import DEFAULT
from wiretape.viewer.cli import group
from wiretape.viewer.exchange import events
from wiretape.viewer.exchange.clocks import Times
from wiretape.viewer.exchange.opened import StoredAnswer, open_exchange
from wiretape.viewer.exchange.transcript import Transcript
from wiretape.viewer.timing.verdicts import verdicts


def output_of(directory: Path, *arguments: str) -> bytes:
    with opened(tape := directory / "tape.db") as store:
        record(store, frames("0123456789abcdef", CAME, SENT))
    result = CliRunner().invoke(group, [*arguments, "--db", str(tape)])
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    return result.stdout_bytes


def test_events_say_which_way_they_went() -> None:
    received, sent = [(20 + at, data) for at, data in enumerate(CAME)], [(10, SENT[0]), (30, b"".join(SENT[1:]))]
    lines = list(events.lines(Transcript(decode(*websocket(received, sent))), Times()))
    assert [" ".join(line.split()[3:5]) for line in lines[1:]] == [
        "→ sent", "← boundary", "← content", "← content", "← finish", "← ping", "← close", "→ pong", "→ close",
    ]  # fmt: skip
    assert lines[3].endswith("'Hel'")
    assert [line.rpartition(" – ")[2] for line in lines[-2:]] == ["(1 byte, no text)", "1000"]


def test_the_parts_of_a_websocket_have_both_directions(tmp_path: Path) -> None:
    assert output_of(tmp_path, "show", "@", "--part", "raw") == b"".join(CAME)
    assert output_of(tmp_path, "show", "@", "--part", "request") == b"".join(SENT)
    reads = [
        json.loads(line)
        for line in output_of(tmp_path, "show", "@", "--part", "reads", "--format", "jsonl").splitlines()
    ]
    assert [read["sender"] for read in reads].count("client") == len(SENT)
    assert sum(read["size"] for read in reads) == len(b"".join(CAME + SENT))
    told = [
        json.loads(line)
        for line in output_of(tmp_path, "show", "@", "--part", "events", "--format", "jsonl").splitlines()
    ]
    assert [event["data"] for event in told if event["sender"] == "client"] == [ASK, "�", "1000"]
    assert json.loads(output_of(tmp_path, "ls", "--format", "jsonl"))["outcome"] == "complete"


def test_each_turn_counts_by_itself_in_groups_of_turns(tmp_path: Path) -> None:
    answers = [bytes(UPSTREAM.send_data(message)) for number in (1, 2) for message in response(number, "a", "b")]
    asked = bytes(CLIENT.send_data(ASK))
    with opened(tape := tmp_path / "tape.db") as store:
        record(store, frames("0123456789abcdef", answers, [asked, *[b""] * 3, asked]))
    (tape_row,) = [*rows_of(tape, "stats")]
    turn_rows = rows_of(tape, "stats", "--by", "turn")
    assert [(row["turn"], row["n"], row["ttft_n"], row["n_complete"]) for row in turn_rows] == [
        (1, 1, 1, 1), (2, 1, 1, 1),
    ]  # fmt: skip
    assert turn_rows[0]["ttft_p50_ms"] == tape_row["ttft_p50_ms"], "that of a WebSocket is its first turn's"


def rows_of(tape: Path, *arguments: str) -> list[dict[str, Any]]:
    result = CliRunner().invoke(group, [*arguments, "--format", "json", "--db", str(tape)])
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    rows: list[dict[str, Any]] = json.loads(result.stdout)
    return rows


def test_an_archive_has_the_messages_of_both_directions(tmp_path: Path) -> None:
    (entry,) = json.loads(output_of(tmp_path, "export", "@", "--format", "har"))["log"]["entries"]
    messages = entry["_webSocketMessages"]
    assert (messages[0]["type"], messages[0]["opcode"], messages[0]["data"]) == ("send", 1, ASK)
    assert {message["opcode"] for message in messages} == {1, 8, 9, 10}
    assert {message["type"] for message in messages} == {"send", "receive"}


def test_the_time_between_two_responses_is_no_stall() -> None:
    received = [(20 + at, data) for at, data in enumerate(CAME[:4])]
    answer_frames = [bytes(UPSTREAM.send_data(message)) for message in response(2, "a", "b")]
    later = [(60_020 + at, data) for at, data in enumerate(answer_frames)]
    slow = [*later[:2], *((at + 5000, data) for at, data in later[2:])]
    sent = [(10, SENT[0]), (60_010, bytes(CLIENT.send_data(ASK)))]
    for answers, stalls in ((later, []), (slow, [5001])):
        facts, reads, body = websocket([*received, *answers], sent, end_ms=66_000)
        decoded = decode(facts, reads, body)
        verdicts_found = verdicts(Attribution(facts, reads, decoded), "complete", DEFAULT)
        assert [verdict.lasted_ns // 1_000_000 for verdict in verdicts_found] == stalls
        inspected = open_exchange(StoredAnswer("id", RecordedExchange(facts, reads, body), "complete"), DEFAULT)
        assert [voice.content.text for voice in inspected.transcript.voices] == ["Hello", "ab"]


def test_a_late_delivery_between_two_responses_is_no_stall() -> None:
    answer_frames = [bytes(UPSTREAM.send_data(message)) for message in response(2, "a", "b")]
    sent = [(10, SENT[0]), (500, bytes(CLIENT.send_data(ASK)))]
    received = [(20 + at, data) for at, data in enumerate(CAME[:4])] + [
        (520 + at, data) for at, data in enumerate(answer_frames)
    ]
    for late, stalls in ((5, []), (6, ["delivery"])):  # from the first output of the second response on, or the second
        facts, reads, body = websocket(received, sent, end_ms=6000)
        relayed_ns = [at_ns + 5_000_000_000 * (place >= late) for place, at_ns in enumerate(reads.at_ns)]
        delayed = dataclasses.replace(reads, relayed_ns=relayed_ns)
        verdicts_found = verdicts(Attribution(facts, delayed, decode(facts, delayed, body)), "complete", DEFAULT)
        assert [verdict.form for verdict in verdicts_found] == stalls
