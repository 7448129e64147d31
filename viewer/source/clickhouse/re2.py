r"""Pure: a regular expression of a filter as the engine reads it, by RE2.

Filters have Python's. RE2 writes some things in another way, and takes `\d`, `\s` and `\w` for ASCII's only. What it
lacks, such as look-around and back-references, stays as it is: the engine refuses it. `\b` stays ASCII's.
"""

import re
from typing import Final

_PARTS: Final = re.compile(r"\\u([0-9a-fA-F]{4})|\\U([0-9a-fA-F]{8})|\\(.)|\{(,\d+\})|(\[\^?\]?)|(.)", re.DOTALL)
_ASCII_END: Final = 0x80
_INSIDE: Final = {
    "d": r"\p{Nd}",
    "D": r"\P{Nd}",
    "w": r"\p{L}\p{M}\p{N}\p{Pc}",
    "W": r"\p{Z}\p{S}\p{C}\p{Pd}\p{Ps}\p{Pe}\p{Pi}\p{Pf}\p{Po}",
    "s": r"\t-\r\x{85}\p{Z}",
    "S": r"\p{L}\p{M}\p{N}\p{P}\p{S}\p{Cf}\p{Co}\x00-\x08\x0e-\x1f\x7f-\x{84}\x{86}-\x{9f}",
}
"""Classes of characters as parts of one in brackets."""
_OUTSIDE: Final = {
    **{name: f"[{members}]" for name, members in _INSIDE.items()},
    "W": f"[^{_INSIDE['w']}]",
    "S": f"[^{_INSIDE['s']}]",
    "Z": r"\z",
}
_LAST: Final = r"(?:\n?\z)"
"""The end, or the end but for one line break, as `$` has it."""


def written(expression: str) -> str:
    """Return an expression as RE2 writes it; it finds the same, or RE2 does not know it."""
    parts, is_inside = list[str](), False
    of_lines = re.search(r"\(\?[a-z]*m", expression) is not None  # where `$` is the end of each
    for match in _PARTS.finditer(expression):
        short, long, escaped, most, bracket, _ = match.groups()
        part = match[0]
        if code := short or long:
            part = rf"\x{{{code}}}"
        elif escaped is not None:
            part = _escaped(escaped, _INSIDE if is_inside else _OUTSIDE)
        elif most is not None and not is_inside:
            part = f"{{0{most}"
        elif bracket is not None:
            is_inside = not (is_inside and part[-1] == "]")
        elif part == "]":
            is_inside = False
        elif part == "$" and not (is_inside or of_lines):
            part = _LAST
        parts.append(part)
    return "".join(parts)


def _escaped(sign: str, known: dict[str, str]) -> str:
    return known.get(sign, sign if ord(sign) >= _ASCII_END else f"\\{sign}")
