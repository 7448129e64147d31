"""The demo's agent: a session of four turns, in which a coding agent finds and mends a bug.

The second turn is tried twice, the third stalls, and before the fourth the system prompt changes, so that nothing of it
is read from the cache. The messages of a request give its turn, and its headers the attempt.
"""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from wiretape.recorder.decode.values import JsonObject
from wiretape.recorder.demo import scenes
from wiretape.recorder.demo.scenes import Piece, block, named
from wiretape.recorder.demo.upstream import ReceivedRequest, Scene, answer

MODEL = "demo-agent"
PATH = "/v1/messages"
STALLED = 3
"""Number of steps before the turn that stalls."""
_LIMITED_TURN = 1
_RETRY_COUNT = "x-stainless-retry-count"
"""Header by which Anthropic's client numbers its attempts."""
CACHED = {"cache_control": {"type": "ephemeral"}}
"""A cache point: the provider stores the prompt up to here."""


class AgentCall(NamedTuple):
    """A call of a tool, with the tool's result and its duration in seconds."""

    name: str
    arguments: JsonObject
    result: str
    seconds: float


class AgentTurn(NamedTuple):
    """An answer: its text, a silence in it, its tool call, and its tokens."""

    text: str
    call: AgentCall | None
    cache_read: int
    cache_write: int
    output: int
    silence_seconds: float = 0.0


class AgentStep(NamedTuple):
    """A request of the agent, and the pause after its answer in seconds."""

    headers: dict[str, str]
    body: JsonObject
    pause_seconds: float


class _AgentMessage(msgspec.Struct):
    role: str


class _AgentRequest(msgspec.Struct):
    model: str
    messages: list[_AgentMessage]


_TASK = "tests/test_retry.py fails since this morning. Please find out why, and fix it."
_RULES = """\
You are a coding agent. You work in the repository of the user, with the tools below, until the task is done.

How to work:
- Reproduce a failure before you look for its cause: run the tests that show it.
- Read a file before you edit it, and read the whole function, not only the line of the failure.
- Change as little as the task needs. Keep the style, the names and the comments of the code around it.
- Fix the cause. Do not loosen a test, skip it, or catch an error only to make a test pass.
- Run the tests again after a change, and report their output.
- Never run commands that delete files, publish packages or push commits.

How to answer:
- Say in one or two sentences what you found and what you do next, then call a tool.
- At the end, name the cause, the change, and any open question.
- If the task is unclear, or two ways lead to different results, ask before you edit.
"""
_BEFORE, _AFTER = (f"Branch: main\nChanged files: {files}" for files in ("none", "retry.py"))
_CODE = """\
def waits(first, attempts):
    for _ in range(attempts):
        wait = first
        yield wait
        wait *= 2
"""
_FAILED = """\
tests/test_retry.py::test_each_wait_is_twice_the_one_before FAILED
E   assert [0.1, 0.1, 0.1] == [0.1, 0.2, 0.4]
1 failed, 6 passed in 0.71 s
"""
_EDIT = {
    "path": "retry.py",
    "old": "    for _ in range(attempts):\n        wait = first\n",
    "new": "    wait = first\n    for _ in range(attempts):\n",
}
TURNS = (
    AgentTurn(
        "I run the failing tests first.",
        AgentCall("run_tests", {"path": "tests/test_retry.py"}, _FAILED, 0.8),
        0, 1268, 71,
    ),
    AgentTurn(
        "Each wait equals the first one. I read the code.",
        AgentCall("read_file", {"path": "retry.py"}, _CODE, 0.5),
        1268, 187, 64,
    ),
    AgentTurn(
        "The loop sets the wait again in each round, so doubling it has no effect. I move that line.",
        AgentCall("edit_file", _EDIT, "edited retry.py: 2 lines", 0.1),
        1455, 164, 128, 2.1,
    ),
    AgentTurn("Fixed: the wait is now set once, before the loop. Shall I run all tests?", None, 0, 1797, 22),
)  # fmt: skip


def _tool(name: str, description: str, **parameters: str) -> JsonObject:
    properties = {parameter: {"type": "string", "description": text} for parameter, text in parameters.items()}
    schema = {"type": "object", "properties": properties, "required": [*properties]}
    return {"name": name, "description": description, "input_schema": schema}


_TOOLS = [
    _tool("read_file", "Return the text of a file of the repository.", path="path from the repository's root"),
    _tool(
        "edit_file",
        "Replace a text in a file. The text must occur once.",
        path="path from the repository's root",
        old="text to replace, with its white space",
        new="text to put in its place",
    ),
    _tool("run_tests", "Run tests, and return their output.", path="file or folder of tests"),
]


