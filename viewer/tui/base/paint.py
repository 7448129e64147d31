"""The one way by which text becomes something that a widget draws: every part of a line passes `safe`.

Recorded text can neither drive the terminal nor be taken for markup here: strips and `Content` carry their styles apart
from their text. What has no width of its own, or more than one cell, is left to `rich`'s cell widths.
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

from recorder.sanitize import safe
from viewer.model import states
from viewer.tui.base.theme import contrast

_SET_OFF: Final = 1.45
"""From this contrast on a ground means something; surfaces and panels have 1.3 at most against the screen's."""

Part: TypeAlias = "tuple[str, Style | None]"
"""A text, recorded or not, and how it looks."""

_ASCII_SIGNS: Final = (
    str.maketrans(
        "▁▂▃▄▅▆▇█▌▐▎▏░▒▓·•…–—−→←↑↓⇧▲▼▶▸▾‖│┃╷┊┆─━┄┌┐└┘├┤┬┴┼╭╮╰╯×≥≤′’‘“”Δµ◆○",
        ".:-=+*#@||||:+#..~---><^v^^v>>v|||'::-=-+++++++++++++x><''`\"\"du*o",
    )
    | {ord(state.sign): state.ascii for state in states.STATES.values()}
    | dict.fromkeys(range(0x2400, 0x2422), ".")  # pictures of controls: as in any dump of bytes
)


def strip(parts: Iterable[Part], width: int | None = None, style: Style | None = None) -> Strip:
    """Give a line of parts; given a width in cells, exactly so wide, on `style`."""
    line = Strip([Segment(safe(text), part_style) for text, part_style in parts if text])
    if style is not None:
        line = line.apply_style(style)
    return line if width is None else line.adjust_cell_length(width, style)


def content(text: str, style: str = "") -> Content:
    """Give a text for a widget that takes `Content`, in its lines: never markup, whatever it says."""
    return Content.styled(safe(text, multiline=True), style)


class _InAscii(LineFilter):
    """Gives every line in ASCII: the signs of drawings by others of their kind, all else by `?`, cell for cell."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [Segment(in_ascii(text), style, control) for text, style, control in segments]


@functools.lru_cache(4096)
def in_ascii(text: str) -> str:
    """Give a text in ASCII, as many cells wide."""
    if text.isascii():
        return text
    signs = text.translate(_ASCII_SIGNS)
    return signs if signs.isascii() else "".join(sign if sign.isascii() else "?" * cell_len(sign) for sign in signs)


ASCII: Final = _InAscii()
"""For terminals that only have ASCII."""


class _WithoutColors(LineFilter):
    """Removes all colours; text on a ground that stands out from the screen's, as a cursor's does, is reversed."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        screen = background.hex6
        return [Segment(text, style and _uncolored(style, screen), control) for text, style, control in segments]


@functools.lru_cache(4096)
def _uncolored(style: Style, screen: str) -> Style:
    ground = style.bgcolor
    is_set_off = ground is not None and ground.triplet is not None and contrast(ground.triplet.hex, screen) >= _SET_OFF
    return style.without_color + Style(reverse=True) if is_set_off and not style.reverse else style.without_color


WITHOUT_COLORS: Final = _WithoutColors()
"""For `NO_COLOR`: attributes such as bold and reverse are all that reaches the terminal."""
