"""Traces for load generators: arrivals, counts of tokens, and blocks that equal prefixes of prompts share."""

import json
from collections import Counter
from collections.abc import Sequence
from itertools import takewhile
from math import ceil
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wiretape.recorder.decode.exchange import Exchange
from wiretape.recorder.decode.values import JsonObject
from wiretape.viewer.record.rows import RequestRow
from wiretape.viewer.wings.tools import trace
from wiretape.viewer.wings.tools.trace import BLOCK, BlockIds

SYSTEM = " ".join(f"Rule {number} is not rule {number + 1}." for number in range(400))
TOOLS = [{"type": "function", "function": {"name": "look", "description": SYSTEM[:1000]}}]


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def entries(*requests: tuple[JsonObject | bytes, JsonObject], with_messages: bool = False) -> list[JsonObject]:
    """Return the rows of exchanges a second apart, each a request's body and its own fields."""
    return left_out(*requests, with_messages=with_messages)[0]


def left_out(
    *requests: tuple[JsonObject | bytes, JsonObject], with_messages: bool = False
) -> tuple[list[JsonObject], Counter[str]]:
    reasons, counts = [], Counter[str]()
    for second, (body, fields) in enumerate(requests):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        request = RequestRow("a", Exchange(), data, len(data), None, {})
        row = {"model": "m", "api": "openai.chat", "framing": "sse", "input_tokens": 1, "output_tokens": 1, **fields}
        reasons.append(({"started_at": f"2026-03-01T12:00:{second:02}.000250Z", **row}, request))
    return list(trace.entries(reasons, counts, with_messages=with_messages)), counts


def ids(*prompts: tuple[Sequence[Any], int]) -> list[list[int]]:
    """Return the ids of prompts, each its messages and its count of tokens."""
    requests = [({"messages": list(messages), "tools": TOOLS}, {"input_tokens": count}) for messages, count in prompts]
    return [row["hash_ids"] for row in entries(*requests)]


def shared(ids_: Sequence[int], other_ids: Sequence[int]) -> int:
    """Return the number of leading ids that two prompts share."""
    return len([*takewhile(lambda pair: pair[0] == pair[1], zip(ids_, other_ids, strict=False))])


QUESTION = [{"role": "system", "content": SYSTEM}, user("What is rule 7?")]
LATER = [*QUESTION, {"role": "assistant", "content": "Not rule 8."}, user("And rule 9? " + SYSTEM[::-1])]


def test_a_growing_prompt_shares_its_leading_ids() -> None:
    first, second = ids((QUESTION, 3000), (LATER, 6100))
    assert second[: len(first) - 1] == first[:-1]
    assert not {*second[len(first) - 1 :]} & {*first}
    assert (len(first), len(second)) == (ceil(3000 / BLOCK), ceil(6100 / BLOCK))


def test_a_prompt_shares_its_whole_blocks_with_longer_ones() -> None:
    first, second = ids((QUESTION, 6 * BLOCK), (LATER, 6100))
    assert second[:6] == first


def test_a_shorter_later_prompt_shares_its_leading_ids_too() -> None:
    longer, shorter = ids((LATER, 6100), (QUESTION, 3000))
    assert shorter[:-1] == longer[: len(shorter) - 1]


def test_an_edited_system_prompt_shares_no_later_block() -> None:
    half = len(SYSTEM) // 2
    edited = [{"role": "system", "content": f"{SYSTEM[:half]}!{SYSTEM[half:]}"}, *LATER[1:]]
    before, after = ids((LATER, 6100), (edited, 6100))
    shared_count = shared(before, after)
    assert 0 < shared_count < len(before) // 2
    assert not {*before} & {*after[shared_count:]}


def test_other_tools_share_nothing() -> None:
    rows = entries(*(({"messages": QUESTION, "tools": tools}, {"input_tokens": 600}) for tools in (TOOLS, None)))
    assert [row["hash_ids"] for row in rows] == [[0, 1], [2, 3]]


