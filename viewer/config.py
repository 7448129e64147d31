"""The configuration: `./.wiretape.toml` before the user's `config.toml`, by one reader with one error policy.

Neither file need exist. A mistake anywhere in one of them stops every command that reads the configuration, also if
that command needs other settings only, with a `ConfigError` that names file, line and column. Skipping the setting
would be a guess: a wrong price, threshold or objective changes figures, and a file that one command obeys and another
rejects cannot be trusted. A command that needs no setting reads no file, so that a slip in a saved view cannot stop a
recorder. Rules for `check` are read from a file of their own in the same way.
"""

import bisect
import contextlib
import difflib
import functools
import math
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from wiretape.recorder.decode.stalls import LIMITS, Thresholds
from wiretape.recorder.errors import ConfigError
from wiretape.recorder.sanitize import safe

if TYPE_CHECKING:
    from wiretape.viewer.stats.check import Rule
    from wiretape.viewer.stats.prices import Price, Prices

T = TypeVar("T")
Key = tuple[str | int, ...]
"""The keys, and the numbers of list elements, that lead to a value in a TOML document."""

LOCAL_FILE: Final = ".wiretape.toml"
"""The configuration of a directory; it is looked for where the command is run, and nowhere above."""

_MOST: Final = 1000
_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


@dataclass(frozen=True, slots=True)
class Document:
    """A TOML file: its name, as it may be shown, its text and its tables."""

    name: str
    text: str
    tables: dict[str, Any]

    def error(self, key: Key, message: str) -> ConfigError:
        """Return the error that names the place of a key."""
        return _error(self.name, *self._place(key), message)

    def read(self, key: Key, reader: Callable[[Any], T], value: Any, prefix: str) -> T:
        """Convert the value of a key; the reader's `ValueError` becomes a `ConfigError`."""
        try:
            return reader(value)
        except ValueError as error:
            raise self.error(key, prefix + safe(str(error))) from error

    def _place(self, key: Key) -> tuple[int, int]:
        """Return line and column of a key, or of its statement if the key is not there once before the first `=`.

        The statement ends with the first line up to which the text has the key; it begins after the last line before
        that up to which the text is TOML.
        """
        lines = self.text.split("\n")
        last = bisect.bisect_left(range(1, len(lines) + 1), True, key=lambda count: _has(_tables(lines, count)[1], key))
        first = _tables(lines, last)[0]
        statement = "\n".join(lines[first : last + 1])
        found = list(re.finditer(rf"(?<![\w.-]){re.escape(str(key[-1]))}(?![\w-])", statement.partition("=")[0]))
        at = found[0].start() if len(found) == 1 else len(statement) - len(statement.lstrip())
        return first + 1 + statement.count("\n", 0, at), at - statement.rfind("\n", 0, at)


def _tables(lines: list[str], count: int) -> tuple[int, dict[str, Any]]:
    """Return the largest number of lines, at most `count`, that are TOML, and their tables."""
    while True:
        try:
            return count, tomllib.loads("\n".join(lines[:count]))
        except tomllib.TOMLDecodeError:
            count -= 1


def _has(tables: Any, key: Key) -> bool:
    try:
        functools.reduce(lambda found, one: found[one], key, tables)
    except (LookupError, TypeError):
        return False
    return True


def _error(name: str, line: int, column: int, message: str) -> ConfigError:
    return ConfigError(f"{name}, line {line}, column {column}: {message}")


def load(path: Path) -> Document:
    """Read a TOML file. Raises `ConfigError`."""
    name = safe(str(path))
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{name} cannot be read ({error.strerror})") from error
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
        return Document(name, text, tomllib.loads(text))
    except UnicodeDecodeError as error:
        before = data[: error.start]
        place = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
        raise _error(name, *place, "the text is not UTF-8") from error
    except RecursionError as error:
        raise ConfigError(f"{name}: its tables or lists are nested too deep") from error
    except tomllib.TOMLDecodeError as error:
        known = _PLACE.search(str(error))
        end = text.count("\n") + 1, len(text) - text.rfind("\n")
        place = (int(known[1]), int(known[2])) if known and known[1] else end
        raise _error(name, *place, f"no TOML: {safe(_PLACE.sub('', str(error)))}") from error


