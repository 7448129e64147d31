"""The conversation of a request: keys that clients send, and hashes of messages."""

import gzip
import json
from typing import Any

from tests.support.cases import each_case
from wiretape.recorder.decode.conversation import RecordedRequest, belonging

SESSION = "dca1a705-958e-4840-b387-62f8dae6b051"
USER, CALL = {"role": "user", "content": "Weather?"}, {"name": "look", "arguments": '{"city":"Oslo"}'}
CALLED = {"id": "call_1", "name": "look", "arguments": '{"city": "Oslo"}'}
ASSISTANT = {"role": "assistant", "content": "Wait. ", "tool_calls": [{"id": "call_1", "function": CALL}]}
TOOL = {"role": "tool", "tool_call_id": "call_1", "content": "rain"}


def of(
    *messages: Any, headers: dict[str, str] | None = None, content: str | None = None, calls: Any = (), **body: Any
) -> dict[str, Any]:
    """Return the conversation of a request with these messages, whose answer has this content and these calls."""
    encoded = json.dumps({"model": "m", "messages": list(messages), **body}).encode()
    return belonging(RecordedRequest([*map(list, (headers or {}).items())], encoded), "chat", content, calls)


@each_case(
    "headers, body, key, by",
    [
        ({"x-claude-code-session-id": "REDACTED:sha256:0a1b2c3d"}, {"metadata": {"user_id": f"u_session_{SESSION}"}},
         "0a1b2c3d", "x-claude-code-session-id"),
        ({}, {"metadata": {"user_id": f"user_1_account__session_{SESSION}"}}, SESSION, "metadata.user_id"),
        ({}, {"metadata": {"user_id": json.dumps({"session_id": SESSION})}}, SESSION, "metadata.user_id"),
        ({}, {"metadata": {"user_id": "somebody"}, "user": "somebody", "prompt_cache_key": "app"}, None, None),
        ({"session-id": "s1"}, {"prompt_cache_key": "s2"}, "s1", "session-id"),
        ({"x-session-id": " "}, {"conversation": {"id": "conv_1"}}, "conv_1", "conversation"),
        ({}, {"conversation": "conv_1"}, "conv_1", "conversation"),
        ({}, {"session_id": 7, "metadata": {"thread_id": "t1"}}, "t1", "metadata.thread_id"),
        ({}, {"metadata": {"user_id": "{" * 50_000}, "conversation": [1]}, None, None),
    ],
)  # fmt: skip
def test_a_conversation_is_named_by_what_names_nothing_else(
    headers: dict[str, str], body: dict[str, Any], key: str | None, by: str | None
) -> None:
    request = of(USER, headers=headers, **body)
    assert (request["conversation_key"], request["conversation_key_from"]) == (key, by)


def test_the_envelope_of_a_request_may_name_it() -> None:
    body = json.dumps({"model": "m", "request": {"contents": [{"role": "user", "parts": []}], "session_id": "s1"}})
    assert belonging(RecordedRequest([], body.encode()), "generate_content", None, None)["conversation_key"] == "s1"


def test_a_compressed_request_belongs_where_the_plain_one_does() -> None:
    body = json.dumps({"model": "m", "messages": [USER]}).encode()
    compressed = RecordedRequest([["content-encoding", "gzip"]], gzip.compress(body))
    assert (
        belonging(compressed, "chat", None, None)
        == belonging(RecordedRequest([], body), "chat", None, None)
        == of(USER)
    )


def test_a_sub_agent_names_what_started_it() -> None:
    assert of(headers={"x-session-id": "b", "x-parent-session-id": "a"})["conversation_parent"] == "a"
    agent = {"x-claude-code-session-id": "s", "x-claude-code-agent-id": "7"}
    assert of(headers=agent)["conversation_parent"] == "s"


def asked_of_gemini(**body: Any) -> dict[str, Any]:
    """Return the conversation of an interaction."""
    request = RecordedRequest([], json.dumps({"model": "m", **body}).encode())
    return belonging(request, "generate_content", "Wait.", ())


def test_an_interaction_names_the_one_before_it() -> None:
    request = asked_of_gemini(input="Weather?", previous_interaction_id="v1_a")
    assert (request["previous_response_id"], request["messages_hash"], request["asked"]) == ("v1_a", None, "Weather?")


def test_a_continuation_without_input_names_its_interaction() -> None:
    assert asked_of_gemini(previous_interaction_id="v1_a", continuation_token="t")["previous_response_id"] == "v1_a"


