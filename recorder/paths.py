"""Looks at paths that never raise: the system may refuse any of them.

`Path.exists` and its kin raise where a directory may not be entered (a container or a service that keeps another user's
HOME), `Path.resolve` also at a loop of links, and both at a relative path where the current directory was removed.
Nobody is hindered by a path that is not needed; where it is, `refusal` has the system's reason.
"""

import os
import re
import resource
import shutil
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import quote

NO_HOME: Final = "no home directory is known: set HOME"
"""Reason why a user has no place for files."""

exists, is_file, is_directory, is_link = os.path.exists, os.path.isfile, os.path.isdir, os.path.islink
"""They return False where the system refuses to tell."""


def argument(path: Path | str) -> str:
    """Return a path as a shell's argument without single quotes: messages put commands between those."""
    text = str(path)
    return text if re.fullmatch(r"[\w@%+=:,./-]+", text) else '"' + re.sub(r'(["$`\\])', r"\\\1", text) + '"'


def refusal(path: Path) -> str:
    """Return the reason for which the system refuses to look at a path; "" if it does not refuse."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        return error.strerror or type(error).__name__
    return ""


def real(path: Path) -> Path:
    """Return the absolute path, with its symbolic links resolved; a path as it is if that fails."""
    try:
        return Path(os.path.realpath(path))
    except OSError:  # the current directory was removed: a relative path leads nowhere
        return path


def absolute(path: Path) -> Path:
    """Return the absolute path, with its symbolic links."""
    try:
        return path.absolute()
    except OSError:  # the current directory was removed
        return path


def current_directory() -> Path | None:
    """Return the current directory; None if it was removed."""
    try:
        return Path.cwd()
    except OSError:
        return None


def sqlite_uri(path: Path, options: str) -> str:
    """Return the URI by which SQLite opens a file, whose name need not be UTF-8."""
    return f"file:{quote(os.fsencode(path))}?{options}"


def shortage(path: Path, margin: int = 64 << 10) -> str:
    """Return the shortage that keeps a file from being made or growing by `margin` bytes, with its remedy; "" for none.

    SQLite reports each of these as an I/O error, or as a file that it cannot open.
    """
    if not is_directory(path.parent):
        return ""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    size = path.stat().st_size if exists(path) else 0
    log_bytes = 64 << 20  # of a tape, while it is written; the log is often gone when its error is explained
    if limit != resource.RLIM_INFINITY and size + log_bytes > limit:
        return f"a file may have {limit:,} bytes here: raise the limit with 'ulimit -f'"
    if shutil.disk_usage(path.parent).free < margin:
        return "the disk is full: free some space"
    disk = os.statvfs(path.parent)
    if disk.f_files and not disk.f_favail:
        return "the disk has no inodes left for new files: remove some files"
    return ""


def text(path: Path) -> str:
    """Return a path as text that can be encoded, with bytes that are no UTF-8 escaped."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def to_json(path: Any) -> str:
    """Return a path as text from which `from_json` makes it again, also one that is no UTF-8."""
    return os.fsencode(path).decode("latin-1")


def from_json(_: type, text: Any) -> Path:
    return Path(os.fsdecode(text.encode("latin-1")))


def of_user(kind: Literal["config", "data", "state"]) -> Path | None:
    """Return the user's directory for wiretape's files of a kind; None for a user without a home.

    A container may run under a number that no list of users has, without HOME.
    """
    import platformdirs

    try:
        path = Path(getattr(platformdirs, f"user_{kind}_path")("wiretape"))
    except RuntimeError:
        return None
    return path if path.is_absolute() else None  # older versions leave the ~ in it
