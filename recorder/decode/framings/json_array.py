"""One JSON array whose elements are objects, sent as they are made: Gemini's stream without `alt=sse`.

An element is complete at its closing brace. Only braces and strings are looked at: the reader of a payload finds out if
the JSON within is valid.
"""

import re
from collections.abc import Iterator

from wiretape.recorder.decode.framings import Record

_BEGINNING = re.compile(rb"(?:\xef\xbb\xbf)?\s*\[")
_LOOKS_LIKE = re.compile(_BEGINNING.pattern + rb"\s*(?:\{|\Z)")
_BETWEEN = re.compile(rb"[\s,]*+")
# A text that is neither an object nor the end of the array, up to the next delimiter.
_OTHER = re.compile(rb"[^,{\]]++(?=[,{\]])")
# Up to the next brace outside of a string. Possessive, so that each byte is looked at once.
_NEXT_BRACE = re.compile(rb'[^"{}]*+(?:"(?:[^"\\]++|\\.)*+"[^"{}]*+)*+([{}])', re.DOTALL)


def records(data: bytes) -> Iterator[Record]:
    """Yield a record for each whole element. Data after the array is ignored."""
    beginning = _BEGINNING.match(data)
    if beginning is None:
        return
    at = beginning.end()
    while True:
        start = _end(_BETWEEN, data, at)
        at = _object_end(data, start) if data.startswith(b"{", start) else _end(_OTHER, data, start)
        if at == start:
            return
        yield Record(start, at, *fields(data[start:at]))


def fields(raw: bytes) -> tuple[str, str]:
    """Return the type and the data of the record that stands in these bytes."""
    return "message", raw.decode("utf-8", "replace")


def looks_like(data: bytes) -> bool:
    """Return True if a body is an array that begins with an object, or was cut before it: many whole answers are."""
    return _LOOKS_LIKE.match(data) is not None


def _end(pattern: re.Pattern[bytes], data: bytes, start: int) -> int:
    match = pattern.match(data, start)
    return match.end() if match else start


def _object_end(data: bytes, start: int) -> int:
    """Return the offset behind the object that begins here; `start` if the data end within it."""
    depth, at = 0, start
    while match := _NEXT_BRACE.match(data, at):
        at = match.end()
        depth += 1 if match[1] == b"{" else -1
        if depth == 0:
            return at
    return start
