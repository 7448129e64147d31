"""Pure: the starts of a session's exchanges on one axis of time.

Within one boot of a machine the distance between two T0s is that of its boot clock. Between boots, and of exchanges
without a reading of it, the wall clock tells it. A distance that comes out negative is 0: the wall clock was set back.
"""

from collections.abc import Iterable
from typing import Final, Protocol

from wiretape.recorder.clock import wall_ns

IMPORTED: Final = ("imported", "none")
"""The clocks of exchanges that another program recorded."""


class Started(Protocol):
    """The T0 of an exchange: its wall time, and `boot_ns` since the `boot` of its machine, if that is known.

    `is_imported`: the exchanges around it are in any order.
    """

    @property
    def started_at(self) -> str:
        """The wall time, ISO 8601."""

    @property
    def boot(self) -> str | None:
        """The identity of a boot."""

    @property
    def boot_ns(self) -> int | None:
        """The boot clock."""

    @property
    def is_imported(self) -> bool:
        """True if another program recorded it."""


def placed(starts: Iterable[Started]) -> tuple[list[int], bool]:
    """Return the starts of exchanges, in ns since the first of the list, and True if the wall clock was set back.

    They come in the order of their numbers.
    """
    origins, places, at_ns, is_stepped = dict[str, int](), list[int](), 0, False
    previous: Started | None = None
    # Exchanges that begin at once may be numbered in another order; the delay of a number is less than this.
    reordered_ns = 1_000_000_000
    for start in starts:
        boot, boot_ns = start.boot, start.boot_ns
        if boot is not None and boot_ns is not None and boot in origins:
            at_ns = origins[boot] + boot_ns
        else:
            gap_ns = 0 if previous is None else _gap(previous.started_at, start.started_at)
            is_back = gap_ns < -reordered_ns and not start.is_imported
            is_stepped |= is_back
            at_ns += 0 if is_back else gap_ns
            if boot is not None and boot_ns is not None:
                origins[boot] = at_ns - boot_ns
        places.append(at_ns)
        previous = start
    return places, is_stepped


def _gap(earlier: str, later: str) -> int:
    """Return the time between two wall times; 0 where one is damaged."""
    start_ns, end_ns = wall_ns(earlier), wall_ns(later)
    return 0 if start_ns is None or end_ns is None else end_ns - start_ns
