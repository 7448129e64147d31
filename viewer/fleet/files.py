"""The files of an archive, below a directory or in a bucket: a file is there as a whole, or not at all."""

import mmap
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

SUFFIX: Final = ".parquet"
_UNFINISHED: Final = ".part"


class File(NamedTuple):
    """A file: its path below the archive, and its size in bytes."""

    path: str
    size: int


@dataclass(frozen=True, slots=True)
class Files:
    """What is stored below `root`, a path of pyarrow's `system`. Whatever goes wrong is an `OSError`."""

    arrow: ModuleType
    system: Any
    root: str
    is_local: bool

    def put(self, path: str, write: Callable[[Any], object]) -> None:
        """Store a file, in the place of one of this name if there is one; `write` gets an open binary file."""
        if self.is_local:
            _put(Path(self.root), Path(self.root, path), write)
            return
        with tempfile.TemporaryFile() as whole:
            write(whole)
            whole.flush()
            with (
                mmap.mmap(whole.fileno(), 0, access=mmap.ACCESS_READ) as content,
                self.system.open_output_stream(f"{self.root}/{path}") as out,
            ):
                out.write(content)  # at once: a stream that is closed, whatever came in between, is stored

    def open(self, path: str) -> Any:
        """Open a file for reading."""
        return self.system.open_input_file(f"{self.root}/{path}")

    def below(self, path: str) -> list[File]:
        """Return the files of Parquet below a directory, sorted; those that are being written are none."""
        selector = self.arrow.fs.FileSelector(f"{self.root}/{path}", recursive=True, allow_not_found=True)
        found = [(one.path.removeprefix(f"{self.root}/"), one) for one in self.system.get_file_info(selector)]
        return sorted(File(name, one.size) for name, one in found if one.is_file and name.endswith(SUFFIX))

    def remove(self, path: str) -> None:
        """Remove a file, if it is there."""
        with suppress(FileNotFoundError):
            self.system.delete_file(f"{self.root}/{path}")

    def remove_unfinished(self, before: float) -> None:
        """Remove what processes that were killed left unfinished in a directory before a Unix time."""
        for part in Path(self.root).rglob(f".*{_UNFINISHED}") if self.is_local else ():
            with suppress(FileNotFoundError):
                if part.stat().st_mtime < before:
                    part.unlink()


def _put(root: Path, path: Path, write: Callable[[Any], object]) -> None:
    """Write a file under a hidden name, which no reader of data sets looks at, and then give it its own."""
    for directory in reversed([path.parent, *(one for one in path.parent.parents if one.is_relative_to(root))]):
        directory.mkdir(mode=0o700, exist_ok=True, parents=directory == root)
    descriptor, name = tempfile.mkstemp(_UNFINISHED, f".{path.name}.", path.parent)  # 0600; others may merge the same
    try:
        with open(descriptor, "wb") as out:
            write(out)
            out.flush()
            os.fsync(out.fileno())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    for directory in path.parents:  # of which any may be new
        _sync(directory)
        if directory == root:
            return


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
