"""A list of exchanges that another screen has opened, and that leads back to it: where that screen was, it still is."""

from typing import ClassVar

from textual.binding import Binding, BindingType

from viewer.tui.base.keys import BACK
from viewer.tui.list.screen import StreamsScreen


class DrilledScreen(StreamsScreen):
    """The list, with keys that go back."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "clear", "marks away, then back", show=False, id="streams.clear"),
        BACK,
    ]

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave out what does not apply; there always is something to go back to."""
        return True if action == "clear" else super().check_action(action, parameters)

    def action_clear(self) -> None:
        """Take the marks away; where there are none, go back."""
        if self._marking.marks:
            super().action_clear()
        elif self.is_current:
            self.app.pop_screen()
