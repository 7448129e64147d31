"""The task of an export format's writer: the selected exchanges, and the options of the format."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import click

from wiretape.recorder.errors import NotFound
from wiretape.recorder.tape.masking import Masker
from wiretape.viewer.query.syntax import Filter
from wiretape.viewer.source.base import Selection, Source


@dataclass(frozen=True, slots=True)
class ExportTask:
    """One export: the exchanges of a source that a filter and ids select, at most `limit` of them.

    `options` is the value of the format's own options, None if none is given. `mask` replaces secrets. `over` passes
    items on, and shows the progress.
    """

    format: str
    source: Source
    selection: Selection
    filter: Filter | None
    limit: int | None = None
    options: Any = None
    every_operation: bool = False
    mask: Masker | None = None
    is_shown: bool = False
    """True if the file is a terminal."""
    over: Callable[[Iterable[Any]], Iterator[Any]] = iter
    notes: list[str] = field(default_factory=list)
    """Lines for standard error once the file is written, such as the count of exchanges left out."""

    def few(self, most: int) -> list[int]:
        """Return the numbers of the exchanges, named ones in their order. Raise a usage error if there are more."""
        numbers = self.source.numbers(self.selection, most + 1)
        if len(numbers) > most:
            race = ", or two for a race" if most > 1 else ""
            name = "name its ID, such as @ for the newest"
            raise click.UsageError(f"--format {self.format} is of one exchange: {name}{race}")
        if not numbers:
            raise NotFound("no exchange matches: see 'wiretape ls'")
        return sorted(numbers, key=(self.selection.numbers or numbers).index)


def write_body(task: ExportTask, file: BinaryIO) -> int:
    """Write the body of one exchange, byte for byte, and return its size."""
    (number,) = task.few(1)
    return file.write(task.source.exchange(number).body())
