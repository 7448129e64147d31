"""What is wrong in the configuration, in lines of their own above the footer; any key removes them."""

from collections.abc import Iterable
from typing import Final

from textual.content import Content
from textual.widgets import Static

from viewer.tui.base import paint

_HEAD: Final = "configuration"
_HINT: Final = " · any key takes this away"


class ConfigWarnings(Static):
    """Shows a line for each warning."""

    DEFAULT_CSS = """
    ConfigWarnings {
        width: 100%; height: auto; max-height: 50%; padding: 0 1; background: $panel; border-left: outer $warning;
    }
    """

    def __init__(self, warnings: Iterable[str]) -> None:
        head = Content.assemble(paint.content(_HEAD, "bold $text-warning"), paint.content(_HINT, "$text-muted"))
        super().__init__(Content("\n").join([head, *map(paint.content, warnings)]))

    def on_click(self) -> None:
        """Remove it."""
        self.remove()
