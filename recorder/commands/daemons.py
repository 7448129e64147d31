"""Daemons of a command: processes that outlive it, and older ones that make its calls."""

import contextlib
import itertools
import os
import signal
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePath

from wiretape.recorder import process
from wiretape.recorder.clock import SYSTEM
from wiretape.recorder.destinations import is_loopback
from wiretape.recorder.relay import apis
from wiretape.recorder.sanitize import clipped
from wiretape.recorder.tape.redact import Redactor

_LOOK_SECONDS = 0.05


def without(command: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """Return a command with the option by which a known program does without its daemon."""
    program = apis.program_of(command[:1])
    if program is None or not program.starts_daemon(command[1:]) or not _knows(command[0], program.no_daemon, environ):
        return list(command)
    return [command[0], program.no_daemon, *command[1:]]


def _knows(program: str, option: str, environ: Mapping[str, str]) -> bool:
    """Return True if a program's help has an option: a release without it would not start."""
    try:
        answer = subprocess.run(
            [program, "--help"], env=environ, stdin=subprocess.DEVNULL, capture_output=True, timeout=5.0
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return option.encode() in answer.stdout.split()


def left_behind(mark: str) -> list[str]:
    """Return a line for each process that outlives a run, by the run's mark in its environment."""
    deadline = SYSTEM.now() + 500_000_000  # the children of a command may end a moment after it
    while (pids := process.pids_started_with(mark)) and SYSTEM.now() < deadline:
        SYSTEM.sleep(_LOOK_SECONDS)
    lines = [
        f"{described(pid)} goes on with the variables of this run, whose recorder has ended: kill {pid}"
        for pid in pids[:4]
    ]
    if more := pids[4:]:
        lines.append(f"so do {len(more)} more: kill {' '.join(map(str, more))}")
    return lines


def end(mark: str, session: int, report: Callable[[str], None]) -> None:
    """End the programs of a run whose launcher was killed, but for daemons, which have left its session: name those.

    The kernel has killed the command itself (Linux). What that has started would go on behind a proxy that has ended.
    """
    ended_pids = set[int]()
    for pid in process.pids_started_with(mark):
        with contextlib.suppress(ProcessLookupError, PermissionError):  # it has ended meanwhile, or is another user's
            program, is_daemon = described(pid), os.getsid(pid) != session
            if not is_daemon:
                os.kill(pid, signal.SIGTERM)
                os.kill(pid, signal.SIGCONT)  # a stopped one ends, too
                ended_pids.add(pid)
            consequence = f"goes on without a recorder: kill {pid}" if is_daemon else "is ended by SIGTERM"
            report(f"wiretape run was killed: {program} {consequence}")
    deadline = SYSTEM.now() + 2_000_000_000
    while (ignoring := ended_pids.intersection(process.pids_started_with(mark))) and SYSTEM.now() < deadline:
        SYSTEM.sleep(_LOOK_SECONDS)
    for pid in ignoring:
        report(f"{described(pid)} has not ended: it is killed")
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


class DaemonWatch:
    """The processes that ran before a command, and that its own are connected to on this machine."""

    def __init__(self, mark: str, recorder: int) -> None:
        self._mark, self._recorder = mark, recorder
        self.pids: set[int] = set()

    def look(self) -> None:
        """Add those that are connected to now; the recorder itself is none."""
        self.pids.update(process.called_ports(process.pids_started_with(self._mark)).values())
        self.pids.discard(self._recorder)


def listening(authorities: Iterable[str]) -> set[int]:
    """Return the processes that listen at those of the addresses `host:port` that are loopback's."""
    ports = {port for host, _, port in (authority.rpartition(":") for authority in authorities) if is_loopback(host)}
    return {pid for port in ports if (pid := process.listener(int(port))) is not None}


def described(pid: int) -> str:
    """Return the number and the command line of a process, up to the first option: a secret may follow."""
    program, *arguments = process.command_line(pid) or ["?"]
    words = [PurePath(program).name, *itertools.takewhile(lambda word: not word.startswith("-"), arguments[:2])]
    text = clipped(Redactor(None).text(" ".join(words)), 60)
    return f"pid {pid} ({text}{' …' * (len(words) <= len(arguments))})"
