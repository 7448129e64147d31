"""A film as an animated GIF, through Pillow, the extra `wiretape[gif]`: the only module that loads it.

Text is drawn in the cells of a terminal, by the first monospaced font of the system that is known here; without one, by
Pillow's own, which has Latin letters only.
"""

import contextlib
import importlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, BinaryIO, Final

from rich.cells import cell_len

from wiretape.recorder.commands.options import install_hint
from wiretape.recorder.errors import WiretapeError
from wiretape.viewer.text import wrap
from wiretape.viewer.text.cells import Part, Tone
from wiretape.viewer.wings.films.film import TICK_NS, Film, FilmFrame

MOST_FRAMES: Final = 600
"""Limit of a GIF's frames: a longer film has fewer a second."""

MOST_PIXELS: Final = 160_000_000
"""Limit of the pixels of all frames, a byte each, which Pillow holds in memory until the end."""

_MS: Final = 1_000_000
_UNIT_NS: Final = 10_000_000
"""Unit in which a GIF measures time, in ns."""

_FONTS: Final = (
    "DejaVuSansMono.ttf", "Menlo.ttc", "consola.ttf", "LiberationMono-Regular.ttf", "NotoSansMono-Regular.ttf",
    "UbuntuMono-R.ttf", "FreeMono.ttf",
)  # fmt: skip
_FALLBACK_FONTS: Final = (
    "NotoSansCJK-Regular.ttc",
    "PingFang.ttc",
    "msgothic.ttc",
    "wqy-microhei.ttc",
    "DejaVuSans.ttf",
)
"""Fonts for the signs that the first one lacks."""
_BLOCK_SHADES: Final = {"█": 255, "▓": 160, "░": 90}
"""Signs of one shade, from 0 to 255."""

_BACKGROUND: Final = (16, 21, 26)
_COLORS: Final[dict[Tone, tuple[int, int, int]]] = {
    "plain": (217, 225, 232), "strong": (255, 255, 255), "muted": (138, 150, 163), "accent": (124, 196, 255),
    "success": (123, 216, 143), "warning": (242, 193, 78), "error": (255, 122, 133), "reasoning": (180, 156, 255),
}  # fmt: skip
_SHADES: Final = 5
"""Number of colours of a tone, from the background to its own, which smooth the edges of letters."""


