"""`wiretape run` as a job of interactive shells, in a pseudo-terminal: keys, stops and ends are its command's."""

import asyncio
import contextlib
import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.forked import CLI, ROOT, Process
from tests.support.relay import DONE, chunk, kept, on_loop, until, wiretape
from tests.support.relay import select as selected
from wiretape.recorder.demo.upstream import ScriptedUpstream, answer

SECONDS = 60.0
SHELLS = {"bash": ["--norc", "--noprofile", "-i"], "zsh": ["-f", "-i"]}
HERE = [name for name in SHELLS if shutil.which(name)]


class Shell:
    """An interactive shell in a pseudo-terminal; `$W` runs a command with wiretape."""

    def __init__(self, name: str, directory: Path) -> None:
        self.sent = ""
        self._mark = 0
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            os.chdir(ROOT)
            # An activated environment exports its prompt, which the shells of the tests would pass on.
            others = ("WIRETAPE_", "OPENAI_", "PS1")
            environ = {key: value for key, value in os.environ.items() if not key.startswith(others)}
            os.execvpe(name, [name, *SHELLS[name]], environ | {"TERM": "dumb", "HOME": str(directory)})
        self.type("PS1='at: '; unset zle_bracketed_paste; W() { eval \"$WIRETAPE\" '\"$@\"'; }")
        command = " ".join([sys.executable, *CLI, "run", "--db", str(directory / "tape.db"), "--"])
        self.type(f"WIRETAPE='{command}'; echo rea''dy")
        self.wait_for("ready")

    def __enter__(self) -> "Shell":
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGHUP)
        with contextlib.suppress(OSError):
            os.close(self.terminal)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def press(self, keys: str) -> None:
        os.write(self.terminal, keys.encode())

    def type(self, line: str) -> None:
        self.press(f"{line}\n")

    def wait_for(self, pattern: str) -> str:
        """Wait until a pattern has come since the last that was waited for, and return its first group, if any."""
        deadline = time.monotonic() + SECONDS
        while not (match := re.compile(pattern).search(self.sent, self._mark)):
            remaining_s = deadline - time.monotonic()
            assert remaining_s > 0, f"{pattern} has not come after {self.sent[self._mark :]!r}"
            if select.select([self.terminal], [], [], remaining_s)[0]:
                self.sent += os.read(self.terminal, 1 << 16).decode("utf-8", "replace")
        self._mark = match.end()
        return match[1] if match.groups() else match[0]

    def wait_for_prompt(self) -> None:
        """Wait until the shell takes a line: what is typed before it has set the terminal can be lost."""
        self.wait_for("at: $")
        deadline = time.monotonic() + SECONDS
        while termios.tcgetattr(self.terminal)[3] & termios.ICANON:
            assert time.monotonic() < deadline
            time.sleep(0.01)


@pytest.fixture(params=HERE)
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shell]:
    with Shell(request.param, tmp_path) as started:
        yield started


def python(code: str) -> str:
    return f'{sys.executable} -c "{code}"'


def test_an_interrupt_ends_a_loop_of_the_shell(shell: Shell) -> None:
    sleeping = python("import time; print('sle' 'eping', flush=True); time.sleep(60)")
    shell.type(f"for k in 1 2 3; do W {sleeping}; done; echo code''=$?")
    shell.wait_for("sleeping")
    shell.press("\x03")
    shell.wait_for_prompt()
    shell.type("echo aft''er")
    shell.wait_for("after")
    assert shell.sent.count("sleeping") == 1


def test_an_interrupt_survivor_is_interrupted_once_within_a_loop(shell: Shell) -> None:
    code = (
        "import signal as s, time; got = []; s.signal(2, lambda *_: got.append(2)); print('wait' 'ing', flush=True)"
        "\nwhile not got: time.sleep(0.05)\ntime.sleep(0.2); print('got', len(got), flush=True)"
    )
    shell.type(f"for k in 1 2; do W {python(code)}; done; echo code''=$?")
    for _ in range(2):
        shell.wait_for("waiting")
        shell.press("\x03")
        assert shell.wait_for(r"got (\d)") == "1"
    assert shell.wait_for(r"code=(\d+)") == "0"


def test_a_stopped_command_returns_the_terminal_and_resumes(shell: Shell) -> None:
    shell.type("W sh -c 'echo wait''ing; while read -r line; do echo got $line; done'")
    shell.wait_for("waiting")
    for _ in range(2):
        shell.press("\x1a")
        shell.wait_for_prompt()
        shell.type("jobs; echo sh''ell")
        shell.wait_for("(?i)(stopped|suspended)")
        shell.wait_for("shell")
        shell.type("fg")
        shell.wait_for("(wiretape.viewer.cli run|continued).*\n")
        shell.type("line")
        shell.wait_for("got line")
    shell.press("\x04")
    shell.wait_for("0 generations, 0 failed")


def test_a_self_suspended_shell_returns_the_terminal_and_resumes(shell: Shell) -> None:
    shell.type("W bash --norc --noprofile -i")
    shell.wait_for("bash-[0-9.]+[#$] $")
    shell.type("suspend")
    shell.wait_for("(?i)(stopped|suspended)")
    shell.wait_for_prompt()
    shell.type("fg")
    shell.wait_for("(wiretape.viewer.cli run|continued).*\n")
    shell.type("echo in''ner; exit")
    shell.wait_for("inner")
    shell.wait_for("0 generations, 0 failed")


