"""The form of declarations: what each key means, which mistakes are refused, and that no declaration can do harm."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.cases import each_case
from tests.support.declared_wires import event
from tests.support.decoding import derived
from wiretape.recorder.decode.declared.compiler import compile, version_of
from wiretape.recorder.decode.declared.table import DeclarationError
from wiretape.recorder.decode.dialects import registry
from wiretape.recorder.decode.exchange import Headers
from wiretape.recorder.decode.metrics import Measures

PARTS = {
    "name": "parts",
    "match": {"path": "/v2/parts"},
    "key": "kind",
    "text": {"on": "part", "at": "value"},
    "end": {"on": "last"},
}


def measured(table: dict[str, Any], *payloads: Any, **facts: Any) -> Measures:
    body = b"".join(payload if isinstance(payload, bytes) else event(payload) for payload in payloads)
    return derived(body, dialects=json.dumps([table]), **{"path": "/v2/parts", **facts})


def test_five_keys_decode_a_stream() -> None:
    measures = measured(
        PARTS, {"kind": "part", "value": "Let me "}, {"kind": "part", "value": "see."}, {"kind": "last"}
    )
    assert (measures.api, measures.outcome, measures.content, measures.operation) == (
        "parts",
        "complete",
        "Let me see.",
        "chat",
    )
    assert (measures.ttft_ns, measures.dialect_version) == (100_000_000, version_of(PARTS))
    assert {"no_usage", "no_finish", "no_done"}.isdisjoint(measures.flags)
    assert measured(PARTS, {"kind": "part", "value": "Let me "}).outcome == "truncated"


def test_a_version_does_not_depend_on_the_values_order() -> None:
    assert version_of(PARTS) == version_of(dict(reversed(PARTS.items())))
    assert version_of(PARTS) != version_of(PARTS | {"operation": "other"})


@each_case(
    ("match", "facts", "is_known"),
    [
        ({"path": "/parts"}, {"path": "/v1/parts?stream=1"}, True),
        ({"path": "/parts"}, {"path": "/v1/partsof"}, False),
        ({"path": ["/a", "/v1/*/parts"]}, {"path": "/x/v1/7/parts/"}, True),
        ({"path": "/x:*"}, {"path": "/v1/x:stream"}, True),
        ({"path": "/v1/parts"}, {"path": "/parts"}, False),
        ({"method": "GET", "path": "/parts"}, {"path": "/parts", "method": "GET"}, True),
        ({"method": "GET", "path": "/parts"}, {"path": "/parts"}, False),
        ({"header": "X-Parts"}, {"headers": Headers(response=(("x-parts", "1"),))}, True),
        ({"header": {"x-parts": "v*"}}, {"headers": Headers(response=(("x-parts", "v1"),))}, True),
        ({"header": {"x-parts": "v2"}}, {"headers": Headers(response=(("x-parts", "v1"),))}, False),
        ({"request-header": "x-parts"}, {"headers": Headers(response=(("x-parts", "v1"),))}, False),
        ({"request": {"form": "parts"}}, {"request": b'{"form":"parts"}'}, True),
        ({"request": {"form": ["a", "b"]}}, {"request": b'{"form":"parts"}'}, False),
        ({"request": {"form": "parts"}}, {"request": b"no JSON"}, False),
        ({"request": {"form": "parts"}}, {}, False),
        ({"first": {"kind": "part"}}, {}, True),
        ({"first": {"kind": "other"}}, {}, False),
        ([{"first": {"kind": "other"}}, {"path": "/v2/parts"}], {}, True),
        ({"first": {"kind": "part"}, "path": "/elsewhere"}, {}, False),
    ],
)
def test_a_wire_is_recognised_by_headers_or_first_event(match: Any, facts: Any, is_known: bool) -> None:
    measures = measured(PARTS | {"match": match}, {"kind": "part", "value": "Hi"}, {"kind": "last"}, **facts)
    assert (measures.api, measures.content) == (("parts", "Hi") if is_known else ("unknown", None))


def test_a_paths_wire_goes_first_unless_a_header_decides() -> None:
    chat = b'data: {"kind":"part","value":"no","choices":[{"delta":{"content":"Hi"},"finish_reason":"stop"}]}\n\n'
    by_path, by_header = {"path": "/chat/completions"}, {"header": "x-parts"}
    headers = Headers(response=(("x-parts", "1"),))
    facts = {"path": "/v1/chat/completions", "headers": headers}
    assert measured(PARTS | {"match": by_path}, chat, **facts).api == "openai.chat"
    assert measured(PARTS | {"match": by_header}, chat, **facts).content == "no"


@each_case(
    ("more", "payloads", "expected"),
    [
        ({"text": {"on": "part", "at": "a | b[].c"}}, [{"kind": "part", "b": [{"c": "x"}, {"c": "y"}]}],
         {"content": "xy"}),
        ({"text": {"on": "part", "at": "b[?t=1].c"}}, [{"kind": "part", "b": {"t": "1", "c": "x"}}], {"content": "x"}),
        ({"text": {"on": "part", "at": "b[0]"}}, [{"kind": "part", "b": ["x", "y"]}], {"content": "x"}),
        ({"text": {"on": "part", "at": "t", "so-far": "id"}},
         [{"kind": "part", "id": 1, "t": "a"}, {"kind": "part", "id": 1, "t": "ab"},
          {"kind": "part", "id": 2, "t": "c"}], {"content": "abc"}),
        ({"text": {"on": "part", "at": "t", "so-far": "id"}},
         [{"kind": "part", "id": 1, "t": "a"}, {"kind": "part", "id": 1, "t": "b"}], {"content": "ab"}),
        ({"text": {"on": "part", "at": "t", "so-far": "id"}},
         [{"kind": "part", "t": "ab"}, {"kind": "part", "t": "c"}, {"kind": "part", "t": "d"},
          {"kind": "part", "t": "abcde"}, {"kind": "part", "t": "abcdefg"}], {"content": "abcdefg"}),
        ({"tool": {"name": "n", "whole": "w"}}, [{"n": "a", "w": {"x": 1}}, {"n": "b", "w": {"x": 2}}],
         {"tool_calls": [{"index": 0, "id": None, "name": "a", "arguments": '{"x":1}'},
                         {"index": 1, "id": None, "name": "b", "arguments": '{"x":2}'}]}),
        ({"text": [{"on": "part", "at": "t"}, {"on": "last", "at": "all", "if-none": True}]},
         [{"kind": "part", "t": "a"}, {"kind": "last", "all": "a"}], {"content": "a"}),
        ({"text": {"at": "t", "when": {"role": "ai"}}}, [{"t": "a", "role": "ai"}, {"t": "b"}], {"content": "a"}),
        ({"text": "t", "only": {"role": ["ai", "bot"]}}, [{"t": "a", "role": "ai"}, {"t": "b"}], {"content": "a"}),
        ({"text": "t", "root": "data"}, [{"data": {"t": "a"}}], {"content": "a"}),
        ({"text": "t", "root": {"part": "data"}}, [{"kind": "part", "data": {"t": "a"}}, {"t": "b"}],
         {"content": "ab"}),
        ({"usage": {"input": "u.in", "output": "sum u.out[]"}}, [{"u": {"in": 3, "out": [1, 2]}}],
         {"input_tokens": 3, "output_tokens": 3, "total_tokens": 6}),
        ({"usage": {"at": "u", "per": "id", "output": "n"}},
         [{"id": "a", "u": {"n": 1}}, {"id": "b", "u": {"n": 5}}, {"id": "a", "u": {"n": 2}}],
         {"output_tokens": 7, "input_tokens": None}),
        ({"usage": {"at": "u", "per": "id", "output": "n", "reasoning": "r"}},
         [{"id": "a", "u": {"n": 1, "r": 4}}, {"id": "a", "u": {"n": 2}}, {"id": "b", "u": {"r": 1}}],
         {"output_tokens": 2, "reasoning_tokens": 5}),
        ({"usage": {"output": "u"}}, [{"u": True}, {"u": "4"}, {"u": -1}, {"u": 1.0}], {"output_tokens": 1}),
        ({"error": {"when": "bad", "code": "bad.no", "message": "bad.why"}}, [{"bad": {"no": 7, "why": "full"}}],
         {"error_code": "7", "error_message": "full", "outcome": "error_event"}),
        ({"finish": "f", "error": {"finish": ["failed"], "message": "why"}}, [{"f": "failed", "why": "full"}],
         {"error_code": "failed", "error_message": "full", "finish_reason": "failed"}),
        ({"finish": "f", "end": {"finish": ["ok"]}}, [{"f": "ok"}], {"outcome": "complete", "finish_reason": "ok"}),
        ({"finish": "f", "finish-ends": True, "end": []}, [{"f": "any"}], {"outcome": "complete"}),
        ({"end": [], "eof": True}, [{"kind": "part", "value": "a"}], {"outcome": "complete"}),
        ({"end": [], "done": True}, [{"kind": "part", "value": "a"}, b"data: [DONE]\n\n"], {"outcome": "complete"}),
        ({"abort": {"on": "stop"}}, [{"kind": "part", "value": "a"}, {"kind": "stop"}, {"kind": "last"}],
         {"outcome": "truncated"}),
        ({"run": {"on": "call"}, "result": {"on": "told"}},
         [{"kind": "call"}, {"kind": "told"}, {"kind": "part", "value": "a"}],
         {"tool_spans": [[100_000_000, 100_000_000]]}),
        ({"audio": {"on": "part", "at": "value"}, "text": []}, [{"kind": "part", "value": "a"}],
         {"content": None, "output_chunks": 1}),
        ({"model": "m", "id": "i"}, [{"kind": "part", "m": "x", "i": "y"}],
         {"response_model": "x", "response_id": "y"}),
        ({"model": ["m", "n"], "id": ["i", "j"]}, [{"kind": "part", "m": "x", "i": "y"}],
         {"response_model": "x", "response_id": "y"}),
        ({"attributes": {"a.b": "n", "q": "request.z", "h": "response-header:x-h"}},
         [{"kind": "part", "n": 1}, {"n": 2}],
         {"attributes": {"a.b": 2, "q": [1], "h": "v"}}),
    ],
)  # fmt: skip
def test_each_key_has_its_meaning(more: Any, payloads: list[Any], expected: dict[str, Any]) -> None:
    facts = {"request": b'{"z":[1]}', "headers": Headers(response=(("x-h", "v"),))}
    table = PARTS | {"match": {"request": {"z": "*"}}} | more
    measures = measured({name: value for name, value in table.items() if value != []}, *payloads, **facts)
    assert {name: getattr(measures, name) for name in expected} == expected


@each_case(
    "more",
    [
        {"key": "value", "text": "value", "end": {"on": "[END]"}},
        {"text": "value", "end": {"when": {"value": "[END]"}}},
        {"text": "value", "finish": {"at": "value", "when": {"value": "[END]"}}, "end": {"finish": ["[END]"]}},
        {"text": {"at": ".", "when": {".": "*"}}, "root": "value", "end": {"when": {".": "[END]"}}},
    ],
)
def test_an_ending_text_ends_a_run_of_texts(more: dict[str, Any]) -> None:
    table = {name: value for name, value in PARTS.items() if name != "key"} | more
    measures = measured(
        table, *({"kind": "part", "value": f"w{no} "} for no in range(40)), {"kind": "part", "value": "[END]"}
    )
    assert (measures.api, measures.outcome) == ("parts", "complete")


def test_built_in_events_keep_indexes_in_declared_streams() -> None:
    calls = [
        {"type": "content_block_start", "index": at, "content_block": {"type": "tool_use", "id": f"t{at}", "name": "n"}}
        for at in range(2)
    ]
    arguments = [
        {"type": "content_block_delta", "index": at, "delta": {"type": "input_json_delta", "partial_json": "ab"[at]}}
        for _ in range(20) for at in range(2)
    ]  # fmt: skip
    measures = measured(PARTS, *calls, *arguments, {"type": "message_stop"})
    assert [call["arguments"] for call in measures.tool_calls or ()] == ["a" * 20, "b" * 20]


def test_the_streams_event_names_may_be_cut_at_signs() -> None:
    table = PARTS | {"key": "event: before |", "text": {"on": "part", "at": "[0].t"}}
    measures = measured(table, event([{"t": "a"}], "part|7"), event([{"t": "b"}], "other"), event(None, "last"))
    assert (measures.content, measures.outcome, "malformed" in measures.flags) == ("a", "complete", False)


@each_case(
    ("change", "key", "message"),
    [
        ({"name": None}, (), "no name"),
        ({"name": 7}, ("name",), "name is a number: it must be a text"),
        ({"name": "Parts"}, ("name",), "small letters"),
        ({"name": "openai.chat"}, ("name",), "built-in"),
        ({"name": "grpc"}, ("name",), "built-in"),
        ({"match": None}, (), "no match"),
        ({"match": {}}, ("match",), "no condition"),
        ({"match": "/parts"}, ("match",), "match is a text: it must be a table"),
        ({"match": {"path": "parts"}}, ("match", "path"), "is no path"),
        ({"match": {"path": "/(a+)+$"}}, ("match", "path"), "no regular expressions"),
        ({"match": {"path": "/a*b*"}}, ("match", "path"), "more than one *"),
        ({"match": [{"path": "/a"}, {"first": []}]}, ("match", 1, "first"), "first is a list"),
        ({"match": {"first": {"a": {}}}}, ("match", "first"), "first has for a a table"),
        ({"operation": ["chat"]}, ("operation",), "must be one of chat, "),
        ({"operation": "chatter"}, ("operation",), "must be one of chat, "),
        ({"key": ["a"]}, ("key",), "key is a list"),
        ({"key": None}, (), "key must say where"),
        ({"text": {"on": "part"}}, ("text",), "at is missing"),
        ({"text": {"at": "a..b"}}, ("text", "at"), "is no path"),
        ({"text": {"at": "a[x]"}}, ("text", "at"), "is no path"),
        ({"text": {"at": ".".join("a" * 17)}}, ("text", "at"), "1 to 16 steps"),
        ({"text": {"at": "a" * 201}}, ("text", "at"), "very long text"),
        ({"text": [{"at": "a"}, 7]}, ("text", 1), "text is a number"),
        ({"text": [{"at": "a"}] * 101}, ("text",), "more than 100"),
        ({"text": {"at": "a", "if-none": "yes"}}, ("text", "if-none"), "must be true or false"),
        ({"usage": {"at": "u"}}, ("usage",), "names no count"),
        ({"finish": {"on": "last"}}, ("finish",), "at is missing"),
        ({"done": 1}, ("done",), "done is a number"),
        ({"attributes": {"a": "request.x | b"}}, ("attributes",), "mixes the request with events"),
        ({"attributes": {"a": "b | request.x"}}, ("attributes",), "mixes the request with events"),
        ({"match": {"first": {"a": []}}}, ("match", "first"), "first has for a an empty list"),
        ({"attributes": ["a"]}, ("attributes",), "must be a table"),
        ({"eof": "yes"}, ("eof",), "eof is a text"),
        ({"name": "x" * 65}, ("name",), "at most 64"),
    ],
)
def test_a_mistake_is_refused_with_its_key_and_reason(change: Any, key: Any, message: str) -> None:
    table = {name: value for name, value in (PARTS | change).items() if value is not None}
    with pytest.raises(DeclarationError) as raised:
        compile(table, [*registry.BY_API])
    assert raised.value.key == key
    assert message in str(raised.value)


def test_an_unknown_key_is_ignored_and_listed() -> None:
    message = compile(PARTS | {"colour": "red", "text": {"on": "part", "at": "value", "tint": 1}})
    assert message.ignored == (("text", "tint"), ("colour",))


def test_a_changed_tapes_faulty_declaration_is_left_out() -> None:
    deep = f'[{{"name": "a", "match": {{"path": "/a"}}, "deep": {"[" * 900}{"]" * 900}}}]'
    assert {dialect.api for dialect in registry.declared(deep)} >= {dialect.api for dialect in registry.shipped()}
    for declarations in (
        "[",
        "7",
        7,
        1.5,
        '[{"name": "a", "match": {"path": "/a"}, "operation": []}]',
        '[7, {"name": 1}, {"name": "a"}]',
        "[" * 100_000,
        None,
    ):
        assert [dialect.api for dialect in registry.declared(declarations)] == [
            dialect.api for dialect in registry.shipped()
        ]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
    | st.sampled_from(["part", "last", "text-delta", "*"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["kind", "value", "type", "delta", "id", "content", "result", "error", "usage", "parts"]),
        inner, max_size=4),
    max_leaves=8,
)  # fmt: skip
TABLES = st.dictionaries(
    st.sampled_from([
        *PARTS, "tool", "usage", "finish", "error", "abort", "answer", "attributes", "root", "eof", "operation", "only",
        "run", "result", "model", "id", "audio", "reasoning", "done", "finish-ends", "turn", "final",
    ]),
    VALUES, max_size=5,
)  # fmt: skip


@given(table=TABLES, payloads=st.lists(VALUES, max_size=4))
def test_no_declaration_or_stream_raises_another_error(table: Any, payloads: list[Any]) -> None:
    for more in ({}, PARTS):
        try:
            dialect = compile(more | table)
        except DeclarationError:
            continue
        measured(dict(dialect.declaration), *payloads, **{"request": b"{}"})


@given(payloads=st.lists(VALUES, max_size=5))
def test_every_dialect_of_the_package_reads_any_json(payloads: list[Any]) -> None:
    body = b"".join(map(event, payloads))
    for path in ("/runs/stream", "/message:stream", "/audio/speech", "/completion", "/generate_stream", "/x"):
        for headers in (
            Headers(),
            Headers((("mcp-method", "x"),)),
            Headers((), (("x-vercel-ai-ui-message-stream", "v1"),)),
        ):
            assert derived(body, path=path, headers=headers).outcome in ("complete", "truncated", "error_event")


def many(count: int, at: str = "v") -> dict[str, Any]:
    rules = [{"at": at}] * count
    return {"name": "own", "match": {"path": "/v2/parts"}, "text": rules, "reasoning": rules}


def test_texts_from_one_bodys_rules_share_a_limit() -> None:
    body = event({"v": "x" * 1000}) * 2000
    for count, is_cut in ((1, False), (100, True)):
        measures = derived(body, path="/v2/parts", dialects=json.dumps([many(count)]))
        assert ("decode_limit" in measures.flags) is is_cut
        assert len(measures.content or "") < 3 * len(body) + (2 << 20)


def test_rules_are_work_that_is_limited() -> None:
    large = event({"l": [{"y": 1}] * 100_000})
    measures = derived(large, path="/v2/parts", dialects=json.dumps([many(100, " | ".join(["l[].z"] * 24))]))
    assert "decode_limit" in measures.flags


TURNS = PARTS | {
    "operation": "agent_session",
    "turn": {"on": "start", "ends": ["stop", "gone"]},
    "tool": {"on": "call", "id": "id", "key": "index", "name": "name", "args": "args"},
    "run": {"on": "call"},
    "result": {"on": "result"},
    "final": {"on": "whole", "at": "value"},
    "finish": {"on": "stop", "at": "why"},
    "usage": {"on": "count", "per": "request", "input": "in", "output": "out"},
    "error": [{"on": "stop", "finish": "failed"}, {"on": "trouble", "code": "code"}],
    "abort": {"on": "gone"},
}


def turns_of(*payloads: dict[str, Any], **more: Any) -> list[tuple[Any, ...]]:
    names = ("text", "outcome", "finish_reason", "error_code", "input_tokens", "output_tokens")
    return [tuple(turn.get(name) for name in names) for turn in measured(TURNS | more, *payloads).turns or ()]


def part(value: str) -> dict[str, Any]:
    return {"kind": "part", "value": value}


START, STOP = {"kind": "start"}, {"kind": "stop", "why": "ok"}


@pytest.mark.parametrize(
    ("payloads", "expected"),
    [
        (
            [START, part("a"), STOP, START, part("b"), STOP],
            [("a", "complete", "ok", None), ("b", "complete", "ok", None)],
        ),
        ([START, part("a"), {"kind": "stop", "why": "failed"}], [("a", "error", "failed", "failed")]),
        ([START, part("a"), {"kind": "gone"}], [("a", "cancelled", None, None)]),
        ([START, part("a"), {"kind": "trouble", "code": 7}], [("a", "error", None, "7")]),
        ([START, part("a"), {"kind": "trouble", "code": 7}, part("b"), STOP], [("ab", "complete", "ok", None)]),
        ([START, part("a")], [("a", "truncated", None, None)]),
        ([STOP, START, STOP, STOP], [(None, "complete", "ok", None)]),
        ([START, part("a"), {"kind": "whole", "value": "abc"}, part("d"), STOP], [("abcd", "complete", "ok", None)]),
        ([START, part("x"), {"kind": "whole", "value": "abc"}, STOP], [("abc", "complete", "ok", None)]),
    ],
)
def test_a_declaration_tells_turns_apart(payloads: list[Any], expected: list[Any]) -> None:
    assert [turn[:4] for turn in turns_of(*payloads)] == expected


def test_a_turn_counts_its_own_usage() -> None:
    first, second = ({"kind": "count", "request": number, "in": 3, "out": 2} for number in "ab")
    turns = turns_of(START, first, second, STOP, START, first, STOP)
    assert [turn[4:] for turn in turns] == [(6, 4), (3, 2)]
    assert measured(TURNS, START, first, STOP, START, first, STOP).output_tokens == 4


def test_a_turn_named_by_events_may_overlap_another() -> None:
    by = {"turn": {"on": "start", "ends": "stop", "by": "turn"}}
    events = [START, part("a"), {"kind": "stop"}]
    mixed = [event | {"turn": id} for event in events for id in ("t1", "t2")]
    assert [turn[:2] for turn in turns_of(*mixed, **by)] == [("a", "complete"), ("a", "complete")]


def test_a_turns_call_may_come_in_pieces() -> None:
    call = {"kind": "call", "index": 0}
    measures = measured(
        TURNS,
        START,
        call | {"id": "c1", "name": "lamp", "args": '{"on":'},
        call | {"args": "1}"},
        {"kind": "result"},
        STOP,
    )
    (made,) = measures.tool_calls or ()
    assert (made["id"], made["name"], made["arguments"], measures.outcome) == ("c1", "lamp", '{"on":1}', "complete")


def test_turns_need_a_beginning_and_an_end() -> None:
    with pytest.raises(DeclarationError, match="turn needs on and ends"):
        compile(PARTS | {"turn": {"on": "start"}})
