"""Pure: the figures of two exchanges in columns, with their difference and which is better.

The figures are those of `compare.pair`, the same as the command's. Only durations and speeds are judged: a longer
answer is not a better one, and short gaps are not better where output came many chunks at once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from viewer import cells
from viewer.rows import Row

_COLUMNS: Final = (
    ("TTFT ms", "ttft_ms"), ("gap p50", "icl_p50_ms"), ("gap p99", "icl_p99_ms"), ("max gap", "max_stall_ms"),
    ("tok/s", "tps_user"), ("TPOT", "tpot_ms"), ("total ms", "duration_ms"), ("out tok", "completion_tokens"),
    ("outcome", "outcome"), ("finish", "finish_reason"),
)  # fmt: skip
_HIGH_IS_GOOD: Final = frozenset({"tps_user"})
_OF_GAPS: Final = frozenset({"icl_p50_ms", "icl_p99_ms", "max_stall_ms", "tpot_ms", "tps_user"})
UNPACED: Final = frozenset({"burst", "coalesced", "single_chunk"})
"""The flags of exchanges whose gaps do not say how fast their output was made."""

_JUDGED: Final = frozenset(name for _, name in _COLUMNS if name.endswith("_ms")) | _HIGH_IS_GOOD
_SAME: Final = "same"
_OTHER: Final = "differs"
_BETTER: Final = "<"
_MINUS: Final = "−"


@dataclass(frozen=True, slots=True)
class Score:
    """One figure: its name, A's, B's and the difference as texts; `better` is 0 for A, 1 for B, None for neither.

    The better one ends in `<`, where the others have a space, so that numbers stand below each other.
    """

    label: str
    a: str
    b: str
    difference: str
    better: int | None

    @property
    def width(self) -> int:
        """How many cells the widest of its texts takes, all of which are safe for a terminal."""
        return max(map(len, (self.label, self.a, self.b, self.difference)))


def scores(pair: Sequence[Row], *, gaps_say_little: bool = False) -> list[Score]:
    """Give the figures of a comparison of two exchanges, the most telling first.

    Gaps that say little are not judged.
    """
    rows = {row["metric"]: row for row in pair}
    judged = _JUDGED - _OF_GAPS if gaps_say_little else _JUDGED
    return [_score(label, name, rows[name], judged=name in judged) for label, name in _COLUMNS]


def text_score(lengths: tuple[int, int], divergence: int | None) -> Score:
    """Say how long both texts are, in characters, and where they part: None if they are the same."""
    a, b = (f"{length:,} ch" for length in lengths)
    return Score("text", a, b, _SAME if divergence is None else f"differ at {divergence:,}", None)


def fitting(found: Sequence[Score], width: int, apart: int = 1) -> list[Score]:
    """Give as many of the figures as fit beside each other; the last, which is the text's, always does."""
    *others, last = found
    room = width - last.width - apart
    kept = []
    for one in others:
        room -= one.width + apart
        if room < 0:
            break
        kept.append(one)
    return [*kept, last]


def _score(label: str, name: str, row: Mapping[str, Any], *, judged: bool) -> Score:
    a, b, difference = row["a"], row["b"], row["difference"]
    better = None
    if judged and difference and _is_seen(difference):
        better = int((difference < 0) != (name in _HIGH_IS_GOOD))
    shown = [_shown(name, value) for value in (a, b)]
    marked = [f"{text}{_BETTER if better == at else ' '}" for at, text in enumerate(shown)]
    return Score(f"{label} ", marked[0], marked[1], f"{_change(name, a, b, difference)} ", better)


def _is_seen(difference: float) -> bool:
    """Say whether a difference is any to the tenth that is shown."""
    return cells.ms(abs(difference)) != cells.ms(0.0)


def _shown(name: str, value: Any) -> str:
    if isinstance(value, float):
        return cells.ms(value)
    return cells.count(value) if isinstance(value, int) else cells.cut(cells.cell(value), 14)


def _change(name: str, a: Any, b: Any, difference: float | None) -> str:
    if difference is None:
        return cells.UNKNOWN if a is None or b is None else _SAME if a == b else _OTHER
    if not difference:
        return _SAME
    if not _is_seen(difference):
        return cells.ms(0.0)
    return f"{_MINUS if difference < 0 else '+'}{_shown(name, abs(difference))}"
