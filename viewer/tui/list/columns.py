"""The menu that says which columns the list may have."""

from collections.abc import Collection
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen
from textual.widgets import SelectionList

from viewer.model.listing.layout import COLUMNS


class ColumnsMenu(ModalScreen[frozenset[str]]):
    """Gives the names of the columns to leave out."""

    DEFAULT_CSS = """
    ColumnsMenu {
        align: center middle;
        & > SelectionList { width: 34; height: auto; max-height: 90%; border: round $primary; background: $surface; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,C", "close", "back", show=False, id="columns.back")]

    def __init__(self, hidden: Collection[str]) -> None:
        super().__init__()
        self._hidden = hidden

    def compose(self) -> ComposeResult:
        """Lay out a line for each column."""
        shown = (column.name not in self._hidden for column in COLUMNS)
        choices = [(column.title, column.name, on) for column, on in zip(COLUMNS, shown, strict=True)]
        listed = SelectionList[str](*choices)
        listed.border_title = "columns"
        listed.border_subtitle = "space: on or off   esc: done"
        yield listed

    def action_close(self) -> None:
        """Take over what was chosen."""
        chosen = self.query_one(SelectionList).selected
        if self.is_current:
            self.dismiss(frozenset(column.name for column in COLUMNS) - frozenset(chosen))
