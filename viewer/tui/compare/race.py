"""Two exchanges side by side, as they came, on one clock; below it their gaps and their figures.

What of either has come is `race`'s, when the next is due `playback`'s, and where the texts part `differences`'. Here
keys become commands; waiting for deadlines is `driving`'s, reading each exchange `compare_sides`'.
"""

from collections.abc import Callable
from typing import Any, ClassVar, Final

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.screen import Screen
from textual.worker import Worker

from viewer import formatting
from viewer.model.exchange.clocks import seconds
from viewer.model.exchange.race import ALIGNMENTS, Drawing, Part, Race, status
from viewer.model.listing import ranking
from viewer.model.text import diff
from viewer.model.text.diff import Divergence
from viewer.rows import Row
from viewer.timing.playback import CAPS, SPEEDS
from viewer.tui.base.host import host
from viewer.tui.compare.compare_keys import KEYS
from viewer.tui.compare.compare_sides import Side
from viewer.tui.compare.lane import LanePane
from viewer.tui.compare.scores import ScoreTable
from viewer.tui.dialogs import offers
from viewer.tui.playing.driver import Driver
from viewer.tui.playing.timeline import RaceStrips, Scrubbing
from viewer.tui.widgets.bar import HeaderLine
from viewer.tui.widgets.footer import KeyLine

_SECOND: Final = 1_000_000_000
_POLL_S: Final = 0.15
_SHORT_ID: Final = 8