def write(out: BinaryIO, film: Film) -> int:
    """Write a film and return the number of its frames. Raises `WiretapeError` if Pillow is not installed."""
    painter = _Painter(_Pillow(), film.size.columns, film.size.lines)
    most = max(min(MOST_FRAMES, MOST_PIXELS // painter.pixels), 1)
    # In whole units of GIF, so that no frame's duration is rounded.
    tick_ns = max(TICK_NS, -(-film.length_ns // most // _UNIT_NS) * _UNIT_NS)
    frames = list(film.frames(tick_ns))
    # The last frame stays for a while, so that its figures can be read before the film begins again.
    hold_ms = 3_000
    until = [*(frame.at_ns for frame in frames[1:]), frames[-1].at_ns + hold_ms * _MS]
    lasting = [(end_ns - frame.at_ns) // _MS for frame, end_ns in zip(frames, until, strict=True)]
    pictures = painter.pictures(frames)
    first_picture = next(pictures)
    # Disposal 1 keeps the frame before, of which Pillow writes the differences only.
    first_picture.save(
        out, "GIF", save_all=True, append_images=pictures, duration=lasting, loop=0, optimize=True, disposal=1
    )
    return len(frames)


class _Painter:
    """Draws the lines of a screen that have changed, in cells of the size of the font's."""

    def __init__(self, pillow: "_Pillow", columns: int, lines: int) -> None:
        self._pillow = pillow
        self._fonts = pillow.fonts()
        self._cell = pillow.cell(self._fonts[0])
        self._size = columns * self._cell[0], lines * self._cell[1]
        self._lines: list[Sequence[Part]] = [()] * lines
        self._bases = {tone: number * _SHADES for number, tone in enumerate(_COLORS)}
        self._signs: dict[tuple[str, Tone], Any] = {}

    @property
    def pixels(self) -> int:
        return self._size[0] * self._size[1]

    def pictures(self, frames: Iterable[FilmFrame]) -> Iterator[Any]:
        """Yield the picture of each frame."""
        picture = self._pillow.image.new("P", self._size, 0)
        picture.putpalette([value for color in _COLORS.values() for value in _shades(color)])
        for frame in frames:
            picture = picture.copy()
            for number, (line, previous) in enumerate(zip(frame.lines, self._lines, strict=True)):
                if line != previous:
                    self._draw(picture, number, line)
            self._lines = list(frame.lines)
            yield picture

    def _draw(self, picture: Any, number: int, line: Sequence[Part]) -> None:
        wide, high = self._cell
        picture.paste(0, (0, number * high, self._size[0], (number + 1) * high))
        cell = 0
        for text, tone in line:
            start = 0
            for end in wrap.grapheme_ends(text):
                sign = text[start:end]
                if sign != " ":
                    picture.paste(self._sign(sign, tone), (cell * wide, number * high))
                start, cell = end, cell + cell_len(sign)

    def _sign(self, sign: str, tone: Tone) -> Any:
        """Return the picture of a sign, whose pixels are the shades of its tone."""
        if (sign, tone) not in self._signs:
            size = self._cell[0] * max(cell_len(sign), 1), self._cell[1]
            mask = self._pillow.box_mask(sign, size) or self._pillow.glyph_mask(sign, size, self._fonts)
            shades = ((value * (_SHADES - 1) + 127) // 255 for value in range(256))
            indexes = mask.point([self._bases[tone] + shade if shade else 0 for shade in shades])
            self._signs[sign, tone] = self._pillow.image.frombytes("P", size, indexes.tobytes())
        return self._signs[sign, tone]


def _shades(color: tuple[int, int, int]) -> Iterator[int]:
    for shade in range(_SHADES):
        for ground, full in zip(_BACKGROUND, color, strict=True):
            yield ground + (full - ground) * shade // (_SHADES - 1)


class _Pillow:
    """The parts of Pillow. Raises `WiretapeError` if it is not installed."""

    def __init__(self) -> None:
        try:
            self.image = importlib.import_module("PIL.Image")
            self._draw = importlib.import_module("PIL.ImageDraw")
            self._font = importlib.import_module("PIL.ImageFont")
        except ImportError as error:
            raise WiretapeError(f"GIF needs Pillow: {install_hint('gif')}") from error

    def fonts(self) -> list[Any]:
        """Return the font of the screen, and those for the signs that it lacks."""
        screen_font = next(self._loaded(_FONTS), None) or self._font.load_default_imagefont()
        return [screen_font, *self._loaded(_FALLBACK_FONTS)]

    def _loaded(self, names: Iterable[str]) -> Iterator[Any]:
        for name in names:
            with contextlib.suppress(OSError):  # not on this system
                yield self._font.truetype(name, 14)

    def cell(self, font: Any) -> tuple[int, int]:
        """Return the width and the height of a cell, in pixels."""
        if not hasattr(font, "getmetrics"):
            wide, high = font.getbbox("M")[2:]
            return wide, high
        return round(font.getlength("M")), sum(font.getmetrics())

    def box_mask(self, sign: str, size: tuple[int, int]) -> Any:
        """Return the mask of a sign that joins its neighbours at the left and the right; None for any other."""
        wide, high = size
        mask = self.image.new("L", size, 0)
        if sign in _BLOCK_SHADES:
            mask.paste(_BLOCK_SHADES[sign], (0, 1, wide, high - 1))
            return mask
        lines = {
            "─": (0, high // 2, wide, high // 2), "│": (wide // 2, 0, wide // 2, high), "╱": (0, high, wide, 0),
            "▏": (0, 0, 0, high),
        }  # fmt: skip
        if sign not in lines:
            return None
        self._draw.Draw(mask).line(lines[sign], fill=255)
        return mask

    def glyph_mask(self, sign: str, size: tuple[int, int], fonts: Sequence[Any]) -> Any:
        """Return the mask of a sign in the first of the fonts that has it."""
        mask, font = (
            self.image.new("L", size, 0),
            next((candidate for candidate in fonts if _has(candidate, sign)), fonts[0]),
        )
        text = sign if hasattr(font, "getmetrics") else sign.encode("latin-1", "replace").decode("latin-1")
        self._draw.Draw(mask).text((0, 0), text, fill=255, font=font)
        return mask


def _has(font: Any, sign: str) -> bool:
    if not hasattr(font, "getmetrics"):
        return sign.isascii()
    # No font has a sign for the last code point: what it draws there, it draws for any sign that it lacks.
    return bytes(font.getmask(sign)) != bytes(font.getmask("\U0010ffff"))
