"""The filters of earlier runs, in a file of the user's state directory.

Another viewer may write to it at any time, so it is read again before each writing, and replaced whole.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import platformdirs

from wiretape.viewer import outfile

MOST_FILTERS: Final = 200
"""Number of filters that are kept, the newest ones."""

_LONGEST_FILTER: Final = 4000
_LARGEST_HISTORY: Final = MOST_FILTERS * 8 * _LONGEST_FILTER


def file() -> Path:
    """Return the path of the history, in the user's state directory; neither need exist."""
    return Path(platformdirs.user_state_path("wiretape")) / "filters.json"


def read(path: Path) -> list[str]:
    """Return the filters, the newest last; none if there is no file.

    Raises `OSError`, or `ValueError` where the file is broken: others may have written to it.
    """
    try:
        with path.open("rb") as file:
            filters = json.loads(file.read(_LARGEST_HISTORY))
    except FileNotFoundError:
        return []
    except RecursionError:
        raise ValueError("nested too deep") from None
    if not isinstance(filters, list):
        raise ValueError("no list of filters")
    return [text for text in filters if isinstance(text, str) and 0 < len(text) <= _LONGEST_FILTER][-MOST_FILTERS:]


def with_filters(known: Sequence[str], *texts: str) -> list[str]:
    """Return a history with filters added at the end, each once; an empty one is left out."""
    new = [text for text in dict.fromkeys(reversed(texts)) if text.strip() and len(text) <= _LONGEST_FILTER][::-1]
    return [*(text for text in known if text not in new), *new][-MOST_FILTERS:]


def add(path: Path, text: str) -> None:
    """Add a filter to the history, which is made where there is none, or a broken one. Raises `OSError`."""
    try:
        known = read(path)
    except ValueError:  # `read` reports it
        known = []
    if (filters := with_filters(known, text)) != known:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        outfile.replace_private(path, json.dumps(filters, indent=0).encode())
