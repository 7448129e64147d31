"""Pure: the columns of the list: what each shows, which there is room for, a line of them and their titles."""

import math
import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from wiretape.recorder.decode.causes import Ending
from wiretape.recorder.decode.stalls import DEFAULT
from wiretape.viewer.exchange import facts
from wiretape.viewer.exchange.states import NOTABLE, ORPHAN, Look, elapsed_ms, moment, state
from wiretape.viewer.record import units
from wiretape.viewer.record.rows import ListRow
from wiretape.viewer.text import formatting, waterfall
from wiretape.viewer.text.cells import Part, Tone, laid_out
from wiretape.viewer.text.formatting import server, whole_ms
from wiretape.viewer.text.waterfall import Axis, PhaseBar

LEAD: Final = 4
"""The cells of the cursor, the mark and the sign, before the columns."""

TIMELINE: Final = "timeline"
"""The name of the widest column."""

NAMES: Final = (14, 24)
"""Least and maximum width of the column of models: between them, it is as wide as the widest name in sight."""

_USUAL: Final = frozenset({"stop", "end_turn", "complete", "completed", "finish"})
"""The usual ends of answers, in the words of the APIs, in lower case."""
Renderer = Callable[[ListRow, Look, int], Sequence[Part]]
"""The renderer of a column: a row's parts, given the column's width in cells."""


@dataclass(frozen=True, slots=True)
class ListColumn:
    """A column: its minimum and maximum width, its rank (0 goes last when there is no room), its renderer.

    `field` is its sort key, None if it has none, and `letter` the key for that.
    """

    name: str
    title: str
    least: int
    most: int
    rank: int
    render: Renderer
    field: str | None = None
    letter: str | None = None
    right: bool = False


@dataclass(frozen=True, slots=True)
class Slot:
    """A column in its place, as many cells wide."""

    column: ListColumn
    width: int


def fitted(
    width: int,
    hidden: Collection[str] = (),
    *,
    start_cells: int = 0,
    name_cells: int = 0,
    order: tuple[str, bool] | None = None,
) -> tuple[Slot, ...]:
    """Choose the columns for a width in cells: by rank as many as fit, then wider until the room is used.

    The column of starts is wider by `start_cells`, that of models as wide as `NAMES` allow for `name_cells`. The
    timeline takes the room that no other column uses.
    """
    between = gap_between(width)
    ordered = ordered_field(order)
    # People read the name and the outcome of an exchange before its timeline. A timeline is legible from a fifth of the
    # width on, and has two fifths before lesser columns are shown.
    least_share, good_share = 0.2, 0.4
    names = min(max(name_cells, NAMES[0]), NAMES[1])
    seconds = len("00:00:00") + start_cells
    widths: dict[str, int] = {}
    room = width - LEAD
    for column in sorted((column for column in COLUMNS if column.name not in hidden), key=lambda column: column.rank):
        least = column.least + (start_cells if column.name == "start" else 0)
        if column.field == ordered:
            least = max(least, len(column.title) + 1)  # for the sign of the order, which must not touch the next title
        if column.name == TIMELINE:
            least = min(math.ceil(least_share * width), max(room - between, 0))
        # No lesser column takes the room of a better one.
        reserved = names - widths.get("model", names) if column.rank > 5 else 0
        if column.rank > 8:
            reserved += seconds - widths.get("start", seconds)
            reserved += max(math.ceil(good_share * width) - widths.get(TIMELINE, width), 0)
        if least + between + reserved <= room:
            widths[column.name] = least
            room -= least + between
    wanted = [("model", names), ("start", seconds), (TIMELINE, math.ceil(good_share * width))]
    by_rank = sorted((column for column in COLUMNS if column.name in widths), key=lambda column: column.rank)
    wanted += [(column.name, column.most) for column in by_rank if column.name not in (TIMELINE, "model", "start")]
    wanted += [("start", 12 + start_cells), (TIMELINE, width)]
    for name, cells in wanted:
        if name in widths:
            more = min(room, max(cells - widths[name], 0))
            widths[name] += more
            room -= more
    return tuple(Slot(column, widths[column.name]) for column in COLUMNS if column.name in widths)


def ordered_field(order: tuple[str, bool] | None) -> str:
    """Return the field that a list is sorted by; without an order, it is sorted by time."""
    return order[0] if order else "started_at"


def gap_between(width: int) -> int:
    """Return the cells between two columns of a list in a terminal's width."""
    return 2 if width >= 130 else 1


def column_at(slots: Sequence[Slot], between: int, cell: int) -> ListColumn | None:
    """Return the column that stands at a cell of a line; None before the first and after the last."""
    end = LEAD
    for slot in slots:
        end += slot.width + between
        if LEAD <= cell < end:
            return slot.column
    return None


