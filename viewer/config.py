"""The configuration: `./.wiretape.toml` before the user's `config.toml`, by one reader with one error policy.

Neither file need exist. A mistake anywhere in one of them stops every command that reads the configuration, also if
that command needs other settings only, with a `ConfigError` that names file, line and column. Skipping the setting
would be a guess: a wrong price, threshold or objective changes figures, and a file that one command obeys and another
rejects cannot be trusted. A command that needs no setting reads no file, so that a slip in a saved view cannot stop a
recorder. Rules for `check` are read from a file of their own in the same way.
"""

import contextlib
import functools
import math
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from wiretape.recorder import paths
from wiretape.recorder.commands.dialects import declarations
from wiretape.recorder.decode.stalls import LIMITS, Thresholds
from wiretape.recorder.documents import Document, Key, load, value_at
from wiretape.recorder.errors import ConfigError
from wiretape.recorder.sanitize import safe
from wiretape.recorder.tape.masking import Rules
from wiretape.viewer.query import guesses
from wiretape.viewer.query.parser import FilterError, parse
from wiretape.viewer.stats import prices
from wiretape.viewer.stats.metrics import objective
from wiretape.viewer.stats.prices import Price

if TYPE_CHECKING:
    from wiretape.viewer.stats.check import Rule

LOCAL_FILE: Final = ".wiretape.toml"
"""The configuration of a directory; it is looked for where the command is run, and nowhere above."""

_MOST: Final = 1000


@dataclass(slots=True)
class Config:
    """The settings of both files: `keys` by the id of a binding, `views` by name, `thresholds` by field."""

    theme: str | None = None
    slo: str | None = None
    keys: dict[str, str] = field(default_factory=dict)
    views: dict[str, str] = field(default_factory=dict)
    thresholds: dict[str, float] = field(default_factory=dict)
    entries: list[Price] = field(default_factory=list)
    currency: str | None = None
    dialects: list[dict[str, Any]] = field(default_factory=list)
    redactions: list[dict[str, str]] = field(default_factory=list)
    places: dict[str, tuple[Document, Key]] = field(default_factory=dict, compare=False)
    """Places of the theme and of each of `keys` in the files."""

    @property
    def prices(self) -> prices.Prices:
        return prices.Prices(self.entries, self.currency or prices.DEFAULT_CURRENCY)

    def error(self, name: str, message: str) -> ConfigError:
        """Return the error for a setting that only the screens can check."""
        document, key = self.places[name]
        return document.error(key, message)

    def check_theme(self, names: Collection[str]) -> None:
        """Raise `ConfigError` if the theme is none of those known."""
        if self.theme is not None and self.theme not in names:
            advice = guesses.question(guesses.nearest(self.theme, names, {})) or "there are dark, light and auto"
            raise self.error("theme", f"there is no theme {safe(self.theme)}: {advice}")


def user_file() -> Path | None:
    """Return the path of the user's configuration, which need not exist; None for a user without a home."""
    directory = paths.of_user("config")
    return None if directory is None else directory / "config.toml"


def read() -> Config:
    """Read both files. Raises `ConfigError`."""
    config = Config()
    for path in filter(None, (Path(LOCAL_FILE), user_file())):
        if not paths.exists(path):
            continue
        document = load(path)
        for name in document.tables:
            if name not in _SETTINGS:
                near = guesses.nearest(name, _SETTINGS, {})
                advice = guesses.question(near) or f"there are {', '.join(_SETTINGS)}"
                raise document.error((name,), f"{safe(name)} is no setting: {advice}")
            _SETTINGS[name](config, document)
    return config


def _set(name: str, reader: Callable[[Any], Any], config: Config, document: Document) -> None:
    """Read a setting of one value, unless a file before has set it."""
    value = document.read((name,), reader, f"{name}: ")
    if getattr(config, name) is None:
        setattr(config, name, value)
        config.places[name] = document, (name,)


def _fill(name: str, reader: Callable[[str, Any], Any], config: Config, document: Document) -> None:
    """Read the entries of a table, except those that a file before has set."""
    for key, entry in _entries(document, (name,)):
        value = document.read(key, functools.partial(reader, entry), f"{safe(entry)} under [{name}] ")
        getattr(config, name).setdefault(entry, value)
        config.places.setdefault(f"{name}.{entry}", (document, key))


def _entries(document: Document, table: Key) -> Iterator[tuple[Key, str]]:
    """Yield key and name of each entry; `replay.play = "p"` is TOML for a table within the table."""
    pending = [table]
    while pending:
        key = pending.pop()
        value = value_at(document.tables, key)
        if isinstance(value, dict) and (value or key == table):
            pending += [(*key, name) for name in reversed(value)]
        elif key == table:
            raise document.error(table, f"{table[0]} is no table: write [{table[0]}] on a line of its own")
        else:
            yield key, ".".join(map(str, key[1:]))


