"""A heatmap with a cursor: the cell under it can be opened."""

from dataclasses import dataclass
from typing import ClassVar, Final

from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Click
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from viewer.stats import heatmap
from viewer.stats.heatmap import Heatmap
from viewer.tui.base import paint, theme

_LABEL: Final = 10
_CELL: Final = 2
_WIDEST: Final = 12
_TALLEST: Final = 3
_BELOW: Final = 4
_HIGHEST: Final = 5
_SWATCH: Final = 3
_ROOMY: Final = 70


class HeatGrid(Widget, can_focus=True):
    """Draws a map that it is given, its heading, and its axis of time below."""

    DEFAULT_CSS = """
    HeatGrid { width: 1fr; height: 1fr; }
    HeatGrid > .heat--bar { color: $primary 40%; }
    """ + theme.css("HeatGrid")
    COMPONENT_CLASSES: ClassVar[set[str]] = {"heat--bar", *theme.CLASSES}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1, 0)", "up", show=False, id="stats.up"),
        Binding("down,j", "move(1, 0)", "down", show=False, id="stats.down"),
        Binding("left,h", "move(0, -1)", "earlier", show=False, id="stats.earlier"),
        Binding("right,l", "move(0, 1)", "later", show=False, id="stats.later"),
        Binding("home", "move(0, -9999)", "first", show=False, id="stats.first"),
        Binding("end", "move(0, 9999)", "last", show=False, id="stats.last"),
    ]

    @dataclass
    class Moved(Message):
        """The cursor is on a cell."""

        row: int
        column: int

    @dataclass
    class Opened(Message):
        """A cell is to be opened."""

        row: int
        column: int

    def __init__(self) -> None:
        super().__init__(id="heat")
        self._map: Heatmap | None = None
        self._head = ""
        self._said = ""
        self.row = self.column = 0

    @property
    def room(self) -> tuple[int, int]:
        """How many columns and rows a map may have here."""
        return max((self.size.width - _LABEL - 2) // _CELL, 1), max(self.size.height - 3, 1)

    def show(self, found: Heatmap | None, head: str, said: str = "") -> None:
        """Show a map below its heading; without one, what there is to say."""
        self._map, self._head, self._said = found, head, said
        if found is not None:
            self.row, self.column = min(self.row, len(found.bands) - 1), min(self.column, found.columns - 1)
        self.refresh()

    @property
    def _wide(self) -> int:
        """How many cells all columns take: as many as there are, but few columns do not grow too wide."""
        columns = self._map.columns if self._map is not None else 1
        return max(min(_WIDEST * columns, self.size.width - _LABEL - 2), _CELL * columns)

    def _edge(self, column: int) -> int:
        """Where a column begins: some are a cell wider than others."""
        return column * self._wide // max(self._map.columns if self._map is not None else 1, 1)

    @property
    def _edges(self) -> list[int]:
        columns = self._map.columns if self._map is not None else 0
        return [self._edge(column) for column in range(columns + 1)]

    @property
    def _tall(self) -> int:
        """How many lines a row has: a few rows are drawn taller, as far as that leaves room for what is below."""
        rows = len(self._map.bands) if self._map is not None else 1
        return max(min(_TALLEST, (self.room[1] - _BELOW) // max(rows, 1)), 1)

    def action_move(self, down: int, right: int) -> None:
        """Move the cursor; above and below the map the focus moves on."""
        found = self._map
        row = self.row + down
        if found is None or not 0 <= row < len(found.bands):
            _ = self.screen.focus_previous() if down < 0 else self.screen.focus_next()
            return
        self._go(row, max(0, min(self.column + right, found.columns - 1)))

    def open(self) -> None:
        """Open the cell under the cursor."""
        if self._map is not None:
            self.post_message(self.Opened(self.row, self.column))

    def on_click(self, event: Click) -> None:
        """Go to a cell; clicked twice, open it."""
        if self._map is None:
            return
        row, x = (event.y - 1) // self._tall, event.x - _LABEL - 1
        column = next((at for at in range(self._map.columns) if self._edge(at) <= x < self._edge(at + 1)), -1)
        if 0 <= row < len(self._map.bands) and column >= 0:
            self._go(row, column)
            if event.chain == 2:
                self.open()

    def on_focus(self) -> None:
        """Show the cursor, and say where it is."""
        self._go(self.row, self.column)

    def on_blur(self) -> None:
        """Hide the cursor."""
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw the heading, a row, or the axis."""
        width, found = self.size.width, self._map
        if y == 0:
            return theme.rule(self, self._head, width)
        if found is None:
            return paint.strip([(f"  {self._said}" if y == 2 else "", self._label)], width, self.rich_style)
        tall = self._tall
        if y <= len(found.bands) * tall:
            row, line = divmod(y - 1, tall)
            return paint.strip(self._row(found, row, first=line == 0), width, self.rich_style)
        return paint.strip(self._below(found, y - len(found.bands) * tall - 1), width, self.rich_style)

    def _below(self, found: Heatmap, line: int) -> list[paint.Part]:
        """Draw the axis, what the shades mean, and, as far as there is room, how much each column holds."""
        if line == 0:
            return [(f"{'':<{_LABEL + 1}}{heatmap.axis(found, self._wide)}", self._label)]
        if line == 1:
            return self._legend()
        bars = min(self.size.height - len(found.bands) * self._tall - 3, _HIGHEST)
        if line > bars + 1:
            return []
        label = f"{max(found.whole):,}" if line == 2 else heatmap.UNITS[found.metric] if line == bars + 1 else ""
        drawn = heatmap.bar(found, bars, bars + 1 - line, self._edges)
        return [(f"{label:>{_LABEL - 1}} │", self._label), (drawn, theme.style(self, "heat--bar"))]

    def _legend(self) -> list[paint.Part]:
        is_wide = self.size.width >= _ROOMY
        told: list[paint.Part] = [("share".rjust(_LABEL - 1) + "  " if is_wide else "share ", self._label)]
        for step, meaning in list(enumerate(heatmap.LEGEND))[1:]:
            told += [self._cell(step, _SWATCH if is_wide else _CELL), (f" {meaning}  ", self._label)]
        return told

    def _row(self, found: Heatmap, row: int, *, first: bool) -> list[paint.Part]:
        label = found.label(row) if first else ""
        parts: list[paint.Part] = [(f"{label:>{_LABEL - 1}} │", self._label)]
        for column in range(found.columns):
            chosen = self.has_focus and (row, column) == (self.row, self.column)
            width = self._edge(column + 1) - self._edge(column)
            parts.append(self._cell(found.step(row, column), width, chosen=chosen))
        return parts

    def _cell(self, step: int, width: int, *, chosen: bool = False) -> paint.Part:
        """Draw a cell: one colour all over, or one glyph where there are no colours. The chosen one keeps its shade."""
        filled = f"[{'':{width - 2}}]" if chosen else " " * width
        if not self._has_colors:
            return filled.replace(" ", heatmap.GLYPHS[step]), Style(reverse=chosen, bold=chosen)
        variables = self.app.theme_variables
        ground = theme.scale(variables["background"], variables["accent"], len(heatmap.LEGEND))[step]
        sign = max(variables["background"], variables["foreground"], key=lambda one: theme.contrast(one, ground))
        return filled, Style(color=sign, bgcolor=ground, bold=chosen)

    @property
    def _has_colors(self) -> bool:
        """Whether there are enough colours for the scale: 16 are too few, as are those of a theme without any."""
        is_mixed = self.app.theme_variables["background"].startswith("#")
        return is_mixed and not self.app.no_color and self.app.console.color_system in ("256", "truecolor")

    def _go(self, row: int, column: int) -> None:
        self.row, self.column = row, column
        self.refresh()
        self.post_message(self.Moved(row, column))

    @property
    def _label(self) -> Style:
        return theme.style(self, "tone--muted")
