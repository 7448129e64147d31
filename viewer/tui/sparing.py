"""Drawing only what looks otherwise than it did: of each line, the cells that differ from what the terminal has.

Textual draws every line of what a widget asks for from the widget's left border on; where a word comes fifty times a
second, nearly all of that stands there already. This keeps what was drawn last, and writes the difference. Whatever
draws the whole screen draws all of it, so that a terminal in which something else has written is put right.
"""

from collections.abc import Iterator
from typing import Final, TypeAlias

from rich.cells import cell_len
from rich.console import Console
from rich.control import Control
from rich.segment import Segment
from textual._compositor import ChopsUpdate, Compositor, LayoutUpdate
from textual.strip import Strip

_NEAR: Final = 6
"""Between two changes so near to each other it is shorter to draw what stands there than to move."""

_Segments: TypeAlias = "list[Segment]"


class SparingCompositor(Compositor):
    """Knows what the terminal shows, as far as this screen has drawn it."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn: dict[int, _Segments] = {}

    def render_full_update(self, simplify: bool = False) -> LayoutUpdate:
        """Draw everything."""
        found = super().render_full_update(simplify=simplify)
        if not simplify:  # else it is a picture, and not for the terminal
            self.drawn = {y: [one for strip in line for one in strip] for y, line in enumerate(found.strips)}
        return found

    def render_partial_update(self) -> ChopsUpdate | None:
        """Draw what has changed."""
        found = super().render_partial_update()
        return None if found is None else _SparingUpdate(found, self.drawn)


class _SparingUpdate(ChopsUpdate):
    """The lines of an update of which something differs from `drawn`, which is kept up."""

    def __init__(self, update: ChopsUpdate, drawn: dict[int, _Segments]) -> None:
        super().__init__(update.chops, update.spans, update.chop_ends)
        self._drawn = drawn

    def render_segments(self, console: Console) -> str:
        """Give what to write to the terminal."""
        return "".join(self._changes(console))

    def _changes(self, console: Console) -> Iterator[str]:
        for y in sorted({y for y, _, _ in self.spans}):
            chops = self.chops[y]
            before = self._drawn.get(y)
            if before is None or None in chops.values():
                yield from self._whole(y, console)
                continue
            line = [segment for strip in chops.values() if strip is not None for segment in strip]
            self._drawn[y] = line
            if line != before:
                for start, changed in _changed(_cells(before), _cells(line)):
                    yield Control.move_to(start, y).segment.text
                    yield Strip(changed).render(console)

    def _whole(self, y: int, console: Console) -> Iterator[str]:
        """Draw a line that is not all known as Textual would."""
        self._drawn.pop(y, None)
        spans = [span for span in self.spans if span[0] == y]
        yield ChopsUpdate(self.chops, spans, self.chop_ends).render_segments(console)


def _cells(line: _Segments) -> list[Segment]:
    """Give a line cell by cell; behind a character of two cells stands an empty one."""
    found = []
    for text, style, _ in line:
        if text.isascii():
            found += [Segment(sign, style) for sign in text]
            continue
        for sign in text:
            size = cell_len(sign)
            if size == 0 and found:
                found[-1] = Segment(found[-1].text + sign, style)
            elif size:
                found += [Segment(sign, style), *[Segment("", style)] * (size - 1)]
    return found


def _changed(before: list[Segment], after: list[Segment]) -> Iterator[tuple[int, _Segments]]:
    """Give where cells have changed, each time the first one and what stands there now."""
    if len(before) != len(after):
        yield 0, list(Segment.simplify(after))
        return
    places = [place for place, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
    start = 0
    for at, place in enumerate(places):
        if at + 1 < len(places) and places[at + 1] - place <= _NEAR:
            continue
        first, end = places[start], place + 1
        start = at + 1
        while first and not after[first].text:  # the second half of a character: with the first
            first -= 1
        while end < len(after) and not after[end].text:
            end += 1
        yield first, list(Segment.simplify(after[first:end]))
