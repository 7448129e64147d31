"""The saved views, to choose one by its name: the filters under `[views]` in the configuration.

How many exchanges fit each is asked one after the other, beside the loop, and shown as it becomes known. An answer that
nobody waits for any more, as when one is chosen first, is given up.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.fuzzy import Matcher
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from recorder.clock import Clock
from recorder.errors import WiretapeError
from viewer import formatting
from viewer.model import settings
from viewer.model.states import Part
from viewer.timing.thresholds import LOCAL_FILE, user_file
from viewer.tui.base import paint
from viewer.tui.base.host import Superseded, host
from viewer.tui.dialogs.menus import close
from viewer.tui.widgets.notice import said

if TYPE_CHECKING:
    from sqlalchemy import Connection

_NAME: Final = 20
_COUNT: Final = 9
_HOW: Final = '[views]\nslow = "ttft>800ms"\ncut = "is:cut since:-2h"'


class ViewsMenu(ModalScreen[str | None]):
    """Gives the filter of the view that was chosen; None if none was."""

    DEFAULT_CSS = """
    ViewsMenu { align: center middle; background: $background 60%; }
    ViewsMenu > Vertical { width: 80%; max-width: 100; height: auto; max-height: 80%; background: $surface;
        padding: 0 1; border: round $primary; border-title-color: $text-primary; }
    ViewsMenu Input, ViewsMenu Input:focus { border: none; height: 1; background: $panel; padding: 0; }
    ViewsMenu OptionList, ViewsMenu OptionList:focus { height: auto; max-height: 16; background: $surface; border: none;
        padding: 0; margin-top: 1; }
    ViewsMenu #told { color: $text-muted; height: auto; margin-top: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "close", id="views.cancel"),
        Binding("up", "move(-1)", "up", show=False, id="views.up"),
        Binding("down", "move(1)", "down", show=False, id="views.down"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._views: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self._shown: list[str] = []
        self._options = OptionList()
        self._told = Static(paint.content(""), id="told")

    def compose(self) -> ComposeResult:
        """Lay out the line to search by, the list, and how views are written."""
        with Vertical() as whole:
            whole.border_title = "saved views"
            yield Input(placeholder="search the views")
            yield self._options
            yield self._told

    def on_mount(self) -> None:
        """Read the views, and count what fits them."""
        self.run_worker(self._read(), group="views")

    async def _read(self) -> None:
        self._views = (await asyncio.to_thread(settings.read)).views
        self._list()
        for name, text in self._views.items():
            with contextlib.suppress(Superseded, WiretapeError):  # a view without its count can be chosen as well
                self._counts[name] = await host(self).tape.ask(_count(text, host(self).clock), "views")
                self._list()

    def on_input_changed(self) -> None:
        """List what fits, the best first."""
        self._options.highlighted = None
        self._list()

    def on_input_submitted(self) -> None:
        """Take what is under the cursor."""
        self._take(self._options.highlighted)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Take what was clicked."""
        self._take(event.option_index)

    def action_move(self, by: int) -> None:
        """Move the cursor."""
        if by > 0:
            self._options.action_cursor_down()
        else:
            self._options.action_cursor_up()

    def action_cancel(self) -> None:
        """Choose none."""
        close(self, None)

    def _take(self, at: int | None) -> None:
        if at is not None and at < len(self._shown):
            close(self, self._views[self._shown[at]])

    def _list(self) -> None:
        typed, at = self.query_one(Input).value.strip(), self._options.highlighted
        self._shown = _fitting(self._views, typed)
        self._options.clear_options()
        self._options.add_options([Option(self._line(name)) for name in self._shown])
        self._options.display = bool(self._shown)
        self._options.highlighted = min(at or 0, len(self._shown) - 1) if self._shown else None
        self._told.update(said([(self._help(typed), "muted")]) if self._views else _how())

    def _line(self, name: str) -> Content:
        wide = min(max(len(formatting.line(name)) for name in self._views), _NAME)
        count = self._counts.get(name)
        parts: list[Part] = [
            (f"{formatting.cut(formatting.line(name), wide):<{wide}}  ", "strong"),
            (f"{'…' if count is None else f'{count:,}':>{_COUNT}}  ", "muted" if not count else "accent"),
            (formatting.line(self._views[name]), "plain"),
        ]
        return said(parts)

    def _help(self, typed: str) -> str:
        if not self._shown:
            return f"no view for '{formatting.line(typed)}'"
        return "enter: show it · esc: close · the numbers are how many exchanges fit"


def _fitting(views: dict[str, str], typed: str) -> list[str]:
    """Give the names of the views that fit what was typed: by their names before others by their filters."""
    if not typed:
        return list(views)
    matcher = Matcher(typed)
    scores = {name: (matcher.match(name), matcher.match(text)) for name, text in views.items()}
    return sorted((name for name in views if any(scores[name])), key=lambda name: scores[name], reverse=True)


def _how() -> Content:
    """Say how a view is written."""
    places = f"Write some into {LOCAL_FILE} of this directory, or into {formatting.line(str(user_file()))}:"
    return said([("No view is saved yet. ", "strong"), (f"{places}\n\n", "plain"), (_HOW, "accent")])


def _count(text: str, clock: Clock) -> "Callable[[Connection], int]":
    def question(connection: "Connection") -> int:
        from viewer.filters import sql
        from viewer.filters.parser import parse
        from viewer.tape import queries

        return queries.count(connection, sql.condition(parse(text, clock)))

    return question
