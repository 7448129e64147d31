"""What is wrong in the configuration, in lines of their own above the keys: they cover nothing, and go with any key."""

from collections.abc import Sequence
from typing import Final

from textual.content import Content
from textual.widgets import Static

from viewer.tui.base import paint

_HEAD: Final = "configuration"
_TOLD: Final = " · any key takes this away"


class Slips(Static):
    """Shows a line for each slip."""

    DEFAULT_CSS = """
    Slips { width: 100%; height: auto; max-height: 50%; padding: 0 1; background: $panel; border-left: outer $warning; }
    """

    def __init__(self, slips: Sequence[str]) -> None:
        head = Content.assemble(paint.content(_HEAD, "bold $text-warning"), paint.content(_TOLD, "$text-muted"))
        super().__init__(Content("\n").join([head, *map(paint.content, slips)]))

    def on_click(self) -> None:
        """Go."""
        self.remove()
