"""The menu that the list is ordered with: a letter for each column."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.events import Key
from textual.screen import ModalScreen
from textual.widgets import Static

from viewer.model import streams
from viewer.model.streams import Part
from viewer.tui.widgets.notice import said


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
        parts: list[Part] = [("order by  ", "strong")]
        for column in streams.COLUMNS:
            if column.letter is not None:
                parts += [(column.letter, "accent"), (f" {column.title.removesuffix(' s').lower()}   ", "muted")]
        parts += [("\nagain: reversed · what still runs stands last by what is measured at its end", "muted")]
        lines = Content("").join(said([part]) for part in parts)
        yield Static(lines)

    def on_key(self, event: Key) -> None:
        """Take the column of a letter; a key that comes after that is none of this menu's."""
        event.stop()
        chosen = [column.field for column in streams.COLUMNS if column.letter == event.character]
        if self.is_current:
            self.dismiss(chosen[0] if chosen else None)
