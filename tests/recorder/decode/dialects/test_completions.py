import json

from hypothesis import given

from tests.support import hostile
from tests.support.cases import each_case
from tests.support.decoding import cut_everywhere, derived, said
from wiretape.recorder.decode.dialect import Chunk, Piece
from wiretape.recorder.decode.dialects import chat, completions
from wiretape.recorder.decode.dialects.completions import parse


def only(choice, **more):
    return parse({"object": "text_completion", "choices": [choice], **more})


@each_case(
    ("choice", "piece"),
    [
        ({"index": 0, "text": "Once", "finish_reason": None}, Piece(0, "Once", "", "", (), None)),
        ({"index": 2, "text": "", "finish_reason": "length"}, Piece(2, "", "", "", (), "length")),
        ({"text": "a", "logprobs": {"tokens": ["a"]}, "finish_reason": ""}, Piece(0, "a", "", "", (), None)),
        ({"text": None, "delta": None, "finish_reason": "stop"}, Piece(0, "", "", "", (), "stop")),
        ({"text": 7, "index": True, "finish_reason": "stop"}, Piece(0, "", "", "", (), "stop")),
    ],
)
def test_a_choice_is_its_text(choice, piece):
    chunk = only(choice)
    assert chunk.pieces == (piece,)
    assert (chunk.content, chunk.reasoning, chunk.tool) == (piece.content != "", False, False)


@each_case("choice", [{}, {"text": None}, {"text": 1, "finish_reason": 2}, None, "x", []])
def test_a_choice_without_text_is_not_seen(choice):
    assert only(choice) == Chunk("openai.completions")


def test_an_answer_has_an_id_a_model_and_usage():
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    answer = {"id": "cmpl-1", "object": "text_completion", "model": "m", "usage": usage}
    choices = [{"index": 1, "text": "b", "finish_reason": "stop"}, {"index": 0, "text": "a", "finish_reason": "stop"}]
    chunk = parse({**answer, "choices": choices})
    assert (chunk.id, chunk.model, chunk.usage) == ("cmpl-1", "m", usage)
    assert [(piece.index, piece.content) for piece in chunk.pieces] == [(1, "b"), (0, "a")]
    assert parse({**answer, "choices": []}) == Chunk("openai.completions", "cmpl-1", "m", usage=usage)
    assert completions.DIALECT.tokens(usage) == chat.tokens(usage)


@each_case(
    ("payload", "claimed"),
    [
        ({"choices": [{"text": "t"}]}, True),
        ({"object": "text_completion", "choices": []}, True),
        ({"object": "text_completion.chunk", "choices": [{}]}, True),
        ({"object": "text_completion", "choices": [{"delta": {}, "text": "t"}]}, False),
        ({"object": "chat.completion.chunk", "choices": [{"delta": {"content": "t"}, "text": "t"}]}, False),
        ({"object": "chat.completion", "choices": [{"message": {}, "text": "t"}]}, False),
        ({"object": "text_completion", "choices": None}, False),
        ({"object": "text_completion"}, False),
        ({"choices": []}, False),
        ({"question": "Which?", "choices": [{"text": "Yes", "votes": 2}]}, False),
        ({"choices": [{"finish_reason": "error"}], "error": {"code": "x"}}, False),
        ({"text": "t"}, False),
    ],
)
def test_the_shape_decides_what_is_a_completion(payload, claimed):
    assert (parse(payload) is not None) is claimed


HEAD = {"id": "cmpl-1", "object": "text_completion", "model": "m"}
USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
EVENTS = [
    {**HEAD, "choices": [{"index": 0, "text": "Once", "logprobs": None, "finish_reason": None}], "usage": None},
    {**HEAD, "choices": [{"index": 0, "text": " ûpon", "logprobs": None, "finish_reason": None}]},
    {**HEAD, "choices": [{"index": 0, "text": "", "logprobs": None, "finish_reason": "length"}]},
    {**HEAD, "choices": [], "usage": USAGE},
]
SAID = {
    "api": "openai.completions", "outcome": "complete", "response_model": "m", "response_id": "cmpl-1",
    "content": "Once ûpon", "finish_reason": "length", "input_tokens": 3, "output_tokens": 2, "total_tokens": 5,
}  # fmt: skip


def wire(*payloads, done=True):
    events = [f"data: {json.dumps(payload, ensure_ascii=False)}\n\n" for payload in payloads]
    return "".join(events) + "data: [DONE]\n\n" * done


def test_a_stream_is_the_same_wherever_it_is_cut():
    assert all(said(measures) == SAID for measures in cut_everywhere(wire(*EVENTS)))


def test_a_whole_answer_is_no_stream():
    answer = {**HEAD, "choices": [{"index": 0, "text": "Once ûpon", "finish_reason": "length"}], "usage": USAGE}
    measures = derived(json.dumps(answer), content_type="application/json")
    assert (said(measures), measures.operation) == (SAID, "text_completion")


@each_case(
    ("body", "outcome", "no_done"),
    [
        (wire(*EVENTS[:2], done=False), "truncated", True),
        (wire(*EVENTS[:3], done=False), "complete", True),
        (wire(*EVENTS[:2]), "complete", False),
        (wire(*EVENTS[:2], {"error": {"message": "m", "code": 500}}), "error_event", False),
    ],
)
def test_a_stream_ends_as_one_of_chat_does(body, outcome, no_done):
    measures = derived(body)
    assert (measures.outcome, "no_done" in measures.flags) == (outcome, no_done)


@given(hostile.payloads(EVENTS))
def test_values_of_a_wrong_type_are_absent(payload):
    hostile.assert_sound(parse(payload))
    hostile.assert_sound(chat.parse(payload))
