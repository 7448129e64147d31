"""The conversations that a filter selects, the newest first, each with its totals; opened, the tree of its turns.

New exchanges appear in their places. Nothing here waits for the tape: `outline` makes the lines.
"""

import asyncio
from collections.abc import Collection
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.geometry import Size
from textual.screen import Screen
from textual.strip import Strip

from wiretape.recorder.errors import WiretapeError
from wiretape.viewer.exchange.states import Look
from wiretape.viewer.listing import drilling, outline
from wiretape.viewer.listing.bars import Bars
from wiretape.viewer.listing.outline import Line
from wiretape.viewer.query.parser import FilterError
from wiretape.viewer.record.rows import ConversationRow, TurnRow
from wiretape.viewer.sessions import content
from wiretape.viewer.source.base import pause_s
from wiretape.viewer.text import cells
from wiretape.viewer.text.cells import Part
from wiretape.viewer.tui import bindings
from wiretape.viewer.tui.base.host import Superseded, host, is_seen
from wiretape.viewer.tui.dialogs import offers
from wiretape.viewer.tui.list.tree_data import ConversationsData, TreeQuery, read
from wiretape.viewer.tui.widgets.bar import HeaderLine
from wiretape.viewer.tui.widgets.cursor import MARGIN, CursorTable, Toned
from wiretape.viewer.tui.widgets.footer import KeyLine


class Legend(Toned):
    """The signs of the parts of bars, and notes, in as many lines as they need."""

    DEFAULT_CSS = "Legend { height: auto; max-height: 6; background: $surface; padding: 0 1; }"

    def __init__(self) -> None:
        super().__init__()
        self._items: list[list[Part]] = []

    def show(self, items: list[list[Part]]) -> None:
        if items != self._items:
            self._items = items
            self.refresh(layout=True)

    def _lines(self, width: int) -> list[list[Part]]:
        return [*cells.in_lines(self._items, width)]

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._lines(width))

    def render_line(self, y: int) -> Strip:
        lines = self._lines(self.content_size.width)
        return self.draw(lines[y] if y < len(lines) else [])