def test_another_processs_interrupt_reaches_the_foreground_command(shell: Shell) -> None:
    script = "trap 'echo trap''ped; exit' INT; echo wait''ing; while :; do sleep 0.05; done"
    shell.type(f'W sh -c "{script}"')
    shell.wait_for("waiting")
    (run,) = Path(f"/proc/{shell.pid}/task/{shell.pid}/children").read_text().split()
    os.kill(int(run), signal.SIGINT)
    shell.wait_for("trapped")
    shell.wait_for("0 generations, 0 failed")


def test_exit_codes_are_the_commands(shell: Shell) -> None:
    for end, code in (("kill -TERM $$", 143), ("exit 7", 7), ("kill -SEGV $$", 139), ("kill -KILL $$", 137)):
        shell.type(f"W sh -c '{end}'; echo code''=$?")
        assert shell.wait_for(r"code=(\d+)") == str(code)
    assert "core dumped" not in shell.sent


def test_a_resized_terminal_is_resized_for_the_command(shell: Shell) -> None:
    script = "trap 'stty size; exit' WINCH; echo wait''ing; while :; do sleep 0.05; done"
    shell.type(f'W sh -c "{script}"')
    shell.wait_for("waiting")
    fcntl.ioctl(shell.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 77, 0, 0))
    shell.wait_for("33 77")
    shell.wait_for("0 generations, 0 failed")  # and the recorder has ended


@on_loop
async def test_a_stream_is_read_while_its_command_is_stopped(tmp_path: Path) -> None:
    call = (
        "import os, urllib.request as u; came = u.urlopen(u.Request(os.environ['OPENAI_BASE_URL'] + '/chat/completions'"
        ", data=b'{}')); came.readline(); print('wait' 'ing', flush=True); print(len(came.read().split(b'data:')))"
    )
    chunks = [(0.05, chunk(str(number))) for number in range(20)]
    scene = answer([*chunks, (0.0, chunk("", finish="stop")), (0.0, DONE)])
    async with ScriptedUpstream(lambda _: scene) as upstream:
        with Shell("bash", tmp_path) as shell:
            shell.type(f"export OPENAI_BASE_URL={upstream.url}/v1")
            shell.type(f"W {python(call)}")
            await asyncio.to_thread(shell.wait_for, "waiting")
            shell.press("\x1a")
            await asyncio.to_thread(shell.wait_for_prompt)
            row = await until(lambda: kept(tmp_path / "tape.db", "/v1/chat/completions"))
            shell.type("fg")
            await asyncio.to_thread(shell.wait_for, r"\b22\r\n")
            await asyncio.to_thread(shell.wait_for, "1 generation: 1 complete")
    assert row.outcome == ("complete", None)
    assert row.row["paused"] == 0


def recorder_of(process: Process) -> int:
    """Return the process that records for a `wiretape run`: the one of its children that is in another session."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    (recorder,) = (int(child) for child in children if os.getsid(int(child)) == int(child))
    return recorder


def process_state(pid: int) -> str:
    """Return the letter of a process's state, "X" if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


WAITS = "import sys; print('ready', flush=True); sys.stdin.read(1); print('gone on')"


@on_loop
async def test_a_command_outlives_its_killed_recorder_with_losses_reported(tmp_path: Path) -> None:
    command = ("run", "--db", tmp_path / "tape.db", "--", sys.executable, "-c", WAITS)
    async with wiretape(*command, stdin=subprocess.PIPE, is_fresh=True) as process:
        assert process.stdout is not None
        await process.stdout.readline()
        os.kill(recorder_of(process), signal.SIGKILL)
        out, err = await process.communicate(b"x")
    assert (out, process.returncode) == (b"gone on\n", 125)
    assert err == b"wiretape: signal 9 has ended the recorder: nothing after it is stored\n"


@on_loop
async def test_a_recorder_ends_cleanly_when_its_run_is_killed(tmp_path: Path) -> None:
    command = ("run", "--db", tmp_path / "tape.db", "--", sys.executable, "-c", WAITS)
    async with wiretape(*command, stdin=subprocess.PIPE, is_fresh=True) as process:
        assert process.stdout is not None
        await process.stdout.readline()
        recorder = recorder_of(process)
        process.kill()
        await until(lambda: not Path(f"/proc/{recorder}").exists())
    (row,) = selected(tmp_path / "tape.db", "SELECT ended_at FROM sessions")
    assert row["ended_at"] is not None


ORPHAN = """
import os, signal, subprocess, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)  # and so do its children
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
daemon = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=0, start_new_session=True)
print(os.getpid(), child.pid, daemon.pid, flush=True)
child.wait()
"""


@on_loop
async def test_a_killed_run_leaves_only_daemons_which_it_names(tmp_path: Path) -> None:
    command = ("run", "--db", tmp_path / "tape.db", "--", sys.executable, "-c", ORPHAN)
    async with wiretape(*command, stdin=subprocess.PIPE, is_fresh=True) as process:
        assert process.stdout is not None
        pids = [int(word) for word in (await process.stdout.readline()).split()]
        recorder = recorder_of(process)
        process.kill()
        await until(lambda: all(process_state(pid) in "ZX" for pid in (*pids[:2], recorder)))
        assert process_state(pids[2]) not in "ZX"
        _, err = await process.communicate()
    assert f"wiretape run was killed: pid {pids[1]} (" in err.decode()
    assert re.search(rf"pid {pids[1]} \(.*\) has not ended: it is killed\n", err.decode())
    assert f"goes on without a recorder: kill {pids[2]}\n" in err.decode()
