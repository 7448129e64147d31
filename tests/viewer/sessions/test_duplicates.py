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
