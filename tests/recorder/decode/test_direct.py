"""Plain answers that are measured directly have the values that the general way derives."""

import json
import random
from dataclasses import fields
from typing import Any

from tests.support.cases import each_case
from wiretape.recorder.decode import direct
from wiretape.recorder.decode.conversation import RecordedRequest
from wiretape.recorder.decode.decoder import decode
from wiretape.recorder.decode.derive import derive
from wiretape.recorder.decode.exchange import NO_HEADERS, Exchange, Headers, Reads, Sent
from wiretape.recorder.decode.metrics import Measures

ODD: list[Any] = [None, "", "null", "x", "a\0b", "é☃", "\ud83d", [], [None], [{}], {}, {"x": 1}, 0, 1, -1, 2**53, 2**70]
ODD += [1.5, 1e400, True, False, "stop", "error", "openai.chat"]
MESSAGE = {"role": "assistant", "content": "Yes.", "refusal": None, "annotations": [], "tool_calls": []}
USAGE = {"prompt_tokens": 16, "completion_tokens": 2, "total_tokens": 18}
CHOICE = {"index": 0, "message": MESSAGE, "logprobs": None, "finish_reason": "stop"}
ANSWER = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m-1", "choices": [CHOICE]}
ANSWER |= {"usage": USAGE, "service_tier": "default", "system_fingerprint": "fp"}
REQUEST = {"model": "m", "messages": [{"role": "user", "content": "Hello  there"}], "temperature": 0, "stream": False}
OTHERS: list[Any] = [
    {"type": "message", "role": "assistant", "model": "m", "content": [{"type": "text", "text": "Yes."}],
     "stop_reason": "end_turn", "usage": {"input_tokens": 3, "output_tokens": 1}},
    {"object": "response", "id": "r", "status": "completed", "model": "m", "output": [
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Yes."}]}]},
    {"candidates": [{"content": {"parts": [{"text": "Yes."}]}, "finishReason": "STOP"}], "modelVersion": "g"},
    {"object": "text_completion", "model": "m", "choices": [{"index": 0, "text": "Yes.", "finish_reason": "stop"}]},
    {"model": "m", "message": {"role": "assistant", "content": "Yes."}, "done": True, "eval_count": 3},
    {"error": {"message": "no such model", "code": "model_not_found"}}, [1], "text", None,
]  # fmt: skip
FACTS: dict[str, list[Any]] = {
    "status": [201, 400, None], "method": ["GET"], "ended_by": ["eof", "client", "died", None], "gap_bytes": [3],
    "content_encoding": ["gzip"], "content_type": [None, "text/event-stream", "application/json; charset=utf-8"],
    "framing": ["chunked", "close", "none", None], "clock": ["imported", "none", None], "paused": [1],
    "clock_error_ns": [5, 10**9], "surplus": [True], "coarse_clock": [True], "h2_offered": [True, None],
    "has_bytes": [False], "rebuilt": [True], "asks_identity": [True], "connection_reused": [True],
    "connected_ns": [10_000], "sent_ns": [None, 20_000], "headers_ns": [None], "end_ns": [None, 10], "protocol": ["h2"],
    "path": ["/v1/chat", "/v1/completions", "/v1/chat/completions?x=1", "/mcp/chat/completions"],
    "request_missing": [9], "extensions": ["permessage-deflate"], "reset_code": ["rst_cancel"],
    "request": [None], "request_model": ["m"],
    "sent": [Sent(Reads((), (), (), (), ()), b"")], "headers": [NO_HEADERS],
    "started_at": ["2026-03-01T12:00:00Z"], "upstream": ["https://api.test"], "boot_ns": [5], "bytes": [7],
    "upstream_name": ["a"], "resent_from": ["0123456789abcdef"], "resent_no": [2], "resent_in": ["a7"],
    "client_bytes": [7], "client_gap_bytes": [7], "client_closed_ns": [5], "ended_detail": ["by the peer"],
    "dialects": ['[{"name": "own", "match": {"path": "/chat/completions"}, "text": "id"}]'],
}  # fmt: skip
HEADERS = [
    ("accept", "text/event-stream"), ("mcp-method", "tools/call"), ("x-session-id", "s-1"), ("session-id", "s\0"),
    ("x-claude-code-agent-id", "a"), ("x-stainless-retry-count", "2"), ("sec-websocket-version", "13"),
    ("x-parent-session-id", "p"), ("content-encoding", "gzip"),
]  # fmt: skip


def mutated(value: Any, chosen: random.Random) -> Any:
    """Return a JSON value with a change somewhere in it."""
    if isinstance(value, list) and value:
        value = value.copy()
        if chosen.random() < 0.3:
            return value + value
        place = chosen.randrange(len(value))
        value[place] = mutated(value[place], chosen)
        return value
    if not isinstance(value, dict) or not value:
        return chosen.choice(ODD)
    names = [*value]
    name = chosen.choice(names)
    match chosen.randrange(6):
        case 0:
            return {key: value[key] for key in names if key != name}
        case 1:
            new = chosen.choice(
                ["error", "code", "done", "reasoning", "tools", "system", "metadata", "usage", "x", "n"]
            )
            return value | {new: chosen.choice([*ODD, USAGE, MESSAGE])}
        case 2:
            chosen.shuffle(names)
            return {key: value[key] for key in names}
        case 3:
            return value | {name: chosen.choice(ODD)}
    return value | {name: mutated(value[name], chosen)}


def json_bytes(value: Any, chosen: random.Random) -> bytes:
    """Return a JSON text of a value, at times an odd one."""
    text = json.dumps(value, ensure_ascii=chosen.random() < 0.5, indent=chosen.choice([None, None, None, 1]))
    match chosen.randrange(20):
        case 0:
            text = text[: chosen.randrange(len(text))]
        case 1:
            text = chosen.choice(["\ufeff", "\n\n", " ", "data: ", "[", "{}\n"]) + text
        case 2:
            text += chosen.choice(["\n\n", "x", text, "\n{}", "\0"])
        case 3:
            text = text.replace('"m', '"\\u006d').replace('"id"', '"id": "first", "id"')
        case 4:
            return text.encode("utf-8", "replace").replace(b"e", b"\xff", 1)
    return text.encode("utf-8", "surrogatepass")


def case(chosen: random.Random) -> tuple[Exchange, Reads, bytes, RecordedRequest]:
    """Return an exchange, plain or odd."""
    answer: Any = chosen.choice(OTHERS) if chosen.random() < 0.15 else ANSWER
    details = {"prompt_tokens_details": {"cached_tokens": chosen.choice([0, 4, 99])}}
    details |= {"completion_tokens_details": {"reasoning_tokens": chosen.choice([0, 1, None])}}
    if answer is ANSWER and chosen.random() < 0.3:
        answer = ANSWER | {"usage": {**USAGE, "total_tokens": chosen.choice([18, 19, 99]), **details}}
    roles = [chosen.choice(["system", "user", "assistant", "developer", "tool"]) for _ in range(chosen.randrange(5))]
    texts = ["Hello", " ", "", "<x>y</x> do it", '{"a": 1}', "é\u2028", "x-anthropic-billing-header: 1\n", '"cache"']
    request: Any = REQUEST
    if roles and chosen.random() < 0.6:
        request = REQUEST | {"messages": [{"role": role, "content": chosen.choice(texts)} for role in roles]}
    for _ in range(chosen.choice([0, 0, 0, 1, 1, 2])):
        answer = mutated(answer, chosen)
    for _ in range(chosen.choice([0, 0, 0, 0, 1, 2])):
        request = mutated(request, chosen)
    body, request_body = json_bytes(answer, chosen), json_bytes(request, chosen)
    headers = [("content-type", "application/json"), *chosen.sample(HEADERS, chosen.choice([0, 0, 0, 1, 2]))]
    facts: dict[str, Any] = {
        "status": 200, "content_type": "application/json", "content_encoding": None, "ended_by": "end",
        "connected_ns": None, "headers_ns": 300_000, "end_ns": 900_000, "framing": "length", "clock": "kernel",
        "path": "/7/v1/chat/completions", "request": request_body, "request_model": chosen.choice([None, "m"]),
        "headers": Headers(tuple(headers), (("content-type", "application/json"),)),
    }  # fmt: skip
    for name in chosen.sample([*FACTS], chosen.choice([0, 0, 0, 1])):
        facts[name] = chosen.choice(FACTS[name])
    cut = chosen.choice([0, 0, len(body) // 2])
    sizes = [size for size in (cut, len(body) - cut) if size]
    starts = [0, cut][: len(sizes)]
    at_ns = [300_000 + 100_000 * seq for seq in range(len(sizes))]
    reads = Reads(range(len(sizes)), at_ns, [*at_ns], starts, sizes)
    return Exchange(**facts), reads, body, RecordedRequest([[*pair] for pair in headers], request_body)


def measured_both_ways(chosen: random.Random) -> tuple[Measures | None, Measures]:
    """Return the measures of a random exchange, worked out directly and in general."""
    exchange, reads, body, request_body = case(chosen)
    general = derive(exchange, reads, body, decode(exchange, reads, body), request_body)
    return direct.measures(exchange, reads, body, request_body), general


@each_case("seed", range(4))
def test_direct_measures_equal_the_general_ones(seed: int) -> None:
    chosen = random.Random(seed)
    pairs = [measured_both_ways(chosen) for _ in range(60)]
    pairs_measured = [(measures, general) for measures, general in pairs if measures is not None]
    assert [measures for measures, _ in pairs_measured] == [general for _, general in pairs_measured]
    assert 5 < len(pairs_measured) < 40


def test_any_fact_may_be_odd() -> None:
    """A fact that is not varied above might be one that the direct way does not look at."""
    assert {field.name for field in fields(Exchange)} == FACTS.keys()


@each_case("late_ns", [None, 5, 10**9])
def test_a_plain_answer_is_measured_directly(late_ns: int | None) -> None:
    body, request_body = json.dumps(ANSWER).encode(), RecordedRequest([], json.dumps(REQUEST).encode())
    facts: dict[str, Any] = {"status": 200, "framing": "length", "ended_by": "end", "path": "/v1/chat/completions"}
    exchange = Exchange(content_type="application/json", headers_ns=1, end_ns=2, clock_error_ns=late_ns, **facts)
    reads = Reads([0], [1], [1], [0], [len(body)])
    measures = direct.measures(exchange, reads, body, request_body)
    assert measures == derive(exchange, reads, body, decode(exchange, reads, body), request_body)
    assert measures is not None
    assert derive(exchange, reads, body, request=request_body).content == "Yes."


def test_a_query_that_ends_like_chat_is_not_direct() -> None:
    body, request_body = json.dumps(ANSWER).encode(), RecordedRequest([], json.dumps(REQUEST).encode())
    facts: dict[str, Any] = {"status": 200, "framing": "length", "ended_by": "end", "headers_ns": 1, "end_ns": 2}
    exchange = Exchange(content_type="application/json", path="/v1/images/generations?next=/chat/completions", **facts)
    reads = Reads([0], [1], [1], [0], [len(body)])
    assert direct.measures(exchange, reads, body, request_body) is None
    assert derive(exchange, reads, body, request=request_body).operation == "image"


def test_a_repetition_is_measured_with_its_runs_session() -> None:
    body = json.dumps(ANSWER).encode()
    facts: dict[str, Any] = {"status": 200, "framing": "length", "ended_by": "end", "path": "/v1/chat/completions"}
    exchange = Exchange(
        content_type="application/json", headers_ns=1, end_ns=2, resent_from="0" * 16, resent_in="a7", **facts
    )
    request_body = RecordedRequest([["x-session-id", "s-1"]], json.dumps(REQUEST).encode())
    reads = Reads([0], [1], [1], [0], [len(body)])
    measures = derive(exchange, reads, body, decode(exchange, reads, body), request_body)
    ties = (measures.conversation_key, measures.conversation_key_from, measures.messages_hash, measures.answer_hash)
    assert ties == ("resend=a7", "resend", None, None)
    assert direct.measures(exchange, reads, body, request_body) in (None, measures)
