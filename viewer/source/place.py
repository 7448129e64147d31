"""A tape by its path, which loads no database library until it is opened."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from wiretape.recorder import paths
from wiretape.recorder.commands import options
from wiretape.viewer.source.base import Copied, Place, Progress

if TYPE_CHECKING:
    from wiretape.recorder.tape.reader import Connection
    from wiretape.viewer.source.tape_source import TapeSource


class TapePlace(Place):
    """The tape at a path."""

    noun = "tape"

    def __init__(self, path: Path) -> None:
        self.file: Path = path
        self.name = path.name

    @contextmanager
    def opened(self) -> Iterator["TapeSource"]:
        from wiretape.viewer.source.tape import queries

        with queries.opened(self.file) as connection:
            yield self.source_on(connection)

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Raise errors of reading the tape as `TapeError`, where it stays open from one question to the next."""
        from wiretape.viewer.source.tape import queries

        with queries.explained(self.file):
            yield

    def source_on(self, connection: "Connection") -> "TapeSource":
        from wiretape.viewer.source.tape_source import TapeSource

        return TapeSource(self, self.file, connection)

    def option(self) -> list[str]:
        """Return `--db` and the path, unless a command finds the tape by itself from any directory."""
        default, path = options.default_tape(), paths.absolute(self.file)
        return [] if default and default.is_absolute() and default == path else ["--db", str(path)]

    def copied(self, numbers: Sequence[int], directory: Path, progress: Progress) -> Copied:
        return Copied(self.file, set(numbers))

    def holding(self, private: Callable[[], Path]) -> Path:
        return self.file

    def pull(self, numbers: Sequence[int]) -> list[int]:
        return list(numbers)
