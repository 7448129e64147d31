"""Pure: the quantities that statistics are made of, their names and units, and limits on them as people write them.

A quantity is either one value of each exchange (`ttft`, or `each_icl_p99`: an exchange's own 99th percentile) or
pooled: all gaps of all exchanges in one heap, where long answers weigh more and one stall vanishes. Durations are in
ms.
"""

import re
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Quantity:
    """A measured quantity; `column` is where the tape has it, None if it is pooled from the gaps of all exchanges."""

    name: str
    column: str | None
    unit: str
    meaning: str

    @property
    def suffix(self) -> str:
        """What a field's name ends in to say its unit: `_ms`, or nothing for a rate."""
        return "_ms" if self.unit == "ms" else ""

    @property
    def low_is_good(self) -> bool:
        """Whether less of it is better: of durations, not of rates."""
        return self.unit == "ms"


def _own(name: str, meaning: str, unit: str = "ms", column: str = "") -> Quantity:
    return Quantity(name, column or f"{name}_ns", unit, meaning)


QUANTITIES: Final = {
    quantity.name: quantity
    for quantity in (
        _own("ttft", "T0 → first output chunk: content, reasoning or tool call"),
        _own("ttfc", "T0 → first chunk of any kind"),
        _own("ttfo", "T0 → first answer: content or tool call"),
        Quantity("icl", None, "ms", "gaps between output chunks, pooled over all exchanges; 0 where a read is shared"),
        Quantity("read_gap", None, "ms", "gaps between reads with output, pooled: those of icl above 0"),
        _own("each_icl_p50", "each exchange's own median gap between output chunks", column="icl_p50_ns"),
        _own("each_icl_p99", "each exchange's own 99th percentile of them", column="icl_p99_ns"),
        _own("each_icl_max", "each exchange's longest gap between output chunks", column="icl_max_ns"),
        _own("tpot", "time per output token after the first; needs usage"),
        _own("tps", "tokens per second after the first, of one exchange", "tokens/s", "tps_user"),
        _own("latency", "T0 → last output chunk"),
        _own("duration", "T0 → [DONE], else the end of the exchange"),
        _own("silence", "each exchange's longest silence: no byte, from the first to the end", column="max_silence_ns"),
    )
}
"""Every quantity that has statistics, by name."""

BOUNDED: Final = {
    name.replace("each_icl_", "icl."): quantity for name, quantity in QUANTITIES.items() if quantity.column is not None
}
"""What an objective can bound, by the name that it has there: one value of each exchange."""

_MS: Final = {"us": 1e-3, "µs": 1e-3, "ms": 1.0, "s": 1e3, "m": 6e4, "min": 6e4}
_AMOUNT = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([a-zµ%]*)")
_BOUND = re.compile(r"\s*([a-z0-9_.]+)\s*(<|>)\s*([^<>=,]+?)\s*")


@dataclass(frozen=True, slots=True)
class Bound:
    """One term of an objective: the quantity, whether `limit` is the highest allowed (else the lowest), the limit."""

    quantity: Quantity
    is_highest: bool
    limit: float


def amount(text: str, unit: str) -> float:
    """Read an amount in a unit: `800ms` or `0.8s` as ms, `1%` as percent, a bare number as any other unit.

    Raises `ValueError`, which says what was expected.
    """
    match = _AMOUNT.fullmatch(text.strip())
    number, given = (float(match[1]), match[2]) if match else (0.0, "")
    if match and unit == "ms" and given in _MS:
        return number * _MS[given]
    if match and unit != "ms" and given == ("%" if unit == "%" else ""):
        return number
    expected = {"ms": "a duration with its unit, such as 800ms or 0.8s", "%": "a percentage, such as 1%"}
    raise ValueError(f"{text!r} is not {expected.get(unit, 'a plain number')}")


def objective(text: str) -> list[Bound]:
    """Read an objective such as `ttft<800ms,icl.p99<200ms,tps>20`; raises `ValueError`."""
    return [_bound(part) for part in text.split(",")]


def _bound(text: str) -> Bound:
    match = _BOUND.fullmatch(text)
    if match is None:
        raise ValueError(f"{text.strip()!r} is not a bound: write a name, < or >, and a limit, such as ttft<800ms")
    quantity = BOUNDED.get(match[1])
    if quantity is None:
        raise ValueError(f"{match[1]!r} cannot be bounded: choose from {', '.join(BOUNDED)}")
    return Bound(quantity, match[2] == "<", amount(match[3], quantity.unit))
