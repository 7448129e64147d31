"""The bytes of an event: as hex with their reads, as lines, as JSON, or as the socket gave them.

Bytes that no read on the tape brought have a rule of their own, as have those that are missing from it at the end.
"""

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from rich.style import Style
from textual.message import Message

from recorder.decode.outcome import Read
from recorder.plurals import counted
from recorder.sanitize import safe
from viewer import formatting
from viewer.model.exchange.clocks import Times
from viewer.model.exchange.opened import Opened
from viewer.model.exchange.transcript import UNKNOWN
from viewer.model.states import Tone
from viewer.model.text import hexdump, json_spans
from viewer.model.text.hexdump import HexDump, Row, TextDump
from viewer.model.text.wrap import WrappedText
from viewer.tui.base.paint import Part
from viewer.tui.widgets.pane import Pane

View = Literal["hex", "lines", "JSON", "wire"]
VIEWS: Final[tuple[View, ...]] = ("hex", "lines", "JSON", "wire")
"""How bytes are shown, in the order in which the views follow each other."""

OWN: Final = "┃"
"""Stands before the bytes that are the event's, where others are shown, too."""

_LARGEST_JSON: Final = 1 << 20
_MOST_LINES: Final = 100_000
_OFFSET: Final = 7
_WIDE: Final = 56


