"""Exchanges as other tools measure them: the same by one process and by several."""

import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.support.frames import until
from tests.support.sample_tape import COMPLETE, begin, end, recorded, response
from wiretape.recorder import process
from wiretape.recorder.tape.reader import Connection
from wiretape.viewer.query.parser import parse
from wiretape.viewer.source.tape import conditions, observed, queries
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


def test_measuring_processes_end_with_their_killed_parent(tape: Path) -> None:
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}  # warnings of left semaphores
    with subprocess.Popen([sys.executable, "-c", KILLED, tape], **streams) as parent:
        assert parent.stdout is not None
        children = list(map(int, parent.stdout.readline().split()))
        assert len(children) > 0
        assert parent.wait(60) == -signal.SIGKILL
        until(lambda: all(process.is_gone(child, process.boot_id()) for child in children))


def test_only_what_fits_is_measured(connection: Connection, tape: Path) -> None:
    (measured,) = observed.measured(connection, tape, "vllm", conditions.condition(parse(f"id:{COMPLETE}")))
    assert measured[1] == "complete"


MESSAGE = b'{"type":"message_start","message":{"type":"message","role":"assistant","model":"c","content":[]}}'
TEXT = b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}'
STOP = b'{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}'
READS = [(at, b"event: x\ndata: %b\n\n" % data) for at, data in ((30, MESSAGE), (70, TEXT), (90, STOP))]


def test_litellms_own_answer_is_known_by_its_headers(tmp_path: Path) -> None:
    frames = []
    for id, more in (("a" * 16, []), ("b" * 16, [(b"X-LiteLLM-Call-Id", b"1")])):
        head, *reads = response(id, READS)
        head = msgspec.structs.replace(head, headers=[*head.headers, *more])
        frames += [begin(id, 1, b"{}", "/v1/messages"), head, *reads, end(id, READS)]
    tape = recorded(tmp_path / "tape.db", frames)
    with queries.opened(tape) as connection:
        firsts = [measured.numbers["ttft_s"] for measured, *_ in observed.measured(connection, tape, "litellm")]
    assert firsts == [0.07, 0.03]
