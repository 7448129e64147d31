"""Frames: types that keep unknown unknown, and percentiles of the complete exchanges only."""

from pathlib import Path

import pandas as pd
import pytest

from recorder import tapefile
from viewer import frames, rows


@pytest.fixture
def frame(tape: Path) -> pd.DataFrame:
    return frames.exchanges_frame(tape)


def test_the_columns_are_the_contract(frame: pd.DataFrame) -> None:
    assert tuple(frame.columns) == rows.FIELDS
    assert len(frame) == 7


def test_types_are_nullable_and_instants_are_in_utc(frame: pd.DataFrame) -> None:
    kinds = {field: str(kind) for field, kind in frame.dtypes.items()}
    assert (kinds["status"], kinds["ttft_ms"], kinds["model"], kinds["flags"]) == (
        "Int64",
        "Float64",
        "string",
        "string",
    )
    assert frame["started_at"].iloc[0] == pd.Timestamp("2026-03-01T12:00:01Z")


def test_unknown_stays_unknown(frame: pd.DataFrame) -> None:
    live = frame.iloc[-1]
    assert live["outcome"] == "open"
    assert live["ttft_ms"] is pd.NA
    assert live["completion_tokens"] is pd.NA


def test_the_summary_is_of_complete_exchanges_and_interpolates_linearly(frame: pd.DataFrame) -> None:
    found = frames.summary(frame)
    assert tuple(found.index) == frames.SUMMARISED
    assert list(found.columns) == ["n", "mean", "p50", "p90", "p99", "max"]
    assert found.loc["ttft_ms"].tolist() == pytest.approx([2, 80, 80, 104, 109.4, 110])


def test_values_that_are_unknown_do_not_count(frame: pd.DataFrame) -> None:
    assert frames.summary(frame).loc["tpot_ms"].tolist() == [1, 20, 20, 20, 20, 20]


def test_an_empty_tape_has_an_empty_summary(tmp_path: Path) -> None:
    with tapefile.writing(tmp_path / "tape.db", "a test"):
        pass
    frame = frames.exchanges_frame(tmp_path / "tape.db")
    found = frames.summary(frame)
    assert len(frame) == 0
    assert found["n"].tolist() == [0] * 8
    assert found["p50"].isna().all()


def test_a_summary_is_shown_with_a_dash_where_nothing_is_known() -> None:
    empty = frames.summary(pd.DataFrame({"outcome": ["truncated"], **{name: [1.0] for name in frames.SUMMARISED}}))
    lines = frames.shown(empty).splitlines()
    assert lines[0].split() == ["n", "mean", "p50", "p90", "p99", "max"]
    assert lines[1].split() == ["ttft_ms", "0", "–", "–", "–", "–", "–"]
