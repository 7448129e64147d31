"""Streams of hosted agents' sessions: turns, texts, tools, tokens, outcomes, and the exchange that is the stream."""

import json
from typing import Any

import pytest

from tests.support.agent_streams import (
    CLAUDE,
    MS,
    OPENAI,
    Event,
    claude,
    delta,
    idle,
    item,
    message,
    openai,
    raw,
    recorded,
    request_end,
    running,
    turn,
    words,
)
from wiretape.recorder.decode.derive import derive
from wiretape.recorder.decode.dialects import anthropic_sessions, openai_agents
from wiretape.recorder.decode.effects import EFFECTS, EventTable
from wiretape.recorder.decode.metrics import Measures


def measured(*events: Event, ended_by: str | None = "client", path: str = "", **facts: Any) -> Measures:
    """Derive a stream; its path is that of its first event's API."""
    is_openai = events[0].kind.startswith("agent.session.")
    return derive(*recorded(path or (OPENAI if is_openai else CLAUDE), list(events), ended_by, **facts))


def turns(*events: Event, **more: Any) -> list[dict[str, Any]]:
    return measured(*events, **more).turns or []


def told(values: dict[str, Any], *names: str) -> tuple[Any, ...]:
    """Return values of a turn, times in ms."""
    return tuple(values[f"{name}_ns"] // MS if f"{name}_ns" in values else values.get(name) for name in names)


ANSWERS = {
    "claude": [
        running(140),
        claude(250, "event_start", event={"type": "agent.message", "id": "m1"}),
        delta(290, "Hel"),
        delta(335, "lo"),
        message(380, "Hello"),
        request_end(390, input_tokens=7, output_tokens=3, cache_read_input_tokens=2),
        idle(398),
    ],
    "openai": [
        turn(140, "created"),
        words(290, "Hel"),
        words(335, "lo"),
        openai(380, "turn.output_text.done", item_id="i1", content_index=0, text="Hello"),
        turn(
            398,
            "completed",
            usage={
                "input_tokens": 9,
                "input_tokens_details": {"cached_tokens": 2},
                "output_tokens": 3,
            },
        ),
    ],
}
LATER = {
    "claude": [running(1040), delta(1190, "Yes", "m2"), message(1200, "Yes", id="m2"), idle(1210)],
    "openai": [turn(1040, "created", "t2"), words(1190, "Yes", "i2", "t2"), turn(1210, "completed", "t2")],
}


@pytest.mark.parametrize("api", ANSWERS)
def test_a_turn_is_timed_and_told_whole(api: str) -> None:
    (values,) = turns(*ANSWERS[api])
    assert told(values, "started_at", "ttft", "last", "ended_at") == (140, 150, 195, 398)
    assert told(values, "outcome", "text", "input_tokens", "input_cached_tokens", "output_tokens") == (
        "complete",
        "Hello",
        9,
        2,
        3,
    )


@pytest.mark.parametrize("api", ANSWERS)
def test_two_turns_leave_the_pause_out(api: str) -> None:
    values = measured(*ANSWERS[api], *LATER[api])
    first, second = values.turns or ()
    assert (first["text"], second["text"], values.content) == ("Hello", "Yes", "Hello")
    assert told(second, "started_at", "ttft") == (1040, 150)
    assert (values.outcome, values.operation, values.ttft_ns, values.duration_ns) == (
        "complete",
        "agent_session",
        150 * MS,
        (258 + 170) * MS,
    )
    assert values.max_gap_ns == 45 * MS


@pytest.mark.parametrize("api", ANSWERS)
def test_a_stream_is_judged_wherever_it_is_cut(api: str) -> None:
    events = ANSWERS[api]
    for size in range(1, len(events) + 1):
        values = measured(*events[:size], ended_by="eof")
        (values_of_turn,) = values.turns or ()
        is_whole = size == len(events)
        assert told(values_of_turn, "outcome") == ("complete" if is_whole else "truncated",)
        assert values.outcome == ("complete" if is_whole else "truncated")
        assert "Hello".startswith(values_of_turn.get("text", ""))
        assert ("ended_at_ns" in values_of_turn) == is_whole


@pytest.mark.parametrize(
    ("ended_by", "outcome"), [("client", "client_closed"), ("eof", "truncated"), ("end", "truncated")]
)
def test_only_an_end_within_a_turn_cuts_the_stream(ended_by: str, outcome: str) -> None:
    assert measured(*ANSWERS["claude"], ended_by=ended_by).outcome == "complete"
    assert measured(*ANSWERS["claude"], *LATER["claude"][:2], ended_by=ended_by).outcome == outcome


def test_a_silent_turn_is_a_stall_unlike_a_pause() -> None:
    late = [Event(at_ms + 60_000, data) for at_ms, data in LATER["claude"]]
    values = measured(*ANSWERS["claude"], *late)
    assert (values.stalled_answers, "stall" in values.flags, values.max_gap_ns) == (0, False, 45 * MS)
    assert max(values.max_silence_ns or 0, values.max_output_silence_ns or 0) < 1_000 * MS
    silent = measured(running(10), delta(20, "a"), delta(5_000, "b"), idle(5_010))
    assert (silent.stalled_answers, silent.max_output_silence_ns, "stall" in silent.flags) == (1, 4_980 * MS, True)


@pytest.mark.parametrize("events", [[openai(10, "idle", session={"status": "idle"})], []])
def test_a_stream_without_a_turn_waits_for_nothing(events: list[Event]) -> None:
    values = derive(*recorded(OPENAI, events))
    assert (values.outcome, values.operation, values.duration_ns, values.turns) == (
        "complete",
        "agent_session",
        None,
        [],
    )
    assert (values.answers, values.ttft_ns, values.stalled_answers) == (1, None, None)


ENDS: list[tuple[list[Event], tuple[Any, ...]]] = [
    ([idle(50)], ("complete", "end_turn", None)),
    ([idle(50, "budget_reached")], ("complete", "budget_reached", None)),
    ([idle(50, "refusal")], ("complete", "refusal", None)),
    ([idle(50, "requires_action", event_ids=["c1"])], ("complete", "requires_action", None)),
    ([idle(50, "cancelled")], ("cancelled", "cancelled", None)),
    ([claude(40, "user.interrupt"), idle(50)], ("interrupted", "end_turn", None)),
    ([claude(40, "user.interrupt", session_thread_id="th1"), idle(50)], ("complete", "end_turn", None)),
    ([claude(40, "session.deleted")], ("cancelled", None, None)),
    ([claude(40, "session.status_terminated")], ("complete", None, None)),
    ([claude(40, "session.status_rescheduled"), running(45), idle(50)], ("complete", "end_turn", None)),
]


def failure(at_ms: int, status: str) -> Event:
    error = {"type": "model_overloaded_error", "message": "busy", "retry_status": {"type": status}}
    return claude(at_ms, "session.error", error=error)


FRAME = claude(40, "error", error={"type": "overloaded_error", "message": "busy"})
ENDS += [
    (
        [failure(40, "exhausted"), idle(50, "retries_exhausted")],
        ("error", "retries_exhausted", "model_overloaded_error"),
    ),
    ([failure(40, "terminal"), claude(50, "session.status_terminated")], ("error", None, "model_overloaded_error")),
    ([failure(40, "retrying"), message(45, "ok"), idle(50)], ("complete", "end_turn", None)),
    ([failure(40, "retrying")], ("truncated", None, None)),
    ([FRAME], ("error", None, "overloaded_error")),
    ([FRAME, idle(50)], ("complete", "end_turn", None)),
    ([FRAME, message(45, "ok")], ("truncated", None, None)),
]


@pytest.mark.parametrize(("events", "expected"), ENDS)
def test_the_end_of_a_claude_turn_is_classified(events: list[Event], expected: tuple[Any, ...]) -> None:
    values = measured(running(10), delta(20, "a", "m0"), *events, ended_by="eof")
    (values_of_turn,) = values.turns or ()
    assert told(values_of_turn, "outcome", "finish_reason", "error_code") == expected
    of_exchange = {"error": "error_event", "truncated": "truncated"}.get(expected[0], "complete")
    assert (values.outcome, values.error_code) == (of_exchange, expected[2])


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([turn(50, "completed")], ("complete", "completed", None)),
        ([turn(50, "cancelled")], ("cancelled", "cancelled", None)),
        ([turn(50, "failed", error={"code": "server_error", "message": "no"})], ("error", "failed", "server_error")),
        ([openai(40, "error", error={"type": "server_error", "code": "x"}), openai(45, "idle")], ("error", None, "x")),
        ([openai(40, "error", error={"code": "x"}), turn(50, "completed")], ("complete", "completed", None)),
        ([openai(40, "failed", session={"error": "gone"})], ("error", None, None)),
        ([openai(40, "idle")], ("truncated", None, None)),
    ],
)
def test_the_end_of_an_openai_turn_is_classified(events: list[Event], expected: tuple[Any, ...]) -> None:
    values = measured(turn(10, "created"), words(20, "a"), *events, ended_by="eof")
    (values_of_turn,) = values.turns or ()
    assert told(values_of_turn, "outcome", "finish_reason", "error_code") == expected
    assert values_of_turn["response_id"] == "t1"
    of_exchange = {"error": "error_event", "truncated": "truncated"}.get(expected[0], "complete")
    assert values.outcome == of_exchange


