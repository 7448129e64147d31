"""Pure: text of any length in the lines of a pane: wrapped at words, measured in cells, cut between graphemes.

A grapheme is an extended grapheme cluster of Unicode (UAX 29), at most `LONGEST_GRAPHEME` code points long: a longer
one is hostile, and is cut. Lines are found on demand, so that a line of many megabytes costs no more than the lines
that are shown.
"""

import functools
import unicodedata
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from rich.cells import cell_len, get_character_cell_size

from wiretape.recorder.sanitize import safe

if TYPE_CHECKING:
    from regex import Pattern

LONGEST_GRAPHEME: Final = 256


_STEP: Final = 4096


class WrappedText:
    """The lines of `text` in a pane `width` cells wide: the first one, and those that `more` has found.

    Lines end at line feeds or at the last space that fits; a word longer than a line is cut.
    """

    def __init__(self, text: str, width: int) -> None:
        self.text = text
        self.width = max(width, 2)
        self._starts = array("q", (0,))
        self.done = False

    def __len__(self) -> int:
        return len(self._starts)

    def more(self, lines: int) -> None:
        """Find `lines` more lines, or all that there are."""
        for _ in range(0 if self.done else lines):
            following = self._following(self._starts[-1])
            if following is None:
                self.done = True
                return
            self._starts.append(following)

    def span(self, line: int) -> tuple[int, int]:
        """Return the offsets of a line's start and end in the text, without the line feed that ends it."""
        start = self._starts[line]
        is_last = line + 1 == len(self._starts)
        end = (self._following(start) or len(self.text)) if is_last else self._starts[line + 1]
        return start, end - (end > start and self.text[end - 1] == "\n")

    def line(self, line: int) -> str:
        return self.text[slice(*self.span(line))]

    def line_of(self, offset: int) -> int:
        """Return the line that holds a character; the last one found if its line has not been found yet."""
        return bisect_right(self._starts, offset) - 1

    def _following(self, start: int) -> int | None:
        """Return the start of the line after the one from `start`; None if that is the last."""
        text = self.text
        room = start + self._line_length(start)
        feed = text.find("\n", start, room + 1)
        if feed >= 0:
            return feed + 1
        if room >= len(text):
            return None
        space = text.rfind(" ", start + 1, room + 1)
        while space > 0 and grapheme_boundary(text, space + 1) > space + 1:  # a mark stands on that space
            space = text.rfind(" ", start + 1, space)
        return space + 1 if space > 0 else room

    def _line_length(self, start: int) -> int:
        """Return the number of characters from an offset that fit into a line: whole graphemes, one at least."""
        piece = self.text[start : start + self.width + 1]
        if piece.isascii():
            return min(len(piece), self.width)
        if not are_graphemes(piece):
            return self._grapheme_length(start)
        used = 0
        for at, sign in enumerate(safe(piece, multiline=True)):  # as it will be shown
            used += get_character_cell_size(sign)
            if used > self.width:
                return max(at, 1)
        return len(piece)

    def _grapheme_length(self, start: int) -> int:
        # At most 16 characters a cell: finding the end of a line costs little, however many marks there are.
        most = start + 16 * self.width + LONGEST_GRAPHEME
        piece = safe(self.text[start:most], multiline=True)
        used = length = 0
        for end in grapheme_ends(piece):
            used += cell_len(piece[length:end])
            is_whole = end < len(piece) or most >= len(self.text)
            if length and (used > self.width or not is_whole):
                break
            length = end
            if piece[end - 1] == "\n":
                break
        return length


def wrapped(text: str, width: int) -> list[str]:
    """Return a recorded text in lines of a width, made safe."""
    text = safe(text.expandtabs(4), multiline=True)
    if not text.isascii():  # a terminal would put a mark without a base on the character to the left of the pane
        text = "".join(
            "\N{DOTTED CIRCLE}" + sign if previous in " \n" and unicodedata.category(sign) in ("Mn", "Me") else sign
            for previous, sign in zip("\n" + text, text, strict=False)
        )
    lines = WrappedText(text, width)
    lines.more(len(lines.text))
    return [lines.line(number) for number in range(len(lines))]


def tail(parts: Iterable[tuple[str, str, int]], width: int, height: int) -> list[tuple[str, str]]:
    """Return the last `height` lines of growing texts, one below the other: each a kind, a text, how much of it came.

    A line is its kind and its text. Only as much of a text is read as fills the pane. Where that begins changes in
    steps, so that lines stay where they are while the text grows.
    """
    lines: list[tuple[str, str]] = []
    room = width * height
    for kind, text, length in parts:
        start = max(length - 2 * room, 0) // _STEP * _STEP
        if start:
            feed = text.find("\n", start, max(length - room, start))
            start = grapheme_boundary(text, start) if feed < 0 else feed + 1
        lines += [(kind, line) for line in wrapped(text[start:length], width)]
    return lines[-height:] if height > 0 else []


def grapheme_ends(text: str) -> Iterator[int]:
    for match in _patterns().grapheme.finditer(text):
        yield from range(match.start() + LONGEST_GRAPHEME, match.end(), LONGEST_GRAPHEME)
        yield match.end()


def are_graphemes(text: str) -> bool:
    """Return True if no code point of a text could join another one: each is a grapheme by itself."""
    return text.isascii() or _patterns().joining_sign.search(text) is None


def grapheme_boundary(text: str, at: int) -> int:
    """Return the first place at or after `at` at which a text may be cut."""
    if at <= 0 or at >= len(text) or text[at - 1 : at + 1].isascii():
        return at
    base = at - 1
    while base > max(at - LONGEST_GRAPHEME, 0) and not text[base].isascii():
        base -= 1
    return next((base + end for end in grapheme_ends(text[base : at + LONGEST_GRAPHEME]) if base + end >= at), at)


class _Patterns(NamedTuple):
    """The patterns of a grapheme, and of a code point that can be a part of a longer grapheme."""

    grapheme: "Pattern[str]"
    joining_sign: "Pattern[str]"


@functools.cache
def _patterns() -> _Patterns:
    import regex  # only text that is not ASCII needs it

    joining_classes = ("Extend", "ZWJ", "SpacingMark", "Prepend", "Regional_Indicator", "L", "V", "T")
    joining = "".join(rf"\p{{Grapheme_Cluster_Break={name}}}" for name in joining_classes)
    return _Patterns(regex.compile(r"\X"), regex.compile(f"[{joining}]"))
