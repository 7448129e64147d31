"""Copying to the terminal's clipboard (OSC 52), if the terminal supports it, and to a file of the user's.

No terminal says whether it has taken a text. The file is in the user's runtime directory, where only they can read it.
"""

import os
from pathlib import Path
from typing import Any, Final

from textual.app import App

from wiretape.recorder import paths
from wiretape.recorder.plurals import counted
from wiretape.recorder.sanitize import safe

_LONGEST: Final = 600_000
"""Maximum length of a control sequence: terminals silently drop longer ones.

It is the limit of xterm (`maxStringParse`); that of tmux is 1 MiB, that of kitty and Ghostty 8 MiB.
"""

MOST: Final = (_LONGEST - len("\x1b]52;c;\x07")) // 4 * 3
"""Maximum size of a copied text in UTF-8, in bytes; base64 adds a third."""


def copy(app: App[Any], label: str, text: str, instead: str = "") -> None:
    """Copy a text, and show its destination; `instead` is a command that prints a text too long for any terminal."""
    data, path = text.encode("utf-8", "replace"), save(text)
    if len(data) <= MOST:
        app.copy_to_clipboard(data.decode())
        destination = "the terminal's clipboard" + (f" and {path}" if path is not None else "")
        app.notify(f"{safe(label)}: {counted(len(text), 'character')}, to {destination}", markup=False)
        return
    destination = f"only to {path}" if path is not None else "not copied"
    hint = f"{instead} gives them" if instead else "x exports them"
    limit = f"{len(data):,} bytes are more than a terminal's clipboard takes ({MOST:,})"
    app.notify(f"{safe(label)}: {limit}: {destination}. {hint}", severity="warning", markup=False)


def save(text: str) -> Path | None:
    """Write a text to a file that only the user can read. Return its path, None if it cannot be written."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if not runtime or not paths.is_directory(runtime):
        return None
    path = Path(runtime) / "wiretape" / "clip"
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        # Another user's link in its place would let the text be written anywhere.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogatepass", newline="") as file:
            os.fchmod(descriptor, 0o600)  # of a file that was there before, `open` leaves the mode
            file.write(text)
    except OSError:  # the clipboard matters more: no message
        return None
    return path