def ask(at_ms: int, kind: str = "message", **more: Any) -> Event:
    return claude(at_ms, f"user.{kind}", **more)


def test_results_that_wait_together_begin_one_turn() -> None:
    first, second = turns(
        running(10),
        claude(20, "agent.custom_tool_use", id="c1", name="f", input={"a": 1}),
        claude(21, "agent.custom_tool_use", id="c2", name="g", input={}),
        idle(30, "requires_action", event_ids=["c1", "c2"]),
        ask(40, "custom_tool_result", custom_tool_use_id="c1"),
        idle(45, "requires_action", event_ids=["c2"]),
        ask(50, "custom_tool_result", custom_tool_use_id="c2"),
        running(60),
        message(70, "ok"),
        idle(80),
    )
    assert told(first, "finish_reason", "started_at", "ttft") == ("requires_action", 10, 10)
    assert told(second, "begun_by", "started_at", "outcome", "text") == ("tool_result", 60, "complete", "ok")


@pytest.mark.parametrize(
    ("asks", "cause"),
    [
        ([ask(5), running(10)], "text"),
        ([running(10), ask(12)], "text"),
        ([ask(5, processed_at=None), running(10)], None),
        ([ask(4, processed_at=None, id="u"), ask(5, id="u"), running(10)], "text"),
        ([ask(5, "tool_confirmation"), running(10)], "confirmation"),
        ([ask(5, "define_outcome"), running(10)], "outcome"),
        ([running(10)], None),
        ([ask(4), ask(5, "tool_result"), running(10)], "tool_result"),
    ],
)
def test_what_began_a_turn_is_its_echo(asks: list[Event], cause: str | None) -> None:
    (values,) = turns(*asks, message(20, "a"), idle(30), path=CLAUDE)
    assert values.get("begun_by") == cause


