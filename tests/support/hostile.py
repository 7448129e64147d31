"""Payloads with one value of a wrong type, and invariants of the chunks read from them."""

import copy
from collections.abc import Iterator, Sequence
from typing import Any

from hypothesis import strategies as st

from wiretape.recorder.decode.dialect import Chunk, Tokens
from wiretape.recorder.decode.values import MAX_INDEX

WRONG = (None, True, -1, 1.5, 1 << 70, "", "x", "\ud800", [], [None], [{}], {}, {"type": []}, {"text": {}})
_MAX_COUNT = 1 << 63


@st.composite
def payloads(draw: st.DrawFn, examples: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Draw one of the examples with one value, at any depth, replaced by one that does not belong there."""
    payload = copy.deepcopy(draw(st.sampled_from(examples)))
    holder, key = draw(st.sampled_from(list(_places(payload))))
    holder[key] = draw(st.sampled_from(WRONG))
    return payload


def assert_sound(chunk: Chunk | None) -> None:
    """Fail if a value of a chunk has a wrong type, or an index is out of range."""
    if chunk is None:
        return
    texts: list[Any] = [chunk.api, chunk.id, chunk.model]
    indexes: list[Any] = []
    for piece in chunk.pieces:
        texts += [piece.content, piece.reasoning, piece.refusal]
        texts += [] if piece.finish_reason is None else [piece.finish_reason or None]
        texts += [value for tool in piece.tools for value in (tool.id, tool.name, tool.arguments)]
        indexes += [piece.index, *(tool.index for tool in piece.tools if tool.index is not None)]
    if chunk.fault is not None:
        texts += [value for value in (chunk.fault.code, chunk.fault.message) if value is not None]
    assert all(type(value) is str for value in texts)
    assert all(type(value) is int and 0 <= value < MAX_INDEX for value in indexes)
    assert all(type(value) is bool for value in (chunk.content, chunk.reasoning, chunk.tool, chunk.ends, chunk.ping))
    assert chunk.usage is None or type(chunk.usage) is dict


def assert_counts(tokens: Tokens) -> None:
    """Fail if a count is neither unknown nor a count."""
    counts = [tokens.input, tokens.output, tokens.total, tokens.reasoning, tokens.cache_read, tokens.cache_write]
    assert all(value is None or (type(value) is int and 0 <= value < _MAX_COUNT) for value in counts)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, dict | list):
        for key, item in list(value.items() if isinstance(value, dict) else enumerate(value)):
            yield value, key
            yield from _places(item)
