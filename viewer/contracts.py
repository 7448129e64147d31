"""Wings: folders below `viewer/wings` that add to the core through the contracts of this module.

The core runs without any wing, and imports none: it asks `built_in` for what there is. A wing's own `__init__` is data,
so that to list all of them loads nothing.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final

BUILT_IN: Final = ("page", "tools", "films", "imports", "prometheus", "otlp", "mcp", "clickhouse", "replay", "resend")
"""The folders of the wings, in the order of their additions. A wing is its folder and its name here."""


@dataclass(frozen=True, slots=True)
class Extra:
    """An extra of `pyproject.toml` that a wing needs: its name, a module that it installs, and its use."""

    name: str
    module: str
    use: str


@dataclass(frozen=True, slots=True)
class Command:
    """A command that a wing adds to `wiretape`.

    `path` is `module:attribute` of the `click.Command`, which is loaded when it is called. It is listed in a `section`
    of `catalogue.SECTIONS`, behind the command `after`, and has three `examples` for the demo's tape. A group has
    summaries and examples of its `children`, by name.
    """

    name: str
    path: str
    section: str
    after: str
    summary: str
    examples: tuple[str, str, str]
    children: Mapping[str, tuple[str, tuple[str, str, str]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Address:
    """Addresses that a wing understands: their prefix, and their form in a message.

    `path` is `module:attribute` of their parser, which raises `ValueError`: for a source it returns a `Place`, for a
    sink a `Destination`.
    """

    prefix: str
    form: str
    path: str


@dataclass(frozen=True, slots=True)
class Options:
    """Options that a wing adds to a command of the core, which gets their value, or None, as the argument `name`.

    `path` is `module:attribute` of their decorator, as `gathered` makes one. `refusal` is the message if they are given
    with an export format that does not take them.
    """

    command: str
    name: str
    path: str
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class Export:
    """A format that a wing adds to `export`: the selected exchanges, or rows about them, in one file.

    `path` is `module:attribute` of its writer: a function that gets an `ExportTask` and the open file, and returns the
    count of written `unit`s. `summary` follows the name in the help of `--format`.
    """

    name: str
    path: str
    unit: str
    summary: str
    suffix: str = ""
    """The ending of a file's name that chooses the format; empty for a suffix that others have, too."""
    flag: str = ""
    """The help of an option `--NAME` that chooses the format, too; empty for none."""
    options: str = ""
    """The name of the `Options` that go with the format."""
    needs_exchange: bool = True
    """False if a file without any exchange makes sense."""
    is_masked: bool = False
    """True if the file is made to be passed on: secrets are replaced unless `--no-redact` is given."""
    has_operations: bool = False
    """True if it covers generations only, unless `--all-operations` is given."""
    unprintable: str = ""
    """Why the file is no text for a terminal, with advice; empty if it is one."""


@dataclass(frozen=True, slots=True)
class Import:
    """A format of files that `import` reads.

    `path` is `module:attribute` of its reader: a function that gets the content of a file and an `ImportedFile`, and
    yields an `ImportedExchange` or an `Unimportable` for each exchange. `meaning` says which facts the format has.
    """

    name: str
    path: str
    meaning: str
    begins: bytes
    """The regular expression of a file's beginning, by which it is recognised."""
    suffix: str = ""
    """The ending of a file's name that decides where the content is any JSON; empty for none."""
    is_guess: bool = False
    """True if files of other formats begin in the same way: then it counts after all of these."""


@dataclass(frozen=True, slots=True)
class Wing:
    """The additions of one wing: `sources` are addresses for `--db`, `sinks` for `ship --to`.

    `tools` is `module:attribute` of the `MeasuringTool`s for `stats --as`, by name.
    """

    commands: tuple[Command, ...] = ()
    options: tuple[Options, ...] = ()
    exports: tuple[Export, ...] = ()
    imports: tuple[Import, ...] = ()
    sources: tuple[Address, ...] = ()
    sinks: tuple[Address, ...] = ()
    extras: tuple[Extra, ...] = ()
    tools: str = ""


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


def load(path: str) -> Any:
    """Return the object at `module:attribute`."""
    module, _, attribute = path.partition(":")
    return getattr(import_module(module), attribute)


def sources() -> list[Address]:
    """Return the addresses that `--db` takes in the place of a tape's path."""
    return [address for wing in built_in().values() for address in wing.sources]


def destination(text: str) -> Any:
    """Parse the address of a sink. Raises `ValueError`, whose message never holds a credential."""
    sinks = [address for wing in built_in().values() for address in wing.sinks]
    for address in sinks:
        if text.startswith(address.prefix):
            return load(address.path)(text)
    forms = " or ".join(address.form for address in sinks)
    raise ValueError(f"a destination is {forms or 'the address of a wing, and there is none'}")
