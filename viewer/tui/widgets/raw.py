"""An event as it came: at the left what it is made of, at the right its bytes; what is chosen there lights up here."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from rich.style import Style
from textual.events import Click
from textual.message import Message

from recorder.safe import safe
from viewer.model import dump
from viewer.model.dump import Dump, Piece
from viewer.model.folding import Folding
from viewer.model.json_spans import Node
from viewer.tui.paint import Part
from viewer.tui.widgets.pane import Pane

View = Literal["hex", "lines", "JSON"]
VIEWS: Final[tuple[View, ...]] = ("hex", "lines", "JSON")
"""How bytes are shown: as hex with their reads, as lines of the stream, or as JSON in order."""

_LARGEST_JSON: Final = 1 << 20
_MOST_LINES: Final = 100_000
_OFFSET: Final = 7


class TreePane(Pane):
    """What an event is made of, as a list that is indented."""

    @dataclass
    class Chosen(Message):
        """A part was chosen."""

        node: Node

    def __init__(self) -> None:
        super().__init__(id="tree")
        self._parts: Sequence[Node] = ()
        self._selected = 0

    def show(self, nodes: Sequence[Node]) -> None:
        """Show another event's parts."""
        self._parts, self._selected = nodes, 0
        self.set_count(len(nodes))
        self.scroll_to(y=0, animate=False, force=True)
        self.redraw()

    def go(self, rows: int) -> None:
        """Choose the part so many rows below, or above."""
        if not self._parts:
            return
        before, self._selected = self._selected, max(0, min(self._selected + rows, len(self._parts) - 1))
        self.redraw((before, before), (self._selected, self._selected))
        self.reveal(self._selected)
        self.post_message(self.Chosen(self._parts[self._selected]))

    def on_click(self, event: Click) -> None:
        """Choose the part that was clicked."""
        self.go(self.scroll_offset.y + event.y - self._selected)

    def behind(self, number: int) -> Style:
        """Set the chosen part off."""
        if number == self._selected:
            return self.look("cursor" if self.active else "selected")
        return self.look("ground")

    def line(self, number: int) -> Iterable[Part]:
        """Draw a part."""
        node = self._parts[number]
        has_parts = number + 1 < len(self._parts) and self._parts[number + 1].depth > node.depth
        return [
            (">" if number == self._selected else " ", self.look("accent")),
            ("  " * node.depth + ("▾ " if has_parts else "  "), self.look("muted")),
            (node.label, self.look("accent" if has_parts else "plain")),
            (" : " if node.depth else " ", self.look("muted")),
            (node.shown, self.look("muted" if has_parts else "plain")),
        ]