class ConversationTree(CursorTable):
    """Draws conversations and the exchanges of the opened ones; the cursor stays on its item."""

    DEFAULT_CSS = "ConversationTree { width: 1fr; height: 1fr; }"

    def __init__(self) -> None:
        super().__init__(id="conversations")
        self.lines: list[Line] = []
        self.open_names: Collection[str] = ()
        self.look = Look()
        self.bars = Bars()

    @property
    def count(self) -> int:
        return len(self.lines)

    @property
    def line(self) -> Line | None:
        return self.lines[self.cursor] if self.lines else None

    def show(self, lines: list[Line], open_names: Collection[str]) -> None:
        """Show other lines; the cursor stays on its conversation or exchange, if that is still there."""
        selected = self.line
        self.lines, self.open_names = lines, open_names
        if selected is not None and (self.cursor >= self.count or _key(selected) != _key(lines[self.cursor])):
            self.cursor = next((at for at, line in enumerate(lines) if _key(line) == _key(selected)), self.cursor)
        self.cursor = max(min(self.cursor, self.count - 1), 0)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw the titles, or a line."""
        width = max(self.size.width - len(MARGIN), 1)
        columns, item = outline.fitted(width), self.top + y - 1
        if y == 0:
            return self.drawn_titles(outline.titles(columns, width, self.bars))
        if item >= self.count:
            return self.draw([])
        line = self.lines[item]
        is_open = isinstance(line, ConversationRow) and line.conversation in self.open_names
        return self.drawn_item(item, outline.line(line, columns, width, self.look, self.bars, is_open=is_open))


class ConversationsScreen(Screen[None]):
    """Lists conversations, and opens them."""

    DEFAULT_CSS = "ConversationsScreen { layout: vertical; }"
    BINDINGS: ClassVar[list[BindingType]] = bindings.of(*bindings.CONVERSATIONS)

    def __init__(self, filter_text: str) -> None:
        super().__init__()
        self._filter_text = filter_text
        self._open_names: set[str] = set()
        self._of_context = False
        self._noted: int | None = None
        self._notes: list[list[Part]] = []
        self._trouble: str | None = None
        self.data = ConversationsData()
        self._header, self._tree, self._legend = HeaderLine(), ConversationTree(), Legend()

    def compose(self) -> ComposeResult:
        yield from (self._header, self._tree, self._legend, KeyLine())

    def on_mount(self) -> None:
        self._tree.focus()
        self._show()
        self.run_worker(self._watch(), group="watch")

    def copies(self) -> list[tuple[str, str]]:
        """Return the texts to copy: the command that lists these conversations, and the one under the cursor."""
        name = self._conversation
        filtered = ["-f", self._filter_text] if self._filter_text else []
        copied = [("command", offers.command(host(self).tape.place, "ls", "--by", "conversation", *filtered))]
        return copied if name is None else [*copied, ("conversation", name)]

    def exports(self) -> list[tuple[str, list[str]]]:
        name = self._conversation
        text = self._filter_text if name is None else self._only(name)
        exported = offers.arguments(host(self).tape.place, "export", *(["-f", text] if text else []))
        tables = [(table, [*exported, "--table", table]) for table in ("exchanges", "texts", "chunks", "reads")]
        return [*tables, ("page", [*exported, "--format", "html"])]

    def _only(self, name: str) -> str:
        return drilling.joined(self._filter_text, drilling.group("conversation", name))

    @property
    def _conversation(self) -> str | None:
        above = self._tree.lines[: self._tree.cursor + 1]
        return next((line.conversation for line in reversed(above) if isinstance(line, ConversationRow)), None)

    def on_cursor_list_moved(self) -> None:
        """Show the shares of the conversation under the cursor; read the bars of those that come into view."""
        self._show_legend()
        if not self._query.is_in(self.data):  # a key costs no question while all of it is there
            self._read_soon()

    def on_cursor_list_opened(self) -> None:
        """Open the exchange under the cursor in the inspector; open or close a conversation."""
        match self._tree.line:
            case TurnRow(no=no):
                from wiretape.viewer.tui.inspector.screen import InspectorScreen

                self.app.push_screen(InspectorScreen(no))
            case ConversationRow(conversation=name):
                self._open({name}, is_open=name not in self._open_names)

    def action_open(self) -> None:
        self._tree.open()

    def action_aside(self, by: int) -> None:
        """Open the conversation under the cursor, or close it; from an exchange, go to its conversation."""
        name, is_open = self._conversation, by > 0
        if name is None:
            return
        if not is_open and isinstance(self._tree.line, TurnRow):
            at = next(at for at, line in enumerate(self._tree.lines) if _key(line) == ("conversation", name))
            self._tree.go_to(at)
        else:
            self._open({name}, is_open=is_open)

    def action_all(self) -> None:
        """Open the newest conversations; where any is open, close all."""
        names = {*islice(self.data.rows, 200)}  # the turns of each are read, and their bars computed
        self._open(self._open_names or names, is_open=not self._open_names)

    def action_view(self) -> None:
        self._of_context = not self._of_context
        self._show()
        self._read_soon()

    def action_trees(self) -> None:
        if (name := self._conversation) is not None:
            host(self).show_streams(self._only(name))

    def action_reload(self) -> None:  # the next poll reads all of it
        self.data = replace(self.data, version=None, times={}, contexts={})

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Hide actions from footer and help that do not apply to an empty list."""
        return action not in ("open", "all", "trees") or bool(self.data.rows)

    def _open(self, names: set[str], *, is_open: bool) -> None:
        self._open_names = self._open_names | names if is_open else self._open_names - names
        self._show()
        if is_open and names:
            self._read_soon()

    def _read_soon(self) -> None:
        self.run_worker(self._read(), group="read", exclusive=True)

    @property
    def _query(self) -> TreeQuery:
        cursor, height = self._tree.cursor, self.app.size.height
        lines = self._tree.lines[max(cursor - height, 0) : cursor + height]
        near = frozenset(line.conversation for line in lines if isinstance(line, ConversationRow))
        return TreeQuery(frozenset(self._open_names), near, self._of_context)

    async def _watch(self) -> None:
        clock = host(self).clock
        while True:
            began = clock.now()
            if is_seen(self):
                await self._read()
            await asyncio.sleep(pause_s("screen", clock.now() - began))

    async def _read(self) -> None:
        app, data, trouble = host(self), self.data, self._trouble
        question = partial(
            read, text=self._filter_text, clock=app.clock, limits=app.limits, data=data, query=self._query
        )
        try:
            self.data, self._trouble = await app.tape.read(question), None
        except Superseded:
            return
        except (WiretapeError, FilterError) as error:
            self._trouble = str(error)
        if self.data is not data or self._trouble != trouble:
            is_first = not self._tree.lines
            self._show()
            self.refresh_bindings()
            if is_first and self._tree.lines:
                self._read_soon()  # only now there are lines near the cursor, whose bars can be asked for

    def _show(self) -> None:
        totals: list[Part] = [(f" · {self.data.totals}", "plain")]
        totals += [(f" · {self._filter_text}", "accent")] if self._filter_text else []
        self._header.show(
            [("conversations", "strong"), *([(f" · {self._trouble}", "error")] if self._trouble else totals)], []
        )
        self._tree.look = Look(wall_ns=host(self).clock.wall_ns())
        self._tree.bars = self.data.bars(of_context=self._of_context)
        self._tree.show(outline.lines([*self.data.rows.values()], self._open_names, self.data.turns), self._open_names)
        self._show_legend()

    def _show_legend(self) -> None:
        """Show the legend of the bars, and the largest tool results of a request if they are of the context."""
        noted = self._request if self._of_context else None
        if noted != self._noted:
            self._noted, self._notes = noted, []
            self.run_worker(self._note(noted), group="note", exclusive=True)
        name = self._conversation
        self._legend.show([] if name is None else [*self._tree.bars.legend(name), *self._notes])

    @property
    def _request(self) -> int | None:
        """The exchange under the cursor; of a conversation, the newest whose request is known."""
        match self._tree.line:
            case TurnRow(no=no):
                return no
            case ConversationRow(conversation=name):
                return max((turn.no for turn in self.data.turns.get(name, ()) if turn.sources), default=None)
            case _:
                return None

    async def _note(self, no: int | None) -> None:
        """Name the largest tool results of a request, unless the cursor moves on in a moment."""
        if no is None:
            return
        await asyncio.sleep(0.05)  # a held key reads no request
        try:
            context = await host(self).tape.read(lambda source: source.exchange(no).context(), "note")
        except (Superseded, WiretapeError):  # the request is not on the tape as a whole, or not any more
            return
        self._notes = [*content.largest_results(context)]
        self._show_legend()


def _key(line: Line) -> tuple[str, str | int]:
    return ("exchange", line.no) if isinstance(line, TurnRow) else ("conversation", line.conversation)