def test_a_function_waits_within_its_turn() -> None:
    call = {"id": "i2", "call_id": "c1", "name": "f"}
    values = measured(
        turn(10, "created"),
        item(20, "added", "function_call", **call, arguments={}),
        item(25, "done", "function_call", **call, arguments={"a": 1}),
        openai(30, "requires_action", session={}),
        openai(9_000, "in_progress", session={}),
        item(9_001, "added", "function_call_output", id="o1", call_id="c1"),
        words(9_020, "ok"),
        turn(9_030, "completed"),
    )
    (values_of_turn,) = values.turns or ()
    assert told(values_of_turn, "ttft", "last", "outcome") == (10, 9_010, "complete")
    assert [(each["id"], each["name"], each["arguments"]) for each in values.tool_calls or ()] == [
        ("c1", "f", '{"a":1}')
    ]
    assert (values.tool_spans, values.stalled_answers) == ([[30 * MS, 9_000 * MS]], 0)


@pytest.mark.parametrize(
    ("events", "calls"),
    [
        (
            [
                claude(20, "agent.tool_use", id="c1", name="bash", input={"command": "ls"}),
                claude(5_000, "agent.tool_result", tool_use_id="c1"),
            ],
            [("c1", "bash", '{"command":"ls"}')],
        ),
        (
            [
                claude(20, "agent.mcp_tool_use", id="c1", name="find", input={}, mcp_server_name="s"),
                claude(5_000, "agent.mcp_tool_result", mcp_tool_use_id="c1"),
            ],
            [("c1", "find", "{}")],
        ),
        (
            [
                item(20, "added", "command_execution", id="c1", command="ls"),
                openai(2_000, "agent.output.command_execution_output.delta", item_id="c1", delta="out"),
                item(5_000, "done", "command_execution", id="c1", command="ls", output="out"),
            ],
            [("c1", "command_execution", '{"command":"ls"}')],
        ),
        (
            [
                item(20, "added", "web_search_call", id="c1"),
                item(5_000, "done", "web_search_call", id="c1", action={"query": "q"}),
            ],
            [("c1", "web_search_call", '{"query":"q"}')],
        ),
        (
            [
                item(20, "added", "mcp_call", id="c1", name="find", arguments={"q": 1}),
                item(5_000, "done", "mcp_call", id="c1", name="find", arguments={"q": 1}),
            ],
            [("c1", "find", '{"q":1}')],
        ),
    ],
)
def test_a_tool_of_the_provider_is_no_stall(events: list[Event], calls: list[Any]) -> None:
    is_openai = "turn_id" in events[0].data
    start, end = (turn(10, "created"), turn(5_030, "completed")) if is_openai else (running(10), idle(5_030))
    values = measured(start, *events, words(5_020, "ok") if is_openai else message(5_020, "ok"), end)
    assert [(each["id"], each["name"], each["arguments"]) for each in values.tool_calls or ()] == calls
    assert (values.tool_spans, values.stalled_answers, values.content) == ([[20 * MS, 5_000 * MS]], 0, "ok")


