"""What screens have to copy and to export: texts, and commands that give again what is on the screen."""

import shlex
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from recorder.commands import options
from recorder.commands.centre import Target
from viewer.tui.base.host import Source


@dataclass(frozen=True, slots=True)
class Later:
    """A text that is read when it is chosen, and described in the menu. `read` raises `WiretapeError`.

    `command` prints the text, however long it is.
    """

    description: str
    read: Callable[[], Awaitable[str]]
    command: str = ""


Copy = tuple[str, "str | Later"]
"""What can be copied: a label and the text."""

_PARTS: Final[dict[str, tuple[str, ...]]] = {
    "text": ("show", "--part", "text"),
    "curl": ("show", "--part", "request"),
    "request body": ("show", "--part", "request"),
    "body": ("show", "--part", "raw"),
}


def arguments(place: Source, *arguments: str) -> list[str]:
    """Return arguments of `wiretape` for a tape, or a centre: the command, `--db` unless it finds the tape by itself,
    the rest.
    """
    if isinstance(place, Target):
        return [*arguments[:1], "--db", place.url, *arguments[1:]]
    default = options.tape_path(None)
    is_default = default.is_absolute() and default == place.absolute()  # a relative one is only found from here
    return [*arguments[:1], *([] if is_default else ["--db", str(place.absolute())]), *arguments[1:]]


def command(place: Source, *words: str) -> str:
    """Return a command of `wiretape` for a tape, or a centre, as a shell takes it, from any directory."""
    return shlex.join(["wiretape", *arguments(place, *words)])


def part_command(path: Source, id: str, part: str) -> str:
    """Return the command that prints a part of an exchange, however long it is."""
    verb, *rest = _PARTS.get(part, ("export", "--table", "texts"))
    return command(path, verb, id, *rest)
