"""More than two exchanges beside each other: a table of their figures, with their gaps on one axis; there is no race.

While one of them runs, they are read again whenever somebody has written to the tape.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import Screen
from textual.strip import Strip
from textual.widgets import Static
from textual.worker import Worker

from wiretape.recorder.plurals import counted
from wiretape.viewer.listing import ranking
from wiretape.viewer.listing.ranking import LABELS, ORDERS, RankedExchange
from wiretape.viewer.source.base import POLL_SECONDS
from wiretape.viewer.text import formatting
from wiretape.viewer.tui import bindings
from wiretape.viewer.tui.base import paint
from wiretape.viewer.tui.base.host import host, is_seen
from wiretape.viewer.tui.compare.race import CompareScreen
from wiretape.viewer.tui.dialogs import offers
from wiretape.viewer.tui.playing.loader import GONE, ErrorReporter
from wiretape.viewer.tui.widgets.bar import HeaderLine
from wiretape.viewer.tui.widgets.cursor import MARGIN, CursorTable
from wiretape.viewer.tui.widgets.footer import KeyLine

if TYPE_CHECKING:
    from wiretape.viewer.source.base import Version
    from wiretape.viewer.source.tape_source import TapeSource

_LEGEND: Final = "< best of the column, where it may be judged · + still grows · gaps: ▁ <3 … ▆ 300 ms ▇ 1 █ 3 s"


class RankedTable(CursorTable):
    """Draws exchanges, the figures of each and its gaps on a common axis; the cursor stays on its exchange."""

    DEFAULT_CSS = "RankedTable { width: 1fr; height: 1fr; }"

    def __init__(self) -> None:
        super().__init__(id="ranked")
        self._entries: Sequence[RankedExchange] = ()
        self._by: str | None = None
        self._reverse = False

    @property
    def count(self) -> int:
        return len(self._entries)

    @property
    def selected(self) -> RankedExchange | None:
        return self._entries[self.cursor] if self._entries else None

    def show(self, entries: Sequence[RankedExchange], by: str | None, *, reverse: bool = False) -> None:
        selected = self.selected
        self._entries, self._by, self._reverse = entries, by, reverse
        places = [at for at, entry in enumerate(entries) if selected is not None and entry.no == selected.no]
        self.go_to(places[0] if places else self.cursor)

    def render_line(self, y: int) -> Strip:
        """Draw the titles with the axis, or an exchange."""
        entries, item = self._entries, self.top + y - 1
        columns, axis = ranking.layout(entries, self.size.width - len(MARGIN)), ranking.axis_ns(entries)
        if y == 0:
            return self.drawn_titles(ranking.head(columns, self._by, axis, reverse=self._reverse))
        if item >= self.count:
            return self.draw([])
        return self.drawn_item(item, ranking.line(entries[item], columns, ranking.best(entries), axis))


class CompareManyScreen(Screen[None]):
    """Compares exchanges, given by their numbers, one a line."""

    DEFAULT_CSS = """
    CompareManyScreen { layout: vertical; }
    CompareManyScreen #about, CompareManyScreen #legend { height: 1; padding: 0 1; color: $text-muted; }
    CompareManyScreen Static { text-wrap: nowrap; text-overflow: ellipsis; }
    """
    BINDINGS: ClassVar[list[BindingType]] = bindings.of(*bindings.TABLE)

    def __init__(self, numbers: Sequence[int]) -> None:
        super().__init__()
        self._numbers = tuple(numbers)
        self._rows: list[RankedExchange] = []
        self._entries: list[RankedExchange] = []
        self._ids_by_number: dict[int, str] = {}
        self._version: Version | None = None
        self._by: str | None = None
        self._reverse = False
        self._is_reading = False
        # Kept here, and not looked up: an answer may come when the screen has been left.
        self._head = HeaderLine()
        self._about = Static(paint.content(""), id="about")
        self._table = RankedTable()

    def compose(self) -> ComposeResult:
        yield from (self._head, self._table, self._about, Static(paint.content(_LEGEND), id="legend"), KeyLine())

    def on_mount(self) -> None:
        self._head.show([("compare", "strong"), (" · reading …", "muted")])
        self._table.focus()
        _: Worker[None] = self.run_worker(self._load, group="load")
        self.set_interval(POLL_SECONDS["screen"], self._poll)

    def copies(self) -> list[tuple[str, str]]:
        """Return the texts to copy: commands for the exchange under the cursor, the ids of all."""
        if self._table.selected is None:
            return []
        id, ids, command = self._table.selected.row.id, self._ids, partial(offers.command, host(self).tape.place)
        list_command = command("ls", "-f", f"id:{','.join(ids)}", "--spark")
        verbs = [(verb, command(verb, id)) for verb in ("show", "view")]
        return [("id", id), *verbs, ("all ids", "\n".join(ids)), ("their list", list_command)]

    def exports(self) -> list[tuple[str, list[str]]]:
        """Return the exports: all exchanges, their chunks, their reads."""
        if not self._entries:
            return []
        exported = offers.arguments(host(self).tape.place, "export", *self._ids)
        count = counted(len(self._entries), "exchange")
        tables = [(f"{table} of {count}", [*exported, "--table", table]) for table in ("chunks", "reads", "texts")]
        return [(count, exported), *tables, (f"page of {count}", [*exported, "--format", "html"])]

    def action_open(self) -> None:
        self._table.open()

    def on_cursor_list_opened(self) -> None:
        from wiretape.viewer.tui.inspector.screen import InspectorScreen

        if self._table.selected is not None:
            self.app.push_screen(InspectorScreen(self._table.selected.no))

    def action_order(self) -> None:
        """Order by the next figure, the best first; after the last, by the order of the marks again."""
        self._by, self._reverse = ORDERS[(ORDERS.index(self._by) + 1) % len(ORDERS)], False
        self._show()

    def action_reverse(self) -> None:
        self._reverse = not self._reverse
        self._show()

    def on_cursor_list_moved(self) -> None:
        """Describe the exchange under the cursor."""
        texts = []
        if self._table.selected is not None:
            row = self._table.selected.row
            texts = [row.id, row.model, formatting.server(row.upstream, row.upstream_name), row.ending]
            texts += [" ".join(row.flags)] if row.flags else []
        self._about.update(paint.content(" · ".join(map(formatting.line, texts))))

    @property
    def _ids(self) -> list[str]:
        return [entry.row.id for entry in self._entries]

    def _poll(self) -> None:
        grows = any(entry.row.outcome == "open" for entry in self._rows)
        if grows and is_seen(self) and not self._is_reading:
            _: Worker[None] = self.run_worker(self._load, group="load")

    async def _load(self) -> None:
        self._is_reading = True  # a poll during a slow read would queue another one behind it
        try:
            with ErrorReporter(self._fail):
                version, entries = await host(self).tape.read(self._question)
                self._take(version, self._rows if entries is None else entries)
        finally:
            self._is_reading = False

    def _question(self, source: "TapeSource") -> tuple["Version", list[RankedExchange] | None]:
        """Return the exchanges, None if nobody has written since they were read, and the version of the tape."""
        version = source.version()
        return version, None if version == self._version else source.entries(self._numbers)

    def _take(self, version: "Version", entries: list[RankedExchange]) -> None:
        """Show the entries read; a number that belongs to another exchange now, on another tape, is gone."""
        self._version = version
        ids = self._ids_by_number
        self._rows = [entry for entry in entries if ids.setdefault(entry.no, entry.row.id) == entry.row.id]
        self._entries = [entry.by_now(host(self).clock) for entry in self._rows]
        self._show()

    def _show(self) -> None:
        entries = ranking.ordered(self._entries, self._by, reverse=self._reverse)
        self._table.show(entries, self._by, reverse=self._reverse)
        if not entries:
            self._fail(GONE)
            return
        missing_count = len(self._numbers) - len(entries)
        hosts = {formatting.line(formatting.server(entry.row.upstream, entry.row.upstream_name)) for entry in entries}
        by = "" if self._by is None else f" · by {LABELS[self._by]}"
        together = f" · all {hosts.pop()}" if len(hosts) == 1 else ""
        missing = f" · {missing_count} more: not on the tape any more" if missing_count else ""
        title = f" · {counted(len(entries), 'exchange')}{by}{together}"
        self._head.show([("compare", "strong"), (title, "plain"), (missing, "warning")])

    def _fail(self, trouble: str) -> None:
        self._head.show([("compare", "strong"), (f" · {trouble}", "error")])


def comparison(numbers: Sequence[int]) -> Screen[None]:
    """Return the screen that compares exchanges, at least two: two race, more stand in a table."""
    a, b, *others = numbers
    return CompareManyScreen(list(numbers)) if others else CompareScreen(a, b)
