"""Text in the lines of a pane: broken at words, in cells, between graphemes, and only down to the requested line."""

import itertools
import time

import regex
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tests.support.cases import each_case
from tests.support.sample_tape import HOSTILE, event
from wiretape.recorder.decode.decoder import decode
from wiretape.recorder.decode.exchange import Exchange, Read
from wiretape.recorder.sanitize import safe
from wiretape.viewer.exchange.answer import AnswerLayout
from wiretape.viewer.exchange.transcript import Transcript
from wiretape.viewer.text.wrap import WrappedText, are_graphemes, grapheme_boundary, grapheme_ends, tail, wrapped


def lines(text: str, width: int) -> list[str]:
    text_lines = WrappedText(text, width)
    text_lines.more(10_000)
    return [text_lines.line(number) for number in range(len(text_lines))]


def test_lines_end_at_feeds_or_last_fitting_spaces() -> None:
    assert lines("the quick brown fox", 10) == ["the quick ", "brown fox"]
    assert lines("one\n\ntwo\n", 10) == ["one", "", "two", ""]
    assert lines("", 10) == [""]


def test_words_longer_than_a_line_are_cut() -> None:
    assert lines("abcdefghij", 4) == ["abcd", "efgh", "ij"]


def test_widths_are_in_cells() -> None:
    assert lines("日本語テキスト", 6) == ["日本語", "テキス", "ト"]


@given(st.text(alphabet="ab \n日é", max_size=60), st.integers(2, 9))
def test_nothing_is_lost_and_nothing_is_too_wide(text: str, width: int) -> None:
    text_lines = WrappedText(text, width)
    text_lines.more(1000)
    spans = [text_lines.span(line) for line in range(len(text_lines))]
    assert text_lines.done
    assert all(cell_len(text[start:end].rstrip(" ")) <= width for start, end in spans)
    between = [text[end:start] for (_, end), (start, _) in itertools.pairwise(spans)]
    assert set(between) <= {"", "\n"}
    assert spans[0][0] == 0
    assert spans[-1][1] == len(text) - text.endswith("\n") * (spans[-1][0] != len(text))
    assert all(text_lines.line_of(start) == line for line, (start, _) in enumerate(spans))


def test_a_long_line_costs_its_found_lines() -> None:
    text_lines = WrappedText("x" * 10_000_000, 80)
    began = time.thread_time()
    text_lines.more(200)
    assert (len(text_lines), text_lines.done) == (201, False)
    assert time.thread_time() - began < 0.5


@each_case(
    ("text", "lines"),
    [
        ("", [""]),
        ("one two three", ["one two ", "three"]),
        ("a\n\nb\n", ["a", "", "b", ""]),
        ("abcdefghijklmnop", ["abcdefgh", "ijklmnop"]),
        ("to abcdefghijk", ["to ", "abcdefgh", "ijk"]),
        ("日本語日本", ["日本語日", "本"]),
        ("x 日本語日", ["x ", "日本語日"]),
        ("a\tb", ["a   b"]),
        ("12345678 x", ["12345678 ", "x"]),
        ("\u0301a\n\u0301", ["◌\u0301a", "◌\u0301"]),
        ("1234567 \u0301x", ["1234567 ", "◌\u0301x"]),
        ("1234567e\u0301x", ["1234567e\u0301", "x"]),
        ("שלום\u05b8", ["שלום\u05b8"]),
    ],
)
def test_a_text_wraps_at_words_measured_in_cells(text: str, lines: list[str]) -> None:
    assert wrapped(text, 8) == lines


@given(st.text(st.characters(exclude_characters="\n\t"), max_size=60), st.integers(2, 20))
def test_wrapping_loses_nothing_and_overhangs_only_spaces(text: str, width: int) -> None:
    lines = wrapped(text, width)
    assert "".join(lines).replace("◌", "") == safe(text, multiline=True).replace("◌", "")
    assert all(cell_len(line.rstrip(" ")) <= width for line in lines)


@given(st.text(st.sampled_from("a \n\u0301\u20dd\u05b8א日"), max_size=40), st.integers(2, 12))
def test_no_line_begins_with_a_combining_mark(text: str, width: int) -> None:
    assert all(cell_len(line[0]) for line in wrapped(text, width) if line)


def test_hostile_text_is_safe() -> None:
    assert not any(sign in "".join(wrapped(HOSTILE, 20)) for sign in "\x1b\x07\x9b\u202e\t")