def test_a_continuation_with_input_continues_its_answer() -> None:
    first_request = asked_of_gemini(input="Weather?", store=False)
    second = asked_of_gemini(input="Weather?", store=False, continuation_token="t")
    assert (first_request["continues_hash"], second["continues_hash"]) == (None, first_request["messages_hash"])
    assert (second["messages_hash"], second["continued_answer_hash"]) == (first_request["messages_hash"], None)


def test_a_resumed_stream_continues_its_response() -> None:
    membership = belonging(RecordedRequest([], None), "generate_content", "x", (), resumed="v1_a")
    assert membership["previous_response_id"] == "v1_a"


def test_a_request_continues_the_one_whose_messages_it_repeats() -> None:
    first = of({"role": "system", "content": "now: 1"}, USER, content="Wait.", calls=[CALLED], tools=[{"name": "a"}])
    second = of({"role": "system", "content": "now: 2"}, USER, ASSISTANT, TOOL, content="Rain.")
    third = of(USER, ASSISTANT, TOOL, {"role": "assistant", "content": "Rain."}, {"role": "user", "content": "Thanks"})
    assert first["continues_hash"] is None
    assert second["continues_hash"] == first["messages_hash"]
    assert second["continued_answer_hash"] == first["answer_hash"]
    assert third["continues_hash"] == second["messages_hash"]
    assert third["continued_answer_hash"] == second["answer_hash"]
    assert len({turn["messages_hash"] for turn in (first, second, third)}) == 3
    assert of(USER, content="Wait.", calls=[CALLED | {"id": "call_2"}])["answer_hash"] != first["answer_hash"]


def test_a_client_says_that_it_sends_a_request_again() -> None:
    counts = [of(USER, headers={"x-stainless-retry-count": text})["retries"] for text in ("0", "2", "-1", "9" * 5000)]
    assert counts == [0, 2, None, None]


def test_parts_left_to_the_server_have_no_hash() -> None:
    membership = of(USER, previous_response_id="resp_1")
    assert (membership["previous_response_id"], membership["messages_hash"]) == ("resp_1", None)


def test_the_question_is_a_persons_last_text() -> None:
    reminder = {"type": "text", "text": "<system-reminder>\nbe <b>brief</b>\n</system-reminder>"}
    typed = {"role": "user", "content": [{"type": "text", "text": "Say\n hi \0"}, reminder]}
    assert of(USER, typed, ASSISTANT, TOOL)["asked"] == "Say hi \N{REPLACEMENT CHARACTER}"
    assert of({"role": "user", "content": [reminder]})["asked"].startswith("<system-reminder> be")


def test_the_question_begins_after_a_programs_text() -> None:
    tags = '<system-reminder>\nbe <b>brief</b>\n</system-reminder>\n<env cwd="/tmp">\n<os>x</os></env>\n'
    assert of({"role": "user", "content": f"{tags}Fix <b>it</b>."})["asked"] == "Fix <b>it</b>."
    only_tags = {"role": "user", "content": [{"type": "text", "text": "Fix it."}, {"type": "text", "text": tags}]}
    assert of(only_tags)["asked"] == "Fix it."
    assert of({"role": "user", "content": "<b is what I typed"})["asked"] == "<b is what I typed"


def test_a_token_counting_request_belongs_by_its_body() -> None:
    body = b'{"metadata": {"session_id": "k"}, "previous_response_id": "r", "messages": []}'
    membership = belonging(RecordedRequest([], body), "count_tokens", None, None)
    assert (membership["conversation_key"], membership["conversation_key_from"]) == ("k", "metadata.session_id")
    assert (membership["previous_response_id"], membership.get("messages_hash")) == (None, None)


def test_only_prompt_bodies_are_read() -> None:
    membership = belonging(
        RecordedRequest([["session-id", "s1"]], b'{"messages": [], "conversation": "c"}'), "embeddings", None, None
    )
    assert (membership["conversation_key"], membership.get("messages_hash")) == ("s1", None)


def test_a_request_with_only_new_results_answers_tools() -> None:
    assert of(USER, ASSISTANT, TOOL)["answers_tools"] is True
    assert of(USER, ASSISTANT, TOOL, USER)["answers_tools"] is True
    assert of(USER, ASSISTANT, TOOL, {"role": "assistant", "content": "Rain."}, USER)["answers_tools"] is False
    assert of(USER)["answers_tools"] is False
    only_result = {"type": "function_call_output", "call_id": "c", "output": "x"}
    encoded = json.dumps({"model": "m", "previous_response_id": "r", "input": [only_result]}).encode()
    assert belonging(RecordedRequest([], encoded), "chat", None, None)["answers_tools"] is True
