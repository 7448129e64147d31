"""What a screen shows, in a program of the user's own: a pager or an editor, which has the terminal meanwhile.

A screen may have `pages()`, a name and a text; of one that has not, all that can be copied is shown. A pager reads it
from its input, safe to show; an editor gets the exact text in a file of its own, which only the user can read and which
is gone afterwards: what is changed there is not kept. The viewer goes on beneath, and what is recorded comes in.
"""

import asyncio
import contextlib
import json
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final

from textual.app import App, SuspendNotSupported

from recorder.sanitize import safe

PAGERS: Final = "WIRETAPE_PAGER", "PAGER"
EDITORS: Final = "VISUAL", "EDITOR"

_RULE: Final = "-" * 8


def page(screen: Any) -> tuple[str, str] | None:
    """Give the name and the text of what a screen shows; None if it has nothing that is text."""
    pages = getattr(screen, "pages", None)
    if pages is not None:
        name, text = pages()
        return str(name), str(text)
    copies = getattr(screen, "copies", None)
    offered = [(label, text) for label, text in (copies() if copies is not None else ()) if isinstance(text, str)]
    if not offered:
        return None
    return "text", "\n\n".join(f"{_RULE} {label}\n{text}" for label, text in offered) + "\n"


def suffix(text: str) -> str:
    """Give the suffix that tells an editor what a text is: `.json`, `.sse`, else `.txt`."""
    if text.startswith(("data:", "event:", "id:", "retry:", ":")):
        return ".sse"
    if text.lstrip()[:1] in ("{", "["):
        with contextlib.suppress(ValueError):  # it only looks like JSON
            json.loads(text)
            return ".json"
    return ".txt"


def pager() -> tuple[str, list[str]]:
    """Give which variable names the pager, if one does, and its command; `cat` is none, since it would not stay."""
    name, command = _named(PAGERS)
    if command and command != ["cat"]:
        return name, command
    return "", ["less", "-S"] if shutil.which("less") else ["more"]


def editor() -> tuple[str, list[str]]:
    """Give which variable names the editor, if one does, and its command."""
    name, command = _named(EDITORS)
    return name, command or ["vi"]


def _named(names: tuple[str, ...]) -> tuple[str, list[str]]:
    for name in names:
        given = os.environ.get(name, "")
        try:
            command = shlex.split(given)
        except ValueError:  # a quotation mark without its other: as good as can be read
            command = given.split()
        if command:
            return name, command
    return "", []


async def show(app: App[Any], name: str, text: str) -> str | None:
    """Show a text in the pager until that ends; give what went wrong, in one line, if anything did."""
    variable, command = pager()
    with tempfile.TemporaryFile() as file:
        file.write(safe(text, multiline=True).encode("utf-8", "replace"))
        file.seek(0)
        return await _run(app, variable or PAGERS[1], command, file)


async def edit(app: App[Any], name: str, text: str) -> str | None:
    """Open a text in the editor until that ends; give what went wrong, in one line, if anything did."""
    variable, command = editor()
    try:
        with _kept(name, text) as path:
            return await _run(app, variable or EDITORS[1], [*command, str(path)], None)
    except OSError as error:
        return f"no file for the editor could be written: {error.strerror}"


@contextlib.contextmanager
def _kept(name: str, text: str) -> Iterator[Path]:
    """Keep a text in a file of its own as long as this lasts."""
    stem = "".join(sign if sign.isascii() and sign.isalnum() else "-" for sign in Path(name).stem)
    descriptor, path = tempfile.mkstemp(Path(name).suffix or suffix(text), f"wiretape-{stem}-")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogatepass", newline="") as file:
            file.write(text)
        yield Path(path)
    finally:
        Path(path).unlink(missing_ok=True)


async def _run(app: App[Any], variable: str, command: list[str], file: IO[bytes] | None) -> str | None:
    """Give the terminal to a program until it ends."""
    if shutil.which(command[0]) is None:
        return f"there is no program {safe(command[0])}: set {variable} to one that is there"
    try:
        with app.suspend():
            return await _ended(command, file)
    except SuspendNotSupported:
        return "this terminal cannot be given to another program"


async def _ended(command: list[str], file: IO[bytes] | None) -> str | None:
    """Run a program until it ends; it is ended if the viewer ends before it."""
    program = safe(Path(command[0]).name)
    try:
        # The output may be a file of the user's: what is a terminal for certain is where the viewer itself draws.
        process = await asyncio.create_subprocess_exec(*command, stdin=file, stdout=sys.__stderr__)
    except OSError as error:
        return f"{program} cannot be run: {error.strerror}"
    try:
        code = await process.wait()
    except asyncio.CancelledError:
        with contextlib.suppress(ProcessLookupError):  # it has ended by itself
            process.terminate()
        raise
    return None if code == 0 else f"{program} ended with {f'exit code {code}' if code > 0 else f'signal {-code}'}"