@dataclass(slots=True)
class Config:
    """The settings of both files: `keys` by the id of a binding, `views` by name, `thresholds` by field."""

    theme: str | None = None
    slo: str | None = None
    keys: dict[str, str] = field(default_factory=dict)
    views: dict[str, str] = field(default_factory=dict)
    thresholds: dict[str, float] = field(default_factory=dict)
    entries: "list[Price]" = field(default_factory=list)
    currency: str | None = None
    places: dict[str, tuple[Document, Key]] = field(default_factory=dict, compare=False)
    """Places of the theme and of each of `keys` in the files."""

    @property
    def prices(self) -> "Prices":
        """The entries of `[[prices]]` and the currency."""
        from wiretape.viewer.stats.prices import DEFAULT_CURRENCY, Prices

        return Prices(self.entries, self.currency or DEFAULT_CURRENCY)

    def error(self, name: str, message: str) -> ConfigError:
        """Return the error for a setting that only the screens can check."""
        document, key = self.places[name]
        return document.error(key, message)

    def check_theme(self, known: Iterable[str]) -> None:
        """Raise `ConfigError` if the theme is none of those known."""
        if self.theme is not None and self.theme not in (names := list(known)):
            near = difflib.get_close_matches(self.theme, names, 1)
            meant = f"did you mean {near[0]}?" if near else "there are wiretape-dark and wiretape-light"
            raise self.error("theme", f"there is no theme {safe(self.theme)}: {meant}")


def user_file() -> Path:
    """Return the path of the user's configuration, which need not exist."""
    import platformdirs

    return Path(platformdirs.user_config_path("wiretape")) / "config.toml"


def read() -> Config:
    """Read both files. Raises `ConfigError`."""
    config = Config()
    for path in (Path(LOCAL_FILE), user_file()):
        if path.exists():
            document = load(path)
            for name, value in document.tables.items():
                if name not in _SETTINGS:
                    near = difflib.get_close_matches(name, _SETTINGS, 1)
                    meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(_SETTINGS)}"
                    raise document.error((name,), f"{safe(name)} is no setting: {meant}")
                _SETTINGS[name](config, document, value)
    return config


def _theme(config: Config, document: Document, value: Any) -> None:
    config.theme = config.theme or document.read(("theme",), _text, value, "theme ")
    config.places.setdefault("theme", (document, ("theme",)))


def _slo(config: Config, document: Document, value: Any) -> None:
    from wiretape.viewer.stats.metrics import objective

    text = document.read(("slo",), _text, value, "slo ")
    document.read(("slo",), objective, text, "slo: ")
    config.slo = config.slo or text


def _keys(config: Config, document: Document, value: Any) -> None:
    for key, name, text in _texts(document, ("keys",), _table(document, "keys", value)):
        config.keys.setdefault(name, text)
        config.places.setdefault(f"keys.{name}", (document, key))


def _views(config: Config, document: Document, value: Any) -> None:
    from wiretape.viewer.query.parser import parse

    for key, name, text in _texts(document, ("views",), _table(document, "views", value)):
        document.read(key, parse, text, f"the view {safe(name)} is no filter: ")
        config.views.setdefault(name, text)


def _thresholds(config: Config, document: Document, value: Any) -> None:
    for name, given in _table(document, "thresholds", value).items():
        key = ("thresholds", name)
        if name not in LIMITS:
            raise document.error(key, f"{safe(name)} is no threshold: there are {', '.join(LIMITS)}")
        limit = document.read(key, functools.partial(_limit, name), given, f"{name} ")
        config.thresholds.setdefault(name, limit)


def _prices(config: Config, document: Document, value: Any) -> None:
    from wiretape.viewer.stats import prices

    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise document.error(("prices",), "prices is no list of tables: write [[prices]] above each entry")
    if len(value) > _MOST:
        said = f"there are {len(value):,} [[prices]], at most {_MOST:,} are read: * fits many models"
        raise document.error(("prices", _MOST), said)
    for at, entry in enumerate(value):
        prefix = f"entry {at + 1} of [[prices]]: "
        for name, one in entry.items():
            document.read(("prices", at, name), functools.partial(prices.setting, name), one, prefix)
        config.entries.append(document.read(("prices", at), prices.entry, entry, prefix))


