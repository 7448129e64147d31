"""Opening a page in the user's browser: one with windows, never one that would take the terminal.

The browser is the one that `webbrowser` chooses, which heeds `BROWSER`. It is started by another process, in a session
of its own, so that neither its output nor its keys can reach the terminal.
"""

import asyncio
import contextlib
import html
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from wiretape.recorder import children, private
from wiretape.recorder.errors import WiretapeError
from wiretape.viewer import outfile
from wiretape.viewer.source import served
from wiretape.viewer.tui.dialogs import beside

_OPEN: Final = "import sys, webbrowser; sys.exit(not webbrowser.open(sys.argv[1]))"
_ID: Final = re.compile(r"[0-9a-f]{16}")


def is_reachable() -> bool:
    """Return True if a browser can be shown: it is named, or there is a display, which SSH has only if forwarded."""
    has_display = any(os.environ.get(name) for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"))
    return has_display or (sys.platform == "darwin" and not os.environ.get("SSH_CONNECTION"))


async def open_page(tape: Path, arguments: Sequence[str], cleanup: contextlib.ExitStack) -> str:
    """Open the live page that an export's page would show a moment of, or else that page; return a message.

    Files are private, and are removed when `cleanup` is closed. Raises `WiretapeError` if there is no page.
    """
    file, is_live = await asyncio.to_thread(_prepared, tape, arguments, cleanup)
    if not is_live:
        failed, line = await beside.run([*arguments, "--with-text", "-o", str(file)])
        if failed:
            raise WiretapeError(line)
    kind = "live page" if is_live else "page"
    if await open_file(file):
        return f"the {kind} is opened in the browser"
    return f"no browser here: the {kind} is {file}, which the viewer removes at its end"


def _prepared(tape: Path, arguments: Sequence[str], cleanup: contextlib.ExitStack) -> tuple[Path, bool]:
    """Return the path of a private file, and True if it leads to a live page by now."""
    file = cleanup.enter_context(private.directory("wiretape-page-", "pages")) / "page.html"
    url = _live(tape, arguments)
    if url is not None:
        # Its address is a secret, and everybody on this machine sees the arguments of a browser.
        outfile.replace_private(file, f'<meta http-equiv="refresh" content="0; url={html.escape(url)}">'.encode())
    return file, url is not None


def _live(tape: Path, arguments: Sequence[str]) -> str | None:
    """Return the address of the live page for the selection of an export: one exchange, or all."""
    url, names = served.address(tape), list(arguments[1:])
    for option in ("--db", "--format"):
        if option in names:
            place = names.index(option)
            del names[place : place + 2]
    if url is None or len(names) > 1 or not all(_ID.fullmatch(name) for name in names):
        return None
    return url + "".join(f"{name}/" for name in names)


async def open_file(file: Path) -> bool:
    """Open a file in the browser; return False if there is none, or if it failed at once."""
    if not is_reachable():
        return False
    process = await asyncio.create_subprocess_exec(
        *children.python("-c", _OPEN, file.as_uri()), env=children.environment(connects=True), start_new_session=True,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        # A browser that has not failed by then counts as opened: some stay until their window is closed.
        async with asyncio.timeout(3.0):
            return await process.wait() == 0
    except TimeoutError:
        return True
