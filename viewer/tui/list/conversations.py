"""The conversations that a filter selects, the newest first, each with its totals; opened, the tree of its turns.

New exchanges appear in their places. Nothing here waits for the tape: `outline` makes the lines.
"""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.screen import Screen
from textual.strip import Strip

from wiretape.recorder.clock import Clock
from wiretape.recorder.decode.stalls import Thresholds
from wiretape.recorder.errors import WiretapeError
from wiretape.viewer.exchange.states import Look
from wiretape.viewer.listing import drilling, outline
from wiretape.viewer.listing.bars import Bars, SessionBars, of_time
from wiretape.viewer.listing.outline import Line
from wiretape.viewer.query.parser import FilterError
from wiretape.viewer.rows import ConversationRow, TurnRow
from wiretape.viewer.source.base import pause_s
from wiretape.viewer.text import cells
from wiretape.viewer.text.cells import Part
from wiretape.viewer.tui.base.host import Superseded, host
from wiretape.viewer.tui.base.keys import BACK, HELP, hidden
from wiretape.viewer.tui.dialogs import offers
from wiretape.viewer.tui.widgets.bar import HeaderLine
from wiretape.viewer.tui.widgets.cursor import MARGIN, CursorTable, Toned, table_keys
from wiretape.viewer.tui.widgets.footer import KeyLine

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from wiretape.viewer.source.base import Version
    from wiretape.viewer.source.tape.conditions import Condition

_MOST_OPENED: Final = 200


@dataclass(frozen=True, slots=True)
class ConversationsData:
    """The data read: the version of the tape, its conversations, their totals, the exchanges of the opened ones.

    `times` are the bars of the conversations near the cursor, and of the opened ones, with the rows that they are of.
    """

    version: "Version | None" = None
    totals: str = "reading …"
    conversations: list[ConversationRow] = field(default_factory=list)
    turns: dict[str, list[TurnRow]] = field(default_factory=dict)
    times: dict[str, tuple[ConversationRow, SessionBars]] = field(default_factory=dict)

    @property
    def bars(self) -> Bars:
        """The bars of the time."""
        known = {name: bars for name, (_, bars) in self.times.items()}
        turns = {no: bar for name in self.turns if name in known for no, bar in known[name].turns.items()}
        return Bars(sessions=known, wall_ns={name: bars.length for name, bars in known.items()}, turns=turns)


@dataclass(frozen=True, slots=True)
class Shown:
    """The names of the opened conversations, and the lines of the tree that may be drawn next."""

    opened: frozenset[str]
    lines: slice

    def among(self, conversations: list[ConversationRow], turns: dict[str, list[TurnRow]]) -> list[ConversationRow]:
        """Return the conversations on these lines, and the opened ones."""
        drawn = outline.lines(conversations, self.opened, turns)[self.lines]
        names = self.opened | {one.conversation for one in drawn if isinstance(one, ConversationRow)}
        return [one for one in conversations if one.conversation in names]


class Legend(Toned):
    """The signs of the parts of bars, in as many lines as they need, and lines of text below."""

    DEFAULT_CSS = "Legend { height: auto; max-height: 6; background: $surface; padding: 0 1; }"

    def __init__(self) -> None:
        super().__init__()
        self._signs: list[list[Part]] = []
        self._notes: list[list[Part]] = []

    def show(self, signs: list[list[Part]], notes: list[list[Part]]) -> None:
        """Show these signs, and these lines."""
        if (signs, notes) != (self._signs, self._notes):
            self._signs, self._notes = signs, notes
            self.refresh(layout=True)

    def _lines(self, width: int) -> list[list[Part]]:
        return [*cells.in_lines(self._signs, width), *self._notes]

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the number of lines."""
        return len(self._lines(width))

    def render_line(self, y: int) -> Strip:
        """Draw a line."""
        lines = self._lines(self.content_size.width)
        return self.drawn(lines[y] if y < len(lines) else [])


class ConversationTree(CursorTable):
    """Draws conversations and the exchanges of the opened ones; the cursor stays on its item."""

    DEFAULT_CSS = "ConversationTree { width: 1fr; height: 1fr; }"
    BINDINGS: ClassVar[list[BindingType]] = table_keys("conversations")

    def __init__(self) -> None:
        super().__init__(id="conversations")
        self.lines: list[Line] = []
        self.opened: Collection[str] = ()
        self.look = Look()
        self.bars = Bars()

    @property
    def count(self) -> int:
        """The number of lines."""
        return len(self.lines)

    @property
    def line(self) -> Line | None:
        """The line under the cursor."""
        return self.lines[self.cursor] if self.lines else None

    def show(self, lines: list[Line], opened: Collection[str]) -> None:
        """Show other lines; the cursor stays on its conversation or exchange, if that is still there."""
        here = self.line
        self.lines, self.opened = lines, opened
        if here is not None and (self.cursor >= self.count or _key(here) != _key(lines[self.cursor])):
            self.cursor = next((at for at, one in enumerate(lines) if _key(one) == _key(here)), self.cursor)
        self.cursor = max(min(self.cursor, self.count - 1), 0)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw the titles, or a line."""
        width = max(self.size.width - len(MARGIN), 1)
        columns, item = outline.fitted(width), self.top + y - 1
        if y == 0:
            return self.drawn_titles(outline.titles(columns, width, self.bars))
        if item >= self.count:
            return self.drawn([])
        one = self.lines[item]
        is_opened = isinstance(one, ConversationRow) and one.conversation in self.opened
        return self.drawn_item(item, outline.line(one, columns, width, self.look, self.bars, opened=is_opened))


