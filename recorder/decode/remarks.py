"""Texts in a stream that are no payloads: a proxy's line about a broken upstream, a gateway's page, a bare error."""

import re
from typing import Final

MAX_REMARK: Final = 2000
"""Limit of a remark, in characters."""
_MOST_READ: Final = 64 << 10
"""Limit of the text that is searched for a remark: a page of a gateway is shorter."""

_FIELD = re.compile(r"(?:(?:data|event|id|retry|error)(?::|$)|:)")
_PAGE = re.compile(r"\s*<(?:!doctype|html|head|body|h1|center)\b", re.IGNORECASE)
_TITLE = re.compile(r"<(?:title|h1)[^<>]*>([^<]*)<", re.IGNORECASE)
_TAG = re.compile(r"<[^<>]*>")
_LINE_ENDS = re.compile(r"\r\n|\r|\n")
_JSON = ("{", "[", '"')


def plain(text: str) -> str | None:
    """Return a text as a remark: of a page its title; None if there is none, or if it begins as JSON does."""
    text = text[:_MOST_READ]
    if _PAGE.match(text):
        from html import unescape  # its table of entities takes longer to load than a short answer to decode

        title = _TITLE.search(text)
        text = unescape(title[1] if title else _TAG.sub(" ", text))
    text = " ".join(text.split())
    return None if not text or text.startswith(_JSON) else text[:MAX_REMARK]


def around_fields(region: bytes) -> str | None:
    """Return the lines of a region of an event stream that are no fields, comments or JSON, as one remark."""
    lines = _LINE_ENDS.split(region[:_MOST_READ].decode("utf-8", "replace"))
    return plain("\n".join([line for line in lines if not _FIELD.match(line) and not line.lstrip().startswith(_JSON)]))