class CompareScreen(Screen[None]):
    """Lets two exchanges race: A is the first, B the second, and a difference is B − A."""

    DEFAULT_CSS = """
    CompareScreen { layout: vertical; }
    CompareScreen #lanes { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = KEYS

    def __init__(self, first_no: int, second_no: int) -> None:
        super().__init__()
        self._numbers = first_no, second_no
        self._sides: list[Side] = []
        self._race: Race | None = None
        self._driver: Driver | None = None
        self._divergence: Divergence | None = None
        self._parted = False
        self._is_reading = False
        self._drawing = Drawing()
        self._drawn_for: tuple[Any, ...] = ()
        # Kept here, and not looked up: an answer may come when the screen has been left.
        self._head = HeaderLine()
        self._panes, self._strips, self._table = (LanePane("A"), LanePane("B")), RaceStrips(), ScoreTable()

    def compose(self) -> ComposeResult:
        """Lay out the title, the lanes, the race and the figures."""
        yield self._head
        with Horizontal(id="lanes"):
            yield from self._panes
        yield self._strips
        yield self._table
        yield KeyLine()

    def on_mount(self) -> None:
        """Read both exchanges, and go on looking at those that run."""
        self._head.show([("compare", "strong"), (" · reading …", "muted")], [])
        self._sides = [Side(host(self), no, self._show_title) for no in self._numbers]
        self.app.app_suspend_signal.subscribe(self, lambda _: self._pause(), immediate=True)
        _: Worker[None] = self.run_worker(self._load, exclusive=True, group="load")
        self.set_interval(_POLL_S, self._poll)

    def on_unmount(self) -> None:
        """Let go of what is still being read, and be forgotten: what listens is kept."""
        self.app.app_suspend_signal.unsubscribe(self)
        for side in self._sides:
            side.loader.close()

    def on_resize(self) -> None:
        """Draw for the new size, once it is laid out."""
        self.call_after_refresh(self._show)

    def copies(self) -> list[tuple[str, str]]:
        """Give what can be copied: the command for these figures, the ids, the texts."""
        if self._race is None:
            return []
        a, b = (side.row["id"] for side in self._sides)
        texts = [(f"text of {name}", text) for name, text in zip("AB", self._race.texts, strict=True)]
        command = offers.command(host(self).tape.path, "compare", a, b)
        return [("command", command), ("id of A", a), ("id of B", b), *texts]

    def exports(self) -> list[tuple[str, list[str]]]:
        """Give what can be exported: both exchanges, their chunks, their reads."""
        if self._race is None:
            return []
        exported = offers.arguments(host(self).tape.path, "export", *(side.row["id"] for side in self._sides))
        tables = [(f"{table} of both", [*exported, "--table", table]) for table in ("chunks", "reads", "texts")]
        return [("both exchanges", exported), *tables, ("HAR of both", [*exported, "--format", "har"])]

    def action_play(self) -> None:
        """Play or pause; at the end from the start. While the end is followed, freeze there, and go on."""
        self._command(lambda race: race.toggle())

    def action_step(self, count: int) -> None:
        """Go on or back by so many events, whichever lane's they are."""
        self._seek(lambda race: race.playback.step(count))

    def action_seek(self, seconds: int) -> None:
        """Go on or back by seconds."""
        self._seek(lambda race: race.playback.seek_to(race.playback.media_ns + seconds * _SECOND))

    def action_jump(self, percent: int) -> None:
        """Go on or back by a share of the whole."""
        self._seek(lambda race: race.playback.seek_to(race.playback.media_ns + race.playback.end_ns * percent // 100))

    def action_end(self, at: int) -> None:
        """Go to the start (0) or to the end (1)."""
        self._seek(lambda race: race.playback.seek_to(race.playback.end_ns * at))

    def action_follow(self) -> None:
        """Stay at the end as long as one of them runs."""
        if self._race is not None and not any(self._race.is_live):
            self.notify("neither runs any more: there is nothing to follow", timeout=2, markup=False)
            return
        self._command(lambda race: race.follow())

    def action_faster(self, by: int) -> None:
        """Take the next speed up or down, or with 0 the normal one."""

        def change(race: Race) -> None:
            at = SPEEDS.index(race.playback.speed) + by if by else SPEEDS.index(1.0)
            race.playback.set_speed(SPEEDS[max(0, min(at, len(SPEEDS) - 1))])

        self._command(change)

    def action_idle(self) -> None:
        """Cut long silences shorter, or show them as long as they were."""
        self._command(lambda race: race.playback.set_cap(CAPS[(CAPS.index(race.playback.cap_ns) + 1) % len(CAPS)]))

    def action_align(self) -> None:
        """Align both by something else."""
        self._command(lambda race: race.align(ALIGNMENTS[(ALIGNMENTS.index(race.alignment) + 1) % len(ALIGNMENTS)]))

    def action_swap(self) -> None:
        """Make A of B and B of A."""
        if self._race is not None:
            self._sides.reverse()
            self._command(lambda race: race.swap())
            self._compare()

    def action_text(self) -> None:
        """Show where the texts part, or the race again."""
        if self._race is None:
            return
        if self._divergence is None:
            self.notify(diff.sameness(*self._race.texts, growing=self._race.is_live), markup=False)
            return
        self._parted = not self._parted
        self._race.playback.pause()
        self._show()

    def _seek(self, change: Callable[[Race], None]) -> None:
        """Move the playhead: whoever does that follows no end any more."""

        def leave(race: Race) -> None:
            race.playback.following = False
            change(race)

        self._command(leave)

    def _command(self, change: Callable[[Race], None]) -> None:
        """Change the race, and show what has become of it."""
        if self._race is not None:
            self._parted = False
            change(self._race)
            self._drive(self._race)
            self._show()

    def on_scrubbing_scrubbed(self, message: Scrubbing.Scrubbed) -> None:
        """Go to the instant that somebody points at."""
        self._seek(lambda race: race.playback.seek_to(message.at_ns))

    def _pause(self) -> None:
        """Pause, since nobody sees anything until the terminal is the viewer's again."""
        if self._race is not None and self._race.playback.playing:
            self._command(lambda race: race.playback.pause())

    async def _load(self) -> None:
        for side in self._sides:  # a large one is decoded beside this, from then on
            await side.loader.know()
        for side in self._sides:
            if side.trouble is None:
                await side.loader.open()
        self._take()

    def _poll(self) -> None:
        race = self._race
        if race is None or not self.is_current:
            return
        if any(race.is_live):
            a, b = self._sides
            race.pass_on((a.pulse.end_ns, b.pulse.end_ns))
            self._show_figures(race)
            self._show()
        if any(side.loader.is_live for side in self._sides) and not self._is_reading:
            _: Worker[None] = self.run_worker(self._read_again, group="load")

    async def _read_again(self) -> None:
        self._is_reading = True
        try:
            for side in list(self._sides):
                await side.read_again()
            self._take()
        finally:
            self._is_reading = False

    def _take(self) -> None:
        """Take over what has been read, if it is otherwise than what is shown."""
        changed = [side.take() for side in self._sides]
        a, b = (side.lane for side in self._sides)
        if a is None or b is None or not any(changed):
            self._show_title()
            return
        if self._race is None:
            self._race = Race(a, b, host(self).clock.now)
            self._race.follow()  # as in the inspector: all that has come is seen first
        else:
            self._race.grow(a, b)
        self._drive(self._race)
        self._compare()

    def _drive(self, race: Race) -> None:
        """Start playing a race, or tell its driver that its playback has changed."""
        if self._driver is None:
            self._driver = Driver(race.playback, host(self).clock, self._played, self._show_race)
            _: Worker[None] = self.run_worker(self._driver.run(), group="race")
        self._driver.wake()

    def _played(self) -> None:
        """Show what playing has brought; where it has caught up with what still runs, follow that."""
        if self._race is not None:
            self._race.catch_up()
        self._show()

    def _compare(self) -> None:
        """Find where the texts part, and show all."""
        race = self._race
        if race is not None:
            self._divergence = diff.divergence(*race.texts, growing=race.is_live)
            self._parted = self._parted and self._divergence is not None
            self._show_figures(race)
            self._show()

    def _show_figures(self, race: Race) -> None:
        a, b = (side.row for side in self._sides)
        lengths = len(race.texts[0]), len(race.texts[1])
        part = None if self._divergence is None else self._divergence.at
        text = ranking.text_score(lengths, part, growing=any(race.is_live))
        self._table.show([*ranking.scores(a, b), text])

    def _show(self) -> None:
        if self._race is not None:
            self._show_title()
            self._show_lanes(self._race)
            self._show_race()

    def _show_lanes(self, race: Race) -> None:
        for at, (name, lane, side) in enumerate(zip("AB", race.lanes, self._sides, strict=True)):
            pane, position, row = self._panes[at], race.positions[at], side.row
            head = f"{name} {row['id'][:_SHORT_ID]} {formatting.line(row['model'])}"
            found = self._divergence
            if self._parted and found is not None:
                same = diff.description(found, race.texts[at])
                pane.part_ways(head, [(same, "muted")], found, (found.a, found.b)[at])
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
            pane.show(head, stands, lane.parts(position) or _instead(row, over=is_over), not is_over)

    def _show_race(self) -> None:
        """Show the clock, and where the playhead is."""
        race, strips = self._race, self._strips
        if race is None:
            return
        drawn_for = (strips.cells, race.alignment, race.lanes)
        if drawn_for != self._drawn_for or race.lags(self._drawing, strips.cells):
            self._drawing, self._drawn_for = race.drawing(strips.cells), drawn_for
        strips.show(_clock(race), self._drawing, race.places(self._drawing, strips.cells))

    def _show_title(self) -> None:
        """Say what is compared, or what is wrong with it."""
        told = {name: side.trouble for name, side in zip("AB", self._sides, strict=True)}
        if any(told.values()):
            both = told["A"] if told["A"] == told["B"] else None
            wrong = both or " · ".join(f"{name}: {trouble}" for name, trouble in told.items() if trouble)
            self._head.show([("compare", "strong"), (f" · {wrong}", "error")], [])
        elif self._race is not None:
            self._head.show([("compare", "strong"), (self._title(self._race), "plain")], [])

    def _title(self, race: Race) -> str:
        hosts = [formatting.line(formatting.host(side.row["upstream"])) for side in self._sides]
        sides = f"both {hosts[0]}" if hosts[0] == hosts[1] else f"A {hosts[0]}  vs  B {hosts[1]}"
        missing = [n for n, lane in zip("AB", race.lanes, strict=True) if lane.origin_ns(race.alignment) is None]
        without = f" ({' and '.join(missing)} without: by its request)" if missing else ""
        return f" · align: {race.alignment}{without} · {sides}"


def _instead(row: Row, *, over: bool) -> list[Part]:
    """Give what stands where no text came of an exchange."""
    told = f"no text: {formatting.outcome(row)}" if over else ""
    return [Part("instead", len(told), told)] if told else []


def _clock(race: Race) -> str:
    """Tell the time from what is aligned, in words as the inspector's."""
    playback, zero = race.playback, race.origin_ns
    state = "● following" if race.playback.following else "▶ racing" if playback.playing else "‖ paused"
    speed = "max" if playback.speed == float("inf") else f"{playback.speed:g}×"
    idle = "" if playback.cap_ns is None else f" · idle ≤ {playback.cap_ns / 1e9:g} s"
    whole = (
        f"{f'{seconds(-zero)} … ' if zero else ''}{seconds(playback.end_ns - zero)}{'+' if any(race.is_live) else ''}"
    )
    return f"race · {seconds(race.clock_ns)} of {whole} s · {speed}{idle} · {state}"
