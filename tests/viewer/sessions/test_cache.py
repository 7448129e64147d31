"""The verdict about the cache of each generation, from small requests told by hand."""

import json
from typing import Any

from tests.support.cases import each_case
from wiretape.recorder.decode.elements import Prefix, elements, unpack
from wiretape.viewer.sessions.cache import (
    UNATTRIBUTED,
    Break,
    CacheFigures,
    Prompted,
    Provider,
    figures,
    first_difference,
    provider_of,
)
from wiretape.viewer.sessions.predecessors import Generation

S = 1_000_000_000
MARK = {"cache_control": {"type": "ephemeral"}}
HOUR = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
APIS: dict[Provider, str] = {"anthropic": "anthropic.messages", "openai": "openai.chat", "gemini": "gemini"}


def prefix(body: dict[str, Any], api: str = "anthropic.messages") -> Prefix | None:
    parts = elements(json.dumps(body).encode(), api)
    return unpack(parts and parts.pack())


def request(
    no: int, body: dict[str, Any] | None, at_s: float = 0, provider: Provider = "anthropic", **more: Any
) -> Prompted:
    """Return a generation that asked for this; `more` are its tokens, and fields of `Generation`."""
    its = None if body is None else prefix(body, APIS.get(provider, "ollama"))
    names = ("input", "cached", "model", "succeeded", "drops_attribution")
    known = {name: more.pop(name) for name in names if name in more}
    link = Generation(no, its and its.messages, bool(its and its.by_model), **more)
    values: dict[str, Any] = {"succeeded": not link.failed, "input": 10_000, "cached": 0, "model": "claude-sonnet-4-5"}
    return Prompted(link, its, round(at_s * S), provider=provider, **values | known)


