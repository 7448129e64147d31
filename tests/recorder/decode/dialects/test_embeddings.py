import pytest

from tests.support.cases import each_case
from wiretape.recorder.decode.dialect import Chunk, Tokens
from wiretape.recorder.decode.dialects.embeddings import DIALECT, parse

VECTOR = {"object": "embedding", "index": 0, "embedding": [0.5, -1.0]}


def test_an_answer_has_model_and_usage_but_no_output():
    usage = {"prompt_tokens": 8, "total_tokens": 8}
    chunk = parse({"object": "list", "data": [VECTOR, VECTOR], "model": "m", "usage": usage})
    assert chunk == Chunk("openai.embeddings", "", "m", usage=usage)
    assert not chunk.output
    assert DIALECT.tokens(usage) == Tokens(input=8, total=8)


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [({"total_tokens": 5}, Tokens(total=5)), ({"prompt_tokens": "5"}, Tokens()), ({"total_tokens": -1}, Tokens())],
)
def test_tokens_are_copied(usage, tokens):
    assert DIALECT.tokens(usage) == tokens


@each_case(
    "payload",
    [
        {"object": "list", "data": []},
        {"object": "list", "data": [{"object": "model"}]},
        {"object": "list", "data": ["embedding"]},
        {"object": "list", "data": {"0": VECTOR}},
        {"object": ["list"], "data": [VECTOR]},
        {"data": [VECTOR]},
    ],
)
def test_other_lists_are_not_claimed(payload):
    assert parse(payload) is None


def test_values_of_the_wrong_type_are_absent():
    assert parse({"object": "list", "data": [VECTOR], "model": 1, "id": [], "usage": "8"}) == Chunk(DIALECT.api)
