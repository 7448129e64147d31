import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import hostile
from tests.support.cases import each_case
from tests.support.decoding import cut_everywhere, derived, said
from wiretape.recorder.decode.dialect import Chunk, Piece, ReportedError, Tokens, ToolPiece
from wiretape.recorder.decode.dialects.interactions import API, parse, parser, tokens
from wiretape.recorder.decode.dialects.registry import DIALECTS

PATH = "/v1beta/interactions"
USAGE = {"total_input_tokens": 11, "total_output_tokens": 90, "total_thought_tokens": 245, "total_tokens": 346}
HEAD = {"id": "v1_x", "object": "interaction", "model": "gemini-3-model", "status": "in_progress"}


def state(kind, status="in_progress", **more):
    return {"event_type": f"interaction.{kind}", "interaction": {**HEAD, "status": status, **more}}


def start(index, kind, **step):
    return {"event_type": "step.start", "index": index, "step": {"type": kind, **step}}


def delta(index, kind, **more):
    return {"event_type": "step.delta", "index": index, "delta": {"type": kind, **more}}


def text(index, fragment):
    return delta(index, "text", text=fragment)


def thought(index, fragment):
    return delta(index, "thought_summary", content={"type": "text", "text": fragment})


def stop(index, **more):
    return {"event_type": "step.stop", "index": index, **more}


def read_all(*payloads):
    """Parse the events of one stream."""
    parse_next = parser()
    return [parse_next(payload, "message", None) for payload in payloads]


def calls(*payloads):
    return [tool for chunk in read_all(*payloads) for piece in chunk.pieces for tool in piece.tools]


def stream(*payloads, done=True, end="\n", is_named=True):
    blocks = [
        f"event: {payload['event_type']}{end}" * is_named + f"data: {json.dumps(payload, ensure_ascii=False)}{end}{end}"
        for payload in payloads
    ]
    return "".join([*blocks, f"event: done{end}data: [DONE]{end}{end}" if done else ""])


def measured(*payloads, **facts):
    return derived(stream(*payloads), **{"path": PATH, **facts})


STEPS = (
    start(0, "thought"),
    thought(0, "Hm… "),
    thought(0, "so."),
    delta(0, "thought_signature", signature="CiQ="),
    stop(0),
    start(1, "model_output"),
    text(1, "Hé"),
    text(1, "llo"),
    stop(1),
    start(2, "function_call", id="fc1", name="lamp", arguments={}),
    delta(2, "arguments_delta", arguments='{"on":'),
    delta(2, "arguments_delta", arguments="true}"),
    stop(2),
)
STREAM = (state("created"), *STEPS, state("completed", "requires_action", usage=USAGE))
SAID = {
    "api": API,
    "outcome": "complete",
    "response_model": "gemini-3-model",
    "response_id": "v1_x",
    "content": "Héllo",
    "reasoning": "Hm… so.",
    "finish_reason": "requires_action",
    "input_tokens": 11,
    "output_tokens": 335,
    "total_tokens": 346,
    "reasoning_tokens": 245,
    "calls": [("fc1", "lamp", '{"on":true}')],
}


@each_case(
    "payload",
    [
        state("created"),
        start(0, "thought"),
        start(0, "model_output"),
        text(0, ""),
        thought(0, ""),
        delta(0, "thought_signature", signature="CiQ="),
        delta(0, "text_annotation_delta", annotations=[{"type": "url_citation", "url": "https://a"}]),
        delta(0, "google_search_result", result=[{"search_suggestions": "x"}]),
        delta(0, "image"),
        delta(0, "of a later version", text="x"),
        delta(0, "arguments_delta", arguments=""),
        stop(0, usage=USAGE),
        {"event_type": "interaction.status_update", "interaction_id": "v1_x", "status": "in_progress"},
        state("completed", "completed"),
    ],
)
def test_states_signatures_and_results_are_no_output(payload):
    chunk = parse(payload)
    assert (chunk.api, chunk.output) == (API, False)


@each_case("kind", ["image", "audio", "video", "document"])
@each_case("held", [{"data": "AAAA"}, {"uri": "gs://a/b"}])
def test_media_is_output_without_text(kind, held):
    chunk = parse(delta(0, kind, **held))
    assert (chunk.content, chunk.pieces) == (True, (Piece(0, "", "", "", (), None),))


