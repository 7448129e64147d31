"""What lists of a hosted session's history fill in of turns that no stream told whole."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.recorder.decode.test_linking import AGENTS, A, B, C, D, created, input_message, spoken, turns
from tests.support.hosted_sessions import (
    CLAUDE,
    CLAUDE_STREAM,
    Event,
    Sent,
    claude,
    delta,
    idle,
    message,
    model_end,
    posted,
    running,
    said,
    session_tape,
    stream,
)

ITEMS = [
    {"id": "f1", "type": "function_call", "call_id": "c1", "name": "f", "arguments": {"x": 1}, "turn_id": "t1"},
    {"id": "mt1", "type": "message", "role": "assistant", "content": [{"text": "Hello"}], "turn_id": "t1"},
    {"id": "mt2", "type": "message", "role": "assistant", "content": [{"text": " world"}], "turn_id": "t1"},
    {"id": "mt0", "type": "message", "role": "assistant", "content": [{"text": "no"}], "turn_id": "t0"},
]
TURN = {"id": "t1", "object": "agent.session.turn", "status": "completed",
        "usage": {"input_tokens": 5, "output_tokens": 2}}  # fmt: skip
HISTORY = [
    running("r0"), message("m0", "Zero"), idle("i0"),
    running("r1"), message("m1", "Hello"), claude("agent.tool_use", "k1", name="read", input={"a": 1}),
    message("m2", " world"), model_end("e1", 10, 5), idle("i1"),
    running("r2"), message("m3", "never"), idle("i2"),
]  # fmt: skip


def listed(id: str, at: float, path: str, answer: Any) -> Sent:
    """Return a request for a list, and its answer."""
    return Sent(id, at, path, [(at + 1, json.dumps(answer).encode())], method="GET")


def cut() -> Sent:
    return stream(A, 0, [(20, running("r1")), (30, delta("m1", "He"))], CLAUDE_STREAM, end=40, ended_by="reset")


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_listed_events_fill_in_a_cut_turn(order: str) -> None:
    history = HISTORY if order == "asc" else HISTORY[::-1]
    (turn,) = turns(cut(), posted(B, 5, said("A")), listed(C, 90, f"{CLAUDE}/events?order={order}", {"data": history}))
    assert [turn[name] for name in ("text", "input_tokens", "output_tokens")] == ["Hello world", 10, 5]
    assert turn["tool_calls"] == [{"id": "k1", "name": "read", "arguments": '{"a":1}'}]
    assert (turn["outcome"], turn["ttft_ns"], turn["last_ns"], turn.get("ended_at_ns")) == ("truncated", 25, 25, None)


def test_a_list_without_an_end_mixes_no_turns() -> None:
    history = [event for event in HISTORY if event != idle("i0")]
    (turn,) = turns(cut(), listed(C, 90, f"{CLAUDE}/events", {"data": history}))
    assert (turn["text"], turn.get("input_tokens")) == ("Hello", None)


def test_pages_of_a_list_are_one_list() -> None:
    pages = [listed(C, 90, f"{CLAUDE}/events", {"data": HISTORY[:5]}),
             listed(D, 95, f"{CLAUDE}/events?page=p2", {"data": HISTORY[5:]})]  # fmt: skip
    (turn,) = turns(cut(), *pages)
    assert (turn["text"], turn["output_tokens"]) == ("Hello world", 5)


def test_a_list_of_some_types_fills_in_what_is_known() -> None:
    messages = [event for event in HISTORY if event["type"] == "agent.message"]
    (turn,) = turns(cut(), listed(C, 90, f"{CLAUDE}/events?types%5B%5D=agent.message", {"data": messages}))
    assert turn["text"] == "Hello"


def test_listed_text_is_in_front_of_what_followed() -> None:
    told: list[tuple[float, Event]] = [(20, message("m2", " world")), (25, model_end("e1", 10, 5)), (30, idle("i1"))]
    (turn,) = turns(stream(A, 0, told, CLAUDE_STREAM, end=40), listed(C, 35, f"{CLAUDE}/events", {"data": HISTORY}))
    assert (turn["text"], turn["output_tokens"], turn.get("ttft_ns")) == ("Hello world", 5, None)


def test_listed_items_and_turns_fill_in_a_cut_turn() -> None:
    told = [(10, created("t1")), (20, spoken("t1", "He"))]
    session = AGENTS.removesuffix("/events")
    (turn,) = turns(
        stream(A, 0, told, AGENTS, end=40, ended_by="reset"), input_message(B, 5),
        listed(C, 90, f"{session}/items", {"data": ITEMS[::-1]}), listed(D, 95, f"{session}/turns/t1", TURN),
    )  # fmt: skip
    assert (turn["text"], turn["input_tokens"], turn["output_tokens"]) == ("Hello world", 5, 2)
    assert [call["name"] for call in turn["tool_calls"]] == ["f"]


@pytest.mark.parametrize("answer", [None, [], {"data": {}}, {"data": [1]}, {"data": [{"type": 5, "content": [1]}]}])
def test_an_answer_that_is_no_list_changes_nothing(answer: Any) -> None:
    assert turns(cut(), listed(C, 90, f"{CLAUDE}/events", answer)) == turns(cut())


def test_a_later_list_changes_a_settled_turn(tmp_path: Path) -> None:
    tape = session_tape(tmp_path / "tape.db", cut(), listed(C, 90, f"{CLAUDE}/events", {"data": HISTORY}))
    (stored,) = sqlite3.connect(tape).execute("SELECT turns FROM measures WHERE turns IS NOT NULL").fetchone()
    assert json.loads(stored)[0]["text"] == "Hello world"
