"""Opening a page in the user's browser: one with windows, never one that would take the terminal.

The browser is the one that `webbrowser` chooses, which heeds `BROWSER`. It is started by another process, in a session
of its own, so that neither its output nor its keys can reach the terminal.
"""

import asyncio
import os
import sys
from pathlib import Path
from typing import Final

from wiretape.recorder import children

_OPEN: Final = "import sys, webbrowser; sys.exit(not webbrowser.open(sys.argv[1]))"
_WAIT_SECONDS: Final = 3.0
"""Time after which a browser that has not failed counts as opened, in seconds."""


def is_reachable() -> bool:
    """Return True if a browser can be shown: it is named, or there is a display, which SSH has only if forwarded."""
    named = any(os.environ.get(name) for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"))
    return named or (sys.platform == "darwin" and not os.environ.get("SSH_CONNECTION"))


async def open_page(file: Path) -> bool:
    """Open a page in the browser; return False if there is none, or if it failed at once."""
    if not is_reachable():
        return False
    process = await asyncio.create_subprocess_exec(
        *children.python("-c", _OPEN, file.as_uri()), env=children.environment(connects=True), start_new_session=True,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        async with asyncio.timeout(_WAIT_SECONDS):
            return await process.wait() == 0
    except TimeoutError:
        return True
