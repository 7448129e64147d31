"""The menu that the list is ordered with: a letter for each column."""

from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.events import Key
from textual.screen import ModalScreen
from textual.widgets import Static

from viewer.model.listing.layout import COLUMNS
from viewer.model.states import Part
from viewer.tui.widgets.notice import said

_HEAD: Final = "order by  "
_TOLD: Final = "again: reversed · what still runs stands last by what is measured at its end"
_BETWEEN: Final = 3
_PADDING: Final = 2


class OrderMenu(ModalScreen[str | None]):
    """Gives the field to order by; `started_at` is the newest first, None leaves things as they are."""

    DEFAULT_CSS = """
    OrderMenu {
        align: left bottom; background: transparent;
        & > Static { width: 100%; height: auto; padding: 0 1; background: $panel; margin-bottom: 1; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "back", show=False, id="order.back")]

    def compose(self) -> ComposeResult:
        """Lay out the letters."""
        yield Static(_laid_out(self.app.size.width))

    def on_resize(self) -> None:
        """Lay them out for another width."""
        self.query_one(Static).update(_laid_out(self.app.size.width))

    def on_key(self, event: Key) -> None:
        """Take the column of a letter; a key that comes after that is none of this menu's."""
        event.stop()
        chosen = [column.field for column in COLUMNS if column.letter == event.character]
        if self.is_current:
            self.dismiss(chosen[0] if chosen else None)


def _laid_out(width: int) -> Content:
    """Give the menu's lines: the entries in columns, each of them whole."""
    entries = [(one.letter, one.title.lower()) for one in COLUMNS if one.letter is not None]
    wide = max(len(title) for _, title in entries)
    in_a_line = max((width - _PADDING - len(_HEAD) + _BETWEEN) // (2 + wide + _BETWEEN), 1)
    lines: list[list[Part]] = []
    for at in range(0, len(entries), in_a_line):
        lines.append([(f"{'' if at else _HEAD:<{len(_HEAD)}}", "strong")])
        for letter, title in entries[at : at + in_a_line]:
            lines[-1] += [(letter, "accent"), (f" {title:<{wide + _BETWEEN}}", "muted")]
    lines.append([(_TOLD, "muted")])
    return Content("\n").join(said(line) for line in lines)
