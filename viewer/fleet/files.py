"""The files of an archive, below a directory or in a bucket: a file is there as a whole, or not at all."""

import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

SUFFIX: Final = ".parquet"


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
        with tempfile.TemporaryFile() as whole:  # what is closed early would be stored in parts
            write(whole)
            whole.seek(0)
            with self.system.open_output_stream(f"{self.root}/{path}") as out:
                shutil.copyfileobj(whole, out)

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
        try:
            self.system.delete_file(f"{self.root}/{path}")
        except FileNotFoundError:
            return


def _put(root: Path, path: Path, write: Callable[[Any], object]) -> None:
    """Write a file under a hidden name, which no reader of data sets looks at, and then give it its own."""
    for directory in reversed([path.parent, *(one for one in path.parent.parents if one.is_relative_to(root))]):
        directory.mkdir(mode=0o700, exist_ok=True, parents=directory == root)
    part = path.with_name(f".{path.name}.part")
    try:
        with open(os.open(part, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb") as out:
            write(out)
            out.flush()
            os.fsync(out.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
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
