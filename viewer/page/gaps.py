"""Pure: the gaps of many exchanges in few bytes: each to within 1 %, a gap of 0 exactly.

A gap is a step of a geometric scale, from 1 µs on; less counts as 1 µs. Nothing is worked out from them but pictures:
figures are made of the gaps themselves. The steps of an exchange stand as differences from their median, with the sign
in the lowest bit, low bytes and high bytes apart: most high bytes are 0 then, and compress to nothing.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

STEP: Final = 1.02
"""The ratio of the scale's steps."""

LEAST_NS: Final = 1000
"""The gap of step 1; step 0 is a gap of 0."""

Gaps = NDArray[np.int64]
Steps = NDArray[np.int64]


def steps(gaps: Gaps) -> Steps:
    """Return the step of each gap, in ns."""
    above = np.maximum(gaps, LEAST_NS) / LEAST_NS
    found: Steps = np.where(gaps > 0, 1 + np.rint(np.log(above) / np.log(STEP)), 0).astype(np.int64)
    return found


def pack(each: Iterable[bytes | None]) -> tuple[list[int | None], list[int], bytes]:
    """Pack the gaps of exchanges, int64 in ns each: how many there are (None: left out), their medians, their steps."""
    counts, middles, low, high = pack_each(each)
    return counts, middles, b"".join((*low, *high))


def pack_each(each: Iterable[bytes | None]) -> tuple[list[int | None], list[int], list[bytes], list[bytes]]:
    """Pack as `pack` does, but return the low and the high bytes of each exchange apart."""
    counts, middles, low, high = list[int | None](), list[int](), list[bytes](), list[bytes]()
    for gaps in each:
        found = steps(np.frombuffer(gaps or b"", "<i8"))
        middle = int(np.median(found)) if len(found) else 0
        around = found - middle
        signed = np.where(around < 0, -2 * around - 1, 2 * around).astype("<u2")
        counts.append(None if gaps is None else len(found))
        middles.append(middle)
        low.append(signed.astype(np.uint8).tobytes())
        high.append((signed >> 8).astype(np.uint8).tobytes())
    return counts, middles, low, high


def spread(gaps: Gaps) -> list[tuple[int, int]]:
    """Return the number of gaps of each step, ascending; steps without any are left out."""
    counts = np.zeros(0, np.int64)
    for at in range(0, len(gaps), _BLOCK):
        block = np.bincount(steps(gaps[at : at + _BLOCK]), minlength=len(counts))
        block[: len(counts)] += counts
        counts = block
    return list(_filled(counts))


_BLOCK: Final = 1 << 18


def _filled(counts: Steps) -> Iterator[tuple[int, int]]:
    for step in np.flatnonzero(counts):
        yield int(step), int(counts[step])
