"""Paths into a JSON value, compiled to closures: `delta`, `choices[0].text`, `parts[?type=text].text`, `a | b`.

A path is keys with dots between them. `[]` is every element of a list, `[0]` one of them, `[?key=value]` those objects
of a list (or the object itself) whose key has that value. Of alternatives, separated by ` | `, the first with a value
of the wanted kind counts; `.` is the value itself. There are no regular expressions: the work is linear in the value.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from wiretape.recorder.decode.values import count

Getter = Callable[[Any], Any]
"""Returns the value at a path; None if there is none."""
Condition = Callable[[Any], bool]

MOST_STEPS: Final = 16
LONGEST: Final = 200
_STEP = re.compile(r"\.?([^.\[\]|?=]{1,64})|\[(\d{0,4})\]|\[\?([^.\[\]|?=]{1,64})=([^\[\]|]{1,64})\]")
_LITERALS: Final[dict[str, object]] = {"true": True, "false": False, "null": None}

_Step = Callable[[Any], list[Any]]


def value(path: str) -> Getter:
    """Compile a path to a function that returns its first value of any kind but null. Raises `ValueError`."""
    return _first_match([_getter(alternative) for alternative in _alternatives(path)], lambda item: item is not None)


def text(path: str) -> Callable[[Any], str]:
    """Compile a path to a function that returns its texts, joined; "" if there are none. Raises `ValueError`."""
    readers = [_text(alternative) for alternative in _alternatives(path)]
    if len(readers) == 1:
        return readers[0]

    def joined(root: Any) -> str:
        for reader in readers:
            if result := reader(root):
                return result
        return ""

    return joined


def number(path: str) -> Getter:
    """Compile a path to a function that returns a count; None if there is none. `sum PATH` adds up several."""
    is_sum = path.startswith("sum ")
    if not is_sum and len(_alternatives(path)) == 1 and len(steps := _steps(path)) == 1 and steps[0][0] == "key":
        get = _of_keys([steps[0][1]])  # as of nearly all counts of tokens
        return lambda root: count(get(root))
    walks = [_walk(_steps(alternative)) for alternative in _alternatives(path.removeprefix("sum "))]

    def counted(root: Any) -> int | None:
        for walk in walks:
            counts = [number for item in walk(root) if (number := count(item)) is not None]
            if counts:
                return sum(counts) if is_sum else counts[0]
        return None

    return counted


def each_value(path: str) -> Callable[[Any], Iterator[Any]]:
    """Compile a path to a function that yields every value at it, those of a list at its end one by one."""
    walk = _walk(_steps(path))

    def values(root: Any) -> Iterator[Any]:
        for item in walk(root):
            if type(item) is list:
                yield from item
            else:
                yield item

    return values


def last_keys(path: str) -> set[str]:
    """Return the last key of each alternative of a path; "." if it has none."""
    keys = ([step for kind, step in _steps(alternative) if kind == "key"] for alternative in _alternatives(path))
    return {(names or ["."])[-1] for names in keys}


def filtered_keys(path: str) -> set[str]:
    """Return the keys whose values the filters of a path test."""
    return {step[0] for alternative in _alternatives(path) for kind, step in _steps(alternative) if kind == "filter"}


def condition(tests: Mapping[str, Any], lookup: Callable[[str], Any] = lambda _: None) -> Condition:
    """Compile tests of values: a path, and the wanted value or several of them.

    `"*"` is any value but null, `false` also an absent one, and `$name` the value that `lookup` has for the name; if it
    has none, any value is right.
    """
    checks = []
    for path, expected in tests.items():
        items = []
        for item in expected if isinstance(expected, list) else [expected]:
            if isinstance(item, str) and item.startswith("$"):
                result = lookup(item[1:])
                items.append("*" if result is None else result)
            else:
                items.append(item)
        checks.append(_check(value(path), items))
    if len(checks) == 1:
        return checks[0]
    return lambda root: all([check(root) for check in checks])


def truthy(paths: Sequence[str]) -> Condition:
    """Compile paths to a condition: any of them has a value that is neither null, false, 0 nor empty."""
    getters = [value(path) for path in paths]
    return lambda root: any([get(root) for get in getters])


def _check(get: Getter, expected: Sequence[Any]) -> Condition:
    if "*" in expected:
        return lambda root: get(root) is not None
    accepts_absence = any(item is False for item in expected)
    exact = [(type(item), item) for item in expected]

    def holds(root: Any) -> bool:
        actual = get(root)
        return (accepts_absence and actual is None) or (type(actual), actual) in exact

    return holds


def _alternatives(path: str) -> list[str]:
    if len(path) > LONGEST:
        raise ValueError(f"a path has at most {LONGEST} characters")
    return [alternative.strip() for alternative in path.split(" | ")]


def _steps(path: str) -> list[tuple[str, Any]]:
    """Return the steps of a path: a key, an element (None: each), or a filter."""
    if path == ".":
        return []
    steps: list[tuple[str, Any]] = []
    at = 0
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None or (step[1] is not None and at > 0 and path[at] != "."):
            raise ValueError(f"{path!r} is no path: write keys with dots between them, [] for each element")
        key, element, name, expected = step.groups()
        if key is not None:
            steps.append(("key", key))
        elif element is not None:
            steps.append(("element", int(element) if element else None))
        else:
            steps.append(("filter", (name, _LITERALS.get(expected, expected))))
        at = step.end()
    if not 0 < len(steps) <= MOST_STEPS:
        raise ValueError(f"{path!r} is no path: it has 1 to {MOST_STEPS} steps")
    return steps


def _getter(path: str) -> Getter:
    steps = _steps(path)
    keys = [step for kind, step in steps if kind == "key"]
    if len(keys) == len(steps):
        return _of_keys(keys)
    walk = _walk(steps)
    return lambda root: next((item for item in walk(root) if item is not None), None)


def _text(path: str) -> Callable[[Any], str]:
    steps = _steps(path)
    keys = [step for kind, step in steps if kind == "key"]
    if len(keys) == len(steps):
        get = _of_keys(keys)

        def single_text(root: Any) -> str:
            item = get(root)
            return item if type(item) is str else ""

        return single_text
    walk = _walk(steps)
    return lambda root: "".join([item for item in walk(root) if type(item) is str])


def _of_keys(keys: Sequence[str]) -> Getter:
    if not keys:
        return lambda root: root
    if len(keys) == 1:
        (key,) = keys
        return lambda root: root.get(key) if type(root) is dict else None

    def get(root: Any) -> Any:
        for key in keys:
            if type(root) is not dict:
                return None
            root = root.get(key)
        return root

    return get


def _walk(steps: Sequence[tuple[str, Any]]) -> _Step:
    """Return a function that returns all values at the end of some steps."""
    if all(kind == "key" for kind, _ in steps):  # as of nearly all counts of tokens
        keys = [key for _, key in steps]

        def walk_keys(value: Any) -> list[Any]:
            for key in keys:
                if type(value) is not dict or key not in value:
                    return []
                value = value[key]
            return [value]

        return walk_keys
    takers = [_taker(kind, step) for kind, step in steps]

    def walk(root: Any) -> list[Any]:
        items: list[Any] = [root]
        for take in takers:
            items = take(items[0]) if len(items) == 1 else [inner for item in items for inner in take(item)]
        return items

    return walk


def _taker(kind: str, step: Any) -> _Step:
    """Return a function that takes one step from a value: to its key, its elements, or those that pass a filter."""
    if kind == "key":
        return lambda value: [value[step]] if type(value) is dict and step in value else []
    if kind == "element" and step is None:
        return lambda value: value if type(value) is list else []
    if kind == "element":
        return lambda value: value[step : step + 1] if type(value) is list else []
    key, expected = step

    def passes(item: Any) -> bool:
        # JSON's true and 1 are equal in Python.
        return type(item) is dict and (actual := item.get(key)) == expected and type(actual) is type(expected)

    return lambda value: (
        [item for item in value if passes(item)] if type(value) is list else [value] if passes(value) else []
    )


def _first_match(getters: Sequence[Getter], fits: Condition) -> Getter:
    if len(getters) == 1:
        return getters[0]

    def get(root: Any) -> Any:
        for getter in getters:
            if fits(result := getter(root)):
                return result
        return None

    return get
