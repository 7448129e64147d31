"""The limits for verdicts: their names, and the places where they are set.

A command's option comes first, then the environment (`WIRETAPE_STALL_MS` …), then `[thresholds]` in `./.wiretape.toml`,
then the same in the user's `config.toml`. The defaults are the limits by which the tape's flags `stall` and `burst`
were raised. Only click is imported at the top. The comparison itself is in `verdicts`.
"""

import contextlib
import dataclasses
import difflib
import functools
import math
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import click
from click.core import ParameterSource

from wiretape.recorder.decode.stalls import Thresholds
from wiretape.recorder.sanitize import safe

F = TypeVar("F", bound=Callable[..., Any])

LOCAL_FILE: Final = ".wiretape.toml"
"""The configuration of a directory; it is looked for where the command is run, and nowhere above."""

NAMES: Final = ("theme", "slo", "keys", "views", "thresholds", "prices", "currency")
"""The top-level names of a configuration file."""

_TABLE: Final = "thresholds"
_FIELDS: Final = {one.name: one for one in dataclasses.fields(Thresholds)}


def options(command: F) -> F:
    """Add an option for each limit; the command gets `thresholds`. Raises `click.UsageError` before it is run."""

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        values = {name: kwargs.pop(name) for name in _FIELDS}
        return command(*args, thresholds=read(values), **kwargs)

    for name, one in reversed(_FIELDS.items()):
        text = f"{one.metadata['doc']} [default: {one.default:g}]"
        wrapped = click.option(_option(name), name, metavar=one.metadata["sign"], help=text)(wrapped)
    return cast(F, wrapped)


def given() -> list[str]:
    """Return the names of the limits' options that are on the command line."""
    source = click.get_current_context().get_parameter_source
    return [_option(name) for name in _FIELDS if source(name) is ParameterSource.COMMANDLINE]


def read(options: Mapping[str, str | None]) -> Thresholds:
    """Return the limits: those of the command line's options, else those set elsewhere, else the defaults.

    Raises `click.UsageError`, which names where a wrong value or an unknown name stands.
    """
    values: dict[str, Any] = {}
    for name, value, where in _settings(options):
        if name not in _FIELDS:
            raise click.UsageError(f"{where} is no threshold: there are {', '.join(_FIELDS)}")
        values.setdefault(name, _checked(name, value, where))
    return Thresholds(**values)


def user_file() -> Path:
    """Return the path of the user's configuration, which need not exist."""
    import platformdirs

    return Path(platformdirs.user_config_path("wiretape")) / "config.toml"


def unknown_names(document: Mapping[str, object], where: str) -> list[str]:
    """Return a line for each thing that a configuration file sets and nothing reads."""
    lines = []
    for name in document.keys() - set(NAMES):
        near = difflib.get_close_matches(name, NAMES, 1)
        meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(NAMES)}"
        lines.append(f"{safe(name)} in {where} is no setting: {meant}")
    return sorted(lines)


def read_known(path: Path) -> dict[str, Any]:
    """Return the content of a configuration file, as `read_toml` does. Raises `click.UsageError` for unknown names."""
    document = read_toml(path)
    for line in unknown_names(document, safe(str(path))):
        raise click.UsageError(line)
    return document


def read_toml(path: Path) -> dict[str, Any]:
    """Return the content of a configuration file; nothing if there is none. Raises `click.UsageError`."""
    try:
        text = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise click.UsageError(f"{safe(str(path))} cannot be read ({error.strerror})") from error
    import tomllib

    try:
        return tomllib.loads(text.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"{safe(str(path))} is no TOML: {safe(str(error))}") from error


def _settings(options: Mapping[str, str | None]) -> Iterator[tuple[str, Any, str]]:
    """Yield the name of each limit that is set, its value and where it stands, the first to be heeded first."""
    yield from ((name, text, _option(name)) for name, text in options.items() if text is not None)
    variables = {name: f"WIRETAPE_{name.upper()}" for name in _FIELDS}
    yield from ((name, os.environ[it], it) for name, it in variables.items() if os.environ.get(it))
    for path in (Path(LOCAL_FILE), user_file()):
        for name, value in _table(path).items():
            yield name, value, f"{safe(name)} under [{_TABLE}] in {safe(str(path))}"


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _table(path: Path) -> dict[str, Any]:
    table = read_known(path).get(_TABLE, {})
    if not isinstance(table, dict):
        raise click.UsageError(f"{_TABLE} in {safe(str(path))} is no table: write [{_TABLE}] on a line of its own")
    return table


def _checked(name: str, value: object, where: str) -> float:
    """Return a value as its limit's number. From a file it has a type already, from elsewhere it is text."""
    most, is_whole = _FIELDS[name].metadata["most"], isinstance(_FIELDS[name].default, int)
    number = math.nan
    if not isinstance(value, bool) and isinstance(value, str | int | (int if is_whole else float)):
        with contextlib.suppress(ValueError, OverflowError):
            number = int(value) if is_whole else float(value)
    if not 0 < number <= most:
        kind = "a whole number" if is_whole else "a number"
        raise click.UsageError(f"{where} is {safe(repr(value))}: it must be {kind} above 0, at most {most:,.0f}")
    return number
