"""Pure: two exchanges on one clock, and a status line of each.

The events of both are merged into one sequence, so that one `Playback` plays, steps, seeks, and cuts silences of both.
Alignment moves both along the time axis until their aligned events coincide: there the clock is 0, and before it
negative.
"""

import functools
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, Literal

from wiretape.recorder.decode.stalls import Span
from wiretape.viewer.exchange import race_drawing
from wiretape.viewer.exchange.events import without_nul
from wiretape.viewer.exchange.markers import label
from wiretape.viewer.exchange.race_drawing import Course, Drawing
from wiretape.viewer.exchange.states import Silence, state
from wiretape.viewer.exchange.transcript import Track, Transcript
from wiretape.viewer.record.rows import DetailRow
from wiretape.viewer.text import formatting
from wiretape.viewer.text.cells import Part as StatusPart
from wiretape.viewer.timing.playback import Playback

Alignment = Literal["request sent", "first byte", "first content", "content offset"]

ALIGNMENTS: Final[tuple[Alignment, ...]] = ("request sent", "first byte", "first content", "content offset")
"""Events that alignment makes coincide; by content offset both always show as much text: A sets the pace."""

_BETWEEN: Final = "  "


@dataclass(frozen=True, slots=True)
class LanePart:
    """A text of a lane: its kind, the length received until now, and all of it.

    It is `reasoning`, `content`, `refusal` or `tool`, or a placeholder, `instead`.
    """

    kind: str
    length: int
    text: str


class Lane:
    """One exchange of a race; `end_ns` and `first_byte_ns` are in ns since T0, the latter None if not known.

    `at` is when each event had certainly come: one without a timestamp when the next had, or at the end. `output_at`
    are the timestamps of the output chunks that have one. `is_live` says whether more events may come. Until it is
    judged, its `stalls` are None.
    """

    def __init__(
        self,
        transcript: Transcript,
        end_ns: int,
        first_byte_ns: int | None,
        *,
        stalls: Sequence[Span] | None = None,
        is_live: bool = False,
    ) -> None:
        self.transcript = transcript
        self.is_live = is_live
        self.stalls = stalls
        self.end_ns = max(end_ns, transcript.at[-1] if len(transcript) else 0)
        self.at = array("q", transcript.at)
        if not all(transcript.timed):
            next_ns = self.end_ns
            for event in range(len(self.at) - 1, -1, -1):
                next_ns = self.at[event] = self.at[event] if transcript.timed[event] else next_ns
        self._outputs = transcript.outputs
        timed = [event for event in self._outputs if transcript.timed[event]]
        self.output_at = array("q", (transcript.at[event] for event in timed))
        content = (transcript.at[event] for event in timed if transcript.kind(event) == "content")
        self._origins = {"first byte": first_byte_ns, "first content": next(content, None)}

    def origin_ns(self, alignment: Alignment) -> int | None:
        """Return the timestamp that is aligned; None if there is none."""
        return self._origins.get(alignment, 0)

    @property
    def content(self) -> Track:
        voices = self.transcript.voices
        return voices[0].content if voices else Track()

    @functools.cached_property
    def text(self) -> str:
        if not self.transcript.voices:
            return ""
        voice = self.transcript.voices[0]
        calls = "\n".join(f"{call.name.text}({call.arguments.text})" for call in voice.calls)
        return without_nul(voice.content.text or voice.refusal.text or calls)

    def parts(self, position: int) -> list[LanePart]:
        """Return the texts of all choices that are not empty, each as received after `position` events."""
        texts = (text for voice in self.transcript.voices for text in voice.texts)
        parts = (LanePart(kind, track.length(position), without_nul(track.text)) for kind, track in texts)
        return [part for part in parts if part.length]

    def outputs(self, position: int) -> int:
        return bisect_left(self._outputs, position)

    def course(self, shift_ns: int) -> Course:
        """Return the drawing of this lane on an axis that begins `shift_ns` before T0."""

        def count(at_ns: int) -> int:
            return self.transcript.characters(bisect_right(self.at, at_ns - shift_ns))

        outputs, unit_ns = [at_ns + shift_ns for at_ns in self.output_at], self.transcript.gap_unit_ns
        stalls = self.stalls and [(from_ns + shift_ns, to_ns + shift_ns) for from_ns, to_ns in self.stalls]
        return Course(shift_ns, outputs, self.end_ns + shift_ns, count, unit_ns, self.is_timed, self.is_live, stalls)

    def reached_ns(self, length: int) -> int:
        """Return the timestamp at which all texts together had a length that they reach, in ns since T0."""
        position = bisect_left(range(len(self.at) + 1), length, key=self.transcript.characters)
        return self.at[position - 1] if position else 0

    @property
    def is_timed(self) -> bool:
        """True if each output chunk has a timestamp."""
        return len(self._outputs) == len(self.output_at)

    def instant_ns(self, position: int) -> int | None:
        """Return the timestamp of the last of `position` events; None before the first, and where it is unknown."""
        return self.transcript.at[position - 1] if position and self.transcript.timed[position - 1] else None

    def gap_ns(self, position: int) -> int | None:
        """Return the last time between output chunks that had ended after `position` events; None if there was none."""
        count = self._timed_outputs(position)
        return self.output_at[count - 1] - self.output_at[count - 2] if count > 1 else None

    def chunks_per_s(self, position: int) -> float | None:
        """Return the rate of output chunks after the first, up to `position` events; None if none took time."""
        count = self._timed_outputs(position)
        lasted = self.output_at[count - 1] - self.output_at[0] if count > 1 else 0
        return (count - 1) * 1e9 / lasted if lasted else None

    def _timed_outputs(self, position: int) -> int:
        return bisect_right(self.output_at, self.at[position - 1]) if position else 0


