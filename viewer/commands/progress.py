"""A bar on stderr for work that takes long: shown to people only, and only once they have waited for a while.

Where stderr is no terminal nothing is shown and nothing is counted. The bar has no thread of its own: it is drawn
between two rows, a few times a second, and is gone when the work ends, however it does. rich is imported when it is
first drawn.
"""

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, TypeVar

from recorder.clock import SYSTEM, Clock
from recorder.plurals import counted, plural

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

T = TypeVar("T")

PATIENCE_NS: Final = 400_000_000
"""How long work may take before a bar is shown."""

_REFRESH_NS: Final = 100_000_000


class Bar:
    """Counts what passes through `over`; how many steps there will be is asked for when the bar is first drawn."""

    def __init__(
        self, doing: str, total: Callable[[], int | None], console: "Console", clock: Clock, noun: str = "row"
    ) -> None:
        self._doing = doing
        self._total = total
        self._noun = noun
        self._console = console
        self._clock = clock
        self._began = clock.now()
        self._due = self._began + PATIENCE_NS
        self._progress: Progress | None = None
        self._steps = 0
        self._rows = 0

    def over(
        self, found: Iterable[T], key: Callable[[T], object] | None = None, rows: Callable[[T], int] | None = None
    ) -> Iterator[T]:
        """Give what is found and keep the bar up: with `key`, what shares it is one step; `rows` counts each."""
        last: object = self
        for one in found:
            self._rows += 1 if rows is None else rows(one)
            own = one if key is None else key(one)
            if key is None or own != last:
                self._steps, last = self._steps + 1, own
            if self._clock.now() >= self._due:
                self._draw()
            yield one

    def close(self) -> None:
        """Take the bar away."""
        if self._progress is not None:
            self._progress.stop()

    def _draw(self) -> None:
        now = self._clock.now()
        self._due = now + _REFRESH_NS
        self._progress = self._progress or self._started()
        rate = self._rows / max((now - self._began) / 1e9, 1e-9)
        said = f"{counted(self._rows, self._noun)}  {rate:,.0f} {plural(self._noun)}/s"
        self._progress.update(self._progress.task_ids[0], completed=self._steps, said=said)
        self._progress.refresh()

    def _started(self) -> "Progress":
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[said]}"),
        )
        progress = Progress(*columns, console=self._console, transient=True, auto_refresh=False,
                            get_time=lambda: self._clock.now() / 1e9)  # fmt: skip
        progress.add_task(self._doing, total=self._total(), said="")
        progress.start()
        return progress


class Hidden:
    """A bar that nobody would see."""

    def over(
        self, found: Iterable[T], key: Callable[[T], object] | None = None, rows: Callable[[T], int] | None = None
    ) -> Iterator[T]:
        """Give what is found."""
        return iter(found)


@contextlib.contextmanager
def bar(
    doing: str, total: Callable[[], int | None], noun: str = "row", *, hidden: bool = False, clock: Clock = SYSTEM
) -> Iterator[Bar | Hidden]:
    """Show the progress of what runs inside: `doing` says what it is, `noun` names one of what passes.

    `total` returns the number of steps, None if nobody knows it. `hidden` is for work that writes to the
    terminal itself.
    """
    if hidden or not sys.stderr.isatty():
        yield Hidden()
        return
    from rich.console import Console

    shown = Bar(doing, total, Console(stderr=True), clock, noun)
    try:
        yield shown
    finally:
        shown.close()
