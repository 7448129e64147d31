"""Drawing a stream for the timeline of a screen, in the cells there are, beside the loop."""

import functools

from viewer.model.exchange import strips
from viewer.model.exchange.opened import Opened
from viewer.tape.exchange import Known
from viewer.timing.playback import Playback
from viewer.tui.base.host import in_thread
from viewer.tui.playing.timeline import Timeline


async def draw(timeline: Timeline, opened: Opened, playback: Playback) -> None:
    """Draw a stream that has been decoded; silences that are cut short in playing are marked."""
    reads, end = zip(opened.reads_at, opened.sizes, strict=True), playback.end_ns
    room = timeline.cells, playback.cap_ns
    work = functools.partial(
        strips.draw, opened.transcript, reads, opened.markers, end, *room, is_whole=not opened.missing
    )
    timeline.show(await in_thread(work), playback.media_ns)


async def draw_first(timeline: Timeline, known: Known, playback: Playback) -> None:
    """Draw what is known before anything is decoded."""
    work = functools.partial(strips.draw_gaps, known.row["ttft_ms"], known.gaps, known.end_ns, timeline.cells)
    timeline.show(await in_thread(work), playback.media_ns)
