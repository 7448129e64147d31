"""Turns of a hosted agent that several streams of its session tell: nothing of them counts twice."""

from typing import Any

import pytest

from tests.support.agent_streams import Event, claude, delta, idle, message, openai, request_end, running, words
from tests.support.agent_streams import turn as openai_turn
from wiretape.recorder.decode.agent_turns import MOST_TURNS, AgentTurn, TurnMachine
from wiretape.recorder.decode.dialects import anthropic_sessions, openai_agents
from wiretape.recorder.decode.effects import Effect, SessionEvent
from wiretape.recorder.decode.turns import turn_measures


def taken(*streams: list[Event], api: Any = anthropic_sessions) -> list[AgentTurn]:
    """Return the turns of streams whose events are merged by their times, which are the marks."""
    machine = TurnMachine()
    merged = sorted((event.at_ms, number, event.data) for number, stream in enumerate(streams) for event in stream)
    for at_ms, number, data in merged:
        machine.take(at_ms, api.session_event(data["type"], data), number)
    return machine.finish()


def test_two_open_streams_tell_a_turn_once() -> None:
    events = [running(10), delta(20, "He"), delta(30, "llo"), message(40, "Hello"), idle(50)]
    (turn,) = taken(events, [Event(event.at_ms + 1, event.data) for event in events])
    assert (turn.text, turn.first_output, turn.last_output, turn.end, [*turn.connections]) == (
        "Hello",
        20,
        30,
        50,
        [0, 1],
    )


def test_repeated_additions_count_from_the_longest_on() -> None:
    (turn,) = taken(
        [running(10), delta(20, "He"), delta(30, "ll")],
        [delta(40, "He"), delta(50, "l"), delta(60, "lo"), idle(70)],
    )
    assert (turn.text, turn.last_output, [output.text for output in turn.outputs]) == ("Hello", 60, ["He", "ll", "o"])


def test_a_resumed_turn_ends_on_the_next_stream() -> None:
    first, second = taken(
        [running(140), delta(290, "Hel"), delta(335, "lo"), message(380, "Hello"), idle(398), running(1_040),
         delta(1_190, "Yes", "m2")],
        [message(1_600, "Yes, sir", id="m2"), idle(1_620)],
    )  # fmt: skip
    assert (first.text, [*first.connections]) == ("Hello", [0])
    assert (second.text, second.outcome, [*second.connections], second.last_output) == (
        "Yes, sir",
        "complete",
        [0, 1],
        1_600,
    )


def test_additions_with_ids_of_their_own_are_all_new() -> None:
    (turn,) = taken(
        [openai_turn(10, "created"), words(20, "He")],
        [words(30, "llo"), openai_turn(40, "completed")],
        api=openai_agents,
    )
    assert (turn.text, turn.last_output, turn.outcome) == ("Hello", 30, "complete")


def test_a_threads_end_ends_no_turn_of_its_session() -> None:
    state = {"session_thread_id": "th1", "stop_reason": {"type": "end_turn"}}
    end = claude(60, "session.thread_status_idle", **state)
    own, machine = "/sessions/s1/threads/th1/stream", TurnMachine()
    for mark, (event, path) in enumerate(
        [
            (claude(10, "session.thread_status_running", **state), own),
            (message(20, "sub"), own),
            (end, ""),
            (end, own),
        ]
    ):
        machine.take(mark, anthropic_sessions.session_event(event.kind, event.data, path))
    (turn,) = machine.finish()
    assert (turn.thread, turn.text, turn.end) == ("th1", "sub", 3)


def test_a_sub_agents_turn_seen_late_hides_no_root() -> None:
    root, sub = taken(
        [openai_turn(10, "created"), words(20, "a", turn="t2"), openai_turn(30, "completed", "t2", subagent_id="s1"),
         words(40, "b"), openai(50, "failed", session={"error": "boom"})],
        api=openai_agents,
    )  # fmt: skip
    assert (root.text, root.outcome, root.thread, sub.text, sub.thread) == ("b", "error", "", "a", "s1")


def test_a_request_before_the_stream_starts_a_turns_clock() -> None:
    (turn,) = taken([running(40), message(90, "a"), idle(100)])
    turn.start_ns, turn.begun_by = -60, "text"
    (values,) = turn_measures([turn], range(200))
    assert (values.started_at_ns, values.ttft_ns, values.last_ns, values.begun_by) == (-60, 150, 150, "text")


@pytest.mark.parametrize(
    "late", [request_end(60, input_tokens=5, output_tokens=2), claude(60, "agent.tool_result", tool_use_id="c1"),
             claude(60, "agent.thinking"), message(60, "Hello", id="m1")],
    ids=lambda event: event.kind,
)  # fmt: skip
def test_what_comes_late_begins_no_turn(late: Event) -> None:
    (turn,) = taken([running(10), delta(20, "Hel"), idle(50), late])
    assert (turn.end, turn.last_output, turn.outcome) == (50, 20, "complete")
    assert turn.text == ("Hello" if late.kind == "agent.message" else "Hel")
    assert turn.tokens.output == (2 if late.kind == "span.model_request_end" else None)


@pytest.mark.parametrize("event", [claude(10, "agent.thinking"), claude(10, "span.model_request_start")])
def test_any_event_of_a_turn_starts_one_seen_late(event: Event) -> None:
    (turn,) = taken([event, message(30, "a"), idle(40)])
    assert (turn.start, turn.first_output, turn.is_begin_known, turn.outcome) == (10, 30, False, "complete")


def test_the_number_of_turns_is_limited() -> None:
    machine = TurnMachine()
    begin, end = (SessionEvent(type=name, effects=(Effect(name=name),)) for name in ("begin", "end"))
    for mark in range(MOST_TURNS + 1):
        machine.take(2 * mark, begin)
        machine.take(2 * mark + 1, end)
    assert len(machine.turns) == MOST_TURNS
