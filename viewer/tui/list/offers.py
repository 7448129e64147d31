"""Copies, exports and menus of the list.

Texts of the exchange under the cursor, commands for all of the list, and the menus of its order and its columns.
"""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from textual.app import ComposeResult
from textual.content import Content
from textual.events import Key
from textual.widgets import SelectionList, Static

from wiretape.recorder.plurals import counted
from wiretape.viewer.listing.layout import COLUMNS
from wiretape.viewer.listing.query import Query
from wiretape.viewer.record.rows import ListRow
from wiretape.viewer.source.base import Place
from wiretape.viewer.text.cells import Part
from wiretape.viewer.tui.base.host import Host, TapeReader
from wiretape.viewer.tui.dialogs.menus import Dialog
from wiretape.viewer.tui.dialogs.offers import Copy, Later, arguments, command, part_command
from wiretape.viewer.tui.widgets.bar import content

if TYPE_CHECKING:
    from wiretape.viewer.source.tape_source import TapeSource


PARTS: Final = {
    "curl": "its request, as a command",
    "text": "the content, assembled",
    "body": "the answer, as it came",
    "tool arguments": "of its calls, assembled",
}
"""The parts of an exchange that can be copied, with descriptions."""


def copies(host: Host, query: Query, row: ListRow | None, marked: Sequence[str]) -> list[Copy]:
    """Return the texts to copy: (label, text). `row` is the one under the cursor, `marked` are ids."""
    place = host.list_reader.place
    offered: list[Copy] = [("this list", command(place, "ls", *query.arguments, *query.order_arguments))]
    if row is not None and not place.supports("bodies"):
        pulls = command(place, "pull", row.id, "-o", f"{row.id[:8]}.db")
        offered = [("id", row.id), ("view", command(place, "view", row.id)), *offered, ("pull", pulls)]
    elif row is not None:
        id = row.id
        verbs: list[Copy] = [(verb, command(place, verb, id)) for verb in ("show", "view")]
        parts = [part for part in PARTS if part != "tool arguments" or row.finish_reason == "tool_calls"]
        offered = [("id", id), *verbs, *offered, *((part, _later(host.tape, row.no, id, part)) for part in parts)]
    if marked:
        offered.append(("marked ids", "\n".join(marked)))
    return offered


def exports(
    place: Place, query: Query, row: ListRow | None, marked: Sequence[str], match_count: int
) -> list[tuple[str, list[str]]]:
    """Return the exports: (label, arguments); `match_count` is that of the list."""
    of_list, has_bodies = arguments(place, "export", *query.arguments), place.supports("bodies")
    offered = [(counted(match_count, "exchange"), of_list)]
    if has_bodies:
        offered.append((f"their texts, {match_count:,}", [*of_list, "--table", "texts"]))
    if marked:
        picked = arguments(place, "export", *marked)
        offered.append((f"marked, {len(marked)}", picked))
        formats = [("page", "html"), *[("GIF", "gif"), ("asciicast", "asciicast")] * (len(marked) == 2)] * has_bodies
        offered += [(f"{name} of the marked, {len(marked)}", [*picked, "--format", of]) for name, of in formats]
    if has_bodies:
        offered.append((f"page of all, {match_count:,}", [*of_list, "--format", "html"]))
    if row is not None and has_bodies:
        of_row, short = arguments(place, "export", row.id), row.id[:8]
        offered.append((f"bytes of {short}", [*of_row, "--format", "sse"]))
        offered.append((f"chunks of {short}", [*of_row, "--table", "chunks"]))
    return offered


def _later(reader: TapeReader, number: int, id: str, part: str) -> Later:
    def question(source: "TapeSource") -> str:
        return source.exchange(number).text(id, part)

    return Later(PARTS[part], partial(reader.read, question, "copy"), part_command(reader.place, id, part))


_HEAD: Final = "order by  "
_BETWEEN: Final = 3


class OrderMenu(Dialog[str]):
    """Returns the field to order by; `started_at` is the newest first, None leaves things as they are."""

    DEFAULT_CSS = """
    OrderMenu {
        align: left bottom; background: transparent;
        & > Static { width: 100%; height: auto; padding: 0 1; background: $panel; margin-bottom: 1; }
    }
    """

    def compose(self) -> ComposeResult:
        yield Static(_laid_out(self.app.size.width))

    def on_resize(self) -> None:
        self.query_one(Static).update(_laid_out(self.app.size.width))

    def on_key(self, event: Key) -> None:
        """Choose the column of a letter; a key that comes after that is none of this menu's."""
        event.stop()
        fields = [column.field for column in COLUMNS if column.letter == event.character]
        if self.is_current:
            self.dismiss(fields[0] if fields else None)


def _laid_out(width: int) -> Content:
    """Return the menu's lines: the entries in columns, each of them whole."""
    entries = [(column.letter, column.title.lower()) for column in COLUMNS if column.letter is not None]
    wide = max(len(title) for _, title in entries)
    in_a_line = max((width - 2 - len(_HEAD) + _BETWEEN) // (2 + wide + _BETWEEN), 1)
    lines: list[list[Part]] = []
    for at in range(0, len(entries), in_a_line):
        lines.append([(f"{'' if at else _HEAD:<{len(_HEAD)}}", "strong")])
        for letter, title in entries[at : at + in_a_line]:
            lines[-1] += [(letter, "accent"), (f" {title:<{wide + _BETWEEN}}", "muted")]
    lines.append([("again: reversed · running exchanges stand last by measures of their end", "muted")])
    return Content("\n").join(content(line) for line in lines)


class ColumnsMenu(Dialog[None]):
    """Calls `change` with the names of the columns to hide, whenever one is switched on or off."""

    DEFAULT_CSS = """
    ColumnsMenu SelectionList, ColumnsMenu SelectionList:focus {
        width: 34; max-height: 90%; border: round $primary; border-title-color: $text-primary;
        & > .selection-list--button, & > .selection-list--button-highlighted {
            color: $text-muted; background: $text-muted; }
        & > .selection-list--button-selected, & > .selection-list--button-selected-highlighted {
            color: $background; background: $text-success; }
    }
    """

    def __init__(self, hidden: Collection[str], change: Callable[[frozenset[str]], object]) -> None:
        super().__init__()
        self._hidden, self._change = hidden, change

    def compose(self) -> ComposeResult:
        choices = ((column.title, column.name, column.name not in self._hidden) for column in COLUMNS)
        columns = SelectionList[str](*choices)
        columns.border_title = "columns"
        columns.border_subtitle = "space: on or off   esc: close"
        yield columns

    def on_selection_list_selected_changed(self, event: SelectionList.SelectedChanged[str]) -> None:
        selected = event.selection_list.selected
        self._change(frozenset(column.name for column in COLUMNS if column.name not in selected))