class BytesPane(Pane):
    """The bytes of an event in one of four views."""

    @dataclass
    class Wanted(Message):
        """More is to be told, with `tell`, of the reads from one seq to another."""

        first: int
        last: int

    def __init__(self) -> None:
        super().__init__(id="bytes")
        self.view: View = "hex"
        self._opened: Opened | None = None
        self._data = b""
        self._event: int | None = None
        self._times = Times()
        self._told: Mapping[int, Read] = {}
        self._range = 0, 0
        self._lit = 0, 0
        self._dump = HexDump(0, 0, 16, (), ())
        self._json = WrappedText("", 80)
        self._wire = TextDump(b"", 0, 0, 80, (), ())
        self._notes: list[str] = []
        self._is_whole = True
        self._missing = 0

    def show(self, opened: Opened, event: int | None, times: Times) -> None:
        """Show the bytes of an event, or the whole body, their instants as `times` tell them."""
        transcript = opened.transcript
        if opened is not self._opened:
            self._is_whole = not opened.missing and UNKNOWN not in opened.owners
        self._opened, self._event, self._data, self._times = opened, event, transcript.data, times
        self._range = (0, len(self._data)) if event is None else (transcript.starts[event], transcript.ends[event])
        self._lit = 0, 0
        self._lay_out()

    def set_times(self, times: Times) -> None:
        """Tell instants in another way."""
        self._times = times
        self.redraw()

    def tell(self, told: Mapping[int, Read]) -> None:
        """Take what is known of the reads that were asked for, by their seq."""
        self._told = told
        self.redraw()

    def light(self, start: int, end: int) -> None:
        """Light up these bytes, and scroll to them."""
        self._lit = start, end
        self.redraw()
        if self.view == "hex" and len(self._dump):
            self.reveal(self._dump.row_of(start), 1)
        if self.view in ("lines", "wire") and end > start:
            self.reveal(len(self._notes) + self._wire.row_of(start), 1)

    def cycle(self) -> View:
        """Show the bytes in the next view; give which that is."""
        self.view = VIEWS[(VIEWS.index(self.view) + 1) % len(VIEWS)]
        self._lay_out()
        self.light(*self._lit)
        return self.view

    def on_resize(self) -> None:
        """Lay the bytes out for the new width."""
        self._lay_out()

    def line(self, number: int) -> Iterable[Part]:
        """Draw a row of the view."""
        if self.view == "JSON":
            return [(" ", None), (self._json.line(number), self.look("plain"))]
        if self.view in ("lines", "wire"):
            return self._of_wire(number)
        if number >= len(self._dump):
            return self._lost()
        piece = self._dump.row(number)
        return self._border(piece.read, piece.start) if piece.read is not None else self._hex(piece)

    @property
    def _row_size(self) -> int:
        room = self.size.width - _OFFSET - 3
        return next((size for size in (32, 24, 16, 12, 8) if 4 * size <= room), 4)

    def _lay_out(self) -> None:
        if self._opened is None:
            return
        self.set_count(self._rows(self._opened))
        self.scroll_to(y=0, animate=False, force=True)
        if self.view == "wire":
            own = next((number for number, row in enumerate(self._wire.rows) if row.mine), 0)
            self.reveal(len(self._notes) + own, 2)
        self.redraw()

    def _rows(self, opened: Opened) -> int:
        """Lay the view out; give how many rows it has."""
        start, end = self._range
        self._missing = opened.missing if end == len(self._data) else 0
        match self.view:
            case "lines":
                self._missing, self._notes = 0, []
                self._wire = TextDump(self._data, start, end, self.size.width - 2, (), ())
                self._tell_of_more()
                return len(self._notes) + len(self._wire)
            case "JSON":
                self._json = WrappedText(_pretty(self._data[start:end]), self.size.width - 3)
                self._json.more(_MOST_LINES)
                return len(self._json)
            case "wire":
                return self._lay_wire(opened)
        self._dump = HexDump(start, end, self._row_size, opened.borders, opened.owners)
        if not self._is_whole:
            first, last = max(bisect_right(opened.borders, start) - 1, 0), bisect_left(opened.borders, end)
            self._want([seq for seq in opened.owners[first:last] if seq != UNKNOWN])
        return len(self._dump) + bool(self._missing)

    def _lay_wire(self, opened: Opened) -> int:
        start, end = self._range
        borders: Sequence[int] = opened.borders
        owners: Sequence[int] = opened.owners
        data, self._notes = self._data, []
        read = UNKNOWN if self._event is None else opened.transcript.reads[self._event]
        if not len(borders) and data:
            coding = safe(opened.facts.content_encoding or "")
            self._notes = [f"the body came as {coding}: decoded, below the read that ended it"]
            if read != UNKNOWN:
                data, borders, owners = data[:end], (start, start, end), (read - 1, read, read + 1)
        self._wire = TextDump(data, start, end, self.size.width - 3, borders, owners)
        self._tell_of_more()
        if not (self._wire.is_whole and self._wire.rows and self._wire.rows[-1].end == len(self._data)):
            self._missing = 0
        self._want(self._wire.known_reads or ())
        return len(self._notes) + len(self._wire) + bool(self._missing)

    def _tell_of_more(self) -> None:
        if not self._wire.is_whole:
            self._notes.append(f"these are the first {hexdump.MOST_ROWS:,} rows")

    def _want(self, reads: Sequence[int]) -> None:
        if reads:
            self.post_message(self.Wanted(reads[0], reads[-1]))

    def _of_wire(self, number: int) -> Iterable[Part]:
        if number < len(self._notes):
            return [("  ", None), (self._notes[number], self.look("warning"))]
        if number - len(self._notes) >= len(self._wire):
            return self._lost()
        row = self._wire.rows[number - len(self._notes)]
        if row.read is not None:
            return self._border(row.read, row.start, self._relayed(row.read))
        if row.left_out:
            return [("  ", None), (f"… {counted(row.end - row.start, 'byte')} more of this read", self.look("muted"))]
        return self._text(row)

    def _text(self, row: Row) -> Iterator[Part]:
        if self.view == "lines":
            yield " ", None
            yield from self._cut(row.start, row.end, self.look("plain"))
        else:
            yield (f"{OWN} " if row.mine else "  "), self.look("accent")
            yield from self._cut(row.start, row.end, self.look("strong" if row.mine else "muted"))

    def _relayed(self, seq: int) -> str:
        read = self._told.get(seq)
        if read is None:
            return ""
        after = (
            formatting.UNKNOWN
            if read.relayed_ns is None
            else f"{formatting.ms((read.relayed_ns - read.at_ns) / 1e6)} ms"
        )
        if self.size.width < _WIDE:
            return f" → {after}"
        return " ─ not relayed" if read.relayed_ns is None else f" ─ relayed after {after}"

    def _border(self, seq: int, start: int, more: str = "") -> Iterable[Part]:
        """Draw the rule above what a read brought, or above what no read is known to have brought."""
        if seq == UNKNOWN:
            return self._rule(self._unread(start), "warning")
        known = self._known(seq)
        told = f"read {seq}"
        if known is not None:
            told += f" ─ {known[1]:,} B ─ {self._instant(known[0])}{more}"
        return self._rule(told, "accent")

    def _rule(self, told: str, tone: Tone) -> Iterable[Part]:
        return [
            ("─ ", self.look(tone)),
            (told, self.look(tone)),
            (" " + "─" * max(self.size.width - len(told) - 4, 0), self.look("muted")),
        ]

    def _unread(self, start: int) -> str:
        """Say of how many bytes the tape has no read, from the border before one of them to the next."""
        assert self._opened is not None
        borders = self._opened.borders
        at = bisect_right(borders, start)
        size = (borders[at] if at < len(borders) else len(self._data)) - borders[at - 1]
        return f"no read: {size:,} B" if self.size.width < _WIDE else f"no read on the tape brought these {size:,} B"

    def _lost(self) -> Iterable[Part]:
        """Draw the rule below what there is of a body of which the tape could not keep the end."""
        return self._rule(f"{self._missing:,} B more are missing from the tape", "error")

    def _known(self, seq: int) -> tuple[int, int] | None:
        """Give when a read came, and its bytes; where reads are missing, their places are not their seqs."""
        read = self._told.get(seq)
        if read is not None:
            return read.at_ns, read.size
        opened = self._opened
        if opened is None or not self._is_whole or not 0 <= seq < len(opened.reads_at):
            return None
        return opened.reads_at[seq], opened.sizes[seq]

    def _instant(self, at_ns: int) -> str:
        assert self._opened is not None
        return self._times.told(at_ns, "+")

    def _hex(self, piece: Row) -> Iterable[Part]:
        yield f" {piece.start - self._range[0]:05x} ", self.look("muted")
        size, lit = self._row_size, self.look("lit")
        first, last = self._lit_in(piece.start, piece.end)
        cuts = ((piece.start, first, Style()), (first, last, lit), (last, piece.end, Style()))
        for start, end, style in cuts:
            if end > start:
                yield f" {self._data[start:end].hex(' ')}", self.look("plain") + style
        yield " " * (3 * (size - (piece.end - piece.start)) + 2), None
        for start, end, style in cuts:
            yield hexdump.printable(self._data[start:end]), self.look("muted") + style

    def _cut(self, start: int, end: int, style: Style) -> Iterator[Part]:
        """Give bytes as text, and what of them is lit."""
        first, last = self._lit_in(start, end)
        cuts = ((start, first, style), (first, last, style + self.look("lit")), (last, end, style))
        for begin, stop, look in cuts:
            yield self._data[begin:stop].decode("utf-8", "replace"), look

    def _lit_in(self, start: int, end: int) -> tuple[int, int]:
        first = min(max(self._lit[0], start), end)
        return first, min(max(self._lit[1], first), end)


def _pretty(data: bytes) -> str:
    """Give the JSON of an event in order; its own lines where it is none, or too much."""
    payload = json_spans.payload(data)
    if len(payload) <= _LARGEST_JSON:
        try:
            text = json.dumps(json.loads(payload), indent=2, ensure_ascii=False)
        except (ValueError, RecursionError):
            reason = f"({json_spans.fault(payload) or 'no JSON that can be read'})\n"
            return reason + safe(data[:_LARGEST_JSON].decode("utf-8", "replace"), multiline=True)
        return safe(text, multiline=True)
    text = safe(data[:_LARGEST_JSON].decode("utf-8", "replace"), multiline=True)
    return f"(the first {_LARGEST_JSON:,} bytes, not put in order)\n{text}"
