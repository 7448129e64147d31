"""Two exchanges side by side, played on one clock; below it their gaps and their figures.

Keys become commands here. The data of both exchanges are in `wiretape.viewer.exchange.race`.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, Final

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.worker import Worker

from wiretape.recorder.decode.exchange import Standing
from wiretape.viewer.exchange import pages
from wiretape.viewer.exchange.opened import Known
from wiretape.viewer.exchange.pulse import Pulse
from wiretape.viewer.exchange.race import ALIGNMENTS, Lane, Race, clock, instead, status
from wiretape.viewer.exchange.race_drawing import Drawing
from wiretape.viewer.listing import ranking
from wiretape.viewer.record import units
from wiretape.viewer.record.rows import DetailRow
from wiretape.viewer.source.base import POLL_SECONDS
from wiretape.viewer.text import diff, formatting
from wiretape.viewer.text.diff import Divergence
from wiretape.viewer.timing.playback import Move
from wiretape.viewer.tui import bindings
from wiretape.viewer.tui.base.host import Host, host, is_seen
from wiretape.viewer.tui.compare.lane import LanePane, ScoreTable
from wiretape.viewer.tui.dialogs import offers
from wiretape.viewer.tui.playing.driver import Driver, PlaybackScreen
from wiretape.viewer.tui.playing.loader import Loader
from wiretape.viewer.tui.playing.timeline import RaceStrips
from wiretape.viewer.tui.widgets.bar import HeaderLine
from wiretape.viewer.tui.widgets.footer import KeyLine

_STRIPS: Final = 4
"""Rows of a race without its curves."""


class RaceSide:
    """The exchange `no`; `lane` is None before all of it was read.

    `trouble` is the error in reading it, None without one; whenever that changes, `on_failure` is called.
    """

    def __init__(self, host: Host, no: int, on_failure: Callable[[], None]) -> None:
        self.pulse = Pulse(host.clock)
        self.loader = Loader(host, no, self._take_facts, self.pulse.take, self._fail)
        self.lane: Lane | None = None
        self.trouble: str | None = None
        self._clock, self._on_failure = host.clock, on_failure
        self._lane_row: DetailRow | None = None

    @property
    def row(self) -> DetailRow:
        """Its row when its lane was made; of a running one with its duration, of a lost one an orphan's."""
        assert self._lane_row is not None
        if self._lane_row.outcome != "open":
            return self._lane_row
        outcome: Standing = "orphan" if self.pulse.died else self._lane_row.outcome
        return dataclasses.replace(self._lane_row, duration_ms=self.pulse.end_ns / 1e6, outcome=outcome)

    def take(self) -> bool:
        """Make a lane of the data read; return True if anything has changed."""
        facts, exchange = self.loader.facts, self.loader.exchange
        if facts is None or exchange is None:
            return False
        lane, runs = self.lane, self.pulse.runs
        stalls = exchange.stall_spans
        is_same = lane is not None and lane.transcript is exchange.transcript and lane.is_live == runs
        if is_same and lane is not None and lane.stalls == stalls and self._lane_row == facts.row:
            return False
        self._lane_row = facts.row
        first_ns = units.ns(facts.row.derived["ttf_byte_ms"])
        self.lane = Lane(exchange.transcript, self.pulse.end_ns, first_ns, stalls=stalls, is_live=runs)
        return True

    def _take_facts(self, facts: Known) -> None:
        self.trouble = None
        self.pulse.know(facts.row.started_at, died=pages.is_dead(facts, self._clock.wall_ns()))

    def _fail(self, trouble: str) -> None:
        self.trouble = trouble
        self._on_failure()


