"""Attempts at one request."""

from tests.support.cases import each_case
from wiretape.viewer.sessions.retries import Attempt, attempts_around

S = 1_000_000_000


def attempt(no: int, start: float, end: float | None, outcome: str = "http_error") -> Attempt:
    return Attempt(no, f"{no:016x}", round(start * S), None if end is None else round(end * S), outcome)


def test_attempts_before_and_after_have_their_pauses() -> None:
    ordered = [attempt(1, 0, 1), attempt(2, 2, 3), attempt(3, 7, 8), attempt(4, 16, 20, "complete")]
    attempts = attempts_around(3, ordered[::-1])
    assert ([item.no for item in attempts.earlier], [item.no for item in attempts.later]) == (
        [1, 2],
        [4],
    )
    assert (attempts.pauses_before, attempts.pauses_after) == ([1 * S, 4 * S], [8 * S])


@each_case(
    "first_attempt",
    [attempt(1, 0, 1, "complete"), attempt(1, 0, None, "open"), attempt(1, 0, 700), attempt(1, -700, -600)],
    ids=["complete", "running", "at once", "long ago"],
)
def test_only_a_request_after_a_recent_failure_retries(first_attempt: Attempt) -> None:
    assert attempts_around(2, [first_attempt, attempt(2, 5, 6)]).earlier == ()


def test_an_abandoned_request_is_sent_again() -> None:
    assert len(attempts_around(2, [attempt(1, 0, 1, "client_closed"), attempt(2, 1, 6)]).earlier) == 1


def test_a_start_a_moment_too_early_leaves_no_pause() -> None:
    attempts = attempts_around(2, [attempt(1, 0, 1), attempt(2, 0.9995, 6)])
    assert attempts.pauses_before == [0]
