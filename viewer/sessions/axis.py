"""Pure: the starts of a session's exchanges on one axis of time.

Within one boot of a machine the distance between two T0s is that of its boot clock. Between boots, and of exchanges
without a reading of it, the wall clock tells it. A distance that comes out negative is 0: the wall clock was set back.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from wiretape.recorder.clock import wall_ns

_REORDERED_NS: Final = 1_000_000_000
"""Exchanges that begin at once may be numbered in another order; the delay of a number is less than this."""


class Start(NamedTuple):
    """The T0 of an exchange: `wall` clock, and `boot_ns` since the `boot` of its machine, if that is known.

    `is_imported`: the exchanges around it are in any order.
    """

    wall: str
    boot: str | None = None
    boot_ns: int | None = None
    is_imported: bool = False


def placed(starts: Iterable[Start]) -> tuple[list[int], bool]:
    """Return where exchanges start, in ns since the first of the list, and True if the wall clock was set back.

    They come in the order of their numbers.
    """
    origins, places, at_ns, is_stepped = dict[str, int](), list[int](), 0, False
    before: Start | None = None
    for start in starts:
        boot = start.boot if start.boot_ns is not None else None
        if boot is not None and boot in origins:
            at_ns = origins[boot] + (start.boot_ns or 0)
        else:
            gap_ns = 0 if before is None else _gap(before.wall, start.wall)
            is_back = gap_ns < -_REORDERED_NS and not start.is_imported
            is_stepped |= is_back
            at_ns += 0 if is_back else gap_ns
            if boot is not None:
                origins[boot] = at_ns - (start.boot_ns or 0)
        places.append(at_ns)
        before = start
    return places, is_stepped


def _gap(before: str, after: str) -> int:
    """Return the time between two wall times; 0 where one is damaged."""
    start_ns, end_ns = wall_ns(before), wall_ns(after)
    return 0 if start_ns is None or end_ns is None else end_ns - start_ns
