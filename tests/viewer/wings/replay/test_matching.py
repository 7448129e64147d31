"""Which recording answers a request."""

import gzip
import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any

import brotli
import pytest

from wiretape.recorder.decode.exchange import Operation
from wiretape.recorder.tape.masking import SECRETS, Rules
from wiretape.viewer.source.replayed import ExchangeHead
from wiretape.viewer.wings.replay import comparing, matching
from wiretape.viewer.wings.replay.matching import Library, Miss, Mode, ReplayRequest

CHAT = "/v1/chat/completions"
OPENAI, ROUTER = "https://api.openai.com", "https://openrouter.ai/api"


def body(content: str = "hi", model: str = "m", **more: Any) -> bytes:
    return json.dumps({"model": model, "messages": [{"role": "user", "content": content}], **more}).encode()


def library(
    *recorded: tuple[str, str, bytes | None],
    mode: Mode = "request",
    ignored: Iterable[str] = (),
    method: str = "POST",
    redaction: Rules = SECRETS,
    strict: bool = False,
    operation: Operation | None = "chat",
) -> Library:
    """Make a library of recordings with the ids aaaa1, aaaa2, …: of each the upstream, the path, the body."""
    bodies = {no: request for no, (_, _, request) in enumerate(recorded, 1)}
    recordings = Library(
        mode, lambda heads: [bodies[head.no] for head in heads], tuple(ignored), redaction=redaction, strict=strict
    )
    models = [comparing.read_body(request or b"").model for _, _, request in recorded]
    recordings.add([
        ExchangeHead(no, f"aaaa{no}", method, path, upstream, models[no - 1], 200, "complete", "chunked", "",
                     request_sha256=hashlib.sha256(request or b"").hexdigest(), operation=operation)
        for no, (upstream, path, request) in enumerate(recorded, 1)
    ])  # fmt: skip
    return recordings


def step(library: Library, request: bytes, target: str = CHAT, method: str = "POST") -> str | None:
    """Return the step that finds the recording of a request; None if there is none."""
    found = library.find(ReplayRequest(method, target.encode(), request))
    return None if isinstance(found, Miss) else found.step


def match(library: Library, target: str, request: bytes = b"", method: str = "POST", id: str | None = None) -> str:
    """Return the id of the exchange that answers a request, or the reason why none does."""
    match = library.find(ReplayRequest(method, target.encode(), request, id))
    return match.message if isinstance(match, Miss) else match.head.id


def test_bodies_are_the_same_by_their_values() -> None:
    recorded = library((OPENAI, CHAT, b'{"model": "m", "n": 1, "messages": []}'))
    assert match(recorded, CHAT, b'{"messages":[],"n":1,"model":"m"}') == "aaaa1"
    assert "n: 1 recorded, true asked" in match(recorded, CHAT, b'{"messages":[],"n":true,"model":"m"}')


@pytest.mark.parametrize(
    ("body_", "other_body"),
    [
        (b'{"n": 1.0, "t": 0.70, "m": 1e3}', b'{"t":0.7,"m":1000,"n":1}'),
        (b'{"s": "\\u00e9\\/"}', '\ufeff{"s":"é/"}'.encode()),
        (b'{"n": NaN, "s": "\\ud83d\\u00e9"}', '{"s":"\\ud83dé","n":NaN}'.encode()),
        (b"--a1\r\nx: 1\r\n\r\nfile\r\n--a1--\r\n", b"--b22\r\nx: 1\r\n\r\nfile\r\n--b22--\r\n"),
        (b"[" * 990 + b"]" * 990, b"[" * 990 + b"]" * 990),
    ],
    ids=["numbers", "escapes", "no JSON by the standard", "boundaries", "depth"],
)
def test_forms_of_the_same_body_are_the_same(body_: bytes, other_body: bytes) -> None:
    assert comparing.read_body(body_).digest == comparing.read_body(other_body).digest
    assert comparing.read_body(body_).digest != comparing.read_body(other_body + b"x").digest


