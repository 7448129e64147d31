"""The figures of a filter's matches: a table of groups, and the kinds of failures.

All figures are those of `wiretape stats`, which cover generations unless the filter names the operation. They are read
in the tape's thread; `y` gives the command that prints them. The item under the cursor can be opened: `drilling` makes
the filter that selects its exchanges.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import Screen
from textual.widgets import Static

from wiretape.recorder.errors import ConfigError, WiretapeError
from wiretape.recorder.plurals import counted
from wiretape.viewer import config
from wiretape.viewer.listing import drilling, groups
from wiretape.viewer.query import coverage
from wiretape.viewer.query.parser import FilterError
from wiretape.viewer.record.rows import TableRow
from wiretape.viewer.text import formatting
from wiretape.viewer.text.cells import Part
from wiretape.viewer.tui import bindings
from wiretape.viewer.tui.base import paint
from wiretape.viewer.tui.base.host import Superseded, host
from wiretape.viewer.tui.dialogs import offers
from wiretape.viewer.tui.dialogs.menus import AskScreen
from wiretape.viewer.tui.stats.groups import FailureList, GroupTable
from wiretape.viewer.tui.widgets.bar import HeaderLine
from wiretape.viewer.tui.widgets.cursor import MARGIN, CursorList
from wiretape.viewer.tui.widgets.footer import KeyLine

if TYPE_CHECKING:
    from wiretape.viewer.query.syntax import Filter
    from wiretape.viewer.source.base import Browsed, Failures, Place

T = TypeVar("T")

WINDOWS: Final = {
    "all": "",
    "24 h": "since:-24h",
    "6 h": "since:-6h",
    "1 h": "since:-1h",
    "15 min": "since:-15m",
}
"""The time windows, by their names, each as a filter."""


@dataclass(slots=True)
class StatsData:
    """The data for a filter with absolute times: the groups, and the answers received.

    `left_out` is the number of its exchanges that the figures do not cover, by operation.
    """

    filter_text: str = ""
    by: str = groups.GROUPS[0]
    rows: list[TableRow] = field(default_factory=list)
    total: TableRow | None = None
    left_out: dict[str, int] = field(default_factory=dict)
    pooled: bool = False
    too_many: bool = False
    failures: "list[Failures] | None" = None
    labels: list[str] = field(default_factory=list)


class StatsScreen(Screen[None]):
    """Counts, times and rates of a filter's matches."""

    DEFAULT_CSS = """
    StatsScreen { layout: vertical; }
    StatsScreen #about { color: $text-muted; height: 1; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
    """
    BINDINGS: ClassVar[list[BindingType]] = bindings.of(*bindings.STATS)

    def __init__(self, filter_text: str) -> None:
        super().__init__()
        self._filter_text = self._opened_with = filter_text
        self._window = next(iter(WINDOWS))
        self._by = groups.GROUPS[0]
        self._slo: str | None = None
        self.data = StatsData()
        self._trouble: str | None = None
        self.holds_keys = False
        """True if keys must wait for the figures that are being read."""
        # Kept here, and not looked up: an answer may come when the screen has been left.
        self._header, self._about = HeaderLine(), Static(paint.content(""), id="about")
        self._table, self._failed = GroupTable(), FailureList()

    def compose(self) -> ComposeResult:
        yield from (self._header, self._table, self._failed, self._about, KeyLine())

    def on_mount(self) -> None:
        self._table.focus()
        self.call_after_refresh(self.action_reload)  # the empty screen is drawn first

    def on_resize(self) -> None:
        self._show_groups()

    def copies(self) -> list[tuple[str, str]]:
        objective = ["--slo", self._slo] if self._slo else []
        command = offers.command(self._place, "stats", *self._selection(), "--by", self.data.by, *objective)
        return [("command", command), ("filter", self.data.filter_text)]

    def exports(self) -> list[tuple[str, list[str]]]:
        """Return the exports: the figures of the groups, and their exchanges."""
        has_bodies = self._place.supports("bodies")
        tables = ("exchanges", "chunks", "reads") if has_bodies else ("exchanges",)
        exported = offers.arguments(self._place, "export", *self._selection())
        return [
            (f"summary by {self.data.by}", [*exported, "--table", "summary", "--by", self.data.by]),
            *((table, [*exported, "--table", table]) for table in tables),
            *([("page", [*exported, "--format", "html"])] * has_bodies),
        ]

    @property
    def _place(self) -> "Place":
        return host(self).list_reader.place

    def _selection(self) -> list[str]:
        return ["-f", self.data.filter_text] if self.data.filter_text else []

    def action_group(self) -> None:
        self._by = _next_name([*groups.GROUPS, *(f"label.{key}" for key in self.data.labels)], self._by)
        self._start(self._read_groups)

    def action_zoom(self) -> None:
        self._window = _next_name(list(WINDOWS), self._window)
        self.action_reload()

    @property
    def undo(self) -> Callable[[], object] | None:
        if self._window == next(iter(WINDOWS)):
            return None if self._filter_text == self._opened_with else partial(self._filter, self._opened_with)
        return self._show_all

    def _show_all(self) -> None:
        self._window = next(iter(WINDOWS))
        self.action_reload()

    def action_filter(self) -> None:
        self.app.push_screen(AskScreen("filter", self._filter_text, _mistake), self._filter)

    def action_views(self) -> None:
        from wiretape.viewer.tui.dialogs.menus import ViewsMenu

        self.app.push_screen(ViewsMenu(), self._filter)

    def _filter(self, text: str | None) -> None:
        if text is not None:
            self._filter_text = text
            self.action_reload()

    def action_part(self, by: int) -> None:
        self.focus_next() if by > 0 else self.focus_previous()

    def action_open(self) -> None:
        if isinstance(self.focused, CursorList):
            self.focused.open()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "open":
            return self._can_open()
        return action != "group" or bool(self.data.rows)

    def _can_open(self) -> bool:
        return bool(self.data.failures if self.focused is self._failed else self.data.rows)

    def action_reload(self) -> None:
        self.holds_keys = True
        self._show_groups()
        self._start(self._read_all)

    def on_cursor_list_moved(self) -> None:
        """Describe the item under the cursor, and whether it can be opened."""
        data, text = self.data, ""
        if self.focused is self._failed:
            text = f"enter: the exchanges of {_name(data.failures[self._failed.cursor])}" if data.failures else ""
        elif data.rows:
            row = data.rows[self._table.cursor]
            name = groups.name(row[data.by])
            opened = f"enter: {counted(row['n'], 'exchange')} of {data.by} {name}"
            text = " · ".join(filter(None, (opened, groups.silences(row), *_notes(row))))
        self.refresh_bindings()
        self._about.update(paint.content(text))

    def on_cursor_list_opened(self, message: CursorList.Opened) -> None:
        """List the exchanges of a group, or that failed in one way."""
        data = self.data
        if not self._can_open():  # the drawing may be of the filter before, while another is read
            return
        if message.source is self._table:
            keys = [row[data.by] for row in data.rows]
            key = keys.pop(self._table.cursor)
            terms = drilling.group(data.by, key, keys)
        else:
            assert data.failures is not None
            failures = data.failures[self._failed.cursor]
            terms = drilling.failure(failures.outcome, failures.detail, failures.code, failures.status)
        covered = f"({coverage.COVERED})" if data.left_out else ""
        host(self).show_streams(drilling.joined(data.filter_text, covered, terms))

    def _start(self, reading: Callable[[], Any]) -> None:
        self.run_worker(reading, exclusive=True)

    async def _read_all(self) -> None:
        """Read the quick parts first: counts and failures come before the gaps are pooled."""
        self._trouble = None
        try:
            self._slo = config.read().slo
            text = drilling.joined(self._filter_text, WINDOWS[self._window])
            self.data = StatsData(drilling.settled(text, host(self).clock))
        except (ConfigError, FilterError) as error:
            self._fail(str(error))
        else:
            await self._read_groups()

    async def _read_groups(self) -> None:
        by, slo = self._by, self._slo
        # A server pools gaps in the same query as all else: it has no quick part.
        figures, pooled = partial(_figures, by=by, slo=slo), not self._place.supports("stages")
        if not await self._take(figures, partial(self._show_figures, by, pooled=pooled)):
            return
        if self.data.failures is None:
            await self._take(_failures, self._show_failures)
        if not pooled:
            await self._take(partial(figures, pooled=True), partial(self._show_figures, by, pooled=True))

    async def _take(self, question: "Callable[[Browsed, Filter | None], T]", show: Callable[[T], None]) -> bool:
        """Ask a question and show its answer; False if there is none, or nobody waits for it any more."""
        text = self.data.filter_text

        def filtered(source: "Browsed") -> T:
            from wiretape.viewer.query.parser import parse

            return question(source, parse(text) if text else None)

        try:
            answer = await host(self).list_reader.read(filtered, "groups")
        except Superseded:
            return False
        except WiretapeError as error:
            self._fail(str(error))
            return False
        show(answer)
        self.on_cursor_list_moved()
        return True

    def _show_figures(self, by: str, answer: "_Figures | None", *, pooled: bool) -> None:
        self.holds_keys = False
        self.data.by, self.data.pooled, self.data.too_many = by, pooled, answer is None
        if answer is not None:
            self.data.rows, self.data.total, self.data.left_out = answer
        self._show_groups()

    def _show_failures(self, answer: "tuple[list[Failures], list[str]]") -> None:
        self.data.failures, self.data.labels = answer
        self._failed.show([f"{failures.count:,} × {_name(failures)}" for failures in self.data.failures])

    def _show_groups(self) -> None:
        data = self.data
        count = sum(row["n"] for row in data.rows)
        notes = [f"SLO {self._slo}"] if self._slo else []
        if data.too_many:
            notes.append("too many gaps to pool: y has the command that does")
        elif data.rows and not data.pooled:
            notes.append("reading the gaps …")
        notes += [data.filter_text] if data.filter_text else []
        notes += [f"{coverage.described(data.left_out)}, left out"] if data.left_out else []
        title = f" · {counted(count, 'exchange')} by {formatting.line(data.by)} · window {self._window}"
        if self._trouble is None:
            title = " · reading …" if self.holds_keys and not data.rows else title
            accents: list[Part] = [(f" · {note}", "accent") for note in notes]
            self._header.show([("stats", "strong"), (title, "plain"), *accents])
        self._table.show(
            groups.table(
                data.by,
                data.rows,
                max(self.size.width - len(MARGIN), 1),
                total=data.total,
                objective=bool(self._slo),
                pooled=data.pooled,
            )
        )
        # Without the title, two headings, the line about the cursor, the keys, and three lines of failures.
        room = self.size.height - 5 - 3
        self._table.styles.height = 1 + max(min(len(data.rows) + (len(data.rows) > 1), room), 1)

    def _fail(self, trouble: str) -> None:
        self._trouble, self.holds_keys = trouble, False
        self._header.show([("stats", "strong"), (f" · {trouble}", "error")], [])


