"""Every object is of one API at most, and the answers of each are found by it."""

from tests.support.cases import each_case
from wiretape.recorder.decode.dialects.registry import DIALECTS

USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
NAMED = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
TEXT = {"role": "assistant", "content": "Hi"}
MESSAGE = {"type": "message", "role": "assistant", "id": "msg_1"}
OBJECTS = [
    ({"object": "chat.completion.chunk", "choices": [{"delta": {"content": "t"}, "text": "t"}]}, "openai.chat"),
    ({"id": "c", "choices": [{"message": TEXT}], "usage": USAGE}, "openai.chat"),
    ({"choices": [], "usage": USAGE, "type": "message"}, "openai.chat"),
    ({"object": "list", "data": [{"object": "score"}], "usage": USAGE}, "openai.chat"),
    ({"object": "text_completion", "choices": [], "usage": USAGE}, "openai.completions"),
    ({"choices": [{"text": "t", "finish_reason": "stop"}], "usage": USAGE}, "openai.completions"),
    ({"object": "list", "data": [{"object": "embedding"}], "model": "m", "usage": USAGE}, "openai.embeddings"),
    ({"created": 1, "data": [{"b64_json": "iVBO"}], "usage": NAMED}, "openai.images"),
    ({"type": "image_generation.completed", "b64_json": "iVBO", "usage": NAMED}, "openai.images"),
    ({"object": "response", "model": "m", "output": [{**MESSAGE, "content": []}], "usage": NAMED}, "openai.responses"),
    ({"object": "response", "output": [], "usage": USAGE}, "openai.responses"),
    ({"type": "response.completed", "response": {"usage": NAMED}}, "openai.responses"),
    ({"type": "error", "sequence_number": 1, "code": "c", "message": "m", "param": None}, "openai.responses"),
    ({"type": "error", "sequence_number": 1, "error": {"type": "t", "message": "m"}}, "openai.responses"),
    ({"type": "keepalive", "sequence_number": 1}, "openai.responses"),
    ({**MESSAGE, "model": "m", "content": [], "stop_reason": "end_turn", "usage": NAMED}, "anthropic.messages"),
    ({"type": "message_start", "message": {"usage": NAMED}}, "anthropic.messages"),
    ({"type": "message_delta", "delta": {}, "usage": USAGE}, "anthropic.messages"),
    ({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "t"}}, "anthropic.messages"),
    ({"type": "error", "error": {"type": "overloaded_error", "message": "m"}}, "anthropic.messages"),
    ({"type": "ping"}, "anthropic.messages"),
    ({"input_tokens": 3}, "anthropic.messages"),
    ({"object": "response.deleted", "id": "resp_1", "deleted": True}, None),
    ({"object": "list", "data": [{**MESSAGE, "content": [], "status": "completed"}]}, None),
    ({"object": "list", "data": [{"object": "model"}]}, None),
    ({"id": "modr-1", "model": "m", "results": [{"flagged": False}]}, None),
    # Objects of other wires that share a key, or the beginning of a type.
    ({"object": "thread.run.step", "type": "message_creation", "status": "in_progress"}, None),
    ({"type": "message_sent", "text": "Hi"}, None),
    ({"type": "content_block_list", "blocks": []}, None),
    ({"type": "message_start", "text": "Hi"}, None),
    ({"type": "response.text", "text": "Hi"}, None),
    ({"object": "response", "text": "Hi"}, None),
    ({"model": "m", "done": True}, None),
    ({"model": "m", "done": False, "progress": 3}, None),
    ({"model": "m", "message": "Hi"}, None),
    ({"finish_reason": "stop", "message": {"text": "Hi"}}, None),
    ({"type": "content-delta", "text": "Hi"}, None),
    ({"type": "message-start", "user": "u"}, None),
    ({"results": [{"id": 1}], "meta": {"tokens": 3}}, None),
    ({"request_id": "r", "output": {"url": "u"}}, None),
    ({"question": "Which?", "choices": [{"label": "Yes"}]}, None),
    ({"question": "Which?", "choices": [{"text": "Yes", "votes": 3}]}, None),
    ({"type": "image_generation.started"}, None),
    ({"created": "today", "data": [{"url": "u"}]}, None),
    ({"object": "response.input_tokens", "input_tokens": 3}, "openai.responses"),
    ({"id": "c", "embeddings": {"float": [[0.5]]}, "meta": {"billed_units": {"input_tokens": 3}}}, "cohere.chat"),
    ({"results": [{"relevance_score": 0.9}], "meta": {"billed_units": {"search_units": 1}}}, "cohere.chat"),
    ({"choices": [{"delta": {"content": "t"}}], "type": "content_block_delta"}, "openai.chat"),
    ({"embedding": [0.5], "inputTextTokenCount": 3}, "bedrock.invoke"),
    ({"results": [], "meta": {"page": 1}}, None),
    ({}, None),
]


@each_case(("payload", "api"), OBJECTS)
def test_an_object_is_of_one_api(payload, api):
    assert [dialect.api for dialect in DIALECTS if dialect.parse(payload, "message", None)] == ([api] if api else [])
