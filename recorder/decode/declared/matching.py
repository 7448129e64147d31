"""The conditions by which a declaration recognises its wire: of the request, of headers, and of the first event.

A path is matched by its last segments, in which one `*` stands for any text: `/runs/stream`, `/tasks/*:subscribe`.
There are no regular expressions, which a hostile declaration could make run for hours.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from wiretape.recorder.decode.declared import paths
from wiretape.recorder.decode.declared.paths import Condition
from wiretape.recorder.decode.declared.table import CheckedTable, DeclarationError, tests, text, texts
from wiretape.recorder.decode.exchange import Exchange

Test = Callable[[Exchange], bool]
PathPattern = Sequence[tuple[str, ...]]
"""The last segments of a path, each as the texts around its `*`."""
_EXPRESSION: Final = frozenset("()^$|\\?+[]")
"""Signs of regular expressions."""
_NAMES: Final = ("header", "request-header", "request", "method", "path", "first")


@dataclass(frozen=True, slots=True)
class Alternative:
    """One way to recognise a wire: tests of the exchange, of the first event, and of the one after it, if any.

    `methods` and `patterns`, of the path, are those of the request, any if there are none. `is_certain`: the tests look
    at more than the path. `headers` are the names of those they look at: one decides also where the path names a
    built-in API.
    """

    tests: tuple[Test, ...]
    first: Condition | None
    then: Condition | None
    is_certain: bool
    headers: frozenset[str]
    methods: tuple[str, ...] = ()
    patterns: tuple[PathPattern, ...] = ()

    def is_at(self, path: str) -> bool:
        """Return True if a path is one of those that are named."""
        for pattern in self.patterns:
            segments = _split(path)[-len(pattern) :]
            if len(segments) == len(pattern) and all(map(_fits, segments, pattern)):
                return True
        return False

    def may_ask(self, method: str, path: str) -> bool:
        """Return True if requests of a method to a path may be of this wire."""
        return (not self.methods or method in self.methods) and (not self.patterns or self.is_at(path))

    def fits(self, exchange: Exchange) -> bool:
        """Return True if an exchange is of this wire, as far as it tells without the events."""
        return self.may_ask(exchange.method, exchange.path) and self.holds(exchange)

    def holds(self, exchange: Exchange) -> bool:
        """Return True if the other tests of an exchange hold."""
        return all([test(exchange) for test in self.tests])


def alternatives(table: CheckedTable, name: str = "match") -> tuple[Alternative, ...]:
    """Read the conditions under a key of a declaration; any of them is enough."""
    return tuple(_alternative(entry) for entry in table.tables(name))


def request_value(exchange: Exchange, path: str) -> Any:
    """Return the value at a path of the request's JSON body; None if there is none."""
    return paths.value(path)(_decoded(exchange.request)) if exchange.request else None


def header(headers: Sequence[tuple[str, str]], name: str) -> str | None:
    return next((value for key, value in headers if key == name), None)


def _alternative(table: CheckedTable) -> Alternative:
    request_tests: list[Test] = []
    response_headers = _header_tests(table, "header", lambda exchange: exchange.headers.response)
    request_headers = _header_tests(table, "request-header", lambda exchange: exchange.headers.request)
    headers = frozenset((*response_headers, *request_headers))
    request_fields = table.read("request", tests, None)
    if request_fields is not None:
        holds = paths.condition(request_fields)
        request_tests.append(lambda exchange: exchange.request is not None and holds(_decoded(exchange.request)))
    methods = table.read("method", texts, ())
    patterns = table.read("path", lambda value: tuple(_segments(pattern) for pattern in texts(value)), ())
    first = table.read("first", lambda value: paths.condition(tests(value)), None)
    then = table.read("then", lambda value: paths.condition(tests(value)), None)
    if then is not None and first is None:
        raise DeclarationError(table.key, "match has then, the second event, without first")
    if not (request_tests or methods or patterns or headers) and first is None:
        raise DeclarationError(table.key, f"match has no condition: it has some of {', '.join(_NAMES)}")
    is_certain = bool(headers) or request_fields is not None or first is not None
    tests_of_all = (*response_headers.values(), *request_headers.values(), *request_tests)
    return Alternative(tests_of_all, first, then, is_certain, headers, tuple(methods), patterns)


