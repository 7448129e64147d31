"""Pure: the formats of imports, and their recognition by content."""

import re
from collections.abc import Iterator
from typing import Final

from wiretape.viewer.wings.imports import found
from wiretape.viewer.wings.imports.found import Data, Found, ImportedFile, NotImportable, Unimportable

FORMATS: Final = {
    "har": "HTTP archives: the phases of an exchange, and bodies without their content coding (then rebuilt); for an "
    "event stream the time of each event, if the archive has _eventSourceMessages (coarse_clock), else no times within "
    "it (no_timing). An answer is refused if the archive does not have all of its body, as of a stream that mitmproxy "
    "passed on. An export of wiretape keeps each read and its time",
    "mitmproxy": "flows that mitmdump -w saves: when an answer began and ended, nothing within it (no_timing); no byte "
    "of an answer that broke off or was streamed past it",
    "vcrpy": "cassettes of vcrpy, which pytest-recording and pytest-vcr use, in YAML or JSON: whole bodies without "
    "times (no_timing), at the second of the answer's Date header, else of the file. A body that is kept as a value is "
    "JSON again (rebuilt). YAML needs PyYAML, the extra vcr",
    "sse": "the bytes of one body, as curl -N -o FILE saves them: an event stream, or JSON of an API known here. Their "
    "times are unknown (no_timing), and so is the request, but for its URL if --url names it; taken to answer a POST "
    "with the status 200, at the time of the file",
}
"""The formats, and the facts about an exchange in each."""

_LOOKED_AT: Final = 1 << 16
_RECOGNISED: Final = {
    "har": re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"log"\s*:'),
    "vcrpy": re.compile(
        rb"(?:\xef\xbb\xbf)?(?:#[^\n]*\n|---[^\n]*\n|version: *\d+ *\r?\n|\s)*interactions: *\r?\n"
        rb'|(?:\xef\xbb\xbf)?\s*\{\s*(?:"version"\s*:\s*\d+\s*,\s*)?"interactions"\s*:'
    ),
    "mitmproxy": re.compile(rb"\d{1,12}:\d{1,12}:[\w,;]"),
    "sse": re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:(?:data|event|id|retry)[:\r\n]|:|[{\[])"),
}
"""The beginning of each format; the first that fits counts."""
_JSON: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*[{\[]")
_FIELD: Final = re.compile(rb"(?:^|\xef\xbb\xbf|[\r\n])(?:(?:data|event)(?:[:\r\n]|$)|:)")
"""A line that an event stream has: `id` and `retry` alone are words of other files, too."""

_OTHERS: Final = {
    "it is a tape, or another database: 'wiretape db merge' copies tapes": re.compile(rb"SQLite format 3\x00"),
    "it is a tape as text: 'wiretape db merge' copies it": re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"wiretape"\s*:'),
    "it is compressed: unpack it": re.compile(rb"\x1f\x8b|PK\x03\x04|\x28\xb5\x2f\xfd"),
}
"""The beginnings of other formats, by the advice for each."""


def recognised(data: Data, name: str = "") -> str:
    """Return the format of a file; of JSON alone, a name that ends in .har decides. Raises `NotImportable`."""
    head = data[:_LOOKED_AT]
    for advice, looks in _OTHERS.items():
        if looks.match(head):
            raise NotImportable(advice)
    if name.lower().endswith(".har") and _JSON.match(head):
        return "har"
    for format, looks in _RECOGNISED.items():
        if looks.match(head):
            return format
    raise NotImportable(f"its format is not known: name one of {', '.join(FORMATS)} with --from")


def read(format: str, data: Data, source: ImportedFile) -> Iterator[Found | Unimportable]:
    """Return the exchanges in a file. Raises `NotImportable`, at the latest for the first item."""
    from wiretape.viewer.wings.imports import har, mitmproxy, vcrpy

    readers = {"har": har.read, "mitmproxy": mitmproxy.read, "vcrpy": vcrpy.read, "sse": _read_body}
    return readers[format](data, source)


def _read_body(data: Data, source: ImportedFile) -> Iterator[Found]:
    """Yield the one answer of a file that holds the bytes of a body, as `curl -N -o FILE` saves them.

    The file has no times and no request: the body is taken to answer a POST with the status 200.
    """
    body = data[:]
    if not body.strip():
        raise NotImportable("it is empty")
    is_json = _JSON.match(body) is not None
    answer = Found(
        place="body",
        started=source.modified,
        stamp="",
        method="POST",
        url=source.url or "",
        status=200,
        response_headers=[] if is_json else [(b"content-type", b"text/event-stream")],
        body=body,
    )
    if not _is_answer(answer, source.dialects):
        raise NotImportable(
            "it is no answer of an API: no line is a field of an event stream, and its JSON is of no API known here (a "
            "declared one is named by --dialect). Of wiretape's own exports, HAR can be imported"
        )
    yield answer


def _is_answer(answer: Found, dialects: str | None) -> bool:
    """Return True if a body has a field of an event stream, or else begins with a payload of an API known here."""
    from wiretape.recorder.decode.decoder import decode
    from wiretape.recorder.decode.exchange import Exchange
    from wiretape.recorder.decode.operation import api_asked

    kind = found.header(answer.response_headers, "content-type")
    exchange = Exchange(status=200, content_type=kind, ended_by=answer.ended_by, path=answer.path, dialects=dialects)
    decoded = decode(exchange, (), answer.body)
    if decoded.framing == "sse":
        return _FIELD.search(answer.body) is not None
    first = decoded.runs[0].chunk if decoded.runs else None
    if first is None or decoded.api in (None, "unknown"):
        return False
    return bool(first.api) or (first.fault is not None and api_asked(exchange) is not None)
