"""A progress bar on stderr for long work: on a terminal only, and only after a delay.

If stderr is no terminal, nothing is shown and nothing is counted. The bar has no thread of its own: it is drawn between
two rows, a few times a second, and is removed when the work ends, also by an error. rich is imported when it is first
drawn.
"""

import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Self, TypeVar

from wiretape.recorder.clock import SYSTEM, Clock
from wiretape.recorder.plurals import counted, plural

if TYPE_CHECKING:
    from rich.progress import Progress


T = TypeVar("T")


class ProgressBar:
    """A context manager that shows the progress of an iteration with `over`; `noun` names one item.

    `total` returns the number of steps, None if unknown, and is called when the bar is first drawn. `hidden` is
    for work that writes to the terminal itself.
    """

    def __init__(
        self,
        description: str,
        total: Callable[[], int | None],
        noun: str = "row",
        *,
        hidden: bool = False,
        clock: Clock = SYSTEM,
    ) -> None:
        self._description = description
        self._total = total
        self._noun = noun
        self._is_hidden = hidden or not sys.stderr.isatty()
        self._clock = clock
        self._began = clock.now()
        self._due = self._began + 400_000_000  # a quick command shows none
        self._progress: Progress | None = None
        self._steps = self._rows = 0

    def over(
        self,
        items: Iterable[T],
        key: Callable[[T], object] | None = None,
        rows: Callable[[T], int] | None = None,
        steps: Callable[[T], int] | None = None,
    ) -> Iterator[T]:
        """Return the items, and update the bar: an item is one row and one step unless `rows` and `steps` count them.

        With `key`, items that share it are one step.
        """
        return iter(items) if self._is_hidden else self._counted(items, key, rows, steps)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    def _counted(
        self,
        items: Iterable[T],
        key: Callable[[T], object] | None,
        rows: Callable[[T], int] | None,
        steps: Callable[[T], int] | None,
    ) -> Iterator[T]:
        last_key: object = self
        for item in items:
            self._rows += 1 if rows is None else rows(item)
            item_key = item if key is None else key(item)
            if key is None or item_key != last_key:
                self._steps, last_key = self._steps + (1 if steps is None else steps(item)), item_key
            if self._clock.now() >= self._due:
                now = self._clock.now()
                self._due = now + 100_000_000
                self._progress = self._progress or self._started()
                rate = self._rows / max((now - self._began) / 1e9, 1e-9)
                text = f"{counted(self._rows, self._noun)}  {rate:,.0f} {plural(self._noun)}/s"
                self._progress.update(self._progress.task_ids[0], completed=self._steps, text=text)
                self._progress.refresh()
            yield item

    def _started(self) -> "Progress":
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

        columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[text]}")
        console = Console(stderr=True, width=shutil.get_terminal_size().columns)  # rich takes COLUMNS=0 for a width
        progress = Progress(*columns, console=console, transient=True, auto_refresh=False,
                            get_time=lambda: self._clock.now() / 1e9)  # fmt: skip
        progress.add_task(self._description, total=self._total(), text="")
        progress.start()
        return progress
