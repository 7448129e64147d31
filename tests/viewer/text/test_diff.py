"""The position of the first difference of two texts of any length."""

from tests.support.cases import each_case
from wiretape.viewer.text import diff
from wiretape.viewer.text.diff import CONTEXT, Divergence, Edit


@each_case(
    ("a", "b", "at"),
    [
        ("", "", 0),
        ("", "x", 0),
        ("abc", "abd", 2),
        ("abc", "abcd", 3),
        ("abcd", "abc", 3),
        ("x", "y", 0),
        ("日本", "日木", 1),
    ],
)
def test_common_prefix_length_counts_characters(a: str, b: str, at: int) -> None:
    assert diff.common_prefix_length(a, b) == diff.common_prefix_length(b, a) == at


def test_equal_texts_do_not_diverge() -> None:
    assert diff.divergence("same", "same") is None


def test_divergence_quotes_both_continuations() -> None:
    assert diff.divergence("one two", "one three") == Divergence(5, "one t", "wo", "hree", False, 0, 0)


@each_case(("a", "b", "growing", "parts"), [
    ("abc", "abcdef", (True, False), False),
    ("abc", "abcdef", (False, True), True),
    ("abcdef", "abc", (False, True), False),
    ("abx", "abc", (True, True), True),
    ("", "abc", (True, False), False),
])  # fmt: skip
def test_growing_text_that_is_a_prefix_has_not_diverged(
    a: str, b: str, growing: tuple[bool, bool], parts: bool
) -> None:
    assert (diff.divergence(a, b, growing) is not None) == parts


@each_case(("a", "b", "growing", "expected"), [
    ("a", "a", (False, False), "both texts are the same"),
    ("a", "ab", (True, False), "both texts are the same so far"),
    ("", "", (False, False), "neither has any text"),
    ("", "", (False, True), "neither has any text yet"),
    ("", "ab", (True, False), "A has no text yet"),
    ("ab", "", (False, True), "B has no text yet"),
])  # fmt: skip
def test_sameness_in_words(a: str, b: str, growing: tuple[bool, bool], expected: str) -> None:
    assert diff.sameness(a, b, growing) == expected


def test_text_that_is_a_prefix_has_an_empty_continuation() -> None:
    assert diff.divergence("abc", "abcdef") == Divergence(3, "abc", "", "def", False, 0, 0)


def test_divergence_of_ten_million_characters_quotes_only_its_context() -> None:
    common = "word " * 2_000_000
    difference = diff.divergence(f"{common}A{'x' * 1000}", f"{common}B")
    assert difference is not None
    assert difference.at == len(common)
    assert difference.shared == common[-CONTEXT:]
    assert (len(difference.a), difference.b) == (CONTEXT, "B")
    assert (difference.is_cut, difference.more_a, difference.more_b) == (True, 601, 0)


@each_case(("a", "b", "expected"), [
    ("ab\ncd", "ab\nce", "the same up to character 4 (line 2, column 2)"),
    ("a", "b", "they differ from the first character on"),
    ("", "b", "only B has any text"),
    ("a", "", "only A has any text"),
])  # fmt: skip
def test_divergence_in_words(a: str, b: str, expected: str) -> None:
    difference = diff.divergence(a, b)
    assert difference is not None
    assert diff.description(difference, a) == expected


def test_edits_mark_words_of_a_replaced_line() -> None:
    assert list(diff.edits("one two\nsame", "one three\nsame\nnew")) == [
        Edit("removed", (("one ", False), ("two", True))),
        Edit("added", (("one ", False), ("three", True))),
        Edit("same", (("same", False),)),
        Edit("added", (("new", True),)),
    ]


@each_case(("a", "b"), [("", "abc"), ("abc", "abc"), ("axbxc", "aybyc"), ("aab", "ab"), ("x" * 3000, "y" * 3000)])
def test_opcodes_turn_one_sequence_into_the_other(a: str, b: str) -> None:
    edits = diff.opcodes(a, b)
    assert "".join(a[start:end] for _, start, end, _, _ in edits) == a
    assert "".join(b[start:end] for *_, start, end in edits) == b
    assert all((a[i:j] == b[k:n]) == (kind == "equal") for kind, i, j, k, n in edits)
