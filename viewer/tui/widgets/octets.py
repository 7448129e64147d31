"""The bytes of an event: as hex with their reads, as lines, as JSON, or as the socket gave them.

How they lie in rows is `dump`'s, or, with the reads beside the event's own, `wire`'s.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from rich.style import Style
from textual.message import Message

from recorder.exchange import Read
from recorder.safe import safe
from viewer import cells
from viewer.model import clocks, dump, json_spans, wire
from viewer.model.clocks import Times
from viewer.model.dump import Dump, Piece
from viewer.model.folding import Folding
from viewer.model.opening import Opened
from viewer.model.transcript import UNKNOWN
from viewer.model.wire import Row, Wire
from viewer.tui.paint import Part
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
        self._dump = Dump(0, 0, 16, (), ())
        self._pieces: list[Piece] = []
        self._json = Folding("", 80)
        self._wire = Wire(b"", 0, 0, 80, (), ())
        self._notes: list[str] = []

    def show(self, opened: Opened, event: int | None, times: Times) -> None:
        """Show the bytes of an event, or the whole body, their instants as `times` tell them."""
        transcript = opened.transcript
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
        if self.view == "lines":
            row = next((row for row, piece in enumerate(self._pieces) if piece.start <= start < piece.end), 0)
            self.reveal(row, 1)
        if self.view == "wire" and end > start:
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
            start, end = self._json.span(number)
            return [(" ", None), (self._json.text[start:end], self.look("plain"))]
        if self.view == "lines":
            return self._of_lines(self._pieces[number])
        if self.view == "wire":
            return self._of_wire(number)
        piece = self._dump.piece(number)
        return self._border(piece.read) if piece.read is not None else self._hex(piece)

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
        match self.view:
            case "lines":
                self._pieces = dump.lines(self._data, start, end)
                return len(self._pieces)
            case "JSON":
                self._json = Folding(_pretty(self._data[start:end]), self.size.width - 3)
                self._json.more(_MOST_LINES)
                return len(self._json)
            case "wire":
                return self._lay_wire(opened)
        self._dump = Dump(start, end, self._row_size, opened.borders, opened.owners)
        return len(self._dump)

    def _lay_wire(self, opened: Opened) -> int:
        start, end = self._range
        borders: Sequence[int] = opened.borders
        owners: Sequence[int] = opened.owners
        data, self._notes = self._data, []
        read = UNKNOWN if self._event is None else opened.transcript.reads[self._event]
        if not len(borders) and data:
            coding = safe(opened.facts.content_encoding or "")
            self._notes = [
                f"the body came as {coding}: decoded, below the read that ended it" if coding else "no reads"
            ]
            if read != UNKNOWN:
                data, borders, owners = data[:end], (start, start, end), (read - 1, read, read + 1)
        self._wire = Wire(data, start, end, self.size.width - 3, borders, owners)
        if not self._wire.whole:
            self._notes.append(f"these are the first {wire.MOST:,} rows")
        if self._wire.around is not None:
            self.post_message(self.Wanted(*self._wire.around))
        return len(self._notes) + len(self._wire)

    def _of_wire(self, number: int) -> Iterable[Part]:
        if number < len(self._notes):
            return [("  ", None), (self._notes[number], self.look("warning"))]
        row = self._wire.rows[number - len(self._notes)]
        if row.read is not None:
            return self._border(row.read, self._relayed(row.read))
        if row.left_out:
            return [("  ", None), (f"… {row.end - row.start:,} bytes more of this read", self.look("muted"))]
        return self._text(row)

    def _text(self, row: Row) -> Iterator[Part]:
        yield (f"{OWN} " if row.mine else "  "), self.look("accent")
        yield from self._cut(row.start, row.end, self.look("strong" if row.mine else "muted"))

    def _relayed(self, seq: int) -> str:
        read = self._told.get(seq)
        if read is None:
            return ""
        after = cells.UNKNOWN if read.relayed_ns is None else f"{cells.ms((read.relayed_ns - read.at_ns) / 1e6)} ms"
        if self.size.width < _WIDE:
            return f" → {after}"
        return " ─ not relayed" if read.relayed_ns is None else f" ─ relayed after {after}"

    def _border(self, seq: int, more: str = "") -> Iterable[Part]:
        known = self._known(seq)
        told = f"read {seq}"
        if known is not None:
            told += f" ─ {known[1]:,} B ─ {self._instant(known[0])}{more}"
        return [
            ("─ ", self.look("accent")),
            (told, self.look("accent")),
            (" " + "─" * (self.size.width - len(told) - 4), self.look("muted")),
        ]

    def _known(self, seq: int) -> tuple[int, int] | None:
        """Give when a read came, and its bytes; where reads are missing, their places are not their seqs."""
        read = self._told.get(seq)
        if read is not None:
            return read.at_ns, read.size
        opened = self._opened
        if opened is None or opened.missing or not 0 <= seq < len(opened.reads_at):
            return None
        return opened.reads_at[seq], opened.sizes[seq]

    def _instant(self, at_ns: int) -> str:
        assert self._opened is not None
        told = self._times.instant(self._opened.transcript, at_ns)
        return told if self._times.format == "wall" else f"{'' if told.startswith(clocks.MINUS) else '+'}{told} s"

    def _hex(self, piece: Piece) -> Iterable[Part]:
        yield f" {piece.start - self._range[0]:05x} ", self.look("muted")
        size, lit = self._row_size, self.look("lit")
        first, last = self._lit_in(piece.start, piece.end)
        cuts = ((piece.start, first, Style()), (first, last, lit), (last, piece.end, Style()))
        for start, end, style in cuts:
            if end > start:
                yield f" {dump.hexadecimal(self._data[start:end])}", self.look("plain") + style
        yield " " * (3 * (size - (piece.end - piece.start)) + 2), None
        for start, end, style in cuts:
            yield dump.printable(self._data[start:end]), self.look("muted") + style

    def _of_lines(self, piece: Piece) -> Iterable[Part]:
        return [(" ", None), *self._cut(piece.start, piece.end, self.look("plain"))]

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
    return safe(data[:_LARGEST_JSON].decode("utf-8", "replace"), multiline=True) + "\n(more than is put in order)"
