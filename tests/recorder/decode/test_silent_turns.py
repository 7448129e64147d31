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


def measured(answers: Sequence[Message], request: Sequence[int], by: str = "client", end_ms: int = 30_000) -> Measures:
    frames_received, sent = list(frames(answers)), list(frames([(at, ASK) for at in request], client=True))
    return derive(*websocket(frames_received, sent, by, end_ms=end_ms))


CREATED, FIRST, SECOND, COMPLETED = response(1, "one", "two")
WHOLE = [(110, CREATED), (200, FIRST), (300, SECOND), (400, COMPLETED)]


def silences(measures: Measures) -> tuple[int, int]:
    first_silence, longest = measures.first_output_silence_ns, measures.max_output_silence_ns
    assert first_silence is not None
    assert longest is not None
    return first_silence // MS, longest // MS


def test_between_two_responses_nothing_is_silent() -> None:
    later = [(at + 20_000, text) for at, text in WHOLE]
    measures = measured([*WHOLE, *later], [100, 20_100], end_ms=29_000)
    assert (silences(measures), "stall" in measures.flags) == ((100, 100), False)
    assert (measures.answers, measures.stalled_answers, measures.given_up_answers) == (2, 0, 0)


def test_each_response_is_judged_from_request_to_end() -> None:
    late = [(20_110, CREATED), (20_500, FIRST), (24_000, SECOND), (27_000, COMPLETED)]
    measures = measured([*WHOLE, *late], [100, 20_100])
    assert (silences(measures), "stall" in measures.flags) == ((100, 3500), True)
    assert (measures.answers, measures.stalled_answers, measures.given_up_answers) == (2, 1, 0)


def test_a_response_left_in_a_stall_was_given_up() -> None:
    measures = measured([*WHOLE, (20_110, CREATED), (20_500, FIRST)], [100, 20_100], end_ms=24_000)
    assert (measures.outcome, silences(measures)) == ("client_closed", (100, 3500))
    assert (measures.answers, measures.stalled_answers, measures.given_up_answers) == (2, 1, 1)
    assert {"stall", "given_up"} <= set(measures.flags)
    assert (measures.silent_end_by, measures.last_silence_ns) == ("upstream", 3500 * MS)


def test_a_response_that_never_began_stalled_since_its_request() -> None:
    measures = measured([*WHOLE, (20_110, CREATED)], [100, 20_100], end_ms=24_000)
    assert (measures.stalled_answers, measures.given_up_answers, measures.last_silence_ns) == (1, 1, 3900 * MS)


def test_a_dead_recorder_alone_leaves_no_stall() -> None:
    measures = measured([*WHOLE, (20_110, CREATED), (20_500, FIRST)], [100, 20_100], "died", end_ms=24_000)
    assert (measures.outcome, measures.stalled_answers) == ("interrupted", 0)