class Race:
    """Two lanes and the clock that drives both; `playback` is played, its positions are counted in merged events."""

    def __init__(self, a: Lane, b: Lane, now: Callable[[], int], alignment: Alignment = "request sent") -> None:
        self.lanes = a, b
        self.alignment = alignment
        self._counts: tuple[Sequence[int], Sequence[int]] = (), ()
        self._shifts = 0, 0
        self._at: Sequence[int] = ()
        self.playback = Playback((), 0, now)
        self._merge()

    def catch_up(self) -> None:
        """Follow the end of a running exchange once playing has reached it."""
        if any(self.is_live):
            self.playback.catch_up()

    def follow(self) -> None:
        self.playback.pause()
        self.playback.seek_to(self.playback.end_ns)
        self.playback.following = any(self.is_live)

    def align(self, alignment: Alignment) -> None:
        """Change the alignment: A stays where it is, B moves; at the start both stay there. Playing goes on."""
        self.alignment = alignment
        self._merge()

    def grow(self, a: Lane, b: Lane) -> None:
        """Replace the lanes by their present versions: the playhead stays, unless it follows the end."""
        self.lanes = a, b
        self._merge()

    def pass_on(self, ends_ns: tuple[int, int]) -> None:
        """Extend each lane that runs to its `ends_ns`, in ns since its T0, while nothing comes of it."""
        for lane, end_ns in zip(self.lanes, ends_ns, strict=True):
            if lane.is_live:
                lane.end_ns = max(lane.end_ns, end_ns)
        self.playback.grow(self._at, self._end_ns())

    def swap(self) -> None:
        media_ns = self.playback.media_ns
        self.lanes = self.lanes[1], self.lanes[0]
        self._merge()
        self._move(media_ns)

    @property
    def texts(self) -> tuple[str, str]:
        return self.lanes[0].text, self.lanes[1].text

    @property
    def is_live(self) -> tuple[bool, bool]:
        return self.lanes[0].is_live, self.lanes[1].is_live

    @property
    def origin_ns(self) -> int:
        """The position of the aligned events on the time axis."""
        return self._shifts[0] + (self.lanes[0].origin_ns(self.alignment) or 0)

    @property
    def clock_ns(self) -> int:
        """The distance of the playhead from the aligned events; negative before them."""
        return self.playback.media_ns - self.origin_ns

    @property
    def standing(self) -> str:
        """The lane that is behind, and its distance in time; "" before any text.

        After the end, it is the order in which they ended, or the lane without text.
        The lane with fewer characters is behind: by the delay in reaching their number, or by the time since the other
        exceeded it, if that is longer.
        """
        ends = [lane.end_ns + shift for lane, shift in zip(self.lanes, self._shifts, strict=True)]
        has_ended = [not live and end <= self.playback.media_ns for live, end in zip(self.is_live, ends, strict=True)]
        if self.alignment == "content offset":
            if 0 in self.positions:
                return ""
            first_ns, last_ns = (lane.at[at - 1] for lane, at in zip(self.lanes, self.positions, strict=True))
            return _order(last_ns - first_ns, "level", "{last} is {by} behind")
        counts = [lane.transcript.characters(at) for lane, at in zip(self.lanes, self.positions, strict=True)]
        behind = int(counts[1] < counts[0])
        if all(has_ended):
            if any(counts) and not all(counts):
                return f"{'AB'[behind]} has no text"
            return _order(ends[1] - ends[0], "both ended at once", "{first} ended {by} before {last}")
        if not any(counts):
            return ""
        if counts[0] != counts[1] and has_ended[behind]:
            return f"{'AB'[behind]} has ended"
        return _order(self._behind_ns(*counts), "level", "{last} is {by} behind")

    def _behind_ns(self, a: int, b: int) -> int:
        """Return the time by which B is behind A at these numbers of characters, negative if A is behind B."""
        least, ahead = min(a, b), int(b > a)
        reached_ns = [lane.reached_ns(least) + shift for lane, shift in zip(self.lanes, self._shifts, strict=True)]
        delay_ns = reached_ns[1] - reached_ns[0] if least else 0
        if a == b:
            return delay_ns
        since_ns = self.playback.media_ns - self._shifts[ahead] - self.lanes[ahead].reached_ns(least + 1)
        return max(since_ns, delay_ns) if a > b else -max(since_ns, -delay_ns)

    @property
    def positions(self) -> tuple[int, int]:
        at = self.playback.position
        return self._counts[0][at], self._counts[1][at]

    def drawing(self, cells: int, rows: int = 0) -> Drawing:
        """Draw both lanes on one axis of time, in `cells` cells, with `rows` rows for the curves of characters.

        A screen that is not laid out yet has less than none.
        """
        a, b = (lane.course(shift) for lane, shift in zip(self.lanes, self._shifts, strict=True))
        return race_drawing.draw((a, b), self.playback.end_ns, self.origin_ns, cells, max(rows, 0))

    def lags(self, drawing: Drawing, cells: int) -> bool:
        """Return True if the race is ahead of the drawing by a cell or more."""
        return (self.playback.end_ns - drawing.axis_ns) * cells > drawing.axis_ns

    def places(self, drawing: Drawing, cells: int) -> tuple[int, int]:
        """Return the cell of the playhead in either strip of `cells` cells: by content offset each has its own."""
        a, b = (
            min((self.lane_ns(lane) + self._shifts[lane]) * cells // max(drawing.axis_ns, 1), cells - 1)
            for lane in (0, 1)
        )
        return a, b

    def lane_ns(self, lane: int) -> int:
        """Return the position of the playhead in a lane, in ns since its T0; by content offset, that of its text."""
        if self.alignment == "content offset" and lane == 1:
            at, position = self.lanes[lane].at, self.positions[lane]
            return at[position - 1] if position else 0
        return self.playback.media_ns - self._shifts[lane]

    def _merge(self) -> None:
        """Merge the events of both lanes as they are aligned; the playhead stays where it is in A."""
        a, b = self.lanes
        media_ns, previous_shift = self.playback.media_ns, self._shifts[0]
        origins = [lane.origin_ns(self.alignment) or 0 for lane in self.lanes]
        self._shifts = max(origins) - origins[0], max(origins) - origins[1]
        if self.alignment == "content offset":
            counts = array("q")
            for position in range(len(a.transcript)):
                length = a.content.length(position)
                at = bisect_left(b.content.ends, length) if length else -1
                is_reached = 0 <= at < len(b.content.ends)
                counts.append(b.content.events[at] + 1 if is_reached else len(b.transcript) if length else 0)
            # Behind the last event of A, all of B has come, also the text that A lacks.
            counts.append(len(b.transcript))
            self._at, self._counts = a.at, (range(len(a.transcript) + 1), counts)
        else:
            self._at, self._counts = _merged(a.at, b.at, self._shifts)
        self.playback.grow(self._at, self._end_ns())
        self._move(media_ns + self._shifts[0] - previous_shift if media_ns else 0)

    def _move(self, at_ns: int) -> None:
        self.playback.seek_to(at_ns)
        if self.playback.following:
            self.follow()
        elif self.playback.at_end:
            self.playback.pause()

    def _end_ns(self) -> int:
        return max(lane.end_ns + shift for lane, shift in zip(self.lanes, self._shifts, strict=True))


def _order(b_later_ns: int, equal: str, template: str) -> str:
    """Return a sentence on the lane that is first and the one that is last, with the time between them."""
    first_lane, last_lane = "AB" if b_later_ns > 0 else "BA"
    return (
        template.format(first=first_lane, last=last_lane, by=formatting.duration(abs(b_later_ns)))
        if b_later_ns
        else equal
    )


def _merged(
    a: Sequence[int], b: Sequence[int], shifts: tuple[int, int]
) -> "tuple[array[int], tuple[array[int], array[int]]]":
    """Merge the timestamps of two lanes, and count for each place how many of either have come by then."""
    tagged = sorted([*((at + shifts[0], 0) for at in a), *((at + shifts[1], 1) for at in b)])
    counts = array("q", [0]), array("q", [0])
    for _, lane in tagged:
        counts[lane].append(counts[lane][-1] + 1)
        counts[1 - lane].append(counts[1 - lane][-1])
    return array("q", (at for at, _ in tagged)), counts


def status(
    lane: Lane, position: int, row: DetailRow, room: int, *, silence: Silence | None = None, zero_ns: int = 0
) -> list[StatusPart]:
    """Return the status of a lane after `position` events: as much as fits `room` cells, the most telling first.

    Tokens come from usage: before the end, their rate is estimated from output chunks, marked `~`. `silence` is the one
    that the playhead stands in. Times count from `zero_ns`, in ns since T0.
    """
    is_end = position == len(lane.transcript)
    parts: list[StatusPart] = []
    if is_end:
        ending = state(row)
        parts.append((f"{ending.sign} {ending.word}", ending.tone))
    if silence is not None:
        parts.append((str(silence), "error" if silence.stalled else "warning"))
    ttft, gap, at = row.ttft_ms, lane.gap_ns(position), lane.instant_ns(position)
    if lane.outputs(position):
        ttft_text = f"T {formatting.UNKNOWN if ttft is None else f'{ttft:,.0f} ms'}"
    else:
        unread = "not decoded" if "unknown_payload" in row.flags else "no output"
        ttft_text = unread if is_end and not lane.is_live else "no output yet"
    figures = [
        ttft_text,
        f"{label(position)}/{label(len(lane.transcript))}",
        _rate(lane, position, row),
        "" if gap is None else f"gap {formatting.ms(gap / 1e6)} ms" if gap else "same read",
        ""
        if not position
        else "time unknown"
        if at is None
        else formatting.timestamp_with_unit(at - zero_ns, "+" * (lane.is_live and is_end)),
        f"{lane.content.length(position):,} ch",
    ]
    parts += [(figure, "muted") for figure in figures if figure]
    ends = list(accumulate(len(_BETWEEN) + len(text) for text, _ in parts[1:]))
    visible_parts = parts[1 : 1 + bisect_right(ends, room - len(parts[0][0]))]
    return [parts[0], *((_BETWEEN + text, tone) for text, tone in visible_parts)]


def _rate(lane: Lane, position: int, row: DetailRow) -> str:
    """Return the tokens a second, withheld where the row withholds them; where none are counted, the output chunks."""
    if row.tps_user is not None and position == len(lane.transcript):
        return f"{row.tps_user:,.1f} tok/s"
    rate = lane.chunks_per_s(position)
    if rate is None or "burst" in row.flags:
        return ""
    per_chunk = row.derived["tokens_per_chunk"]
    return f"{rate:,.1f} chunks/s" if per_chunk is None else f"~{rate * per_chunk:,.1f} tok/s"


def instead(row: DetailRow, *, over: bool) -> list[LanePart]:
    """Return the placeholder for an exchange without text."""
    text = f"no text: {formatting.line(row.ending)}"
    return [LanePart("instead", len(text), text)] if over else []


def clock(race: Race) -> str:
    """Return the time since the alignment point, in words as the inspector's, and which lane is behind."""
    playback, zero = race.playback, race.origin_ns
    state = "● following" if race.playback.following else "▶ racing" if playback.playing else "‖ paused"
    speed = "max" if playback.speed == float("inf") else f"{playback.speed:g}×"
    idle = "" if playback.cap_ns is None else f" · idle ≤ {playback.cap_ns / 1e9:g} s"
    end_ns = playback.end_ns - zero
    start = f"{formatting.timestamp(-zero, end_ns)} … " if zero else ""
    length = f"{start}{formatting.timestamp_with_unit(end_ns, '+' * any(race.is_live))}"
    standing = f" · {race.standing}" if race.standing else ""
    return f"race · {formatting.timestamp(race.clock_ns, end_ns)} of {length}{standing} · {speed}{idle} · {state}"
