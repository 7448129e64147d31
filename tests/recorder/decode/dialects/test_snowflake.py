import json

import pytest

from tests.support.decoding import derived

PATH = "/api/v2/cortex/inference:complete"


def part(delta, usage=None):
    return {"id": "s1", "created": 1, "model": "claude-s", "choices": [{"delta": delta}], "usage": usage or {}}


def say(text):
    return part({"type": "text", "content": text, "content_list": [{"type": "text", "text": text}], "text": text})


def call(**more):
    return part({"type": "tool_use", "content_list": [more], "text": "", **more})


LAST = part(
    {"type": "text", "content": "", "text": ""}, {"prompt_tokens": 8, "completion_tokens": 4, "total_tokens": 12}
)


def sse(*payloads):
    return "".join(f"data: {json.dumps(payload)}\n\n" for payload in payloads)


@pytest.mark.parametrize("path", [PATH, "/gateway"])
def test_the_end_of_the_body_ends_a_stream(path):
    body = sse(say("Two "), say("swans."), LAST)
    measures = derived(body, path=path)
    assert (measures.api, measures.outcome, measures.content, measures.output_tokens) == (
        "snowflake.cortex", "complete", "Two swans.", 4,
    )  # fmt: skip
    assert derived(body, path=path, ended_by="eof").outcome == "truncated"


def test_the_input_of_a_call_comes_in_pieces():
    body = sse(say("Hm."), call(tool_use_id="t1", name="count"), call(input=""), call(input='{"a":'), call(input="1}"))
    (found,) = derived(body, path=PATH).tool_calls
    assert (found["id"], found["name"], found["arguments"]) == ("t1", "count", '{"a":1}')


def test_chat_stays_chat():
    chunk = {"choices": [{"index": 0, "delta": {"content": "Hi", "type": "text"}, "finish_reason": None}]}
    assert derived(sse(chunk)).api == "openai.chat"