@pytest.mark.parametrize(
    ("events", "text", "last"),
    [
        ([delta(20, "He"), delta(30, "llo"), message(40, "Hello")], "Hello", 20),
        ([delta(20, "He"), message(40, "Hello")], "Hello", 30),
        ([delta(20, "HX"), message(40, "Hello")], "Hello", 30),
        ([message(40, "Hello")], "Hello", 30),
        ([delta(20, "A"), delta(25, "He", index=1), message(40, "A", "Hello")], "AHello", 30),
        ([message(20, "Hello", id="m1"), message(40, "!", id="m2")], "Hello!", 30),
        ([message(20, "Hello"), message(40, "Hello")], "Hello", 10),
        ([delta(20, "He"), message(40, "Hello"), delta(50, "llo")], "Hello", 30),
        ([delta(20, "Hello"), message(30)], "Hello", 10),
    ],
)
def test_a_whole_message_replaces_its_deltas(events: list[Event], text: str, last: int) -> None:
    values = measured(running(10), *events, idle(60))
    (values_of_turn,) = values.turns or ()
    assert told(values_of_turn, "text", "last") == (text, last)
    assert values.content == text


@pytest.mark.parametrize("last", range(4))
def test_each_finished_form_of_a_text_is_whole(last: int) -> None:
    place = {"item_id": "i1", "content_index": 0}
    finished = [
        openai(30, "turn.output_text.done", text="Hello", **place),
        openai(31, "turn.content_part.done", part={"type": "output_text", "text": "Hello"}, **place),
        item(32, "done", "message", id="i1", role="assistant", content=[{"type": "output_text", "text": "Hello"}]),
    ]
    for deltas in ([], [words(20, "He")], [words(20, "Hello")], [words(20, "other")]):
        chosen = finished if last == 3 else [finished[last]]
        (values,) = turns(
            turn(10, "created"),
            item(15, "added", "message", id="i1", role="assistant", content=[]),
            *deltas,
            *chosen,
            turn(40, "completed"),
        )
        assert values["text"] == "Hello"


