"""Pure: the difference between a JSON value and the one before it: a page is sent no more than that.

A patch is a list that `patched` in live.js applies: `["=", value]` replaces, `["+", text]` appends to a text, `["{",
patches, removed]` changes the members of an object, and `["[", patches, added]` changes the elements of a list and
appends to it. Tapes grow: columns nearly always only get longer.
"""

from collections.abc import Sequence
from typing import Any

Patch = list[Any]


def difference(old: object, new: object) -> Patch | None:
    """Return the patch that makes `new` of `old`; None if they are the same."""
    if type(old) is type(new) and old == new:
        return None
    if isinstance(old, dict) and isinstance(new, dict):
        return _of_objects(old, new)
    if isinstance(old, (list, tuple)) and isinstance(new, (list, tuple)) and len(old) <= len(new):
        return _of_lists(old, new)
    if isinstance(old, str) and isinstance(new, str) and old and new.startswith(old):
        return ["+", new[len(old) :]]
    return ["=", new]


def _of_objects(old: dict[Any, Any], new: dict[Any, Any]) -> Patch:
    patches = {name: ["=", value] for name, value in new.items() if name not in old}
    for name in new.keys() & old.keys():
        if patch := difference(old[name], new[name]):
            patches[name] = patch
    return ["{", patches, [name for name in old if name not in new]]


def _of_lists(old: Sequence[object], new: Sequence[object]) -> Patch:
    if old == new[: len(old)]:
        return ["[", {}, new[len(old) :]]
    patches = {}
    for place, (before, now) in enumerate(zip(old, new, strict=False)):
        if patch := difference(before, now):
            patches[place] = patch
    replaced = sum(kind == "=" for kind, *_ in patches.values())
    return ["=", new] if 2 * replaced > len(old) else ["[", patches, new[len(old) :]]
