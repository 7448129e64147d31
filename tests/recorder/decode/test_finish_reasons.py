import json

from tests.support.cases import each_case
from tests.support.decoding import derived
from tests.support.exchanges import detailed
from wiretape.recorder.decode.dialects.registry import BY_API
from wiretape.recorder.decode.finish_reasons import FAILURES, is_failure
from wiretape.viewer.exchange.facts import reason as why


def sse(*payloads):
    return "".join(f"data: {json.dumps(payload)}\n\n" for payload in payloads)


def chat(reason, content="Two swa"):
    final_choice = {"index": 0, "delta": {}, "finish_reason": reason}
    return (
        sse({"choices": [{"index": 0, "delta": {"content": content}}]}, {"choices": [final_choice]})
        + "data: [DONE]\n\n"
    )


REASONS = [
    "insufficient_system_resource", "abort", "network_error", "error", "engine_overloaded",
    "function_call_filter: MALFORMED_FUNCTION_CALL",
]  # fmt: skip


@each_case("reason", REASONS)
def test_a_failed_services_finish_reason_is_an_error(reason):
    measures = derived(chat(reason))
    assert (measures.outcome, measures.outcome_detail) == ("error_event", "finish")
    assert (measures.finish_reason, measures.error_code) == (reason, reason)
    answer = {"object": "chat.completion", "choices": [{"message": {"content": "a"}, "finish_reason": reason}]}
    assert derived(json.dumps(answer), content_type="application/json").outcome == "error_event"
    legacy = sse({"object": "text_completion", "choices": [{"text": "a", "finish_reason": reason}]})
    assert derived(legacy).outcome_detail == "finish"


@each_case("reason", ["stop", "length", "content_filter", "tool_calls", "sensitive", "model_context_window_exceeded"])
def test_a_limit_or_a_filter_is_no_failure(reason):
    assert derived(chat(reason)).outcome == "complete"


def test_one_choice_of_several_that_failed_is_an_error():
    choices = [
        {"index": place, "delta": {"content": "a"}, "finish_reason": reason}
        for place, reason in enumerate(("stop", "abort"))
    ]
    measures = derived(sse({"choices": choices}))
    assert (measures.outcome, measures.error_code, measures.finish_reason) == ("error_event", "abort", "stop")


def response(status, **fields):
    return {"object": "response", "id": "r", "status": status, "output": [], **fields}


@each_case("kind", ["response.cancelled", "response.completed"])
def test_a_cancelled_response_of_a_stream_is_an_error(kind):
    delta = {"type": "response.output_text.delta", "output_index": 0, "delta": "Hi"}
    measures = derived(sse(delta, {"type": kind, "response": response("cancelled")}))
    assert (measures.outcome, measures.outcome_detail, measures.finish_reason) == ("error_event", "finish", "cancelled")


@each_case(
    ("api", "reason", "failed"),
    [
        ("gemini", "MALFORMED_FUNCTION_CALL", True),
        ("gemini", "UNEXPECTED_TOOL_CALL", True),
        ("gemini", "SAFETY", False),
        ("gemini", "MAX_TOKENS", False),
        ("bedrock.converse", "malformed_tool_use", True),
        ("bedrock.converse", "guardrail_intervened", False),
        ("bedrock.invoke", "ERROR", True),
        ("cohere.chat", "TIMEOUT", True),
        ("anthropic.messages", "refusal", False),
        ("anthropic.messages", "abort", False),
        ("of a later version", "error", True),
        ("openai.chat", None, False),
    ],
)
def test_each_api_has_failures_of_its_own(api, reason, failed):
    assert is_failure(api, reason) is failed


def test_the_reason_is_named_where_an_exchange_is_explained():
    row = detailed(outcome="error_event", outcome_detail="finish", finish_reason="abort", error_code="abort")
    assert why(row) == "upstream ended the answer with the finish reason abort"


def candidate(text, **more):
    return {"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, **more}], "modelVersion": "m"}


GEMINI = "/v1beta/models/m:streamGenerateContent?alt=sse&$alt=json;enum-encoding=int"
VERTEX = "/v1/projects/p/locations/l/publishers/google/models/m:streamGenerateContent?$alt=json;enum-encoding=int"


@each_case(
    ("path", "number", "name"),
    [
        (GEMINI, 1, "STOP"),
        (VERTEX, 1, "STOP"),
        (GEMINI, 2, "MAX_TOKENS"),
        (GEMINI, 6, "LANGUAGE"),
        (VERTEX, 6, "BLOCKLIST"),
        (GEMINI, 17, "IMAGE_RECITATION"),
        (VERTEX, 16, "NO_IMAGE"),
        (GEMINI, 99, "99"),
    ],
)
def test_a_numbered_finish_reason_is_named_by_its_api(path, number, name):
    measures = derived(sse(candidate("Hel", finishReason=0), candidate("lo", finishReason=number)), path=path)
    assert (measures.outcome, measures.content, measures.finish_reason) == ("complete", "Hello", name)


@each_case(("path", "number"), [(GEMINI, 10), (VERTEX, 9)])
def test_a_number_of_a_failure_is_an_error(path, number):
    measures = derived(sse(candidate("Hel"), candidate("", finishReason=number)), path=path)
    assert (measures.outcome_detail, measures.error_code) == ("finish", "MALFORMED_FUNCTION_CALL")


def test_a_stream_of_numbers_in_an_array_is_complete():
    body = json.dumps([candidate("Hel"), candidate("lo", finishReason=1)])
    measures = derived(body, content_type="application/json", path=VERTEX)
    assert (measures.outcome, measures.content) == ("complete", "Hello")
    ends = [{"candidates": [{"finishReason": 1}]}]
    assert derived(json.dumps(ends), content_type="application/json", path=VERTEX).finish_reason == "STOP"


@each_case(("path", "name"), [(GEMINI, "IMAGE_SAFETY"), (VERTEX, "MODEL_ARMOR")])
def test_a_number_of_a_blocked_prompt_has_its_name(path, name):
    measures = derived(sse({"promptFeedback": {"blockReason": 5}, "modelVersion": "m"}), path=path)
    assert (measures.outcome, measures.finish_reason) == ("complete", name)


def test_the_names_of_a_table_are_those_of_dialects():
    assert {*FAILURES} <= {*BY_API}


@each_case(
    ("method", "path", "operation"),
    [("POST", "/v1/responses/r/cancel", "other"), ("GET", "/v1/responses/r", "chat")],
)
def test_cancelling_or_reading_a_response_does_not_fail(method, path, operation):
    body = json.dumps(response("cancelled"))
    measures = derived(body, content_type="application/json", method=method, path=path)
    assert (measures.outcome, measures.operation, measures.finish_reason) == ("complete", operation, "cancelled")