class CompareScreen(PlaybackScreen):
    """Lets two exchanges race: A is the first, B the second, and a difference is B − A."""

    DEFAULT_CSS = """
    CompareScreen { layout: vertical; overflow: hidden; }
    CompareScreen #lanes { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = bindings.of(*bindings.RACE)

    def __init__(self, first_no: int, second_no: int) -> None:
        super().__init__()
        self._numbers = first_no, second_no
        self._sides: list[RaceSide] = []
        self._race: Race | None = None
        self._driver: Driver | None = None
        self._divergence: Divergence | None = None
        self._parted = False
        self._drawing = Drawing()
        self._drawn_for: tuple[Any, ...] = ()
        # Kept here, and not looked up: an answer may come when the screen has been left.
        self._head = HeaderLine()
        self._panes, self._strips, self._table = (LanePane("A"), LanePane("B")), RaceStrips(), ScoreTable(id="scores")

    def compose(self) -> ComposeResult:
        """Lay out the title, the lanes, the race and the figures."""
        yield self._head
        with Horizontal(id="lanes"):
            yield from self._panes
        yield self._strips
        yield self._table
        yield KeyLine()

    def on_mount(self) -> None:
        self._head.show([("compare", "strong"), (" · reading …", "muted")])
        self._sides = [RaceSide(host(self), no, self._show_title) for no in self._numbers]
        _: Worker[None] = self.run_worker(self._load, exclusive=True, group="load")
        self.set_interval(POLL_SECONDS["screen"], self._poll)

    def on_unmount(self) -> None:
        for side in self._sides:
            side.loader.close()

    def on_resize(self) -> None:
        self.call_after_refresh(self._lay_out)  # the panes have their sizes only then

    def on_race_strips_strips_resized(self) -> None:
        self._show_race()

    def copies(self) -> list[tuple[str, str]]:
        """Return the texts to copy: the command for these figures, the ids, the texts, as soon as each is known."""
        if not (ids := self._ids):
            return []
        answers = () if self._race is None else self._race.texts
        texts = [(f"text of {name}", text) for name, text in zip("AB", answers, strict=False)]
        ids_by_name = [(f"id of {name}", id) for name, id in zip("AB", ids, strict=True)]
        return [("command", offers.command(host(self).tape.place, "compare", *ids)), *ids_by_name, *texts]

    def exports(self) -> list[tuple[str, list[str]]]:
        """Return the exports: both exchanges, their chunks, their reads."""
        if not (ids := self._ids):
            return []
        exported = offers.arguments(host(self).tape.place, "export", *ids)
        tables = [(f"{table} of both", [*exported, "--table", table]) for table in ("chunks", "reads", "texts")]
        names = ("HAR", "har"), ("page", "html"), ("GIF", "gif"), ("asciicast", "asciicast")
        formats = [(f"{name} of both", [*exported, "--format", of]) for name, of in names]
        return [("both exchanges", exported), *tables, *formats]

    @property
    def _ids(self) -> list[str]:
        ids = [side.loader.facts.row.id for side in self._sides if side.loader.facts is not None]
        return ids if len(ids) == len(self._numbers) else []

    def action_align(self) -> None:
        self._command(lambda race: race.align(ALIGNMENTS[(ALIGNMENTS.index(race.alignment) + 1) % len(ALIGNMENTS)]))

    def action_swap(self) -> None:
        if self._race is not None:
            self._sides.reverse()  # as the race's own lanes are, below
            self._command(lambda race: race.swap())
            self._compare()

    def action_text(self) -> None:
        """Show the first difference of the texts, or the race again."""
        if self._race is None:
            return
        if self._divergence is None:
            self.notify(diff.sameness(*self._race.texts, growing=self._race.is_live), markup=False)
            return
        self._part(not self._parted)
        self._race.playback.pause()
        self._show()

    @property
    def undo(self) -> Callable[[], object] | None:
        """The reversal of the last step: it shows the race again in place of the difference of the texts."""
        return self.action_text if self._parted else None

    @property
    def is_live(self) -> bool:
        return self._race is not None and any(self._race.is_live)

    def command(self, change: Move, *, seeks: bool = False) -> None:
        """Change the playback of both, and show the result; a change that `seeks` ends following."""

        def move(race: Race) -> None:
            race.playback.following = race.playback.following and not seeks
            change(race.playback)

        self._command(move)

    def _command(self, change: Callable[[Race], None]) -> None:
        if self._race is not None:
            self._part(False)
            change(self._race)
            self._drive(self._race)
            self._show()

    async def _load(self) -> None:
        for side in self._sides:  # from then on, a large one is decoded in a process of its own
            await side.loader.load_facts()
        for side in self._sides:
            if side.trouble is None:
                await side.loader.load_exchange()
        self._take()

    def _poll(self) -> None:
        race = self._race
        if race is None or not is_seen(self):
            return
        if any(race.is_live):
            a, b = self._sides
            race.pass_on((a.pulse.end_ns, b.pulse.end_ns))  # time passes also while nothing comes
            self._show_figures(race)
            self._show()
        if any(side.loader.is_live for side in self._sides):
            _: Worker[None] = self.run_worker(self._read_again, group="load")

    async def _read_again(self) -> None:
        for side in list(self._sides):
            await side.loader.reload()
        self._take()

    def _take(self) -> None:
        changed = [side.take() for side in self._sides]
        a, b = (side.lane for side in self._sides)
        if a is None or b is None or not any(changed):
            self._show_title()
            return
        if self._race is None:
            self._race = Race(a, b, host(self).clock.now)
            self._race.follow()  # all that has come is seen first
        else:
            self._race.grow(a, b)
        self._drive(self._race)
        self._compare()

    def _drive(self, race: Race) -> None:
        """Start playing a race, or tell its driver that its playback has changed."""
        if self._driver is None:
            self._driver = Driver(race.playback, host(self).clock, self._on_progress, self._show_race)
            _: Worker[None] = self.run_worker(self._driver.run(), group="race")
        self._driver.wake()

    def _on_progress(self) -> None:
        """Show the newly played events; if playing has caught up with a running exchange, follow it."""
        if self._race is not None:
            self._race.catch_up()
        self._show()

    def _compare(self) -> None:
        """Find where the texts part, and show all."""
        if (race := self._race) is not None:
            self._divergence = diff.divergence(*race.texts, growing=race.is_live)
            self._parted = self._parted and self._divergence is not None
            self._show_figures(race)
            self._lay_out()
            self._show()

    def _part(self, parted: bool) -> None:
        """Show the first difference of the texts, or the race."""
        if parted != self._parted:
            self._parted = parted
            self._lay_out()

    def _show_figures(self, race: Race) -> None:
        a, b = (side.row for side in self._sides)
        lengths = len(race.texts[0]), len(race.texts[1])
        part = None if self._divergence is None else self._divergence.at
        text = ranking.text_score(lengths, part, growing=any(race.is_live))
        self._table.scores = [*ranking.scores(a, b), text]

    def _lay_out(self) -> None:
        """Lay out the curves below the texts, in at least half of the room; hide them beside the first difference."""
        if (race := self._race) is not None:
            room = self.size.height - 6 - _STRIPS  # without the title, the figures and the keys
            texts = (
                pane.rows_of(lane.parts(len(lane.transcript)), room // 2 - 2)
                for pane, lane in zip(self._panes, race.lanes, strict=True)
            )
            rows = 0 if self._parted else room - 2 - max(*texts, 3)
            self._strips.styles.height = _STRIPS + (rows if rows >= 3 else 0)
            self.call_after_refresh(self._show)

    def _show(self) -> None:
        if self._race is not None:
            self._show_title()
            self._show_lanes(self._race)
            self._show_race()

    def _show_lanes(self, race: Race) -> None:
        for at, (name, lane, side) in enumerate(zip("AB", race.lanes, self._sides, strict=True)):
            pane, position, row = self._panes[at], race.positions[at], side.row
            head = f"{name} {row.id[:8]} {formatting.line(row.model)}"
            parting = self._divergence
            if self._parted and parting is not None:
                agreement = diff.description(parting, race.texts[at])
                pane.show_parting(head, [(agreement, "muted")], parting, (parting.a, parting.b)[at])
                continue
            stands = status(
                lane,
                position,
                row,
                pane.room,
                silence=side.pulse.silence(race.lane_ns(at)),
                zero_ns=lane.origin_ns(race.alignment) or 0,
            )
            is_over = position == len(lane.transcript) and not lane.is_live
            pane.show(head, stands, lane.parts(position) or instead(row, over=is_over), not is_over)

    def _show_race(self) -> None:
        """Show the clock, and the position of the playhead."""
        race, strips = self._race, self._strips
        if race is None:
            return
        drawn_for = (strips.cells, strips.size.height, race.alignment, race.lanes)
        if drawn_for != self._drawn_for or race.lags(self._drawing, strips.cells):
            self._drawing, self._drawn_for = race.drawing(strips.cells, strips.size.height - _STRIPS), drawn_for
        strips.show(clock(race), self._drawing, race.places(self._drawing, strips.cells))

    def _show_title(self) -> None:
        a, b = (side.trouble for side in self._sides)
        if a or b:
            trouble = a if a == b else " · ".join(f"{name}: {text}" for name, text in (("A", a), ("B", b)) if text)
            self._head.show([("compare", "strong"), (f" · {trouble}", "error")])
        elif self._race is not None:
            alignment = self._race.alignment
            hosts = [
                formatting.line(formatting.server(side.row.upstream, side.row.upstream_name)) for side in self._sides
            ]
            sides = f"both {hosts[0]}" if hosts[0] == hosts[1] else f"A {hosts[0]}  vs  B {hosts[1]}"
            lanes = zip("AB", self._race.lanes, strict=True)
            missing = [name for name, lane in lanes if lane.origin_ns(alignment) is None]
            without = f" ({' and '.join(missing)} without: by its request)" if missing else ""
            self._head.show([("compare", "strong"), (f" · align: {alignment}{without} · {sides}", "plain")])
