"""Repeated payloads: the result without parsing is equal to the result of parsing."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.cases import each_case
from wiretape.recorder.decode import payloads
from wiretape.recorder.decode.framings.sse import Event
from wiretape.recorder.decode.templates import PARTS, Template, Templates, filler, template

NOTHING: tuple[list[str], list[int]] = ([], [])
TEXTS = st.one_of(
    st.sampled_from([" a", "a", "", "null", "stop", "content", '"', "\\", "\n", "é", "\ue000", "x", "="]), st.text()
)
NUMBERS = st.one_of(st.integers(-1, 11), st.sampled_from([1.5, 10**20, "4", None, "x"]))
NAMES = ("content", "reasoning", "reasoning_content", "refusal", "text", "thinking")
DELTAS = st.one_of(
    st.builds(lambda name, text: {name: text}, st.sampled_from(NAMES), TEXTS),
    st.builds(lambda word, id: {"content": word, "reasoning": id}, TEXTS, TEXTS),
    st.builds(lambda text: {"role": text, "content": text}, TEXTS),
    st.builds(lambda text: {"content": [{"type": "text", "text": text}]}, TEXTS),
    st.builds(lambda text: {"content": [{"type": "thinking", "thinking": text}]}, TEXTS),
    st.builds(lambda text: {"reasoning_details": [{"type": "reasoning.text", "text": text}]}, TEXTS),
    st.builds(lambda word, id: {"tool_calls": [{"id": id, "function": {"name": id, "arguments": word}}]}, TEXTS, TEXTS),
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
    st.builds(lambda delta, text: payload(delta, event_id=text), DELTAS, TEXTS),
    st.builds(
        lambda delta, text, number: payload(delta, sequence_number=number, obfuscation=text), DELTAS, TEXTS, NUMBERS
    ),
    st.builds(lambda text, number: json.loads(counted(number, text)), TEXTS, NUMBERS),
    st.builds(lambda delta, text: payload({**delta, "obfuscation": text}, usage=None), DELTAS, TEXTS),
    st.builds(lambda delta, text: payload(delta, error={"message": text}), DELTAS, TEXTS),
    st.builds(lambda delta, text: payload(delta, usage={"completion_tokens": 1, "x": text}), DELTAS, TEXTS),
    st.builds(
        lambda delta, text, name: {"choices": [choice(delta, text, name)]},
        DELTAS,
        TEXTS,
        st.sampled_from(["delta", "text"]),
    ),
    st.builds(
        lambda first_delta, second_delta: {"choices": [{"delta": first_delta}, {"delta": second_delta}]}, DELTAS, DELTAS
    ),
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
    """Sequences of payloads: many repeat an earlier one with some other strings, or are broken."""
    texts: list[str] = []
    for _ in range(draw(st.integers(1, 6))):
        value = draw(WRITTEN)
        for _ in range(draw(st.integers(0, 5))):
            old, new = draw(TEXTS), draw(TEXTS)
            raw = json.dumps(new, ensure_ascii=draw(st.booleans()))[1:-1] if draw(st.booleans()) else new
            texts += [
                value,
                value.replace(json.dumps(old, ensure_ascii=False)[1:-1] or '""', raw, draw(st.integers(1, 2))),
            ]
        texts.append(value)
    return texts


def block(payload: str, type: str = "message") -> bytes:
    return (f"data: {payload}\n\n" if type == "message" else f"event: {type}\ndata: {payload}\n\n").encode()


def event(payload: str, type: str = "message") -> Event:
    return Event(type, payload, "", 0, len(block(payload, type)))


def parsed(learned: Template, *payloads: str, type: str = "message") -> list[str]:
    """Return the texts of the payloads in a row, of those from the first on that have this template."""
    sent = [block(payload, type) for payload in payloads]
    texts, sizes = learned.find(b"".join(sent), 0, b"\n\n")
    assert sizes == list(map(len, sent[: len(texts)]))
    return texts


def learn(payload: str, type: str = "message") -> Template | None:
    return template(event(payload, type), block(payload, type), payloads.read(payload, type))


def learnt(payload: str, type: str = "message") -> Template:
    learned = learn(payload, type)
    assert learned is not None
    return learned


def counted(number: Any, text: str = "word", **more: Any) -> str:
    return json.dumps({"type": "response.output_text.delta", "sequence_number": number, "delta": text, **more})


@given(streams())
def test_what_is_found_is_what_parsing_each_payload_gives(found: list[str]) -> None:
    learned = Templates()
    for data in found:
        # A body has no lone surrogates: bytes that are not UTF-8 are replaced.
        data = data.encode("utf-8", "replace").decode()
        chunk = payloads.read(data)
        if "\n" in data or "\r" in data:
            continue
        if (repeated := learned.find(block(data), 0, b"\n\n")) is None:
            learned.learn(event(data), block(data), chunk)
        else:
            of, texts, _ = repeated
            assert [filler(of.chunk, of.part)(text) for text in texts] == [chunk]


@given(st.sampled_from(PARTS), st.text(st.characters(exclude_categories=["Cs"])), st.booleans(), st.booleans())
def test_any_text_is_read_or_left(part: str, text: str, ascii: bool, padded: bool) -> None:
    def payload_of(text: str) -> str:
        delta = {"tool_calls": [{"function": {"arguments": text}}]} if part == "arguments" else {part: text}
        more = {"obfuscation": "Qup1BsQ3"} if padded else {}
        return json.dumps(payload(delta, **more), ensure_ascii=ascii)

    learned = learnt(payload_of("word"))
    assert learned.part == part
    assert parsed(learned, payload_of("a"), payload_of(text), payload_of("b")) == (["a", text, "b"] if text else ["a"])
    if text:
        assert filler(learned.chunk, part)(text) == payloads.read(payload_of(text))


def test_two_tool_calls_in_a_piece_make_no_template() -> None:
    calls = [{"index": at, "function": {"arguments": arguments}} for at, arguments in enumerate(("word", ""))]
    data = json.dumps(payload({"tool_calls": calls}))
    assert learn(data) is None


@each_case(
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
def test_only_payloads_differing_in_one_string_share_a_template(other: str) -> None:
    assert parsed(learnt('{"choices":[{"delta":{"content":"word"}}]}'), other) == []


@each_case(
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
def test_only_a_payload_with_one_text_repeats(first: dict[str, Any]) -> None:
    data = json.dumps(first)
    assert learn(data) is None


def test_a_text_is_found_in_its_own_chunk() -> None:
    template_payload = json.dumps(
        {"id": "a", "choices": [{"delta": {"role": "a", "content": "a"}, "finish_reason": "a"}], "a": "a"}
    )
    learned = learnt(template_payload)
    assert parsed(learned, template_payload.replace('"content": "a"', '"content": "b"')) == ["b"]
    assert parsed(learned, template_payload.replace('"role": "a"', '"role": "b"')) == []


def test_padding_that_differs_is_passed_over() -> None:
    one, two = (json.dumps(payload({"content": text}, usage=None, obfuscation=text * 3)) for text in ("word", "b"))
    assert parsed(learnt(one), two, one) == ["b", "word"]
    inside = json.dumps(payload({"content": "a", "obfuscation": "b"}))
    assert parsed(learnt(inside), inside.replace('"b"', '"c"')) == []


def test_a_payload_without_its_padding_is_another() -> None:
    template_payload = '{"choices":[{"delta":{"content":"word"}}],"obfuscation":"x"}'
    assert parsed(learnt(template_payload), '{"choices":[{"delta":{"content":"b"}') == []
    for padding in ('"', "\\", "\n", '","error":"'):
        assert parsed(learnt(template_payload), template_payload.replace('"x"', f'"{padding}"')) == []


def test_the_trial_text_itself_is_not_tried() -> None:
    template_payload = '{"choices":[{"delta":{"role":"\ue000","content":"\ue000"}}]}'
    assert learn(template_payload) is None


def test_choices_that_take_turns_are_all_remembered() -> None:
    learned, texts = Templates(), []
    for place in range(40):
        data = json.dumps({"choices": [{"index": place % 3, "delta": {"content": f"word {place}"}}]})
        if place < 3:
            learned.learn(event(data), block(data), payloads.read(data))
        texts.append(learned.find(block(data), 0, b"\n\n"))
    assert None not in texts


def test_near_matches_are_not_compared_again_and_again() -> None:
    template_payload = json.dumps(payload({"content": "word"}))
    learned, block_bytes = learnt(template_payload), f"data: {template_payload.replace('word', '')}\n\n".encode()
    body = 20_000 * block_bytes  # with a window of 1 MiB for each, this would take minutes
    assert all(learned.find(body, place, b"\n\n") == NOTHING for place in range(0, len(body), len(block_bytes)))


@pytest.mark.parametrize("more", [{}, {"obfuscation": "Qup1"}, {"logprobs": [], "obfuscation": "Qup1", "x": {}}])
def test_the_number_of_an_event_is_passed_over(more: dict[str, Any]) -> None:
    learned = learnt(counted(9, **more))
    assert parsed(learned, counted(10, "a", **more), counted(0, "b", **more), counted(10**17, **more)) == [
        "a",
        "b",
        "word",
    ]
    final_payload = json.dumps({**json.loads(counted(9)), **more, "sequence_number": 3})
    swapped = json.dumps({"delta": "word", "type": "response.output_text.delta", **more, "sequence_number": 9})
    assert parsed(learnt(swapped), swapped.replace("9", "12"), final_payload) == ["word"]


@each_case("number", ["", "-1", "01", "1.5", "1e3", '"9"', "9" * 5000, "null", "9 ", '9,"error":"x"'])
def test_what_is_no_number_is_another_payload(number: str) -> None:
    learned = learnt(counted(9))
    assert parsed(learned, counted(8), counted(9).replace("9", number), counted(10)) == ["word"]


def test_a_number_inside_the_payload_is_not_passed_over() -> None:
    learned = learnt(counted(9, item={"sequence_number": 7}))
    assert parsed(learned, counted(8, item={"sequence_number": 7})) == ["word"]
    assert parsed(learned, counted(8, item={"sequence_number": 8})) == []


def test_events_of_a_type_repeat_like_those_without() -> None:
    type = "response.output_text.delta"
    learned = learnt(counted(9), type)
    assert parsed(learned, counted(10, "a"), counted(11, "b"), type=type) == ["a", "b"]
    assert parsed(learned, counted(10, "a"), type="response.refusal.delta") == []
    assert parsed(learned, counted(10, "a")) == []
    assert parsed(learnt(counted(9)), counted(10, "a"), type=type) == []


@each_case("lines", ["data: {}\nid: 1\n\n", "id: 1\ndata: {}\n\n", "data: {}\nevent: x\n\n", "retry: 1\ndata: {}\n\n"])
def test_an_event_of_other_lines_does_not_repeat(lines: str) -> None:
    data = counted(9)
    assert template(event(data), lines.replace("{}", data).encode(), payloads.read(data)) is None


def test_an_event_need_not_have_spaces_nor_line_feeds() -> None:
    data = counted(9)
    sent = f"event:x\r\ndata:{data}\r\n\r\n".encode()
    learned = template(event(data, "x"), sent, payloads.read(data, "x"))
    assert learned is not None
    assert learned.find(2 * sent, 0, b"\r\n\r\n") == (["word", "word"], [len(sent)] * 2)


@each_case("type", ["message", "delta"])
def test_equal_events_are_found_up_to_a_different_one(type: str) -> None:
    words = [json.dumps(payload({"content": f"word {number}"})) for number in range(300)]
    for count in (1, 7, 8, 64, 300):
        for variant in ("{}", words[0][:-1], words[0].replace("r", "s")):
            assert len(parsed(learnt(words[0], type), *words[:count], variant, *words, type=type)) == count