def test_prompts_of_different_models_share_nothing() -> None:
    body = {"messages": QUESTION}
    rows = entries(*((body, {"input_tokens": 600, "model": model}) for model in ("a", "b", None, "a")))
    assert [row["hash_ids"] for row in rows] == [[0, 1], [2, 3], [4, 5], [0, 1]]


def test_what_clients_change_between_turns_changes_no_block() -> None:
    cached = {"type": "text", "text": SYSTEM, "cache_control": {"type": "ephemeral"}}
    plain, marked = ids((QUESTION, 3000), ([{"role": "system", "content": [cached]}, QUESTION[1]], 3000))
    assert plain == marked


@given(st.lists(st.tuples(st.binary(max_size=300), st.integers(1, 5000)), min_size=1, max_size=6))
def test_ids_are_dense_and_match_the_tokens_blocks(prompts: list[tuple[bytes, int]]) -> None:
    blocks = BlockIds()
    id_lists = [blocks.of("m", prompt, tokens) for prompt, tokens in prompts]
    assert [len(id_list) for id_list in id_lists] == [ceil(tokens / BLOCK) for _, tokens in prompts]
    first_seen = list(dict.fromkeys(id for id_list in id_lists for id in id_list))
    assert first_seen == list(range(len(first_seen)))


@given(st.binary(max_size=3000), st.binary(max_size=3000), st.binary(min_size=1, max_size=3000), st.integers(1, 5000))
def test_an_id_stands_for_one_prefix_and_one_count(common: bytes, one: bytes, other: bytes, tokens: int) -> None:
    blocks = BlockIds()
    prompts = [common + one, common + other]
    first, second = (blocks.of("m", prompt, tokens) for prompt in prompts)
    shared_count = shared(first, second)
    assert not {*first[shared_count:]} & {*second[shared_count:]}
    assert (first == second) == (prompts[0] == prompts[1])


def test_rows_are_timed_from_the_first_to_the_microsecond() -> None:
    body = {"messages": QUESTION}
    reasons, counts = left_out(
        (body, {"output_tokens": None}), (body, {}), (body, {"started_at": "2026-03-01T12:00:02.001Z"})
    )
    assert [row["timestamp"] for row in reasons] == [0, 1000.75]
    assert counts == {trace.NO_TOKENS: 1}


def test_unsendable_requests_are_omitted_with_the_reason() -> None:
    body = {"messages": QUESTION}
    reasons, counts = left_out(
        (body, {"input_tokens": None}),
        (body, {"input_tokens": 0}),
        (body, {"output_tokens": 1 << 62}),
        (body, {"framing": "websocket"}),
        (b"{", {}),
    )
    assert reasons == []
    assert dict(counts) == {
        "without token counts": 2,
        "with more than 16,777,216 tokens": 1,
        "over a WebSocket": 1,
        "without a prompt on the tape": 1,
    }


@pytest.mark.parametrize(
    ("api", "body", "content"),
    [
        ("openai.chat", {"model": "m", "messages": QUESTION}, {"messages": QUESTION}),
        ("openai.chat", {"messages": QUESTION, "tools": TOOLS}, {"messages": QUESTION, "tools": TOOLS}),
        ("openai.chat", {"messages": ["Hi"]}, {"payload": {"messages": ["Hi"]}}),
        ("openai.completions", {"prompt": "Once"}, {"text_input": "Once"}),
        ("openai.completions", {"prompt": [1, 2]}, {"payload": {"prompt": [1, 2]}}),
        ("anthropic.messages", {"messages": QUESTION}, {"payload": {"messages": QUESTION}}),
    ],
)  # fmt: skip
def test_prompts_are_messages_texts_or_other_bodies(api: str, body: JsonObject, content: JsonObject) -> None:
    (row,) = entries((body, {"api": api}), with_messages=True)
    assert row == {"timestamp": 0, **content, "output_length": 1}


def test_a_prompt_needs_no_token_counts() -> None:
    (row,) = entries(({"messages": QUESTION}, {"input_tokens": None, "output_tokens": None}), with_messages=True)
    assert row == {"timestamp": 0, "messages": QUESTION}
