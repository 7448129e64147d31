"""Patches applied as live.js does, for tests, and values for its own tests."""

from typing import Any, Final

CASES: Final[list[tuple[Any, Any]]] = [
    ({}, {"a": 1}),
    ({"a": [1, 2, 3], "b": 1}, {"a": [1, 5, 3, 4]}),
    ([], [1]),
    ([1, 2], [1]),
    ([[1], [2], [3]], [[1], [2, 2], [3], []]),
    ("so", "so it goes"),
    ({"__proto__": {"x": 1}, "k": 0}, {"__proto__": {"x": 2}, "constructor": None, "k": 0}),
    ({"text": "a\u2028\u202e\U0001f600"}, {"text": "a\u2028\u202e\U0001f600</script>"}),
    ([None, True, 0, ""], [None, False, 0, "x"]),
]


def patched(old: Any, patch: list[Any]) -> Any:
    """Return a value with a patch applied to it."""
    match patch:
        case ["=", value]:
            return value
        case ["+", text]:
            return old + text
        case ["{", patches, removed]:
            changed = {name: patched(old.get(name), patch) for name, patch in patches.items()}
            return {name: value for name, value in old.items() if name not in removed} | changed
        case ["[", patches, added]:
            changed = {int(place): patched(old[int(place)], patch) for place, patch in patches.items()}
            return [changed.get(place, value) for place, value in enumerate(old)] + added
    raise ValueError(patch)
