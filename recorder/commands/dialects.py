"""Declarations of dialects that are given to a command: in files, or in the configuration."""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from wiretape.recorder.errors import ConfigError
from wiretape.recorder.sanitize import safe
from wiretape.recorder.tape.redact import message

if TYPE_CHECKING:
    from wiretape.recorder.documents import Document

Declaration = dict[str, Any]

MOST: Final = 100
"""Limit of the declarations of a file."""

_configured: Callable[[], list[Declaration]] | None = None

option = click.option(
    "--dialect", "declared", multiple=True, metavar="FILE", envvar="WIRETAPE_DIALECT",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Decode streams by the declarations in FILE, too (wiretape help dialects). May be repeated.",
)  # fmt: skip


def configure(by: Callable[[], list[Declaration]]) -> None:
    """Register the viewer's function that reads the declarations of the configuration."""
    global _configured
    _configured = by


def read(files: Iterable[Path]) -> list[Declaration]:
    """Return the checked declarations of files and of the configuration; a name's first declaration counts.

    A mistake in the configuration is only reported: it must not stop a recorder, and a tape can be derived again.
    Raises `ConfigError` for a mistake in a file.
    """
    from wiretape.recorder.documents import load

    dialects: dict[str, Declaration] = {}
    for declaration in [
        *(declaration for file in files for declaration in declarations(load(file))),
        *_of_configuration(),
    ]:
        dialects.setdefault(declaration["name"], declaration)
    return [*dialects.values()]


def declarations(document: "Document") -> Sequence[Declaration]:
    """Return the declarations of a document. Raises `ConfigError` with the place and the reason of a mistake."""
    from wiretape.recorder.decode.dialects import registry

    tables = document.tables.get("dialects")
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        if tables is None:
            raise ConfigError(f"{document.name} declares no dialect: write [[dialects]] above each")
        raise document.error(("dialects",), "dialects is no list of tables: write [[dialects]] above each")
    if len(tables) > MOST:
        raise document.error(("dialects", MOST), f"there are {len(tables):,} [[dialects]], at most {MOST} are read")
    try:
        for place, table in enumerate(tables):
            _check(document, place, table, [*registry.BY_API])
        plain: Sequence[Declaration] = _plain(tables)
        size = len(json.dumps(plain))
    except RecursionError as error:
        raise ConfigError(f"{document.name}: its tables or lists are nested too deep") from error
    if size > (most_bytes := 1 << 20):
        raise ConfigError(f"{document.name} declares too much: at most {most_bytes:,} bytes in all")
    return plain


def _check(document: "Document", place: int, table: Declaration, reserved: Sequence[str]) -> None:
    from wiretape.recorder.decode.declared import compiler
    from wiretape.recorder.decode.declared.table import DeclarationError

    try:
        compiler.compile(table, reserved)
    except DeclarationError as error:
        raise document.error(("dialects", place, *error.key), f"dialect {place + 1}: {safe(str(error))}") from error


def _plain(value: Any) -> Any:
    """Return a value of TOML as one that the tape keeps as JSON: dates, and numbers that JSON lacks, as texts."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    is_kept = isinstance(value, str | bool) or (isinstance(value, int | float) and abs(value) < 1 << 53)
    return value if is_kept else str(value)


def _of_configuration() -> list[Declaration]:
    if _configured is None:
        return []
    try:
        return _configured()
    except ConfigError as error:
        click.echo(message(f"the dialects of the configuration are left out: {error}"), err=True)
        return []