def _currency(config: Config, document: Document, value: Any) -> None:
    from wiretape.viewer.stats import prices

    currency = document.read(("currency",), prices.currency, value, "currency: ")
    config.currency = config.currency or currency


_SETTINGS: Final[Mapping[str, Callable[[Config, Document, Any], None]]] = {
    "theme": _theme, "slo": _slo, "keys": _keys, "views": _views, "thresholds": _thresholds, "prices": _prices,
    "currency": _currency,
}  # fmt: skip
"""Reads each setting into the configuration, unless a file before has set it."""


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("must be a text in quotes")
    return value


def _table(document: Document, name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise document.error((name,), f"{name} is no table: write [{name}] on a line of its own")
    return value


def _texts(document: Document, table: Key, values: Mapping[str, Any]) -> Iterator[tuple[Key, str, str]]:
    """Yield key, name and text of each entry; `replay.play = "p"` is TOML for a table within the table."""
    for name, value in values.items():
        key = (*table, name)
        if isinstance(value, dict):
            yield from _texts(document, key, value)
        else:
            dotted = ".".join(map(str, key[1:]))
            yield key, dotted, document.read(key, _text, value, f"{safe(dotted)} under [{key[0]}] ")


def thresholds(given: Mapping[str, str | None] = MappingProxyType({})) -> Thresholds:
    """Return the limits of verdicts: those of options, else of the environment, else of the configuration.

    Raises `ConfigError`, and `click.UsageError` for an option or a variable.
    """
    values = read().thresholds
    for name in LIMITS:
        variable, text = f"WIRETAPE_{name.upper()}", given.get(name)
        for where, one in ((variable, os.environ.get(variable) or None), (f"--{name.replace('_', '-')}", text)):
            if one is not None:
                try:
                    values[name] = _limit(name, one)
                except ValueError as error:
                    raise click.UsageError(f"{where} {error}") from error
    return Thresholds(**values)  # type: ignore[arg-type]


def _limit(name: str, value: Any) -> float:
    """Return a value as its limit's number. From a file it has a type already, from elsewhere it is text."""
    most, is_whole = LIMITS[name].metadata["most"], isinstance(LIMITS[name].default, int)
    number = math.nan
    if not isinstance(value, bool) and isinstance(value, str | int | (int if is_whole else float)):
        with contextlib.suppress(ValueError, OverflowError):
            number = int(value) if is_whole else float(value)
    if not 0 < number <= most:
        kind = "a whole number" if is_whole else "a number"
        raise ValueError(f"is {safe(repr(value))}: it must be {kind} above 0, at most {most:,.0f}")
    return number


def rules(path: Path) -> "tuple[list[Rule], str | None]":
    """Read a file of rules: tables `max` and `min`, and an objective, `slo`. Raises `ConfigError`."""
    from wiretape.viewer.stats import check

    document = load(path)
    found, slo = list["Rule"](), None
    for bound, limits in document.tables.items():
        if bound == "slo":
            slo = document.read(("slo",), _text, limits, "slo ")
            continue
        if bound not in ("max", "min") or not isinstance(limits, dict):
            raise document.error((bound,), f"{safe(repr(bound))} is not one of the tables max and min, nor slo")
        for key, name, limit in _figures(document, bound, limits):
            reader = functools.partial(check.rule, bound)
            found.append(document.read(key, reader, f"{name}={limit}", f"{bound}.{safe(name)}: "))
    return found, slo


def _figures(document: Document, bound: str, limits: Mapping[str, Any]) -> Iterator[tuple[Key, str, Any]]:
    """Yield key, figure and limit of each rule in a table: in TOML a dot in a bare key makes a table."""
    for name, limit in limits.items():
        if not isinstance(limit, dict):
            yield (bound, name), name, limit
        elif not limit or any(isinstance(one, dict) for one in limit.values()):
            example = "is no figure and its limit: write, say, ttft.p95 = '1500ms'"
            raise document.error((bound, name), f"{bound}.{safe(name)}: {safe(repr(name))} {example}")
        else:
            yield from (((bound, name, statistic), f"{name}.{statistic}", one) for statistic, one in limit.items())
