"""Exchanges of agents: requests that repeat the messages before them."""

import json
from collections.abc import Iterator
from typing import Any

from tests.support.frames import begin as begun
from tests.support.frames import exchange
from tests.support.sample_tape import DONE, TOOL, begin, end, event, response
from wiretape.recorder.tape import journal

ASKED = {"role": "user", "content": "Hi"}
ANSWERED = {"role": "assistant", "content": "Hello"}
MORE = {"role": "user", "content": "More"}


def turn(
    id: str, *messages: Any, path: str = "/v1/chat/completions", headers: dict[str, str] | None = None, **body: Any
) -> list[journal.Frame]:
    """Return the frames of an exchange whose answer is `ANSWERED`."""
    encoded = json.dumps({"model": "m", "messages": list(messages), **body}).encode()
    pairs = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
    return [begun(id, body=encoded, headers=pairs, path=path), *exchange(id)[1:]]


FIRST, SECOND = "1111000000000001", "2222000000000002"
SYSTEM = "\n".join(["Be brief.", *(f"Rule {number}." for number in range(20))])
CALL = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city":"Oslo"}'}}
TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "Tell the weather.\n\nIn one word."}}]
QUESTION = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "Is it cold in Oslo?"}]
GOES_ON = [
    {"role": "assistant", "content": "I look.", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "call_1", "content": "snow"},
]
CALLED = event({"tool_calls": [TOOL]}) + event({"tool_calls": [{"index": 0, "function": {"arguments": '"Oslo"}'}}]})
ANSWERS = {
    FIRST: [(50, event({"content": "I look."})), (60, CALLED), (70, event({}, "tool_calls") + DONE)],
    SECOND: [(50, event({"content": "Yes: \x1b[31msnow."})), (60, event({}, "stop") + DONE)],
}


def asked(*messages: Any, **parameters: Any) -> bytes:
    """Return the body of a request."""
    return json.dumps({"model": "gpt-x", "messages": messages, "tools": TOOLS, "stream": True, **parameters}).encode()


def frames() -> Iterator[journal.Frame]:
    """Yield both exchanges."""
    bodies = {FIRST: asked(*QUESTION), SECOND: asked(*QUESTION, *GOES_ON, temperature=0)}
    for at, (id, body) in enumerate(bodies.items()):
        yield begin(id, at, body)
        yield from response(id, ANSWERS[id])
        yield end(id, ANSWERS[id])
