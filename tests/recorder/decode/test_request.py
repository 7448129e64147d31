"""The body of a request as a prompt: the forms of every API, unknown parts, and repetitions in a later turn."""

import base64
import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wiretape.recorder.decode.prompt import (
    Media,
    Message,
    Other,
    Part,
    Prompt,
    Reasoning,
    Text,
    Tool,
    ToolCall,
    ToolResult,
    canonical,
)
from wiretape.recorder.decode.request import MOST_MESSAGES, parse

PNG = base64.b64encode(b"not a picture").decode()
DIGEST = hashlib.blake2b(PNG.encode(), digest_size=16).hexdigest()
WEATHER = {"name": "weather", "description": "Tell the weather."}
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}}
ARGUMENTS = {"city": "Bern"}
CALL = {"name": "weather", "arguments": json.dumps(ARGUMENTS)}
FUNCTION = {"type": "function", "function": {**WEATHER, "parameters": SCHEMA}}
ITEMS = [
    {"role": "user", "content": [
        {"type": "input_text", "text": "Rain?"}, {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"},
    ]},
    {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "I look."}]},
    {"type": "function_call", "call_id": "c1", **CALL},
    {"type": "function_call_output", "call_id": "c1", "output": "sun"},
]  # fmt: skip
BLOCKS = [
    {"role": "user", "content": [
        {"type": "text", "text": "Rain?", "cache_control": {"type": "ephemeral"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
    ]},
    {"role": "assistant", "content": [
        {"type": "thinking", "thinking": "I look.", "signature": "c2ln"},
        {"type": "tool_use", "id": "c1", "name": "weather", "input": ARGUMENTS},
    ]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "sun"}]},
]  # fmt: skip
CHAT = [
    {"role": "user", "content": [
        {"type": "text", "text": "Rain?"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}", "detail": "low"}},
    ]},
    {"role": "assistant", "content": None, "reasoning_content": "I look.",
     "tool_calls": [{"id": "c1", "type": "function", "function": CALL}]},
    {"role": "tool", "tool_call_id": "c1", "content": "sun"},
]  # fmt: skip
GEMINI = {
    "systemInstruction": {"role": "user", "parts": [{"text": "Be brief."}]},
    "contents": [
        {"role": "user", "parts": [{"text": "Rain?"}, {"inlineData": {"mimeType": "image/png", "data": PNG}}]},
        {"role": "model", "parts": [
            {"text": "I look.", "thought": True},
            {"functionCall": {"id": "c1", "name": "weather", "args": ARGUMENTS}, "thoughtSignature": "c2ln"},
        ]},
        {"role": "user", "parts": [
            {"functionResponse": {"id": "c1", "name": "weather", "response": {"output": "sun"}}}
        ]},
    ],
    "tools": [{"functionDeclarations": [{**WEATHER, "parameters": SCHEMA}]}],
    "generationConfig": {"temperature": 0},
}  # fmt: skip
REQUESTS: dict[str, dict[str, Any]] = {
    "openai.chat": {
        "model": "m", "messages": [{"role": "developer", "content": "Be brief."}, *CHAT], "tools": [FUNCTION],
    },
    "openai.responses": {
        "model": "m", "instructions": "Be brief.", "input": ITEMS,
        "tools": [{"type": "function", **WEATHER, "parameters": SCHEMA}],
    },
    "anthropic.messages": {
        "model": "m", "system": [{"type": "text", "text": "Be brief."}], "messages": BLOCKS,
        "tools": [{**WEATHER, "input_schema": SCHEMA, "cache_control": {"type": "ephemeral"}}],
    },
    "bedrock.invoke": {
        "anthropic_version": "bedrock-2023-05-31", "system": "Be brief.", "messages": BLOCKS,
        "tools": [{**WEATHER, "input_schema": SCHEMA}],
    },
    "bedrock.converse": {
        "system": [{"text": "Be brief."}, {"cachePoint": {"type": "default"}}],
        "messages": [
            {"role": "user", "content": [
                {"text": "Rain?"}, {"image": {"format": "png", "source": {"bytes": PNG}}},
                {"cachePoint": {"type": "default"}},
            ]},
            {"role": "assistant", "content": [
                {"reasoningContent": {"reasoningText": {"text": "I look.", "signature": "c2ln"}}},
                {"toolUse": {"toolUseId": "c1", "name": "weather", "input": ARGUMENTS}},
            ]},
            {"role": "user", "content": [{"toolResult": {"toolUseId": "c1", "content": [{"text": "sun"}]}}]},
        ],
        "toolConfig": {"tools": [{"toolSpec": {**WEATHER, "inputSchema": {"json": SCHEMA}}}]},
    },
    "gemini": GEMINI,
    "gemini, Code Assist": {"model": "m", "project": "p", "request": GEMINI},
    "gemini.interactions": {
        "model": "m",
        "system_instruction": "Be brief.",
        "input": [
            {"type": "user_input", "content": [
                {"type": "text", "text": "Rain?"}, {"type": "image", "mime_type": "image/png", "data": PNG},
            ]},
            {"type": "thought", "summary": [{"type": "text", "text": "I look."}], "signature": "c2ln"},
            {"type": "function_call", "id": "c1", "name": "weather", "arguments": ARGUMENTS},
            {"type": "function_result", "call_id": "c1", "name": "weather",
             "result": [{"type": "text", "text": "sun"}]},
        ],
        "tools": [{"type": "function", **WEATHER, "parameters": SCHEMA}],
    },
    "ollama": {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Rain?", "images": [PNG]},
            {"role": "assistant", "content": "", "thinking": "I look.",
             "tool_calls": [{"function": {"name": "weather", "arguments": ARGUMENTS}}]},
            {"role": "tool", "tool_name": "weather", "content": "sun"},
        ],
        "tools": [FUNCTION],
    },
    "cohere.chat": {
        "model": "m", "tools": [FUNCTION],
        "messages": [
            {"role": "system", "content": "Be brief."},
            CHAT[0],
            {"role": "assistant", "tool_plan": "I look.", "tool_calls": [
                {"id": "c1", "type": "function", "function": CALL}
            ]},
            {"role": "tool", "tool_call_id": "c1", "content": [
                {"type": "document", "document": {"data": "sun", "id": "0"}}
            ]},
        ],
    },
    "cohere, first version": {
        "preamble": "Be brief.",
        "chat_history": [
            CHAT[0],
            {"role": "CHATBOT", "message": "", "tool_plan": "I look.",
             "tool_calls": [{"name": "weather", "parameters": ARGUMENTS}]},
            {"role": "TOOL", "tool_results": [
                {"call": {"name": "weather", "parameters": ARGUMENTS}, "outputs": "sun"}
            ]},
        ],
        "tools": [{**WEATHER, "parameter_definitions": {"city": {"type": "str"}}}],
    },
    "dashscope": {
        "model": "m",
        "input": {"messages": [
            {"role": "system", "content": [{"text": "Be brief."}]},
            {"role": "user", "content": [{"text": "Rain?"}, {"image": f"data:image/png;base64,{PNG}"}]},
            *CHAT[1:],
        ]},
        "parameters": {"tools": [FUNCTION], "incremental_output": True},
    },
}  # fmt: skip
"""One conversation as each API has it sent."""


