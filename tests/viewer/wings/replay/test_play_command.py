"""The command `play`, from the outside: its output, timing and end."""

import os
import signal
import socket
import sys
import time
from pathlib import Path

import pytest

from tests.support import forked
from tests.support.commands import on_terminal, run, started
from tests.support.frames import until
from tests.support.sample_tape import COMPLETE, COMPLETE_READS, FAILED, TOOLS, TRUNCATED


def test_a_pipe_gets_the_body_byte_for_byte(tape: Path) -> None:
    for id in (COMPLETE, TRUNCATED):
        assert (
            run(tape, "play", id, "--no-wait").stdout_bytes == run(tape, "export", id, "--format", "sse").stdout_bytes
        )


def test_several_exchanges_play_in_their_named_order(tape: Path) -> None:
    played = run(tape, "play", COMPLETE, TRUNCATED, COMPLETE, "--as", "text", "--speed", "0").stdout
    assert played == "Hello, worldHello, Hello, world"


def test_how_a_broken_stream_ended_is_reported_on_stderr(tape: Path) -> None:
    assert (
        run(tape, "play", TRUNCATED, "--no-wait").stderr
        == f"wiretape: {TRUNCATED}: truncated (eof): closed mid-chunk\n"
    )
    assert run(tape, "play", FAILED, "--no-wait", "--as", "text").stderr.endswith("(mid_stream): overloaded\n")


def test_an_empty_part_is_reported_on_stderr(tape: Path) -> None:
    played = run(tape, "play", COMPLETE, "--no-wait", "--from", "3s")
    assert (played.stdout, played.stderr) == (
        "", f"wiretape: {COMPLETE}: no data in that section; it ended after 0.181 s\n"
    )  # fmt: skip


def test_a_terminal_gets_text_and_no_raw_bytes(tape: Path) -> None:
    output = on_terminal(tape, "play", TOOLS, "--max-gap", "1ms")
    assert "Think. " in output
    assert "get_weather" in output
    assert "raw bytes may upset a terminal" in on_terminal(tape, "play", TOOLS, "--as", "sse")


def test_a_loop_says_once_how_its_stream_ended(tape: Path) -> None:
    with started("play", TRUNCATED, "--db", str(tape), "--no-wait", "--loop") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        body = b"".join(data for _, data in COMPLETE_READS[:4])
        assert process.stdout.read(3 * len(body)) == 3 * body
        process.stdout.close()
        assert process.stderr.read().count(b"\n") == 1


@pytest.mark.parametrize("speed", ["nan", "inf", "-1", "1e-300", "1e7"])
def test_what_is_no_speed_is_refused(tape: Path, speed: str) -> None:
    assert "use 0, or 1e-06 to 1e+06" in run(tape, "play", COMPLETE, "--speed", speed, code=2).output


def test_each_read_is_one_write_at_its_time(tape: Path) -> None:
    mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # keeps writes apart, unlike a pipe
    began, received = time.monotonic(), []
    with mine, theirs, forked.Forked([*forked.CLI, "play", COMPLETE, "--db", str(tape)], stdout=theirs) as process:
        theirs.close()
        while data := mine.recv(1 << 16):
            received.append(((time.monotonic() - began) * 1000, data))
        assert process.wait(60) == 0
    assert [data for _, data in received] == [data for _, data in COMPLETE_READS]
    assert all(at_ms >= due_ms for (at_ms, _), (due_ms, _) in zip(received, COMPLETE_READS, strict=True))


@pytest.mark.skipif(sys.platform != "linux", reason="whether it has stopped is read in /proc, which only Linux has")
def test_data_due_during_ctrl_z_comes_that_much_later(tape: Path) -> None:
    began = time.monotonic()
    with started("play", TOOLS, "--db", str(tape)) as process:
        assert process.stdout is not None
        first_data = os.read(process.stdout.fileno(), 1 << 16)
        os.kill(process.pid, signal.SIGTSTP)  # the next read is due in 3 s
        until(lambda: Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")
        stopped = time.monotonic()
        time.sleep(0.2)
        os.kill(process.pid, signal.SIGCONT)
        stopped = time.monotonic() - stopped
        remainder = process.stdout.read()
        assert process.wait(60) == 0
        assert time.monotonic() - began > 3 + stopped
    assert first_data + remainder == run(tape, "play", TOOLS, "--no-wait").stdout_bytes


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGPIPE])
def test_leaving_readers_and_ctrl_c_end_it_quietly(tape: Path, number: signal.Signals) -> None:
    slowly = ("--speed", "0.05")  # the first read is due in 1 s, the next one a minute later
    with started("play", TOOLS, "--db", str(tape), "--loop", *slowly, is_fresh=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        os.read(process.stdout.fileno(), 1 << 16)
        if number == signal.SIGINT:
            os.kill(process.pid, number)
        else:  # it notices while it waits for the next read
            process.stdout.close()
        assert process.wait(50) == 128 + number
        assert process.stderr.read().strip() == b""
