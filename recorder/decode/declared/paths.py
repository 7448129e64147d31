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
    return _first([_getter(one) for one in _alternatives(path)], lambda found: found is not None)


def text(path: str) -> Callable[[Any], str]:
    """Compile a path to a function that returns its texts, joined; "" if there are none. Raises `ValueError`."""
    readers = [_text(one) for one in _alternatives(path)]
    if len(readers) == 1:
        return readers[0]

    def joined(root: Any) -> str:
        for read in readers:
            if found := read(root):
                return found
        return ""

    return joined


def number(path: str) -> Getter:
    """Compile a path to a function that returns a count; None if there is none. `sum PATH` adds up several."""
    is_sum = path.startswith("sum ")
    if not is_sum and len(_alternatives(path)) == 1 and len(steps := _steps(path)) == 1 and steps[0][0] == "key":
        get = _of_keys([steps[0][1]])  # as of nearly all counts of tokens
        return lambda root: count(get(root))
    walks = [_walk(_steps(one)) for one in _alternatives(path.removeprefix("sum "))]

    def counted(root: Any) -> int | None:
        for walk in walks:
            found = [one for at in walk(root) if (one := count(at)) is not None]
            if found:
                return sum(found) if is_sum else found[0]
        return None

    return counted


def each(path: str) -> Callable[[Any], Iterator[Any]]:
    """Compile a path to a function that yields every value at it, those of a list at its end one by one."""
    walk = _walk(_steps(path))

    def values(root: Any) -> Iterator[Any]:
        for found in walk(root):
            if type(found) is list:
                yield from found
            else:
                yield found

    return values


def last_keys(path: str) -> set[str]:
    """Return the last key of each alternative of a path; "." if it has none."""
    keys = ([step for kind, step in _steps(one) if kind == "key"] for one in _alternatives(path))
    return {(found or ["."])[-1] for found in keys}


def filtered_keys(path: str) -> set[str]:
    """Return the keys whose values the filters of a path test."""
    return {step[0] for one in _alternatives(path) for kind, step in _steps(one) if kind == "filter"}


def condition(tests: Mapping[str, Any], known: Callable[[str], Any] = lambda _: None) -> Condition:
    """Compile tests of values: a path, and the wanted value or several of them.

    `"*"` is any value but null, `false` also an absent one, and `$name` the value that `known` has for the name; if it
    has none, any value is right.
    """
    checks = [
        _check(value(path), [_known(one, known) for one in (wanted if isinstance(wanted, list) else [wanted])])
        for path, wanted in tests.items()
    ]
    if len(checks) == 1:
        return checks[0]
    return lambda root: all([check(root) for check in checks])


def _known(wanted: Any, known: Callable[[str], Any]) -> Any:
    if not isinstance(wanted, str) or not wanted.startswith("$"):
        return wanted
    found = known(wanted[1:])
    return "*" if found is None else found


def truthy(paths: Sequence[str]) -> Condition:
    """Compile paths to a condition: any of them has a value that is neither null, false, 0 nor empty."""
    getters = [value(one) for one in paths]
    return lambda root: any([get(root) for get in getters])


def _check(get: Getter, wanted: Sequence[Any]) -> Condition:
    if "*" in wanted:
        return lambda root: get(root) is not None
    falsy = any(one is False for one in wanted)
    exact = [(type(one), one) for one in wanted]

    def holds(root: Any) -> bool:
        found = get(root)
        return (falsy and found is None) or (type(found), found) in exact

    return holds


def _alternatives(path: str) -> list[str]:
    if len(path) > LONGEST:
        raise ValueError(f"a path has at most {LONGEST} characters")
    return [one.strip() for one in path.split(" | ")]


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
        key, element, name, wanted = step.groups()
        if key is not None:
            steps.append(("key", key))
        elif element is not None:
            steps.append(("element", int(element) if element else None))
        else:
            steps.append(("filter", (name, _LITERALS.get(wanted, wanted))))
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
    return lambda root: next((found for found in walk(root) if found is not None), None)


def _text(path: str) -> Callable[[Any], str]:
    steps = _steps(path)
    keys = [step for kind, step in steps if kind == "key"]
    if len(keys) == len(steps):
        get = _of_keys(keys)

        def one(root: Any) -> str:
            found = get(root)
            return found if type(found) is str else ""

        return one
    walk = _walk(steps)
    return lambda root: "".join([found for found in walk(root) if type(found) is str])


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
    takers: list[_Step] = [_TAKERS[kind](step) for kind, step in steps]
    if all(kind == "key" for kind, _ in steps):  # as of nearly all counts of tokens
        return _walk_keys([key for _, key in steps])

    def walk(root: Any) -> list[Any]:
        found: list[Any] = [root]
        for take in takers:
            found = take(found[0]) if len(found) == 1 else [after for before in found for after in take(before)]
        return found

    return walk


def _walk_keys(keys: Sequence[str]) -> _Step:
    def walk(at: Any) -> list[Any]:
        for key in keys:
            if type(at) is not dict or key not in at:
                return []
            at = at[key]
        return [at]

    return walk


def _key(key: str) -> _Step:
    return lambda at: [at[key]] if type(at) is dict and key in at else []


def _element(place: int | None) -> _Step:
    if place is None:
        return lambda at: at if type(at) is list else []
    return lambda at: at[place : place + 1] if type(at) is list else []


def _filter(test: tuple[str, Any]) -> _Step:
    key, wanted = test
    kind = type(wanted)

    def fits(one: Any) -> bool:
        return type(one) is dict and (found := one.get(key)) == wanted and type(found) is kind

    return lambda at: [one for one in at if fits(one)] if type(at) is list else [at] if fits(at) else []


_TAKERS: Final[dict[str, Callable[[Any], _Step]]] = {"key": _key, "element": _element, "filter": _filter}


def _first(getters: Sequence[Getter], fits: Condition) -> Getter:
    if len(getters) == 1:
        return getters[0]

    def get(root: Any) -> Any:
        for one in getters:
            if fits(found := one(root)):
                return found
        return None

    return get