def test_thought_text_is_reasoning_and_user_text_nothing():
    *_, of_thought, _, of_user = read_all(start(0, "thought"), text(0, "a"), start(1, "user_input"), text(1, "b"))
    assert (of_thought.reasoning, of_thought.pieces[0].reasoning) == (True, "a")
    assert (of_user.output, of_user.pieces) == (False, ())


def test_a_calls_start_names_it_and_deltas_bring_arguments():
    call, first, second = calls(*STEPS[-4:])
    assert call == ToolPiece(2, "fc1", "lamp", "")
    assert (first, second) == (ToolPiece(2, "", "", '{"on":'), ToolPiece(2, "", "", "true}"))


@each_case("end", [stop(2), state("completed", "requires_action")])
def test_without_deltas_the_arguments_are_the_starts(end):
    opening, arguments = calls(start(2, "function_call", id="fc1", name="lamp", arguments={"on": True}), end)
    assert (opening.arguments, arguments) == ("", ToolPiece(2, "", "", '{"on":true}'))


@each_case(
    ("step", "name"),
    [
        ({"type": "google_search_call", "id": "g1"}, "google_search"),
        ({"type": "code_execution_call", "id": "g1"}, "code_execution"),
        ({"type": "mcp_server_tool_call", "id": "g1", "name": "find", "server_name": "s"}, "find"),
    ],
)
def test_server_tools_have_their_arguments_in_one_delta(step, name):
    measures = measured(
        {"event_type": "step.start", "index": 0, "step": step},
        {"event_type": "step.delta", "index": 0, "delta": {**step, "arguments": {"queries": ["é"]}}},
        stop(0),
        state("completed", "completed"),
    )
    assert said(measures)["calls"] == [("g1", name, '{"queries":["é"]}')]


def test_usage_comes_with_states_steps_and_deltas():
    usage = {"total_input_tokens": 11, "total_output_tokens": 1}
    of_delta = {**text(0, "x"), "metadata": {"total_usage": usage}}
    of_status = {"event_type": "interaction.status_update", "interaction_id": "v1_x", "usage": usage}
    for payload in (of_delta, of_status, stop(0, usage=usage), state("completed", "completed", usage=usage)):
        assert parse(payload).usage == usage
    assert parse(stop(0, step_usage=usage)).usage is None


@each_case(
    ("usage", "expected"),
    [
        (USAGE, Tokens(input=11, output=335, total=346, reasoning=245)),
        ({"total_input_tokens": 8, "total_cached_tokens": 6}, Tokens(input=8, cache_read=6)),
        (
            {"total_input_tokens": 8, "total_tool_use_tokens": 3, "total_output_tokens": 2},
            Tokens(input=11, output=2),
        ),
        ({"total_input_tokens": "8", "total_output_tokens": -1, "total_tokens": 1.5}, Tokens()),
    ],
)
def test_tokens_are_copied_and_thoughts_are_output(usage, expected):
    assert tokens(usage) == expected


@each_case(
    ("status", "finish"),
    [(status, status) for status in ("completed", "requires_action", "incomplete", "cancelled", "budget_exceeded")]
    + [("requires_continuation", "requires_continuation"), ("in_progress", None), ("of a later version",) * 2],
)
def test_the_finish_reason_is_the_native_status(status, finish):
    measures = measured(start(0, "model_output"), text(0, "x"), state("completed", status))
    assert (measures.outcome, measures.finish_reason) == ("complete", finish)


def test_the_model_of_an_agents_run_is_the_agent():
    run = {"id": "v1_x", "object": "interaction", "agent": "deep-research", "status": "in_progress"}
    assert parse({"event_type": "interaction.created", "interaction": run}).model == "deep-research"


FOREIGN = [
    {},
    {"event_type": "error_event"},
    {"event_type": "text-generation", "text": "x"},
    {"event_type": "step.delta", "index": 0},
    {"event_type": "step.start", "index": 0, "step": "x"},
    {"event_type": ["step.delta"], "delta": {}},
    {"type": "step.delta", "delta": {"type": "text", "text": "x"}},
    {"error": {"code": 400, "message": "m", "status": "INVALID_ARGUMENT"}},
    {"id": "v1_x", "status": "completed", "model": "m"},
    {"object": "response", "status": "completed", "model": "m", "steps": []},
    {"id": "r", "status": "succeeded", "model": "m", "outputs": []},
    {"id": "r", "status": "completed", "steps": []},
]


@each_case("payload", FOREIGN)
def test_other_objects_are_not_claimed(payload):
    assert parse(payload) is None