def _next_name(names: "list[str] | tuple[str, ...]", name: str) -> str:
    """Return the name that follows, or the first after one that is not among them."""
    return names[(names.index(name) + 1) % len(names)] if name in names else names[0]


def _name(failures: "Failures") -> str:
    return groups.failure(failures.outcome, failures.detail, failures.code, failures.status)


def _notes(row: TableRow) -> list[str]:
    from wiretape.viewer.report.stats import explained  # its imports are loaded by now

    notes = [explained(warning) for warning in row["warnings"] if not warning.startswith("few:")]
    return [few, *notes] if (few := groups.withheld(row)) else notes


def _mistake(text: str) -> str | None:
    try:
        drilling.check(text)
    except FilterError as error:
        return str(error)
    return None


# The questions are answered in the tape's thread, where what takes long to load is loaded.

_Figures = tuple[list[TableRow], TableRow | None, dict[str, int]]
"""The figures of each group, those of all together, and the numbers of exchanges left out."""


def _figures(
    source: "Browsed", filter_tree: "Filter | None", *, by: str, slo: str | None, pooled: bool = False
) -> _Figures | None:
    """Return all figures, those of pooled gaps only where filtered; None if there are too many gaps to hold."""
    from wiretape.viewer.source.base import Selection
    from wiretape.viewer.stats.metrics import objective

    covered = Selection(filter_tree).covered()
    overview = source.overview(by, covered, objective(slo) if slo else (), gaps=pooled)
    if overview is None:
        return None
    return overview.rows, overview.total, source.left_out(Selection(filter_tree)) if covered.generations else {}


def _failures(source: "Browsed", filter_tree: "Filter | None") -> "tuple[list[Failures], list[str]]":
    """Return the failures, and the labels that there are."""
    from wiretape.viewer.source.base import Selection

    covered = Selection(filter_tree).covered()
    return source.failures(covered), source.label_keys(covered)
