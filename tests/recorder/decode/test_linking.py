"""The turns of a hosted session over all its exchanges: links to requests, several streams, and what may be missing."""

from collections.abc import Iterable
from typing import Any

from tests.support.hosted_sessions import (
    CLAUDE,
    CLAUDE_STREAM,
    Event,
    Sent,
    claude,
    delta,
    echo,
    idle,
    message,
    model_end,
    posted,
    running,
    said,
    stream,
    worked_example,
)
from wiretape.recorder.decode.derive import derive
from wiretape.recorder.decode.hosted import SessionMember, decoded_streams, related
from wiretape.recorder.decode.metrics import Measures

A, B, C, D = (f"{letter * 4}00000000000{letter}" for letter in "abcd")
AGENTS = "/v1/agents/sessions/sess_1/events"
TIMES = ("started_at_ns", "first_output_at_ns", "ended_at_ns", "ttft_ns", "last_ns")


def derived(*exchanges: Sent) -> dict[str, Measures]:
    """Return the measures of the exchanges of a session, linked."""
    members = [exchange.exchange() for exchange in exchanges]
    streams = decoded_streams(members)
    return {
        each.id: derive(each.exchange, each.reads, each.body, streams.get(each.id), each.request) for each in members
    }


def turns(*exchanges: Sent) -> list[dict[str, Any]]:
    """Return the turns of a session, times in ms."""
    rows = [turn for measures in derived(*exchanges).values() for turn in measures.turns or ()]
    return [{name: value / 1e6 if name in TIMES else value for name, value in row.items()} for row in rows]


def brief(rows: Iterable[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row.get(name) for name in names) for row in rows]


def openai(type: str, number: str = "t1", **fields: Any) -> Event:
    kind = type if type.startswith("agent.session.") else f"agent.session.turn.{type}"
    return {"type": kind, "event_id": f"ev_{kind}_{number}_{fields}", "session_id": "sess_1", **fields,
            **({"turn_id": number} if number else {})}  # fmt: skip


def created(turn: str) -> Event:
    return openai("created", turn, turn={"id": turn, "status": "in_progress"})


def completed(turn: str, status: str = "completed") -> Event:
    return openai(status, turn, turn={"id": turn, "status": status})


def user(turn: str, item: str) -> Event:
    content = [{"type": "input_text", "text": "Hi"}]
    return openai("item.added", turn, item={"id": item, "type": "message", "role": "user", "content": content})


def spoken(turn: str, text: str, n: int = 0) -> Event:
    return openai("output_text.delta", turn, item_id=f"m{turn}", output_index=0, content_index=0, delta=text) | {
        "event_id": f"d{turn}{n}"
    }


def input_message(id: str, at: float, **more: Any) -> Sent:
    event = {"type": "agent.session.input.message", "input": [{"role": "user", "content": []}]}
    return posted(id, at, event, path=AGENTS, status=202, **more)


def test_the_worked_example_has_these_turns() -> None:
    measures = derived(*worked_example())
    first, second = turns(*worked_example())
    assert [first[name] for name in TIMES] == [100, 290, 398, 190, 235]
    assert [second[name] for name in TIMES] == [998, 1190, 1620, 192, 602]
    assert brief([first, second], "turn", "begun_by", "begun_by_id", "outcome", "continued_in", "missing", "text") == [
        (1, "text", "bbbb00000000000b", "complete", None, 0, "Hello"),
        (2, "text", "cccc00000000000c", "complete", "dddd00000000000d", 1, "Yes."),
    ]
    opened, resumed = measures["aaaa00000000000a"], measures["dddd00000000000d"]
    assert (opened.ttft_ns, opened.duration_ns) == (190_000_000, (298 + 622) * 1_000_000)
    assert (resumed.turns, resumed.ttft_ns, resumed.duration_ns, resumed.outcome) == ([], None, None, "complete")


def test_an_order_of_exchanges_changes_no_turn() -> None:
    assert turns(*worked_example()) == turns(*reversed(worked_example()))