def _header_tests(
    table: CheckedTable, name: str, headers_of: Callable[[Exchange], Sequence[tuple[str, str]]]
) -> dict[str, Test]:
    """Return the tests of headers, by their names: of a name, or of a table of names with patterns of their values."""
    tests_by_name: dict[str, Test] = {}
    for header_name, pattern in table.read(name, _header_patterns, {}).items():

        def fits(exchange: Exchange, header_name: str = header_name, pattern: tuple[str, ...] = pattern) -> bool:
            value = header(headers_of(exchange), header_name)
            return value is not None and _fits(value, pattern)

        tests_by_name[header_name] = fits
    return tests_by_name


def _header_patterns(value: Any) -> dict[str, tuple[str, ...]]:
    if not isinstance(value, dict):
        return {name.lower(): ("", "") for name in texts(value)}
    return {name.lower(): _parts(text(pattern)) for name, pattern in value.items()}


def _segments(pattern: str) -> list[tuple[str, ...]]:
    if not pattern.startswith("/") or pattern == "/" or not _EXPRESSION.isdisjoint(pattern):
        raise ValueError(
            f"{pattern!r} is no path: write its last segments, such as /runs/stream, with * for any text; several "
            "paths are a list, and there are no regular expressions"
        )
    return [_parts(segment) for segment in pattern[1:].split("/")]


def _parts(pattern: str) -> tuple[str, ...]:
    if pattern.count("*") > 1:
        raise ValueError(f"{pattern!r} has more than one * in a segment")
    return tuple(pattern.split("*"))


def _fits(value: str, parts: tuple[str, ...]) -> bool:
    if len(parts) == 1:
        return value == parts[0]
    start, end = parts
    return len(value) >= len(start) + len(end) and value.startswith(start) and value.endswith(end)


class PathWords:
    """The parts of segments that some patterns of paths look for, by which paths with other ids in them are equal."""

    def __init__(self, patterns: Sequence[PathPattern]) -> None:
        self._count = max(map(len, patterns), default=1)
        segments = {parts for pattern in patterns for parts in pattern}
        self._words = {parts[0] for parts in segments if len(parts) == 1}
        self._affixes = [parts for parts in segments if len(parts) > 1 and any(parts)]

    def known_part(self, path: str) -> str:
        """Return a path that the same patterns match, without its query and the segments that none of them knows."""
        segments = []
        for segment in _split(path)[-self._count :]:
            is_known = segment in self._words or any([_fits(segment, parts) for parts in self._affixes])
            segments.append(segment if is_known else "\0")
        return "/" + "/".join(segments)


@functools.lru_cache(16)
def _split(path: str) -> list[str]:
    return path.partition("?")[0].rstrip("/").split("/")[1:]


@functools.lru_cache(16)
def _decoded(request: bytes | None) -> Any:
    try:
        return msgspec.json.decode(request or b"")
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None


def sources(declared: Mapping[str, str]) -> Callable[[Exchange], dict[str, Any]]:
    """Compile the attributes that come from the exchange itself: from its request, or from a header."""
    makers = {name: [_source(value.strip()) for value in path.split(" | ")] for name, path in declared.items()}

    def attributes(exchange: Exchange) -> dict[str, Any]:
        values = {name: next((value for get in getters if (value := get(exchange)) is not None), None)
                  for name, getters in makers.items()}  # fmt: skip
        return {name: value for name, value in values.items() if value is not None}

    return attributes


_SOURCES: Final = ("request.", "request-header:", "response-header:")


def is_source(path: str) -> bool:
    """Return True if a path, or an alternative of it, starts at the request or at a header, not at an event."""
    return any(alternative.strip().startswith(_SOURCES) for alternative in path.split(" | "))


def _source(path: str) -> Callable[[Exchange], Any]:
    if path.startswith("request-header:"):
        name = path.removeprefix("request-header:").lower()
        return lambda exchange: header(exchange.headers.request, name)
    if path.startswith("response-header:"):
        name = path.removeprefix("response-header:").lower()
        return lambda exchange: header(exchange.headers.response, name)
    if not path.startswith("request."):
        raise ValueError(f"{path!r} mixes the request with events: an attribute comes from the one or the other")
    get = paths.value(path.removeprefix("request."))
    return lambda exchange: get(_decoded(exchange.request)) if exchange.request else None
