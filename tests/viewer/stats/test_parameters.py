"""The parameters of requests of all APIs, under common names."""

import json
from typing import Any

from tests.support.cases import each_case
from wiretape.viewer.stats.parameters import MOST_STOPS, NO_PARAMETERS, RequestParameters, parameters_of

ALL = RequestParameters(max_tokens=9, temperature=0.5, top_p=0.75, stop_sequences=("a", "b"), output_type="json")
SCHEMA = {"type": "object", "properties": {}}
REQUESTS: dict[str, dict[str, Any]] = {
    "openai.chat": {
        "messages": [], "max_completion_tokens": 9, "temperature": 0.5, "top_p": 0.75, "stop": ["a", "b"],
        "response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}},
    },
    "openai.responses": {
        "input": "x", "max_output_tokens": 9, "temperature": 0.5, "top_p": 0.75, "stop": ["a", "b"],
        "text": {"format": {"type": "json_schema", "schema": SCHEMA}, "verbosity": "low"},
    },
    "anthropic.messages": {
        "messages": [], "max_tokens": 9, "temperature": 0.5, "top_p": 0.75, "stop_sequences": ["a", "b"],
        "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}},
    },
    "gemini": {
        "contents": [],
        "generationConfig": {"maxOutputTokens": 9, "temperature": 0.5, "topP": 0.75, "stopSequences": ["a", "b"],
                             "responseMimeType": "application/json"},
    },
    "gemini.interactions": {
        "input": "x", "response_format": {"type": "text", "mime_type": "application/json", "schema": SCHEMA},
        "generation_config": {"max_output_tokens": 9, "temperature": 0.5, "top_p": 0.75, "stop_sequences": ["a", "b"]},
    },
    "ollama": {
        "messages": [], "format": SCHEMA,
        "options": {"num_predict": 9, "temperature": 0.5, "top_p": 0.75, "stop": ["a", "b"]},
    },
    "cohere.chat": {
        "messages": [], "max_tokens": 9, "temperature": 0.5, "p": 0.75, "stop_sequences": ["a", "b"],
        "response_format": {"type": "json_object"},
    },
    "dashscope": {
        "input": {"messages": []},
        "parameters": {"max_tokens": 9, "temperature": 0.5, "top_p": 0.75, "stop": ["a", "b"],
                       "response_format": {"type": "json_object"}},
    },
}  # fmt: skip


def of(request: Any) -> RequestParameters:
    return parameters_of(json.dumps(request).encode())


@each_case("api", REQUESTS)
def test_every_apis_parameters_have_one_name(api: str) -> None:
    assert of(REQUESTS[api]) == ALL


def test_converse_has_its_own_holder() -> None:
    config = {"maxTokens": 9, "temperature": 0.5, "topP": 0.75, "stopSequences": ["a", "b"]}
    parameters = of({"messages": [], "inferenceConfig": config})
    assert (parameters.max_tokens, parameters.temperature, parameters.top_p, parameters.stop_sequences) == (
        9,
        0.5,
        0.75,
        ("a", "b"),
    )


@each_case(
    ("request_body", "expected"),
    [
        ({}, None),
        ({"response_format": {"type": "text"}}, "text"),
        ({"text": {"format": {"type": "text"}}}, "text"),
        ({"text": {"verbosity": "low"}}, None),
        ({"modalities": ["text", "audio"], "audio": {"voice": "v", "format": "mp3"}}, "speech"),
        ({"generationConfig": {"responseModalities": ["TEXT", "IMAGE"]}}, "image"),
        ({"response_modalities": ["text"]}, None),
        ({"format": "mp3"}, None),
    ],
)
def test_the_output_type_is_the_requested_one(request_body: dict[str, Any], expected: str | None) -> None:
    assert of({"messages": [], **request_body}).output_type == expected


@each_case(
    "wrong",
    [
        {"max_tokens": "9", "temperature": "hot", "top_p": [], "stop": {"a": 1}, "response_format": 7},
        {"max_tokens": -1, "temperature": 1e300, "top_p": True, "stop": [1], "response_format": []},
        {"max_tokens": True, "temperature": None, "stop": [], "generationConfig": [], "modalities": "audio"},
    ],
)
def test_a_value_of_another_type_is_unknown(wrong: dict[str, Any]) -> None:
    assert of({"messages": [], **wrong}) == NO_PARAMETERS


def test_single_stop_sequences_become_lists_and_many_are_cut() -> None:
    assert of({"messages": [], "stop": "a"}).stop_sequences == ("a",)
    assert len(of({"messages": [], "stop": ["a"] * 99}).stop_sequences) == MOST_STOPS


def test_a_body_without_an_object_has_no_parameters() -> None:
    assert [parameters_of(body) for body in (None, b"", b"[1]", b"no")] == [NO_PARAMETERS] * 4
