"""The figures of what a filter selects: a table of groups, a map over time, and the ways in which exchanges failed.

All figures are those of `wiretape stats`, read by `overview` in the tape's thread; `y` gives the command that prints
them. What is under the cursor can be opened: `drilling` says which filter selects it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from textual.app import ComposeResult
from textual.binding import ActiveBinding, Binding, BindingType
from textual.geometry import Size
from textual.screen import Screen
from textual.widgets import Static

from recorder.errors import WiretapeError
from recorder.plurals import counted
from viewer import formatting
from viewer.filters.parser import FilterError
from viewer.model import settings
from viewer.model.listing import drilling, groups
from viewer.model.states import Part
from viewer.rows import Row
from viewer.stats import heatmap
from viewer.stats.heatmap import METRICS, Heatmap
from viewer.tui.base import paint
from viewer.tui.base.host import Superseded, host
from viewer.tui.base.keys import BACK, HELP
from viewer.tui.dialogs import offers
from viewer.tui.dialogs.menus import AskScreen
from viewer.tui.stats.failures import FailureLine
from viewer.tui.stats.figures import Figures, Groups
from viewer.tui.stats.groups import GroupTable
from viewer.tui.stats.heat import HeatGrid
from viewer.tui.widgets.footer import KeyLine
from viewer.tui.widgets.header import HeaderLine

if TYPE_CHECKING:
    from viewer.stats.overview import Failures

T = TypeVar("T")

WINDOWS: Final = (
    ("all", ""),
    ("24 h", "since:-24h"),
    ("6 h", "since:-6h"),
    ("1 h", "since:-1h"),
    ("15 min", "since:-15m"),
)
"""How far back the screen looks, as people say it and as a filter."""

_HEADS: Final = {
    "gap": "gaps between reads with output",
    "ttft": "time to the first output (TTFT)",
    "tps": "tokens a second of each exchange",
}
_OTHER_LINES: Final = 8
_LEAST_BANDS: Final = 5
_KEPT_LINES: Final = 3


@dataclass(slots=True)
class _Shown:
    """What has been read: the filter and the groups that it is of, and the answers so far.

    The filter is such that it goes on to mean the same.
    """

    filter_text: str = ""
    by: str = groups.GROUPS[0]
    rows: list[Row] = field(default_factory=list)
    total: Row | None = None
    pooled: bool = False
    too_many: bool = False
    heat: Heatmap | None = None
    failures: "list[Failures]" = field(default_factory=list)
    labels: list[str] = field(default_factory=list)


class StatsScreen(Screen[None]):
    """Counts, times and rates what a filter selects."""

    DEFAULT_CSS = """
    StatsScreen { layout: vertical; }
    StatsScreen #told { color: $text-muted; height: 1; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *HELP,
        Binding("enter", "open", "drill down", key_display="enter", id="stats.open"),
        Binding("tab", "group(1)", "group", id="stats.group"),
        Binding("shift+tab", "group(-1)", "group before", show=False, id="stats.group_back"),
        Binding("H", "metric", "gap/ttft/tps", id="stats.metric"),
        Binding("T", "window", "window", id="stats.window"),
        Binding("slash", "filter", "filter", id="stats.filter"),
        Binding("apostrophe", "views", "saved views", show=False, key_display="'", id="stats.views"),
        Binding("R", "reload", "read again", show=False, id="stats.reload"),
        BACK,
    ]

    def __init__(self, filter_text: str) -> None:
        super().__init__()
        self._filter_text = filter_text
        self._window = 0
        self._by = groups.GROUPS[0]
        self._metric = METRICS[0]
        self._slo = settings.read().slo
        self._shown = _Shown()
        self._trouble: str | None = None
        self._is_reading = False
        # Kept here, and not looked up: an answer may come when the screen has been left.
        self._first_line, self._last_line = HeaderLine(), Static(paint.content(""), id="told")
        self._grouped, self._heat, self._failed = GroupTable(), HeatGrid(), FailureLine()

    def compose(self) -> ComposeResult:
        """Lay out the title, the table, the map, the failures, and a line about the cursor."""
        yield self._first_line
        yield self._grouped
        yield self._heat
        yield self._failed
        yield self._last_line
        yield KeyLine()

    def on_mount(self) -> None:
        """Read what the screen shows."""
        self._grouped.focus()
        self.call_after_refresh(self.action_reload)

    def on_resize(self) -> None:
        """Lay the table out for the new width, and the map in what is left."""
        self._show_groups()
        if self._shown.rows:
            self.call_after_refresh(self._start, self._read_heat, "heat")

    def copies(self) -> list[tuple[str, str]]:
        """Give what can be copied: the command that prints these figures, and the filter."""
        command = offers.command(host(self).tape.path, *self._arguments())
        return [("command", command), ("filter", self._shown.filter_text)]

    def exports(self) -> list[tuple[str, list[str]]]:
        """Give what can be exported: the figures of the groups, and the exchanges that they are of."""
        chosen = ["-f", self._shown.filter_text] if self._shown.filter_text else []
        exported = offers.arguments(host(self).tape.path, "export", *chosen)
        return [
            (f"summary by {self._shown.by}", [*exported, "--table", "summary", "--by", self._shown.by]),
            *((table, [*exported, "--table", table]) for table in ("exchanges", "chunks", "reads")),
        ]

    def action_group(self, by: int) -> None:
        """Group by something else."""
        names = [*groups.GROUPS, *(f"label.{key}" for key in self._shown.labels)]
        self._by = names[(names.index(self._by) + by) % len(names)] if self._by in names else names[0]
        self._start(self._read_groups)

    def action_metric(self) -> None:
        """Draw the map of something else."""
        self._metric = METRICS[(METRICS.index(self._metric) + 1) % len(METRICS)]
        self._start(self._read_heat, "heat")

    def action_window(self) -> None:
        """Look less far back, or at everything again."""
        self._window = (self._window + 1) % len(WINDOWS)
        self.action_reload()

    def action_filter(self) -> None:
        """Ask for another filter."""
        self.app.push_screen(AskScreen("filter", self._filter_text, _mistake), self._filtered)

    def action_views(self) -> None:
        """Take one of the saved views for the filter."""
        from viewer.tui.dialogs.views import ViewsMenu

        self.app.push_screen(ViewsMenu(), self._filtered)

    def action_open(self) -> None:
        """List the exchanges of what is under the cursor."""
        if isinstance(self.focused, GroupTable | HeatGrid | FailureLine):
            self.focused.open()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave out of footer and help what does not apply to what is under the cursor."""
        if action == "open":
            return self._can_open()
        return action not in ("group", "metric") or bool(self._shown.rows)

    def _can_open(self) -> bool:
        """Return whether there is anything to list under the cursor."""
        if isinstance(self.focused, HeatGrid):
            found = self._shown.heat
            return found is not None and found.cell(self._heat.row, self._heat.column).count > 0
        return bool(self._shown.failures if isinstance(self.focused, FailureLine) else self._shown.rows)

    @property
    def active_bindings(self) -> dict[str, ActiveBinding]:
        """The keys that work now, help before those that every screen has."""
        found = super().active_bindings
        return {key: found[key] for key in sorted(found, key=lambda key: key != "question_mark")}

    @property
    def holds_keys(self) -> bool:
        """Whether keys are better kept until the figures are there that they are meant for."""
        return self._is_reading

    def action_reload(self) -> None:
        """Read everything again."""
        self._is_reading = True
        self._start(self._read_all)

    def on_group_table_moved(self, message: GroupTable.Moved) -> None:
        """Say what the line under the cursor is."""
        if message.row < len(self._shown.rows):
            row = self._shown.rows[message.row]
            notes = "".join(f" · {note}" for note in _notes(row))
            self._tell(
                f"enter: {counted(row['n'], 'exchange')} of {self._shown.by} {groups.name(row[self._shown.by])}{notes}"
            )

    def on_heat_grid_moved(self, message: HeatGrid.Moved) -> None:
        """Say what the cell under the cursor is."""
        if self._shown.heat is not None:
            self._tell(heatmap.described(self._shown.heat, message.row, message.column))

    def on_failure_line_moved(self, message: FailureLine.Moved) -> None:
        """Say what the failures under the cursor are."""
        if self._shown.failures:
            one = self._shown.failures[message.at]
            self._tell(f"enter: the exchanges of {groups.failure(one.outcome, one.detail, one.code, one.status)}")

    def on_group_table_opened(self, message: GroupTable.Opened) -> None:
        """List the exchanges of a group."""
        keys = [row[self._shown.by] for row in self._shown.rows]
        others = [key for at, key in enumerate(keys) if at != message.row]
        self._list(drilling.group(self._shown.by, keys[message.row], others))

    def on_heat_grid_opened(self, message: HeatGrid.Opened) -> None:
        """List the exchanges of a cell."""
        found = self._shown.heat
        if found is not None and found.cell(message.row, message.column).count:
            self._list(drilling.cell(found, message.row, message.column))

    def on_failure_line_opened(self, message: FailureLine.Opened) -> None:
        """List the exchanges that failed in one way."""
        one = self._shown.failures[message.at]
        self._list(drilling.failure(one.outcome, one.detail, one.code, one.status))

    def _list(self, terms: str) -> None:
        host(self).show_streams(drilling.joined(self._shown.filter_text, terms))

    def _filtered(self, text: str | None) -> None:
        if text is not None:
            self._filter_text = text
            self.action_reload()

    def _arguments(self) -> list[str]:
        chosen = ["-f", self._shown.filter_text] if self._shown.filter_text else []
        objective = ["--slo", self._slo] if self._slo else []
        return ["stats", *chosen, "--by", self._shown.by, *objective]

    def _start(self, reading: Callable[[], Any], group: str = "groups") -> None:
        self.run_worker(reading, exclusive=True, group=group)

    async def _read_all(self) -> None:
        """Read what is quick first: counts and map come before the gaps are pooled."""
        clock, self._trouble = host(self).clock, None
        try:
            text = drilling.joined(self._filter_text, WINDOWS[self._window][1])
            self._shown = _Shown(drilling.settled(text, clock))
        except FilterError as error:
            self._fail(str(error))
            return
        await self._read_groups()

    async def _read_groups(self) -> None:
        by, slo = self._by, self._slo
        if not await self._take(
            "groups", lambda asked: asked.figures(by, slo), lambda found: self._show_first(by, found)
        ):
            return
        if self._shown.heat is None:
            await self._read_heat()
            await self._take("groups", lambda asked: asked.failures(), self._show_failures)
        await self._take("groups", lambda asked: asked.pooled(by, slo), self._show_pooled)

    async def _read_heat(self) -> None:
        metric, room = self._metric, self._heat_room()
        await self._take("heat", lambda asked: asked.heat(metric, room), self._show_heat)

    async def _take(self, key: str, question: "Callable[[Figures], T]", show: Callable[[T], None]) -> bool:
        """Ask a question and show its answer; False if there is none, or nobody waits for it any more."""
        text = self._shown.filter_text
        try:
            answer = await host(self).tape.ask(lambda connection: question(Figures(connection, text)), key)
        except Superseded:
            return False
        except WiretapeError as error:
            self._fail(str(error))
            return False
        show(answer)
        return True

    def _show_first(self, by: str, found: Groups) -> None:
        self._is_reading = False
        self._shown.by, self._shown.pooled, self._shown.too_many = by, False, False
        self._shown.rows, self._shown.total = found
        self._show_groups()

    def _show_failures(self, answer: "tuple[list[Failures], list[str]]") -> None:
        self._shown.failures, self._shown.labels = answer
        self._failed.show(
            [
                f"{one.count:,} × {groups.failure(one.outcome, one.detail, one.code, one.status)}"
                for one in self._shown.failures
            ]
        )
        if self._failed.has_focus:
            self.on_failure_line_moved(FailureLine.Moved(self._failed.cursor))
        self._divide()

    def _show_pooled(self, found: Groups | None) -> None:
        self._shown.pooled, self._shown.too_many = True, found is None
        if found is not None:
            self._shown.rows, self._shown.total = found
        self._show_groups()

    def _show_groups(self) -> None:
        shown = self._shown
        count = sum(row["n"] for row in shown.rows)
        objective = f" · SLO {self._slo}" if self._slo else ""
        chosen = f" · {shown.filter_text}" if shown.filter_text else ""
        if shown.too_many:
            objective += " · too many gaps to pool: y has the command that does"
        elif shown.rows and not shown.pooled:
            objective += " · reading the gaps …"
        told = f" · {counted(count, 'exchange')} by {formatting.line(shown.by)} · window {WINDOWS[self._window][0]}"
        told = " · reading …" if self._is_reading and not shown.rows else told
        self._title(self._trouble, [(told, "plain"), (f"{objective}{chosen}", "accent")])
        table = self._grouped
        laid = groups.table(
            shown.by, shown.rows, max(self.size.width - GroupTable.MARGIN, 1),
            total=shown.total, objective=bool(self._slo), pooled=shown.pooled,
        )  # fmt: skip
        table.show(laid)
        self._divide()
        if not shown.rows:
            self._tell("")
        elif table.has_focus:
            self.on_group_table_moved(GroupTable.Moved(table.cursor))

    def _show_heat(self, found: Heatmap | None) -> None:
        self._shown.heat = found
        grid = self._heat
        if found is None:
            grid.show(None, _HEADS[self._metric], "nothing to draw: no exchange here has one")
            return
        head = f"{_HEADS[found.metric]} · {heatmap.length(found.step_s)} a column, UTC · share of its column"
        if found.same_read:
            whole = found.same_read + sum(map(sum, found.counts))
            head += f" · {100 * found.same_read / whole:.1f} % more: same read, no gap"
        grid.show(found, head)
        self._divide()
        if grid.has_focus:
            self._tell(heatmap.described(found, grid.row, grid.column))

    def _heat_room(self) -> tuple[int, int]:
        """Give how many columns and rows the map may have."""
        return self._heat.room[0], self._shares(self.size)[1]

    def _shares(self, size: Size) -> tuple[int, int, int]:
        """Give how many lines groups, map and failures have, their headings and the total apart."""
        count = len(self._shown.rows)
        free = max(size.height - _OTHER_LINES - (count > 1), 3)
        failed = max(1, min(_KEPT_LINES, free // 7))  # however many they are: they come when the map is drawn
        listed = max(1, min(count, free - failed - min(_LEAST_BANDS, free // 3)))
        return listed, max(free - failed - listed, 1), failed

    def _divide(self) -> None:
        """Divide the screen; what the map does not need the failures may have."""
        listed, drawn, failed = self._shares(self.size)
        found = self._shown.heat
        left = drawn - len(found.bands) if found is not None else 0
        self._grouped.styles.height = 1 + listed + (len(self._shown.rows) > 1)
        self._failed.styles.height = 1 + max(1, min(len(self._failed.lines(self.size.width)), failed + max(left, 0)))

    def _fail(self, trouble: str) -> None:
        self._trouble, self._is_reading = trouble, False
        self._title(trouble, [])

    def _title(self, trouble: str | None, told: list[Part]) -> None:
        self._first_line.show([("stats", "strong"), *(_wrong(trouble) if trouble else told)], [])

    def _tell(self, text: str) -> None:
        self.refresh_bindings()
        self._last_line.update(paint.content(text))


def _wrong(trouble: str) -> list[Part]:
    return [(f" · {trouble}", "error")]


def _notes(row: Row) -> Sequence[str]:
    from viewer.report.stats import explained  # what it needs is loaded by now

    return [groups.rough(row) if warning.startswith("few:") else explained(warning) for warning in row["warnings"]]


def _mistake(text: str) -> str | None:
    try:
        drilling.checked(text)
    except FilterError as error:
        return str(error)
    return None