def steps(session: str) -> Iterator[AgentStep]:
    """Yield the requests of the agent; `session` is the session that they name."""
    user = json.dumps({"session_id": session})
    messages: list[JsonObject] = [{"role": "user", "content": [{"type": "text", "text": _TASK, **CACHED}]}]
    for number, turn in enumerate(TURNS):
        state = {"type": "text", "text": _AFTER if number == len(TURNS) - 1 else _BEFORE, **CACHED}
        body = {"model": MODEL, "max_tokens": 4096, "stream": True, "metadata": {"user_id": user}, "tools": _TOOLS}
        body |= {"system": [{"type": "text", "text": _RULES}, state], "messages": [*messages]}
        if limited := number == _LIMITED_TURN:
            yield AgentStep({_RETRY_COUNT: "0"}, body, 0.6)
        yield AgentStep({_RETRY_COUNT: str(int(limited))}, body, turn.call.seconds if turn.call else 0.0)
        if turn.call:
            # A cache point moves to the newest message.
            content = [{name: part[name] for name in part if name not in CACHED} for part in messages[-1]["content"]]
            messages[-1] = {**messages[-1], "content": content}
            result = {
                "type": "tool_result",
                "tool_use_id": f"toolu_demo{number}",
                "content": turn.call.result,
                **CACHED,
            }
            use = {**_use(number, turn.call), "input": turn.call.arguments}
            messages.append({"role": "assistant", "content": [{"type": "text", "text": turn.text}, use]})
            messages.append({"role": "user", "content": [{**result, **CACHED}]})


def _use(number: int, call: AgentCall) -> JsonObject:
    return {"type": "tool_use", "id": f"toolu_demo{number}", "name": call.name, "input": {}}


def choose(request: ReceivedRequest) -> Scene:
    """Return the answer to a request of the agent, or the scene that a request's model asks for."""
    try:
        agent_request = msgspec.json.decode(request.body, type=_AgentRequest)
    except msgspec.MsgspecError:
        return scenes.choose(request)
    if agent_request.model != MODEL:
        return scenes.choose(request)
    number = sum(message.role == "assistant" for message in agent_request.messages)
    attempt = dict(request.headers).get(_RETRY_COUNT.encode(), b"0").decode()
    headers = [("request-id", f"req_demo_{number + 1}_{attempt}")]
    if (number, attempt) != (_LIMITED_TURN, "0"):
        return answer([*_turn_events(number)], headers=headers, delay=0.1)
    error = {"type": "rate_limit_error", "message": "Number of requests has exceeded your rate limit"}
    body = json.dumps({"type": "error", "error": error, "request_id": headers[0][1]}).encode()
    return answer(
        [(0.0, body)], status=429, content_type="application/json", framing="length", headers=headers, delay=0.05
    )


def _turn_events(number: int) -> Iterator[Piece]:
    turn = TURNS[number % len(TURNS)]
    tokens: dict[str, Any] = {"input_tokens": 3, "output_tokens": 1}
    tokens |= {"cache_creation_input_tokens": turn.cache_write, "cache_read_input_tokens": turn.cache_read}
    message = {"id": f"msg_demo{number}", "type": "message", "role": "assistant", "model": MODEL, "content": []}
    yield 0.08, named({"type": "message_start", "message": {**message, "usage": tokens}})
    yield 0.0, block("start", 0, content_block={"type": "text", "text": ""})
    words = scenes.fragments(turn.text)
    for index, word in enumerate(words):
        silence = turn.silence_seconds if index == len(words) // 2 else 0.0
        yield 0.015 + silence, block("delta", 0, delta={"type": "text_delta", "text": word})
    yield 0.0, block("stop", 0)
    if turn.call:
        yield 0.02, block("start", 1, content_block=_use(number, turn.call))
        arguments = json.dumps(turn.call.arguments)
        for start in range(0, len(arguments), 16):
            delta = {"type": "input_json_delta", "partial_json": arguments[start : start + 16]}
            yield 0.015, block("delta", 1, delta=delta)
        yield 0.0, block("stop", 1)
    stop = {"stop_reason": "tool_use" if turn.call else "end_turn"}
    yield 0.02, named({"type": "message_delta", "delta": stop, "usage": {"output_tokens": turn.output}})
    yield 0.0, named({"type": "message_stop"})