def test_an_echo_links_the_request_with_its_id() -> None:
    told = [(20, echo("u2", "B")), (21, running("r1")), (40, message("m1", "ok")), (50, idle("i1"))]
    sent = [posted(B, 5, said("A"), ids=["u1"]), posted(C, 10, said("B"), ids=["u2"])]
    (turn,) = turns(stream(A, 0, told, CLAUDE_STREAM), *sent)
    assert (turn["begun_by_id"], turn["ttft_ns"]) == (C, 30)


def test_a_request_repeated_later_begins_no_earlier_turn() -> None:
    told = [(20, running("r1")), (40, message("m1", "ok")), (50, idle("i1")), (60, echo("u2", "B")),
            (61, running("r2")), (70, message("m2", "ok")), (80, idle("i2"))]  # fmt: skip
    rows = turns(stream(A, 0, told, CLAUDE_STREAM), posted(C, 10, said("B"), ids=["u2"]))
    assert brief(rows, "begun_by_id", "started_at_ns") == [(C, 10), (None, 20)]


def test_an_echo_that_waits_links_nothing() -> None:
    told = [(12, echo("u2", "B", processed=False)), (21, running("r1")), (40, message("m1", "ok")), (50, idle("i1")),
            (60, echo("u2", "B")), (61, running("r2")), (70, message("m2", "ok")), (80, idle("i2"))]  # fmt: skip
    sent = [posted(B, 5, said("A")), posted(C, 10, said("B"), ids=["u2"])]
    assert brief(turns(stream(A, 0, told, CLAUDE_STREAM), *sent), "begun_by_id", "started_at_ns") == [(B, 5), (C, 10)]


def test_the_last_of_several_results_begins_the_turn() -> None:
    told = [
        (10, running("r1")), (20, claude("agent.custom_tool_use", "c1", name="ask", input={"q": 1})),
        (21, claude("agent.custom_tool_use", "c2", name="ask", input={"q": 2})),
        (30, idle("i1", "requires_action", event_ids=["c1", "c2"])), (45, idle("i2", "requires_action")),
        (60, running("r2")), (70, message("m1", "ok")), (80, idle("i3")),
    ]  # fmt: skip
    results = [{"type": "user.custom_tool_result", "custom_tool_use_id": call, "content": []} for call in ("c1", "c2")]
    sent = [posted(B, 5, said("A")), posted(C, 40, results[0]), posted(D, 55, results[1])]
    first, second = turns(stream(A, 0, told, CLAUDE_STREAM), *sent)
    assert brief([first, second], "begun_by", "begun_by_id", "finish_reason") == [
        ("text", B, "requires_action"), ("tool_result", D, "end_turn")
    ]  # fmt: skip
    assert [(call["id"], call["name"], call["arguments"]) for call in first["tool_calls"]] == [
        ("c1", "ask", '{"q":1}'), ("c2", "ask", '{"q":2}')
    ]  # fmt: skip


def test_a_retry_begins_the_turn_of_a_refused_request() -> None:
    told = [(20, running("r1")), (40, message("m1", "ok")), (50, idle("i1"))]
    (turn,) = turns(stream(A, 0, told, CLAUDE_STREAM), posted(B, 5, said("A"), status=429), posted(C, 10, said("A")))
    assert (turn["begun_by_id"], turn["started_at_ns"]) == (C, 10)


def test_an_interrupt_alone_begins_no_turn() -> None:
    told = [(20, running("r1")), (30, delta("m1", "He")), (50, claude("user.interrupt", "x1")), (51, idle("i1")),
            (90, running("r2")), (95, message("m2", "ok")), (99, idle("i2"))]  # fmt: skip
    sent = [posted(B, 5, said("A")), posted(C, 40, {"type": "user.interrupt"}), posted(D, 80, said("B"))]
    rows = turns(stream(A, 0, told, CLAUDE_STREAM), *sent)
    assert brief(rows, "begun_by_id", "outcome") == [(B, "interrupted"), (D, "complete")]


def test_a_turn_without_request_starts_with_its_first_event() -> None:
    told = [(20, running("r1")), (40, message("m1", "ok")), (50, idle("i1"))]
    (turn,) = turns(stream(A, 0, told, CLAUDE_STREAM))
    assert (turn.get("begun_by"), turn.get("begun_by_id"), turn["started_at_ns"], turn["ttft_ns"]) == (
        None, None, 20, 20
    )  # fmt: skip


