"""Pure: which events of a stream fit what was typed: `kind:tool`, `gap>100ms` (or `Δ>100ms`), and words in their bytes.

All that is typed must fit. It is for the events of one exchange; the filter for exchanges is `filtering.parser`'s.
"""

import re
from array import array
from collections.abc import Callable
from typing import Final

from viewer.model.exchange.transcript import KINDS, Transcript

HELP: Final = "kind:tool · gap>100ms · words"
"""What can be typed."""

Test = Callable[[Transcript, int], bool]

_GAP: Final = re.compile(r"(?:Δ|gap)([<>])([0-9]{1,12}(?:\.[0-9]{1,6})?)(ms|s)?")
_KINDS: Final = {"reason": "reasoning", "ping": "comment", "bad": "malformed"}


def read(text: str) -> list[Test]:
    """Read what was typed. Raises `ValueError` with the reason if it cannot be read."""
    return [_term(term) for term in text.split()]


def mistake(text: str) -> str | None:
    """Say what is wrong with a filter as it is typed; None if nothing is."""
    try:
        read(text)
    except ValueError as error:
        return str(error)
    return None


def fitting(transcript: Transcript, tests: list[Test]) -> "array[int]":
    """Give the events that fit, in their order."""
    return array("q", (event for event in range(len(transcript)) if all(test(transcript, event) for test in tests)))


def _term(term: str) -> Test:
    if term.startswith("kind:"):
        return _kind(term.removeprefix("kind:"))
    if match := _GAP.fullmatch(term):
        return _gap(match[1] == ">", round(float(match[2]) * (1_000_000_000 if match[3] == "s" else 1_000_000)))
    if re.match(r"(?:Δ|gap)[<>=]", term):
        raise ValueError(f"{term}: write a duration, as in gap>100ms")
    words = re.compile(re.escape(term.encode("utf-8", "replace")), re.IGNORECASE)
    return lambda transcript, event: (
        words.search(transcript.data, transcript.starts[event], transcript.ends[event]) is not None
    )


def _kind(name: str) -> Test:
    names = {_KINDS.get(one, one) for one in name.split(",")}
    if unknown := names - set(KINDS):
        raise ValueError(f"{min(unknown)} is no kind: there are {', '.join(KINDS)}")
    codes = {KINDS.index(one) for one in names}
    return lambda transcript, event: transcript.kinds[event] in codes


def _gap(above: bool, limit: int) -> Test:
    def test(transcript: Transcript, event: int) -> bool:
        gap = transcript.gap_ns(event)
        known = gap is not None and not transcript.shares_read(event)
        return known and (gap or 0) > limit if above else known and (gap or 0) < limit

    return test
