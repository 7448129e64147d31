"""The grammar: precedence, and errors with their places."""

import pytest

from tests.support.cases import each_case
from wiretape.viewer.query.parser import LONGEST, FilterError, parse, sort_order
from wiretape.viewer.query.syntax import And, Compare, Match, Not, Or, Word

A, B, C = Word(("a",)), Word(("b",)), Word(("c",))


@each_case(
    ("text", "tree"),
    [
        ("a", A),
        ("a b", And((A, B))),
        ("a and b", And((A, B))),
        ("a OR b c", Or((A, And((B, C))))),
        ("(a or b) c", And((Or((A, B)), C))),
        ("-a NOT b", And((Not(A), Not(B)))),
        ("-(a b)", Not(And((A, B)))),
        ("--a", Not(Not(A))),
        ("((a))", A),
        ('"or"', Word(("or",))),
        ('"a\\"b\\\\ \\d*"', Word(('a"b\\ \\d*',))),
        ("gpt-*", Word(("gpt-", ""))),
        ("TTFT > 800ms", Compare("ttft_ms", ">", 800_000_000)),
        ("model:a, b", Match("model", (("a",), ("b",)))),
    ],
)
def test_the_grammar(text: str, tree: object) -> None:
    assert parse(text) == tree


@each_case(
    ("text", "message"),
    [
        ("", "at the end: expected a term"),
        ("a or", "at the end: expected a term"),
        ("or a", "'or' (character 1): expected a term; to search for this word"),
        ("(a", "at the end: expected )"),
        ("a)", "')' (character 2): expected another term, or the end"),
        ('a "b', "'\"' (character 3): expected a closing \""),
        ('a"b"', "'\"' (character 2): expected a space"),
        ("text:foo(bar)", "'(' (character 9): expected a space"),
        (
            "a ttfx>1s",
            "'ttfx' (character 3): there is no such field: did you mean ttf",
        ),
        ("https://x", "a text with : in it needs quotes"),
        (">800ms", "'>800ms' (character 1): expected a field before >"),
        ("model>3", "'model>' (character 1): expected one of : = != ~ !~ after model"),
        ("a\x00", "'␀' (character 2): expected text"),
        ("\udcff", "expected text"),
        ("-" * 50 + "a", "expected at most 40 levels"),
        ("model:" + ",".join("a" * 101), "expected at most 100 values"),
        ("a" * (LONGEST + 1), "expected a filter of at most 4,000 characters"),
    ],
)
def test_an_error_names_the_place_and_what_was_expected(text: str, message: str) -> None:
    with pytest.raises(FilterError) as failure:
        parse(text)
    assert message in str(failure.value)


def test_an_error_knows_its_token_and_position() -> None:
    with pytest.raises(FilterError) as failure:
        parse("model:a ttft>fast")
    assert (failure.value.token, failure.value.position) == ("fast", 13)


@each_case(
    ("text", "order"),
    [("ttft", ("ttft_ms", False)), ("-gap.max", ("max_gap_ms", True)), ("at", ("started_at", False)),
     ("model", ("model", False))],
)  # fmt: skip
def test_an_order_is_a_field_of_a_row(text: str, order: tuple[str, bool]) -> None:
    assert sort_order(text) == order


@pytest.mark.parametrize(("text", "message"), [("ttfx", "did you mean ttf"), ("has", "cannot be sorted by has")])
def test_what_cannot_be_sorted_by_is_reported(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sort_order(text)