WHOLE = {
    **HEAD,
    "status": "requires_action",
    "usage": USAGE,
    "steps": [
        {"type": "user_input", "content": [{"type": "text", "text": "Hello?"}]},
        {"type": "thought", "signature": "CiQ=", "summary": [{"type": "text", "text": "Hm… so."}]},
        {"type": "model_output", "content": [{"type": "text", "text": "Hé"}, {"type": "text", "text": "llo"}]},
        {"type": "function_call", "id": "fc1", "name": "lamp", "arguments": {"on": True}},
        {"type": "function_result", "call_id": "fc0", "result": "dark"},
    ],
}
LEGACY = {
    **HEAD,
    "role": "model",
    "status": "requires_action",
    "usage": USAGE,
    "outputs": [
        {"type": "thought", "signature": "CiQ=", "summary": [{"type": "text", "text": "Hm… so."}]},
        {"type": "text", "text": "Héllo"},
        {"type": "function_call", "id": "fc1", "name": "lamp", "arguments": {"on": True}},
    ],
}
EXAMPLES = [*STREAM, WHOLE, LEGACY, {"event_type": "error", "error": {"code": "x", "message": "m"}}]


@each_case("payload", EXAMPLES)
def test_no_other_dialect_claims_an_event_or_an_interaction(payload):
    kind = payload.get("event_type", "message")
    assert [dialect.api for dialect in DIALECTS if dialect.parse(payload, kind, None)] == [API]


@given(hostile.payloads(EXAMPLES))
def test_values_of_a_wrong_type_are_absent(payload):
    chunk = parse(payload)
    hostile.assert_sound(chunk)
    hostile.assert_counts(tokens(chunk.usage if chunk and chunk.usage else {}))


# Whole bodies


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("is_named", [True, False])
def test_a_stream_is_put_together_however_it_is_cut(end, is_named):
    body = stream(*STREAM, end=end, is_named=is_named)
    assert said(derived(body, path=PATH)) == SAID
    assert all(said(measures) == SAID for measures in cut_everywhere(body, path=PATH))


@pytest.mark.parametrize("payload", [WHOLE, LEGACY])
def test_a_whole_interaction_is_read_as_its_stream(payload):
    measures = derived(json.dumps(payload), content_type="application/json", path=PATH)
    assert said(measures) == SAID
    assert (measures.operation, "nonstream" in measures.flags) == ("generate_content", True)


@pytest.mark.parametrize("path", ["/gateway", "/v1beta1/projects/p/locations/eu/interactions"])
def test_a_stream_is_known_by_events_under_any_path(path):
    measures = measured(*STREAM, path=path)
    assert (said(measures), measures.operation) == (SAID, "generate_content")


def test_without_its_last_event_a_stream_is_truncated():
    body = stream(*STREAM, done=False).encode()
    end = body.rindex(b"}") + 1
    assert {derived(body[:size], path=PATH).outcome for size in (*range(80, end, 7), end - 1)} == {"truncated"}
    assert {derived(body[:size], path=PATH).outcome for size in range(end, len(body) + 1)} == {"complete"}
    for count in range(len(STREAM)):
        measures = measured(*STREAM[:count])
        assert (count, measures.outcome, measures.outcome_detail) == (count, "truncated", "eof")


def test_an_update_of_the_status_ends_nothing():
    done = {"event_type": "interaction.status_update", "interaction_id": "v1_x", "status": "completed"}
    assert measured(*STREAM[:-1], done).outcome == "truncated"


@each_case(
    ("events", "detail", "code"),
    [
        ([{"event_type": "error", "error": {"code": "gateway_timeout", "message": "m"}}], "before_output",
         "gateway_timeout"),
        ([*STREAM[:8], {"event_type": "error", "error": {"code": "gateway_timeout", "message": "m"}}], "mid_stream",
         "gateway_timeout"),
        ([*STREAM[:8], state("completed", "failed")], "mid_stream", None),
        ([*STREAM[:8], state("completed", "failed", errors=[{"code": "internal", "message": "m"}])], "mid_stream",
         "internal"),
        ([state("created"), {"event_type": "interaction.status_update", "interaction_id": "v1_x", "status": "failed"}],
         "before_output", None),
        ([*STREAM[:8], {"event_type": "error"}], "mid_stream", None),
        ([*STREAM[:8], {"event_type": "error", "error": {}}], "mid_stream", None),
    ],
)  # fmt: skip
def test_an_error_or_a_failure_is_the_outcome(events, detail, code):
    measures = measured(*events)
    assert (measures.outcome, measures.outcome_detail, measures.error_code) == ("error_event", detail, code)


