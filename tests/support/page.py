"""Reading a page back: its policy, its style and script, and the data in its blocks."""

import base64
import gzip
import json
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any


@dataclass
class Read:
    """The elements of a page; `tags` has all of them, each with its attributes."""

    tags: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    style: str = ""
    script: str = ""
    blocks: dict[str, bytes] = field(default_factory=dict)

    @property
    def policy(self) -> dict[str, str]:
        """The directives of its Content-Security-Policy."""
        (policy,) = [
            attributes["content"] for tag, attributes in self.tags if tag == "meta" and "http-equiv" in attributes
        ]
        return {
            name: value
            for name, _, value in (directive.strip().partition(" ") for directive in (policy or "").split(";"))
        }

    @property
    def data(self) -> dict[str, Any]:
        """The JSON value."""
        value: dict[str, Any] = json.loads(self.blocks["data"])
        return value


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.read = Read()
        self._inside: tuple[str, dict[str, str | None]] = ("", {})

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = (tag, dict(attrs))
        self.read.tags.append(self._inside)

    def handle_endtag(self, tag: str) -> None:
        self._inside = ("", {})

    def handle_data(self, data: str) -> None:
        tag, attributes = self._inside
        if tag == "style":
            self.read.style += data
        elif tag == "script" and attributes.get("id"):
            self.read.blocks[str(attributes["id"])] = gzip.decompress(base64.b64decode(data))
        elif tag == "script":
            self.read.script += data


def read(markup: bytes) -> Read:
    """Parse a page."""
    reader = _Reader()
    reader.feed(markup.decode())
    reader.close()
    return reader.read


def undelta(column: list[int | None]) -> list[int | None]:
    """Return the values of a column of differences."""
    values, previous = list[int | None](), 0
    for value in column:
        previous += value or 0
        values.append(None if value is None else previous)
    return values
