"""A few lines in the middle, where there is nothing to list; which, is `viewer.notices`'s to say."""

from textual.content import Content
from textual.widgets import Static

from viewer.model.listing.notices import Lines
from viewer.model.states import Part
from viewer.tui.base import paint, theme


def said(parts: list[Part]) -> Content:
    """Give the parts of a line as content in the theme's colours."""
    return Content("").join(paint.content(text, theme.markup(tone)) for text, tone in parts)


class Notice(Static):
    """Lines of parts, in a block in the middle."""

    DEFAULT_CSS = """
    Notice { width: auto; max-width: 100%; height: auto; padding: 1 2; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._lines: Lines = []

    def show(self, lines: Lines) -> None:
        """Show these lines."""
        if lines == self._lines:
            return
        self._lines = lines
        self.update(Content("\n").join(said(parts) for parts in lines))
