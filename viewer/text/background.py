"""Pure: is a terminal's background dark or light? Told by its answer to OSC 11, or by `COLORFGBG`."""

import re
from typing import Final, Literal

Background = Literal["dark", "light"]

QUERY: Final = "\x1b]11;?\x1b\\"
"""OSC 11, as xterm defines it: the terminal answers with the colour of its background."""

_ANSWER: Final = re.compile(r"\x1b\]11;([^\x07\x1b]*)(?:\x07|\x1b\\)")
_BEGUN: Final = re.compile(r"\x1b(?:\](?:1(?:1(?:;[^\x07\x1b]{0,64}\x1b?)?)?)?)?\Z")

_COLOUR: Final = re.compile(r"rgba?:([\da-f]{1,4})/([\da-f]{1,4})/([\da-f]{1,4})(?:/[\da-f]{1,4})?", re.ASCII | re.I)


class AnswerSplitter:
    """Takes a terminal's answers out of its input; the beginning of one is held until its end has come."""

    def __init__(self) -> None:
        self._remainder = ""

    def split(self, text: str) -> tuple[str, list[Background]]:
        """Return the keys in the next input, and the backgrounds in its answers. No text is a pause in the input."""
        data = self._remainder + text
        backgrounds = [background for answer in _ANSWER.findall(data) if (background := parse(answer)) is not None]
        keys = _ANSWER.sub("", data)
        start = _BEGUN.search(keys)
        # Until then it may also be keys: `Esc`, or `Alt` and a bracket.
        longest_key = len("\x1b]11")
        self._remainder = start[0] if start and (text or len(start[0]) > longest_key) else ""
        return keys[: len(keys) - len(self._remainder)], backgrounds


def parse(answer: str) -> Background | None:
    """Return the background that an answer names as `rgb:R/G/B`, 1 to 4 hexadecimal digits each, or None."""
    match = _COLOUR.fullmatch(answer)
    if match is None:
        return None
    red, green, blue = (int(digits, 16) / (16 ** len(digits) - 1) for digits in match.groups())
    # On 0.179, black and white have the same contrast: √0.0525 - 0.05, by the formula of WCAG 2.
    return "light" if luminance(red, green, blue) > 0.179 else "dark"


def by_variable(value: str | None) -> Background | None:
    """Return the background by `COLORFGBG`, such as `15;0` or `0;default;15`; None if its last part is no number."""
    number = (value or "").rpartition(";")[2]
    if not re.fullmatch("[0-9]|1[0-5]", number):
        return None
    return "dark" if int(number) in {*range(7), 8} else "light"  # of the 16 colours, 7 is light grey, 8 dark grey


def luminance(red: float, green: float, blue: float) -> float:
    """Return the relative luminance of a colour of sRGB, whose parts are 0 to 1, as WCAG 2 defines it: 0 to 1."""
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in (red, green, blue)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