def test_a_miss_names_the_nearest_recording_and_what_differs() -> None:
    recorded = library((OPENAI, CHAT, body("one", model="x")), (OPENAI, CHAT, body("two")))
    missed = recorded.find(ReplayRequest("POST", CHAT.encode(), body("too")))
    assert isinstance(missed, Miss)
    assert (missed.nearest, missed.differs) == ("aaaa2", ("messages[0].content",))
    assert missed.message.endswith('messages[0].content: "two" recorded, "too" asked')
    assert "differs in its path: POST /v1/chat/completions" in match(recorded, "/v1/chat/complete", body())
    assert "tools: nothing recorded, [] asked" in match(recorded, CHAT, body("two", tools=[]))


def test_another_query_is_nearer_than_another_path() -> None:
    recorded = library((OPENAI, CHAT, body()), (OPENAI, "/v1/messages", body()))
    assert f"the nearest is aaaa1, which differs in its path: POST {CHAT}" in match(recorded, f"{CHAT}?a=b", body())


def test_a_field_can_be_left_out_of_the_comparison() -> None:
    recorded = library((OPENAI, CHAT, body(metadata={"at": 1, "who": "a"})), ignored=["user", "metadata.at"])
    assert match(recorded, CHAT, body(user="u", metadata={"at": 2, "who": "a"})) == "aaaa1"
    assert "metadata.who" in match(recorded, CHAT, body(metadata={"at": 1, "who": "b"}))


MESSAGES, RESPONSES, CODE_ASSIST = "/v1/messages", "/v1/responses", "/v1internal:streamGenerateContent"
CONVERSE = "/model/m/converse-stream"
BILLING = "x-anthropic-billing-header: cc_version=2.1; cch=%s;"


def call(id: str, result_id: str | None = None, **more: Any) -> dict[str, Any]:
    """Return the fields of a chat in which a tool was called."""
    calls = [{"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    messages = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": id if result_id is None else result_id, "content": "done"},
    ]
    return {"messages": messages, **more}


