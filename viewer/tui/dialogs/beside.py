"""Commands of wiretape in processes of their own, beside a screen that must not wait."""

import asyncio
from collections.abc import Sequence

from wiretape.recorder import children
from wiretape.recorder.sanitize import safe


async def run(arguments: Sequence[str]) -> tuple[int, str]:
    """Run a command; return its exit code and the last line of its messages."""
    # In a process: an export of a large tape would take the time of the loop, and its faults the viewer with it.
    process = await asyncio.create_subprocess_exec(
        *children.python("-m", "wiretape.viewer.cli", *arguments),
        env=children.environment(connects=True),
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    _, errors = await process.communicate()
    lines = [safe(line) for line in errors.decode("utf-8", "replace").splitlines() if line.strip()]
    return process.returncode or 0, lines[-1] if lines else f"exit {process.returncode}"
