"""The heatmap of the stats screen, with a cursor: its items are cells, row by row."""

from typing import ClassVar, Final

from rich.style import Style
from textual.binding import BindingType
from textual.strip import Strip

from wiretape.viewer.stats import heatmap
from wiretape.viewer.stats.heatmap import Heatmap
from wiretape.viewer.tui import bindings
from wiretape.viewer.tui.base import paint, theme
from wiretape.viewer.tui.widgets.cursor import CursorList

_LABEL: Final = 10
_CELL: Final = 2
_WIDEST: Final = 12
_TALLEST: Final = 3
_BELOW: Final = 4
_HIGHEST: Final = 5
_SWATCH: Final = 3
_ROOMY: Final = 70
_BLACK_AND_WHITE: Final = "#000000", "#ffffff"
"""One of them has a contrast of at least 4.58 with any colour."""


class HeatGrid(CursorList):
    """Draws a map, its heading, and below it the axis of time, the legend of the shades, and totals of columns."""

    DEFAULT_CSS = """
    HeatGrid { width: 1fr; height: 1fr; }
    HeatGrid > .heat--bar { color: $text-primary; }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"heat--bar"}
    BINDINGS: ClassVar[list[BindingType]] = bindings.of(*bindings.ASIDE)

    def __init__(self) -> None:
        super().__init__(id="heat")
        self._map: Heatmap | None = None
        self._head = ""
        self._instead = ""

    @property
    def count(self) -> int:
        """The number of cells."""
        return len(self._map.bands) * self._map.columns if self._map is not None else 0

    @property
    def cell(self) -> tuple[int, int]:
        """The row and the column of the cursor."""
        return divmod(self.cursor, self._columns)

    @property
    def room(self) -> tuple[int, int]:
        """The number of columns and rows that a map may have here."""
        return max((self.size.width - _LABEL - 2) // _CELL, 1), max(self.size.height - 3, 1)

    def show(self, heat: Heatmap | None, head: str, instead: str = "") -> None:
        """Show a map below its heading; without one, the text that stands there `instead`."""
        row, column = self.cell
        self._map, self._head, self._instead = heat, head, instead
        if heat is not None:
            self.cursor = min(row, len(heat.bands) - 1) * heat.columns + min(column, heat.columns - 1)
        self.refresh()

    def action_move(self, by: int) -> None:
        """Move the cursor by rows; above and below the map the focus moves on."""
        if self._map is None or not 0 <= self.cell[0] + by < len(self._map.bands):
            _ = self.screen.focus_previous() if by < 0 else self.screen.focus_next()
        else:
            self.go_to(self.cursor + by * self._columns)

    def action_aside(self, by: int) -> None:
        """Move the cursor by columns."""
        row, column = self.cell
        self.go_to(row * self._columns + max(0, min(column + by, self._columns - 1)))

    def action_top(self) -> None:
        """Move the cursor to the first column."""
        self.action_aside(-self._columns)

    def action_bottom(self) -> None:
        """Move the cursor to the last column."""
        self.action_aside(self._columns)

    def item_at(self, x: int, y: int) -> int | None:
        """Return the cell that is drawn there."""
        row, x = (y - 1) // self._tall, x - _LABEL - 1
        column = next((at for at in range(self._columns) if self._edge(at) <= x < self._edge(at + 1)), None)
        item = None if column is None else row * self._columns + column
        return item if item is not None and 0 <= item < self.count else None

    @property
    def _columns(self) -> int:
        return max(self._map.columns, 1) if self._map is not None else 1

    @property
    def _wide(self) -> int:
        """The width of all columns in terminal cells: as many as there are, but few columns do not grow too wide."""
        return max(min(_WIDEST * self._columns, self.size.width - _LABEL - 2), _CELL * self._columns)

    def _edge(self, column: int) -> int:
        """Return the left edge of a column: some are a terminal cell wider than others."""
        return column * self._wide // self._columns

    @property
    def _tall(self) -> int:
        """The height of a row in lines: few rows are drawn taller, if that leaves room for the lines below."""
        rows = len(self._map.bands) if self._map is not None else 1
        return max(min(_TALLEST, (self.room[1] - _BELOW) // max(rows, 1)), 1)

    def render_line(self, y: int) -> Strip:
        """Draw the heading, a row, or a line below the rows."""
        heat, tall = self._map, self._tall
        if y == 0:
            return theme.rule(self, self._head, self.size.width)
        if heat is None:
            return self.drawn([(f"  {self._instead}" if y == 2 else "", "muted")])
        if y <= len(heat.bands) * tall:
            row, line = divmod(y - 1, tall)
            parts = self._row(heat, row, heat.label(row) if line == 0 else "")
        else:
            parts = self._below(heat, y - len(heat.bands) * tall - 1)
        return paint.strip(parts, self.size.width, self.rich_style)

    def _below(self, heat: Heatmap, line: int) -> list[paint.Part]:
        """Return the axis, the legend of the shades, or, if there is room, the bars of the columns' totals."""
        muted = theme.style(self, "tone--muted")
        if line == 0:
            return [(f"{'':<{_LABEL + 1}}{heatmap.axis(heat, self._wide)}", muted)]
        if line == 1:
            return self._legend(muted)
        bars = min(self.size.height - len(heat.bands) * self._tall - 3, _HIGHEST)
        if line > bars + 1:
            return []
        label = f"{max(heat.whole):,}" if line == 2 else heatmap.UNITS[heat.metric] if line == bars + 1 else ""
        edges = [self._edge(column) for column in range(heat.columns + 1)]
        drawn = heatmap.bar(heat, bars, bars + 1 - line, edges)
        return [(f"{label:>{_LABEL - 1}} │", muted), (drawn, theme.style(self, "heat--bar"))]

    def _legend(self, muted: Style) -> list[paint.Part]:
        is_wide = self.size.width >= _ROOMY
        parts: list[paint.Part] = [("share".rjust(_LABEL - 1) + "  " if is_wide else "share ", muted)]
        for step, meaning in list(enumerate(heatmap.LEGEND))[1:]:
            parts += [self._filled(step, _SWATCH if is_wide else _CELL), (f" {meaning}  ", muted)]
        return parts

    def _row(self, heat: Heatmap, row: int, label: str) -> list[paint.Part]:
        parts: list[paint.Part] = [(f"{label:>{_LABEL - 1}} │", theme.style(self, "tone--muted"))]
        for column in range(heat.columns):
            width = self._edge(column + 1) - self._edge(column)
            chosen = self.has_focus and (row, column) == self.cell
            parts.append(self._filled(heat.step(row, column), width, chosen=chosen))
        return parts

    def _filled(self, step: int, width: int, *, chosen: bool = False) -> paint.Part:
        """Draw a cell: one colour all over, or one glyph where there are no colours. The chosen one keeps its shade."""
        filled = f"[{'':{width - 2}}]" if chosen else " " * width
        if not self._has_colors:
            return filled.replace(" ", heatmap.GLYPHS[step]), Style(reverse=chosen, bold=chosen)
        variables = self.app.theme_variables
        ground = theme.scale(variables["background"], variables["accent"], len(heatmap.LEGEND))[step]
        sign = max(_BLACK_AND_WHITE, key=lambda one: theme.contrast(one, ground))
        return filled, Style(color=sign, bgcolor=ground, bold=chosen)

    @property
    def _has_colors(self) -> bool:
        """True if there are enough colours for the scale: 16 are too few, as are those of a theme without any."""
        is_mixed = self.app.theme_variables["background"].startswith("#")
        return is_mixed and not self.app.no_color and self.app.console.color_system in ("256", "truecolor")