def _add_prices(config: Config, document: Document) -> None:
    entries = document.tables["prices"]
    if not isinstance(entries, list) or not all(isinstance(item, dict) for item in entries):
        raise document.error(("prices",), "prices is no list of tables: write [[prices]] above each entry")
    if len(entries) > _MOST:
        message = f"there are {len(entries):,} [[prices]], at most {_MOST:,} are read: * fits many models"
        raise document.error(("prices", _MOST), message)
    for at, entry in enumerate(entries):
        prefix = f"entry {at + 1} of [[prices]]: "
        for name in entry:
            document.read(("prices", at, name), functools.partial(prices.setting, name), prefix)
        config.entries.append(document.read(("prices", at), prices.entry, prefix))


def _add_dialects(config: Config, document: Document) -> None:
    names = {declaration["name"] for declaration in config.dialects}
    config.dialects += [declaration for declaration in declarations(document) if declaration["name"] not in names]


def _add_redactions(config: Config, document: Document) -> None:
    entries = document.tables["redact"]
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise document.error(("redact",), "redact is no list of tables: write [[redact]] above each entry")
    for place, entry in enumerate(entries):
        if not entry.keys() <= {"pattern", "field"} or not entry:
            expected = "write pattern = 'REGEX' or field = 'NAME' in it, and nothing else"
            raise document.error(("redact", place), f"entry {place + 1} of [[redact]] is no rule: {expected}")
        for name in entry:
            reader = (lambda value: regex(_text(value))) if name == "pattern" else _text
            value = document.read(("redact", place, name), reader, f"entry {place + 1} of [[redact]]: ")
            config.redactions.append({name: value})


def regex(pattern: str) -> str:
    """Return a regular expression. Raises ValueError for anything else."""
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is no regular expression: {error}") from error
    return pattern


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("must be a text in quotes")
    return value


def _filter(_name: str, value: Any) -> str:
    try:
        parse(_text(value))
    except FilterError as error:
        raise ValueError(f"is no filter: {error}") from error
    return str(value)


def _limit(name: str, value: Any) -> float:
    """Return a value as its limit's number. From a file it has a type already, from elsewhere it is text."""
    if name not in LIMITS:
        raise ValueError(f"is no threshold: there are {', '.join(LIMITS)}")
    most, is_whole = LIMITS[name].metadata["most"], isinstance(LIMITS[name].default, int)
    number = math.nan
    if not isinstance(value, bool) and isinstance(value, str | int | (int if is_whole else float)):
        with contextlib.suppress(ValueError, OverflowError):
            number = int(value) if is_whole else float(value)
    if not 0 < number <= most:
        kind = "a whole number" if is_whole else "a number"
        raise ValueError(f"is {safe(repr(value))}: it must be {kind} above 0, at most {most:,.0f}")
    return number


_SETTINGS: Final[Mapping[str, Callable[[Config, Document], None]]] = {
    "theme": functools.partial(_set, "theme", _text),
    "slo": functools.partial(_set, "slo", lambda value: objective(_text(value)) and value),
    "keys": functools.partial(_fill, "keys", lambda _name, value: _text(value)),
    "views": functools.partial(_fill, "views", _filter),
    "thresholds": functools.partial(_fill, "thresholds", _limit),
    "prices": _add_prices,
    "currency": functools.partial(_set, "currency", prices.currency),
    "dialects": _add_dialects,
    "redact": _add_redactions,
}
"""Every setting, with its reader."""


def redaction(patterns: Sequence[str] = (), *, is_on: bool = True) -> Rules:
    """Return the rules for what is made to be passed on: these patterns, and if it `is_on` secrets and both files'.

    Raises `ConfigError`.
    """
    entries = read().redactions if is_on else []
    more = [entry["pattern"] for entry in entries if "pattern" in entry]
    return Rules((*patterns, *more), tuple(entry["field"] for entry in entries if "field" in entry), is_on)


def thresholds(options: Mapping[str, str | None] | None = None) -> Thresholds:
    """Return the limits of verdicts: those of options, else of the environment, else of the configuration.

    Raises `ConfigError`, and `click.UsageError` for an option or a variable.
    """
    values = read().thresholds
    for name in LIMITS:
        variable, option = f"WIRETAPE_{name.upper()}", f"--{name.replace('_', '-')}"
        # The option comes last, as it outranks the variable; either may be wrong, and is then refused.
        for origin, text in ((variable, os.environ.get(variable) or None), (option, (options or {}).get(name))):
            if text is not None:
                try:
                    values[name] = _limit(name, text)
                except ValueError as error:
                    raise click.UsageError(f"{origin} {error}") from error
    return Thresholds(**values)  # type: ignore[arg-type]


def rules(path: Path) -> "tuple[list[Rule], str | None]":
    """Read a file of rules: tables `max` and `min`, and an objective, `slo`. Raises `ConfigError`."""
    from wiretape.viewer.stats import check

    document, parsed_rules = load(path), list["Rule"]()
    for bound in (table for table in document.tables if table != "slo"):
        if bound not in ("max", "min"):
            raise document.error((bound,), f"{safe(repr(bound))} is not one of the tables max and min, nor slo")
        for key, name in _entries(document, (bound,)):

            def rule(limit: Any, bound: str = bound, name: str = name) -> "Rule":
                return check.rule(bound, f"{name}={limit}")

            parsed_rules.append(document.read(key, rule, f"{bound}.{safe(name)}: "))
    return parsed_rules, document.read(("slo",), _text, "slo: ") if "slo" in document.tables else None
