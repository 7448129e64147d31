"""A request's body as the elements of its prompt: places in order, digests, bytes by source."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.support.cases import each_case
from wiretape.recorder.decode.elements import Elements, Prefix, elements, unpack

EPHEMERAL = {"type": "ephemeral"}


def request_body(**body: Any) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def parsed(api: str | None = None, **body: Any) -> Elements:
    parsed_elements = elements(request_body(**body), api)
    assert parsed_elements is not None
    assert sum(parsed_elements.by_source().values()) == parsed_elements.size == len(request_body(**body))
    return parsed_elements


def places(api: str | None = None, **body: Any) -> list[str]:
    return [element.place for element in parsed(api, **body).elements]


def digests(api: str = "anthropic.messages", **body: Any) -> list[bytes]:
    return [element.digest for element in parsed(api, **body).elements]


def used(parsed_elements: Elements) -> dict[str, int]:
    return {source: size for source, size in parsed_elements.by_source().items() if size and source != "other"}


def size(value: Any) -> int:
    return len(request_body(x=value)) - len(request_body(x="")) + 2


USER = {"role": "user", "content": "hi"}
KEYS = {"openai.responses": "input", "gemini.interactions": "input", "gemini": "contents"}
"""The key of the messages by API, where it is not `messages`."""


@each_case(
    "api, body, expected",
    [
        (
            "anthropic.messages",
            {"messages": [USER], "thinking": {"type": "enabled"}, "tool_choice": {"type": "any"}, "max_tokens": 1,
             "system": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
             "tools": [{"name": "t"}], "model": "m"},
            ["model", "tools[0]", "system[0]", "system[1]", "parameters.tool_choice", "parameters.thinking",
             "messages[0]"],
        ),
        ("anthropic.messages", {"model": "m", "system": "a", "messages": [USER]}, ["model", "system", "messages[0]"]),
        (
            "openai.chat",
            {"messages": [USER, USER], "tools": [{}], "response_format": {}, "model": "m", "tool_choice": "auto"},
            ["model", "parameters.response_format", "tools[0]", "messages[0]", "messages[1]"],
        ),
        (
            "openai.responses",
            {"input": [USER], "instructions": "i", "tools": [{}], "text": {}, "reasoning": {}, "model": "m"},
            ["model", "parameters.text", "tools[0]", "instructions", "parameters.reasoning", "input[0]"],
        ),
        ("openai.responses", {"model": "m", "input": "hi"}, ["model", "input"]),
        (
            "gemini.interactions",
            {"input": [{"type": "user_input", "content": []}], "tools": [{}], "system_instruction": "i", "model": "m"},
            ["model", "system_instruction", "tools[0]", "input[0]"],
        ),
        ("gemini.interactions", {"model": "m", "input": {"type": "text", "text": "hi"}}, ["model", "input"]),
        (
            "gemini",
            {"contents": [{"parts": []}], "tools": [{}], "systemInstruction": {"parts": [{"text": "s"}]}},
            ["systemInstruction", "tools[0]", "contents[0]"],
        ),
        (
            "gemini",
            {"model": "m", "request": {"contents": [{"parts": []}], "systemInstruction": {"parts": []}}},
            ["model", "systemInstruction", "contents[0]"],
        ),
        (
            "dashscope",
            {"model": "m", "input": {"messages": [USER]}, "parameters": {"tools": [{}]}},
            ["model", "tools[0]", "messages[0]"],
        ),
        (
            "bedrock.converse",
            {"messages": [{"role": "user", "content": [{"text": "x"}]}], "system": [{"text": "s"}],
             "toolConfig": {"tools": [{"toolSpec": {"name": "t"}}]}},
            ["tools[0]", "system[0]", "messages[0]"],
        ),
        (None, {"contents": [], "system_instruction": {"parts": []}}, ["system_instruction"]),
        (None, {"messages": [USER], "system": "s", "tool_choice": "x"},
         ["system", "parameters.tool_choice", "messages[0]"]),
    ],
)  # fmt: skip
def test_elements_stand_in_the_order_of_the_providers_prefix(
    api: str | None, body: dict[str, Any], expected: list[str]
) -> None:
    assert places(api, **body) == expected


def test_a_paths_model_is_an_element_without_bytes() -> None:
    parsed_elements = elements(request_body(contents=[{"parts": []}]), "gemini", "gemini-x")
    assert parsed_elements is not None
    assert (parsed_elements.elements[0].place, parsed_elements.elements[0].size) == ("model", 0)


def test_bytes_are_those_of_the_element_that_holds_them() -> None:
    tool, system = {"name": "look", "input_schema": {}}, {"type": "text", "text": "Be brief."}
    parsed_elements = parsed("anthropic.messages", model="m", tools=[tool], system=[system], messages=[USER])
    assert used(parsed_elements) == {"tools": size(tool), "system": size(system), "user": size(USER)}
    assert parsed_elements.elements[1].shares[0].name == "look"


CALL = {"role": "assistant", "content": [{"type": "thinking", "thinking": "?"},
                                         {"type": "tool_use", "id": "c1", "name": "look", "input": {}}]}  # fmt: skip
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
RESULT = {"type": "tool_result", "tool_use_id": "c1", "content": "rain"}


def test_results_of_tools_have_the_name_that_was_called() -> None:
    message = {"role": "user", "content": [RESULT]}
    parsed_elements = parsed("anthropic.messages", messages=[CALL, message])
    assert used(parsed_elements) == {"assistant": size(CALL), "tool_results": size(message)}
    assert parsed_elements.elements[1].shares[0].name == "look"
    chat = {"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "look", "arguments": "{}"}}]}
    for api, call, result in (
        ("openai.chat", chat, {"role": "tool", "tool_call_id": "c1", "content": "x"}),
        ("openai.responses", {"type": "function_call", "call_id": "c1", "id": "f", "name": "look", "arguments": ""},
         {"type": "function_call_output", "call_id": "c1", "output": "x"}),
        ("gemini", {"role": "model", "parts": [{"functionCall": {"name": "look"}}]},
         {"role": "user", "parts": [{"functionResponse": {"name": "look", "response": {}}}]}),
        ("gemini.interactions", {"type": "function_call", "id": "c1", "name": "look", "arguments": {}},
         {"type": "function_result", "call_id": "c1", "result": "x"}),
        ("bedrock.converse", {"role": "assistant", "content": [{"toolUse": {"toolUseId": "c1", "name": "look"}}]},
         {"role": "user", "content": [{"toolResult": {"toolUseId": "c1", "content": [{"text": "x"}]}}]}),
    ):  # fmt: skip
        key = KEYS.get(api, "messages")
        shares = parsed(api, **{key: [call, result]}).elements[1].shares
        assert {(share.source, share.name) for share in shares if share.size} >= {("tool_results", "look")}, api


def test_the_result_of_an_unknown_call_has_no_name() -> None:
    parsed_elements = parsed("anthropic.messages", messages=[{"role": "user", "content": [RESULT]}])
    assert parsed_elements.elements[0].shares == (("tool_results", None, parsed_elements.elements[0].size),)


def test_images_and_documents_count_apart_also_within_results() -> None:
    document = {"type": "document", "source": {"type": "text", "data": "long"}}
    text = {"type": "text", "text": "See."}
    visible_result = {**RESULT, "content": [{"type": "text", "text": "rain"}, IMAGE]}
    message = {"role": "user", "content": [text, IMAGE, document, visible_result]}
    parsed_elements = parsed("anthropic.messages", messages=[CALL, message])
    assert used(parsed_elements) == {
        "assistant": size(CALL),
        "images": 2 * size(IMAGE),
        "documents": size(document),
        "tool_results": size(visible_result) - size(IMAGE),
        "user": size(message) - size(IMAGE) - size(document) - size(visible_result),
    }


@each_case(
    "api, message, source",
    [
        ("openai.chat", {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:x"}}]}, "images"),
        ("openai.responses", {"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}, "documents"),
        ("gemini", {"role": "user", "parts": [{"text": "a"}, {"inlineData": {"mimeType": "image/png", "data": "A"}}]},
         "images"),
        ("gemini", {"role": "user", "parts": [{"inlineData": {"mimeType": "application/pdf", "data": "A"}}]},
         "documents"),
        ("gemini.interactions", {"type": "user_input", "content": [{"type": "image", "data": "A"}]}, "images"),
        ("gemini.interactions", {"type": "model_output", "content": [{"type": "text", "text": "a"}]}, "assistant"),
        ("bedrock.converse", {"role": "user", "content": [{"image": {"source": {"bytes": "AAAA"}}}]}, "images"),
        ("ollama", {"role": "user", "content": "a", "images": ["AAAA"]}, "images"),
        ("openai.chat", {"role": "developer", "content": "Be brief."}, "system"),
    ],
)  # fmt: skip
def test_every_api_has_its_sources(api: str, message: dict[str, Any], source: str) -> None:
    key = KEYS.get(api, "messages")
    assert source in used(parsed(api, **{key: [message]}))


def test_each_function_of_a_list_has_its_name() -> None:
    parsed_elements = parsed(
        "gemini", tools=[{"functionDeclarations": [{"name": "a"}, {"name": "b"}]}], contents=[{"parts": []}]
    )
    assert [share.name for share in parsed_elements.elements[0].shares] == ["a", "b", None]


def test_a_string_input_is_a_users_message() -> None:
    message = {"role": "user", "content": "hi"}
    typed = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}
    assert digests(input="hi") == digests(input=[message]) == digests(input=[typed])
    assert digests(input="hi") != digests(input=[message | {"role": "developer"}])


def test_cache_marks_and_text_forms_make_no_difference() -> None:
    plain = digests(tools=[{"name": "t"}], system="s", messages=[USER, {"role": "user", "content": [IMAGE]}])
    marked = digests(
        tools=[{"name": "t", "cache_control": EPHEMERAL}],
        system=[{"type": "text", "text": "s", "cache_control": EPHEMERAL}],
        messages=[
            {"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": {**EPHEMERAL, "ttl": "1h"}}]},
            {"role": "user", "content": [{**IMAGE, "cache_control": EPHEMERAL}]},
        ],
    )
    assert plain == marked
    spaced = json.dumps({"messages": [USER]}, indent=2).encode()
    assert [element.digest for element in (elements(spaced, "openai.chat") or parsed()).elements] == digests(
        messages=[USER]
    )
    assert digests(messages=[USER]) != digests(messages=[{"role": "user", "content": "hi "}])
    assert digests(messages=[{"role": "user", "content": [{"text": "x"}, {"cachePoint": {"type": "default"}}]}]) == (
        digests(messages=[{"role": "user", "content": [{"text": "x"}]}])
    )


@each_case(
    "body, is_marked, ttl_s",
    [
        ({}, False, None),
        ({"cache_control": EPHEMERAL}, True, 300),
        ({"system": [{"text": "s", "cache_control": {**EPHEMERAL, "ttl": "1h"}}]}, True, 3600),
        (
            {"tools": [{"name": "t", "cache_control": {**EPHEMERAL, "ttl": "1h"}}], "cache_control": EPHEMERAL},
            True,
            300,
        ),
        ({"system": [{"text": "s"}, {"cachePoint": {"type": "default"}}]}, True, 300),
        ({"system": 'quotes "cache_control": {"type": "ephemeral"}'}, False, None),
        ({"prompt_cache_retention": "24h"}, False, 86_400),
    ],
)
def test_marks_and_the_shortest_time_to_live_are_kept(body: dict[str, Any], is_marked: bool, ttl_s: int | None) -> None:
    packed = unpack(parsed("anthropic.messages", **body, messages=[USER]).pack())
    assert packed is not None
    assert (packed.is_marked, packed.ttl_s) == (is_marked, ttl_s)


def test_what_is_packed_is_read_again() -> None:
    messages = [{"role": "system", "content": "s"}, USER, {"role": "assistant", "content": "yes"}]
    parsed_elements = parsed("openai.chat", model="m", tools=[{"function": {"name": "t"}}], messages=messages)
    packed = unpack(parsed_elements.pack())
    assert isinstance(packed, Prefix)
    assert packed.places == [("model", None), ("tools", 1), ("messages", 3)]
    assert [*packed.lengths()] == [element.size for element in parsed_elements.elements]
    assert packed.messages == b"".join(element.digest for element in parsed_elements.elements[3:])
    assert packed.by_model
    assert unpack(b"no") is unpack(None) is None
    assert parsed(model="m").pack() is None


def test_a_long_request_is_packed_into_3_kb() -> None:
    tools = [{"name": f"tool{no}"} for no in range(20)]
    messages = [{"role": ("user", "assistant")[no % 2], "content": f"{no} {'x' * no}"} for no in range(200)]
    assert len(parsed("anthropic.messages", model="m", tools=tools, messages=messages).pack() or b"") <= 3000


def test_half_characters_and_marks_are_read_nan_is_not() -> None:
    half = (
        b'{"messages":[{"role":"user","content":"cut \\ud83d"},{"role":"user","content":"\\\\ud83d \\ud83d\\ude00"}]}'
    )
    other_half = half.replace(b"cut \\ud83d", b"cut \\ud83e")
    parsed_elements, different = elements(half), elements(other_half)
    assert parsed_elements is not None
    assert different is not None
    assert used(parsed_elements) == {"user": len(half) - len(b'{"messages":[,]}')}
    assert parsed_elements.elements[0].digest != different.elements[0].digest
    assert parsed_elements.elements[1].digest == different.elements[1].digest
    marked = elements(b"\xef\xbb\xbf" + request_body(messages=[USER]))
    assert marked is not None
    assert sum(marked.by_source().values()) == marked.size == len(request_body(messages=[USER])) + 3
    for unreadable in (b'{"messages":[],"x":NaN}', b"[1]", b"", b'{"messages":[', b'{"a":"\xff"}', b"[" * 10_000):
        assert elements(unreadable) is None


leaves = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
keys = st.sampled_from([
    "role", "type", "content", "parts", "text", "id", "name", "tool_use_id", "cache_control", "cachePoint", "images",
    "toolResult", "output", "tool_calls", "source", "functionResponse", "inlineData", "function",
])  # fmt: skip
types = st.sampled_from(["tool_result", "image", "document", "function_call_output", "user", "assistant", "tool"])
values = st.recursive(
    leaves | types,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=20,
)
heads = st.sampled_from([
    "model", "tools", "system", "messages", "input", "contents", "request", "parameters", "toolConfig", "instructions",
    "thinking", "tool_choice", "prompt", "functions", "text", "chat_history",
])  # fmt: skip
apis = st.sampled_from(
    [None, "anthropic.messages", "openai.chat", "openai.responses", "gemini", "gemini.interactions", "ollama"]
)


@given(st.dictionaries(heads, values, max_size=6), apis, st.sampled_from([None, 1]), st.booleans())
def test_bytes_by_source_add_up_to_any_length(
    body: dict[str, Any], api: str | None, indent: int | None, ascii: bool
) -> None:
    sent = json.dumps(body, indent=indent, ensure_ascii=ascii).encode("utf-8", "replace")
    parsed_elements = elements(sent, api)
    assert parsed_elements is not None
    sizes = parsed_elements.by_source()
    assert sum(sizes.values()) == len(sent)
    assert min(sizes.values()) >= 0
    assert unpack(parsed_elements.pack()) is not None or not any(element.role for element in parsed_elements.elements)
