"""The turns of a session as a table of the inspector, and their ends in words."""

from typing import Any

import pytest

from tests.support.websockets import Spoken, session
from wiretape.recorder.decode.decoder import decode
from wiretape.recorder.decode.turns import TurnMeasures
from wiretape.viewer.exchange import events, turns
from wiretape.viewer.exchange.transcript import Transcript

PATH = "/v1/realtime?model=m"
DONE: dict[str, Any] = {"id": "r1", "status": "cancelled", "status_details": {"reason": "turn_detected"}}
MESSAGES: list[Spoken] = [
    (100, "client", {"type": "response.create"}),
    (110, "server", {"type": "response.created", "response": {"id": "r1"}}),
    (150, "server", {"type": "response.output_audio_transcript.delta", "response_id": "r1", "delta": "Hi\x1b[2J"}),
    (160, "server", {"type": "response.output_audio.delta", "response_id": "r1", "delta": "AAAA" * 1600}),
    (200, "server", {"type": "response.done", "response": DONE}),
]


def test_each_turn_is_a_safe_line() -> None:
    transcript = Transcript(decode(*session(PATH, MESSAGES)))
    heads, row = ("".join(text for text, _ in line) for line in turns.table(transcript.turns, 120))
    assert " ".join(heads.split()) == "turn begun by start s ttft ms ttfa ms audio ms silent ms end text"
    figures = ["1", "response.create", "0.100", "50.0", "60.0", "100.0", "0.0", "interrupted"]
    assert row.split()[:8] == figures
    assert "\x1b" not in row
    assert not [*turns.table((), 120)]


@pytest.mark.parametrize("width", [20, 80, 300])
def test_the_table_keeps_its_width_where_figures_have_room(width: int) -> None:
    long = TurnMeasures(turn=1, outcome="complete", audio_bytes=0, text="word " * 200)
    for line in turns.table([long], width):
        assert len("".join(text for text, _ in line)) <= max(width, 70)


def test_a_turns_last_event_says_how_it_ended() -> None:
    transcript = Transcript(decode(*session(PATH, MESSAGES)))
    assert events.summary(transcript, 4) == "turn 1: interrupted (turn_detected)"


@pytest.mark.parametrize(
    ("outcome", "reason", "code", "expected"),
    [
        ("complete", "completed", None, "turn 2: complete"),
        ("complete", "max_output_tokens", None, "turn 2: complete (max_output_tokens)"),
        ("error", "failed", "boom", "turn 2: error (boom)"),
        ("truncated", None, None, "turn 2: truncated"),
    ],
)
def test_an_ends_reason_shows_unless_it_repeats_it(
    outcome: str, reason: str | None, code: str | None, expected: str
) -> None:
    turn = TurnMeasures(turn=2, outcome=outcome, finish_reason=reason, error_code=code, audio_bytes=0)
    assert turns.ending(turn) == expected