def test_a_request_before_the_stream_starts_before_it() -> None:
    told = [(30, running("r1")), (40, message("m1", "ok")), (50, idle("i1"))]
    (turn,) = turns(posted(B, 5, said("A")), stream(A, 25, told, CLAUDE_STREAM))
    assert [turn[name] for name in ("started_at_ns", "ttft_ns", "ended_at_ns")] == [-20, 35, 25]


def test_a_steering_message_begins_no_turn() -> None:
    told = [
        (20, created("t1")), (21, user("t1", "u1")), (30, spoken("t1", "a")), (45, user("t1", "u2")),
        (50, spoken("t1", "b", 1)), (60, completed("t1")), (80, created("t2")), (81, user("t2", "u3")),
        (90, spoken("t2", "c")), (95, completed("t2")),
    ]  # fmt: skip
    sent = [input_message(B, 10), input_message(C, 40), input_message(D, 70)]
    rows = turns(stream(A, 0, told, AGENTS), *sent)
    assert brief(rows, "response_id", "begun_by_id", "text") == [("t1", B, "ab"), ("t2", D, "c")]


def test_a_message_without_a_step_runs_as_next_turn() -> None:
    told = [(20, created("t1")), (21, user("t1", "u1")), (30, spoken("t1", "a")), (60, completed("t1")),
            (61, created("t2")), (62, user("t2", "u2")), (90, spoken("t2", "c")), (95, completed("t2"))]  # fmt: skip
    rows = turns(stream(A, 0, told, AGENTS), input_message(B, 10), input_message(C, 40))
    assert brief(rows, "begun_by_id", "started_at_ns", "ttft_ns") == [(B, 10, 20), (C, 40, 50)]


def test_a_function_tools_wait_is_within_the_turn() -> None:
    item = {"id": "f1", "type": "function_call", "call_id": "call_1", "name": "get", "arguments": {"a": 1}}
    told = [
        (20, created("t1")), (30, openai("item.added", item=item)),
        (40, openai("agent.session.requires_action", session={"required_actions": [{"type": "function_call",
                                                                                   "turn_id": "t1"}]})),
        (95, openai("agent.session.in_progress", session={})), (110, spoken("t1", "a")), (120, completed("t1")),
    ]  # fmt: skip
    result = posted(C, 90, {"type": "agent.session.input.tool_result", "turn_id": "t1", "call_id": "call_1"},
                    path=AGENTS, status=202)  # fmt: skip
    (turn,) = turns(stream(A, 0, told, AGENTS), input_message(B, 10), result)
    assert (turn["begun_by_id"], turn["tools_ns"]) == (B, 50_000_000)
    assert turn["tool_calls"] == [{"id": "call_1", "name": "get", "arguments": '{"a":1}'}]


def test_a_streamed_create_begins_its_own_turn() -> None:
    told = [(20, openai("agent.session.created", "", session={"id": "sess_1"})), (21, created("t1")),
            (30, spoken("t1", "a")), (40, completed("t1"))]  # fmt: skip
    body = {"agent": {"model": "m"}, "input": "Hi", "stream": True}
    (turn,) = turns(stream(A, 0, told, "/v1/agents/sessions", method="POST", body=body))
    assert (turn["begun_by"], turn["begun_by_id"], turn["ttft_ns"], turn["session"]) == ("create", A, 30, "sess_1")


def test_two_open_streams_tell_tokens_once() -> None:
    told = [(20, running("r1")), (30, message("m1", "ok")), (40, model_end("e1", 5, 3, read=2)), (50, idle("i1"))]
    both = [stream(A, 0, told, CLAUDE_STREAM), stream(D, 5, [(at + 1, event) for at, event in told], CLAUDE_STREAM)]
    measures = derived(*both, posted(B, 10, said("A")))
    assert [(one.input_tokens, one.output_tokens) for one in (measures[A], measures[D])] == [(7, 3), (None, None)]
    (turn,) = measures[A].turns or ()
    assert (turn["input_tokens"], turn["input_cached_tokens"], turn["missing"]) == (7, 2, 0)
    assert (measures[D].turns, measures[D].content) == ([], None)


