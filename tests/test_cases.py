"""A table of cases is one test that runs every case and names those that fail."""

import pytest

from tests.support.cases import each_case


def test_every_case_runs_and_failures_name_theirs() -> None:
    ran = []

    @each_case("number, limit", [(1, 2), pytest.param(5, 2, id="too large"), (7, 3), (0, 1)])
    def check(number: int, limit: int) -> None:
        ran.append(number)
        assert number < limit

    with pytest.raises(BaseExceptionGroup) as raised:
        check()
    assert ran == [1, 5, 7, 0]
    assert raised.value.message == "2 of 4 cases failed: 1: too large; 2: 7-3"
    assert [error.__notes__ for error in raised.value.exceptions] == [["case 1: too large"], ["case 2: 7-3"]]


def test_a_missing_expected_exception_is_a_failure() -> None:
    @each_case("kind", [ValueError])
    def check(kind: type[Exception]) -> None:
        with pytest.raises(kind):
            pass

    with pytest.raises(BaseExceptionGroup, match="1 of 1 cases failed"):
        check()


def test_cases_do_not_share_function_fixtures() -> None:
    with pytest.raises(AssertionError, match="must not share"):

        @each_case("number", [1])
        def check(number: int, tmp_path: object) -> None:
            pass


def test_tables_cases_multiply_and_fixtures_pass_through() -> None:
    seen = []

    @each_case("one", "ab", ids=str.upper)
    @each_case("two", [1, 2])
    def check(one: str, two: int, fixture: str) -> None:
        seen.append((one, two, fixture))

    check(fixture="f")
    assert seen == [("a", 1, "f"), ("a", 2, "f"), ("b", 1, "f"), ("b", 2, "f")]
