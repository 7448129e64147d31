import json

import pytest

from tests.support.decoding import derived


def body_of(*chunks, finish=None):
    choices = [
        [{"index": index, "delta": {"content": text}, "finish_reason": finish if at == len(chunks) - 1 else None}]
        for at, (index, text) in enumerate(chunks)
    ]
    events = [
        {"id": f"c{at}", "object": "chat.completion.chunk", "choices": choice} for at, choice in enumerate(choices)
    ]
    return "".join(f"data: {json.dumps(item)}\n\n" for item in events) + "data: [DONE]\n\n"


ONE = json.dumps({"model": "m", "messages": []}).encode()
TWO = json.dumps({"model": "m", "n": 2}).encode()


@pytest.mark.parametrize(
    ("indexes", "request_body"),
    [((0, 1, 2, 3), None), ((0, 1, 2, 3), ONE), ((1, 2, 3, 4), ONE), ((0, 0, 1, 2), ONE), ((0, 5, 6, 9), b'{"n": 1}')],
)
def test_indexes_that_count_up_by_chunk_are_one_choice(indexes, request_body):
    body = body_of(*zip(indexes, ("Two ", "white ", "swans.", ""), strict=True), finish="stop")
    measures = derived(body, request=request_body)
    assert (measures.content, measures.finish_reason, measures.outcome) == ("Two white swans.", "stop", "complete")
    assert "multi_choice" not in measures.flags


@pytest.mark.parametrize(
    ("indexes", "request_body"),
    [((0, 1, 0, 1), ONE), ((0, 1, 0, 1), None), ((0, 1, 2, 3), TWO), ((0, 0, 1, 1), None)],
)
def test_indexes_of_several_choices_stay(indexes, request_body):
    body = body_of(*zip(indexes, "abcd", strict=True), finish="stop")
    assert "multi_choice" in derived(body, request=request_body).flags