def test_a_turn_begun_anew_later_was_cut() -> None:
    first = stream(A, 0, [(20, running("r1")), (30, delta("m1", "He"))], CLAUDE_STREAM, ended_by="reset")
    told = [(120, running("r2")), (130, message("m2", "ok")), (140, idle("i2"))]
    sent = [posted(B, 10, said("A")), posted(C, 110, said("B"))]
    rows = turns(first, *sent, stream(D, 100, told, CLAUDE_STREAM))
    assert brief(rows, "exchange", "begun_by_id", "outcome", "missing") == [
        (None, B, "truncated", 0), (None, C, "complete", 0)
    ]  # fmt: skip


def test_an_echo_on_a_later_stream_begins_its_turn() -> None:
    first = [(20, running("r1")), (30, message("m1", "One"))]
    second = [(90, echo("u2", "again")), (100, running("r2")), (120, message("m2", "Two")), (130, idle("i2"))]
    streams = (
        stream(A, 0, first, CLAUDE_STREAM, end=40, ended_by="reset"),
        stream(B, 60, second, CLAUDE_STREAM, end=140),
    )
    rows = turns(*streams, posted(C, 10, said("Hi"), ids=["u1"]), posted(D, 80, said("again"), ids=["u2"]))
    assert brief(rows, "begun_by_id", "outcome", "ttft_ns") == [(C, "truncated", 20), (D, "complete", 40)]


def test_the_end_of_a_session_continues_its_turn() -> None:
    first, end = [(20, running("r1")), (30, message("m1", "One"))], [(90, claude("session.deleted", "x1"))]
    streams = (
        stream(A, 0, first, CLAUDE_STREAM, end=40, ended_by="reset"),
        stream(B, 60, end, CLAUDE_STREAM, end=95),
    )
    assert brief(turns(*streams), "outcome", "ended_at_ns", "continued_in") == [("cancelled", 90, B)]


def test_a_turn_joined_midway_has_no_first_output() -> None:
    told = [(30, message("m1", "ok")), (40, idle("i1"))]
    (turn,) = turns(posted(B, 10, said("A")), stream(A, 20, told, CLAUDE_STREAM))
    assert (turn["begun_by_id"], turn.get("ttft_ns"), turn["outcome"]) == (B, None, "complete")


def test_sub_agents_take_no_request_of_the_root() -> None:
    thread = [
        (20, claude("agent.thread_message_received", "x1", from_session_thread_id="th_0")), (30, message("m9", "sub")),
        (35, claude("session.thread_status_idle", "x2", stop_reason={"type": "end_turn"})),
    ]  # fmt: skip
    root = [(40, running("r1")), (50, message("m1", "root")), (60, idle("i1"))]
    rows = turns(stream(A, 0, root, CLAUDE_STREAM), stream(C, 1, thread, f"{CLAUDE}/threads/th_1/stream"),
                 posted(B, 10, said("A")))  # fmt: skip
    assert brief(rows, "thread", "begun_by", "begun_by_id", "text") == [
        (None, "text", B, "root"), ("th_1", "agent", None, "sub")
    ]  # fmt: skip


def test_only_streams_that_share_turns_are_read_again() -> None:
    def stream_of(no: int, start: int, end: int, whole: bool = True, taken: str = "") -> SessionMember:
        return SessionMember(no, f"s{no}", start, end, True, whole, frozenset(taken.split()))

    def request(no: int, at: int) -> SessionMember:
        return SessionMember(no, f"r{no}", at, at + 1, False)

    others = [
        stream_of(1, 0, 10, taken="r2 r3"), request(2, 1), request(3, 2), stream_of(4, 20, 40, whole=False),
        request(5, 25), stream_of(6, 50, 60), stream_of(7, 70, 80, taken="r5"),
    ]  # fmt: skip
    assert sorted(related(stream_of(8, 55, 65), others)) == [4, 6]
    assert sorted(related(stream_of(8, 90, 95), others)) == []
    assert sorted(related(request(8, 58), others)) == [4, 5, 6, 7]
    assert related(request(8, 99), others) == []
