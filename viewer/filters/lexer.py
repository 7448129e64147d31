"""Pure: a place in the text of a filter, and the small things that can be read there: signs, words, phrases, values.

What cannot be read is a `FilterError`, which names the place and what was expected there. What the pieces mean is left
to `filtering.terms` and `filtering.parser`.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from recorder.sanitize import safe
from viewer.filters.syntax import Pattern
from viewer.filters.values import pattern

T = TypeVar("T")

WORD: Final = re.compile(r"[^\s()\"]+")
"""A word that stands alone."""

VALUE: Final = re.compile(r"[^\s(),\"]+")
"""A value of a field: it ends at a comma, too."""

_MOST_VALUES = 100
_PHRASE = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_ESCAPE = re.compile(r'\\(["\\])')
_UNSAFE = re.compile("[\0\ud800-\udfff]")
_SPACE = re.compile(r"\s*")


class FilterError(ValueError):
    """A filter that cannot be read; `position` is the index of the character where it stops making sense."""

    def __init__(self, token: str, position: int, message: str) -> None:
        place = f"{safe(token)!r} (character {position + 1})" if token else "at the end"
        super().__init__(f"{place}: {message}")
        self.token = token
        self.position = position


def checked(text: str) -> str:
    """Give a text back that a database can compare with; raises `FilterError` for NUL and for what is not UTF-8."""
    if unsafe := _UNSAFE.search(text):
        raise FilterError(unsafe[0], unsafe.start(), "expected text")
    return text


@dataclass(frozen=True, slots=True)
class Item:
    """A value as it is written: its text, whether it is a phrase in quotes, and where it stands."""

    text: str
    is_phrase: bool
    position: int

    @property
    def pattern(self) -> Pattern:
        """The text as a pattern; a phrase has no wildcards."""
        return (self.text,) if self.is_phrase else pattern(self.text)

    def error(self, message: str) -> FilterError:
        """Say what was expected instead of this value."""
        return FilterError(self.text, self.position, message)

    def read(self, reader: Callable[[str], T], text: str | None = None) -> T:
        """Read the value, or a part of it; the reader's `ValueError` becomes a `FilterError` at this place."""
        try:
            return reader(self.text if text is None else text)
        except ValueError as error:
            raise self.error(str(error)) from None


class Cursor:
    """A place in a text, which moves on as things are taken from there; `at` is its index."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self._values = 0

    def rest(self) -> str:
        """Pass over spaces, and give what is left."""
        space = _SPACE.match(self.text, self.at)
        self.at = space.end() if space else self.at
        return self.text[self.at :]

    def take(self, sign: str) -> bool:
        """Take a sign, if it comes next."""
        if not self.rest().startswith(sign):
            return False
        self.at += len(sign)
        return True

    def match(self, expression: "re.Pattern[str]") -> "re.Match[str] | None":
        """Take what an expression matches, if it comes next."""
        found = expression.match(self.rest())
        self.at += found.end() if found else 0
        return found

    def next_word(self) -> str:
        """Give the word that comes next, in lower case, and leave it there."""
        found = WORD.match(self.rest())
        return found[0].lower() if found else ""

    def item(self, bare: "re.Pattern[str]", expected: str) -> Item:
        """Take a phrase, or what `bare` matches."""
        self._values += 1
        if self._values > _MOST_VALUES:
            raise self.error(f"expected at most {_MOST_VALUES} values in all")
        if self.rest().startswith('"'):
            return self._phrase()
        start = self.at
        word = self.match(bare)
        if word is None:
            raise self.error(expected)
        return Item(word[0], False, start)

    def items(self) -> list[Item]:
        """Take values with commas between them."""
        found = [self.item(VALUE, "expected a value")]
        while self.take(","):
            found.append(self.item(VALUE, "expected a value"))
        return found

    def expression(self) -> Item:
        """Take a phrase, or all up to the next space or to a parenthesis that was not opened on the way."""
        if self.rest().startswith('"'):
            return self._phrase()
        start, depth = self.at, 0
        while self.at < len(self.text) and not self.text[self.at].isspace():
            depth += {"(": 1, ")": -1}.get(self.text[self.at], 0)
            if depth < 0:
                break
            self.at += 1
        if start == self.at:
            raise self.error("expected a regular expression")
        return Item(self.text[start : self.at], False, start)

    def separated(self) -> None:
        """Make sure that a term has ended here: else what was meant as one would be read as two."""
        around = self.text[max(self.at - 1, 0) : self.at + 1]
        if self.at < len(self.text) and around[-1] != ")" and not any(sign.isspace() for sign in around):
            raise self.error("expected a space; put what belongs together in quotes")

    def error(self, message: str) -> FilterError:
        """Say what was expected at this place."""
        rest = self.rest()
        word = WORD.match(rest)
        return FilterError(word[0] if word else rest[:1], self.at, message)

    def _phrase(self) -> Item:
        start = self.at
        phrase = self.match(_PHRASE)
        if phrase is None:
            raise self.error('expected a closing "')
        return Item(_ESCAPE.sub(r"\1", phrase[1]), True, start)
