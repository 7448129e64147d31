"""The words around the list: the tape's counts, the recorder's state, the matches, and why nothing is listed."""

from wiretape.recorder.commands import options
from wiretape.recorder.errors import NotFound, SchemaMissing, TapeGone
from wiretape.recorder.plurals import counted
from wiretape.recorder.sanitize import safe
from wiretape.viewer.listing import notices
from wiretape.viewer.listing.lanes import LEGEND
from wiretape.viewer.text.cells import Part
from wiretape.viewer.tui.base.host import Host
from wiretape.viewer.tui.list.filter import FilterLine
from wiretape.viewer.tui.list.listing import Listing
from wiretape.viewer.tui.list.streams import StreamList


def tape_line(name: str, streams: StreamList) -> list[Part]:
    """Return the tape's name, and what there is to count."""
    catalog, change, sorts = streams.listing.catalog, streams.listing.change, ": R sorts them in"
    parts: list[Part] = [(name, "strong")]
    if change is not None:
        total = streams.listing.total
        parts.append((f" · {'…' if total is None else counted(total, 'exchange')}", "plain"))
    counts = (
        (change.running if change is not None else 0, "open"),
        (len(streams.marks), "marked"),
        (catalog.arrived, f"new{'' if catalog.finished_count else sorts}"),
        (catalog.finished_count, f"ended{sorts}"),
        (streams.above, "new above: g"),
    )
    parts += [(f" · {number:,} {word}", "accent") for number, word in counts if number]
    return [*parts, (" · following", "accent")] if streams.follows else parts


def recorder_line(host: Host, listing: Listing) -> list[Part]:
    """Return the recorder's state, or that the tape is locked; for a server, its error."""
    if listing.is_busy:
        return [(f"busy: waiting for the {host.list_reader.place.noun}", "warning")]
    if listing.change is None:
        return []
    if not host.list_reader.place.supports("changes"):
        return [] if listing.trouble is None else [(safe(str(listing.trouble)), "error")]
    return notices.recorder_line(listing.recorder, host.clock.wall_ns())


def match_count(filter: FilterLine, listing: Listing, width: int) -> list[Part]:
    """Return the number of matches and the time of the search, `…` until known; the signs if there is no filter."""
    if listing.change is None or filter.is_wrong:
        return []
    if filter.is_typing or not listing.is_current:
        return [("…", "muted")]
    if listing.query.filter is None:
        if filter.text.strip():
            return [("off: \\ switches it on", "warning")]
        return [*LEGEND] if width >= 100 else []  # beside the filter
    share = "…" if listing.total is None else f"{listing.match_count:,} / {listing.total:,}"
    return [(share, "strong"), (f" · {listing.took_ns / 1e6:,.0f} ms", "muted")]


def reason_for_empty(host: Host, listing: Listing) -> notices.Lines | None:
    """Return the reason for an empty list; None if it is not empty, or empty by a filter."""
    place = host.list_reader.place
    naming = "" if place.file is None else safe(options.naming(place.file))
    if listing.is_unread and listing.trouble is not None:
        if isinstance(listing.trouble, TapeGone) and place.file is not None:
            return notices.tape_gone(place.file, listing.tape_summary)
        if isinstance(listing.trouble, NotFound | SchemaMissing) and place.file is not None:
            return notices.no_tape(place.file, naming)
        return notices.failed(listing.trouble, place.noun)
    if listing.change is not None and not listing.change.total:
        if not place.supports("changes"):
            return notices.nothing_shipped(host.list_reader.name)
        return notices.empty(listing.recorder, host.clock.wall_ns(), naming)
    return None
