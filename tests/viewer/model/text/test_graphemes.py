"""Where a text may be cut."""

import time

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from recorder.decode.derive import decode
from recorder.decode.outcome import Exchange, Read
from recorder.sanitize import safe
from tests.viewer.conftest import event
from viewer.model.exchange.answer import Answer
from viewer.model.exchange.transcript import Transcript
from viewer.model.text import graphemes, wrapping
from viewer.model.text.wrap import Folding

CLUSTERS = [
    "👨‍👩‍👧‍👦",  # joined by ZWJ
    "👩🏽‍💻",  # with a skin tone
    "🇩🇪",  # two regional indicators
    "e\u0301",  # a combining mark
    "o\u0308\u0323\u0304",  # several
    "\u1112\u1161\u11ab",  # Hangul jamo: a lead, a vowel, a tail
    "\uac00\u11a8",  # a Hangul syllable and a tail
    "❤\ufe0f",  # a variation selector
    "1\ufe0f\u20e3",  # a keycap
    "क\u094d\u0937\u093f",  # a conjunct with a vowel sign
    "ก\u0e33",  # Thai, with SARA AM
    "한",
    "日",
    "a",
    "é",
]
TEXTS = st.lists(st.sampled_from([*CLUSTERS, " ", "\n", "b c "]), max_size=40).map("".join)


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_a_cluster_is_one(cluster: str) -> None:
    assert list(graphemes.ends(cluster)) == [len(cluster)]
    assert graphemes.are_single(cluster) == (len(cluster) == 1)
    assert [graphemes.boundary(f"x{cluster}x", at) for at in range(1, len(cluster) + 2)] == [
        1, *[len(cluster) + 1] * len(cluster)
    ]  # fmt: skip


def test_a_cluster_that_is_hostile_is_cut() -> None:
    assert list(graphemes.ends("a" + "\u0301" * 600)) == [256, 512, 601]


@given(TEXTS, st.integers(4, 12))
def test_no_line_of_a_pane_breaks_a_grapheme(text: str, width: int) -> None:
    folding = Folding(text, width)
    folding.more(1000)
    assert folding.done
    spans = [folding.span(line) for line in range(len(folding))]
    whole = {0, *(match.end() for match in regex.finditer(r"\X", safe(text, multiline=True)))}
    assert {place for span in spans for place in span} <= whole
    assert all(cell_len(text[start:end].rstrip(" ")) <= width for start, end in spans)
    assert "".join(text[start:end] for start, end in spans) == text.replace("\n", "")


@given(TEXTS, st.integers(4, 12))
def test_no_line_of_a_lane_breaks_a_grapheme(text: str, width: int) -> None:
    lines = wrapping.wrapped(text, width)
    found = [cluster for line in lines for cluster in regex.findall(r"\X", line)]
    assert found == [one for one in regex.findall(r"\X", "\n".join(wrapping.wrapped(text, 10_000))) if one != "\n"]
    assert all(cell_len(line.rstrip(" ")) <= width for line in lines)


def spoken(*words: str) -> Transcript:
    body = b"".join(event({"content": word}) for word in words)
    return Transcript(
        decode(Exchange(200, "text/event-stream", None, "end", 0, 0, 1), [Read(0, 1, None, 0, len(body))], body)
    )


def test_a_grapheme_that_comes_in_parts_is_never_drawn_in_parts() -> None:
    answer = Answer(spoken("ok 👩", "\u200d💻 e", "\u0301!"), 20)
    part = answer.parts[0]
    drawn = [[(run.text, run.state) for run in part.runs(0, position)] for position in range(4)]
    assert drawn[0] == [("ok 👩\u200d💻", "ghost"), (" e\u0301", "ghost"), ("!", "ghost")]
    assert drawn[1] == [("ok 👩", "said"), (" e\u0301", "ghost"), ("!", "ghost")]
    assert drawn[2] == [("ok 👩\u200d💻", "said"), (" e", "said"), ("!", "ghost")]
    assert drawn[3] == [("ok 👩\u200d💻", "said"), (" e\u0301", "said"), ("!", "said")]


@pytest.mark.parametrize("text", ["\u0301" * 1_000_000, "👨\u200d" * 300_000, "🇩" * 500_000, "日e\u0301" * 300_000])
def test_a_megabyte_of_marks_costs_what_is_asked_of_it(text: str) -> None:
    before = time.thread_time()
    folding = Folding(text, 80)
    folding.more(200)
    assert len(folding) > 100
    wrapping.tail([("content", text, len(text))], 80, 20)
    assert time.thread_time() - before < 1.0
