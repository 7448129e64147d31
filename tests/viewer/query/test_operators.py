"""The rows of operators and of kinds of values."""

from wiretape.viewer.query.fields import FIELDS
from wiretape.viewer.query.operators import KINDS, OPERATORS, ORDERINGS
from wiretape.viewer.query.parser import operators, parse

VALUES = {"text": "x", "label": "run=a7", "has": "usage", "time": "2026-11-21", "duration": "2ms", "gaps": "2ms",
          "count": "400", "rate": "2.5", "share": "10%"}  # fmt: skip
CHOSEN = {"outcome": "complete", "flags": "stall", "operation": "chat", "cache_verdict": "hit"}


def test_every_operator_is_parsed_and_printed_again() -> None:
    names_seen = set[str]()
    for field in FIELDS.values():
        for operator in operators(field):
            names_seen.add(operator)
            filter = parse(f"{field.name}{operator}{CHOSEN.get(field.name, VALUES[field.kind])}")
            assert parse(str(filter)) == filter
    assert names_seen == set(OPERATORS)
    assert set(VALUES) == set(KINDS)


def test_a_span_has_its_orderings_whole_numbers() -> None:
    for ordering in ORDERINGS.values():
        for limit in (2, 2.5, 3):
            low, high = ordering.span(limit)
            for number in range(6):
                is_within = (low is None or number >= low) and (high is None or number <= high)
                assert is_within == ordering.holds(number, limit)
