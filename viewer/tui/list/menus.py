"""The menus of the list: a letter for each column to order by, and which columns to show."""

from collections.abc import Collection
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.events import Key
from textual.screen import ModalScreen
from textual.widgets import SelectionList, Static

from wiretape.viewer.listing.layout import COLUMNS
from wiretape.viewer.text.cells import Part
from wiretape.viewer.tui.base.keys import hidden
from wiretape.viewer.tui.widgets.bar import content

_HEAD: Final = "order by  "
_NOTE: Final = "again: reversed · running exchanges stand last by measures of their end"
_BETWEEN: Final = 3
_PADDING: Final = 2


class OrderMenu(ModalScreen[str | None]):
    """Returns the field to order by; `started_at` is the newest first, None leaves things as they are."""

    DEFAULT_CSS = """
    OrderMenu {
        align: left bottom; background: transparent;
        & > Static { width: 100%; height: auto; padding: 0 1; background: $panel; margin-bottom: 1; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [hidden("escape", "dismiss(None)", "back", id="order.back")]

    def compose(self) -> ComposeResult:
        """Lay out the letters."""
        yield Static(_laid_out(self.app.size.width))

    def on_resize(self) -> None:
        """Lay them out for another width."""
        self.query_one(Static).update(_laid_out(self.app.size.width))

    def on_key(self, event: Key) -> None:
        """Choose the column of a letter; a key that comes after that is none of this menu's."""
        event.stop()
        fields = [column.field for column in COLUMNS if column.letter == event.character]
        if self.is_current:
            self.dismiss(fields[0] if fields else None)


def _laid_out(width: int) -> Content:
    """Return the menu's lines: the entries in columns, each of them whole."""
    entries = [(one.letter, one.title.lower()) for one in COLUMNS if one.letter is not None]
    wide = max(len(title) for _, title in entries)
    in_a_line = max((width - _PADDING - len(_HEAD) + _BETWEEN) // (2 + wide + _BETWEEN), 1)
    lines: list[list[Part]] = []
    for at in range(0, len(entries), in_a_line):
        lines.append([(f"{'' if at else _HEAD:<{len(_HEAD)}}", "strong")])
        for letter, title in entries[at : at + in_a_line]:
            lines[-1] += [(letter, "accent"), (f" {title:<{wide + _BETWEEN}}", "muted")]
    lines.append([(_NOTE, "muted")])
    return Content("\n").join(content(line) for line in lines)


class ColumnsMenu(ModalScreen[frozenset[str]]):
    """Returns the names of the columns to hide."""

    DEFAULT_CSS = """
    ColumnsMenu {
        align: center middle;
        & > SelectionList { width: 34; height: auto; max-height: 90%; border: round $primary; background: $surface; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [hidden("escape,q,C", "close", "back", id="columns.back")]

    def __init__(self, hidden: Collection[str]) -> None:
        super().__init__()
        self._hidden = hidden

    def compose(self) -> ComposeResult:
        """Lay out a line for each column."""
        columns = SelectionList[str](*((one.title, one.name, one.name not in self._hidden) for one in COLUMNS))
        columns.border_title = "columns"
        columns.border_subtitle = "space: on or off   esc: done"
        yield columns

    def action_close(self) -> None:
        """Return the chosen columns."""
        shown = self.query_one(SelectionList).selected
        if self.is_current:
            self.dismiss(frozenset(column.name for column in COLUMNS if column.name not in shown))