def test_reasoning_is_output_and_no_text() -> None:
    place = {"item_id": "r1", "summary_index": 0}
    values = measured(
        turn(10, "created"),
        openai(20, "turn.reasoning_summary_text.delta", delta="Hm", **place),
        openai(30, "turn.reasoning_summary_text.done", text="Hmm", **place),
        openai(31, "turn.reasoning_summary_part.done", part={"text": "Hmm"}, **place),
        item(32, "done", "reasoning", id="r1", summary=[{"text": "Hmm"}]),
        words(40, "ok"),
        turn(50, "completed"),
    )
    (values_of_turn,) = values.turns or ()
    assert (values.reasoning, values.content, told(values_of_turn, "ttft", "text")) == ("Hmm", "ok", (10, "ok"))


NO_OUTPUT = [
    claude(20, "event_start", event={"type": "agent.message", "id": "m1"}),
    claude(20, "agent.thinking"),
    ask(20),
    claude(20, "agent.tool_result", tool_use_id="c0"),
    claude(20, "session.usage", usage={"output_tokens": 99}),
    claude(20, "ping"),
    delta(20, ""),
    claude(20, "span.model_request_start"),
    claude(20, "workflow_run.error", error={"type": "x"}),
    claude(20, "agent.tool_use", id="c9", name="x", input={}, session_thread_id="th1"),
    claude(20, "session.new_thing", error={"type": "x"}),
    claude(20, "span.outcome_evaluation_end", usage={"input_tokens": 5, "output_tokens": 5}),
]


@pytest.mark.parametrize("event", NO_OUTPUT, ids=lambda event: event.kind)
def test_the_time_to_first_output_passes_over_other_events(event: Event) -> None:
    values = measured(running(10), event, message(40, "a"), request_end(45, input_tokens=1, output_tokens=2), idle(50))
    (values_of_turn,) = values.turns or ()
    assert told(values_of_turn, "ttft", "outcome", "input_tokens", "output_tokens") == (30, "complete", 1, 2)
    assert (values.outcome, values.output_chunks, values.tool_calls) == ("complete", 1, None)


@pytest.mark.parametrize(
    "events", [[message(20, "a"), idle(30)], [turn(30, "completed")], [words(20, "a"), turn(30, "completed")]]
)
def test_a_turn_seen_from_its_middle_has_no_ttft(events: list[Event]) -> None:
    values = measured(*events, *LATER["openai" if "turn_id" in events[-1].data else "claude"])
    first, second = values.turns or ()
    assert ("ttft_ns" in first, first["outcome"], told(second, "ttft")) == (False, "complete", (150,))
    assert (values.ttft_ns, values.outcome) == (None, "complete")


def test_a_streamed_create_tells_its_own_turn() -> None:
    values = measured(
        openai(90, "created", session={"agent": {"model": "gpt-x"}}),
        *ANSWERS["openai"],
        openai(400, "idle"),
        method="POST",
        path="/v1/agents/sessions",
        ended_by="end",
    )
    (values_of_turn,) = values.turns or ()
    assert told(values_of_turn, "begun_by", "started_at", "ttft", "last") == ("create", 0, 290, 335)
    assert (values.operation, values.response_model, values.ttft_ns, values.outcome) == (
        "agent_session",
        "gpt-x",
        290 * MS,
        "complete",
    )


