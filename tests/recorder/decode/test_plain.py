"""Plain streams of chat: their recognition, and figures of every tool equal to those of the stream itself."""

import json
from itertools import accumulate, pairwise

import pytest

from wiretape.recorder.decode import plain
from wiretape.recorder.decode.decoder import decode
from wiretape.recorder.decode.exchange import Exchange, Read
from wiretape.viewer.stats.tools.request import Judged
from wiretape.viewer.stats.tools.summary import measure
from wiretape.viewer.stats.tools.tools import AUTHORITIES

EXCHANGE = Exchange(status=200, content_type="text/event-stream", ended_by="end", end_ns=1000)
DONE = b"data: [DONE]\n\n"


def event(delta, finish=None, **more):
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    payload = {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]} | more
    return b"data: " + json.dumps(payload, ensure_ascii=False).encode() + b"\n\n"


def call(**function):
    return {"tool_calls": [{"index": 0, "id": "1", "type": "function", "function": function}]}


ROLE = event({"role": "assistant", "content": ""})
WORDS = [event({"content": f" word{at}"}) for at in range(6)]
USAGE = event({}, choices=[], usage={"prompt_tokens": 3, "completion_tokens": 9, "total_tokens": 12})
ANSWER = [ROLE, *WORDS, event({}, "stop"), USAGE, DONE]


def decoded(events, cuts=()):
    """Decode events that came in a read each, or were cut at some offsets besides."""
    body = b"".join(events)
    ends = sorted({*accumulate(map(len, events)), *cuts})
    reads = [Read(seq, 10 * seq + 7, None, start, end - start) for seq, (start, end) in enumerate(pairwise([0, *ends]))]
    return decode(EXCHANGE, reads, body)


def kinds(events, cuts=()):
    runs = plain.event_runs(EXCHANGE, decoded(events, cuts))
    return None if runs is None else [kind for kind, *_ in runs]


PLAIN = {
    "answer": ANSWER,
    "cut off": [ROLE, *WORDS[:3]],
    "a role in every chunk": [event({"role": "assistant", "content": word}) for word in ("a", "b", "é")],
    "reasoning": [ROLE, *(event({"reasoning": word, "content": ""}) for word in "abc"), *WORDS, DONE],
    "reasoning content": [ROLE, *(event({"reasoning_content": word}) for word in "abc"), *WORDS, event({}, "stop")],
    "tools": [
        event({"role": "assistant", "content": None} | call(name="f", arguments="")),
        *(event(call(arguments=part)) for part in ('{"a"', ":1", "}")),
        event({}, "tool_calls"),
        DONE,
    ],
    "blanks among words": [ROLE, event({"content": " "}), *WORDS, event({"content": "\n"}), event({}, "stop"), DONE],
    "one chunk": [WORDS[0], event({}, "stop"), DONE],
    "no output": [ROLE, event({}, "stop"), USAGE, DONE],
    "twice done": [*ANSWER, DONE],
}


@pytest.mark.parametrize("tool", [tool for tool, rule in AUTHORITIES.items() if not rule.needs_reads])
@pytest.mark.parametrize("events", PLAIN.values(), ids=PLAIN)
def test_runs_and_body_of_plain_streams_measure_alike(tool, events):
    expected = decoded(events)
    runs = plain.event_runs(EXCHANGE, expected)
    assert runs is not None
    output_ns = [at for run in expected.runs if run.chunk.output for at in expected.at_ns[run.items]]
    usage = next((run.chunk.usage for run in expected.runs if run.chunk.usage), None)
    stream = plain.stream(runs, usage, output_ns)
    judged = Judged("complete", None, expected.ended_ns)
    assert measure(tool, EXCHANGE, stream, judged) == measure(tool, EXCHANGE, expected, judged)


@pytest.mark.parametrize(
    "events",
    [
        [ROLE, b": comment\n\n", *WORDS],
        [ROLE, event({"content": "", "reasoning_content": "x"}), *WORDS],
        [ROLE, event({"content": ""}), *WORDS],
        [ROLE, event({"content": "x", "reasoning_content": None}), *WORDS],
        [ROLE, event({"role": "assistant", "reasoning": "x"}), *WORDS],
        [ROLE, event({"content": " "}), event({}, "stop"), DONE],
        [ROLE, event({"content": "x"}, "stop"), DONE],
        [ROLE, event({"content": "x"}, usage={"completion_tokens": 1}), *WORDS],
        [ROLE, event({"content": "x"}, object="chat.completion"), *WORDS],
        [ROLE, event({"content": "x\u2028y"}), *WORDS],
        [ROLE, event({"refusal": "x"}), *WORDS],
        [ROLE, event({"content": "x"}, error={"message": "no"}), *WORDS],
        [ROLE, b'data: {"error":{"message":"no"}}\n\n'],
        [ROLE, b"event: message\n" + WORDS[0], *WORDS],
        [ROLE, WORDS[0].replace(b"\n", b"\r\n"), *WORDS],
        [ROLE, WORDS[0].replace(b"data: ", b"data:"), *WORDS],
        [ROLE, *WORDS, WORDS[0][:20]],
        [*ANSWER[:-1], USAGE, DONE],
        [ROLE, event({"reasoning": "x", "reasoning_content": ""}), *WORDS],
        [ROLE, event({"content": " "}), event({}, "stop"), DONE, *WORDS],
        [ROLE, *WORDS, event({}, choices=[], usage={"completion_tokens": 1 << 70}), DONE],
    ],
)
def test_a_distinguishable_stream_is_not_plain(events):
    assert kinds(events) is None


def test_only_a_read_between_line_ends_spoils_plainness():
    assert kinds(ANSWER, [len(ROLE) + 9]) == ["role", "content", "finish", "usage", "done"]
    assert kinds(ANSWER, [len(ROLE) - 1]) is None
    assert kinds(ANSWER, [len(ROLE) - 2]) is None


def test_runs_that_contradict_their_times_make_no_stream():
    runs = [["content", 1 << 40, None], ["done", 1, 5]]
    assert plain.stream(runs, None, [1, 2]) is None
    assert plain.stream([["content", 2, None], ["done", 1, None]], None, [1, 2]) is None
    assert plain.stream([["other", 1, 5]], None, []) is None
