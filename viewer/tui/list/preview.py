"""The exchange under the cursor: why it ended, what is odd about it, and the end of what was answered."""

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len
from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from viewer.model import states
from viewer.model.listing import endings
from viewer.model.states import Look, Part
from viewer.model.text import wrap
from viewer.rows import Row
from viewer.timing.verdicts import Verdict
from viewer.tui.base import paint, theme

_LEAST_TEXT = 3
"""The end of the answer has so many lines at least, its heading included; where room is short, one."""
_HIGH = 10
_MORE = " …"
_JOINT = "\N{NO-BREAK SPACE}"


class Preview(Widget):
    """Lines about one exchange; the answer's end fills what room is left."""

    DEFAULT_CSS = """
    Preview {
        height: 9; background: $surface; border-top: solid $panel; padding: 0 1;
        &.-right { width: 44%; height: 1fr; border-top: none; border-left: solid $panel; }
    }
    """ + theme.css("Preview")
    COMPONENT_CLASSES: ClassVar[set[str]] = theme.CLASSES

    def __init__(self) -> None:
        super().__init__()
        self._row: Row | None = None
        self._verdicts: Sequence[Verdict] = ()
        self._look = Look()
        self._tones: dict[str, Style] = {}
        self._lines: tuple[tuple[int, int], list[list[Part]]] | None = None

    def show(self, row: Row | None, verdicts: Sequence[Verdict], look: Look) -> None:
        """Show an exchange, with its verdicts if they are known; None shows nothing."""
        self._row, self._verdicts, self._look, self._lines = row, verdicts, look, None
        self.refresh()

    def look_again(self, look: Look) -> None:
        """Show one that still runs as it is by now."""
        if self._row is not None and self._row["outcome"] == "open":
            self.show(self._row, self._verdicts, look)

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

    def _laid_out(self, width: int, height: int) -> list[list[Part]]:
        row = self._row
        if row is None:
            return []
        told: list[list[Part]] = [list(states.laid_out(endings.heading(row, self._look), width, right=False))]
        told += _told(endings.reason(row, self._look), width, "plain")
        figures = endings.figures(row, self._look)
        lines = _between_figures(figures, width) if height >= _HIGH else [states.cut(figures, width)]
        told += [[(line, "muted")] for line in lines]
        name, text, size = endings.text(row)
        odd = self._found_odd(row, width)
        room = height - len(told)
        rest = (1 if height < _HIGH and len(odd) > room - _LEAST_TEXT else _LEAST_TEXT) if text else 0
        told += _cut(odd, max(room - rest, 1), width)
        return told[:height] + self._text(name, text, size, width, height - len(told))

    def _found_odd(self, row: Row, width: int) -> list[list[Part]]:
        """Lay out what is odd about it, the evidence beside what it is of."""
        odd: list[list[Part]] = []
        for flag, tone, evidence in endings.evidence(row, self._verdicts):
            first, *rest = wrap.wrapped(evidence, width - len(flag) - 2)
            odd.append([(f"{flag}  ", tone), (first, "plain" if tone != "muted" else "muted")])
            odd += [[(" " * (len(flag) + 2) + line, "plain" if tone != "muted" else "muted")] for line in rest]
        return odd

    def _text(self, name: str, text: str, size: int | None, width: int, room: int) -> list[list[Part]]:
        if not text or room < 1:
            return []
        lines = wrap.wrapped(text, width)
        left_out = size is not None and (size > len(text) or len(lines) > room - 1)
        counted = "" if size is None else f" · {size:,} characters"
        rule = f"{name}{counted}{' · its end' if left_out else ''}"
        shown: list[list[Part]] = [[(rule, "muted")]] if room > 1 else []
        return shown + [[(line, "plain")] for line in lines[-(room - len(shown)) :]]


def _cut(lines: list[list[Part]], room: int, width: int) -> list[list[Part]]:
    """Give as many lines as there is room for; the last of them says that there are more."""
    if len(lines) <= room:
        return lines
    *kept, last = lines[:room]
    *before, (text, tone) = last
    shown = states.cut(text, width - sum(cell_len(part) for part, _ in before) - len(_MORE))
    return [*kept, [*before, (shown if shown.endswith(_MORE[-1]) else shown.rstrip() + _MORE, tone)]]


def _between_figures(text: str, width: int) -> list[str]:
    """Wrap figures at the dots between them, so that no number is parted from its unit."""
    joined = text.replace(" ", _JOINT).replace(f"{_JOINT}·{_JOINT}", " · ")
    return [line.replace(_JOINT, " ") for line in wrap.wrapped(joined, width)]


def _told(text: str, width: int, tone: states.Tone) -> list[list[Part]]:
    return [[(line, tone)] for line in wrap.wrapped(text, width)]