@each_case("empty", [{}, {"error": {}}, {"error": None}, {"event_id": "e1"}])
@pytest.mark.parametrize("is_named", [True, False])
def test_an_empty_error_event_before_output_is_no_error(empty, is_named):
    events = (*STREAM[:8], {"event_type": "error", **empty}, *STREAM[8:])
    assert said(derived(stream(*events, is_named=is_named), path=PATH)) == SAID


def test_a_failed_interaction_is_an_error():
    failed = {**WHOLE, "status": "failed", "errors": [{"code": "internal", "message": "broken"}]}
    measures = derived(json.dumps(failed), content_type="application/json", path=PATH)
    assert (measures.outcome, measures.error_code, measures.error_message) == ("error_event", "internal", "broken")
    assert parse(failed).fault == ReportedError("internal", "broken")


def test_a_resumed_stream_is_read_as_what_came():
    measures = measured(*STREAM[7:], method="GET", path="/v1beta/interactions/v1_x?stream=true&last_event_id=e7")
    assert said(measures) == {key: value for key, value in SAID.items() if key != "reasoning"}


def test_an_interaction_that_is_polled_is_no_generation():
    measures = derived(json.dumps(WHOLE), content_type="application/json", method="GET", path=f"{PATH}/v1_x")
    assert (measures.api, measures.operation) == (API, "other")


LEGACY_STREAM = (
    {"event_type": "interaction.start", "interaction": HEAD},
    {"event_type": "content.start", "index": 0, "content": {"type": "thought"}},
    {"event_type": "content.delta", "index": 0, "delta": thought(0, "Hm… so.")["delta"]},
    {"event_type": "content.delta", "index": 0, "delta": {"type": "thought_signature", "signature": "CiQ="}},
    {"event_type": "content.stop", "index": 0},
    {"event_type": "content.start", "index": 1, "content": {"type": "text"}},
    {"event_type": "content.delta", "index": 1, "delta": {"type": "text", "text": "Hé"}},
    {"event_type": "content.delta", "index": 1, "delta": {"type": "text", "text": "llo"}},
    {"event_type": "content.stop", "index": 1},
    {"event_type": "content.start", "index": 2, "content": {"type": "function_call"}},
    {"event_type": "content.delta", "index": 2,
     "delta": {"type": "function_call", "id": "fc1", "name": "lamp", "arguments": {"on": True}}},
    {"event_type": "content.stop", "index": 2},
    {"event_type": "interaction.complete", "interaction": {**HEAD, "status": "requires_action", "usage": USAGE}},
)  # fmt: skip


def test_the_older_schema_reads_alike_however_it_is_cut():
    assert all(said(measures) == SAID for measures in cut_everywhere(stream(*LEGACY_STREAM), path=PATH))
    assert measured(*LEGACY_STREAM[:-1]).outcome == "truncated"


def test_an_answer_only_in_the_last_event_is_taken():
    steps = {"steps": WHOLE["steps"], "usage": USAGE}
    assert said(measured(state("created"), state("completed", "requires_action", **steps))) == SAID
    assert said(measured(*STREAM[:-1], state("completed", "requires_action", **steps))) == SAID


def test_a_comment_or_an_unknown_event_changes_nothing():
    unknown = {"event_type": "interaction.of_a_later_version", "index": 1, "delta": {"text": "x"}}
    body = ": keep-alive\n\n" + stream(*STREAM[:7], unknown, *STREAM[7:])
    assert said(derived(body, path=PATH)) == SAID


CURSORS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@given(st.lists(st.tuples(st.sampled_from(["a", "é", '"', "\\n", ""]), CURSORS), max_size=12), st.booleans())
def test_cursors_do_not_change_a_long_answer(pieces, is_thought):
    added = [thought(0, fragment) if is_thought else text(0, fragment) for fragment, _ in pieces]
    events = [{**step, "event_id": cursor} for step, (_, cursor) in zip(added, pieces, strict=True)]
    measures = measured(start(0, "thought" if is_thought else "model_output"), *events, state("completed", "completed"))
    answer = "".join(fragment for fragment, _ in pieces) or None
    assert (measures.reasoning if is_thought else measures.content) == answer
    assert measures.output_chunks == sum(bool(fragment) for fragment, _ in pieces)


def test_a_named_event_needs_no_event_type():
    payload = text(0, "x")
    del payload["event_type"]
    assert parse(payload, "step.delta") == Chunk(API, "", "", (Piece(0, "x", "", "", (), None),), content=True)
