"""TOML files that people write: a mistake in one is reported with its file, line and column."""

import bisect
import contextlib
import functools
import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from wiretape.recorder.errors import ConfigError
from wiretape.recorder.sanitize import safe

T = TypeVar("T")
Key = tuple[str | int, ...]
"""The keys, and the numbers of list elements, that lead to a value in a TOML document."""


@dataclass(frozen=True, slots=True)
class Document:
    """A TOML file: its name, as it may be shown, its text and its tables."""

    name: str
    text: str
    tables: dict[str, Any]

    def error(self, key: Key, message: str) -> ConfigError:
        return _error(self.name, *self._place(key), message)

    def read(self, key: Key, reader: Callable[[Any], T], prefix: str) -> T:
        """Convert the value of a key; the reader's `ValueError` becomes a `ConfigError`."""
        try:
            return reader(value_at(self.tables, key))
        except ValueError as error:
            raise self.error(key, prefix + safe(str(error))) from error

    def _place(self, key: Key) -> tuple[int, int]:
        """Return line and column of a key, or of its statement if the key is not there once before the first `=`.

        The statement ends with the first line up to which the text has the key; it begins after the last line before
        that up to which the text is TOML.
        """
        lines = self.text.split("\n")
        last_line = bisect.bisect_left(
            range(1, len(lines) + 1), True, key=lambda count: _has(_tables(lines, count)[1], key)
        )
        first_line = _tables(lines, last_line)[0]
        statement = "\n".join(lines[first_line : last_line + 1])
        matches = list(re.finditer(rf"(?<![\w.-]){re.escape(str(key[-1]))}(?![\w-])", statement.partition("=")[0]))
        at = matches[0].start() if len(matches) == 1 else len(statement) - len(statement.lstrip())
        return first_line + 1 + statement.count("\n", 0, at), at - statement.rfind("\n", 0, at)


def _tables(lines: list[str], count: int) -> tuple[int, dict[str, Any]]:
    """Return the largest number of lines, at most `count`, that are TOML, and their tables."""
    while True:
        try:
            return count, tomllib.loads("\n".join(lines[:count]))
        except tomllib.TOMLDecodeError:
            count -= 1


def value_at(tables: Any, key: Key) -> Any:
    """Return the value of a key. Raises `LookupError` or `TypeError`."""
    return functools.reduce(lambda value, step: value[step], key, tables)


def _has(tables: dict[str, Any], key: Key) -> bool:
    with contextlib.suppress(LookupError, TypeError):
        value_at(tables, key)
        return True
    return False


def _error(name: str, line: int, column: int, message: str) -> ConfigError:
    return ConfigError(f"{name}, line {line}, column {column}: {message}")


_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


def load(path: Path) -> Document:
    """Read a TOML file. Raises `ConfigError`."""
    name, text = safe(str(path)), ""
    try:
        text = path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
        return Document(name, text, tomllib.loads(text))
    except OSError as error:
        raise ConfigError(f"{name} cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        text_before = error.object[: error.start]
        place = text_before.count(b"\n") + 1, error.start - text_before.rfind(b"\n")
        raise _error(name, *place, "the text is not UTF-8") from error
    except RecursionError as error:
        raise ConfigError(f"{name}: its tables or lists are nested too deep") from error
    except tomllib.TOMLDecodeError as error:
        match = _PLACE.search(str(error))
        end = text.count("\n") + 1, len(text) - text.rfind("\n")
        place = (int(match[1]), int(match[2])) if match and match[1] else end
        raise _error(name, *place, f"no TOML: {safe(_PLACE.sub('', str(error)))}") from error
