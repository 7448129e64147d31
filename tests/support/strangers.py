"""Programs that the system refuses what it refuses any user, also where the tests run as root."""

import contextlib
import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from tests.support.forked import CLI

_PR_CAPBSET_DROP = 24
_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH = 1, 2
_EACH = """
import contextlib, io, json, sys
from wiretape.viewer import cli
done = []
for arguments in json.load(sys.stdin):
    code, output = 0, io.TextIOWrapper(io.BytesIO(), write_through=True)
    sys.argv = ["wiretape", *arguments]
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        try:
            cli.main()
        except SystemExit as end:
            code = end.code
    done.append((code, output.buffer.getvalue().decode()))
json.dump(done, sys.stdout)
"""


def _drop_rights() -> None:
    """Drop root's rights to pass over the modes of files, from the next exec on."""
    if os.geteuid() == 0:
        for capability in (_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH):
            ctypes.CDLL(None).prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)


def ran(
    *arguments: str | Path, env: Mapping[str, str] | None = None, preexec_fn: Callable[[], None] = _drop_rights
) -> "subprocess.CompletedProcess[str]":
    """Run the command in an interpreter of its own, without any right to pass over modes."""
    command = [sys.executable, *CLI, *arguments]
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, env=env, preexec_fn=preexec_fn
    )


def ran_each(commands: Sequence[Sequence[str | Path]], env: Mapping[str, str] | None = None) -> list[tuple[int, str]]:
    """Run commands one after the other in one such interpreter; return the exit code and the output of each."""
    payload, python = json.dumps(commands, default=str), (sys.executable, "-c", _EACH)
    done = subprocess.run(python, input=payload, stdout=-1, text=True, check=True, env=env, preexec_fn=_drop_rights)
    return [(code, output) for code, output in json.loads(done.stdout)]


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[Path]:
    """Make a directory that may not be entered, until the end of the block."""
    directory.mkdir(exist_ok=True)
    directory.chmod(0)
    try:
        yield directory
    finally:
        directory.chmod(0o700)
