"""Payloads that repeat: whatever is read without decoding is what decoding would have read."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.decode import chunks, templates
from recorder.decode.templates import PARTS, Reader, repeat

NOTHING: tuple[list[str], list[int]] = ([], [])
TEXTS = st.one_of(
    st.sampled_from([" a", "a", "", "null", "stop", "content", '"', "\\", "\n", "é", "\ue000", "x", "="]), st.text()
)
NAMES = ("content", "reasoning", "reasoning_content", "refusal", "text", "thinking")
DELTAS = st.one_of(
    st.builds(lambda name, text: {name: text}, st.sampled_from(NAMES), TEXTS),
    st.builds(lambda one, two: {"content": one, "reasoning": two}, TEXTS, TEXTS),
    st.builds(lambda text: {"role": text, "content": text}, TEXTS),
    st.builds(lambda text: {"content": [{"type": "text", "text": text}]}, TEXTS),
    st.builds(lambda text: {"content": [{"type": "thinking", "thinking": text}]}, TEXTS),
    st.builds(lambda text: {"reasoning_details": [{"type": "reasoning.text", "text": text}]}, TEXTS),
    st.builds(
        lambda one, two: {"tool_calls": [{"id": two, "function": {"name": two, "arguments": one}}]}, TEXTS, TEXTS
    ),
    st.builds(lambda text: {"function_call": {"arguments": text}}, TEXTS),
    st.builds(lambda text: {"tool_calls": [{"function": {"arguments": {text: text}}}]}, TEXTS),
)


def payload(delta: Any, finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {"id": "r", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}


def choice(delta: Any, text: str, name: str) -> dict[str, Any]:
    return {"index": 0, "delta": delta} if name == "delta" else {"text": text, "delta": delta}


PAYLOADS = st.one_of(
    st.builds(payload, DELTAS),
    st.builds(payload, DELTAS, TEXTS),
    st.builds(lambda delta, text: payload(delta, obfuscation=text), DELTAS, TEXTS),
    st.builds(lambda delta, text: payload({**delta, "obfuscation": text}, usage=None), DELTAS, TEXTS),
    st.builds(lambda delta, text: payload(delta, error={"message": text}), DELTAS, TEXTS),
    st.builds(lambda delta, text: payload(delta, usage={"completion_tokens": 1, "x": text}), DELTAS, TEXTS),
    st.builds(
        lambda delta, text, name: {"choices": [choice(delta, text, name)]},
        DELTAS,
        TEXTS,
        st.sampled_from(["delta", "text"]),
    ),
    st.builds(lambda one, two: {"choices": [{"delta": one}, {"delta": two}]}, DELTAS, DELTAS),
    st.builds(lambda text: {"choices": [{"text": text}]}, TEXTS),
    st.builds(lambda text: {"type": text, "error": text, "message": text}, TEXTS),
)
WRITTEN = st.builds(
    lambda value, ascii, separators: json.dumps(value, ensure_ascii=ascii, separators=separators),
    PAYLOADS,
    st.booleans(),
    st.sampled_from([(",", ":"), (", ", ": ")]),
)


@st.composite
def streams(draw: st.DrawFn) -> list[str]:
    """Payloads in a row, many of which repeat an earlier one but for some of its strings, or are broken."""
    found: list[str] = []
    for _ in range(draw(st.integers(1, 6))):
        one = draw(WRITTEN)
        for _ in range(draw(st.integers(0, 5))):
            old, new = draw(TEXTS), draw(TEXTS)
            raw = json.dumps(new, ensure_ascii=draw(st.booleans()))[1:-1] if draw(st.booleans()) else new
            found += [one, one.replace(json.dumps(old, ensure_ascii=False)[1:-1] or '""', raw, draw(st.integers(1, 2)))]
        found.append(one)
    return found


@given(streams())
def test_a_reader_reads_what_reading_each_payload_by_itself_gives(found: list[str]) -> None:
    reader = Reader()
    for data in found:
        # In a body there are no lone surrogates: bytes that are no UTF-8 are replaced.
        data = data.encode("utf-8", "replace").decode()
        assert reader.read(data) == chunks.read(data)


@given(st.sampled_from(PARTS), st.text(st.characters(exclude_categories=["Cs"])), st.booleans(), st.booleans())
def test_any_text_is_read_or_left(part: str, text: str, ascii: bool, padded: bool) -> None:
    def written(text: str) -> str:
        delta = {"tool_calls": [{"function": {"arguments": text}}]} if part == "arguments" else {part: text}
        more = {"obfuscation": "Qup1BsQ3"} if padded else {}
        return json.dumps(payload(delta, **more), ensure_ascii=ascii)

    known = repeat(written("word"), chunks.read(written("word")))
    assert known is not None
    assert known.part == part
    data = written(text)
    sent = [f"data: {one}\n\n".encode() for one in (written("a"), data, written("b"))]
    if text:
        assert known.filled(text) == chunks.read(data)
        assert known.text(data) == text
        assert known.texts(b"".join(sent), 0, b"data: ", b"\n\n") == (["a", text, "b"], list(map(len, sent)))
    else:
        assert known.text(data) is None
        assert known.texts(b"".join(sent), 0, b"data: ", b"\n\n") == (["a"], [len(sent[0])])


def test_two_tool_calls_in_one_piece_are_no_open_text() -> None:
    def written(text: str) -> str:
        calls = [{"index": at, "function": {"arguments": given}} for at, given in enumerate((text, ""))]
        return json.dumps(payload({"tool_calls": calls}))

    assert repeat(written("word"), chunks.read(written("word"))) is None
    reader = Reader()
    for data in map(written, ("a", "b", "c")):
        assert reader.read(data) == chunks.read(data)
        assert len(reader.read(data).pieces[0].tools) == 2


@pytest.mark.parametrize(
    "other",
    [
        '{"choices":[{"delta":{"content":"a","content":""}}]}',
        '{"choices":[{"delta":{"content":"a"},"error":"b"}]}',
        '{"choices":[{"delta":{"content":"a"}}]} ',
        '{"choices":[{"delta":{"content":"a"}}]}}]}',
        '{"choices":[{"delta":{"content":"a\n"}}]}',
        '{"choices":[{"delta":{"content":"\\ud800"}}]}',
        '{"choices":[{"delta":{"content":"\\x"}}]}',
        '{"choices":[{"delta":{"content":"a\\"}}]}',
        '{"choices":[{"delta":{"content":"}}]}',
    ],
)
def test_what_is_not_one_string_between_the_same_is_another_payload(other: str) -> None:
    first = '{"choices":[{"delta":{"content":"word"}}]}'
    known = repeat(first, chunks.read(first))
    assert known is not None
    assert known.text(other) is None
    assert known.texts(f"data:{other}\n\n".encode(), 0, b"data:", b"\n\n") == NOTHING


@pytest.mark.parametrize(
    "first",
    [
        payload({"content": ""}),
        payload({"content": "a", "reasoning": "b"}),
        payload({"content": "a"}, usage={"completion_tokens": 1}),
        payload({"content": "a"}, error="b"),
        payload({}, "stop"),
        {"choices": [{"delta": {"content": "a"}}, {"delta": {"content": "b"}, "index": 1}]},
    ],
)
def test_a_payload_with_more_or_less_than_one_text_does_not_repeat(first: dict[str, Any]) -> None:
    data = json.dumps(first)
    assert repeat(data, chunks.read(data)) is None


def test_the_text_is_found_where_it_is_the_chunks_own() -> None:
    first = json.dumps(
        {"id": "a", "choices": [{"delta": {"role": "a", "content": "a"}, "finish_reason": "a"}], "a": "a"}
    )
    known = repeat(first, chunks.read(first))
    assert known is not None
    assert known.text(first.replace('"content": "a"', '"content": "b"')) == "b"
    assert known.text(first.replace('"role": "a"', '"role": "b"')) is None


def test_padding_that_differs_is_passed_over() -> None:
    one, two = (json.dumps(payload({"content": text}, usage=None, obfuscation=text * 3)) for text in ("word", "b"))
    known = repeat(one, chunks.read(one))
    assert known is not None
    assert known.text(two) == "b"
    sent = f"{two}\n\n{one}\n\n".encode()
    assert known.texts(sent, 0, b"", b"\n\n") == (["b", "word"], [len(two) + 2, len(one) + 2])
    inside = json.dumps(payload({"content": "a", "obfuscation": "b"}))
    other = repeat(inside, chunks.read(inside))
    assert other is not None
    assert other.text(inside.replace('"b"', '"c"')) is None


def test_what_lacks_the_padding_or_what_stands_before_it_is_another_payload() -> None:
    first = '{"choices":[{"delta":{"content":"word"}}],"obfuscation":"x"}'
    known = repeat(first, chunks.read(first))
    assert known is not None
    other = '{"choices":[{"delta":{"content":"b"}'
    assert known.text(other) is None
    assert known.texts(f"{other}\n\n".encode(), 0, b"", b"\n\n") == NOTHING
    for padding in ('"', "\\", "\n", '","error":"'):
        other = first.replace('"x"', f'"{padding}"')
        assert known.text(other) is None
        assert known.texts(f"{other}\n\n".encode(), 0, b"", b"\n\n") == NOTHING


def test_a_text_that_is_the_one_to_try_with_is_not_tried() -> None:
    first = '{"choices":[{"delta":{"role":"\ue000","content":"\ue000"}}]}'
    assert repeat(first, chunks.read(first)) is None


def test_choices_that_take_turns_are_all_remembered() -> None:
    reader, found = Reader(), []
    for place in range(40):
        data = json.dumps({"choices": [{"index": place % 3, "delta": {"content": f"word {place}"}}]})
        assert reader.read(data) == chunks.read(data)
        found.append(reader.find(f"{data}\n\n".encode(), 0, b"", b"\n\n"))
    assert None not in found


def test_payloads_that_fit_but_for_their_text_are_not_looked_at_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = json.dumps(payload({"content": "word"}))
    known = repeat(first, chunks.read(first))
    assert known is not None
    looked: list[int] = []
    texts = templates._texts
    monkeypatch.setattr(templates, "_texts", lambda pieces: looked.append(len(pieces)) or texts(pieces))
    one = f"{first.replace('word', '')}\n\n".encode()
    found = [known.texts(1000 * one, place * len(one), b"", b"\n\n") for place in range(1000)]
    assert found == [NOTHING] * 1000
    assert sum(looked) <= 8 * 1000