def anthropic_call(id: str) -> dict[str, Any]:
    return {
        "messages": [
            {"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": "f", "input": {"id": "x"}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": "done"}]},
        ]
    }


EQUAL = {
    "a key of a cache": (CHAT, {"prompt_cache_key": "a"}, {"prompt_cache_key": "b", "user": "u"}),
    "usage": (CHAT, {"stream_options": {"include_usage": True}}, {}),
    "Codex": (RESPONSES, {"client_metadata": {"turn": "1"}}, {"client_metadata": {"turn": "2"}}),
    "ids of items": (
        RESPONSES,
        {"input": [{"type": "message", "id": "msg_1", "metadata": {"turn_id": "1"}, "role": "user", "content": "hi"}]},
        {"input": [{"type": "message", "role": "user", "content": "hi"}]},
    ),
    "Claude Code": (
        MESSAGES,
        {"metadata": {"user_id": "a"}, "system": [{"type": "text", "text": BILLING % 1}], "diagnostics": {"x": 1}},
        {"metadata": {"user_id": "b"}, "system": [{"type": "text", "text": BILLING % 2}]},
    ),
    "a header in a text": (MESSAGES, {"system": f"{BILLING % 1}\nBe."}, {"system": "Be."}),
    "a model of Anthropic's": (
        "/model/m/invoke",
        {"anthropic_version": "v", "metadata": {"user_id": "a"}},
        {"anthropic_version": "v"},
    ),
    "marks of a cache": (
        MESSAGES,
        {"tools": [{"name": "f", "cache_control": {"type": "ephemeral"}}], "cache_control": {}},
        {"tools": [{"name": "f"}]},
    ),
    "a cache point": (CONVERSE, {"system": [{"text": "Be."}, {"cachePoint": {}}]}, {"system": [{"text": "Be."}]}),
    "a clock": (
        CHAT,
        {"messages": ["<current_datetime>1</current_datetime>hi"]},
        {"messages": ["<current_datetime>2</current_datetime>hi"]},
    ),
    "a process": (
        CODE_ASSIST,
        {"request": {"contents": [{"functionResponse": {"response": {"output": "ok\nProcess Group PGID: 17\nx"}}}]}},
        {"request": {"contents": [{"functionResponse": {"response": {"output": "ok\nProcess Group PGID: 8\nx"}}}]}},
    ),
    "a tool of Codex": (
        RESPONSES,
        {"input": [{"output": "Chunk ID: 3be672\nWall time: 0.0131 seconds\nok"}]},
        {"input": [{"output": "Chunk ID: a\nWall time: 1 seconds\nok"}]},
    ),
    "qwen-code": (CHAT, {"metadata": {"sessionId": "1", "promptId": "1"}}, {"metadata": {"sessionId": "2"}}),
    "turns": (
        RESPONSES,
        {"input": [{"content": "hi", "internal_chat_message_metadata_passthrough": {"turn_id": "1"}}]},
        {"input": [{"content": "hi"}]},
    ),
    "Gemini CLI": (
        CODE_ASSIST,
        {"user_prompt_id": "1", "request": {"contents": [], "session_id": "1"}},
        {"user_prompt_id": "2", "request": {"contents": [], "session_id": "2"}},
    ),
    "logs": (CONVERSE, {"requestMetadata": {"a": "1"}}, {}),
    "memory": ("/api/chat", {"keep_alive": "5m"}, {}),
    "groups": (CHAT, {"session_id": "1", "trace": {}}, {"session_id": "2"}),
    "ids of calls": (CHAT, call("call_a"), call("call_b")),
    "ids of Anthropic's calls": (MESSAGES, anthropic_call("toolu_a"), anthropic_call("toolu_b")),
}


@pytest.mark.parametrize(("path", "recorded", "asked"), EQUAL.values(), ids=EQUAL)
def test_what_changes_no_answer_is_left_out(path: str, recorded: dict[str, Any], asked: dict[str, Any]) -> None:
    one, other = json.dumps(recorded).encode(), json.dumps(asked).encode()
    assert [step(library((OPENAI, path, one)), body, path) for body in (one, other)] == ["equal", "fields"]
    assert step(library((OPENAI, path, other)), one, path) == "fields"
    assert step(library((OPENAI, path, one), strict=True, mode="last"), other, path) is None


OTHER = {
    "a parameter": (CHAT, {"temperature": 0}, {"temperature": 1}),
    "metadata": (CHAT, {"metadata": {"user_id": "a"}}, {"metadata": {"user_id": "b"}}),
    "a reference": (
        RESPONSES,
        {"input": [{"type": "item_reference", "id": "a"}, {"id": "x"}]},
        {"input": [{"type": "item_reference", "id": "a"}, {"id": "y"}]},
    ),
    "another call's result": (CHAT, call("a"), call("a", "b")),
    "arguments": (
        MESSAGES,
        {"messages": [{"content": [{"type": "tool_use", "id": "1", "input": {"cache_control": {"a": 1}}}]}]},
        {"messages": [{"content": [{"type": "tool_use", "id": "1", "input": {"cache_control": {"a": 2}}}]}]},
    ),
    "another API's field": (MESSAGES, {"keep_alive": 1}, {"keep_alive": 2}),
}


@pytest.mark.parametrize(("path", "recorded", "asked"), OTHER.values(), ids=OTHER)
def test_what_changes_an_answer_counts(path: str, recorded: dict[str, Any], asked: dict[str, Any]) -> None:
    assert step(library((OPENAI, path, json.dumps(recorded).encode())), json.dumps(asked).encode(), path) is None


def dialogue(*texts: str, **more: Any) -> bytes:
    roles = ("user", "assistant")
    return body(messages=[{"role": roles[n % 2], "content": text} for n, text in enumerate(texts)], **more)


def test_an_equal_last_message_answers_if_asked() -> None:
    recorded = [(OPENAI, CHAT, dialogue(*texts)) for texts in (("x", "y", "go"), ("a", "b", "c", "d", "go"), ("go",))]
    asked = dialogue("other", "y", "go", tools=[{"type": "function", "function": {"name": "f"}}])
    assert step(library(*recorded), asked) is None
    last = library(*recorded, mode="last")
    match = last.find(ReplayRequest("POST", CHAT.encode(), asked))
    assert isinstance(match, matching.Match)
    assert (match.head.id, match.step, match.differs) == ("aaaa1", "last", ("messages[0].content", "tools"))
    assert match.notice == ("answered by aaaa1, whose last message is equal; differs in messages[0].content, tools")
    longer = [last.find(ReplayRequest("POST", CHAT.encode(), dialogue(*"1234567", "", "go"))) for _ in range(4)]
    ids = [found.head.id for found in longer if isinstance(found, matching.Match)]
    assert ids == ["aaaa2", "aaaa3", "aaaa1", "aaaa2"]
    others = dialogue("x", "y", "stop"), dialogue("z", "y", "go", temperature=1), dialogue("z", "y", "go", model="n")
    for other in (*others, dialogue("z", "go")):  # the last of these is the model's
        assert step(last, other) is None


def test_the_results_of_tools_are_a_last_message() -> None:
    recorded = library((OPENAI, CHAT, json.dumps(call("a")).encode()), mode="last")
    longer = call("b")
    longer["messages"][:0] = [{"role": "system", "content": "Be."}, *call("earlier")["messages"]]
    assert step(recorded, json.dumps(longer).encode()) == "last"
    longer["messages"][-1]["content"] = "failed"
    assert step(recorded, json.dumps(longer).encode()) is None


def test_elements_of_markup_are_no_last_message() -> None:
    def asked(directory: str, text: str) -> bytes:
        parts = [f"<session_context>in {directory}</session_context>", text]
        return body(messages=[{"role": "user", "content": [{"type": "text", "text": part} for part in parts]}])

    recorded = library((OPENAI, CHAT, asked("a", "go")), mode="last")
    assert [step(recorded, asked("b", text)) for text in ("go", "stop")] == ["last", None]


def test_telemetry_is_answered_by_its_path() -> None:
    recorded = library((OPENAI, "/api/event", b'{"at": 1}'), mode="last", operation="other")
    assert [step(recorded, request, "/api/event") for request in (b'{"at": 2}', b"")] == ["path", "path"]
    assert step(recorded, body(), "/api/event") is None  # it names a model
    embedding = (OPENAI, "/v1/embeddings", b'{"model": "m", "input": ["a", "z"]}')
    assert step(library(embedding, mode="last", operation="embeddings"), b'{"model": "m", "input": ["b", "z"]}',
                "/v1/embeddings") is None  # fmt: skip


def test_the_nearest_recording_has_the_longest_equal_beginning() -> None:
    recorded = [
        (OPENAI, CHAT, dialogue(*"abcde", temperature=1, seed=1)),
        (OPENAI, CHAT, dialogue(*"abcd", "x")),
        (OPENAI, CHAT, dialogue(*"aBcde")),
    ]
    missed = library(*recorded).find(ReplayRequest("POST", CHAT.encode(), dialogue(*"abcde")))
    assert isinstance(missed, Miss)
    assert (missed.nearest, missed.differs) == ("aaaa1", ("temperature", "seed"))
    missed = library(*recorded[1:]).find(ReplayRequest("POST", CHAT.encode(), dialogue(*"abcde", user="u")))
    assert isinstance(missed, Miss)
    assert (missed.nearest, missed.differs) == ("aaaa1", ("messages[4].content",))


@pytest.mark.parametrize("target", [CHAT, f"/openai{CHAT}", "/openai/chat/completions"])
def test_a_path_matches_with_or_without_provider_and_version(target: str) -> None:
    assert match(library((OPENAI, CHAT, body())), target, body()) == "aaaa1"
    assert match(library(("https://api.openai.com/v1", "/chat/completions", body())), target, body()) == "aaaa1"


def test_a_provider_in_the_path_decides_between_recordings() -> None:
    recorded = library((OPENAI, CHAT, body()), (ROUTER, CHAT, body()))
    assert [match(recorded, f"/openrouter{CHAT}", body()) for _ in range(2)] == ["aaaa2", "aaaa2"]
    assert [match(recorded, CHAT, body()) for _ in range(3)] == ["aaaa1", "aaaa2", "aaaa1"]  # in turn


def test_a_private_servers_tape_answers_below_any_provider() -> None:
    recorded = library(("http://127.0.0.1:4711", CHAT, body()))
    assert {match(recorded, prefix + CHAT, body()) for prefix in ("", "/openai", "/groq")} == {"aaaa1"}
    assert match(recorded, f"/nobody{CHAT}", body()).startswith("no recording answers")


def test_any_key_in_the_query_matches() -> None:
    path = "/v1beta/models/gemini-x:generateContent?key=REDACTED:sha256:01234567"
    recorded = library(("https://generativelanguage.googleapis.com", path, b"{}"))
    assert match(recorded, "/gemini/v1beta/models/gemini-x:generateContent?key=AIzaSyOther", b"{}") == "aaaa1"
    assert "differs in its path" in match(recorded, "/gemini/v1beta/models/gemini-y:generateContent?key=k", b"{}")


def test_modes_choose_by_model_in_sequence_or_by_id() -> None:
    three = [(OPENAI, CHAT, body("a")), (OPENAI, CHAT, body("b", model="n")), (OPENAI, "/v1/models", b"")]
    assert match(library(*three, mode="model"), CHAT, body("other", model="n")) == "aaaa2"
    sequence = library(*three, mode="sequence")
    assert [match(sequence, CHAT, body("x")) for _ in range(2)] == ["aaaa1", "aaaa2"]
    assert match(sequence, CHAT, body("x")) == (
        "the sequence is over: 2 recorded for POST /v1/chat/completions, and this is one more"
    )
    assert match(library(*three, mode="random"), CHAT, body("x")) in ("aaaa1", "aaaa2")
    by_id = library(*three, mode="id")
    assert match(by_id, "/anything", id="aaaa3") == "aaaa3"
    assert "several recordings" in match(by_id, CHAT, id="aaaa")
    assert "X-Wiretape-Exchange" in match(by_id, CHAT, body("a"))


def test_a_path_may_name_the_exchange() -> None:
    assert matching.read_target(b"/@aaaa1/v1/chat", None) == (b"/v1/chat", "aaaa1")
    assert matching.read_target(b"/@aaaa1", b"other") == (b"/", "aaaa1")
    assert matching.read_target(b"/v1/chat", b" aaaa2 ") == (b"/v1/chat", "aaaa2")
    assert matching.read_target(b"/@../x", None) == (b"/@../x", None)


def test_an_incompletely_recorded_request_matches_nothing() -> None:
    assert "not on the tape as a whole" in match(library((OPENAI, CHAT, None)), CHAT, body())


def test_a_compressed_request_is_compared_by_what_it_says() -> None:
    twice = brotli.compress(gzip.compress(b"{}"))
    assert comparing.uncoded([(b"content-encoding", b"gzip, br")], twice) == b"{}"
    assert comparing.uncoded([(b"content-encoding", b"gzip"), (b"content-encoding", b"br")], twice) == b"{}"
    assert comparing.uncoded([(b"content-encoding", b"zstd")], b"no frame") == b"no frame"


def test_a_miss_reads_each_body_at_most_twice() -> None:
    numbers = list[int]()

    def bodies_of(heads: Sequence[ExchangeHead]) -> list[bytes]:
        numbers.append(len(heads))
        return [body(str(head.no)) for head in heads]

    many = Library("request", bodies_of)
    many.add([ExchangeHead(no, f"{no:04}", "POST", CHAT, OPENAI, "m", 200, "complete", "end", "") for no in range(500)])
    assert ["nearest" in match(many, CHAT, body(content)) for content in ("x", "y")] == [True, True]
    assert numbers[0] == 500
    assert sum(numbers) <= 2 * 500 + 2 * 50  # plain, masked, and of each miss the nearest
    assert match(many, CHAT, body("321")) == "0321"


def test_of_a_large_body_the_first_differences_are_reported() -> None:
    recorded = library(*[(OPENAI, CHAT, body(f"{n}", many=[n] * 300)) for n in range(3)])
    miss = recorded.find(
        ReplayRequest("POST", CHAT.encode(), body("x", many=list(range(9, 100_000)), more=[[1] * 100]))
    )
    assert isinstance(miss, Miss)
    assert len(miss.differs) == 200
    assert "messages[0].content: " in miss.message
    assert miss.message.endswith(" and many more")
    assert len(miss.message) < 1000


SAME = [
    ("/v1/x?b=2&a=1", "/v1/x?a=1&b=2"),
    ("/v1/models/g%3astream?alt=sse", "/v1/models/g:stream?alt=sse"),
    ("/v1/x?t=a%3ab%2fc", "/v1/x?t=a:b%2Fc"),
    ("/v1/x?t=a+b&t=c", "/v1/x?t=a%20b&t=c"),
    ("/v1/%7euser", "/v1/~user"),
    ("/v1/x?", "/v1/x"),
    ("/v1/x?b=2&key=REDACTED:sha256:01234567", "/v1/x?key=AIzaSyq9Zk3LmN8vXw2RtY7uKpQs1&b=2"),
]


@pytest.mark.parametrize(("recorded", "asked"), SAME)
def test_spelling_of_paths_and_order_of_queries_are_ignored(recorded: str, asked: str) -> None:
    assert match(library((OPENAI, recorded, b"{}")), asked, b"{}") == "aaaa1"
    requests = [ReplayRequest("POST", target.encode(), b"{}") for target in (recorded, asked) if "key" not in target]
    assert len({library((OPENAI, CHAT, b"{}")).key(request) for request in requests}) <= 1


@pytest.mark.parametrize(
    ("recorded", "target"),
    [
        ("/v1/x?t=1&t=2", "/v1/x?t=2&t=1"),
        ("/v1/a%2Fb", "/v1/a/b"),
        ("/v1/x?a=1%26b=2", "/v1/x?a=1&b=2"),
        ("/v1/x?a=%2B", "/v1/x?a=+"),
        ("/v1/x?a=1", "/v1/x?a=2"),
        ("/v1/X", "/v1/x"),
    ],
)
def test_paths_that_say_something_else_are_others(recorded: str, target: str) -> None:
    assert "path" in match(library((OPENAI, recorded, b"{}")), target, b"{}")


KEY, OTHER_KEY = "sk-ant-api03-Zq81LmX0wPvT6yRk92bcDE", "sk-proj-OTHER1234567890abcdefghijklmnop"


@pytest.mark.parametrize(("key", "password"), [(KEY, "hunter2"), ("*" * len(KEY), "*******")])
def test_a_bodys_secret_equals_any_other_without_appearing(key: str, password: str) -> None:
    recordings = library((OPENAI, CHAT, body(f"use\n{key} now", password=password)))
    assert match(recordings, CHAT, body(f"use\n{OTHER_KEY} now", password="longer than that")) == "aaaa1"
    message = match(recordings, CHAT, body(f"take\n{OTHER_KEY} now", password="longer than that"))
    assert "messages[0].content" in message
    assert "OTHER" not in message
    assert "differs in messages[0].content" in match(recordings, CHAT, body("use none now", password=password))


def test_a_rule_makes_what_it_matches_equal() -> None:
    recorded = (OPENAI, CHAT, body("for cust-17"))
    assert match(library(recorded, redaction=Rules(("cust-[0-9]+",))), CHAT, body("for cust-2231")) == "aaaa1"
    assert match(library(recorded), CHAT, body("for cust-2231")) != "aaaa1"
    bare = library((OPENAI, CHAT, body(KEY)), redaction=Rules(secrets=False))
    assert match(bare, CHAT, body(OTHER_KEY)) != "aaaa1"
