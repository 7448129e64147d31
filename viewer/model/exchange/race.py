"""Pure: two exchanges on one clock: which of their events have come, wherever the playhead stands.

The events of both are merged into one sequence, so that one `Playback` plays, steps, seeks, and cuts the silences in
which neither says anything. Aligning moves both along the time axis until what they are aligned by comes at once: there
the clock is 0, and before it negative.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from viewer import sparkline
from viewer.model.exchange import events, waits
from viewer.model.exchange.tracks import Track
from viewer.model.exchange.transcript import OUTPUT, Transcript
from viewer.model.exchange.waits import Wait
from viewer.timing.playback import Playback

Alignment = Literal["request sent", "first byte", "first content", "content offset"]

ALIGNMENTS: Final[tuple[Alignment, ...]] = ("request sent", "first byte", "first content", "content offset")
"""What stands at the same place for both; by content offset both always show as much text: that of A sets the pace."""


@dataclass(frozen=True, slots=True)
class Part:
    """A text of a lane: what it is, how much of it has come, and all.

    It is `reasoning`, `content`, `refusal` or `tool`, or what stands `instead`.
    """

    kind: str
    length: int
    text: str


@dataclass(frozen=True, slots=True)
class Drawing:
    """Both lanes drawn on one axis, which stands for `axis_ns`; its 0 is `zero_ns` from its beginning."""

    strips: tuple[str, str] = ("", "")
    waits: tuple[Sequence[Wait], Sequence[Wait]] = ((), ())
    axis_ns: int = 0
    zero_ns: int = 0


class Lane:
    """One exchange of a race; `end_ns` and `first_byte_ns` are in ns since T0, the latter None if not known.

    `at` says of each event when it had come for certain: one whose instant is not known, when the next had come, or at
    the end. `is_live` says whether more of them may come.
    """

    def __init__(
        self, transcript: Transcript, end_ns: int, first_byte_ns: int | None, *, is_live: bool = False
    ) -> None:
        self.transcript = transcript
        self.is_live = is_live
        self.end_ns = max(end_ns, transcript.at[-1] if len(transcript) else 0)
        self.at = _certain(transcript, self.end_ns)
        self._outputs = array("q", (event for event in range(len(transcript)) if transcript.kind(event) in OUTPUT))
        self.output_at = array("q", (transcript.at[event] for event in self._outputs if transcript.timed[event]))
        self._first_byte_ns = first_byte_ns
        said = (event for event in self._outputs if transcript.kind(event) == "content" and transcript.timed[event])
        self._first_content_ns = next((transcript.at[event] for event in said), None)

    def origin_ns(self, alignment: Alignment) -> int | None:
        """Give the instant that is aligned; None if there is none."""
        if alignment == "first byte":
            return self._first_byte_ns
        return self._first_content_ns if alignment == "first content" else 0

    @property
    def content(self) -> Track:
        """The text of the first choice."""
        voices = self.transcript.voices
        return voices[0].content if voices else Track()

    @property
    def said(self) -> str:
        """What the first choice says: its content, else its refusal, else the tools that it calls, a line each."""
        if not self.transcript.voices:
            return ""
        voice = self.transcript.voices[0]
        calls = "\n".join(f"{call.name.text}({call.arguments.text})" for call in voice.calls)
        return events.said(voice.content.text or voice.refusal.text or calls)

    def parts(self, position: int) -> list[Part]:
        """Give the texts of all choices, each as far as it had come after so many events; empty ones are left out."""
        found = []
        for voice in self.transcript.voices:
            tracks = [("reasoning", voice.reasoning), ("content", voice.content), ("refusal", voice.refusal)]
            for call in voice.calls:
                tracks += [("tool", call.name), ("tool", call.arguments)]
            found += [Part(kind, track.length(position), events.said(track.text)) for kind, track in tracks]
        return [part for part in found if part.length]

    def outputs(self, position: int) -> int:
        """Count the output chunks among so many events."""
        return bisect_left(self._outputs, position)

    def instant_ns(self, position: int) -> int | None:
        """Give when the last of so many events came; None before the first, and where it is not known."""
        return self.transcript.at[position - 1] if position and self.transcript.timed[position - 1] else None

    def gap_ns(self, position: int) -> int | None:
        """Give the last time between output chunks that had ended after so many events; None if there was none."""
        before = self._timed(position)
        return self.output_at[before - 1] - self.output_at[before - 2] if before > 1 else None

    def chunks_per_s(self, position: int) -> float | None:
        """Give how many output chunks a second came after the first, of so many events; None if that says nothing."""
        before = self._timed(position)
        lasted = self.output_at[before - 1] - self.output_at[0] if before > 1 else 0
        return (before - 1) * 1e9 / lasted if lasted else None

    def _timed(self, position: int) -> int:
        return bisect_right(self.output_at, self.at[position - 1]) if position else 0


def _certain(transcript: Transcript, end_ns: int) -> "array[int]":
    known = array("q", transcript.at)
    if all(transcript.timed):
        return known
    following = end_ns
    for event in range(len(known) - 1, -1, -1):
        following = known[event] = known[event] if transcript.timed[event] else following
    return known


class Race:
    """Two lanes and the clock that drives both; `playback` is played, its positions are counted in merged events.

    `following` says whether the playhead stays at the end while that moves on.
    """

    def __init__(self, a: Lane, b: Lane, now: Callable[[], int], alignment: Alignment = "request sent") -> None:
        self.lanes = a, b
        self.alignment = alignment
        self._now = now
        self._counts: tuple[Sequence[int], Sequence[int]] = (), ()
        self._shifts = 0, 0
        self._at: Sequence[int] = ()
        self.playback = self._playback()
        self.following = False

    def toggle(self) -> None:
        """Play or pause; while the end is followed freeze, and at the end of what still runs follow it."""
        if self.following:
            self.following = False
        elif any(self.is_live) and not self.playback.playing and self.playback.at_end:
            self.following = True
        else:
            self.playback.toggle()

    def catch_up(self) -> None:
        """Follow the end of what still runs once playing has reached it."""
        if any(self.is_live) and not self.playback.playing and self.playback.at_end:
            self.following = True

    def follow(self) -> None:
        """Go to the end, and stay there as long as one of them runs."""
        self.playback.pause()
        self.playback.seek_to(self.playback.end_ns)
        self.following = any(self.is_live)

    def align(self, alignment: Alignment) -> None:
        """Align by something else: A stays where it is, B moves; at the start both stay there. Playing goes on."""
        before, (shift, _) = self.playback, self._shifts
        self.alignment = alignment
        self.playback = self._playback()
        self._go_on(before, before.media_ns - shift + self._shifts[0] if before.media_ns else 0)

    def grow(self, a: Lane, b: Lane) -> None:
        """Go on with what the lanes have become: the playhead stays, unless it follows the end; playing goes on."""
        before, (shift, _) = self.playback, self._shifts
        self.lanes = a, b
        self.playback = self._playback()
        moved = self._shifts[0] - shift if before.media_ns else 0
        self._go_on(before, before.media_ns + moved)

    def pass_on(self, ends_ns: tuple[int, int]) -> None:
        """Extend each lane that runs to its `ends_ns`, in ns since its T0, while nothing comes of it."""
        for lane, end_ns in zip(self.lanes, ends_ns, strict=True):
            if lane.is_live:
                lane.end_ns = max(lane.end_ns, end_ns)
        self.playback.grow(self._at, self._end_ns())
        if self.following:
            self.playback.seek_to(self.playback.end_ns)

    def swap(self) -> None:
        """Make A of B and B of A."""
        before = self.playback
        self.lanes = self.lanes[1], self.lanes[0]
        self.playback = self._playback()
        self._go_on(before, before.media_ns)

    @property
    def texts(self) -> tuple[str, str]:
        """All that each says, as `Lane.said`."""
        return self.lanes[0].said, self.lanes[1].said

    @property
    def is_live(self) -> tuple[bool, bool]:
        """Which of both still run."""
        return self.lanes[0].is_live, self.lanes[1].is_live

    @property
    def origin_ns(self) -> int:
        """Where on the time axis stands what is aligned."""
        return self._shifts[0] + (self.lanes[0].origin_ns(self.alignment) or 0)

    @property
    def clock_ns(self) -> int:
        """How far the playhead is from what is aligned; negative before it."""
        return self.playback.media_ns - self.origin_ns

    @property
    def positions(self) -> tuple[int, int]:
        """How many events of each lane have come."""
        at = self.playback.position
        return self._counts[0][at], self._counts[1][at]

    def drawing(self, cells: int) -> Drawing:
        """Draw the gaps of both lanes on one axis of time, in so many cells."""
        axis = self.playback.end_ns
        a, b = (self._waits(lane, shift, axis, cells) for lane, shift in zip(self.lanes, self._shifts, strict=True))
        lanes = zip(self.lanes, self._shifts, (a, b), strict=True)
        strips = [
            waits.shaded(self._strip(lane, shift, axis, cells), found, cells).rstrip(" ")
            for lane, shift, found in lanes
        ]
        return Drawing((strips[0], strips[1]), (a, b), axis, self.origin_ns)

    def lags(self, drawn: Drawing, cells: int) -> bool:
        """Say whether the race has got further than what is drawn, by a cell or more."""
        return (self.playback.end_ns - drawn.axis_ns) * cells > drawn.axis_ns

    def places(self, drawn: Drawing, cells: int) -> tuple[int, int]:
        """Give the cell of the playhead in either lane's strip of so many cells: by content offset each has its own."""
        a, b = (self.lane_ns(lane) + self._shifts[lane] for lane in (0, 1))
        return _cell(a, drawn.axis_ns, cells), _cell(b, drawn.axis_ns, cells)

    def lane_ns(self, lane: int) -> int:
        """Return where the playhead stands in a lane, in ns since its T0; by content offset, where its text does."""
        if self.alignment == "content offset" and lane == 1:
            at, position = self.lanes[lane].at, self.positions[lane]
            return at[position - 1] if position else 0
        return self.playback.media_ns - self._shifts[lane]

    def _waits(self, lane: Lane, shift: int, axis: int, cells: int) -> list[Wait]:
        """Return the waits of a lane; where an output has no timestamp they are not known."""
        if lane.outputs(len(lane.transcript)) != len(lane.output_at):
            return []
        at = [came + shift for came in lane.output_at]
        return waits.found(at, shift, lane.end_ns + shift, axis, cells)

    def _strip(self, lane: Lane, shift: int, axis: int, cells: int) -> str:
        at = [came_ns + shift for came_ns in lane.output_at]
        return sparkline.line(at, None if lane.is_live else lane.end_ns + shift, axis, cells)

    def _go_on(self, before: Playback, at_ns: int) -> None:
        self.playback.set_cap(before.cap_ns)
        self.playback.set_speed(before.speed)
        self.playback.seek_to(at_ns)
        if self.following:
            self.follow()
        if before.playing and not self.playback.at_end:
            self.playback.play()

    def _playback(self) -> Playback:
        a, b = self.lanes
        origins = [lane.origin_ns(self.alignment) or 0 for lane in self.lanes]
        self._shifts = max(origins) - origins[0], max(origins) - origins[1]
        if self.alignment == "content offset":
            self._at, self._counts = a.at, (range(len(a.transcript) + 1), _by_offset(a, b))
        else:
            self._at, self._counts = _merged(a.at, b.at, self._shifts)
        return Playback(self._at, self._end_ns(), self._now)

    def _end_ns(self) -> int:
        return max(lane.end_ns + shift for lane, shift in zip(self.lanes, self._shifts, strict=True))


def _cell(at_ns: int, axis_ns: int, cells: int) -> int:
    return min(at_ns * cells // max(axis_ns, 1), cells - 1)


def _merged(
    a: Sequence[int], b: Sequence[int], shifts: tuple[int, int]
) -> "tuple[array[int], tuple[array[int], array[int]]]":
    """Merge the instants of two lanes, and count for each place how many of either have come by then."""
    tagged = sorted([*((at + shifts[0], 0) for at in a), *((at + shifts[1], 1) for at in b)])
    counts = array("q", [0]), array("q", [0])
    for _, lane in tagged:
        counts[lane].append(counts[lane][-1] + 1)
        counts[1 - lane].append(counts[1 - lane][-1])
    return array("q", (at for at, _ in tagged)), counts


def _by_offset(a: Lane, b: Lane) -> "array[int]":
    """Count for each position of A how many events B needed for as much text; at A's end all of B have come."""
    counts = array("q")
    for position in range(len(a.transcript)):
        length = a.content.length(position)
        at = bisect_left(b.content.ends, length) if length else -1
        known = 0 <= at < len(b.content.ends)
        counts.append(b.content.events[at] + 1 if known else len(b.transcript) if length else 0)
    counts.append(len(b.transcript))
    return counts