def prompt_of(request: Any) -> Prompt:
    prompt = parse(json.dumps(request).encode())
    assert prompt is not None
    return prompt


def summary(message: Message) -> tuple[str, list[object]]:
    """Return a message without what not every API can say."""
    return message.role, [_plain(part) for part in message.parts if not isinstance(part, Other)]


def _plain(part: Part) -> object:
    match part:
        case ToolCall(_, name, arguments):
            return name, json.loads(arguments)
        case ToolResult():
            return [_plain(part) for part in part.content]
        case Media():
            return part.kind, part.size, part.digest, part.source
    return part


@pytest.mark.parametrize("api", REQUESTS)
def test_one_conversation_reads_the_same_in_every_api(api: str) -> None:
    prompt, chat = prompt_of(REQUESTS[api]), prompt_of(REQUESTS["openai.chat"])
    assert Text("Be brief.") in prompt.system
    assert [(tool.name, tool.description) for tool in prompt.tools] == [("weather", "Tell the weather.")]
    if api in ("openai.responses", "gemini.interactions"):  # each item is a message
        messages = [*prompt.messages[:1], Message("assistant", prompt.messages[1].parts + prompt.messages[2].parts)]
        prompt = Prompt(messages=(*messages, *prompt.messages[3:]))
    assert [summary(message) for message in prompt.messages] == [summary(message) for message in chat.messages]
    assert [canonical(message) for message in prompt.messages] == [canonical(message) for message in chat.messages]


def test_a_prompt_holds_what_was_asked() -> None:
    prompt = prompt_of(REQUESTS["openai.chat"] | {"temperature": 0, "stream": True})
    assert (prompt.model, prompt.system) == ("m", (Text("Be brief."),))
    assert prompt.tools == (Tool("weather", "Tell the weather.", json.dumps(FUNCTION, separators=(",", ":"))),)
    assert prompt.messages[0].parts[1] == Media("image", "image/png", 13, digest=prompt.messages[0].parts[1].digest)  # type: ignore[union-attr]
    assert prompt.messages[1].parts == (Reasoning("I look."), ToolCall("c1", "weather", '{"city": "Bern"}'))
    assert prompt.messages[2] == Message("tool", (ToolResult("c1", "", (Text("sun"),)),))
    assert prompt.parameters == {"temperature": 0, "stream": True}
    assert [message.by_model for message in prompt.messages] == [False, True, False]