class ConversationsScreen(Screen[None]):
    """Lists conversations, and opens them."""

    DEFAULT_CSS = "ConversationsScreen { layout: vertical; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        *HELP,
        Binding("enter", "open", "open", key_display="enter", tooltip="open or close a conversation, or an exchange",
                id="conversations.open"),
        hidden("right,l", "expand(True)", "open the conversation", id="conversations.expand"),
        hidden("left,h", "expand(False)", "close the conversation", id="conversations.collapse"),
        Binding("a", "expand_all", "all", tooltip="open all conversations, or close them", id="conversations.all"),
        Binding("L", "list", "list", tooltip="list the exchanges of the conversation", id="conversations.list"),
        hidden("R", "reload", "read again", id="conversations.reload"),
        BACK,
    ]  # fmt: skip

    def __init__(self, filter_text: str) -> None:
        super().__init__()
        self._filter_text = filter_text
        self._opened: set[str] = set()
        self._trouble: str | None = None
        self.shown = ConversationsData()
        self._header, self._tree, self._legend = HeaderLine(), ConversationTree(), Legend()

    def compose(self) -> ComposeResult:
        """Lay out the title, the tree, the legend of its bars and the keys."""
        yield from (self._header, self._tree, self._legend, KeyLine())

    def on_mount(self) -> None:
        """Read the content of the screen, and start to poll."""
        self._tree.focus()
        self._show()
        self.run_worker(self._watch(), group="watch")

    def copies(self) -> list[tuple[str, str]]:
        """Return the texts to copy: the command that lists these conversations, and the one under the cursor."""
        name = self._here
        copied = [("command", offers.command(host(self).tape.place, "ls", "--by", "conversation", *self._selection()))]
        return copied if name is None else [*copied, ("conversation", name)]

    def exports(self) -> list[tuple[str, list[str]]]:
        """Return the export's selection: the exchanges of the conversation under the cursor, or all."""
        name = self._here
        text = self._filter_text if name is None else self._only(name)
        exported = offers.arguments(host(self).tape.place, "export", *(["-f", text] if text else []))
        return [(table, [*exported, "--table", table]) for table in ("exchanges", "texts", "chunks", "reads")]

    def _selection(self) -> list[str]:
        return ["-f", self._filter_text] if self._filter_text else []

    def _only(self, name: str) -> str:
        """Return the filter that selects a conversation."""
        return drilling.joined(self._filter_text, drilling.group("conversation", name))

    @property
    def _here(self) -> str | None:
        """The conversation that the cursor is on, or in."""
        above = self._tree.lines[: self._tree.cursor + 1]
        return next((one.conversation for one in reversed(above) if isinstance(one, ConversationRow)), None)

    def on_cursor_list_moved(self) -> None:
        """Show the shares of the conversation under the cursor; read the bars of those that come into view."""
        self._show_legend()
        known = self.shown.times
        if any(one.conversation not in known for one in self._drawn.among(self.shown.conversations, self.shown.turns)):
            self._read_soon()

    def on_cursor_list_opened(self) -> None:
        """Open the exchange under the cursor in the inspector; open or close a conversation."""
        match self._tree.line:
            case TurnRow(no=no):
                from wiretape.viewer.tui.inspector.screen import InspectorScreen

                self.app.push_screen(InspectorScreen(no))
            case ConversationRow(conversation=name):
                self._open({name}, is_open=name not in self._opened)

    def action_open(self) -> None:
        """Open the item under the cursor."""
        self._tree.open()

    def action_expand(self, is_open: bool) -> None:
        """Open the conversation under the cursor, or close it; from an exchange, go to its conversation."""
        name = self._here
        if name is None:
            return
        if not is_open and isinstance(self._tree.line, TurnRow):
            at = next(at for at, one in enumerate(self._tree.lines) if _key(one) == ("conversation", name))
            self._tree.go_to(at)
        else:
            self._open({name}, is_open=is_open)

    def action_expand_all(self) -> None:
        """Open the newest conversations; where any is open, close all."""
        names = {one.conversation for one in self.shown.conversations[:_MOST_OPENED]}
        self._open(self._opened or names, is_open=not self._opened)

    def action_list(self) -> None:
        """List the exchanges of the conversation under the cursor."""
        if (name := self._here) is not None:
            host(self).show_streams(self._only(name))

    def action_reload(self) -> None:
        """Read everything again."""
        self.shown = replace(self.shown, version=None, times={})

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Hide actions from footer and help that do not apply to an empty list."""
        return action not in ("open", "expand_all", "list") or bool(self.shown.conversations)

    def _open(self, names: set[str], *, is_open: bool) -> None:
        self._opened = self._opened | names if is_open else self._opened - names
        self._show()
        if is_open and names:
            self._read_soon()

    def _read_soon(self) -> None:
        self.run_worker(self._read(), group="read", exclusive=True)

    @property
    def _drawn(self) -> Shown:
        """The opened conversations, and the lines within a screen of the cursor."""
        cursor, height = self._tree.cursor, self.app.size.height
        return Shown(frozenset(self._opened), slice(max(cursor - height, 0), cursor + height))

    async def _watch(self) -> None:
        """Read the tape, and again whenever somebody has written to it."""
        clock = host(self).clock
        while True:
            began = clock.now()
            if self.is_current:
                await self._read()
            await asyncio.sleep(pause_s("screen", clock.now() - began))

    async def _read(self) -> None:
        app, shown, trouble = host(self), self.shown, self._trouble
        question = partial(
            _read, text=self._filter_text, clock=app.clock, limits=app.limits, shown=shown, drawn=self._drawn
        )
        try:
            self.shown, self._trouble = await app.tape.ask(question), None
        except Superseded:
            return
        except (WiretapeError, FilterError) as error:
            self._trouble = str(error)
        if self.shown is not shown or self._trouble != trouble:
            self._show()
            self.refresh_bindings()

    def _show(self) -> None:
        said: list[Part] = [(f" · {self.shown.totals}", "plain")]
        said += [(f" · {self._filter_text}", "accent")] if self._filter_text else []
        self._header.show(
            [("conversations", "strong"), *([(f" · {self._trouble}", "error")] if self._trouble else said)], []
        )
        self._tree.look, self._tree.bars = Look(wall_ns=host(self).clock.wall_ns()), self.shown.bars
        self._tree.show(outline.lines(self.shown.conversations, self._opened, self.shown.turns), self._opened)
        self._show_legend()

    def _show_legend(self) -> None:
        self._legend.show([*self._tree.bars.legend(self._here)], [])


def _key(one: Line) -> tuple[str, str | int]:
    return ("exchange", one.no) if isinstance(one, TurnRow) else ("conversation", one.conversation)


def _read(
    connection: "Connection", text: str, clock: Clock, limits: Thresholds, shown: ConversationsData, drawn: Shown
) -> ConversationsData:
    """Read the changes since the last reading; in the tape's thread."""
    from wiretape.viewer.query.parser import parse
    from wiretape.viewer.source.tape import conditions, conversations, following

    version = following.version(connection)
    where = conditions.condition(parse(text, clock)) if text.strip() else None
    if version != shown.version:
        listed = conversations.listed(connection, where)
        turns = conversations.turns(connection, drawn.opened, where) if drawn.opened else {}
        shown = ConversationsData(version, outline.totals(listed), listed, turns, shown.times)
    elif missing := drawn.opened - shown.turns.keys():
        shown = replace(shown, turns=shown.turns | conversations.turns(connection, missing, where))
    stale = [
        one
        for one in drawn.among(shown.conversations, shown.turns)
        if one.open or one.conversation not in shown.times or shown.times[one.conversation][0] != one
    ]
    return replace(shown, times=shown.times | _times(connection, stale, where, clock, limits)) if stale else shown


def _times(
    connection: "Connection", stale: list[ConversationRow], where: "Condition | None", clock: Clock, limits: Thresholds
) -> dict[str, tuple[ConversationRow, SessionBars]]:
    from wiretape.viewer.sessions.exchanges import spans
    from wiretape.viewer.source.tape import sessions

    rows = {one.conversation: one for one in stale}
    members = sessions.members(connection, limits, clock, where, rows)
    return {name: (rows[name], of_time(spans(found, limits).spans, limits)) for name, found in members}
