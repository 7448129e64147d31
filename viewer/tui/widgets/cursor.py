"""Widgets that draw lines in the theme's tones, and the base of all lists with a cursor.

A screen hears of the cursor by `on_cursor_list_moved` and `on_cursor_list_opened`; the message's `source` is the list.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Final

from rich.style import Style
from textual.binding import BindingType
from textual.events import Click
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from wiretape.viewer.text.cells import Part
from wiretape.viewer.tui import bindings
from wiretape.viewer.tui.base import paint, theme

CURSOR: Final = "▌"
"""Stands before the line of the cursor."""

MARGIN: Final = "  "
"""Stands before the other lines of a table."""


CLASSES: Final = theme.CLASSES | {"list--cursor", "list--titles"}
"""The component classes of a list."""


def css(widget: str) -> str:
    """Return the rules of a list's component classes: a widget inherits rules only from the first of its bases."""
    return theme.css(widget) + (
        f"{widget} > .list--cursor, {widget} > .list--titles {{ background: $surface; }}"
        f"{widget}:focus > .list--cursor {{ background: $primary-muted; }}"
    )


class Toned(Widget):
    """A widget that draws parts of text in their tones."""

    DEFAULT_CSS = theme.css("Toned")
    COMPONENT_CLASSES: ClassVar[set[str]] = theme.CLASSES

    def draw(self, parts: Iterable[Part], ground: Style | None = None) -> Strip:
        """Return parts as a line as wide as the widget, on the background of a style."""
        ground = ground or self.rich_style
        tones = theme.styles(self, ground)
        return paint.strip([(text, tones[tone]) for text, tone in parts], self.content_size.width, ground)


class CursorList(Toned, can_focus=True, inherit_bindings=False):
    """Items with a cursor that keys and clicks move; a second click opens the item under it."""

    DEFAULT_CSS = css("CursorList")
    COMPONENT_CLASSES: ClassVar[set[str]] = CLASSES
    BINDINGS: ClassVar[list[BindingType]] = bindings.of(*bindings.CURSOR)

    @dataclass
    class Moved(Message):
        """The cursor is on an item: it was moved `by_hand`, or the list has changed."""

        source: "CursorList"
        by_hand: bool = True

    @dataclass
    class Opened(Message):
        """The item under the cursor is to be opened."""

        source: "CursorList"

    cursor: int = 0

    @property
    def count(self) -> int:
        raise NotImplementedError

    def item_at(self, x: int, y: int) -> int | None:
        raise NotImplementedError

    def go_to(self, item: int) -> None:
        self.cursor = max(0, min(item, self.count - 1))
        self.refresh()
        self.post_message(self.Moved(self))

    def open(self) -> None:
        if self.count:
            self.post_message(self.Opened(self))

    def action_move(self, by: int) -> None:
        self.go_to(self.cursor + by)

    def action_page(self, pages: int) -> None:
        """Move the cursor by some pages, where a list has pages."""
        self.action_move(pages)

    def action_top(self) -> None:
        self.go_to(0)

    def action_bottom(self) -> None:
        self.go_to(self.count - 1)

    def on_click(self, event: Click) -> None:
        """Move the cursor to the item that was clicked; a second click opens it."""
        item = self.item_at(event.x, event.y)
        if item is not None:
            self.go_to(item)
            if event.chain == 2:
                self.open()

    def on_focus(self) -> None:
        self.go_to(self.cursor)  # the screen describes the item under the cursor of the list that has the focus


class CursorTable(CursorList):
    """A table: a line of titles, and a line for each item; those around the cursor are shown."""

    @property
    def room(self) -> int:
        return max(self.size.height - 1, 1)

    @property
    def top(self) -> int:
        return max(0, min(self.cursor - self.room // 2, self.count - self.room))

    def item_at(self, x: int, y: int) -> int | None:
        item = self.top + y - 1
        return item if 1 <= y <= self.room and item < self.count else None

    def action_page(self, pages: int) -> None:
        self.go_to(self.cursor + pages * self.room)

    def on_mouse_scroll_down(self) -> None:
        self.go_to(self.cursor + 1)

    def on_mouse_scroll_up(self) -> None:
        self.go_to(self.cursor - 1)

    def drawn_item(self, item: int, parts: Iterable[Part]) -> Strip:
        if item == self.cursor:
            return self.draw([(CURSOR.ljust(len(MARGIN)), "accent"), *parts], theme.style(self, "list--cursor"))
        return self.draw([(MARGIN, "plain"), *parts])

    def drawn_titles(self, parts: Iterable[Part]) -> Strip:
        return self.draw([(MARGIN, "muted"), *parts], theme.style(self, "list--titles"))
