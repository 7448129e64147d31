"""The filters that were typed, of this run of the viewer and of earlier ones, in a file of the user's own.

A filter may quote what was recorded, and others may have written to the file: nobody else may read it, what is in it is
looked at before it is believed, and how it is shown is left to the line that shows it. Another viewer may write to it
at any time: it is read again before each writing, and replaced as a whole.
"""

import json
import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

MOST: Final = 200
"""So many filters are kept: the newest."""

_LONGEST: Final = 4000
_LARGEST: Final = MOST * 8 * _LONGEST


def file() -> Path:
    """Give the path of the file, in the user's state directory; neither need be there."""
    import platformdirs

    return Path(platformdirs.user_state_path("wiretape")) / "filters.json"


def read(path: Path) -> list[str]:
    """Give the filters, the newest last; none if there is no file.

    Raises `OSError`, or `ValueError` where the file is broken.
    """
    try:
        with path.open("rb") as file:
            found = json.loads(file.read(_LARGEST))
    except FileNotFoundError:
        return []
    except RecursionError:
        raise ValueError("nested too deep") from None
    if not isinstance(found, list):
        raise ValueError("no list of filters")
    return [one for one in found if isinstance(one, str) and 0 < len(one) <= _LONGEST][-MOST:]


def added(known: Sequence[str], *texts: str) -> list[str]:
    """Add filters at the end; one that is there already moves there, an empty one is left out."""
    new = [text for text in dict.fromkeys(reversed(texts)) if text.strip() and len(text) <= _LONGEST][::-1]
    return [*(one for one in known if one not in new), *new][-MOST:]


def add(path: Path, text: str) -> None:
    """Add a filter to the file, which is made where there is none, or a broken one. Raises `OSError`."""
    try:
        known = read(path)
    except ValueError:  # who reads it is told that it is broken
        known = []
    if (now := added(known, text)) != known:
        _write(path, now)


def _write(path: Path, filters: Iterable[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    number, name = tempfile.mkstemp(prefix=path.name, dir=path.parent)  # for its owner alone
    try:
        with os.fdopen(number, "w", encoding="ascii") as file:
            json.dump(list(filters), file, indent=0)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