@pytest.mark.parametrize(
    ("question", "messages"),
    [
        ({"prompt": "Once"}, ["Once"]),
        ({"prompt": ["Once", "Twice"]}, ["Once", "Twice"]),
        ({"input": "Once"}, ["Once"]),
        ({"input": {"type": "text", "text": "Once"}}, ["Once"]),
        ({"input": [{"type": "text", "text": "Once"}, {"type": "text", "text": "Twice"}]}, ["Once", "Twice"]),
        ({"input": {"type": "user_input", "content": "Once"}}, ["Once"]),
        ({"inputText": "Once"}, ["Once"]),
        ({"inputs": "Once"}, ["Once"]),
        ({"content": {"parts": [{"text": "Once"}]}}, ["Once"]),
        ({"type": "response.create", "input": [{"role": "user", "content": "Once"}]}, ["Once"]),
    ],
)
def test_a_bare_text_is_a_message_of_the_user(question: Any, messages: list[str]) -> None:
    assert prompt_of(question).messages == tuple(Message("user", (Text(message),)) for message in messages)


@pytest.mark.parametrize(
    ("message", "part"),
    [
        ({"type": "weird", "a": 1}, Other("weird", '{"type":"weird","a":1}')),
        ({"role": "user", "content": [{"b": 1}]}, Other("b", '{"b":1}')),
        ({"role": "user", "content": 7}, Other("", "7")),
        ({"role": "user", "says": "x"}, Other("", '{"role":"user","says":"x"}')),
        ({"role": "assistant", "tool_calls": [3]}, Other("", "3")),
        ({"role": "user", "images": [3]}, Other("", "3")),
        ({"type": "local_shell_call", "call_id": "c", "action": {"a": 1}},
         ToolCall("c", "local_shell", '{"action":{"a":1}}')),
        ({"type": "tool_search_output", "call_id": "c", "tools": []},
         ToolResult("c", "", (Other("tool_search_output", '{"type":"tool_search_output","call_id":"c","tools":[]}'),))),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_kept_as_json(message: Any, part: Part) -> None:
    assert prompt_of({"messages": [message]}).messages[0].parts == (part,)


def test_a_servers_run_is_a_call_with_result() -> None:
    call = {"type": "mcp_call", "id": "m", "name": "n", "arguments": "{}", "output": "o", "error": None}
    image = {"type": "image_generation_call", "id": "i", "status": "completed", "result": PNG}
    call_parts, image_parts = (message.parts for message in prompt_of({"input": [call, image]}).messages)
    assert call_parts == (ToolCall("m", "n", "{}"), ToolResult("m", "n", (Text("o"),)))
    assert [_plain(part) for part in image_parts if isinstance(part, Media)] == [("image", 13, DIGEST, "")]


def test_a_users_search_result_is_no_tools_result() -> None:
    search_result = {
        "type": "search_result",
        "source": "https://a",
        "title": "T",
        "content": [{"type": "text", "text": "x"}],
    }
    (message,) = prompt_of({"messages": [{"role": "user", "content": [search_result]}]}).messages
    assert (message.role, [part.kind for part in message.parts]) == ("user", ["other"])


def test_server_steps_of_interactions_are_calls_with_results() -> None:
    steps = [
        {"type": "google_search_call", "id": "g", "arguments": {"queries": ["a"]}},
        {"type": "google_search_result", "call_id": "g", "result": [{"search_suggestions": "x"}]},
        {"type": "model_output", "content": [{"type": "text", "text": "Sun."}]},
    ]
    call, result, answer = prompt_of({"input": steps}).messages
    assert (call.role, call.parts) == ("assistant", (ToolCall("g", "google_search", '{"queries":["a"]}'),))
    assert (result.role, result.parts[0].kind) == ("tool", "tool_result")
    assert answer == Message("assistant", (Text("Sun."),))


def test_a_document_that_is_text_is_read() -> None:
    document = {"type": "document", "title": "T", "source": {"type": "text", "media_type": "text/plain", "data": "é"}}
    media, document_part = prompt_of({"messages": [{"role": "user", "content": [document]}]}).messages[0].parts
    assert isinstance(media, Media)
    assert ((media.name, media.media_type, media.size), document_part) == (("T", "text/plain", 2), Text("é"))


def test_tools_in_namespaces_or_messages_are_tools() -> None:
    tools = [{"type": "namespace", "name": "functions", "tools": [{"type": "custom", "name": "exec"}]}]
    added = {"type": "additional_tools", "role": "developer", "tools": tools}
    prompt = prompt_of({"input": [added, {"role": "user", "content": "Go."}], "tools": [{"type": "web_search"}]})
    assert [(tool.name, tool.type) for tool in prompt.tools] == [
        ("web_search", "web_search"),
        ("functions.exec", "custom"),
    ]
    assert (prompt.system, len(prompt.messages)) == ((), 1)


def test_a_reference_to_a_stored_prompt_is_a_parameter() -> None:
    assert prompt_of({"prompt": {"id": "p"}, "previous_response_id": "r"}).parameters == {
        "prompt": {"id": "p"}, "previous_response_id": "r"
    }  # fmt: skip


@pytest.mark.parametrize("body", [None, b"", b"[1]", b"no", b'{"messages":[', b"[" * 100_000, b'{"a":' * 100_000])
def test_what_is_no_json_object_is_no_prompt(body: bytes | None) -> None:
    assert parse(body) is None


def test_lone_surrogates_and_byte_order_marks_are_read() -> None:
    prompt = parse(b'\xef\xbb\xbf{"prompt": "\\ud800", "seed": NaN, "top_p": 1e999}')
    assert prompt is not None
    assert prompt.messages == (Message("user", (Text("\ud800"),)),)
    assert canonical(prompt.messages[0])
    assert prompt.parameters == {"seed": "NaN", "top_p": "1e999"}


def test_messages_beyond_the_limit_are_kept_as_one() -> None:
    prompt = prompt_of({"messages": [{"content": "x"}] * (MOST_MESSAGES + 2)})
    assert len(prompt.messages) == MOST_MESSAGES + 1
    assert prompt.messages[-1].parts == (Other("more messages", '[{"content":"x"},{"content":"x"}]'),)


_NAMES = [
    "messages",
    "input",
    "contents",
    "prompt",
    "chat_history",
    "tool_results",
    "images",
    "system",
    "tools",
    "request",
    "role",
    "content",
    "parts",
    "type",
    "text",
    "tool_calls",
    "function",
    "functionCall",
    "arguments",
    "image",
    "source",
    "data",
    "toolResult",
    "reasoningContent",
    "functionDeclarations",
    "summary",
    "reasoning_details",
    "toolConfig",
    "name",
]
_TYPES = st.sampled_from(["text", "image", "tool_result", "tool_use", "reasoning", "x_call", "y_output", "data:,"])
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | _TYPES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_NAMES), inner, max_size=4),
    max_leaves=25,
)


