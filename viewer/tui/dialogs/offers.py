"""Texts to copy and exports that screens offer, and commands that reproduce the screen."""

import shlex
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from wiretape.viewer import contracts
from wiretape.viewer.source.base import Place


@dataclass(frozen=True, slots=True)
class Later:
    """A text that is read when it is chosen, and described in the menu. `read` raises `WiretapeError`.

    `command` prints the text, however long it is.
    """

    description: str
    read: Callable[[], Awaitable[str]]
    command: str = ""


Copy = tuple[str, "str | Later"]
"""A text to copy: its label and the text."""

_PARTS: Final[dict[str, tuple[str, ...]]] = {
    "text": ("show", "--part", "text"),
    "curl": ("show", "--part", "request"),
    "request body": ("show", "--part", "request"),
    "body": ("show", "--part", "raw"),
}


def arguments(place: Place, *arguments: str) -> list[str]:
    """Return arguments of `wiretape`: the command, the option that names the source, the rest."""
    return [*arguments[:1], *place.option(), *arguments[1:]]


def command(place: Place, *words: str) -> str:
    return shlex.join(["wiretape", *arguments(place, *words)])


def possible(exports: Sequence[tuple[str, list[str]]]) -> list[tuple[str, list[str]]]:
    """Return the exports, as (label, arguments), but those in formats of wings that this installation lacks."""
    formats = {"sse", *(export.name for wing in contracts.built_in().values() for export in wing.exports)}
    return [
        (label, arguments)
        for label, arguments in exports
        if "--format" not in arguments or arguments[arguments.index("--format") + 1] in formats
    ]


def part_command(place: Place, id: str, part: str) -> str:
    """Return the command that prints a part of an exchange, however long it is."""
    verb, *options = _PARTS.get(part, ("export", "--table", "texts"))
    return command(place, verb, id, *options)
