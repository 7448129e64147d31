"""The exchange under the cursor: the reason for its end, its oddities, and the end of its answer."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from rich.cells import cell_len
from rich.style import Style
from textual.strip import Strip
from textual.timer import Timer
from textual.worker import Worker

from wiretape.viewer.exchange.states import Look
from wiretape.viewer.rows import ListRow
from wiretape.viewer.source.base import Details
from wiretape.viewer.text import cells, wrap
from wiretape.viewer.text.cells import Part
from wiretape.viewer.tui.base import paint, theme
from wiretape.viewer.tui.list.listing import Listing
from wiretape.viewer.tui.widgets.cursor import Toned

_AFTER_SECONDS: Final = 0.05
_LEAST_TEXT: Final = 3
"""The least number of lines for the end of the answer, its heading included; where room is short, one."""

_HIGH: Final = 10
_MORE: Final = " …"
_JOINT: Final = "\N{NO-BREAK SPACE}"

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
        self._timer = self.set_timer(_AFTER_SECONDS, partial(self.now, listing, selected, look))

    def now(self, listing: Listing, selected: int | None, look: Look) -> None:
        """Show an exchange; None shows nothing."""
        self.selected = selected
        if selected is None:
            self._show(Details(None), look)
        elif self.display:
            _: Worker[None] = self.run_worker(partial(self._read, listing, selected, look), exclusive=True)

    async def _read(self, listing: Listing, number: int, look: Look) -> None:
        if (details := await listing.details(number)) and number == self.selected:
            self._show(details, look)

    def _show(self, details: Details, look: Look) -> None:
        self._details, self._look, self._lines = details, look, None
        self.refresh()

    def look_again(self, look: Look) -> None:
        """Show the present state of a running exchange."""
        if self._details.preview is not None and self._details.preview.row.outcome == "open":
            self._show(self._details, look)

    def notify_style_update(self) -> None:
        """Draw in other colours."""
        super().notify_style_update()
        self._tones = {}

    def render_line(self, y: int) -> Strip:
        """Draw a line."""
        width, height = self.content_size
        if self._lines is None or self._lines[0] != (width, height):
            self._lines = (width, height), self._laid_out(width, height)
        tones = self._tones = self._tones or theme.styles(self, self.rich_style)
        lines = self._lines[1]
        parts = [(text, tones[tone]) for text, tone in lines[y]] if y < len(lines) else []
        return paint.strip(parts, width, Style(bgcolor=self.rich_style.bgcolor))

    def _laid_out(self, width: int, height: int) -> list[Line]:
        if self._details.preview is None:
            return []
        from wiretape.viewer.listing import preview  # after the first rows

        row = self._details.preview.row
        lines: list[Line] = [list(cells.laid_out(preview.heading(row, self._look), width, right=False))]
        lines += [[(line, "plain")] for line in wrap.wrapped(preview.reason(row, self._look), width)]
        figures = preview.figures(row, self._look)
        wrapped = _between_figures(figures, width) if height >= _HIGH else [cells.cut(figures, width)]
        lines += [[(line, "muted")] for line in wrapped]
        name, text, size = preview.text(self._details.preview)
        odd = self._oddities(row, width)
        room = height - len(lines)
        rest = (1 if height < _HIGH and len(odd) > room - _LEAST_TEXT else _LEAST_TEXT) if text else 0
        lines += _cut(odd, max(room - rest, 1), width)
        return lines[:height] + _end(name, text, size, width, height - len(lines))

    def _oddities(self, row: ListRow, width: int) -> list[Line]:
        """Return its oddities, each flag with its evidence."""
        from wiretape.viewer.listing import preview

        lines: list[Line] = []
        for flag, tone, evidence in preview.evidence(row, self._details.verdicts):
            for at, line in enumerate(wrap.wrapped(evidence, width - len(flag) - 2)):
                head: Line = [(" " * (len(flag) + 2), "plain")] if at else [(f"{flag}  ", tone)]
                lines.append([*head, (line, "muted" if tone == "muted" else "plain")])
        return lines


def _end(name: str, text: str, size: int | None, width: int, room: int) -> list[Line]:
    """Return a heading and the end of a text that is `size` characters long."""
    if not text or room < 1:
        return []
    lines = wrap.wrapped(text, width)
    is_cut = size is not None and (size > len(text) or len(lines) > room - 1)
    counted = "" if size is None else f" · {size:,} characters"
    head: list[Line] = [[(f"{name}{counted}{' · its end' if is_cut else ''}", "muted")]] if room > 1 else []
    return head + [[(line, "plain")] for line in lines[-(room - len(head)) :]]


def _cut(lines: Sequence[Line], room: int, width: int) -> list[Line]:
    """Return as many lines as there is room for; the last of them says that there are more."""
    if len(lines) <= room:
        return list(lines)
    *kept, last = lines[:room]
    *before, (text, tone) = last
    shown = cells.cut(text, width - sum(cell_len(part) for part, _ in before) - len(_MORE))
    return [*kept, [*before, (shown if shown.endswith(_MORE[-1]) else shown.rstrip() + _MORE, tone)]]


def _between_figures(text: str, width: int) -> list[str]:
    """Wrap figures at the dots between them, so that no number is parted from its unit."""
    joined = text.replace(" ", _JOINT).replace(f"{_JOINT}·{_JOINT}", " · ")
    return [line.replace(_JOINT, " ") for line in wrap.wrapped(joined, width)]
