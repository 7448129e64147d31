"""Conversion of text to the strips and content of widgets: every part of a line passes `safe`.

Recorded text can neither control the terminal nor act as markup: strips and `Content` carry their styles apart from
their text. `rich` decides on the width of characters, such as those of no width or of two cells.
"""

import functools
from collections.abc import Iterable
from typing import Final, TypeAlias

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.content import Content
from textual.filter import LineFilter
from textual.strip import Strip

from wiretape.recorder import terminals
from wiretape.recorder.sanitize import safe
from wiretape.viewer.exchange import states
from wiretape.viewer.text import curve

Part: TypeAlias = "tuple[str, Style | None]"
"""A text, recorded or not, and its style."""

_ASCII_SIGNS: Final = (
    terminals.SIGNS
    | {ord(state.sign): state.ascii for state in states.STATES.values()}
    | dict.fromkeys(range(0x2400, 0x2422), ".")  # pictures of controls: as in any hex dump
    | curve.ASCII
)


def strip(parts: Iterable[Part], width: int | None = None, style: Style | None = None) -> Strip:
    """Return a line of parts on `style`, exactly `width` cells wide if that is given."""
    line = Strip([Segment(safe(text), part_style) for text, part_style in parts if text])
    if style is not None:
        line = line.apply_style(style)
    return line if width is None else line.adjust_cell_length(width, style)


def content(text: str, style: str = "") -> Content:
    """Return a text in its lines for a widget that takes `Content`; nothing in it is read as markup."""
    return Content.styled(safe(text, multiline=True), style)


class _Ascii(LineFilter):
    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [Segment(in_ascii(text), style, control) for text, style, control in segments]


@functools.lru_cache(4096)
def in_ascii(text: str) -> str:
    """Return a text in ASCII, as many cells wide: drawn signs by similar ones, everything else by `?`."""
    if text.isascii():
        return text
    signs = text.translate(_ASCII_SIGNS)
    return signs if signs.isascii() else "".join(sign if sign.isascii() else "?" * cell_len(sign) for sign in signs)


ASCII: Final = _Ascii()
"""For terminals that only have ASCII."""
