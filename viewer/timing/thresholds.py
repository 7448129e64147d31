"""The limits that verdicts are given by: what they are, and where their values are looked for.

A command's option comes first, then the environment (`WIRETAPE_STALL_MS` …), then `[thresholds]` in `./.wiretape.toml`,
then the same in the user's `config.toml`. The defaults are the limits by which the tape's flags `stall` and `burst`
were raised. Only click is imported at the top. What the limits are compared with is left to `verdicts`.
"""

import dataclasses
import functools
import math
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import click
from click.core import ParameterSource

from recorder.decode.stalls import Thresholds
from recorder.sanitize import safe

F = TypeVar("F", bound=Callable[..., Any])

LOCAL_FILE: Final = ".wiretape.toml"
"""The configuration of a directory; it is looked for where the command is run, and nowhere above."""

_TABLE: Final = "thresholds"
_FIELDS: Final = {one.name: one for one in dataclasses.fields(Thresholds)}


def options(command: F) -> F:
    """Add an option for each limit; the command gets `thresholds`. Raises `click.UsageError` before it is run."""

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        given = {name: kwargs.pop(name) for name in _FIELDS}
        return command(*args, thresholds=read(given), **kwargs)

    for name, one in reversed(_FIELDS.items()):
        said = f"{one.metadata['doc']} [default: {one.default:g}]"
        wrapped = click.option(_option(name), name, metavar=one.metadata["sign"], help=said)(wrapped)
    return cast(F, wrapped)


def given() -> list[str]:
    """Name the options of limits that the command which is run was given."""
    source = click.get_current_context().get_parameter_source
    return [_option(name) for name in _FIELDS if source(name) is ParameterSource.COMMANDLINE]


def read(given: Mapping[str, str | None]) -> Thresholds:
    """Return the limits: those `given` on the command line, else those found elsewhere, else the defaults.

    Raises `click.UsageError`, which names where a wrong value or an unknown name stands.
    """
    values: dict[str, Any] = {}
    for source, found in _sources(given):
        for name, value in found.items():
            where = source(name)
            if name not in _FIELDS:
                known = ", ".join(_FIELDS)
                raise click.UsageError(f"{where} is no threshold: there are {known}")
            values.setdefault(name, _checked(name, value, where))
    return Thresholds(**values)


def user_file() -> Path:
    """Return the path of the user's configuration, which need not exist."""
    import platformdirs

    return Path(platformdirs.user_config_path("wiretape")) / "config.toml"


def _sources(given: Mapping[str, str | None]) -> Iterator[tuple[Callable[[str], str], Mapping[str, Any]]]:
    """Return what each source has, the first to be heeded first, and how it names a value."""
    yield _option, {name: text for name, text in given.items() if text is not None}
    set_there = {name: os.environ.get(_variable(name)) for name in _FIELDS}
    yield _variable, {name: text for name, text in set_there.items() if text}
    for path in (Path(LOCAL_FILE), user_file()):
        yield functools.partial(_in_file, path), _table(path)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _variable(name: str) -> str:
    return f"WIRETAPE_{name.upper()}"


def _in_file(path: Path, name: str) -> str:
    return f"{safe(name)} under [{_TABLE}] in {safe(str(path))}"


def _table(path: Path) -> dict[str, Any]:
    try:
        text = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise click.UsageError(f"{safe(str(path))} cannot be read ({error.strerror})") from error
    import tomllib

    try:
        table = tomllib.loads(text.decode()).get(_TABLE, {})
    except ValueError as error:
        raise click.UsageError(f"{safe(str(path))} is no TOML: {safe(str(error))}") from error
    if not isinstance(table, dict):
        raise click.UsageError(f"{_TABLE} in {safe(str(path))} is no table: write [{_TABLE}] on a line of its own")
    return table


def _checked(name: str, value: Any, where: str) -> float:
    """Return a value as its limit's number. From a file it has a type already, from elsewhere it is text."""
    one = _FIELDS[name]
    whole = isinstance(one.default, int)
    try:
        number = _number(value, whole)
    except (ValueError, OverflowError):
        number = math.nan
    most = one.metadata["most"]
    if not 0 < number <= most:
        wanted = "a whole number" if whole else "a number"
        raise click.UsageError(
            f"{where} is {safe(repr(value))}: it must be {wanted} above 0" + f", at most {most:,.0f}"
        )
    return number


def _number(value: Any, whole: bool) -> float:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError
    if whole and not isinstance(value, str | int):
        raise ValueError
    return int(value) if whole else float(value)
