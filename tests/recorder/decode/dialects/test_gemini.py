import json

import pytest
from hypothesis import given

from tests.support import hostile
from tests.support.cases import each_case
from tests.support.decoding import cut_everywhere, derived, said
from wiretape.recorder.decode.dialect import Chunk, Piece, ReportedError, Tokens, ToolPiece
from wiretape.recorder.decode.dialects.gemini import API, parse, parser, tokens
from wiretape.recorder.decode.dialects.registry import DIALECTS

USAGE = {"promptTokenCount": 8, "candidatesTokenCount": 2, "totalTokenCount": 10}


def answer(*parts, index=0, **candidate):
    content = {"role": "model", "parts": list(parts)}
    return {"candidates": [{"content": content, "index": index, **candidate}], "modelVersion": "gemini-3-pro"}


def streamed(*calls):
    """Parse calls that come one after the other in one stream; return their pieces and whether each was output."""
    parse_next = parser()
    chunks = [parse_next(answer({"functionCall": call}), "message", None) for call in calls]
    return [chunk.pieces[0].tools for chunk in chunks], [chunk.tool for chunk in chunks]


def partial(path, **value):
    return {"partialArgs": [{"jsonPath": path, **value}], "willContinue": True}


@each_case(
    ("parts", "content", "reasoning"),
    [
        ([{"text": "x"}], "x", ""),
        ([{"text": " "}], " ", ""),
        ([{"text": "a"}, {"text": "b"}], "ab", ""),
        ([{"text": "t", "thought": True}], "", "t"),
        ([{"text": "t", "thought": True}, {"text": "a"}], "a", "t"),
        ([{"text": "a", "thought": False}], "a", ""),
        ([{"text": "a", "thoughtSignature": "CiQ"}], "a", ""),
    ],
)
def test_parts_are_text_or_thoughts(parts, content, reasoning):
    chunk = parse(answer(*parts))
    assert chunk.pieces == (Piece(0, content, reasoning, "", (), None),)
    assert (chunk.content, chunk.reasoning, chunk.tool) == (bool(content), bool(reasoning), False)
    assert (chunk.api, chunk.model, chunk.ends) == (API, "gemini-3-pro", False)


@each_case(
    "part",
    [
        {"text": ""},
        {"text": "", "thoughtSignature": "CiQ"},
        {"thoughtSignature": "CiQ"},
        {"functionCall": {}},
        {"functionCall": {"id": "1"}},
        {"inlineData": {}},
        {"audioTranscription": {"text": "x"}},
        {"unheardOf": {"a": 1}},
    ],
)
def test_a_part_without_text_or_data_is_no_output(part):
    assert not parse(answer(part)).output


