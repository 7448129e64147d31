"""Which exchanges rates and latencies cover."""

from tests.support.cases import each_case
from wiretape.viewer.query import coverage
from wiretape.viewer.query.parser import parse


@each_case(
    "text",
    [
        "operation:chat", "operation!=models", "-operation:models", "operation~mod", "has:operation", "-has:operation",
        "model:m operation:chat", "is:ok or (model:m -(ttft>1s or operation:other))",
    ],
)  # fmt: skip
def test_any_term_about_the_operation_decides(text: str) -> None:
    assert coverage.names_operation(parse(text))


@each_case("text", ["operation", "model:operation", "text:operation", "api:openai.chat", "has:usage ttft>1s"])
def test_what_is_not_about_the_operation_does_not(text: str) -> None:
    assert not coverage.names_operation(parse(text))
    assert not coverage.names_operation(None)


def test_coverage_is_a_filter_that_can_be_typed() -> None:
    assert parse(str(coverage.COVERED)) == coverage.COVERED
    assert coverage.names_operation(coverage.COVERED)


def test_omissions_are_reported_by_operation() -> None:
    assert coverage.described({"models": 1}) == "1 exchange is not a generation (1 models)"
    assert (
        coverage.described({"other": 1200, "\x1b[2J": 1}) == "1,201 exchanges are not generations (1,200 other, 1 ␛[2J)"
    )
