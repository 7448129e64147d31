"""The tabs of the inspector: the line above its panes, and what is shown side by side for each."""

from collections.abc import Sequence
from typing import Final

from viewer.model.exchange import markers
from viewer.model.exchange.clocks import Times
from viewer.model.exchange.opened import Opened
from viewer.model.states import Tone
from viewer.tui.inspector.events import EventsPane
from viewer.tui.inspector.replay import Annotation, ReplayPane

PANES: Final = ("replay", "events", "raw", "request", "timing", "notes")
"""The panes by their numbers, from 1."""


APPLIES: Final = {
    "ghost": (0,), "annotate": (0,), "markdown": (0,), "filter": (0, 1), "open": (0, 1, 5), "view": (2,)
}  # fmt: skip
"""The panes, counted from 0, to which some actions apply; the others apply to all of them."""

_SHORT: Final = 28
_GAP_ROWS: Final = ((79, 8), (51, 4), (43, 2), (0, 1))
"""From so many rows of a screen, the footer not counted, so many of them are for the gaps."""

_ANNOTATED: Final[dict[Annotation, str]] = {"none": "", "heat": "gaps as heat", "silences": "gaps in figures"}


def boxes(pane: int, *, wide: bool, zoomed: bool) -> tuple[str, ...]:
    """Give what is shown for a pane, from left to right; where there is little room, or one is zoomed, only one."""
    if pane == 0:
        return PANES[:2] if wide and not zoomed else PANES[:1]
    if pane == 2:
        return ("bytes",) if zoomed else ("tree", "bytes")
    return (PANES[pane],)


def said(opened: Opened, position: int, replay: ReplayPane) -> str:
    """Give the title of the text, with the row of the choices where there is more than one, that shown in brackets."""
    text = f"text @ {markers.label(position)}"
    if len(opened.transcript.voices) > 1:
        names = [("all", replay.choice is None), *((str(one), one == replay.choice) for one in replay.choices)]
        text += " · choices " + " ".join(f"[{name}]" if is_shown else name for name, is_shown in names) + " (c)"
    told = (_ANNOTATED[replay.annotation], "" if replay.ghost else "nothing ahead", "Markdown" * replay.markdown)
    return " · ".join((text, *(one for one in told if one)))


def part(opened: Opened | None, position: int) -> str:
    """Give the title of the tree: the event that it takes apart, or the body if there are no events."""
    return "body" if opened is not None and not len(opened.transcript) else f"event {markers.label(max(position, 1))}"


def listed(opened: Opened, events: EventsPane, asked: Sequence[str]) -> str:
    """Give the title of the events, with what was `asked` for in listing them."""
    return " · ".join((f"events {events.shown:,} / {len(opened.transcript):,}", *(text for text in asked if text)))


def timed(legend: str, axis_ns: int, times: Times, width: int) -> str:
    """Return the title of a timeline of so many ns, with as much of what explains it as fits."""
    lasts = f"{axis_ns / 1e9:.3f} s"
    clock = "" if times.is_plain else times.clock_name
    choices = (("gaps on a log scale", lasts, clock, legend), (lasts, clock, legend), (lasts, clock), (lasts,))
    texts = [" · ".join(("timeline", *(part for part in one if part))) for one in choices]
    return next((text for text in texts if len(text) <= width - 4), texts[-1])


def rows(height: int) -> tuple[int, int]:
    """Return how many rows of a timeline are for bytes, and how many for gaps, on a screen so high."""
    if height < _SHORT:
        return 0, 1
    for_gaps = next(count for least, count in _GAP_ROWS if height >= least)
    return max(for_gaps // 2, 1), for_gaps


def has_room(told: str, width: int) -> bool:
    """Say whether `told` fits beside the tabs."""
    return len(told) + sum(len(name) + 4 for name in PANES) < width - 1


def tabs(pane: int, told: str, width: int) -> list[tuple[str, Tone]]:
    """Give the pieces of the line, first the tabs with the one of `pane` set off, then, if there is room, `told`."""
    pieces: list[tuple[str, Tone]] = [
        (f" {number + 1} {name.title()} ", "strong" if number == pane else "muted") for number, name in enumerate(PANES)
    ]
    if has_room(told, width):
        room = width - sum(len(text) for text, _ in pieces) - len(told) - 1
        pieces += [(" " * room, "muted"), (told, "muted")]
    pieces[pane] = (f"▌{pieces[pane][0][1:]}", "accent")
    return pieces
