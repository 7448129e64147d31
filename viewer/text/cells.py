"""Pure: parts of a line with their tones, cut to the cells of a screen.

A tone is the meaning of a text (`success`, `warning`, …); the theme maps it to a colour.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal

from rich.cells import cell_len, set_cell_size

Tone = Literal["plain", "strong", "muted", "accent", "success", "warning", "error", "reasoning"]
Part = tuple[str, Tone]
"""A piece of a line and its tone."""

_JOINERS: Final = dict.fromkeys((0x200D, 0xFE0E, 0xFE0F))


def cut(text: str, width: int) -> str:
    """Return the beginning of a text that fits a width in cells, `…` standing for the rest."""
    if text.isascii() and len(text) <= width:
        return text  # nearly all texts of a list, at a tenth of the cost
    text = text[: 4 * width + 4].translate(_JOINERS)
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 1).rstrip(" ") + "…" if width > 0 else ""


def laid_out(parts: Sequence[Part], width: int, *, right: bool) -> Iterator[Part]:
    """Cut parts to a width in cells, `…` standing for the rest, and fill it up with blanks."""
    room = width
    line: list[Part] = []
    for text, tone in parts:
        text = cut(text, room)
        line.append((text, tone))
        room -= len(text) if text.isascii() else cell_len(text)
    blank: Part = (" " * room, "plain")
    yield from (blank, *line) if right else (*line, blank)


def in_lines(items: Iterable[Sequence[Part]], width: int) -> Iterator[list[Part]]:
    """Yield lines of items with two blanks between them, as many in each as fit a width in cells."""
    line, room = list[Part](), width
    for item in items:
        needed = sum(cell_len(text) for text, _ in item)
        if line and needed > room:
            yield line[:-1]
            line, room = [], width
        line += [*item, ("  ", "plain")]
        room -= needed + 2
    if line:
        yield line[:-1]


def joined(parts: Iterable[Part]) -> Iterator[Part]:
    """Join neighbouring parts of one tone; blanks, whose tone is not visible, join the part before them."""
    pending = ""
    its_tone: Tone = "plain"
    for text, tone in parts:
        if tone == its_tone or not text.strip(" "):
            pending += text
        elif not pending.strip(" "):
            pending, its_tone = pending + text, tone
        else:
            yield pending, its_tone
            pending, its_tone = text, tone
    yield pending, its_tone
