"""Regular expressions: what they see, which are refused, and that none goes on for ever."""

import pytest

from viewer.filtering import expressions
from viewer.filtering.expressions import TooSlow


def test_a_regular_expression_sees_the_beginning_of_a_text() -> None:
    assert expressions.found("B$", "ab")
    assert expressions.found("é", "é\xff".encode("latin-1") + "é".encode())
    assert not expressions.found("x", "a" * expressions.TEXT_CAP + "x")
    assert expressions.found("x", None) is None


@pytest.mark.parametrize("text", ["(", "a{99999999999}", "x" * 201])
def test_what_is_no_regular_expression_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a regular expression"):
        expressions.compiled(text)


def test_a_repeat_within_a_repeat_is_no_trouble() -> None:
    assert not expressions.found("(a+)+$", "a" * 60 + "b")


def test_an_expression_that_would_go_on_for_ever_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expressions, "LONGEST_SECONDS", 0.02)
    with pytest.raises(TooSlow, match="takes too long on what is recorded"):
        expressions.found("(x+x+)+y", "x" * 60_000)
