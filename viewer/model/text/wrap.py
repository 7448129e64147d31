"""Pure: a text of any length in the lines of a pane, found only as far as somebody asks for them.

Lines end at line feeds, or at the last space that fits; what has no space is cut, between graphemes. Widths are in
cells, those of what is shown. A line of many megabytes costs no more at once than the lines that are asked for. The end
of a text that still grows is `wrapping`'s.
"""

from array import array
from bisect import bisect_right
from typing import Final

from rich.cells import cell_len, get_character_cell_size

from recorder.sanitize import safe
from viewer.model.text import graphemes

_CHARACTERS_PER_CELL: Final = 16
"""In a line there are no more of them, so that looking for its end costs little however many marks there are."""


class Folding:
    """The lines of `text` in a pane `width` cells wide, as far as `more` has found them; the first is there at once."""

    def __init__(self, text: str, width: int) -> None:
        self.text = text
        self.width = max(width, 2)
        self._starts = array("q", (0,))
        self.done = False

    def __len__(self) -> int:
        """How many lines have been found."""
        return len(self._starts)

    def more(self, lines: int) -> None:
        """Find so many lines more, or all that there are."""
        at = self._starts[-1]
        for _ in range(0 if self.done else lines):
            following = self._following(at)
            if following is None:
                self.done = True
                return
            self._starts.append(following)
            at = following

    def span(self, line: int) -> tuple[int, int]:
        """Give the place of a line in the text, without the line feed that ends it."""
        start = self._starts[line]
        if line + 1 < len(self._starts):
            end = self._starts[line + 1]
            return start, end - (self.text[end - 1] == "\n")
        end = self._following(start) or len(self.text)
        return start, end - (end > start and self.text[end - 1] == "\n")

    def line_of(self, offset: int) -> int:
        """Give the line that a place of the text is in; of what has not been found yet, the last one found."""
        return bisect_right(self._starts, offset) - 1

    def _following(self, start: int) -> int | None:
        """Give where the line after the one from `start` begins; None if that is the last."""
        text = self.text
        room = start + self._fitting(start)
        feed = text.find("\n", start, room + 1)
        if feed >= 0:
            return feed + 1
        if room >= len(text):
            return None
        space = text.rfind(" ", start + 1, room + 1)
        while space > 0 and graphemes.boundary(text, space + 1) > space + 1:  # a mark stands on that space
            space = text.rfind(" ", start + 1, space)
        return space + 1 if space > 0 else room

    def _fitting(self, start: int) -> int:
        """Return how many characters from a place on fit into a line: whole graphemes, one at least."""
        text = self.text
        piece = text[start : start + self.width + 1]
        if piece.isascii():
            return min(len(piece), self.width)
        if not graphemes.are_single(piece):
            return self._fitting_graphemes(start)
        used = 0
        for at, sign in enumerate(safe(piece, multiline=True)):  # as it will be shown
            used += get_character_cell_size(sign)
            if used > self.width:
                return max(at, 1)
        return len(piece)

    def _fitting_graphemes(self, start: int) -> int:
        most = start + _CHARACTERS_PER_CELL * self.width + graphemes.LONGEST
        piece = safe(self.text[start:most], multiline=True)
        used = fitting = 0
        for end in graphemes.ends(piece):
            used += cell_len(piece[fitting:end])
            is_whole = end < len(piece) or most >= len(self.text)
            if fitting and (used > self.width or not is_whole):
                break
            fitting = end
            if piece[end - 1] == "\n":
                break
        return fitting
