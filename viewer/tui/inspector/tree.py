"""What an event is made of, as a list that is indented: what is chosen in it lights up among the bytes (`octets`)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.style import Style
from textual.events import Click
from textual.message import Message

from viewer.model.text.json_spans import Node
from viewer.tui.base.paint import Part
from viewer.tui.widgets.pane import Pane


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