@given(st.dictionaries(st.sampled_from(_NAMES), _VALUES, max_size=5))
def test_any_json_object_is_a_prompt(request: dict[str, Any]) -> None:
    for message in prompt_of(request).messages:
        assert isinstance(canonical(message), bytes)


@pytest.mark.parametrize(
    ("first_message", "later"),
    [
        ({"role": "user", "content": "hi\n"}, {"role": "user", "content": [
            {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}]}),
        ({"role": "assistant", "content": "a", "reasoning_content": "r"}, {"role": "assistant", "content": "a"}),
        ({"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": '{"a": 1,"b":2}'},
         {"type": "function_call", "call_id": "c2", "name": "f", "arguments": '{"b":2,"a":1}'}),
        ({"role": "user", "content": [{"text": "a"}, {"cachePoint": {"type": "default"}}]},
         {"role": "user", "content": [{"text": "a"}]}),
        ({"role": "user", "content": "a b"}, {"role": "user", "content": ["a", "b"]}),
    ],
)  # fmt: skip
def test_a_message_keeps_its_form_in_later_turns(first_message: Any, later: Any) -> None:
    one, other = (prompt_of({"messages": [message]}).messages[0] for message in (first_message, later))
    assert canonical(one) == canonical(other) != b""


def test_other_words_roles_or_pictures_are_other_messages() -> None:
    messages = [
        {"role": "user", "content": "a"}, {"role": "assistant", "content": "a"}, {"role": "user", "content": "b"},
        {"role": "user", "images": [PNG]}, {"role": "user", "images": ["AAAA"]},
    ]  # fmt: skip
    assert len({canonical(message) for message in prompt_of({"messages": messages}).messages}) == len(messages)


def test_a_message_of_reasoning_has_no_canonical_form() -> None:
    reasoning = prompt_of(REQUESTS["openai.responses"]).messages[1]
    assert (reasoning.by_model, canonical(reasoning)) == (True, b"")


def test_a_message_keeps_its_form_behind_many_others() -> None:
    messages = [Message("user", (Text(f"{number} " + "a  b " * 200_000),)) for number in range(24)]
    first_forms = [canonical(message) for message in messages]
    assert [canonical(message) for message in messages] == first_forms
    assert len({*first_forms}) == len(messages)
    assert first_forms[0].startswith(b'["user","text 0 a b a b')
