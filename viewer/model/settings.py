"""What the configuration files say about the viewer: keys, saved views, a theme and an objective.

They are `./.wiretape.toml` and the user's `config.toml`, as for `thresholds`; what the first one says comes first. A
file that is wrong somewhere is told of in one line, and what is right in it is heeded nevertheless.
"""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from recorder.sanitize import safe
from viewer.timing.thresholds import LOCAL_FILE, user_file

_TEXTS: Final = ("theme", "slo")
_TABLES: Final = ("keys", "views")
_MOST: Final = 1000


@dataclass(slots=True)
class Settings:
    """What was found: `keys` by the id of a binding, `views` by name; `wrong` has a line for each slip."""

    keys: dict[str, str] = field(default_factory=dict)
    views: dict[str, str] = field(default_factory=dict)
    theme: str | None = None
    slo: str | None = None
    wrong: list[str] = field(default_factory=list)


def read() -> Settings:
    """Read both files; neither need exist."""
    found = Settings()
    for path in (Path(LOCAL_FILE), user_file()):
        _heed(found, _document(path, found.wrong), safe(str(path)))
    _check_views(found)
    _check_objective(found)
    return found


def check_theme(found: Settings, known: Iterable[str]) -> None:
    """Give up a theme that is none of those known, and say so."""
    if found.theme is None or found.theme in (names := list(known)):
        return
    near = difflib.get_close_matches(found.theme, names, 1)
    meant = f"did you mean {near[0]}?" if near else "there are wiretape-dark and wiretape-light"
    found.wrong.append(f"theme: there is no theme {safe(found.theme)}: {meant}")
    found.theme = None


def _heed(found: Settings, document: Mapping[str, Any], where: str) -> None:
    """Take what a file says, unless one before it has said it."""
    for name in _TEXTS:
        value = document.get(name)
        if value is not None and not isinstance(value, str):
            found.wrong.append(f"{name} in {where} must be a text in quotes")
        elif value is not None and getattr(found, name) is None:
            setattr(found, name, value)
    for name in _TABLES:
        table = document.get(name, {})
        if not isinstance(table, dict):
            found.wrong.append(f"{name} in {where} is no table: write [{name}] on a line of its own")
            continue
        _fill(getattr(found, name), table, f"[{name}] in {where}", found.wrong)


def _fill(into: dict[str, str], table: Mapping[str, Any], where: str, wrong: list[str], prefix: str = "") -> None:
    """Take the texts of a table; `replay.play = "p"` is TOML for a table within it."""
    for name, value in table.items():
        if isinstance(value, dict):
            _fill(into, value, where, wrong, f"{prefix}{name}.")
        elif isinstance(value, str) and value and len(into) < _MOST:
            into.setdefault(f"{prefix}{name}", value)
        else:
            wrong.append(f"{safe(prefix + name)} under {where} must be a text in quotes")


def _document(path: Path, wrong: list[str]) -> Mapping[str, Any]:
    import tomllib

    try:
        return tomllib.loads(path.read_bytes().decode())
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        wrong.append(f"{safe(str(path))} cannot be read ({error.strerror})")
    except ValueError as error:
        wrong.append(f"{safe(str(path))} is no TOML: {safe(str(error))}")
    return {}


def _check_views(found: Settings) -> None:
    from viewer.filters.parser import FilterError, parse

    for name, text in list(found.views.items()):
        try:
            parse(text)
        except FilterError as error:
            del found.views[name]
            found.wrong.append(f"the view {safe(name)} is no filter: {error}")


def _check_objective(found: Settings) -> None:
    from viewer.stats.metrics import objective

    if found.slo is None:
        return
    try:
        objective(found.slo)
    except ValueError as error:
        found.slo = None
        found.wrong.append(f"slo: {safe(str(error))}")
