"""Pure: the rules for stalls and bursts, and their thresholds.

The tape's flags are raised with the default thresholds when an exchange is stored. Verdicts, lists, markers of a
recording and the screens apply the same functions, with the user's thresholds if there are any.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from itertools import compress
from operator import ne, sub
from typing import Any, Final

_ALL: Final = "Lists, filters and --format json use the flags on the tape, set by the default limits."


def _threshold(default: object, meaning: str, sign: str, most: float = 1e9) -> Any:
    return field(default=default, metadata={"doc": meaning, "sign": sign, "most": most})


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The limits for a stall, and for a burst; each field's metadata has its meaning."""

    stall_ms: float = _threshold(2000.0, "Limit of gaps between reads with output; a longer one is a stall.", "MS")
    burst_chunks: int = _threshold(20, "Minimum number of output chunks in a burst.", "N")
    burst_share: float = _threshold(
        0.8, "A burst has this share of its output chunks in --burst-reads reads, …", "SHARE", 1
    )
    burst_reads: int = _threshold(2, "Number of reads for --burst-share.", "N")
    burst_window: float = _threshold(0.05, f"… or all of them within this share of the latency. {_ALL}", "SHARE", 1)

    @property
    def stall_ns(self) -> int:
        """`stall_ms` in ns."""
        return round(self.stall_ms * 1_000_000)

    def is_stall(self, gap_ns: int | None) -> bool:
        """Return True if a stream stalled whose longest gap between reads with output is this."""
        return gap_ns is not None and gap_ns > self.stall_ns

    def is_burst(self, at_ns: Sequence[int], reads: Sequence[Hashable]) -> bool:
        """Return True if output chunks with these timestamps, brought by these reads, came in a burst."""
        if len(at_ns) < max(self.burst_chunks, 1):
            return False
        together = sum(times for _, times in Counter(reads).most_common(self.burst_reads))
        in_a_flash = at_ns[-1] - at_ns[0] < self.burst_window * at_ns[-1]
        return together >= self.burst_share * len(at_ns) or in_a_flash

    @property
    def stall_meaning(self) -> str:
        """The rule for a stall, in words."""
        return f"a gap of more than {self.stall_ms / 1000:g} s between reads with output"

    @property
    def burst_meaning(self) -> str:
        """The rule for a burst, in words."""
        share, window = f"{100 * self.burst_share:g} %", f"{100 * self.burst_window:g} %"
        return (
            f"{self.burst_chunks} or more output chunks, {share} of them in {self.burst_reads} reads"
            f" or all within {window} of the latency"
        )


LIMITS: Final = {one.name: one for one in fields(Thresholds)}
"""The fields of `Thresholds` by name."""

DEFAULT: Final = Thresholds()
"""The thresholds by which the tape's flags are raised."""


def output_gaps(at_ns: Sequence[int], reads: Sequence[Hashable]) -> Iterator[tuple[int, int]]:
    """Return the gaps between reads with output: for each, the number of the output chunk that ended it, and its ns.

    The output chunks have these timestamps and were brought by these reads; chunks of one read have no gap.
    """
    return compress(enumerate(map(sub, at_ns[1:], at_ns), 1), map(ne, reads[1:], reads))


def stalls_among(gaps: Iterable[int], first_ns: int, limits: Thresholds = DEFAULT) -> Iterator[tuple[int, int]]:
    """Yield the begin and end of each stall among gaps between outputs; the first output came at `first_ns`."""
    at_ns, stall_ns = first_ns, limits.stall_ns
    for gap_ns in gaps:
        at_ns += gap_ns
        if gap_ns > stall_ns:
            yield at_ns - gap_ns, at_ns
