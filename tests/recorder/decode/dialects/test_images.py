import pytest

from tests.support.cases import each_case
from wiretape.recorder.decode.dialect import Chunk, Tokens
from wiretape.recorder.decode.dialects.images import DIALECT, parse

API = "openai.images"
USAGE = {"total_tokens": 1100, "input_tokens": 50, "output_tokens": 1050, "input_tokens_details": {"text_tokens": 50}}


@each_case(
    ("payload", "chunk"),
    [
        ({"created": 1, "data": [{"b64_json": "iVBO"}], "usage": USAGE}, Chunk(API, content=True, usage=USAGE)),
        ({"created": 1, "data": [{"url": "https://example.com/1.png"}]}, Chunk(API, content=True)),
        ({"created": 1, "data": [{"b64_json": None}], "usage": 3}, Chunk(API)),
        ({"type": "image_generation.partial_image", "b64_json": "iVBO"}, Chunk(API, content=True)),
        ({"type": "image_edit.partial_image", "b64_json": 7}, Chunk(API)),
        (
            {"type": "image_generation.completed", "b64_json": "iVBO", "usage": USAGE},
            Chunk(API, content=True, usage=USAGE, ends=True),
        ),
        ({"type": "image_edit.of_a_later_year", "created_at": 1}, Chunk(API)),
    ],
)
def test_an_image_is_output_without_text(payload, chunk):
    assert parse(payload) == chunk


@each_case(
    "payload",
    [
        {"created": 1, "data": []},
        {"created": 1, "data": [{"object": "model"}]},
        {"created": 1, "data": ["b64_json"]},
        {"created": 1, "data": {"b64_json": "iVBO"}},
        {"created": 1, "data": [{"url": ""}], "object": "list"},
        {"created": 1, "data": [{"url": ""}], "choices": []},
        {"data": [{"b64_json": "iVBO"}]},
        {"type": ["image_generation.completed"]},
        {"type": "response.image_generation_call.completed"},
    ],
)
def test_other_answers_are_not_claimed(payload):
    assert parse(payload) is None


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [(USAGE, Tokens(input=50, output=1050, total=1100)), ({"input_tokens": "50", "output_tokens": -1}, Tokens())],
)
def test_tokens_are_copied(usage, tokens):
    assert DIALECT.tokens(usage) == tokens