def titles(slots: Sequence[Slot], look: Look, between: int, order: tuple[str, bool] | None) -> Iterator[Part]:
    """Yield the parts of the line above: each column's title, with `▼` or `▲` on the one that is sorted by."""
    yield "  ", "muted"
    for slot in slots:
        column = slot.column
        title = _title(column, look, slot.width)[: slot.width]
        ordered = column.field == ordered_field(order)
        sign = ("▼" if order is None or order[1] else "▲") if ordered else ""
        text = f"{title}{sign}".rjust(slot.width if column.right else 0)
        yield text, "accent" if ordered else "muted"
        yield " " * (slot.width + between - len(text)), "plain"


def _title(column: ListColumn, look: Look, width: int) -> str:
    """Return the title of a column; that of the timelines is their axis."""
    if column.name == "start":
        time_titles = {"clock": "START", "date": "START", "utc": "UTC", "ago": "AGO"}
        return time_titles[look.times]
    if column.name == TIMELINE:
        return waterfall.head(column.title, look.axis, width)
    return column.title


def line(row: ListRow, slots: Sequence[Slot], look: Look, between: int) -> Iterator[Part]:
    """Yield the parts of a line: the sign of how the exchange stands, then each column as wide as its slot."""
    stands = state(row, recording=look.recording)
    yield f"{stands.sign} ", stands.tone
    blank = " " * between
    for slot in slots:
        parts = slot.column.render(row, look, slot.width)
        if len(parts) == 1 and (text := parts[0][0]).isascii() and len(text) <= slot.width:
            # Nearly all cells are so: in one part, with the blanks around it, they cost a third to draw.
            yield f"{text.rjust(slot.width) if slot.column.right else text.ljust(slot.width)}{blank}", parts[0][1]
        else:
            yield from laid_out(parts, slot.width, right=slot.column.right)
            yield blank, "plain"


def axis(exchanges: Iterable[ListRow], look: Look) -> Axis:
    bars = [(bar(row, look), row.first_output_ms is not None) for row in exchanges]
    longest_ns = max((bar.end_ns for bar, _ in bars), default=0)
    output_ends_ns = [bar.end_ns for bar, has_output in bars if has_output]
    return waterfall.axis([longest_ns, *output_ends_ns])


def bar(row: ListRow, look: Look) -> PhaseBar:
    """Return the phases of an exchange, until now if it runs."""
    last_ms = row.latency_ms if row.latency_ms is not None else row.last_read_ms
    return PhaseBar(
        units.ns(elapsed_ms(row, look)) or units.ns(last_ms) or 0,
        units.ns(row.first_output_ms),
        units.ns(row.first_answer_ms),
        units.ns(row.thinking_ms),
        units.ns(last_ms),
        row.stalls,
    )


def timeline(row: ListRow, look: Look, width: int) -> list[Part]:
    """Draw the phases of an exchange on the axis of all lines, or on its own."""
    stands = state(row, recording=look.recording)
    stretches = waterfall.draw(bar(row, look), look.axis, width, stands.sign)
    return [(text, stands.tone if phase == "end" else waterfall.TONES[phase]) for text, phase in stretches]


def _figure(
    name: str, to_text: Callable[[Any, int], str], slow: float = math.inf, bad: float = math.inf, *, grows: bool = True
) -> Renderer:
    """Return the renderer of a number: muted while the exchange runs, with a `+` if it `grows` and there is room."""

    def render(row: ListRow, look: Look, width: int) -> Sequence[Part]:
        value = getattr(row, name)
        if value is None:
            return [_unknown(row, look)]
        text = to_text(value, width)
        if row.outcome != "open":
            return [(text, "error" if value > bad else "warning" if value > slow else "plain")]
        return [(f"{text}+" if grows and _runs(row, look) and len(text) < width else text, "muted")]

    return render


def _count(value: int, width: int) -> str:
    return formatting.short_count(value)


def _unknown(row: ListRow, look: Look) -> Part:
    """Return the sign for an unknown figure: that of a running exchange may come yet."""
    return "…" if _runs(row, look) else formatting.UNKNOWN, "muted"


def _runs(row: ListRow, look: Look) -> bool:
    return state(row, recording=look.recording).word == "open"


def _constant(name: str, to_part: Callable[[Any], Part]) -> Renderer:
    """Return the renderer of a value that does not change once it is known."""

    value = operator.attrgetter(name)
    return lambda row, look, width: [_unknown(row, look) if value(row) is None else to_part(value(row))]


def _text(name: str, tone: Tone = "plain") -> Renderer:
    value = operator.attrgetter(name)
    return lambda row, look, width: [(formatting.line(value(row)), tone if value(row) is not None else "muted")]


def _outcome(row: ListRow, look: Look, width: int) -> Sequence[Part]:
    stands = state(row, recording=look.recording)
    if stands is ORPHAN:
        return [(stands.word, stands.tone)]
    return [(formatting.line(row.ending), "muted" if row.outcome == "complete" else stands.tone)]


