"""Exchanges as other tools measure them: the same by one process and by several."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import Connection

from tests.support.frames import until
from tests.support.sample_tape import COMPLETE
from wiretape.recorder import process
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


KILLED = """
import multiprocessing, os, signal, sys
from pathlib import Path
from wiretape.viewer.source.tape import observed, queries

observed.MANY, observed.PART = 0, 3
with queries.opened(Path(sys.argv[1])) as connection:
    addends = observed.measured(connection, Path(sys.argv[1]), "sglang")
    next(addends)
    print(*[child.pid for child in multiprocessing.active_children()], flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_processes_that_measure_end_with_one_that_is_killed(tape: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", KILLED, tape], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        children = list(map(int, parent.stdout.readline().split()))
        assert len(children) > 0
        assert parent.wait(60) == -signal.SIGKILL
        until(lambda: all(process.is_gone(child, process.boot_id()) for child in children))


def test_only_what_fits_is_measured(connection: Connection, tape: Path) -> None:
    (one,) = observed.measured(connection, tape, "vllm", conditions.condition(parse(f"id:{COMPLETE}")))
    assert one[1] == "complete"
