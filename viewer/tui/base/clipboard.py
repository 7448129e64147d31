"""Copying: to the terminal's clipboard (OSC 52), as far as terminals take that, and to a file of the user's.

No terminal says whether it has taken a text, and not every one has such a clipboard. The file is in the user's runtime
directory, where only they can read it.
"""

import os
from pathlib import Path
from typing import Any, Final

from textual.app import App

from recorder.plurals import counted
from recorder.sanitize import safe

_LONGEST: Final = 600_000
"""Terminals drop a longer control sequence without a word: xterm this one (`maxStringParse`), tmux one of 1 MiB, kitty
and Ghostty one of 8 MiB."""

MOST: Final = (_LONGEST - len("\x1b]52;c;\x07")) // 4 * 3
"""So many bytes of UTF-8 are sent at most: as base64 they become a third more."""


def copy(app: App[Any], label: str, text: str, instead: str = "") -> None:
    """Copy a text, and say where to; `instead` is the command that gives it, for one that no terminal would take."""
    data = text.encode("utf-8", "replace")
    kept = keep(text)
    if len(data) <= MOST:
        app.copy_to_clipboard(data.decode())
        where = "the terminal's clipboard" + (f" and {kept}" if kept is not None else "")
        app.notify(f"{safe(label)}: {counted(len(text), 'character')}, to {where}", markup=False)
        return
    where = f"only to {kept}" if kept is not None else "not copied"
    gives = f"{instead} gives them" if instead else "x exports them"
    told = f"{safe(label)}: {len(data):,} bytes are more than a terminal's clipboard takes ({MOST:,}): {where}. {gives}"
    app.notify(told, severity="warning", markup=False)


def keep(text: str) -> Path | None:
    """Write what is copied to a file that only the user can read, and give its path; None where that cannot be done."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if not runtime or not Path(runtime).is_dir():
        return None
    path = Path(runtime) / "wiretape" / "clip"
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0), 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogatepass", newline="") as file:
            os.fchmod(descriptor, 0o600)
            file.write(text)
    except OSError:  # it is a second place only: whoever copies is told of none
        return None
    return path
