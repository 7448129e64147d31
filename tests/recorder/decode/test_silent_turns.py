"""Silences of the responses over a WebSocket: each by itself, and none between them."""

from collections.abc import Iterator, Sequence

from tests.support.websockets import ASK, MS, response, side, websocket
from wiretape.recorder.decode.derive import derive
from wiretape.recorder.decode.metrics import Measures

Message = tuple[int, str]


def frames(messages: Sequence[Message], *, client: bool = False) -> Iterator[tuple[int, bytes]]:
    encoder = side(client=client)
    for at_ms, text in messages:
        yield at_ms, encoder.send_data(text)


def measured(answers: Sequence[Message], asked: Sequence[int], by: str = "client", end_ms: int = 30_000) -> Measures:
    came, sent = list(frames(answers)), list(frames([(at, ASK) for at in asked], client=True))
    return derive(*websocket(came, sent, by, end_ms=end_ms))


CREATED, FIRST, SECOND, COMPLETED = response(1, "one", "two")
WHOLE = [(110, CREATED), (200, FIRST), (300, SECOND), (400, COMPLETED)]


def silences(one: Measures) -> tuple[int, int]:
    first, longest = one.first_output_silence_ns, one.max_output_silence_ns
    assert first is not None
    assert longest is not None
    return first // MS, longest // MS


def test_between_two_responses_nothing_is_silent() -> None:
    later = [(at + 20_000, text) for at, text in WHOLE]
    one = measured([*WHOLE, *later], [100, 20_100], end_ms=29_000)
    assert (silences(one), "stall" in one.flags) == ((100, 100), False)
    assert (one.answers, one.stalled_answers, one.given_up_answers) == (2, 0, 0)


def test_each_response_is_judged_from_request_to_end() -> None:
    late = [(20_110, CREATED), (20_500, FIRST), (24_000, SECOND), (27_000, COMPLETED)]
    one = measured([*WHOLE, *late], [100, 20_100])
    assert (silences(one), "stall" in one.flags) == ((100, 3500), True)
    assert (one.answers, one.stalled_answers, one.given_up_answers) == (2, 1, 0)


def test_a_response_left_in_a_stall_was_given_up() -> None:
    one = measured([*WHOLE, (20_110, CREATED), (20_500, FIRST)], [100, 20_100], end_ms=24_000)
    assert (one.outcome, silences(one)) == ("client_closed", (100, 3500))
    assert (one.answers, one.stalled_answers, one.given_up_answers) == (2, 1, 1)
    assert {"stall", "given_up"} <= set(one.flags)
    assert (one.silent_end_by, one.last_silence_ns) == ("upstream", 3500 * MS)


def test_a_response_that_never_began_stalled_since_its_request() -> None:
    one = measured([*WHOLE, (20_110, CREATED)], [100, 20_100], end_ms=24_000)
    assert (one.stalled_answers, one.given_up_answers, one.last_silence_ns) == (1, 1, 3900 * MS)


def test_a_dead_recorder_alone_leaves_no_stall() -> None:
    one = measured([*WHOLE, (20_110, CREATED), (20_500, FIRST)], [100, 20_100], "died", end_ms=24_000)
    assert (one.outcome, one.stalled_answers) == ("interrupted", 0)
