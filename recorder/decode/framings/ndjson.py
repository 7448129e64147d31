"""Newline-delimited JSON: one object on each line, as Ollama streams them.

Lines end at LF, and a CR before it is white space. Blank lines separate nothing. The reader of a payload finds out if a
line is valid JSON.
"""

import json
import re
from collections.abc import Iterator

from wiretape.recorder.decode.allowance import may_be_parsed
from wiretape.recorder.decode.framings import Record

_BOM = b"\xef\xbb\xbf"
_SPACE = b" \t\r\n"
_BLANK_LINES = re.compile(rb"(?:[ \t\r]*+\n)++")


def records(data: bytes) -> Iterator[Record]:
    """Yield a record for each line that is not blank.

    A last line without its line end is a record only if it is a whole object: else the stream was cut there.
    """
    start = len(_BOM) if data.startswith(_BOM) else 0
    while end := data.find(b"\n", start) + 1:
        line = data[start:end].strip(_SPACE)
        if not line and (blank := _BLANK_LINES.match(data, start)):
            end = blank.end()
        elif line:
            yield Record(start, end, "message", line.decode("utf-8", "replace"))
        start = end
    tail = _text(data[start:])
    if _object(tail) is not None:
        yield Record(start, len(data), "message", tail)


def fields(raw: bytes) -> tuple[str, str]:
    """Return the type and the data of the record that stands in these bytes."""
    return "message", _text(raw)


def looks_like(data: bytes) -> bool:
    """Return True if a body is more than one JSON document: an object on its first line and another one below.

    A stream that was cut after its first line is recognised if that line says that more was to come.
    """
    head, _, remainder = data.removeprefix(_BOM).lstrip(_SPACE).partition(b"\n")
    is_followed = remainder.lstrip(_SPACE).startswith(b"{")
    # Most answers are one document on one line, which is parsed once: a key may hide behind escapes.
    if not head.startswith(b"{") or not (is_followed or b"done" in head or b"\\" in head):
        return False
    line_object = _object(_text(head))
    if line_object is None:
        return False
    return is_followed or (line_object.get("done") is False and isinstance(line_object.get("model"), str))


def is_document(data: bytes) -> bool:
    """Return True if a body is one JSON document printed over several lines, also if the end cuts it off.

    A line of such a stream is a whole object, so that one of a bracket alone begins a document.
    """
    body = data.removeprefix(_BOM).lstrip(_SPACE)
    head, newline, remainder = body.partition(b"\n")
    if newline and head.rstrip(_SPACE) in (b"{", b"["):
        return True
    return bool(remainder.strip(_SPACE)) and _object(_text(head)) is None and _object(_text(body)) is not None


def is_object(data: bytes) -> bool:
    """Return True if a body is one whole JSON object and nothing else."""
    body = data.removeprefix(_BOM).strip(_SPACE)
    return body.startswith(b"{") and body.endswith(b"}") and _object(_text(body)) is not None


def _text(line: bytes) -> str:
    return line.strip(_SPACE).decode("utf-8", "replace")


def _object(line: str) -> dict[str, object] | None:
    if not may_be_parsed(line):
        return None
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
