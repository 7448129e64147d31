"""Pure: a replay of one exchange, or a race of two, as a film: the frames of a terminal's screen, each with its time.

From the top: the model of each exchange, its text and its status; then a bar for each on one axis of time, as in the
viewer's list, and the clock. All recorded text in it is safe for a terminal.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Final

from wiretape.recorder.decode.silences import awaited
from wiretape.recorder.decode.stalls import DEFAULT, Thresholds
from wiretape.viewer.exchange.opened import FullExchange
from wiretape.viewer.exchange.race import Lane, Race, instead, status
from wiretape.viewer.exchange.states import silence, state
from wiretape.viewer.exchange.transcript import Transcript
from wiretape.viewer.text import formatting, waterfall, wrap
from wiretape.viewer.text.cells import Part, Tone, laid_out
from wiretape.viewer.timing.playback import RECORDED, Pace, Playback

TICK_NS: Final = 100_000_000
"""Interval at which the clock moves, in ns."""

_TONES: Final[dict[str, Tone]] = {"reasoning": "reasoning", "refusal": "warning", "tool": "accent", "instead": "muted"}
"""The tones of texts other than content, by kind."""


@dataclass(frozen=True, slots=True)
class ScreenSize:
    """The columns and lines of a terminal."""

    columns: int
    lines: int


USUAL_SIZE: Final = ScreenSize(80, 24)


@dataclass(frozen=True, slots=True)
class FilmFrame:
    """A screen, as the parts of each line, and its time in ns since the film began."""

    at_ns: int
    lines: Sequence[Sequence[Part]]


class Film:
    """A film of one or two exchanges at a pace, whose stalls are those above the limits."""

    def __init__(
        self,
        exchanges: Sequence[FullExchange],
        pace: Pace = RECORDED,
        limits: Thresholds = DEFAULT,
        size: ScreenSize = USUAL_SIZE,
    ) -> None:
        self.size = size
        self._takes = [_Take(exchange, limits) for exchange in exchanges]
        self._now_ns = 0
        lanes = [take.lane for take in self._takes]
        self._race = Race(lanes[0], lanes[1], self._clock) if len(lanes) > 1 else None
        alone = Playback(lanes[0].at, lanes[0].end_ns, self._clock)
        self._playback = pace.applied(alone if self._race is None else self._race.playback)
        self._axis = waterfall.axis(lane.end_ns for lane in lanes)

    @property
    def length_ns(self) -> int:
        return self._playback.playing_ns(self._playback.end_ns)

    def frames(self, tick_ns: int = TICK_NS, *, each_event: bool = False) -> Iterator[FilmFrame]:
        """Yield the frames, `tick_ns` apart; with one at the exact time of each event in between if `each_event`."""
        self._now_ns = 0
        self._playback.seek_to(0)
        self._playback.play()
        while True:
            yield FilmFrame(self._now_ns, self._screen())
            if not self._playback.playing:
                return
            due, tick = self._playback.deadline(), self._now_ns - self._now_ns % tick_ns + tick_ns
            # A nanosecond on, at least: else an event that is due at once would stop the film.
            self._now_ns = min(max(due, self._now_ns + 1), tick) if each_event and due is not None else tick
            self._playback.advance()

    def _clock(self) -> int:
        return self._now_ns

    def _screen(self) -> list[list[Part]]:
        at_ns, count = self._playback.media_ns, len(self._takes)
        positions = (self._playback.position,) if self._race is None else self._race.positions
        widths = [(self.size.columns - count + 1 + number) // count for number in range(count)]
        # Without the titles, the status, two rules, the axis, the clock, and a bar for each exchange.
        height = max(self.size.lines - 6 - count, 3)
        panes = [
            take.pane("AB"[number] if count > 1 else "", positions[number], at_ns, widths[number], height)
            for number, take in enumerate(self._takes)
        ]
        rows = [_beside([pane[row] for pane in panes]) for row in range(height + 2)]
        rule: list[Part] = [("─" * self.size.columns, "muted")]
        playback = self._playback
        speed = "" if playback.speed == 1 else f" · {playback.speed:g}×"
        idle = "" if playback.cap_ns is None else f" · silences ≤ {playback.cap_ns / 1e9:g} s"
        clock = f"{formatting.timestamp(at_ns, playback.end_ns)} of {formatting.timestamp_with_unit(playback.end_ns)}"
        standing = self._race.standing if self._race is not None else ""
        parts: list[Part] = [
            (clock, "strong"),
            (f"{speed}{idle}", "muted"),
            (f" · {standing}" * bool(standing), "plain"),
        ]
        foot = [*laid_out(parts, self.size.columns, right=False)]
        return [*rows[:1], rule, *rows[1:], rule, *self._bars(at_ns), foot]

    def _bars(self, at_ns: int) -> Iterator[list[Part]]:
        margin = 2 if len(self._takes) > 1 else 0
        cells = self.size.columns - margin
        for name, take in zip("AB", self._takes, strict=False):
            yield [(f"{name} "[:margin], "strong"), *laid_out(take.bar(at_ns, self._axis, cells), cells, right=False)]
        yield [(" " * margin, "plain"), (waterfall.head("", self._axis, cells), "muted")]


class _Take:
    """One exchange of a film."""

    def __init__(self, full: FullExchange, limits: Thresholds) -> None:
        transcript, end_ns = Transcript(full.decoded), full.last_ns or 0
        transcript.come_by(end_ns)
        first_ns = next((read.at_ns for read in full.reads if read.size), None)
        self.row, self.lane, self._limits = full.row, Lane(transcript, end_ns, first_ns), limits
        self._reads_at = sorted(full.reads.at_ns)
        timed = [event for event in transcript.outputs if transcript.timed[event]]
        answers = (transcript.at[event] for event in timed if transcript.kind(event) != "reasoning")
        self._answer_ns = next(answers, None)
        self._stalls = [stall for answer in awaited(full.exchange, full.decoded) for stall in answer.stalls(limits)]

    def pane(self, name: str, position: int, at_ns: int, width: int, height: int) -> list[list[Part]]:
        """Return the lines of its title, of the end of its text, and of its status."""
        title: list[Part] = [(f"{name} "[: 2 * len(name)], "strong"), (formatting.line(self.row.model), "strong")]
        title.append((f"  {self.row.id[:8]}  {formatting.line(formatting.host(self.row.upstream))}", "muted"))
        is_over = position == len(self.lane.transcript) and at_ns >= self.lane.end_ns
        parts = self.lane.parts(position) or instead(self.row, over=is_over)
        texts = wrap.tail(((part.kind, part.text, part.length) for part in parts), width - 1, height)
        lines: list[list[Part]] = [[(text, _TONES.get(kind, "plain"))] for kind, text in texts] or [[]]
        if not is_over:
            lines[-1].append(("▏", "accent"))
        lines += [[] for _ in range(height - len(lines))]
        figures = (
            status(self.lane, position, self.row, width) if is_over else self._running_status(position, at_ns, width)
        )
        return [[*laid_out(line, width, right=False)] for line in (title, *lines, figures)]

    def _running_status(self, position: int, at_ns: int, width: int) -> list[Part]:
        """Return the status before the end: that is not known yet, though all events may have come."""
        read_count = bisect_right(self._reads_at, at_ns)
        last_ns = self._reads_at[read_count - 1] if read_count else None
        is_idle = self.lane.transcript.is_idle_at(at_ns)
        quiet = None if is_idle else silence(at_ns, last_ns, self._limits)
        if not len(self.lane.transcript):
            return [] if quiet is None else [(str(quiet), "warning")]
        return status(self.lane, min(position, len(self.lane.transcript) - 1), self.row, width, silence=quiet)

    def bar(self, at_ns: int, axis: waterfall.Axis, cells: int) -> list[Part]:
        """Draw its phases until a time, as the list would have at that time: nothing of what is still to come."""
        lane = self.lane
        now_ns = min(at_ns, lane.end_ns)
        output_count = bisect_right(lane.output_at, now_ns)
        answer_ns = self._answer_ns if self._answer_ns is not None and self._answer_ns <= now_ns else None
        first_ns, last_ns = (lane.output_at[0], lane.output_at[output_count - 1]) if output_count else (None, None)
        thought_ns = answer_ns - first_ns if answer_ns is not None and first_ns is not None else None
        stalls = self._stalls[: bisect_right(self._stalls, now_ns, key=itemgetter(1))]
        bar = waterfall.PhaseBar(now_ns, first_ns, answer_ns, thought_ns or None, last_ns, stalls)
        exchange_state = state(self.row)
        ending = exchange_state.sign if at_ns >= lane.end_ns else ""
        cells_of_phases = waterfall.draw(bar, axis, cells, ending or " ")
        return [
            (text, exchange_state.tone if phase == "end" else waterfall.TONES[phase]) for text, phase in cells_of_phases
        ]


def _beside(lines: Sequence[list[Part]]) -> list[Part]:
    """Return the lines of two panes as one."""
    first_line, *other_lines = lines
    return [*first_line, *(part for line in other_lines for part in (("│", "muted"), *line))]
