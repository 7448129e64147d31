"""The cursor: its tokens and its positions."""

import pytest

from wiretape.viewer.query.parser import WORD, Cursor, FilterError, FilterItem, checked


def test_items_have_commas_between_them_and_know_their_places() -> None:
    cursor = Cursor('a*,"b, *" , c d')
    assert cursor.items() == [FilterItem("a*", False, 0), FilterItem("b, *", True, 3), FilterItem("c", False, 12)]
    assert cursor.remainder() == "d"


def test_a_phrase_has_no_wildcards() -> None:
    assert FilterItem("a*", True, 0).pattern == ("a*",)
    assert FilterItem("a*", False, 0).pattern == ("a", "")


@pytest.mark.parametrize(("text", "expression"), [("a(b)c) d", "a(b)c"), ("a) b", "a"), ('"a) b" c', "a) b")])
def test_an_expression_ends_at_spaces_or_foreign_parentheses(text: str, expression: str) -> None:
    assert Cursor(text).expression().text == expression


def test_a_sign_that_does_not_come_next_is_left() -> None:
    cursor = Cursor("  ab")
    assert not cursor.take("b")
    assert (cursor.take("a"), cursor.at, cursor.next_word()) == (True, 3, "b")


@pytest.mark.parametrize("text", ["a", "a)", "a b"])
def test_a_term_ends_before_spaces_or_closing_parentheses(text: str) -> None:
    cursor = Cursor(text)
    cursor.match(WORD)
    cursor.separated()


@pytest.mark.parametrize("text", ["a(", 'a"b"'])
def test_a_term_does_not_end_before_anything_else(text: str) -> None:
    cursor = Cursor(text)
    cursor.match(WORD)
    with pytest.raises(FilterError, match="expected a space"):
        cursor.separated()


def test_a_readers_error_becomes_one_of_this_place() -> None:
    with pytest.raises(FilterError, match=r"'x' \(character 8\): invalid literal"):
        FilterItem("x", False, 7).read(int)


@pytest.mark.parametrize("text", ["\0", "\ud800"])
def test_what_a_database_cannot_compare_with_is_refused(text: str) -> None:
    assert checked("é\U0001f600") == "é\U0001f600"
    with pytest.raises(FilterError, match="expected text"):
        checked(text)
