"""The files of an archive, below a directory or in a bucket: a file is there as a whole, or not at all.

It is written under a hidden name, at which no reader of data sets looks, and then moved. A bucket needs that as much:
pyarrow stores an object that an error or a signal has cut short, when it closes it.
"""

import os
import re
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

SUFFIX: Final = ".parquet"
_UNFINISHED: Final = ".part"
_CONNECT_SECONDS: Final = 10.0
_REQUEST_SECONDS: Final = 10.0


class File(NamedTuple):
    """A file: its path below the archive, its size in bytes, and when it was written, in Unix time."""

    path: str
    size: int
    written: float


@dataclass(frozen=True, slots=True)
class Files:
    """The files below `root`, a path of pyarrow's `system`. All errors are `OSError`."""

    arrow: ModuleType
    system: Any
    root: str
    is_local: bool

    def put(self, path: str, write: Callable[[Any], object]) -> None:
        """Store a file, in the place of one of this name if there is one; `write` gets an open binary file."""
        directory, _, name = path.rpartition("/")
        part = f"{directory}/.{name}.{secrets.token_hex(4)}{_UNFINISHED}"  # another process may write the same
        try:
            if self.is_local:
                _write(Path(self.root), Path(self.root, part), write)
            else:
                with self.system.open_output_stream(f"{self.root}/{part}") as out:
                    write(out)
            self.system.move(f"{self.root}/{part}", f"{self.root}/{path}")
        except BaseException:
            with suppress(OSError):  # what went wrong is raised; the rest is removed by a later start
                self.remove(part)
            raise
        if self.is_local:
            _sync_up(Path(self.root), Path(self.root, directory))

    def open(self, path: str) -> Any:
        """Open a file for reading."""
        return self.system.open_input_file(f"{self.root}/{path}")

    def below(self, path: str) -> list[File]:
        """Return the files of Parquet below a directory, sorted; those that are being written are none."""
        return [file for file in self._list(path) if file.path.endswith(SUFFIX)]

    def remove(self, path: str) -> None:
        """Remove a file, if it is there."""
        with suppress(FileNotFoundError):
            self.system.delete_file(f"{self.root}/{path}")

    def remove_unfinished(self, path: str, before: float) -> None:
        """Remove the files that killed processes left below a directory before a Unix time."""
        for file in self._list(path):
            if file.path.endswith(_UNFINISHED) and file.written < before:
                self.remove(file.path)

    def _list(self, path: str) -> list[File]:
        selector = self.arrow.fs.FileSelector(f"{self.root}/{path}", recursive=True, allow_not_found=True)
        return sorted(
            File(one.path.removeprefix(f"{self.root}/"), one.size, one.mtime_ns / 1e9)
            for one in self.system.get_file_info(selector)
            if one.is_file
        )


def in_directory(arrow: ModuleType, directory: Path) -> Files:
    """Return the files below a directory, which may not be there yet."""
    return Files(arrow, arrow.fs.LocalFileSystem(), str(directory), is_local=True)


def in_bucket(arrow: ModuleType, prefix: str, settings: Mapping[str, str]) -> Files:
    """Return the files of `BUCKET/PREFIX`; credentials are where Amazon's programs have them.

    Raises `OSError` if the bucket's region is unknown.
    """
    region = settings.get("region") or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if region is None and "endpoint_override" not in settings:
        region = arrow.fs.resolve_s3_region(prefix.partition("/")[0])
    system = arrow.fs.S3FileSystem(
        **{**settings, "region": region},
        background_writes=False,  # which would copy the data
        connect_timeout=_CONNECT_SECONDS,
        request_timeout=_REQUEST_SECONDS,
    )
    return Files(arrow, system, prefix, is_local=False)


def _write(root: Path, path: Path, write: Callable[[Any], object]) -> None:
    """Write a private file to the disk, and make the directories above it."""
    for directory in reversed([path.parent, *(one for one in path.parent.parents if one.is_relative_to(root))]):
        directory.mkdir(mode=0o700, exist_ok=True, parents=directory == root)
    with open(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as out:
        write(out)
        out.flush()
        os.fsync(out.fileno())


def _sync_up(root: Path, directory: Path) -> None:
    """Write a directory, and its parents, any of them new, to the disk."""
    for one in (directory, *directory.parents):
        descriptor = os.open(one, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if one == root:
            return


_CAUSES: Final = {
    "ACCESS_DENIED": "the account may not do that: it has to list, read, write and delete",
    "INVALID_ACCESS_KEY_ID": "its service does not know the access key: see AWS_ACCESS_KEY_ID",
    "SIGNATURE_DOES_NOT_MATCH": "the secret key is not that of the access key: see AWS_SECRET_ACCESS_KEY",
    "NO_SUCH_BUCKET": "there is no such bucket: make it first",
    "SLOW_DOWN": "its service has too much to do",
    "NETWORK_CONNECTION": "its service cannot be reached, or cut the connection: {}",
}


def cause(error: Exception) -> str:
    """Return the cause of an error with an archive's file, in a few words."""
    if isinstance(error, OSError) and error.strerror:
        path = str(error.filename or "")
        if path.endswith(_UNFINISHED):
            path = os.path.dirname(path)
        return f"{error.strerror}: {path}" if path else error.strerror
    failed = re.search(r"AWS Error ((\w+).*?) during \w+ operation: (?:curlCode: \d+, )?(.*)", str(error), re.DOTALL)
    return str(error) if failed is None else _CAUSES.get(failed[2], f"{failed[1]}: {{}}").replace("{}", failed[3])
