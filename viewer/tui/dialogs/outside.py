"""The screen's text in a pager or an editor of the user's own, which has the terminal meanwhile.

A screen may have `pages()`, a name and a text. One without may have `copies()`, the entries of its menu for copying:
their labels and texts are shown then, one below the other. A pager reads the text from its input, made safe; an editor
gets the exact text in a file of its own, which only the user can read and which is deleted afterwards: changes are not
kept. Recording goes on beneath.
"""

import asyncio
import contextlib
import json
import os
import shlex
import shutil
import sys
import tempfile
from pathlib import Path
from typing import IO, Any, Final

from textual.app import App, SuspendNotSupported

from wiretape.recorder.sanitize import safe

PAGERS: Final = "WIRETAPE_PAGER", "PAGER"
EDITORS: Final = "VISUAL", "EDITOR"


def has_page(screen: object) -> bool:
    """Return True if a screen has a text, which may take long to make."""
    copies = screen.copies() if hasattr(screen, "copies") else ()
    return hasattr(screen, "pages") or any(isinstance(text, str) for _, text in copies)


def page(screen: object) -> tuple[str, str] | None:
    """Return the name and the text of a screen; None if it has no text."""
    if hasattr(screen, "pages"):
        name, text = screen.pages()
        return str(name), str(text)
    copies = screen.copies() if hasattr(screen, "copies") else ()
    texts = [f"-------- {label}\n{text}" for label, text in copies if isinstance(text, str)]
    return ("text", "\n\n".join(texts) + "\n") if texts else None


def suffix(text: str) -> str:
    """Return the suffix that lets an editor recognise a text: `.json`, `.sse`, else `.txt`."""
    if text.startswith(("data:", "event:", "id:", "retry:", ":")):
        return ".sse"
    if text.lstrip()[:1] in ("{", "["):
        with contextlib.suppress(ValueError):  # it only looks like JSON
            json.loads(text)
            return ".json"
    return ".txt"


def pager() -> tuple[str, list[str]]:
    """Return the variable that names the pager, or "", and its command; `cat` is none, since it would not stay."""
    name, command = _from_environment(PAGERS)
    if command and command != ["cat"]:
        return name, command
    return "", ["less", "-S"] if shutil.which("less") else ["more"]


def editor() -> tuple[str, list[str]]:
    """Return the variable that names the editor, or "", and the editor's command."""
    name, command = _from_environment(EDITORS)
    return name, command or ["vi"]


def _from_environment(names: tuple[str, ...]) -> tuple[str, list[str]]:
    for name in names:
        value = os.environ.get(name, "")
        try:
            command = shlex.split(value)
        except ValueError:  # a quotation mark without its other: as good as can be parsed
            command = value.split()
        if command:
            return name, command
    return "", []


async def show(app: App[Any], name: str, text: str) -> str | None:
    """Show a text in the pager until that ends; return an error in one line, or none."""
    variable, command = pager()
    with tempfile.TemporaryFile() as file:
        file.write(safe(text, multiline=True).encode("utf-8", "replace"))
        file.seek(0)
        return await _run(app, variable or PAGERS[1], command, file)


async def edit(app: App[Any], name: str, text: str) -> str | None:
    """Open a text in the editor until that ends; return an error in one line, or none."""
    variable, command = editor()
    stem = "".join(sign if sign.isascii() and sign.isalnum() else "-" for sign in Path(name).stem)
    try:
        descriptor, path = tempfile.mkstemp(Path(name).suffix or suffix(text), f"wiretape-{stem}-")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogatepass", newline="") as file:
                file.write(text)  # exact: an editor shows control characters as signs
            return await _run(app, variable or EDITORS[1], [*command, path], None)
        finally:
            with contextlib.suppress(FileNotFoundError):  # the editor may have moved it
                os.unlink(path)
    except OSError as error:
        return f"no file for the editor could be written: {error.strerror}"


async def _run(app: App[Any], variable: str, command: list[str], file: IO[bytes] | None) -> str | None:
    """Run a program with the terminal until it ends; return an error, or none."""
    if shutil.which(command[0]) is None:
        return f"there is no program {safe(command[0])}: set {variable} to one that is there"
    try:
        with app.suspend():
            return await _run_until_end(command, file)
    except SuspendNotSupported:
        return "this terminal cannot be given to another program"


async def _run_until_end(command: list[str], file: IO[bytes] | None) -> str | None:
    """Run a program until it ends; it is ended if the viewer ends before it."""
    program = safe(Path(command[0]).name)
    try:
        # The output may be a file of the user's: the viewer itself certainly draws on a terminal.
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
