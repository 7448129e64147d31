"""Two exchanges side by side, as they came, on one clock; below it their gaps and their figures.

What of either has come is `race`'s, when the next is due `playback`'s, and where the texts part `differences`'. Here
the tape is asked, keys become commands, and a worker waits for deadlines.
"""

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.screen import Screen
from textual.widgets import Footer, Static

from recorder.errors import WiretapeError
from viewer import cells
from viewer.model import differences, scoreboard
from viewer.model.differences import Divergence
from viewer.model.race import ALIGNMENTS, Lane, Race
from viewer.model.streams import state
from viewer.playback import CAPS, SPEEDS
from viewer.rows import Row
from viewer.tui import paint
from viewer.tui.hosting import host
from viewer.tui.keys import BACK, HELP
from viewer.tui.reader import Superseded
from viewer.tui.screens import offers
from viewer.tui.widgets.lane import LanePane
from viewer.tui.widgets.scores import ScoreTable
from viewer.tui.widgets.strips import RaceStrips

if TYPE_CHECKING:
    from sqlalchemy import Connection

_SECOND: Final = 1_000_000_000
_FRAME_S: Final = 1 / 30
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
        self._rows: tuple[Row, Row] | None = None
        self._race: Race | None = None
        self._divergence: Divergence | None = None
        self._parted = False
        self._moved = asyncio.Event()
        self._drawn = ("", "")
        self._drawn_for: tuple[Any, ...] = ()
        # Kept here, and not looked up: an answer may come when the screen has been left.
        self._head = Static(paint.content("compare"), id="title")
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
        """Read both exchanges."""
        self.run_worker(self._load(), exclusive=True, group="load")

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
        self._command(lambda race: race.swap())
        self._compare()

    def action_text(self) -> None:
        """Show where the texts part, or the race again."""
        if self._race is None:
            return
        if self._divergence is None:
            self.notify("both texts are the same", markup=False)
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

    async def _load(self) -> None:
        try:
            loaded = await host(self).tape.ask(lambda connection: _read(connection, self._numbers))
        except Superseded:
            return
        except WiretapeError as error:
            self._head.update(paint.content(str(error)))
            return
        (row_a, lane_a), (row_b, lane_b) = loaded
        self._rows = row_a, row_b
        self._race = Race(lane_a, lane_b, host(self).clock.now)
        self._compare()
        self._show()
        self.run_worker(self._drive(self._race), exclusive=True, group="race")

    def _compare(self) -> None:
        """Set the figures, and find where the texts part."""
        if self._rows is None or self._race is None:
            return
        texts = [lane.content.text for lane in self._race.lanes]
        self._divergence = differences.divergence(*texts)
        part = None if self._divergence is None else self._divergence.at
        text = scoreboard.text_score((len(texts[0]), len(texts[1])), part)
        from viewer.compare import pair  # it is loaded by now: the tape's thread has done so

        a, b = (set(row["flags"]) for row in self._rows)
        found = scoreboard.scores(pair(*self._rows), gaps_say_little=bool((a | b) & scoreboard.UNPACED))
        self._table.show([*found, text])
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
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._moved.wait(), wait)

    def _show(self) -> None:
        race, rows = self._race, self._rows
        if race is None or rows is None:
            return
        self._head.update(paint.content(self._title(race, rows)))
        self._show_lanes(race, rows)
        strips = self._strips
        drawn_for = (strips.cells, race.alignment, race.lanes)
        if drawn_for != self._drawn_for:
            self._drawn, self._drawn_for = race.strips(strips.cells), drawn_for
        strips.show(_clock(race), self._drawn, race.place(strips.cells), race.playback.end_ns)

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
                running = position < len(lane.transcript)
                pane.show(head, _status(race, at, row), lane.parts(position), running)

    def _title(self, race: Race, rows: tuple[Row, Row]) -> str:
        hosts = [cells.line(cells.host(row["upstream"])) for row in rows]
        sides = f"both {hosts[0]}" if hosts[0] == hosts[1] else f"A {hosts[0]}  vs  B {hosts[1]}"
        missing = [n for n, lane in zip("AB", race.lanes, strict=True) if lane.origin_ns(race.alignment) is None]
        without = f" ({' and '.join(missing)} without: by its request)" if missing else ""
        return f"compare · align: {race.alignment}{without} · {sides}"


def _read(connection: "Connection", numbers: tuple[int, int]) -> list[tuple[Row, Lane]]:
    """Read two exchanges; what takes long, decoding them and loading what compares them, is done here, in a thread."""
    import viewer.compare  # noqa: F401
    from viewer import queries
    from viewer.model.transcript import Transcript

    found = []
    for no in numbers:
        row, whole = queries.detail(connection, no), queries.whole(connection, no)
        first = row["ttf_byte_ms"]
        end = whole.facts["end_ns"] or 0
        found.append((row, Lane(Transcript(whole.decoded), end, None if first is None else round(first * 1e6))))
    return found


def _status(race: Race, at: int, row: Row) -> str:
    lane, position, instant = race.lanes[at], race.positions[at], race.instants()[at]
    gap = lane.gap_ns(position)
    told = [f"{position:,}/{len(lane.transcript):,}", f"{instant / 1e9:.3f} s"]
    if position == len(lane.transcript):  # how it ended says more than its last gap, and there is little room
        found = state(row)
        told.insert(0, f"{found.sign} {found.word}")
    else:
        told += [f"gap {cells.ms(gap / 1e6)} ms" if gap else "same read"] if gap is not None else []
    return " · ".join([*told, f"{lane.content.length(position):,} ch"])


def _clock(race: Race) -> str:
    playback = race.playback
    state = "racing" if playback.playing else "‖ paused"
    speed = "max" if playback.speed == float("inf") else f"{playback.speed:g}×"
    idle = "" if playback.cap_ns is None else f" · idle {playback.cap_ns / 1e9:g} s"
    return f"race · {race.clock_ns / 1e9:.3f} of {playback.end_ns / 1e9:.3f} s · {speed}{idle} · {state}"
