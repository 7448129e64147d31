"""One exchange as a whole: when it began, when it was last heard of, and how it ended, in words."""

from datetime import UTC, datetime
from typing import Any

import pytest

from recorder.decode.decoder import Decoded
from recorder.decode.outcome import Read, Reads
from recorder.errors import TapeDamaged
from viewer.tape.whole import Whole, instant


def whole(reads: list[Read] | None = None, **facts: Any) -> Whole:
    known: dict[str, Any] = {
        "started_at": "2026-03-01T12:00:01.500000Z",
        "end_ns": None,
        "outcome": "open",
        "outcome_detail": None,
    }
    return Whole(
        known | {"error_message": None, "ended_detail": None} | facts, Reads.of(reads or []), b"", Decoded(b"", False)
    )


def test_a_start_is_an_instant_of_utc() -> None:
    assert whole().started == datetime(2026, 3, 1, 12, 0, 1, 500_000, UTC)


@pytest.mark.parametrize("text", ["", "yesterday", "2026-03-01T12:00:01"])
def test_a_time_that_is_none_is_damage(text: str) -> None:
    with pytest.raises(TapeDamaged, match="db check"):
        instant(text)


def test_an_open_exchange_was_last_heard_of_in_its_last_read() -> None:
    reads = [Read(0, 5, None, 0, 1), Read(1, 9, None, 1, 1)]
    assert whole(reads).last_ns == 9
    assert whole(reads, end_ns=12).last_ns == 12
    assert whole().last_ns is None


def test_an_ending_has_the_words_of_the_error_else_of_the_transport() -> None:
    assert whole().ending == "open"
    cut = {"outcome": "truncated", "outcome_detail": "eof", "ended_detail": "closed"}
    assert whole(**cut).ending == "truncated (eof): closed"
    assert whole(**cut, error_message="overloaded").ending == "truncated (eof): overloaded"
