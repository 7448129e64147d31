"""What shipping to a centre and to an archive have in common: a process that gives way to others, and what it says."""

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from recorder.plurals import counted

if TYPE_CHECKING:
    from recorder.commands.status import Screen
    from viewer.ship.acknowledged import Acknowledged
    from viewer.ship.ending import End

_NICENESS: Final = 10


@dataclass(frozen=True, slots=True)
class Shipping:
    """Where it is said how far it is, what ends it, and what has been acknowledged; `warn` of nothing: all is well."""

    screen: "Screen"
    end: "End"
    known: "Acknowledged"
    warn: Callable[[str], None]

    def conclude(self, shipped: int, to: str, said: int | None, waiting: int | None) -> None:
        """Print what was shipped; `said` counts exchanges of which texts were, `waiting` is None if it is unknown."""
        self.screen.status("")
        texts = "" if said is None else f", what was said in {counted(said, 'exchange')}"
        left = "" if waiting is None else f", {waiting:,} waiting"
        self.screen.line(f"{counted(shipped, 'exchange')} shipped to {to}{texts}{left}")


@contextlib.contextmanager
def shipping(tape: Path, name: str, *, beside: bool) -> Iterator[Shipping]:
    """Hold what the destination of that name has acknowledged of a tape. Raises `WiretapeError`."""
    from recorder.commands.status import Screen
    from viewer.ship import acknowledged, ending

    os.nice(_NICENESS)
    with contextlib.closing(Screen()) as screen:

        def warn(message: str) -> None:
            screen.line(f"wiretape: shipping: {message or 'works again'}")

        with (
            ending.until_end(tape, with_recorder=beside) as end,
            acknowledged.held(tape, name, end.wait_for_others(warn)) as known,
        ):
            yield Shipping(screen, end, known, warn)
