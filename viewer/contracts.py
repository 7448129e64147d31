"""Wings: folders below `viewer/wings` that add to the core through the contracts of this module.

The core runs without any wing, and imports none: it asks `built_in` for what there is. A wing's own `__init__` is data,
so that to list all of them loads nothing.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Final

BUILT_IN: Final = ("imports", "mcp", "replay")
"""The folders of the wings. A line here and the folder are all that a wing is."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command that a wing adds to `wiretape`.

    `path` is `module:attribute` of the `click.Command`, which is loaded when it is called. It is listed in a `section`
    of `catalogue.SECTIONS`, behind the command `after`, and has three `examples` for the demo's tape.
    """

    name: str
    path: str
    section: str
    after: str
    summary: str
    examples: tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Wing:
    """The additions of one wing."""

    commands: tuple[Command, ...] = ()


@functools.cache
def built_in() -> Mapping[str, Wing]:
    """Return the wings of this installation by the name of their folder; one whose folder is not there is left out."""
    wings: dict[str, Wing] = {}
    for name in BUILT_IN:
        module = f"{__package__}.wings.{name}"
        try:
            wings[name] = import_module(module).WING
        except ModuleNotFoundError as error:
            if error.name not in (module, f"{__package__}.wings"):
                raise
    return wings