def _duration(row: ListRow, look: Look, width: int) -> Sequence[Part]:
    ms = elapsed_ms(row, look)
    if ms is None:
        return [(formatting.UNKNOWN, "muted")]
    growing: list[Part] = [("+", "accent")] if _runs(row, look) else []
    texts = (formatting.seconds(ms, 1), f"{ms / 1000:,.0f}", f"{ms / 1000:.0f}", formatting.span(ms))
    return [(formatting.first_that_fits(texts, width - len(growing)), "plain"), *growing]


def _happened(row: ListRow, look: Look, width: int) -> Sequence[Part]:
    """Return the ending of an exchange in words, then those of its notable flags that there is room for."""
    stands = state(row, recording=look.recording)
    parts: list[Part] = []
    mentioned: set[str] = {row.outcome}
    if row.outcome != "complete":
        ending = Ending(row.outcome, row.outcome_detail, row.error_code, row.status)
        words = (facts.broken_off(row, is_brief=is_brief) or ending.cause for is_brief in (False, True))
        cause = formatting.first_that_fits(tuple(words), width)
        parts.append((stands.word if stands is ORPHAN else cause, stands.tone))
        mentioned |= {"stall", "given_up"} if row.silent_end_by == "upstream" else set()
        if row.outcome == "http_error" and row.outcome_detail:
            parts.append((formatting.line(row.outcome_detail), stands.tone))
    elif "stall" in row.flags:
        length = "" if row.max_output_silence_ms is None else f" {row.max_output_silence_ms / 1000:,.1f} s"
        parts.append((f"stall{length}", NOTABLE["stall"]))
        mentioned.add("stall")
    elif "burst" in row.flags:
        is_compressed = "buffered_by_compression" in row.flags
        parts.append(("buffered by compression" if is_compressed else "buffered", NOTABLE["burst"]))
        mentioned |= {"burst", "buffered_by_compression"}
    parts += [(flag, tone) for flag, tone in NOTABLE.items() if flag in row.flags and flag not in mentioned]
    if not parts and (row.finish_reason or "stop").lower() not in _USUAL:
        parts.append((formatting.line(row.finish_reason), "muted"))
    visible = [(f" {text}" if at else text, tone) for at, (text, tone) in enumerate(parts)]
    while len(visible) > 1 and sum(len(text) for text, _ in visible) > width:
        visible.pop()
    return visible


COLUMNS: Final = (
    ListColumn("id", "ID", 8, 8, 1, lambda row, look, width: [(formatting.line(row.id)[:8], "strong")]),
    ListColumn("start", "START", 5, 12, 6, lambda row, look, width: [(moment(row.started_at, look, width), "muted")],
               "started_at", "s"),
    ListColumn("model", "MODEL", *NAMES, 0, _text("model"), "model", "m"),
    ListColumn("host", "UPSTREAM", 12, 26, 13,
               lambda row, look, width: [(formatting.line(server(row.upstream, row.upstream_name)), "muted")],
               "upstream", "h"),
    ListColumn("path", "PATH", 16, 30, 15, _text("path", "muted"), "path", "p"),
    ListColumn("operation", "OPERATION", 9, 16, 17, _text("operation", "muted"), "operation", "o"),
    ListColumn("api", "API", 12, 18, 18, _text("api", "muted"), "api", "a"),
    ListColumn("status", "STATUS", 6, 6, 11,
               _constant("status", lambda status: (str(status), "muted" if status < 300 else "error")),
               "status", "c", right=True),
    ListColumn("outcome", "OUTCOME", 13, 24, 12, _outcome, "outcome", "e"),
    ListColumn("ttft", "TTFT ms", 7, 7, 4, _figure("ttft_ms", whole_ms, 2000, 10_000, grows=False), "ttft_ms", "t",
               right=True),
    ListColumn("icl_p50", "ICL p50 ms", 10, 10, 9, _figure("icl_p50_ms", whole_ms, 100, 500), "icl_p50_ms", "5",
               right=True),
    ListColumn("max_gap", "MAX GAP ms", 10, 10, 7, _figure("max_gap_ms", whole_ms, 500, DEFAULT.stall_ms), "max_gap_ms",
               "g", right=True),
    ListColumn("silence", "SILENCE ms", 10, 10, 16, _figure("max_silence_ms", whole_ms, 500, DEFAULT.stall_ms),
               "max_silence_ms", "l", right=True),
    ListColumn("events", "EVENTS", 6, 6, 14, _figure("events", _count), "events", "n", right=True),
    ListColumn("tokens", "TOKENS", 6, 6, 8, _figure("output_tokens", _count), "output_tokens", "k",
               right=True),
    ListColumn("tps", "TPS", 6, 6, 10, _constant("tps_user", lambda rate: (f"{rate:,.1f}", "plain")), "tps_user", "r",
               right=True),
    ListColumn("duration", "DUR s", 5, 7, 5, _duration, "duration_ms", "d", right=True),
    ListColumn("happened", "HAPPENED", 20, 25, 2, _happened, "flags", "f"),
    ListColumn(TIMELINE, "TIMELINE", 0, 0, 3, timeline),
)  # fmt: skip
"""Every column, in the order in which they stand."""
