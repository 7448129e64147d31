"""Running the command line in a test: captured, or with a pseudo-terminal for its stdout."""

import contextlib
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from tests.support.forked import CLI, ROOT, Forked
from wiretape.viewer.cli import group

RUN = (sys.executable, *CLI)


def run(tape: Path, *arguments: str, code: int = 0, input: bytes | None = None) -> Result:
    result = CliRunner().invoke(group, [*arguments], env={"WIRETAPE_DB": str(tape)}, input=input)
    assert result.exit_code == code, result.output
    return result


@contextlib.contextmanager
def started(
    *arguments: str, env: dict[str, str] | None = None, is_fresh: bool = False
) -> Iterator["subprocess.Popen[bytes]"]:
    """Start the command, forked unless it `is_fresh`; it is killed at the end of the block if it still runs."""
    start, program = (subprocess.Popen, RUN) if is_fresh else (Forked, CLI)
    streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with start([*program, *arguments], cwd=ROOT, env=env, **streams) as process:
        try:
            yield process
        finally:
            process.kill()


def on_terminal(tape: Path, *arguments: str, columns: int = 100, terminal: str = "xterm-256color") -> str:
    """Run a command with a pseudo-terminal for stdout, and return its output."""
    outer, inner = pty.openpty()
    environment = os.environ | {"WIRETAPE_DB": str(tape), "COLUMNS": str(columns), "TERM": terminal}
    process = Forked([*CLI, *arguments], stdout=inner, stderr=inner, env=environment)
    os.close(inner)
    output = b""
    while True:
        try:
            data = os.read(outer, 65536)
        except OSError:
            break
        output += data
        if not data:
            break
    os.close(outer)
    process.wait(60)
    return output.decode()
