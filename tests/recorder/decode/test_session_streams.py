"""Streams of hosted agents' sessions: turns, texts, tools, tokens, outcomes, and the exchange that is the stream."""

from typing import Any

import pytest

from tests.support.agent_streams import (
    CLAUDE,
    MS,
    OPENAI,
    Event,
    claude,
    delta,
    idle,
    message,
    openai,
    recorded,
    request_end,
    running,
    turn,
    words,
)
from wiretape.recorder.decode.derive import derive
from wiretape.recorder.decode.metrics import Measures


def measured(*events: Event, ended_by: str | None = "client", path: str = "", **facts: Any) -> Measures:
    """Derive a stream; its path is that of its first event's API."""
    is_openai = events[0].kind.startswith("agent.session.")
    return derive(*recorded(path or (OPENAI if is_openai else CLAUDE), list(events), ended_by, **facts))


def turns(*events: Event, **more: Any) -> list[dict[str, Any]]:
    return measured(*events, **more).turns or []


def told(values: dict[str, Any], *names: str) -> tuple[Any, ...]:
    """Return values of a turn, times in ms."""
    return tuple(values[f"{name}_ns"] // MS if f"{name}_ns" in values else values.get(name) for name in names)


ANSWERS = {
    "claude": [
        running(140), claude(250, "event_start", event={"type": "agent.message", "id": "m1"}), delta(290, "Hel"),
        delta(335, "lo"), message(380, "Hello"),
        request_end(390, input_tokens=7, output_tokens=3, cache_read_input_tokens=2), idle(398),
    ],
    "openai": [
        turn(140, "created"), words(290, "Hel"), words(335, "lo"),
        openai(380, "turn.output_text.done", item_id="i1", content_index=0, text="Hello"),
        turn(398, "completed", usage={
            "input_tokens": 9, "input_tokens_details": {"cached_tokens": 2}, "output_tokens": 3,
        }),
    ],
}  # fmt: skip
LATER = {
    "claude": [running(1040), delta(1190, "Yes", "m2"), message(1200, "Yes", id="m2"), idle(1210)],
    "openai": [turn(1040, "created", "t2"), words(1190, "Yes", "i2", "t2"), turn(1210, "completed", "t2")],
}


@pytest.mark.parametrize("api", ANSWERS)
def test_a_turn_is_timed_and_told_whole(api: str) -> None:
    (values,) = turns(*ANSWERS[api])
    assert told(values, "started_at", "ttft", "last", "ended_at") == (140, 150, 195, 398)
    assert told(values, "outcome", "text", "input_tokens", "input_cached_tokens", "output_tokens") == (
        "complete",
        "Hello",
        9,
        2,
        3,
    )


@pytest.mark.parametrize("api", ANSWERS)
def test_two_turns_leave_the_pause_out(api: str) -> None:
    values = measured(*ANSWERS[api], *LATER[api])
    first, second = values.turns or ()
    assert (first["text"], second["text"], values.content) == ("Hello", "Yes", "Hello")
    assert told(second, "started_at", "ttft") == (1040, 150)
    assert (values.outcome, values.operation, values.ttft_ns, values.duration_ns) == (
        "complete",
        "agent_session",
        150 * MS,
        (258 + 170) * MS,
    )
    assert values.max_gap_ns == 45 * MS
