"""Pure: the figures of exchanges that are compared: how they are called, how they look, and which is better.

Those of two are the ones of `compare.pair`, the same as the command's. Only durations and speeds are judged, and only
where that is fair: the wait for the first output wherever there was one, as nothing that comes later changes it; all
else where the answer is complete. A longer answer is not a better one, and short gaps are not better where output came
many chunks at once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from viewer import formatting
from viewer.rows import Row

LABELS: Final = {
    "ttft_ms": "TTFT ms", "icl_p50_ms": "ICL50", "icl_p99_ms": "ICL99", "max_stall_ms": "GAPMAX",
    "tps_user": "TOK/s", "tpot_ms": "TPOT", "duration_ms": "DUR ms", "completion_tokens": "TOK",
    "outcome": "OUTCOME", "finish_reason": "FINISH",
}  # fmt: skip
"""The figures, and what they are called: a gap is between reads with output, ICL the time between output chunks."""

_UNITS: Final = dict.fromkeys(("icl_p50_ms", "icl_p99_ms", "max_stall_ms", "tpot_ms"), " ms")
"""The units that stand behind the names of figures where there is room."""

HIGH_IS_GOOD: Final = frozenset({"tps_user"})
BETTER: Final = "<"
"""Stands behind the better figure, where others have a space, so that numbers stand below each other."""

GROWING: Final = "+"
"""Stands behind a figure of an exchange that still runs."""

_OF_GAPS: Final = frozenset({"icl_p50_ms", "icl_p99_ms", "max_stall_ms", "tpot_ms", "tps_user"})
_UNPACED: Final = frozenset({"burst", "coalesced", "single_chunk"})
_SETTLED: Final = frozenset({"ttft_ms"})
_JUDGED: Final = frozenset(name for name in LABELS if name.endswith("_ms")) | HIGH_IS_GOOD
_SAME: Final = "same"
_OTHER: Final = "differs"
_LONGEST: Final = 14


@dataclass(frozen=True, slots=True)
class Score:
    """One figure: its name, A's, B's and the difference as texts; `better` is 0 for A, 1 for B, None for neither.

    `full_label` is its name with its unit.
    """

    label: str
    a: str
    b: str
    difference: str
    better: int | None
    full_label: str = field(default="", compare=False)

    @property
    def width(self) -> int:
        """How many cells the widest of its texts takes, all of which are safe for a terminal."""
        return max(map(len, (self.label, self.a, self.b, self.difference)))


def label(name: str, *, with_unit: bool) -> str:
    """Return what a figure is called, with its unit, or only where that is not the usual one."""
    return LABELS[name] + (_UNITS.get(name, "") if with_unit else "")


def is_fair(name: str, row: Row) -> bool:
    """Say whether a figure of an exchange may be judged beside others."""
    if name not in _JUDGED or row[name] is None:
        return False
    if name in _SETTLED:
        return True
    flags = set(row["flags"])
    is_whole = row["outcome"] == "complete" and "empty" not in flags
    return is_whole and not (name in _OF_GAPS and flags & _UNPACED)


def shown(name: str, row: Row, *, is_better: bool = False) -> str:
    """Give a figure as a text that ends in `<` if it is better, in `+` if it may still change, else in a space."""
    value = row[name]
    is_growing = row["outcome"] == "open" and isinstance(value, int | float) and name not in _SETTLED
    return f"{_text(value)}{GROWING if is_growing else BETTER if is_better else ' '}"


def scores(pair: Sequence[Row], sides: tuple[Row, Row]) -> list[Score]:
    """Give the figures of a comparison of two exchanges, the most telling first; `sides` are their rows."""
    rows = {row["metric"]: row for row in pair}
    return [_score(name, rows[name], sides) for name in LABELS]


def text_score(lengths: tuple[int, int], divergence: int | None, *, growing: bool = False) -> Score:
    """Say how long both texts are, and which character is the first that differs, if any: `divergence` are the same.

    What has no text is not compared.
    """
    a, b = (f"{length:,} ch" if length else "none" for length in lengths)
    if not all(lengths):
        told = formatting.UNKNOWN if not any(lengths) or divergence is None else f"only {'A' if lengths[0] else 'B'}"
    elif divergence is None:
        told = f"{_SAME} so far" if growing else _SAME
    else:
        told = f"differ at {divergence + 1:,}"
    return Score("TEXT", a, b, told, None)


def fitting(found: Sequence[Score], width: int, apart: int = 1) -> list[Score]:
    """Give as many of the figures as fit beside each other; the last, which is the text's, always does.

    Their labels have units if that costs none of the figures.
    """
    full = _fitting([replace(one, label=one.full_label or one.label) for one in found], width, apart)
    plain = _fitting(found, width, apart)
    return full if len(full) == len(plain) else plain


def _fitting(found: Sequence[Score], width: int, apart: int) -> list[Score]:
    *others, last = found
    room = width - last.width - apart
    kept = []
    for one in others:
        room -= one.width + apart
        if room < 0:
            break
        kept.append(one)
    return [*kept, last]


def _score(name: str, change: Mapping[str, Any], sides: tuple[Row, Row]) -> Score:
    difference = change["difference"]
    better = None
    if difference and _is_seen(difference) and all(is_fair(name, side) for side in sides):
        better = int((difference < 0) != (name in HIGH_IS_GOOD))
    a, b = (shown(name, side, is_better=better == at) for at, side in enumerate(sides))
    named, full = (f"{label(name, with_unit=unit)} " for unit in (False, True))
    return Score(named, a, b, f"{_change(change['a'], change['b'], difference)} ", better, full)


def _is_seen(difference: float) -> bool:
    """Say whether a difference is any to the tenth that is shown."""
    return formatting.ms(abs(difference)) != formatting.ms(0.0)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return formatting.ms(value)
    return formatting.count(value) if isinstance(value, int) else formatting.cut(formatting.cell(value), _LONGEST)


def _change(a: Any, b: Any, difference: float | None) -> str:
    if difference is None:
        return formatting.UNKNOWN if a is None or b is None else _SAME if a == b else _OTHER
    if not difference:
        return _SAME
    if not _is_seen(difference):
        return formatting.ms(0.0)
    return f"{formatting.MINUS if difference < 0 else '+'}{_text(abs(difference))}"