class BytesPane(Pane):
    """The bytes of an event in one of three views."""

    def __init__(self) -> None:
        super().__init__(id="bytes")
        self.view: View = "hex"
        self._data = b""
        self._range = 0, 0
        self._lit = 0, 0
        self._borders: tuple[Sequence[int], Sequence[int], Sequence[int], Sequence[int]] = (), (), (), ()
        self._dump = Dump(0, 0, 16, (), ())
        self._pieces: list[Piece] = []
        self._json = Folding("", 80)

    def show(
        self,
        data: bytes,
        place: tuple[int, int],
        borders: tuple[Sequence[int], Sequence[int]],
        reads_at: Sequence[int],
        sizes: Sequence[int],
    ) -> None:
        """Show the bytes of `data` from one place to another.

        `borders` are where reads begin and which, `reads_at` and `sizes` are by their seq.
        """
        self._data, self._borders = data, (*borders, reads_at, sizes)
        self._range = place
        self._lit = 0, 0
        self._lay_out()

    def light(self, start: int, end: int) -> None:
        """Light up these bytes, and scroll to them."""
        self._lit = start, end
        self.redraw()
        if self.view == "hex" and len(self._dump):
            self.reveal(self._dump.row_of(start), 1)
        if self.view == "lines":
            row = next((row for row, piece in enumerate(self._pieces) if piece.start <= start < piece.end), 0)
            self.reveal(row, 1)

    def cycle(self) -> View:
        """Show the bytes in the next view; give which that is."""
        self.view = VIEWS[(VIEWS.index(self.view) + 1) % len(VIEWS)]
        self._lay_out()
        self.light(*self._lit)
        return self.view

    def on_resize(self) -> None:
        """Lay the bytes out for the new width."""
        self._lay_out()

    def line(self, number: int) -> Iterable[Part]:
        """Draw a row of the view."""
        if self.view == "JSON":
            start, end = self._json.span(number)
            return [(" ", None), (self._json.text[start:end], self.look("plain"))]
        if self.view == "lines":
            return self._of_lines(self._pieces[number])
        piece = self._dump.piece(number)
        return self._border(piece) if piece.read is not None else self._hex(piece)

    @property
    def _row_size(self) -> int:
        room = self.size.width - _OFFSET - 3
        return next((size for size in (32, 24, 16, 12, 8) if 4 * size <= room), 4)

    def _lay_out(self) -> None:
        start, end = self._range
        self._dump = Dump(start, end, self._row_size, self._borders[0], self._borders[1])
        rows = len(self._dump)
        if self.view == "lines":
            self._pieces = dump.lines(self._data, start, end)
            rows = len(self._pieces)
        if self.view == "JSON":
            self._json = Folding(_pretty(self._data[start:end]), self.size.width - 3)
            self._json.more(_MOST_LINES)
            rows = len(self._json)
        self.set_count(rows)
        self.scroll_to(y=0, animate=False, force=True)
        self.redraw()

    def _border(self, piece: Piece) -> Iterable[Part]:
        _, _, at, sizes = self._borders
        assert piece.read is not None
        told = f"read {piece.read}"
        if piece.read < len(at):
            told += f" ─ {sizes[piece.read]:,} B ─ +{at[piece.read] / 1e9:.3f} s"
        return [
            ("─ ", self.look("accent")),
            (told, self.look("accent")),
            (" " + "─" * (self.size.width - len(told) - 4), self.look("muted")),
        ]

    def _hex(self, piece: Piece) -> Iterable[Part]:
        yield f" {piece.start - self._range[0]:05x} ", self.look("muted")
        size, lit = self._row_size, self.look("lit")
        first, last = self._lit_in(piece)
        cuts = ((piece.start, first, Style()), (first, last, lit), (last, piece.end, Style()))
        for start, end, style in cuts:
            if end > start:
                yield f" {dump.hexadecimal(self._data[start:end])}", self.look("plain") + style
        yield " " * (3 * (size - (piece.end - piece.start)) + 2), None
        for start, end, style in cuts:
            yield dump.printable(self._data[start:end]), self.look("muted") + style

    def _of_lines(self, piece: Piece) -> Iterable[Part]:
        first, last = self._lit_in(piece)
        yield " ", None
        for start, end, style in (
            (piece.start, first, None),
            (first, last, self.look("lit")),
            (last, piece.end, None),
        ):
            yield self._data[start:end].decode("utf-8", "replace"), self.look("plain") + (style or Style())

    def _lit_in(self, piece: Piece) -> tuple[int, int]:
        first = min(max(self._lit[0], piece.start), piece.end)
        return first, min(max(self._lit[1], first), piece.end)


def _pretty(data: bytes) -> str:
    """Give the JSON of an event in order; its own lines where it is none, or too much."""
    fields = [line[5:].removeprefix(b" ") for line in data.splitlines() if line.startswith(b"data:")]
    payload = b"\n".join(fields) if fields else data
    if len(payload) <= _LARGEST_JSON:
        try:
            text = json.dumps(json.loads(payload), indent=2, ensure_ascii=False)
        except (ValueError, RecursionError):
            return safe(data[:_LARGEST_JSON].decode("utf-8", "replace"), multiline=True)
        return safe(text, multiline=True)
    return safe(data[:_LARGEST_JSON].decode("utf-8", "replace"), multiline=True) + "\n(more than is put in order)"
