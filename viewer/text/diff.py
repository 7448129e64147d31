"""Pure: where two texts diverge, and how each goes on; which lines and words of them differ.

Texts may have millions of characters.
"""

import re
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Final, Literal

from wiretape.viewer.text import wrap

CONTEXT: Final = 400
"""Number of characters quoted before and after a divergence."""


_WORDS: Final = re.compile(r"\w+|\s+|.", re.DOTALL)

Piece = tuple[str, str]
"""A kind (content, caret or parting) and a text."""

_PARTING: Final = "▶"

Opcode = tuple[str, int, int, int, int]
"""A change of a span of one sequence: its kind, its start and end, and the span in the other sequence."""


@dataclass(frozen=True, slots=True)
class Divergence:
    """The divergence of two texts: the first `at` characters are the same.

    `shared` is the end of those, `a` and `b` are the continuations. `is_cut` is true if the common beginning is longer
    than `shared`; `more_a` and `more_b` count the characters after the quotation.
    """

    at: int
    shared: str
    a: str
    b: str
    is_cut: bool
    more_a: int
    more_b: int


def common_prefix_length(a: str, b: str) -> int:
    """Return the length of the common prefix of two texts, by comparing halves."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def divergence(a: str, b: str, growing: tuple[bool, bool] = (False, False)) -> Divergence | None:
    """Return the divergence of two texts; None if they are equal, or one that is still `growing` is too short yet."""
    at = common_prefix_length(a, b)
    if at == len(a) == len(b) or (at == len(a) and growing[0]) or (at == len(b) and growing[1]):
        return None
    start, end = max(at - CONTEXT, 0), at + CONTEXT
    more_a, more_b = (max(len(text) - end, 0) for text in (a, b))
    return Divergence(at, a[start:at], a[at:end], b[at:end], start > 0, more_a, more_b)


def sameness(a: str, b: str, growing: tuple[bool, bool] = (False, False)) -> str:
    """Return in words in which way two texts are the same."""
    if not a and not b:
        return "neither has any text" + (" yet" if any(growing) else "")
    if not (a and b):
        return f"{'B' if a else 'A'} has no text yet"
    return "both texts are the same" + (" so far" if any(growing) else "")


def description(divergence: Divergence, text: str) -> str:
    """Return in words how far two texts are the same; `text` is one of them."""
    at = divergence.at
    if not at and not (divergence.a and divergence.b):
        return f"only {'A' if divergence.a else 'B'} has any text"
    if not at:
        return "they differ from the first character on"
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    return f"the same up to character {at:,} (line {line:,}, column {column:,})"


@dataclass(frozen=True, slots=True)
class Edit:
    """A line of a text that becomes another one: its pieces, each with whether it differs from the other line's."""

    kind: Literal["same", "removed", "added"]
    pieces: tuple[tuple[str, bool], ...]


def parted(shared: str, remainder: str, width: int, height: int) -> list[list[Piece]]:
    """Wrap the common end of two texts and the rest of one, a sign between them, in the middle of `height` lines."""
    earlier_signs, lines, place = shared.count(_PARTING), list[list[Piece]](), 0  # signs of the text itself before ours
    for line in wrap.wrapped(f"{shared}{_PARTING}{remainder}", width):
        signs = [at for at, sign in enumerate(line) if sign == _PARTING]
        if 0 <= earlier_signs < len(signs):
            cut = signs[earlier_signs]
            lines.append([("content", line[:cut]), ("caret", _PARTING), ("parting", line[cut + 1 :])])
            place = len(lines)
        else:
            lines.append([("content" if earlier_signs >= 0 else "parting", line)])
        earlier_signs -= len(signs)
    start = max(min(place - height // 2, len(lines) - height), 0)
    return lines[start : start + height]


def edits(a: str, b: str) -> Iterator[Edit]:
    """Yield the lines of two texts: those they share once, of others those of `a` before those of `b`."""
    a_lines, b_lines = a.split("\n"), b.split("\n")
    for kind, a_start, a_end, b_start, b_end in opcodes(a_lines, b_lines):
        if kind == "equal":
            yield from (Edit("same", ((text, False),)) for text in a_lines[a_start:a_end])
            continue
        pairs = list(zip_longest(a_lines[a_start:a_end], b_lines[b_start:b_end]))
        compared = [_words(*pair) for pair in pairs]
        yield from (Edit("removed", old) for old, _ in compared if old)
        yield from (Edit("added", new) for _, new in compared if new)


def opcodes(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[Opcode]:
    """Return the opcodes that turn `a` into `b`, as in `difflib`; of long ones only the common ends are left out."""
    shorter = min(len(a), len(b))
    start = next((at for at in range(shorter) if a[at] != b[at]), shorter)
    room = shorter - start
    end = next((at for at in range(room) if a[-1 - at] != b[-1 - at]), room)
    a_end, b_end = len(a) - end, len(b) - end
    codes: list[Opcode] = [("equal", 0, start, 0, start)] if start else []
    # The search for common items takes time by the product of both lengths.
    if max(a_end, b_end) - start > 1000:
        codes.append(("replace", start, a_end, start, b_end))
    elif max(a_end, b_end) > start:
        matcher = SequenceMatcher(None, a[start:a_end], b[start:b_end])
        codes += [(kind, i + start, j + start, k + start, n + start) for kind, i, j, k, n in matcher.get_opcodes()]
    return [*codes, ("equal", a_end, len(a), b_end, len(b))] if end else codes


def _words(a: str | None, b: str | None) -> tuple[tuple[tuple[str, bool], ...], tuple[tuple[str, bool], ...]]:
    """Return the pieces of a line and of the one that replaces it; none of a line that is not there."""
    if a is None or b is None:
        return ((a, True),) if a is not None else (), ((b, True),) if b is not None else ()
    old, new = _WORDS.findall(a), _WORDS.findall(b)
    parts = [("".join(old[i:j]), "".join(new[k:n]), kind != "equal") for kind, i, j, k, n in opcodes(old, new)]
    return tuple((text, differs) for text, _, differs in parts if text), tuple(
        (text, differs) for _, text, differs in parts if text
    )
