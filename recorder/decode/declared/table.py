"""A TOML table that is checked while it is read: values of the right types, and the key of each fault."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar

T = TypeVar("T")
D = TypeVar("D")
Key = tuple[str | int, ...]

MOST: Final = 100
"""Limit of the values of a list, and of the entries of one key."""
LONGEST: Final = 200
"""Limit of a text, in characters."""


class DeclarationError(ValueError):
    """A declaration is wrong at `key`, which leads to it from the dialect's table."""

    def __init__(self, key: Key, message: str) -> None:
        super().__init__(message)
        self.key = key


class CheckedTable:
    """A table of a declaration, whose values are read one by one; `ignored` gets the keys that nothing reads."""

    def __init__(self, values: Mapping[str, Any], key: Key, ignored: list[Key]) -> None:
        self._values, self._unread, self.key, self._ignored = values, set(values), key, ignored

    def read(self, name: str, reader: Callable[[Any], T], default: D) -> T | D:
        """Convert a value; the reader's `ValueError` becomes a `DeclarationError`. Return `default` if it is absent."""
        self._unread.discard(name)
        if name not in self._values:
            return default
        try:
            return reader(self._values[name])
        except DeclarationError:
            raise
        except ValueError as error:
            raise DeclarationError((*self.key, name), f"{name} {error}") from error

    def tables(self, name: str, bare: str | None = None) -> Iterator["CheckedTable"]:
        """Yield the table under a name, or each of a list of them; a text stands for a table with the key `bare`."""
        self._unread.discard(name)
        value = self._values.get(name, [])
        entries = value if isinstance(value, list) else [value]
        if len(entries) > MOST:
            raise DeclarationError((*self.key, name), f"{name} has more than {MOST} entries")
        for place, entry in enumerate(entries):
            key = (*self.key, name, place) if value is entries else (*self.key, name)
            if bare is not None and isinstance(entry, str):
                entry = {bare: entry}
            if not isinstance(entry, dict):
                wanted = "a table, or a list of tables" if bare is None else f"a text (its {bare}), a table, or a list"
                raise DeclarationError(key, f"{name} is {_kind(entry)}: it must be {wanted}")
            table = CheckedTable(entry, key, self._ignored)
            yield table
            table.close()

    @property
    def values(self) -> Mapping[str, Any]:
        return self._values

    def get(self, name: str) -> Any:
        """Return a value as it is; None if it is absent."""
        return self._values.get(name)

    def close(self) -> None:
        """Note the keys that nothing has read."""
        self._ignored += [(*self.key, name) for name in sorted(self._unread)]


def text(value: Any) -> str:
    """Check a text that is not empty."""
    if not isinstance(value, str) or not value or len(value) > LONGEST:
        raise ValueError(f"is {_kind(value)}: it must be a text of 1 to {LONGEST} characters")
    return value


def texts(value: Any) -> tuple[str, ...]:
    """Check a text, or a list of them."""
    items = value if isinstance(value, list) else [value]
    if len(items) > MOST:
        raise ValueError(f"has more than {MOST} values")
    return tuple(map(text, items))


def flag(value: Any) -> bool:
    """Check a truth value."""
    if not isinstance(value, bool):
        raise ValueError(f"is {_kind(value)}: it must be true or false")
    return value


def tests(value: Any) -> dict[str, Any]:
    """Check a table of tests: paths, each with a text, a number, a truth value, or a list of them."""
    if not isinstance(value, dict) or not 0 < len(value) <= MOST:
        raise ValueError(f"is {_kind(value)}: it must be a table of 1 to {MOST} paths with the values that they have")
    for name, expected in value.items():
        if expected == []:
            raise ValueError(f"has for {name} an empty list, which no value is in")
        for item in expected if isinstance(expected, list) else [expected]:
            if not isinstance(item, str | int | float) or (isinstance(item, str) and len(item) > LONGEST):
                raise ValueError(f"has for {name} {_kind(item)}: it must be a short text, a number, true or false")
    return value


def _kind(value: Any) -> str:
    names = {bool: "a truth value", int: "a number", float: "a number", list: "a list", dict: "a table"}
    if isinstance(value, str):
        return "an empty text" if not value else "a text" if len(value) <= LONGEST else "a very long text"
    return names.get(type(value), "a date or time")