@each_case(
    "part",
    [
        {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
        {"fileData": {"fileUri": "gs://a/b"}},
        {"executableCode": {"language": "PYTHON", "code": "print(1)"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1\n"}},
        {"toolCall": {"id": "1", "toolType": "GOOGLE_SEARCH_WEB"}},
    ],
)
def test_images_and_code_are_output_without_text(part):
    chunk = parse(answer(part))
    assert chunk.content
    assert chunk.pieces == (Piece(0, "", "", "", (), None),)
    assert parse(answer({**part, "thought": True})).reasoning


def test_a_function_call_has_its_arguments_as_compact_json():
    calls = [{"name": "f", "args": {"city": "Zürich", "n": [1, 2]}}, {"id": "c2", "name": "f", "args": {}}]
    chunk = parse(answer(*({"functionCall": call, "thoughtSignature": "s"} for call in calls), finishReason="STOP"))
    assert chunk.tool
    assert chunk.pieces[0].finish_reason == "STOP"
    assert chunk.pieces[0].tools == (
        ToolPiece(None, "", "f", '{"city":"Zürich","n":[1,2]}', whole=True),
        ToolPiece(None, "c2", "f", "{}", whole=True),
    )


ARGUMENTS = {
    "none": ([], "{}"),
    "a string": ([partial("$.city", stringValue="Bern")], '{"city":"Bern"}'),
    "a string in pieces": (
        [partial("$.city", stringValue="Be", willContinue=True), partial("$.city", stringValue='r"n')],
        '{"city":"Ber\\"n"}',
    ),
    "an empty end": (
        [partial("$.city", stringValue="Bern", willContinue=True), partial("$.city", stringValue="")],
        '{"city":"Bern"}',
    ),
    "several": (
        [partial("$.a", stringValue="x"), partial("$.b", numberValue=1.5), partial("$.c", boolValue=False)],
        '{"a":"x","b":1.5,"c":false}',
    ),
    "null": ([partial("$.a", nullValue="NULL_VALUE"), partial("$.b", nullValue=None)], '{"a":null,"b":null}'),
    "nested": (
        [partial("$.a.b.c", numberValue=1), partial("$.a.d", stringValue="x"), partial("$.e", boolValue=True)],
        '{"a":{"b":{"c":1},"d":"x"},"e":true}',
    ),
    "lists": (
        [
            partial("$.a[0].b", stringValue="x"),
            partial("$.a[0].c", numberValue=2),
            partial("$.a[1].b", stringValue="y"),
            partial("$.m[0][0]", numberValue=1),
            partial("$.m[0][1]", numberValue=2),
            partial("$.m[1][0]", numberValue=3),
        ],
        '{"a":[{"b":"x","c":2},{"b":"y"}],"m":[[1,2],[3]]}',
    ),
    "quoted keys": (
        [partial("$['a b']", numberValue=1), partial('$["c\\"d"].e', numberValue=2)],
        '{"a b":1,"c\\"d":{"e":2}}',
    ),
    "paths that cannot be read": (
        [partial(path, numberValue=1) for path in ("a", "$", "$[0]", "$.a[*]", "$..a", None)],
        "{}",
    ),
    "no value": ([partial("$.a"), partial("$.b", stringValue=7), partial("$.c", numberValue="7")], "{}"),
}


@each_case(("calls", "expected"), ARGUMENTS.values(), ids=ARGUMENTS.keys())
def test_arguments_in_pieces_are_written_as_one_object(calls, expected):
    pieces, _ = streamed({"name": "f", "id": "c1", "willContinue": True}, *calls, {})
    assert "".join(tool.arguments for (tool,) in pieces) == expected
    json.loads(expected)
    assert [(tool.index, tool.name, tool.whole) for (tool,) in pieces[:1]] == [(0, "f", False)]
    assert all((tool.index, tool.id, tool.name, tool.whole) == (0, "", "", False) for (tool,) in pieces[1:])


def test_only_a_part_with_name_or_value_is_output():
    _, output = streamed({"name": "f", "willContinue": True}, partial("$.a", stringValue="x"), {})
    assert output == [True, True, False]


def test_a_call_that_repeats_its_name_goes_on():
    last_part = {"name": "f", "partialArgs": [{"jsonPath": "$.b", "nullValue": "NULL_VALUE"}], "willContinue": False}
    pieces, _ = streamed({"name": "f", "willContinue": True}, {**partial("$.a", numberValue=1), "name": "f"}, last_part)
    assert [tool for (tool,) in pieces] == [
        ToolPiece(0, "", "f", ""),
        ToolPiece(0, "", "", '{"a":1'),
        ToolPiece(0, "", "", ',"b":null}'),
    ]


def test_calls_in_pieces_and_whole_calls_are_distinguished():
    begin = {"name": "f", "willContinue": True}
    pieces, _ = streamed(begin, {}, begin, {**partial("$.a", numberValue=1)}, {}, {"name": "g", "args": {}})
    assert [tool.index for (tool,) in pieces] == [0, 0, 1, 1, 1, None]
    assert pieces[-1] == (ToolPiece(None, "", "g", "{}", whole=True),)


def test_candidates_have_their_own_calls():
    parse_next = parser()

    def tool(call, candidate):
        (piece,) = parse_next(answer({"functionCall": call}, index=candidate), "message", None).pieces
        return piece.index, piece.tools[0].index, piece.tools[0].arguments

    begin = {"name": "f", "willContinue": True}
    assert [tool(begin, 0), tool(begin, 1)] == [(0, 0, ""), (1, 1, "")]
    assert [tool(partial("$.a", numberValue=1), 1), tool({}, 0), tool({}, 1)] == [
        (1, 1, '{"a":1'),
        (0, 0, "{}"),
        (1, 1, "}"),
    ]


def test_candidates_are_choices_by_index_or_place():
    candidates = [{"content": {"parts": [{"text": text}]}, **more} for text, more in (("a", {}), ("b", {"index": 1}))]
    chunk = parse({"candidates": candidates})
    assert [(piece.index, piece.content) for piece in chunk.pieces] == [(0, "a"), (1, "b")]


@each_case(
    ("reason", "expected"),
    [
        ("STOP", "STOP"),
        ("MAX_TOKENS", "MAX_TOKENS"),
        ("FINISH_REASON_UNSPECIFIED", None),
        ("", None),
        (None, None),
        (1.5, None),
    ],
)
def test_the_finish_reason_is_the_native_one(reason, expected):
    assert parse(answer({"text": "x"}, finishReason=reason)).pieces[0].finish_reason == expected


def test_a_candidate_that_is_blocked_has_only_its_reason():
    chunk = parse({"candidates": [{"finishReason": "SAFETY", "index": 0, "safetyRatings": []}]})
    assert chunk.pieces == (Piece(0, "", "", "", (), "SAFETY"),)
    assert not chunk.output


def test_ratings_alone_are_no_sight_of_a_candidate():
    chunk = parse({"candidates": [{"index": 1, "groundingMetadata": {}}], "usageMetadata": USAGE})
    assert (chunk.api, chunk.pieces) == (API, ())


def test_a_blocked_prompt_ends_the_stream_with_its_reason():
    chunk = parse({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {"promptTokenCount": 8}})
    assert chunk.pieces == (Piece(0, "", "", "", (), "PROHIBITED_CONTENT"),)
    assert chunk.ends
    assert not chunk.output


@pytest.mark.parametrize("feedback", [{}, {"safetyRatings": []}, {"blockReason": [7]}])
def test_feedback_without_a_reason_ends_nothing(feedback):
    chunk = parse({"promptFeedback": feedback})
    assert (chunk.api, chunk.pieces, chunk.ends) == (API, (), False)


def test_id_model_and_usage_are_read():
    chunk = parse({**answer({"text": "x"}), "usageMetadata": USAGE, "responseId": "r1", "createTime": "2026"})
    assert (chunk.id, chunk.model, chunk.usage) == ("r1", "gemini-3-pro", USAGE)


def test_usage_may_come_alone():
    for payload in ({"usageMetadata": USAGE}, {"usageMetadata": USAGE, "modelVersion": "m"}, {"candidates": []}):
        payload = {**payload, "usageMetadata": USAGE}
        assert parse(payload) == Chunk(API, "", payload.get("modelVersion", ""), usage=USAGE)


def test_an_answer_of_code_assist_is_unwrapped():
    wrapped = {**answer({"text": "x"}, finishReason="STOP"), "responseId": "r1", "usageMetadata": USAGE}
    assert parse({"response": wrapped, "traceId": "t"}) == parse(wrapped)
    assert parse({"response": {"a": 1}, "traceId": "t"}) is None


@each_case(
    ("usage", "expected"),
    [
        (USAGE, Tokens(input=8, output=2, total=10)),
        (
            {"promptTokenCount": 8, "candidatesTokenCount": 2, "thoughtsTokenCount": 5, "totalTokenCount": 15},
            Tokens(input=8, output=7, total=15, reasoning=5),
        ),
        ({"promptTokenCount": 8, "thoughtsTokenCount": 5}, Tokens(input=8, output=5, reasoning=5)),
        (
            {
                "promptTokenCount": 1000,
                "toolUsePromptTokenCount": 300,
                "candidatesTokenCount": 20,
                "totalTokenCount": 1320,
            },
            Tokens(input=1300, output=20, total=1320),
        ),
        ({"toolUsePromptTokenCount": 300}, Tokens(input=300)),
        (
            {"promptTokenCount": 8, "cachedContentTokenCount": 6, "totalTokenCount": 8},
            Tokens(input=8, total=8, cache_read=6),
        ),
        ({"totalTokens": 31}, Tokens(total=31)),
        ({"trafficType": "ON_DEMAND"}, Tokens()),
        ({"promptTokenCount": "8", "candidatesTokenCount": -1, "thoughtsTokenCount": 1.5}, Tokens()),
    ],
)
def test_tokens_are_copied_and_thoughts_are_output(usage, expected):
    assert tokens(usage) == expected


@each_case(
    ("payload", "usage"),
    [
        ({"embedding": {"values": [0.1]}}, None),
        ({"embedding": {"values": [0.1]}, "usageMetadata": {"promptTokenCount": 3}}, {"promptTokenCount": 3}),
        ({"embeddings": [{"values": [0.1]}], "usageMetadata": {"promptTokenCount": 3}}, {"promptTokenCount": 3}),
        ({"totalTokens": 31, "promptTokensDetails": []}, {"totalTokens": 31, "promptTokensDetails": []}),
    ],
)
def test_embeddings_and_counted_tokens_are_usage_without_an_answer(payload, usage):
    assert parse(payload) == Chunk(API, usage=usage)


def test_an_error_beside_output_is_kept():
    fault = ReportedError("503", "overloaded")
    assert parse(answer({"text": "x"}), "message", fault).fault == fault


FOREIGN = [
    {},
    {"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}},
    {"choices": [{"delta": {"content": "x"}}], "usage": None},
    {"choices": [], "candidates": [{"content": {"parts": []}}]},
    {"type": "response.completed", "response": {"candidates": [{"content": {}}]}},
    {"type": "response.created", "response": {"id": "r", "model": "m", "usage": None}},
    {"model": "m", "response": "x", "done": False},
    {"name": "operations/1", "done": True, "response": {"candidates": [{"content": {}}]}},
    {"name": "cachedContents/1", "model": "m", "usageMetadata": {"totalTokenCount": 9}},
    {"candidates": [{"name": "Café", "place_id": "x"}], "status": "OK"},
    {"candidates": [{"output": "x"}]},
    {"candidates": "x"},
    {"embedding": [0.1]},
    {"embeddings": [[0.1]]},
    {"totalTokens": 31, "name": "x"},
    {"totalTokens": True},
    {"responseId": "r"},
]


@each_case("payload", FOREIGN)
def test_other_objects_are_not_claimed(payload):
    assert parse(payload) is None


CALL = {"name": "f", "id": "i", "args": {"a": 1}}
PARTIAL = {"name": "f", "partialArgs": [{"jsonPath": "$.a", "stringValue": "x"}], "willContinue": True}
EXAMPLES = [
    {**answer({"text": "x"}, {"text": "t", "thought": True}, finishReason="STOP"), "usageMetadata": USAGE},
    {**answer({"functionCall": CALL}, {"functionCall": PARTIAL}, {"inlineData": {"data": "A"}}), "responseId": "r"},
    {"response": answer({"text": "x"}), "traceId": "t"},
    {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": USAGE, "modelVersion": "m"},
    {"embeddings": [{"values": [1]}], "usageMetadata": USAGE},
    {"totalTokens": 31, "promptTokensDetails": []},
]


@each_case("payload", EXAMPLES)
def test_no_other_dialect_claims_an_answer(payload):
    assert [dialect.api for dialect in DIALECTS if dialect.parse(payload, "message", None)] == [API]


@given(hostile.payloads(EXAMPLES))
def test_values_of_a_wrong_type_are_absent(payload):
    chunk = parse(payload)
    hostile.assert_sound(chunk)
    hostile.assert_counts(tokens(chunk.usage if chunk and chunk.usage else {}))


# Whole bodies

SSE_PATH = "/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse"
ARRAY_PATH = "/v1beta/models/gemini-3-pro:streamGenerateContent"
ERROR = {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}
CALLS = [{"functionCall": {"name": "f", "args": {"at": city}}} for city in ("Rome", "Oslo")]
ANSWERS = [
    {**part, "usageMetadata": {**USAGE, "candidatesTokenCount": so_far, "thoughtsTokenCount": 5}, "responseId": "r1"}
    for so_far, part in enumerate(
        (
            answer({"text": "Hm…", "thought": True}),
            answer({"text": "Hé"}),
            answer({"text": "llo"}, *CALLS),
            answer({"text": "", "thoughtSignature": "CiQ"}, finishReason="STOP"),
        )
    )
]
SAID = {
    "api": "gemini",
    "outcome": "complete",
    "response_model": "gemini-3-pro",
    "response_id": "r1",
    "content": "Héllo",
    "reasoning": "Hm…",
    "finish_reason": "STOP",
    "input_tokens": 8,
    "output_tokens": 8,
    "total_tokens": 10,
    "reasoning_tokens": 5,
    "calls": [(None, "f", '{"at":"Rome"}'), (None, "f", '{"at":"Oslo"}')],
}


def events(*payloads, end="\r\n"):
    return "".join(f"data: {json.dumps(payload)}{end}{end}" for payload in payloads)


def array(*payloads):
    return "[" + "\n,\r\n".join(json.dumps(payload, indent=2) for payload in payloads) + "\n]\n"


WIRES = {
    "events": (events, {"path": SSE_PATH}),
    "array": (array, {"path": ARRAY_PATH, "content_type": "application/json"}),
}
on_both_wires = pytest.mark.parametrize(("written", "facts"), WIRES.values(), ids=WIRES.keys())


@on_both_wires
def test_a_stream_is_put_together_however_it_is_cut(written, facts):
    body = written(*ANSWERS)
    assert said(derived(body, **facts)) == SAID
    assert all(said(measures) == SAID for measures in cut_everywhere(body, **facts))


def test_the_first_element_tells_an_array_is_streamed():
    measures = derived(array(*ANSWERS), content_type="application/json", path="/gateway")
    assert (said(measures), measures.operation) == (SAID, "generate_content")
    assert "nonstream" not in measures.flags


@on_both_wires
def test_only_the_last_payload_completes_a_stream(written, facts):
    body = written(*ANSWERS).encode()
    end = body.rindex(b"}") + 1
    assert {derived(body[:size], **facts).outcome for size in (*range(2, end, 7), end - 1)} == {"truncated"}
    assert {derived(body[:size], **facts).outcome for size in range(end, len(body) + 1)} == {"complete"}


@on_both_wires
@pytest.mark.parametrize(("chunk_count", "detail"), [(0, "before_output"), (2, "mid_stream")])
def test_an_error_in_a_stream_is_the_outcome(written, facts, chunk_count, detail):
    measures = derived(written(*ANSWERS[:chunk_count], ERROR), **facts)
    assert (measures.outcome, measures.outcome_detail) == ("error_event", detail)
    assert (measures.error_code, measures.error_message) == ("503", "The model is overloaded.")


@pytest.mark.parametrize("body", [json.dumps(ERROR), array(ERROR)])
def test_an_error_instead_of_a_stream_is_read(body):
    measures = derived(body, status=503, content_type="application/json", path=ARRAY_PATH)
    assert (measures.outcome, measures.error_code, measures.error_message) == (
        "http_error",
        "503",
        "The model is overloaded.",
    )


def test_a_blocked_prompt_completes_a_stream_without_output():
    measures = derived(events({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": USAGE}), path=SSE_PATH)
    assert (measures.outcome, measures.finish_reason, measures.content, measures.ttft_ns) == (
        "complete",
        "SAFETY",
        None,
        None,
    )
    assert "empty" in measures.flags


def test_all_candidates_must_finish():
    first, second = (answer({"text": text}, index=index) for index, text in enumerate("ab"))
    ends = [answer(index=index, finishReason="STOP") for index in range(2)]
    assert derived(events(first, second, ends[0]), path=SSE_PATH).outcome == "truncated"
    measures = derived(events(first, second, *ends), path=SSE_PATH)
    assert (measures.outcome, measures.content, measures.choices[0]["content"]) == ("complete", "a", "b")


def test_arguments_in_pieces_are_one_call_in_a_stream():
    calls = [
        {"name": "f", "willContinue": True},
        partial("$.city", stringValue="Zür", willContinue=True),
        partial("$.city", stringValue="ich"),
        {},
        {"name": "f", "willContinue": True},
        {**partial("$.n", numberValue=2), "willContinue": False},
    ]
    body = events(*(answer({"functionCall": call}) for call in calls), answer(finishReason="STOP"))
    measures = derived(body, path=SSE_PATH)
    assert said(measures)["calls"] == [(None, "f", '{"city":"Zürich"}'), (None, "f", '{"n":2}')]
    assert measures.output_chunks == 5


@pytest.mark.parametrize("wrap", [lambda payload: payload, lambda payload: {"response": payload, "traceId": "t"}])
def test_a_whole_answer_is_read_as_a_stream_is(wrap):
    parts = [{"text": "Hm…", "thought": True}, {"text": "Héllo"}, *CALLS]
    body = {**answer(*parts, finishReason="STOP"), "responseId": "r1"}
    body["usageMetadata"] = {**USAGE, "candidatesTokenCount": 3, "thoughtsTokenCount": 5}
    path = "/v1beta/models/gemini-3-pro:generateContent"
    measures = derived(json.dumps(wrap(body), indent=2), content_type="application/json", path=path)
    assert (said(measures), measures.operation) == (SAID, "generate_content")
    assert "nonstream" in measures.flags


@pytest.mark.parametrize(
    ("method", "payload", "operation", "counted"),
    [
        ("embedContent", {"embedding": {"values": [1]}, "usageMetadata": {"promptTokenCount": 3}}, "embeddings", 3),
        ("countTokens", {"totalTokens": 31}, "count_tokens", None),
    ],
)
def test_other_methods_are_no_generations(method, payload, operation, counted):
    measures = derived(json.dumps(payload), content_type="application/json", path=f"/v1beta/models/m:{method}")
    assert (measures.api, measures.operation, measures.outcome, measures.input_tokens) == (
        API,
        operation,
        "complete",
        counted,
    )
