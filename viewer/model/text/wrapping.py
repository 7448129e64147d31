"""Pure: the end of a growing text in the lines of a pane: wrapped at words, measured in cells.

Only as much of a text is looked at as fills the pane, however long it is; where that begins depends on its length in
steps only, so that lines stay where they are while the text grows. What comes out has passed `safe`. A mark without a
letter that it stands on is given a dotted circle: it would go to whatever stands to the left of the pane.
"""

import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final

from rich.cells import cell_len

from recorder.sanitize import safe
from viewer.model.text import graphemes

_STEP: Final = 4096
_TAB: Final = 4
_CIRCLE: Final = "\N{DOTTED CIRCLE}"
_MARKS: Final = frozenset({"Mn", "Me"})

Line = tuple[str, str]
"""A line of a pane: what it is of, and its text."""


def tail(parts: Iterable[tuple[str, str, int]], width: int, height: int) -> list[Line]:
    """Give the last `height` lines of texts one below the other: each is what it is, the text, and how much of it."""
    lines: list[Line] = []
    for kind, text, length in parts:
        shown = text[_start(text, length, width * height) : length]
        lines += [(kind, line) for line in wrapped(shown, width)]
    return lines[-height:] if height > 0 else []


def wrapped(text: str, width: int) -> list[str]:
    """Wrap a text at its line feeds and its words; a word that is longer than a line is broken."""
    lines: list[str] = []
    for paragraph in _founded(safe(text.expandtabs(_TAB), multiline=True)).split("\n"):
        lines += _folded(paragraph, max(width, 2))
    return lines


def _founded(text: str) -> str:
    """Give marks at the start of a line, or after a space, something to stand on."""
    if text.isascii():
        return text
    shown = list[str]()
    before = "\n"
    for sign in text:
        if before in " \n" and unicodedata.category(sign) in _MARKS:
            shown.append(_CIRCLE)
        shown.append(sign)
        before = sign
    return "".join(shown)


def _start(text: str, length: int, room: int) -> int:
    start = max(length - 2 * room, 0) // _STEP * _STEP
    if not start:
        return 0
    feed = text.find("\n", start, max(length - room, start))
    return graphemes.boundary(text, start) if feed < 0 else feed + 1


def _folded(paragraph: str, width: int) -> list[str]:
    if len(paragraph) <= width and cell_len(paragraph) <= width:
        return [paragraph]
    lines, line, used = list[str](), "", 0
    for word in _words(paragraph):
        if used + cell_len(word.rstrip(" ")) > width:
            if used:
                lines.append(line)
            *whole, word = _broken(word, width)
            lines += whole
            line, used = "", 0
        line, used = line + word, used + cell_len(word)
    return [*lines, line]


def _words(paragraph: str) -> Sequence[str]:
    """Split after the spaces that follow a word."""
    found, start = list[str](), 0
    while start < len(paragraph):
        space = paragraph.find(" ", start)
        if space < 0:
            break
        end = space
        while end < len(paragraph) and paragraph[end] == " ":
            end += 1
        found.append(paragraph[start:end])
        start = end
    return [*found, paragraph[start:]]


def _broken(word: str, width: int) -> list[str]:
    """Break what is longer than a line; its trailing spaces, which nobody sees, stay with the last piece."""
    bare = word.rstrip(" ")
    pieces, start, used, before = list[str](), 0, 0, 0
    for end in graphemes.ends(bare):
        size = cell_len(bare[before:end])
        if used and used + size > width:
            pieces.append(bare[start:before])
            start, used = before, 0
        used, before = used + size, end
    return [*pieces, word[start:]]
