"""Running the command line in a test: captured, or with a pseudo-terminal for its stdout."""

import os
import pty
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner, Result

from viewer.cli import group

ROOT = Path(__file__).parent.parent.parent
RUN = (sys.executable, "-m", "viewer.cli")


def run(tape: Path, *arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(group, [*arguments], env={"WIRETAPE_DB": str(tape)})
    assert result.exit_code == code, result.output
    return result


def on_terminal(tape: Path, *arguments: str, columns: int = 100, terminal: str = "xterm-256color") -> str:
    """Run a command with a pseudo-terminal for stdout, and give what came out of it."""
    outer, inner = pty.openpty()
    environment = os.environ | {"WIRETAPE_DB": str(tape), "COLUMNS": str(columns), "TERM": terminal}
    process = subprocess.Popen([*RUN, *arguments], stdout=inner, stderr=inner, cwd=ROOT, env=environment)
    os.close(inner)
    shown = b""
    while True:
        try:
            data = os.read(outer, 65536)
        except OSError:
            break
        shown += data
        if not data:
            break
    os.close(outer)
    process.wait(timeout=30)
    return shown.decode()
