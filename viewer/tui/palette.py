"""What the command palette finds: what the screen below can do, saved views, themes, times, and exchanges.

The palette takes help texts, and what its own matcher has highlighted, for markup: so that recorded text is only ever
handed to it as `Content`, and help texts are this module's own.
"""

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content

from recorder.errors import WiretapeError
from recorder.safe import safe
from viewer import cells
from viewer.model import goto, settings
from viewer.rows import Row
from viewer.tui import paint
from viewer.tui.hosting import host
from viewer.tui.reader import Superseded
from viewer.tui.screens.help import entries

if TYPE_CHECKING:
    from sqlalchemy import Connection

_MOST: Final = 8
_LEAST: Final = 2
_GOTO: Final = "goto "
_FIELDS: Final = ("id", "started_at", "model", "upstream", "outcome")


@dataclass(frozen=True, slots=True)
class _Command:
    """A line of the palette: a text, which may be recorded, what it does, and a word on that."""

    text: str
    run: Callable[[], Any]
    help: str


class TapeCommands(Provider):
    """Finds commands by their names, and exchanges by id, model, label and text."""

    async def startup(self) -> None:
        """Read the saved views."""
        self._views = settings.read().views

    async def discover(self) -> Hits:
        """Give what there is before anything is typed: the saved views, and what the screen can do."""
        for command in (*self._of_views(), *self._of_screen()):
            yield DiscoveryHit(paint.content(command.text), command.run, safe(command.text), command.help)

    async def search(self, query: str) -> Hits:
        """Give what fits."""
        for command in (*self._of_views(), *self._of_screen(), *self._of_themes()):
            if (score := self.matcher(query).match(command.text)) > 0:
                yield self._hit(score, command, query)
        async for command in self._of_times(query):
            yield self._hit(1.0, command, "")
        async for command in self._of_exchanges(query):
            yield self._hit(0.5, command, query)

    def _hit(self, score: float, command: _Command, query: str) -> Hit:
        return Hit(score, _highlighted(self, command.text, query), command.run, safe(command.text), command.help)

    def _of_screen(self) -> Iterator[_Command]:
        for entry in entries(self.app, self.screen.active_bindings):
            run = functools.partial(self.app.run_action, entry.bound.binding.action, entry.bound.node)
            yield _Command(entry.said, run, f"key {' '.join(entry.keys)}".replace("[", "\\["))

    def _of_views(self) -> Iterator[_Command]:
        for name, text in self._views.items():
            yield _Command(f"view {name}: {text}", functools.partial(self._streams, text), "a saved view")

    def _of_themes(self) -> Iterator[_Command]:
        for name in self.app.available_themes:
            yield _Command(f"theme {name}", functools.partial(setattr, self.app, "theme", name), "how colours look")

    async def _of_times(self, query: str) -> AsyncIterator[_Command]:
        from viewer.filtering.parser import FilterError, parse

        text = query.removeprefix(_GOTO).strip()
        if not any(sign.isdigit() for sign in text) or " " in text:
            return
        go_to = getattr(self.screen, "go_to", None)
        if go_to is not None and (goal := goto.read(text)) is not None and goal.kind != "words":
            yield _Command(f"goto {text}", functools.partial(go_to, text), "in this stream")
        try:
            parse(f"since:{text}", host(self.screen).clock)
        except FilterError:
            return
        yield _Command(
            f"goto time {text}", functools.partial(self._streams, f"since:{text}"), "exchanges from then on"
        )  # fmt: skip

    async def _of_exchanges(self, query: str) -> AsyncIterator[_Command]:
        text = query.strip()
        if len(text) < _LEAST:
            return
        try:
            found = await host(self.screen).tape.ask(functools.partial(_matching, text), "palette")
        except (WiretapeError, Superseded):
            return
        for no, row in found:
            named = (cells.line(row["model"]), cells.line(cells.host(row["upstream"])), cells.line(row["outcome"]))
            shown = f"{row['id']}  {cells.moment(row['started_at'])}  {'  '.join(named)}"
            yield _Command(shown, functools.partial(self._open, no), "open this exchange")

    def _streams(self, filter_text: str) -> None:
        host(self.screen).show_streams(filter_text)

    def _open(self, no: int) -> None:
        from viewer.tui.screens.inspector import InspectorScreen

        self.app.push_screen(InspectorScreen(no))


def _matching(text: str, connection: "Connection") -> list[tuple[int, Row]]:
    """Give the newest exchanges that a word is found in: those named by it before those that say it."""
    from viewer import queries
    from viewer.filtering import sql
    from viewer.filtering.syntax import Filter, Match, Word

    wanted: list[Filter] = [Word((text,)), Match("text", ((text,),))]
    found: dict[str, Row] = {}
    for one in wanted:
        rows = queries.exchanges(
            connection, _FIELDS, newest_first=True, limit=_MOST - len(found), where=sql.condition(one)
        )
        found |= {row["id"]: row for row in rows}
    return [(queries.find(connection, id), row) for id, row in found.items()]


def _highlighted(provider: Provider, text: str, query: str) -> Content:
    """Give a text with what was matched in it marked."""
    shown = paint.content(text.replace("\n", " "))
    _, offsets = provider.matcher(query).fuzzy_search.match(query, text) if query else (0, ())
    for offset in offsets:
        shown = shown.stylize("reverse", offset, offset + 1)
    return shown
