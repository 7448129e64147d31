"""Exchanges as other tools measure them: the same by one process and by several."""

from pathlib import Path

import pytest
from sqlalchemy import Connection

from tests.support.sample_tape import COMPLETE
from wiretape.viewer.query.parser import parse
from wiretape.viewer.source.tape import conditions, observed
from wiretape.viewer.stats.tools.summary import report_of


def test_several_processes_measure_as_one_does(
    connection: Connection, tape: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = "sglang"
    alone = list(observed.measured(connection, tape, tool))
    monkeypatch.setattr(observed, "MANY", 0)
    monkeypatch.setattr(observed, "PART", 3)
    assert list(observed.measured(connection, tape, tool)) == alone
    assert report_of(tool, alone).attempts > 3


def test_only_what_fits_is_measured(connection: Connection, tape: Path) -> None:
    (one,) = observed.measured(connection, tape, "vllm", conditions.condition(parse(f"id:{COMPLETE}")))
    assert one[1] == "complete"
