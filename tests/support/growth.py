"""Growth of the CPU time of a call with the length of a text."""

import time
from collections.abc import Callable, Iterable, Iterator

_PAIR_S = 2.5e-10
"""Least time that quadratic work takes for each pair of characters: C compares about four bytes in a nanosecond."""
_MOST = 9.0
"""Linear time grows 4 times with 4 times the length, quadratic time 16 times."""

CHARACTERS = " \t\n\r\u2028aA09é-_./\"'\\[]{}(),;:=<>&%@#?+*`~|$!\x1b\0"
WORDS = (
    "key ",
    "token-",
    "bearer ",
    "sk-",
    "a=",
    "a: ",
    "//a@",
    "%25",
    "data:",
    "data: {}\n",
    "\r\n",
    "</a>",
    '{"a":',
    "a,",
)


def hostile(words: Iterable[str] = WORDS, characters: Iterable[str] = CHARACTERS) -> Iterator[Callable[[int], str]]:
    """Yield makers of texts of a length: one thing repeated, one after another, each also with another end."""
    words, characters = list(words), list(characters)
    for end in ("", "\0"):
        for repeated in (*words, *characters):
            yield lambda size, repeated=repeated, end=end: (repeated * size)[:size] + end  # type: ignore[misc]
        for prefix in words:
            for repeated in characters:
                yield lambda size, first=prefix, repeated=repeated, end=end: first + repeated * size + end  # type: ignore[misc]


def grows_too_fast(call: Callable[[str], object], made: Callable[[int], str], size: int) -> bool:
    """Return True if a call takes more than linear time. A call that is quick at the full size does not."""
    quick_s = _PAIR_S * size**2
    if (many := _seconds(call, made(size))) < quick_s:
        return False
    few = min(_seconds(call, made(size // 4)) for _ in range(3))
    if many > _MOST * few:  # which a disturbance may have caused
        many = min(_seconds(call, made(size)) for _ in range(2))
    return many > max(_MOST * few, quick_s)


def _seconds(call: Callable[[str], object], text: str) -> float:
    began = time.thread_time()
    call(text)
    return time.thread_time() - began
