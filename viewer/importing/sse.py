"""Pure: the bytes of a body alone, as `curl -N -o FILE` saves them: nothing says when they came, or who asked for what.

They are taken to be the answer to a POST, with the status 200.
"""

from collections.abc import Iterator

from wiretape.viewer.importing.found import Data, Found, ImportedFile, NotImportable


def read(data: Data, source: ImportedFile) -> Iterator[Found]:
    """Yield the one answer that a file holds."""
    body = data[:]
    if not body.strip():
        raise NotImportable("it is empty")
    is_json = body.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[")
    yield Found(
        place="body",
        started=source.modified,
        stamp="",
        method="POST",
        url=source.url or "",
        status=200,
        response_headers=[] if is_json else [(b"content-type", b"text/event-stream")],
        body=body,
    )