def test_tail_has_as_many_lines_as_fit() -> None:
    parts = [("reasoning", "think", 5), ("content", "one two three four", 13)]
    assert tail(parts, 8, 9) == [("reasoning", "think"), ("content", "one two "), ("content", "three")]
    assert tail(parts, 8, 1) == [("content", "three")]
    assert tail(parts, 8, 0) == []


def test_lines_stay_while_a_long_text_grows() -> None:
    text = "word and another\n" * 100_000
    rows_before = tail([("content", text, 850_016)], 30, 10)
    rows_after = tail([("content", text, 850_033)], 30, 10)
    assert rows_after[:9] == rows_before[1:]


def test_tail_of_ten_million_characters_reads_only_their_end() -> None:
    text = "x" * 10_000_000
    lines = tail([("content", text, len(text))], 60, 20)
    assert len(lines) == 20
    assert {line for _, line in lines[:-1]} == {"x" * 60}


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


@each_case("cluster", CLUSTERS)
def test_cluster_is_one_grapheme(cluster: str) -> None:
    assert list(grapheme_ends(cluster)) == [len(cluster)]
    assert are_graphemes(cluster) == (len(cluster) == 1)
    assert [grapheme_boundary(f"x{cluster}x", at) for at in range(1, len(cluster) + 2)] == [
        1, *[len(cluster) + 1] * len(cluster)
    ]  # fmt: skip


def test_hostile_cluster_is_cut() -> None:
    assert list(grapheme_ends("a" + "\u0301" * 600)) == [256, 512, 601]


@given(TEXTS, st.integers(4, 12))
def test_no_line_of_a_pane_breaks_a_grapheme(text: str, width: int) -> None:
    text_lines = WrappedText(text, width)
    text_lines.more(1000)
    assert text_lines.done
    spans = [text_lines.span(line) for line in range(len(text_lines))]
    boundaries = {0, *(match.end() for match in regex.finditer(r"\X", safe(text, multiline=True)))}
    assert {place for span in spans for place in span} <= boundaries
    assert all(cell_len(text[start:end].rstrip(" ")) <= width for start, end in spans)
    assert "".join(text[start:end] for start, end in spans) == text.replace("\n", "")


@given(TEXTS, st.integers(4, 12))
def test_no_line_of_a_lane_breaks_a_grapheme(text: str, width: int) -> None:
    lines = wrapped(text, width)
    clusters = [cluster for line in lines for cluster in regex.findall(r"\X", line)]
    assert clusters == [
        cluster for cluster in regex.findall(r"\X", "\n".join(wrapped(text, 10_000))) if cluster != "\n"
    ]
    assert all(cell_len(line.rstrip(" ")) <= width for line in lines)


def spoken(*words: str) -> Transcript:
    body = b"".join(event({"content": word}) for word in words)
    return Transcript(
        decode(
            Exchange(
                status=200, content_type="text/event-stream", ended_by="end", connected_ns=0, headers_ns=0, end_ns=1
            ),
            [Read(0, 1, None, 0, len(body))],
            body,
        )
    )


def test_a_grapheme_in_parts_is_drawn_whole() -> None:
    answer = AnswerLayout(spoken("ok 👩", "\u200d💻 e", "\u0301!"), 20)
    part = answer.parts[0]
    drawings = [[(run.text, run.state) for run in part.runs(0, position)] for position in range(4)]
    assert drawings[0] == [("ok 👩\u200d💻", "ghost"), (" e\u0301", "ghost"), ("!", "ghost")]
    assert drawings[1] == [("ok 👩", "said"), (" e\u0301", "ghost"), ("!", "ghost")]
    assert drawings[2] == [("ok 👩\u200d💻", "said"), (" e", "said"), ("!", "ghost")]
    assert drawings[3] == [("ok 👩\u200d💻", "said"), (" e\u0301", "said"), ("!", "said")]


@each_case("text", ["\u0301" * 1_000_000, "👨\u200d" * 300_000, "🇩" * 500_000, "日e\u0301" * 300_000])
def test_a_megabyte_of_marks_costs_its_found_lines(text: str) -> None:
    cpu_before = time.thread_time()
    text_lines = WrappedText(text, 80)
    text_lines.more(200)
    assert len(text_lines) > 100
    tail([("content", text, len(text))], 80, 20)
    assert time.thread_time() - cpu_before < 1.0
