"""The raw tab: the parts of an event, and its bytes: as hex, as lines, as JSON, or by the reads of the socket.

Bytes that no read on the tape brought have a rule of their own, as have those that are missing from it at the end.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from rich.style import Style
from textual.events import Click
from textual.message import Message

from wiretape.recorder.decode.exchange import Read
from wiretape.recorder.plurals import counted
from wiretape.recorder.sanitize import safe
from wiretape.viewer.exchange.clocks import Times
from wiretape.viewer.exchange.opened import OpenedExchange
from wiretape.viewer.exchange.transcript import UNKNOWN
from wiretape.viewer.text import formatting, hexdump, json_spans
from wiretape.viewer.text.cells import Tone
from wiretape.viewer.text.hexdump import HexDump, HexRow, TextDump
from wiretape.viewer.text.json_spans import JsonNode
from wiretape.viewer.text.wrap import WrappedText
from wiretape.viewer.tui.base.paint import Part
from wiretape.viewer.tui.widgets.pane import Pane

View = Literal["hex", "lines", "JSON", "wire"]
_VIEWS: Final[tuple[View, ...]] = ("hex", "lines", "JSON", "wire")

_WIDE: Final = 56


class TreePane(Pane):
    """The parts of an event as an indented list."""

    @dataclass
    class PartChosen(Message):
        """A part was chosen."""

        node: JsonNode

    def __init__(self) -> None:
        super().__init__(id="tree")
        self._parts: Sequence[JsonNode] = ()
        self._selected = 0

    def show(self, nodes: Sequence[JsonNode]) -> None:
        self._parts, self._selected = nodes, 0
        self.set_lines(len(nodes))
        self.scroll_to(y=0, animate=False, force=True)
        self.redraw()

    def go(self, rows: int) -> None:
        """Choose the part a number of rows below, or above."""
        if not self._parts:
            return
        previous, self._selected = self._selected, max(0, min(self._selected + rows, len(self._parts) - 1))
        self.redraw((previous, previous), (self._selected, self._selected))
        self.reveal(self._selected)
        self.post_message(self.PartChosen(self._parts[self._selected]))

    def on_click(self, event: Click) -> None:
        self.go(self.scroll_offset.y + event.y - self._selected)

    def behind(self, number: int) -> Style:
        if number == self._selected:
            return self.look("cursor" if self.active else "selected")
        return self.look("ground")

    def line(self, number: int) -> Iterable[Part]:
        """Draw a part: its label and its text, indented by its depth."""
        node = self._parts[number]
        has_parts = number + 1 < len(self._parts) and self._parts[number + 1].depth > node.depth
        return [
            (">" if number == self._selected else " ", self.look("accent")),
            ("  " * node.depth + ("▾ " if has_parts else "  "), self.look("muted")),
            (node.label, self.look("accent" if has_parts else "plain")),
            (" : " if node.depth else " ", self.look("muted")),
            (node.text, self.look("muted" if has_parts else "plain")),
        ]


class BytesPane(Pane):
    """The bytes of an event in one of four views."""

    @dataclass
    class ReadsWanted(Message):
        """More is to be passed to `take` about the reads from one seq to another."""

        first_read: int
        last_read: int

    def __init__(self) -> None:
        super().__init__(id="bytes")
        self.view: View = "hex"
        self._exchange: OpenedExchange | None = None
        self._data = b""
        self._event: int | None = None
        self._times = Times()
        self._reads: Mapping[int, Read] = {}
        self._range = 0, 0
        self._lit = 0, 0
        self._dump: HexDump | TextDump = HexDump(0, 0, 16, (), ())
        self._json = WrappedText("", 80)
        self._notes: list[str] = []
        self._has_all_reads = True
        self._missing = 0

    def show(self, exchange: OpenedExchange, event: int | None, times: Times) -> None:
        """Show the bytes of an event, or the whole body."""
        transcript = exchange.transcript
        if exchange is not self._exchange:
            self._has_all_reads = not exchange.missing and UNKNOWN not in exchange.owners
        self._exchange, self._event, self._data, self._times = exchange, event, transcript.data, times
        self._range = (0, len(self._data)) if event is None else (transcript.starts[event], transcript.ends[event])
        self._lit = 0, 0
        self._lay_out()

    def set_times(self, times: Times) -> None:
        self._times = times
        self.redraw()

    def take(self, reads: Mapping[int, Read]) -> None:
        """Use the details of the reads that `ReadsWanted` asked for, by their seq."""
        self._reads = reads
        self.redraw()

    def highlight(self, start: int, end: int) -> None:
        self._lit = start, end
        self.redraw()
        if (self.view == "hex" and len(self._dump)) or (self.view in ("lines", "wire") and end > start):
            self.reveal(len(self._notes) + self._dump.row_of(start), 1)

    def cycle(self) -> None:
        self.view = _VIEWS[(_VIEWS.index(self.view) + 1) % len(_VIEWS)]
        self._lay_out()
        self.highlight(*self._lit)

    def on_resize(self) -> None:
        self._lay_out()

    def line(self, number: int) -> Iterable[Part]:
        """Draw a row of the view."""
        if self.view == "JSON":
            start, end = self._json.span(number)
            return [(" ", None), (self._json.text[start:end], self.look("plain"))]
        if number < len(self._notes):
            return [("  ", None), (self._notes[number], self.look("warning"))]
        number -= len(self._notes)
        if number >= len(self._dump):
            return self._rule(f"{self._missing:,} B more are missing from the tape", "error")
        row = self._dump.row(number) if isinstance(self._dump, HexDump) else self._dump.rows[number]
        if row.read is not None:
            if row.read == UNKNOWN:
                return self._rule(self._unread(row.start), "warning")
            text, time_and_size = f"read {row.read}", self._time_and_size(row.read)
            if time_and_size is not None:
                at_ns, size = time_and_size
                text += f" ─ {size:,} B ─ {self._times.with_unit(at_ns, '+')}"
                text += self._relayed(row.read) if self.view == "wire" else ""
            return self._rule(text, "accent")
        if row.left_out:
            return [("  ", None), (f"… {counted(row.end - row.start, 'byte')} more of this read", self.look("muted"))]
        return self._hex(row) if self.view == "hex" else self._text(row)

    @property
    def _row_size(self) -> int:
        room = self.size.width - 7 - 3
        return next((size for size in (32, 24, 16, 12, 8) if 4 * size <= room), 4)

    def _lay_out(self) -> None:
        if self._exchange is None:
            return
        self.set_lines(self._rows(self._exchange))
        self.scroll_to(y=0, animate=False, force=True)
        if self.view == "wire" and isinstance(self._dump, TextDump):
            first_row = next((number for number, row in enumerate(self._dump.rows) if row.is_of_event), 0)
            self.reveal(len(self._notes) + first_row, 2)
        self.redraw()

    def _rows(self, exchange: OpenedExchange) -> int:
        """Lay out the view. Return its number of rows."""
        start, end = self._range
        self._notes, self._missing = [], exchange.missing if end == len(self._data) else 0
        if self.view == "JSON":
            data = self._data[start:end]
            event = self._event
            payload = json_spans.payload(data) if event is None else exchange.transcript.payload(event)
            self._json = WrappedText(json_spans.pretty(payload, data), self.size.width - 3)
            self._json.more(100_000)
            return len(self._json)
        if self.view == "hex":
            self._dump = HexDump(start, end, self._row_size, exchange.borders, exchange.owners)
            if not self._has_all_reads:  # then a read's position is not its seq: the tape is asked for them
                start_read, end_read = (
                    max(bisect_right(exchange.borders, start) - 1, 0),
                    bisect_left(exchange.borders, end),
                )
                self._want([seq for seq in exchange.owners[start_read:end_read] if seq != UNKNOWN])
        else:
            self._dump = self._text_dump(exchange)
        return len(self._notes) + len(self._dump) + bool(self._missing)

    def _text_dump(self, exchange: OpenedExchange) -> TextDump:
        """Lay out the event as lines, or on the wire: between the reads beside its own."""
        start, end = self._range
        data, width = self._data, self.size.width - 3
        borders: Sequence[int] = exchange.borders
        owners: Sequence[int] = exchange.owners
        if self.view == "lines":
            borders, owners, width = (), (), width + 1
        elif data and not len(borders):
            coding = safe(exchange.facts.coding or "")
            self._notes = [f"the body came as {coding}: decoded, below the read that ended it"]
            read = UNKNOWN if self._event is None else exchange.transcript.reads[self._event]
            if read != UNKNOWN:
                data, borders, owners = data[:end], (start, start, end), (read - 1, read, read + 1)
        dump = TextDump(data, start, end, width, borders, owners)
        if not dump.is_whole:
            self._notes.append(f"these are the first {hexdump.MOST_ROWS:,} rows")
        if self.view == "lines" or not (dump.is_whole and dump.rows and dump.rows[-1].end == len(self._data)):
            self._missing = 0
        self._want(dump.known_reads or ())
        return dump

    def _want(self, reads: Sequence[int]) -> None:
        if reads:
            self.post_message(self.ReadsWanted(reads[0], reads[-1]))

    def _text(self, row: HexRow) -> Iterator[Part]:
        if self.view == "lines":
            yield " ", None
            yield from self._cut(row, self.look("plain"))
        else:
            yield ("┃ " if row.is_of_event else "  "), self.look("accent")
            yield from self._cut(row, self.look("strong" if row.is_of_event else "muted"))

    def _rule(self, text: str, tone: Tone) -> Iterable[Part]:
        line = "─" * max(self.size.width - len(text) - 4, 0)
        return [("─ ", self.look(tone)), (text, self.look(tone)), (f" {line}", self.look("muted"))]

    def _relayed(self, seq: int) -> str:
        """Return the time from a read to passing its bytes to the client, in words."""
        read = self._reads.get(seq)
        if read is None:
            return ""
        delay = None if read.relayed_ns is None else f"{formatting.ms((read.relayed_ns - read.at_ns) / 1e6)} ms"
        if self.size.width < _WIDE:
            return f" → {delay or formatting.UNKNOWN}"
        return f" ─ relayed after {delay}" if delay else " ─ not relayed"

    def _unread(self, start: int) -> str:
        """Return the message that the tape has no read of the bytes up to the next border."""
        assert self._exchange is not None
        borders = self._exchange.borders
        at = bisect_right(borders, start)
        size = (borders[at] if at < len(borders) else len(self._data)) - borders[at - 1]
        return f"no read: {size:,} B" if self.size.width < _WIDE else f"no read on the tape brought these {size:,} B"

    def _time_and_size(self, seq: int) -> tuple[int, int] | None:
        """Return the time and the size of a read, or None if it is neither loaded nor known from the exchange."""
        read, exchange = self._reads.get(seq), self._exchange
        if read is not None:
            return read.at_ns, read.size
        # The exchange's lists are by position, which is the seq of a read only if none is missing.
        if exchange is None or not self._has_all_reads or not 0 <= seq < len(exchange.reads_at):
            return None
        return exchange.reads_at[seq], exchange.sizes[seq]

    def _hex(self, row: HexRow) -> Iterable[Part]:
        yield f" {row.start - self._range[0]:05x} ", self.look("muted")
        spans = self._spans(row)
        for start, end, style in spans:
            if end > start:
                yield f" {self._data[start:end].hex(' ')}", self.look("plain") + style
        yield " " * (3 * (self._row_size - (row.end - row.start)) + 2), None
        for start, end, style in spans:
            yield hexdump.printable(self._data[start:end]), self.look("muted") + style

    def _cut(self, row: HexRow, style: Style) -> Iterator[Part]:
        for start, end, highlight in self._spans(row):
            yield self._data[start:end].decode("utf-8", "replace"), style + highlight

    def _spans(self, row: HexRow) -> tuple[tuple[int, int, Style], ...]:
        """Return the spans of a row before, in, and after the highlight, and the style to add to each."""
        lit_start = min(max(self._lit[0], row.start), row.end)
        lit_end = min(max(self._lit[1], lit_start), row.end)
        return (row.start, lit_start, Style()), (lit_start, lit_end, self.look("lit")), (lit_end, row.end, Style())
