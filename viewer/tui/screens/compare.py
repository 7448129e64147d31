"""Two exchanges side by side, as they came, on one clock; below it their gaps and their figures.

What of either has come is `race`'s, when the next is due `playback`'s, and where the texts part `differences`'. Here
keys become commands, and a worker waits for deadlines. Reading each exchange, again while it runs, is `loading`'s.
"""

import asyncio
import contextlib
import functools
from collections.abc import Callable
from typing import Any, ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.screen import Screen
from textual.widgets import Footer, Static
from textual.worker import Worker

from viewer import cells, closeup
from viewer.model import differences, scoreboard, standing
from viewer.model.differences import Divergence
from viewer.model.race import ALIGNMENTS, Lane, Race
from viewer.playback import CAPS, SPEEDS
from viewer.rows import Row
from viewer.tui import paint
from viewer.tui.hosting import host
from viewer.tui.keys import BACK, HELP
from viewer.tui.screens import offers
from viewer.tui.screens.driving import aside
from viewer.tui.screens.loading import Loader
from viewer.tui.widgets.lane import LanePane
from viewer.tui.widgets.scores import ScoreTable
from viewer.tui.widgets.strips import RaceStrips

Pairing = Callable[[Row, Row], list[Row]]
"""What sets two rows beside each other."""

_SECOND: Final = 1_000_000_000
_FRAME_S: Final = 1 / 30
_POLL_S: Final = 0.15
_SHORT_ID: Final = 8


