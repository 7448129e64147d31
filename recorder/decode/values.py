"""JSON values that may have the wrong type: what cannot be read is absent, never guessed."""

import json
from typing import Any, Final

JsonObject = dict[str, Any]
"""A JSON object: its values may have any type, and are checked where they are read."""

MAX_INDEX: Final = 1 << 31
"""Indexes of choices and of tool calls are below this."""
_MAX_COUNT = 1 << 63
_COMPACT: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def text(value: object) -> str:
    """Return the value if it is a string, else ""."""
    return value if isinstance(value, str) else ""


def compact(value: object) -> str:
    """Write a JSON value without spaces; "" if it cannot be written."""
    try:
        return _COMPACT.encode(value)
    except (ValueError, RecursionError):
        return ""


def object_at(holder: JsonObject, key: str) -> JsonObject:
    """Return the object under a key; an empty one if there is none."""
    value = holder.get(key)
    return value if isinstance(value, dict) else {}


def usage_in(holder: JsonObject, key: str = "usage") -> JsonObject | None:
    """Return the usage that an object holds; None if it holds none, or an empty one."""
    usage = holder.get(key)
    return usage if isinstance(usage, dict) and usage else None


def count(value: object) -> int | None:
    """Return a token count if the value is one: a non-negative integer of at most 63 bits, also written as a float."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 <= value < _MAX_COUNT else None


def index(value: object) -> int | None:
    """Return the index of a choice or of a tool call if the value is one."""
    return value if type(value) is int and 0 <= value < MAX_INDEX else None
