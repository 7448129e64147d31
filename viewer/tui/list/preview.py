"""The exchange under the cursor: the reason for its end, its oddities, and the end of its answer."""

from functools import partial

from rich.style import Style
from textual.strip import Strip
from textual.timer import Timer
from textual.worker import Worker

from wiretape.viewer.exchange.states import Look
from wiretape.viewer.source.base import Details
from wiretape.viewer.text.cells import Part
from wiretape.viewer.tui.base import paint, theme
from wiretape.viewer.tui.list.listing import Listing
from wiretape.viewer.tui.widgets.cursor import Toned

Line = list[Part]


class Preview(Toned):
    """Lines about one exchange, whose number is `selected`; the answer's end fills what room is left."""

    DEFAULT_CSS = """
    Preview {
        height: 9; background: $surface; border-top: solid $foreground-muted; padding: 0 1;
        &.-right { width: 44%; height: 1fr; border-top: none; border-left: solid $foreground-muted; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self.selected: int | None = None
        self._details = Details(None)
        self._look = Look()
        self._timer: Timer | None = None
        self._tones: dict[str, Style] = {}
        self._lines: tuple[tuple[int, int], list[Line]] | None = None

    def soon(self, listing: Listing, selected: int | None, look: Look) -> None:
        """Show an exchange, unless the cursor moves on in a moment: a held key reads nothing."""
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(0.05, partial(self.now, listing, selected, look))

    def now(self, listing: Listing, selected: int | None, look: Look) -> None:
        self.selected = selected
        if selected is None:
            self._show(Details(None), look)
        elif self.display:
            _: Worker[None] = self.run_worker(partial(self._read, listing, selected, look), exclusive=True)

    async def _read(self, listing: Listing, number: int, look: Look) -> None:
        if (details := await listing.details(number)) and number == self.selected:  # else the cursor has moved on
            self._show(details, look)

    def _show(self, details: Details, look: Look) -> None:
        self._details, self._look, self._lines = details, look, None
        self.refresh()

    def look_again(self, look: Look) -> None:
        if self._details.preview is not None and self._details.preview.row.outcome == "open":
            self._show(self._details, look)

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._tones = {}  # computed once, and not for each line

    def render_line(self, y: int) -> Strip:
        """Draw a line; the text is laid out for the first one, and again for another size."""
        width, height = self.content_size
        if self._lines is None or self._lines[0] != (width, height):
            from wiretape.viewer.listing import preview  # after the first rows

            row, verdicts = self._details.preview, self._details.verdicts
            laid_out = [] if row is None else preview.lines(row, verdicts, self._look, width, height)
            self._lines = (width, height), laid_out
        tones = self._tones = self._tones or theme.styles(self, self.rich_style)
        lines = self._lines[1]
        parts = [(text, tones[tone]) for text, tone in lines[y]] if y < len(lines) else []
        return paint.strip(parts, width, Style(bgcolor=self.rich_style.bgcolor))
