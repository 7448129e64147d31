"""Requests of a session that were sent twice, by small lists."""

from tests.support.cases import each_case
from wiretape.viewer.sessions.duplicates import SentRequest, duplicates


def pairs(*requests: tuple[float, str]) -> dict[int, int]:
    """Return the duplicates among requests at these seconds, which are numbered from 1."""
    return duplicates(SentRequest(round(at * 1e9), no, text) for no, (at, text) in enumerate(requests, 1))


@each_case(
    ("requests", "expected"),
    [
        ([(0, "a"), (5, "a")], {2: 1}),
        ([(0, "a"), (5.000000001, "a")], {}),
        ([(0, "a"), (1, "b")], {}),
        ([(0, "a"), (4, "a"), (8, "a")], {2: 1, 3: 2}),
        ([(3, "a"), (0, "a")], {1: 2}),
        ([(0, "a"), (0, "a")], {2: 1}),
    ],
)
def test_a_duplicate_has_equal_bytes_within_5_seconds(
    requests: list[tuple[float, str]], expected: dict[int, int]
) -> None:
    assert pairs(*requests) == expected


@each_case(
    ("upstream", "response_id", "expected"),
    [
        ("https://b", "r1", {}),
        ("https://b", "r2", {2: 1}),
        ("https://a", "r1", {2: 1}),  # a server that gives all responses one id
        ("https://b", None, {2: 1}),
    ],
)
def test_both_sides_of_a_gateway_are_paid_once(
    upstream: str, response_id: str | None, expected: dict[int, int]
) -> None:
    outer = SentRequest(0, 1, "a", "https://a", response_id and "r1")
    assert duplicates([outer, SentRequest(2_000_000, 2, "a", upstream, response_id)]) == expected


def test_a_request_sent_twice_through_a_gateway_is_one_duplicate() -> None:
    sides = [(0, "https://a", "r1"), (1, "https://a", "r2"), (2, "https://b", "r1"), (3, "https://b", "r2")]
    requests = (SentRequest(at, no, "a", *side) for no, (at, *side) in enumerate(sides, 1))
    assert duplicates(requests) == {2: 1}
