"""Pure: the formats of imports, and their recognition by content."""

import re
from collections.abc import Iterator
from typing import Final, cast

from wiretape.viewer import contracts, imported
from wiretape.viewer.imported import Data, ImportedExchange, ImportedFile, NotImportable, Unimportable

FORMATS: Final = {format.name: format for wing in contracts.built_in().values() for format in wing.imports}
"""The formats by name."""

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
    """Return the format of a file; of JSON alone, a suffix may decide. Raises `NotImportable`."""
    head = data[: 1 << 16]
    for advice, looks in _OTHERS.items():
        if looks.match(head):
            raise NotImportable(advice)
    if _JSON.match(head):
        for format in FORMATS.values():
            if format.suffix and name.lower().endswith(format.suffix):
                return format.name
    for format in sorted(FORMATS.values(), key=lambda format: format.is_guess):
        if re.match(format.begins, head):
            return format.name
    raise NotImportable(f"its format is not known: name one of {', '.join(FORMATS)} with --from")


def read(format: str, data: Data, source: ImportedFile) -> Iterator[ImportedExchange | Unimportable]:
    """Return the exchanges in a file. Raises `NotImportable`, at the latest for the first item."""
    return cast(Iterator[ImportedExchange | Unimportable], contracts.load(FORMATS[format].path)(data, source))


def read_body(data: Data, source: ImportedFile) -> Iterator[ImportedExchange]:
    """Yield the one answer of a file that holds the bytes of a body, as `curl -N -o FILE` saves them.

    The file has no times and no request: the body is taken to answer a POST with the status 200.
    """
    body = data[:]
    if not body.strip():
        raise NotImportable("it is empty")
    is_json = _JSON.match(body) is not None
    answer = ImportedExchange(
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


def _is_answer(answer: ImportedExchange, dialects: str | None) -> bool:
    """Return True if a body has a field of an event stream, or else begins with a payload of an API known here."""
    from wiretape.recorder.decode.decoder import decode
    from wiretape.recorder.decode.exchange import Exchange
    from wiretape.recorder.decode.operation import api_asked

    kind = imported.header(answer.response_headers, "content-type")
    exchange = Exchange(status=200, content_type=kind, ended_by=answer.ended_by, path=answer.path, dialects=dialects)
    decoded = decode(exchange, (), answer.body)
    if decoded.framing == "sse":
        return _FIELD.search(answer.body) is not None
    first_chunk = decoded.runs[0].chunk if decoded.runs else None
    if first_chunk is None or decoded.api in (None, "unknown"):
        return False
    return bool(first_chunk.api) or (first_chunk.fault is not None and api_asked(exchange) is not None)
