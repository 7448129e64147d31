"""Users' notes about exchanges, in a JSON file beside the tape: bookmarks, and a text.

The viewer never writes to the tape itself. A file that cannot be read is left as it is, and an error.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from wiretape.recorder.decode.values import JsonObject
from wiretape.recorder.errors import WiretapeError
from wiretape.recorder.sanitize import safe
from wiretape.viewer import outfile

MOST_BOOKMARKS: Final = 1000
_LARGEST: Final = 16 << 20


@dataclass(slots=True)
class Notes:
    """The notes about one exchange: a text, and the positions of the bookmarks, ascending."""

    text: str = ""
    bookmarks: list[int] = field(default_factory=list)

    def toggle(self, position: int) -> bool:
        """Set a bookmark, or remove it; return True if there is one now."""
        if position in self.bookmarks:
            self.bookmarks.remove(position)
            return False
        self.bookmarks = sorted([*self.bookmarks, position])[-MOST_BOOKMARKS:]
        return True


def path_of(tape: Path) -> Path:
    """Return the path of the notes about a tape's exchanges."""
    return tape.with_name(f"{tape.name}.notes.json")


def read(tape: Path, id: str) -> Notes:
    """Return the notes about an exchange. Raises `WiretapeError` if the file cannot be read."""
    noted = _all(path_of(tape)).get(id, {})
    text, bookmarks = noted.get("text", ""), noted.get("bookmarks", [])
    places = [place for place in bookmarks if isinstance(place, int)] if isinstance(bookmarks, list) else []
    return Notes(text if isinstance(text, str) else "", sorted(places)[:MOST_BOOKMARKS])


def write(tape: Path, id: str, notes: Notes) -> None:
    """Replace the notes about an exchange, and keep those about others. Raises `WiretapeError`."""
    path = path_of(tape)
    noted = _all(path)
    noted.pop(id, None)
    if notes.text or notes.bookmarks:
        noted[id] = {"text": notes.text, "bookmarks": notes.bookmarks}
    try:
        outfile.replace_private(path, json.dumps(noted, ensure_ascii=False, indent=1).encode("utf-8", "replace"))
    except OSError as error:
        raise WiretapeError(f"{safe(str(path))} cannot be written ({error.strerror})") from error


def _all(path: Path) -> dict[str, JsonObject]:
    name = safe(str(path))
    try:
        if path.stat().st_size > _LARGEST:
            raise WiretapeError(f"{name} is too large for notes: move it away")
        noted = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise WiretapeError(f"{name} cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise WiretapeError(f"{name} is no JSON: mend it or move it away") from error
    if not isinstance(noted, dict) or not all(isinstance(one, dict) for one in noted.values()):
        raise WiretapeError(f"{name} is no file of notes: move it away")
    return noted
