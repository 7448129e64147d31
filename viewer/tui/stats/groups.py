"""The table of groups of the stats screen, and the ways in which exchanges failed below it: each with a cursor."""

from collections.abc import Iterator, Sequence
from typing import ClassVar, Final

from rich.cells import cell_len, set_cell_size
from rich.style import Style
from textual.binding import BindingType
from textual.strip import Strip

from wiretape.viewer.listing.groups import GroupLayout
from wiretape.viewer.text.cells import Part, Tone
from wiretape.viewer.tui import bindings
from wiretape.viewer.tui.base import paint, theme
from wiretape.viewer.tui.widgets.cursor import MARGIN, CursorList, CursorTable

_BETWEEN: Final = " │ "


class GroupTable(CursorTable):
    """Draws a table of groups; below its last line the focus moves on."""

    DEFAULT_CSS = "GroupTable { width: 1fr; height: 4; }"

    def __init__(self) -> None:
        super().__init__(id="groups")
        self._table = GroupLayout((), [], ())

    @property
    def count(self) -> int:
        return len(self._table.lines)

    @property
    def room(self) -> int:
        room = max(self.size.height - 1 - (self._table.total is not None), 1)
        return room if self.count <= room else max(room - 1, 1)

    def show(self, table: GroupLayout) -> None:
        self._table = table
        self.cursor = max(min(self.cursor, self.count - 1), 0)
        self.refresh()

    def action_move(self, by: int) -> None:
        if by > 0 and self.cursor >= self.count - 1:
            self.screen.focus_next()
        else:
            super().action_move(by)

    def render_line(self, y: int) -> Strip:
        """Draw the headings, a group, how many more there are, or all of them together."""
        table, room = self._table, self.room
        hidden, item = self.count - room, self.top + y - 1
        if y == 0:
            return self.drawn_titles(self._cells(table.heads, "muted", "muted"))
        if y <= room:
            return self.drawn_item(item, self._cells(table.lines[item])) if item < self.count else self.draw([])
        if hidden > 0 and y == room + 1:
            more = [("↑", self.top), ("↓", hidden - self.top)]
            return self.draw([(MARGIN + " · ".join(f"{sign} {n:,} more" for sign, n in more if n), "accent")])
        if table.total is None or y > room + 1 + (hidden > 0):
            return self.draw([])
        return self.draw([(MARGIN, "plain"), *self._cells(table.total, "strong", "strong")])

    def _cells(self, texts: Sequence[str], name: Tone = "strong", figure: Tone = "plain") -> Iterator[Part]:
        for at, (text, width) in enumerate(zip(texts, self._table.widths, strict=True)):
            yield (f"  {text:>{width}}", figure) if at else (f"{text:<{width}}", name)


class FailureList(CursorList):
    """Draws texts side by side, in as many lines as it has; with more of them it scrolls with its cursor."""

    DEFAULT_CSS = "FailureList { width: 1fr; height: 1fr; }"
    BINDINGS: ClassVar[list[BindingType]] = bindings.of(*bindings.ASIDE)

    def __init__(self) -> None:
        super().__init__(id="failures")
        self._texts: Sequence[str] = ()
        self._is_read = False

    @property
    def count(self) -> int:
        return len(self._texts)

    def show(self, texts: Sequence[str]) -> None:
        self._texts, self._is_read = texts, True
        self.cursor = max(min(self.cursor, len(texts) - 1), 0)
        self.refresh()

    def lines(self, width: int) -> list[list[int]]:
        """Return the indexes of the texts in each line of a width; a longer one has a line of its own."""
        lines: list[list[int]] = []
        room = 0
        for at, text in enumerate(self._texts):
            size = cell_len(text) + len(_BETWEEN)
            if not lines or size > room:
                lines.append([])
                room = width + len(_BETWEEN)
            lines[-1].append(at)
            room -= size
        return lines

    def action_aside(self, by: int) -> None:
        self.go_to(self.cursor + by)

    def action_move(self, by: int) -> None:
        """Move the cursor by lines; above the first the focus moves on."""
        lines, line, _ = self._laid_out()
        if 0 <= line + by < len(lines):
            self.go_to(lines[line + by][0])
        elif by < 0:
            self.screen.focus_previous()

    def item_at(self, x: int, y: int) -> int | None:
        """Return the text that is drawn at a cell."""
        lines, _, top = self._laid_out()
        x -= len(MARGIN)
        for at in lines[top + y - 1] if y and top + y - 1 < len(lines) else ():
            if 0 <= x < cell_len(self._texts[at]):
                return at
            x -= cell_len(self._texts[at]) + len(_BETWEEN)
        return None

    def render_line(self, y: int) -> Strip:
        """Draw the heading, or a line of texts."""
        lines, _, top = self._laid_out()
        if y == 0:
            hidden = self.count - sum(map(len, lines[top : top + self._room]))
            return theme.rule(self, f"failures · {hidden} more" if hidden else "failures", self.size.width)
        if not lines:
            return self.draw([(f"{MARGIN}none" if y == 1 and self._is_read else "", "muted")])
        tones = theme.styles(self, self.rich_style)
        plain = Style(color=tones["error"].color, bgcolor=self.rich_style.bgcolor)
        cursor = Style(color=plain.color, bgcolor=theme.style(self, "list--cursor").bgcolor, bold=True)
        parts: list[paint.Part] = [(MARGIN, None)]
        for at in lines[top + y - 1] if top + y - 1 < len(lines) else ():
            if len(parts) > 1:
                parts.append((_BETWEEN, tones["muted"]))
            text = self._texts[at]
            visible = text if cell_len(text) <= self._width else f"{set_cell_size(text, self._width - 1)}…"
            parts.append((visible, cursor if at == self.cursor and self.has_focus else plain))
        return paint.strip(parts, self.size.width, self.rich_style)

    @property
    def _width(self) -> int:
        return max(self.size.width - len(MARGIN), 1)

    @property
    def _room(self) -> int:
        return max(self.size.height - 1, 1)

    def _laid_out(self) -> tuple[list[list[int]], int, int]:
        lines = self.lines(self._width)
        line = next((at for at, texts in enumerate(lines) if self.cursor in texts), 0)
        return lines, line, max(0, min(line - self._room + 1, len(lines) - self._room))