def messages_of(*texts: str, **more: Any) -> dict[str, Any]:
    """Return a body with messages of these texts, of the user and the model in turns; the system prompt is marked."""
    messages = [{"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(texts)]
    system = [{"type": "text", "text": "s", **MARK}]
    return {"model": "m", "tools": [{"name": "a"}, {"name": "b"}], "system": system, "messages": messages} | more


FIRST, NEXT = messages_of("hi"), messages_of("hi", "yes", "more")


def of_two(*, first_facts: dict[str, Any], second_facts: dict[str, Any]) -> CacheFigures:
    first_request = request(1, FIRST, **first_facts)
    return figures([first_request, request(2, **{"body": NEXT, "at_s": 60} | second_facts)])[2]


@each_case(
    "second_facts, first_facts, verdict",
    [
        ({"cached": 8_000}, {}, "hit"),
        ({"cached": 7_999}, {}, "partial"),
        ({"cached": 1}, {}, "partial"),
        ({}, {"input": 1_023}, "too_short"),
        ({"model": "claude-opus-4-5-20251101"}, {"input": 4_095}, "too_short"),
        ({"model": "claude-opus-4-5-20251101"}, {"input": 4_096}, "provider"),
        ({"at_s": 300}, {}, "provider"),
        ({"at_s": 301}, {}, "expired"),
        ({"cached": None}, {}, "unreported"),
        ({"body": None}, {}, "unknown"),
        ({}, {"input": None}, "unknown"),
        ({"cached": 8_000}, {"input": None}, "unknown"),
        ({"body": NEXT | {"tools": []}, "cached": 8_000}, {}, "hit"),
        ({"body": NEXT | {"tools": []}, "cached": 7_999}, {}, "partial"),
        ({"body": NEXT | {"tools": []}}, {}, "prefix_changed"),
        ({"body": NEXT | {"tools": []}}, {"input": 1_023}, "prefix_changed"),
        ({"body": NEXT | {"tools": []}}, {"input": None}, "prefix_changed"),
        ({"body": NEXT | {"tools": []}, "cached": None}, {}, "unreported"),
        ({"body": NEXT | {"tools": []}, "cached": None, "provider": "other"}, {"provider": "other"}, "prefix_changed"),
    ],
)
def test_the_first_true_verdict_counts(second_facts: dict[str, Any], first_facts: dict[str, Any], verdict: str) -> None:
    result = of_two(second_facts=second_facts, first_facts=first_facts)
    assert result.verdict == verdict


def test_the_figures_beside_a_verdict() -> None:
    first, second = figures([request(1, FIRST, 5), request(2, NEXT, 65.5, cached=9_000)]).values()
    assert first == CacheFigures("first")
    assert second == CacheFigures("hit", None, 10_000, 60_500_000_000, 10_000)


def test_a_prompt_without_any_mark_is_unmarked_at_anthropic() -> None:
    plain = {"system": "s"}
    pair = [request(1, messages_of("hi", **plain)), request(2, messages_of("hi", "yes", "more", **plain), 60)]
    assert figures(pair)[2].verdict == "unmarked"
    top = request(2, messages_of("hi", "yes", "more", **plain, **MARK), 60)
    assert figures([pair[0], top])[2].verdict == "provider"


def test_the_time_to_live_is_the_one_asked_for() -> None:
    fixed = {"system": [{"type": "text", "text": "s", **HOUR}]}
    pair = [request(1, messages_of("hi", **fixed)), request(2, messages_of("hi", "yes", "more", **fixed), 3600)]
    assert figures(pair)[2].verdict == "provider"
    assert figures([pair[0], pair[1]._replace(start_ns=3601 * S)])[2].verdict == "expired"


@each_case(
    "provider, more, at_s, verdict",
    [
        ("openai", {}, 3600, "provider"),
        ("openai", {}, 3601, "expired"),
        ("openai", {"prompt_cache_retention": "24h"}, 3601, "provider"),
        ("openai", {"prompt_cache_retention": "24h"}, 86_401, "expired"),
        ("other", {}, 86_401, "provider"),
    ],
)
def test_each_provider_keeps_a_prefix_for_its_documented_time(
    provider: Provider, more: dict[str, Any], at_s: float, verdict: str
) -> None:
    pair_of = [request(no, {"model": "m", "messages": messages_of(*texts)["messages"], **more}, at, provider, model="m")
            for no, texts, at in ((1, ["hi"], 0), (2, ["hi", "yes", "more"], at_s))]  # fmt: skip
    assert figures(pair_of)[2].verdict == verdict


def test_gemini_omits_a_count_that_others_do_not_report() -> None:
    contents = [{"role": "user", "parts": [{"text": text}]} for text in ("a", "b", "c")]
    pair = [
        request(no, {"contents": contents[:no]}, no, "gemini", cached=None, model="gemini-2.5-pro") for no in (1, 2)
    ]
    assert [values.verdict for values in figures(pair).values()] == ["first", "provider"]
    plain = [request(no, {"messages": contents[:no]}, no, "other", cached=None) for no in (1, 2)]
    assert [values.verdict for values in figures(plain).values()] == ["first", "unreported"]
    assert figures([request(1, FIRST, cached=None)])[1].verdict == "unreported"


def test_a_like_sibling_keeps_the_prefix_alive() -> None:
    sibling = request(2, messages_of("another task"), 250)
    result = figures([request(1, FIRST), sibling, request(3, NEXT, 400)])[3]
    assert (result.verdict, result.idle_ns) == ("provider", 150 * S)
    failed = request(2, messages_of("another task"), 250, failed=True)
    assert figures([request(1, FIRST), failed, request(3, NEXT, 400)])[3].verdict == "expired"


def test_a_clock_set_back_makes_no_negative_idle_time() -> None:
    result = figures([request(1, FIRST, 60), request(2, NEXT, 0, cached=10_000)])[2]
    assert (result.verdict, result.idle_ns) == ("hit", 0)


def test_only_generations_that_ended_in_success_have_a_verdict() -> None:
    result = figures([request(1, FIRST), request(2, NEXT, 1, failed=True), request(3, NEXT, 2, cached=10_000)])
    assert [*result] == [1, 3]
    assert result[3].verdict == "hit", "a repetition has the predecessor of the attempt that failed"


@each_case(
    "changed, place, equal",
    [
        ({"model": "n"}, "model", 0),
        ({"tools": [{"name": "a"}, {"name": "c"}]}, "tools[1]", 2),
        ({"tools": [{"name": "a"}]}, "tools[1]", 2),
        ({"tools": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}, "tools[2]", 3),
        ({"tools": []}, "tools[0]", 1),
        ({"system": [{"type": "text", "text": "t"}]}, "system[0]", 3),
        ({"system": "s"}, None, 0),
        ({"system": "t"}, "system[0]", 3),
        ({"thinking": {"type": "enabled"}}, "parameters.thinking", 4),
        ({"tool_choice": {"type": "any"}}, "parameters.tool_choice", 4),
        ({"messages": messages_of("hi", "no", "more")["messages"]}, None, 0),
        ({"messages": messages_of("ho", "yes", "more")["messages"]}, "messages[0]", 4),
        ({"temperature": 1}, None, 0),
    ],
)
def test_the_first_difference_has_its_place(changed: dict[str, Any], place: str | None, equal: int) -> None:
    old, new_prefix = prefix(FIRST), prefix(NEXT | changed)
    assert old is not None
    assert new_prefix is not None
    difference = first_difference(old, new_prefix)
    assert difference == (None if place is None else Break(place, equal))


def test_an_omitted_message_is_the_first_difference() -> None:
    old, new_prefix = prefix(NEXT), prefix(FIRST)
    assert old is not None
    assert new_prefix is not None
    assert first_difference(old, new_prefix) == Break("messages[1]", 5)


def attributed(checksum: str | None, *texts: str, **more: Any) -> dict[str, Any]:
    """Return a body whose system prompt begins as Claude Code's does, with a checksum of the request."""
    text = f"x-anthropic-billing-header: cc_version=2.1.332.782; cc_entrypoint=cli; cch={checksum};"
    head = [] if checksum is None else [{"type": "text", "text": text}]
    return messages_of(*texts, system=[*head, {"type": "text", "text": "You are Claude Code.", **MARK}], **more)


def of_attributed(*checksums: str | None, drops: bool, **more: Any) -> CacheFigures:
    texts = ("hi", "yes", "more")
    session = [request(at + 1, attributed(checksum, *texts[: 2 * at + 1]), at, drops_attribution=drops, **more)
               for at, checksum in enumerate(checksums)]  # fmt: skip
    return figures(session)[len(session)]


@each_case("checksums", [("a62aa", "e27aa"), (None, "e27aa"), ("a62aa", None)])
def test_attribution_is_outside_the_prompt_only_at_anthropic(
    checksums: tuple[str | None, str | None],
) -> None:
    result = of_attributed(*checksums, drops=True)
    assert (result.verdict, result.broken_at, result.remedy) == ("provider", None, None)
    assert (result.idle_ns, result.common_tokens) == (S, 10_000)
    result = of_attributed(*checksums, drops=False)
    assert (result.verdict, result.broken_at, result.remedy) == ("prefix_changed", "system[0]", UNATTRIBUTED)


def test_only_reading_most_tokens_needs_no_remedy() -> None:
    result = of_attributed("a", "b", drops=False, cached=8_000)
    assert (result.verdict, result.broken_at, result.remedy) == ("hit", "system[0]", None)
    result = of_attributed("a", "b", drops=False, cached=7_999)
    assert (result.verdict, result.broken_at, result.remedy) == ("partial", "system[0]", UNATTRIBUTED)


def test_a_difference_after_attribution_is_located_in_the_body() -> None:
    second_body = attributed("b", "hi", "yes", "more")
    second_body["system"][1]["text"] = "You are another."
    result = figures(
        [request(1, attributed("a", "hi"), drops_attribution=True), request(2, second_body, drops_attribution=True)]
    )
    assert (result[2].verdict, result[2].broken_at, result[2].remedy) == ("prefix_changed", "system[1]", None)


def test_attribution_within_a_system_message_is_named_too() -> None:
    def routed(no: int, checksum: str, *texts: str) -> Prompted:
        body = attributed(checksum, *texts)
        system = {"role": "system", "content": body.pop("system")}
        return request(no, body | {"messages": [system, *body["messages"]]}, no, "openai")

    result = figures([routed(1, "a", "hi"), routed(2, "b", "hi", "yes", "more")])[2]
    assert (result.verdict, result.broken_at, result.remedy) == ("prefix_changed", "messages[0]", UNATTRIBUTED)


def test_common_tokens_are_estimated_from_common_bytes() -> None:
    tools = [{"name": "x" * 100}, {"name": "y" * 100}]
    pair = [
        request(1, messages_of("hi", tools=tools), input=1000),
        request(2, messages_of("hi", "yes", "more", tools=tools[:1]), 60),
    ]
    result = figures(pair)[2]
    request_prefix = pair[0].prefix
    assert request_prefix is not None
    sizes = [*request_prefix.lengths()]
    assert (result.verdict, result.broken_at) == ("prefix_changed", "tools[1]")
    assert result.expected_tokens == 1000
    assert result.common_tokens == round(1000 * sum(sizes[:2]) / sum(sizes))


def test_the_named_responses_prompt_precedes_the_input() -> None:
    def responses(no: int, text: str, **more: Any) -> Prompted:
        body = {"model": "m", "input": [{"role": "user", "content": text}], **more.pop("body", {})}
        prefix_ = prefix(body, "openai.responses")
        assert prefix_ is not None
        return Prompted(Generation(no, prefix_.messages, **more), prefix_, no * S, True, "openai", "m", 2_000, 1_900)

    first_request = responses(1, "a", response_id="r1")
    assert figures([first_request, responses(2, "b", named_response="r1")])[2] == CacheFigures(
        "hit", None, 2_000, S, 2_000
    )
    changed = figures([first_request, responses(2, "b", named_response="r1", body={"instructions": "i"})])[2]
    assert changed[:3] == ("hit", "instructions", 2_000), "the place stays beside what the provider reports"
    assert changed.common_tokens is None, "the bytes of the whole prompt are not in the request"
    assert figures([first_request, responses(2, "b", named_response="gone")])[2].verdict == "unknown"


@each_case(
    "service, api, model, provider",
    [
        ("anthropic", "anthropic.messages", "m", "anthropic"),
        ("groq", "openai.chat", "m", "other"),
        (None, "openai.chat", "m", "openai"),
        (None, "anthropic.messages", "m", "anthropic"),
        (None, "gemini", "m", "gemini"),
        ("bedrock", "bedrock.converse", "anthropic.claude-x", "anthropic"),
        ("bedrock", "bedrock.converse", "amazon.nova", "other"),
        ("vertex", "anthropic.messages", "m", "anthropic"),
        (None, None, None, "other"),
    ],
)
def test_the_host_names_the_provider_or_else_the_api(
    service: str | None, api: str | None, model: str | None, provider: str
) -> None:
    assert provider_of(service, api, model) == provider