class CompareScreen(Screen[None]):
    """Lets two exchanges race: A is the first, B the second, and a difference is B − A."""

    DEFAULT_CSS = """
    CompareScreen { layout: vertical; }
    CompareScreen #title { height: 1; color: $text-primary; text-style: bold; }
    CompareScreen #title { text-wrap: nowrap; text-overflow: ellipsis; }
    CompareScreen #lanes { height: 1fr; }
    CompareScreen #lane-a { margin-right: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        HELP,
        Binding("space", "play", "race", id="replay.play"),
        Binding("comma", "step(-1)", "step", id="replay.step_back", group=Binding.Group("step both", compact=True)),
        Binding(
            "full_stop", "step(1)", "step", id="replay.step_forward", group=Binding.Group("step both", compact=True)
        ),
        Binding("less_than_sign", "faster(-1)", "slower", id="replay.slower", show=False),
        Binding("greater_than_sign", "faster(1)", "faster", id="replay.faster", show=False),
        Binding("equals_sign", "faster(0)", "normal speed", id="replay.normal_speed", show=False),
        Binding("left", "seek(-1)", "1 s back", id="replay.back", show=False),
        Binding("right", "seek(1)", "1 s on", id="replay.forward", show=False),
        Binding("shift+left,H", "jump(-10)", "10 % back", id="replay.far_back", show=False),
        Binding("shift+right,L", "jump(10)", "10 % on", id="replay.far_forward", show=False),
        Binding("home", "end(0)", "to the start", id="replay.start", show=False),
        Binding("end", "end(1)", "to the end", id="replay.end", show=False),
        Binding("i", "idle", "idle", id="replay.idle"),
        Binding("A", "align", "align", id="compare.align"),
        Binding("X", "swap", "swap", id="compare.swap"),
        Binding("d", "text", "text diff", id="compare.text"),
        BACK,
    ]

    def __init__(self, first_no: int, second_no: int) -> None:
        super().__init__()
        self._numbers = first_no, second_no
        self._loaders: list[Loader] = []
        self._troubles: dict[Loader, str] = {}
        self._rows: tuple[Row, Row] | None = None
        self._recording = True, True
        self._race: Race | None = None
        self._pair: Pairing | None = None
        self._divergence: Divergence | None = None
        self._parted = False
        self._is_reading = False
        self._moved = asyncio.Event()
        self._drawn = ("", "")
        self._drawn_for: tuple[Any, ...] = ()
        # Kept here, and not looked up: an answer may come when the screen has been left.
        self._head = Static(paint.content("compare · reading …"), id="title")
        self._panes, self._strips, self._table = (LanePane("A"), LanePane("B")), RaceStrips(), ScoreTable()

    def compose(self) -> ComposeResult:
        """Lay out the title, the lanes, the race and the figures."""
        yield self._head
        with Horizontal(id="lanes"):
            yield from self._panes
        yield self._strips
        yield self._table
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Read both exchanges, and go on looking at those that run."""
        self._loaders = [self._loader(no) for no in self._numbers]
        _: Worker[None] = self.run_worker(self._load, exclusive=True, group="load")
        self.set_interval(_POLL_S, self._poll)

    def on_unmount(self) -> None:
        """Let go of what is still being read."""
        for loader in self._loaders:
            loader.close()

    def on_resize(self) -> None:
        """Draw for the new size, once it is laid out."""
        self.call_after_refresh(self._show)

    def copies(self) -> list[tuple[str, str]]:
        """Give what can be copied: the command for these figures, the ids, the texts."""
        if self._rows is None or self._race is None:
            return []
        a, b = (row["id"] for row in self._rows)
        texts = [(f"text of {name}", lane.content.text) for name, lane in zip("AB", self._race.lanes, strict=True)]
        command = offers.command(host(self).tape.path, "compare", a, b)
        return [("command", command), ("id of A", a), ("id of B", b), *texts]

    def exports(self) -> list[tuple[str, list[str]]]:
        """Give what can be exported: both exchanges, their chunks, their reads."""
        if self._rows is None:
            return []
        exported = offers.arguments(host(self).tape.path, "export", *(row["id"] for row in self._rows))
        tables = [(f"{table} of both", [*exported, "--table", table]) for table in ("chunks", "reads", "texts")]
        return [("both exchanges", exported), *tables, ("HAR of both", [*exported, "--format", "har"])]

    async def action_play(self) -> None:
        """Play or pause; at the end from the start."""
        self._command(lambda race: race.playback.toggle())

    def action_step(self, count: int) -> None:
        """Go on or back by so many events, whichever lane's they are."""
        self._command(lambda race: race.playback.step(count))

    def action_faster(self, by: int) -> None:
        """Take the next speed up or down, or with 0 the normal one."""
        race = self._race
        if race is not None:
            at = SPEEDS.index(race.playback.speed) + by if by else SPEEDS.index(1.0)
            self._command(lambda race: race.playback.set_speed(SPEEDS[max(0, min(at, len(SPEEDS) - 1))]))

    def action_seek(self, seconds: int) -> None:
        """Go on or back by seconds."""
        self._command(lambda race: race.playback.seek_to(race.playback.media_ns + seconds * _SECOND))

    def action_jump(self, percent: int) -> None:
        """Go on or back by a share of the whole."""
        self._command(
            lambda race: race.playback.seek_to(race.playback.media_ns + race.playback.end_ns * percent // 100)
        )

    def action_end(self, at: int) -> None:
        """Go to the start (0) or to the end (1)."""
        self._command(lambda race: race.playback.seek_to(race.playback.end_ns * at))

    def action_idle(self) -> None:
        """Cut long silences shorter, or show them as long as they were."""
        self._command(lambda race: race.playback.set_cap(CAPS[(CAPS.index(race.playback.cap_ns) + 1) % len(CAPS)]))

    def action_align(self) -> None:
        """Align both by something else."""
        self._command(lambda race: race.align(ALIGNMENTS[(ALIGNMENTS.index(race.alignment) + 1) % len(ALIGNMENTS)]))

    def action_swap(self) -> None:
        """Make A of B and B of A."""
        if self._rows is None:
            return
        self._rows = self._rows[1], self._rows[0]
        self._recording = self._recording[1], self._recording[0]
        self._loaders.reverse()
        self._command(lambda race: race.swap())
        self._compare()

    def action_text(self) -> None:
        """Show where the texts part, or the race again."""
        if self._race is None:
            return
        if self._divergence is None:
            self.notify(differences.same(*self._race.texts, growing=self._race.is_live), markup=False)
            return
        self._parted = not self._parted
        self._race.playback.pause()
        self._show()

    def _command(self, command: Any) -> None:
        if self._race is not None:
            self._parted = False
            command(self._race)
            self._moved.set()
            self._show()

    def _loader(self, no: int) -> Loader:
        def fails(trouble: str) -> None:
            self._troubles[loader] = trouble
            self._show_title()

        loader = Loader(host(self), no, lambda known: None, lambda opened: None, fails)
        return loader

    async def _load(self) -> None:
        self._pair = await aside(_pairing)
        for loader in self._loaders:  # a large one is decoded beside this, from then on
            await loader.know()
        for loader in self._loaders:
            if loader not in self._troubles:
                await loader.open()
        self._take()
        if (race := self._race) is not None:
            driving = functools.partial(self._drive, race)
            _: Worker[None] = self.run_worker(driving, exclusive=True, group="race")

    def _poll(self) -> None:
        live = any(loader.is_live for loader in self._loaders)
        if live and self._race is not None and self.is_current and not self._is_reading:
            _: Worker[None] = self.run_worker(self._read_again, group="load")

    async def _read_again(self) -> None:
        self._is_reading = True
        try:
            for loader in list(self._loaders):
                self._troubles.pop(loader, None)
                await loader.again()
            self._take()
        finally:
            self._is_reading = False

    def _take(self) -> None:
        """Take over what has been read, if it is otherwise than what is shown."""
        rows = [row for loader in self._loaders if (row := _row(loader)) is not None]
        if len(rows) < len(self._loaders):
            return
        now = host(self).clock.wall()
        alive = [loader.known is not None and not closeup.is_dead(loader.known, now) for loader in self._loaders]
        if self._rows == tuple(rows) and self._recording == tuple(alive) and not self._grown():
            self._show_title()
            return
        self._rows, self._recording = (rows[0], rows[1]), (alive[0], alive[1])
        if self._race is None or self._grown():
            self._go_on([_lane(loader) for loader in self._loaders])
        self._compare()

    def _grown(self) -> bool:
        """Say whether more has come than is shown."""
        lanes = () if self._race is None else self._race.lanes
        shown = [lane.transcript for lane in lanes]
        return any(
            loader.opened is not None and loader.opened.transcript is not transcript
            for loader, transcript in zip(self._loaders, shown, strict=False)
        )

    def _go_on(self, lanes: list[Lane]) -> None:
        if self._race is None:
            self._race = Race(lanes[0], lanes[1], host(self).clock.now)
            if any(self._race.is_live):  # what runs is followed
                self._race.playback.seek_to(self._race.playback.end_ns)
        else:
            self._race.grow(lanes[0], lanes[1])
        self._moved.set()

    def _compare(self) -> None:
        """Set the figures, and find where the texts part."""
        race, rows = self._race, self._rows
        if rows is None or race is None or self._pair is None:
            return
        texts = race.texts
        self._divergence = differences.divergence(*texts, growing=race.is_live)
        self._parted = self._parted and self._divergence is not None
        part = None if self._divergence is None else self._divergence.at
        text = scoreboard.text_score((len(texts[0]), len(texts[1])), part, growing=any(race.is_live))
        self._table.show([*scoreboard.scores(self._pair(*rows), rows), text])
        self._show()

    async def _drive(self, race: Race) -> None:
        """Wait for deadlines, and let come what is due; a command wakes it."""
        while True:
            self._moved.clear()
            if race.playback.advance() or race.playback.playing:
                self._show()
            due = race.playback.deadline()
            left = None if due is None else max(due - host(self).clock.now(), 0) / 1e9
            # Between two events the clock goes on, and is seen to; the first wait lets others have their turn.
            wait = None if left is None else min(max(left, _FRAME_S / 2), _FRAME_S)
            with contextlib.suppress(TimeoutError):  # nobody has moved: the next frame
                await asyncio.wait_for(self._moved.wait(), wait)

    def _show(self) -> None:
        race, rows = self._race, self._rows
        if race is None or rows is None:
            return
        self._show_title()
        self._show_lanes(race, rows)
        strips = self._strips
        drawn_for = (strips.cells, race.alignment, race.lanes)
        if drawn_for != self._drawn_for:
            self._drawn, self._drawn_for = race.strips(strips.cells), drawn_for
        strips.show(_clock(race), self._drawn, race.places(strips.cells), race.playback.end_ns)

    def _show_lanes(self, race: Race, rows: tuple[Row, Row]) -> None:
        for at, (name, lane, row) in enumerate(zip("AB", race.lanes, rows, strict=True)):
            pane = self._panes[at]
            position = race.positions[at]
            head = f"{name} {row['id'][:_SHORT_ID]} {cells.line(row['model'])}"
            found = self._divergence
            if self._parted and found is not None:
                status = differences.told(found, lane.content.text)
                pane.part_ways(head, status, found, (found.a, found.b)[at])
            else:
                running = lane.is_live or position < len(lane.transcript)
                status = standing.told(lane, position, row, pane.size.width, recording=self._recording[at])
                pane.show(head, status, lane.parts(position), running)

    def _show_title(self) -> None:
        """Say what is compared, or what is wrong with it."""
        told = {name: self._troubles.get(loader) for name, loader in zip("AB", self._loaders, strict=True)}
        if any(told.values()):
            both = told["A"] if told["A"] == told["B"] else None
            wrong = both or " · ".join(f"{name}: {trouble}" for name, trouble in told.items() if trouble)
            self._head.update(paint.content(f"compare · {wrong}"))
        elif self._race is not None and self._rows is not None:
            self._head.update(paint.content(self._title(self._race, self._rows)))

    def _title(self, race: Race, rows: tuple[Row, Row]) -> str:
        hosts = [cells.line(cells.host(row["upstream"])) for row in rows]
        sides = f"both {hosts[0]}" if hosts[0] == hosts[1] else f"A {hosts[0]}  vs  B {hosts[1]}"
        missing = [n for n, lane in zip("AB", race.lanes, strict=True) if lane.origin_ns(race.alignment) is None]
        without = f" ({' and '.join(missing)} without: by its request)" if missing else ""
        return f"compare · align: {race.alignment}{without} · {sides}"


def _pairing() -> Pairing:
    """Load what compares two rows: that takes long."""
    from viewer.compare import pair

    return pair


def _row(loader: Loader) -> Row | None:
    """Give the row of what has been read; of one that runs, with how long it has lasted until its last read."""
    if loader.known is None or loader.opened is None:
        return None
    row = loader.known.row
    return row | {"duration_ms": loader.opened.end_ns / 1e6} if row["outcome"] == "open" else row


def _lane(loader: Loader) -> Lane:
    opened, row = loader.opened, _row(loader)
    assert opened is not None
    assert row is not None
    first = row["ttf_byte_ms"]
    first_ns = None if first is None else round(first * 1e6)
    return Lane(opened.transcript, opened.end_ns, first_ns, is_live=loader.is_live)


def _clock(race: Race) -> str:
    playback = race.playback
    state = "racing" if playback.playing else "‖ paused"
    speed = "max" if playback.speed == float("inf") else f"{playback.speed:g}×"
    idle = "" if playback.cap_ns is None else f" · idle {playback.cap_ns / 1e9:g} s"
    return f"race · {race.clock_ns / 1e9:.3f} of {playback.end_ns / 1e9:.3f} s · {speed}{idle} · {state}"