def test_sub_agents_have_turns_of_their_own() -> None:
    values = measured(
        turn(10, "created"),
        turn(20, "created", "t2", subagent_id="a1"),
        words(30, "sub", "i2", "t2"),
        words(40, "root"),
        turn(50, "failed", "t2", error={"code": "x"}),
        turn(60, "completed"),
    )
    assert [turn["text"] for turn in values.turns or ()] == ["root", "sub"]
    assert (values.content, values.outcome, values.output_chunks) == ("root", "complete", 1)


def test_a_threads_own_stream_tells_its_turns() -> None:
    thread = {"session_thread_id": "th1"}
    events = [
        claude(10, "agent.thread_message_received", from_session_thread_id="th0"),
        claude(12, "session.thread_status_running", **thread),
        message(30, "sub"),
        claude(40, "session.thread_status_idle", stop_reason={"type": "end_turn"}, **thread),
    ]
    (values,) = turns(*events, path="/v1/sessions/s1/threads/th1/stream")
    assert told(values, "begun_by", "started_at", "ttft", "text", "outcome") == ("agent", 10, 20, "sub", "complete")
    assert turns(running(5), *events[:2], message(30, "root"), events[3], idle(50))[0]["text"] == "root"


def test_a_steering_message_begins_no_turn() -> None:
    user = {"role": "user", "content": [{"type": "input_text", "text": "and"}]}
    (values,) = turns(
        turn(10, "created"),
        item(11, "added", "message", id="u1", **user),
        words(20, "a"),
        item(30, "added", "message", id="u2", **user),
        item(31, "done", "message", id="u2", **user),
        turn(40, "completed"),
    )
    assert told(values, "begun_by", "text", "started_at") == ("text", "a", 10)


def test_credits_are_no_tokens() -> None:
    (values,) = turns(running(10), message(20, "a"), request_end(30, credits=3), idle(40))
    assert (values.get("input_tokens"), values.get("output_tokens")) == (None, None)


def test_usage_of_some_turns_is_no_total() -> None:
    values = measured(*ANSWERS["openai"], *LATER["openai"])
    assert (values.output_tokens, [turn.get("output_tokens") for turn in values.turns or ()]) == (None, [3, None])
    assert measured(*ANSWERS["claude"]).output_tokens == 3


def test_unknown_events_are_counted() -> None:
    values = measured(running(10), claude(11, "session.new"), claude(12, "agent.new"), message(20, "a"), idle(30))
    assert (values.attributes, values.outcome, values.content) == ({"unknown_events": 2}, "complete", "a")


@pytest.mark.parametrize("path", [CLAUDE, "/gateway/x"])
def test_frames_need_neither_event_lines_nor_the_path(path: str) -> None:
    head = [(1, ": connected\n\n"), (2, 'event: ping\ndata: {"type": "ping"}\n\n'), (3, ": heartbeat\n\n")]
    blocks = [(at_ms, f"id: {at_ms}\ndata: {json.dumps(data)}\n\n") for at_ms, data in ANSWERS["claude"]]
    values = derive(*raw(path, [*head, *blocks]))
    assert (values.api, values.content, values.operation) == ("anthropic.sessions", "Hello", "agent_session")


@pytest.mark.parametrize("table", [openai_agents.TABLE, anthropic_sessions.TABLE], ids=["openai", "claude"])
def test_no_value_of_an_event_is_an_error(table: EventTable) -> None:
    fields = ("turn", "turn_id", "item", "part", "delta", "content", "error", "event_id", "stop_reason", "session")
    for value in (1, "x", [1], {"type": 1, "content": 1, "error": []}):
        data = [{"type": kind, **dict.fromkeys((*fields, "input", "usage"), value)} for kind in table.rows]
        values = derive(*recorded(CLAUDE, [Event(at_ms, event) for at_ms, event in enumerate(data)]))
        assert values.outcome in ("client_closed", "error_event")


@pytest.mark.parametrize("table", [openai_agents.TABLE, anthropic_sessions.TABLE], ids=["openai", "claude"])
def test_every_effect_of_an_event_has_a_meaning(table: EventTable) -> None:
    assert {name for row in table.rows.values() for name in row.effects.split(", ") if name} <= set(EFFECTS)
