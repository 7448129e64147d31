"""Which recording answers a request."""

import gzip
import json
from collections.abc import Iterable, Sequence
from typing import Any

import brotli
import pytest

from wiretape.recorder.tape.masking import SECRETS, Rules
from wiretape.viewer.source.replayed import ExchangeHead
from wiretape.viewer.wings.replay import matching
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
) -> Library:
    """Make a library of recordings with the ids aaaa1, aaaa2, …: of each the upstream, the path, the body."""
    bodies = {no: request for no, (_, _, request) in enumerate(recorded, 1)}
    recordings = Library(mode, lambda heads: [bodies[head.no] for head in heads], tuple(ignored), redaction=redaction)
    models = [matching.read_body(request or b"").model for _, _, request in recorded]
    recordings.add([
        ExchangeHead(no, f"aaaa{no}", method, path, upstream, models[no - 1], 200, "complete", "chunked", "")
        for no, (upstream, path, _) in enumerate(recorded, 1)
    ])  # fmt: skip
    return recordings


def match(library: Library, target: str, request: bytes = b"", method: str = "POST", id: str | None = None) -> str:
    """Return the id of the exchange that answers a request, or the reason why none does."""
    head = library.find(ReplayRequest(method, target.encode(), request, id))
    return head.message if isinstance(head, Miss) else head.id


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
    assert matching.read_body(body_).digest == matching.read_body(other_body).digest
    assert matching.read_body(body_).digest != matching.read_body(other_body + b"x").digest


def test_a_miss_names_the_nearest_recording_and_what_differs() -> None:
    recorded = library((OPENAI, CHAT, body("one", model="x")), (OPENAI, CHAT, body("two")))
    missed = recorded.find(ReplayRequest("POST", CHAT.encode(), body("too")))
    assert isinstance(missed, Miss)
    assert (missed.nearest, missed.differs) == ("aaaa2", ("messages[0].content",))
    assert missed.message.endswith('messages[0].content: "two" recorded, "too" asked')
    assert "differs in its path: POST /v1/chat/completions" in match(recorded, "/v1/chat/complete", body())
    assert "tools: nothing recorded, [] asked" in match(recorded, CHAT, body("two", tools=[]))


def test_a_field_can_be_left_out_of_the_comparison() -> None:
    recorded = library((OPENAI, CHAT, body(metadata={"at": 1, "who": "a"})), ignored=["user", "metadata.at"])
    assert match(recorded, CHAT, body(user="u", metadata={"at": 2, "who": "a"})) == "aaaa1"
    assert "metadata.who" in match(recorded, CHAT, body(metadata={"at": 1, "who": "b"}))


def test_the_key_of_a_cache_makes_no_other_request() -> None:
    recorded = library((OPENAI, CHAT, body(prompt_cache_key="agents-sdk:run:1")))
    assert match(recorded, CHAT, body(prompt_cache_key="agents-sdk:run:2")) == "aaaa1"
    assert match(recorded, CHAT, body()) == "aaaa1"


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
    assert matching.uncoded([(b"content-encoding", b"gzip, br")], twice) == b"{}"
    assert matching.uncoded([(b"content-encoding", b"gzip"), (b"content-encoding", b"br")], twice) == b"{}"
    assert matching.uncoded([(b"content-encoding", b"zstd")], b"no frame") == b"no frame"


def test_a_miss_reads_each_body_once() -> None:
    numbers = list[int]()

    def bodies_of(heads: Sequence[ExchangeHead]) -> list[bytes]:
        numbers.append(len(heads))
        return [body(str(head.no)) for head in heads]

    many = Library("request", bodies_of)
    many.add([ExchangeHead(no, f"{no:04}", "POST", CHAT, OPENAI, "m", 200, "complete", "end", "") for no in range(500)])
    assert ["nearest" in match(many, CHAT, body(content)) for content in ("x", "y")] == [True, True]
    assert numbers[0] == 500
    assert sum(numbers) < 1000
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
