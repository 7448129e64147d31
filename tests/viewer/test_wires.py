"""Every wire is shown, searched, exported and replayed like any other."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.commands import run
from tests.support.eventstream import event
from tests.support.wires import ARGUMENTS, COMPLETIONS, CONTENT, CORTEX, FAULT, FRAMES, REASONING, TOOL, WIRES
from wiretape.recorder.decode.decoder import decode
from wiretape.recorder.decode.dialects import registry
from wiretape.recorder.decode.exchange import Exchange
from wiretape.recorder.decode.operation import GENERATIONS
from wiretape.recorder.tape.reader import Connection
from wiretape.viewer.exchange import events, markers, strips, tree
from wiretape.viewer.exchange.answer import AnswerLayout
from wiretape.viewer.exchange.clocks import Times
from wiretape.viewer.exchange.transcript import KINDS, Transcript
from wiretape.viewer.source.tape import queries

IDS = {name: f"{number:016x}" for number, name in enumerate(WIRES)}
BODIES = {name: b"".join(wire.parts) for name, wire in WIRES.items()}
each_wire = pytest.mark.parametrize("name", WIRES)
WITHOUT_PIECES = {"gemini", "gemini-array", "ollama"}
"""The APIs whose tool calls come whole."""


@pytest.fixture(scope="module")
def recorded(wires: Path) -> Iterator[Connection]:
    with queries.opened(wires) as connection:
        yield connection


def transcript(connection: Connection, name: str) -> Transcript:
    return Transcript(queries.observed(connection, queries.find(connection, IDS[name]))[2])


def rows_of(wires: Path, name: str, *arguments: str) -> Any:
    return json.loads(run(wires, "show", IDS[name], "--format", "json", *arguments).stdout)


@each_wire
def test_show_has_the_texts_the_tokens_and_the_api(wires: Path, name: str) -> None:
    row = rows_of(wires, name)
    assert (row["api"], row["outcome"], row["content"], row["reasoning"]) == (
        WIRES[name].api, "complete", CONTENT, REASONING,
    )  # fmt: skip
    assert [(call["name"], call["arguments"]) for call in row["tool_calls"]] == [(TOOL, ARGUMENTS)]
    assert (row["input_tokens"], row["output_tokens"], row["total_tokens"]) == (12, 9, 21)
    assert set(row["flags"]) <= {"comments"}
    assert run(wires, "show", IDS[name], "--part", "text").stdout == CONTENT


@each_wire
def test_raw_parts_and_sse_exports_are_exact_bodies(wires: Path, name: str) -> None:
    assert run(wires, "show", IDS[name], "--part", "raw").stdout_bytes == BODIES[name]
    assert run(wires, "export", IDS[name], "--format", "sse").stdout_bytes == BODIES[name]


def test_text_is_found_and_apis_are_filtered_by_name(wires: Path) -> None:
    assert run(wires, "ls", "-f", f'text:"{CONTENT}"', "--columns", "id").stdout.count("\n") == len(WIRES) + 1
    ids = run(wires, "ls", "-f", "api:bedrock.*", "--columns", "id").stdout.split()
    assert sorted(ids[1:]) == [IDS["bedrock"], IDS["bedrock-invoke"]]


@each_wire
def test_an_answer_grows_and_folds_its_reasoning(recorded: Connection, name: str) -> None:
    answer = transcript(recorded, name)
    (voice,) = answer.voices
    (call,) = voice.calls
    assert (voice.reasoning.text, voice.content.text) == (REASONING, CONTENT)
    assert (call.name.text, call.arguments.text) == (TOOL, ARGUMENTS)
    assert (len(voice.reasoning.events), len(voice.content.events)) == (2, 2)
    assert len(call.arguments.events) == (1 if name in WITHOUT_PIECES else 2)
    parts = AnswerLayout(answer, 40).parts
    assert [(part.kind, part.folded) for part in parts] == [("reasoning", True), ("content", False), ("tool", False)]


@each_wire
def test_every_event_has_a_kind_and_a_summary(recorded: Connection, name: str) -> None:
    answer = transcript(recorded, name)
    kinds = [answer.kind(number) for number in range(len(answer))]
    assert {"reasoning", "content", "tool", "finish"} <= set(kinds) <= set(KINDS) - {"malformed", "error"}
    summaries = {kind: events.summary(answer, number) for number, kind in enumerate(kinds)}
    assert summaries["content"] == "'see.'"
    assert "{" not in summaries["finish"]
    assert summaries.get("usage") in (None, "12 in, 9 out", "12 in")
    assert not any("\0" in summary or "\ufffd" in summary for summary in summaries.values())


@each_wire
def test_an_events_parts_are_values_with_bytes(recorded: Connection, name: str) -> None:
    answer = transcript(recorded, name)
    number = next(number for number in range(len(answer)) if answer.text(number) == "see.")
    head, *parts = tree.of(answer, number)
    assert (head.start, head.end) == (answer.starts[number], answer.ends[number])
    json.loads(answer.payload(number))
    values = {part.label: answer.data[part.start : part.end] for part in parts}
    if name == "bedrock-invoke":  # the object is packed in base64
        assert (values["type"], values["p"]) == (b"chunk", b'"abcdefgh"')
    else:
        assert b'"see."' in values.values()


@pytest.mark.parametrize("name", WIRES)
def test_no_known_apis_event_has_an_unknown_kind(recorded: Connection, name: str) -> None:
    answer = transcript(recorded, name)
    unknown = [answer.fields(number, 200) for number in range(len(answer)) if answer.kind(number) == "other"]
    assert unknown == []
    assert "?" not in strips.legend(answer)


def test_events_of_other_kinds_are_named_by_their_type(recorded: Connection) -> None:
    messages, converse = transcript(recorded, "messages"), transcript(recorded, "bedrock")
    assert [messages.kind(number) for number in (0, 1, 2, 6, 17)] == ["usage", "boundary", "ping", "boundary", "done"]
    assert events.summary(messages, 2) == '{"type":"ping"}'
    assert events.summary(converse, 3) == 'contentBlockStop {"contentBlockIndex":0}'
    assert list(events.matching(messages, events.parse_filter("kind:ping"))) == [2]


def test_the_last_event_has_the_ends_marker(recorded: Connection) -> None:
    for name, count in (("messages", 17), ("responses", 15), ("bedrock", 10), ("ollama", 5), ("gemini", None)):
        ends = [
            marker.position - 1 for marker in markers.markers(transcript(recorded, name), None) if marker.sign == "D"
        ]
        assert ends == ([] if count is None else [count]), name


def test_a_frame_with_wrong_checksum_is_malformed() -> None:
    sound = event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "Hi"}})
    facts = Exchange(status=200, content_type=FRAMES, ended_by="end", connected_ns=0, headers_ns=0, end_ns=1)
    answer = Transcript(decode(facts, [], sound + sound[:-1] + b"\0" + sound))
    assert [answer.kind(number) for number in range(3)] == ["content", "malformed", "content"]
    assert events.summary(answer, 1).startswith('broken: {"contentBlockIndex"')
    assert [(part.label, part.text) for part in tree.of(answer, 1)][1:] == [
        ("type", "contentBlockDelta"), ("broken", "a checksum is wrong, or the headers cannot be read"),
    ]  # fmt: skip


@each_wire
def test_a_mid_stream_error_is_an_event_with_message(name: str) -> None:
    wire = WIRES[name]
    parts = (*wire.parts[: len(wire.parts) // 2], wire.error)
    facts = Exchange(
        status=200, content_type=wire.type, ended_by="end", connected_ns=0, headers_ns=0, end_ns=1, path=wire.path
    )
    answer = Transcript(decode(facts, [], b"".join(parts)))
    assert (answer.kind(len(answer) - 1), events.summary(answer, len(answer) - 1)) == (
        "error",
        FAULT,
    )
    assert "E" in [marker.sign for marker in markers.markers(answer, None)]


def test_there_is_a_wire_of_every_api_that_generates() -> None:
    generating = {dialect.api for dialect in registry.DIALECTS if dialect.operation in GENERATIONS}
    assert {wire.api for wire in (*WIRES.values(), COMPLETIONS, CORTEX)} == generating


@each_wire
def test_chunks_are_exported_as_rows(wires: Path, name: str) -> None:
    lines = run(wires, "export", IDS[name], "--table", "chunks", "--format", "jsonl").stdout.splitlines()
    chunks = [json.loads(line) for line in lines]
    texts = {
        field: "".join(chunk[field] or "" for chunk in chunks)
        for field in ("reasoning", "content", "tool_name", "tool_arguments")
    }
    assert list(texts.values()) == [REASONING, CONTENT, TOOL, ARGUMENTS]
    counted = [chunk for chunk in chunks if chunk["kinds"] != "ping"]
    assert len({chunk["seq"] for chunk in counted}) == rows_of(wires, name)["chunks"]


@each_wire
def test_archives_and_casts_have_what_came(wires: Path, name: str) -> None:
    archive = json.loads(run(wires, "export", IDS[name], "--format", "har").stdout)
    (entry,) = archive["log"]["entries"]
    assert entry["response"]["content"].get("encoding") == ("base64" if WIRES[name].type == FRAMES else None)
    assert len(entry["_eventSourceMessages"]) == rows_of(wires, name)["events"]
    assert all(json.loads(message["data"]) for message in entry["_eventSourceMessages"] if message["data"] != "[DONE]")
    cast = run(wires, "export", IDS[name], "--format", "asciicast").stdout
    assert "see." in cast
    assert TOOL in cast


def test_tools_count_streams_of_unmeasured_apis(wires: Path) -> None:
    measured = {
        "aiperf": 3,
        "vllm": 2,
        "guidellm": 2,
        **dict.fromkeys(("vllm-0.32", "sglang", "otel"), 1),
    }
    for tool, apis in measured.items():
        result = run(wires, "stats", "--as", tool)
        assert f"left out: of an API that it does not measure × {len(WIRES) - apis}" in result.stderr, tool


def test_a_hostile_event_type_is_printed_safely() -> None:
    body = event("\x1b[2J\x00", {"a": "\x1b]0;x\x07"})
    answer = Transcript(
        decode(
            Exchange(status=200, content_type=FRAMES, ended_by="end", connected_ns=0, headers_ns=0, end_ns=1), [], body
        )
    )
    assert [
        answer.kind(0),
        *(line for line in events.lines(answer, Times()) if "\x1b" in line or "\0" in line),
    ] == ["other"]


@given(st.sampled_from(sorted(WIRES)), st.data())
def test_no_damaged_body_hides_its_events(name: str, data: st.DataObject) -> None:
    body = bytearray(BODIES[name])
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(body) - 1))
        body[place : place + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=9))
    facts = Exchange(
        status=200,
        content_type=WIRES[name].type,
        ended_by="end",
        connected_ns=0,
        headers_ns=0,
        end_ns=1,
        path=WIRES[name].path,
    )
    decoded = decode(facts, [], bytes(body))
    answer = Transcript(decoded)
    assert sum(1 for _ in events.lines(answer, Times())) == len(answer) + 1
    for number in range(len(answer)):
        parts = tree.of(answer, number)
        assert all(0 <= part.start <= part.end <= len(body) for part in parts)
    assert len(list(events.table(answer, decoded))) == len(answer)
    assert AnswerLayout(answer, 40).parts is not None
