"""Two turns of an agent: a question that the model answers with a call, then what the tool returned, and the answer."""

import json
from collections.abc import Iterator
from typing import Any

from tests.support.sample_tape import DONE, TOOL, begin, end, event, response
from wiretape.recorder.tape import journal

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
