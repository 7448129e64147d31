"""What the list says of its tape around it: the header's two ends, the filter's count, and what fills an empty list.

All of it is made of what `Listing` knows, as parts with their tones; where it stands is the screen's.
"""

from collections.abc import Iterable
from pathlib import Path

from recorder.errors import NotFound, SchemaMissing
from recorder.plurals import counted
from viewer.model.listing import notices
from viewer.model.states import Part
from viewer.tui.list.listing import Listing


def tape(path: Path, listing: Listing, extra: Iterable[tuple[int, str]], *, following: bool) -> list[Part]:
    """Name the tape, and count what is on it; `extra` are other counts, left out where they are 0."""
    parts: list[Part] = [(path.name, "strong")]
    change = listing.change
    if change is not None:
        parts.append((f" · {counted(change.total, 'exchange')}", "plain"))
        if change.running:
            parts.append((f" · {change.running:,} open", "accent"))
    parts += [(f" · {number:,} {word}", "accent") for number, word in extra if number]
    return [*parts, (" · following", "accent")] if following else parts


def unsorted(listing: Listing) -> list[tuple[int, str]]:
    """Count what does not stand where it belongs: what has come, and what has ended, since the list was sorted."""
    catalog, sorts = listing.catalog, ": R sorts them in"
    return [(catalog.arrived, f"new{'' if catalog.ended else sorts}"), (catalog.ended, f"ended{sorts}")]


def recorder(listing: Listing) -> list[Part]:
    """Say who records, or that the tape keeps us waiting."""
    if listing.is_busy:
        return [("busy: waiting for the tape", "warning")]
    return notices.recorder_line(listing.recorder, listing.wall_ns) if listing.change is not None else []


def count(listing: Listing, filter_text: str, *, wrong: bool, typing: bool) -> list[Part]:
    """Say how many exchanges fit, and how long it took to find them.

    Nothing is said of a filter that is `wrong`; `…` while one is typed, or looked for.
    """
    if listing.change is None or wrong:
        return []
    if typing or not listing.is_wanted:
        return [("…", "muted")]
    if listing.wanted.filter is None:
        return [("off: \\ switches it on", "warning")] if filter_text.strip() else []
    counted = f"{listing.fitting:,} / {listing.change.total:,}"
    return [(counted, "strong"), (f" · {listing.took_ns / 1e6:,.0f} ms", "muted")]


def nothing(path: Path, listing: Listing) -> notices.Lines | None:
    """Say why there is nothing to list; None if there is something, or a filter is why."""
    if listing.is_unread and listing.trouble is not None:
        is_awaited = isinstance(listing.trouble, NotFound | SchemaMissing)
        return notices.no_tape(path) if is_awaited else notices.failed(listing.trouble)
    if listing.change is not None and not listing.change.total:
        return notices.empty(listing.recorder, listing.wall_ns)
    return None
