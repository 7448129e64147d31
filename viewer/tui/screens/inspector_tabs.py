"""The tabs of the inspector: the line above its panes, and what is shown side by side for each."""

from typing import Final

from viewer.model.streams import Tone

PANES: Final = ("replay", "events", "raw", "request", "timing", "notes")
"""The panes by their numbers, from 1."""


def boxes(pane: int, *, wide: bool, zoomed: bool) -> tuple[str, ...]:
    """Give what is shown for a pane, from left to right; where there is little room, or one is zoomed, only one."""
    if pane == 0:
        return PANES[:2] if wide and not zoomed else PANES[:1]
    if pane == 2:
        return ("bytes",) if zoomed else ("tree", "bytes")
    return (PANES[pane],)


def tabs(pane: int, told: str, width: int) -> list[tuple[str, Tone]]:
    """Give the pieces of the line, first the tabs with the one of `pane` set off, then, if there is room, `told`."""
    pieces: list[tuple[str, Tone]] = [
        (f" {number + 1} {name.title()} ", "strong" if number == pane else "muted") for number, name in enumerate(PANES)
    ]
    room = width - sum(len(text) for text, _ in pieces) - len(told) - 1
    if room > 0:
        pieces += [(" " * room, "muted"), (told, "muted")]
    pieces[pane] = (f"▌{pieces[pane][0][1:]}", "accent")
    return pieces
