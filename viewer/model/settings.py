"""What the viewer keeps for a user: the configuration files, and the history of filters.

The configuration is `./.wiretape.toml` and the user's `config.toml`, as for `thresholds`; what the first one says comes
first. A mistake in a file is one warning, and what is right in it counts nevertheless. The history is a file of the
user's own: another viewer may write to it at any time, so it is read again before each writing, and replaced whole.
"""

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import click

from wiretape.recorder.sanitize import safe
from wiretape.viewer import outfile
from wiretape.viewer.timing.thresholds import LOCAL_FILE, read_toml, unknown_names, user_file

MOST_FILTERS: Final = 200
"""How many filters are kept: the newest."""

_LONGEST_FILTER: Final = 4000
_LARGEST_HISTORY: Final = MOST_FILTERS * 8 * _LONGEST_FILTER
_TEXTS: Final = ("theme", "slo")
_TABLES: Final = ("keys", "views")
_MOST: Final = 1000


@dataclass(slots=True)
class Settings:
    """The configuration: `keys` by the id of a binding, `views` by name; `wrong` has a line for each mistake."""

    keys: dict[str, str] = field(default_factory=dict)
    views: dict[str, str] = field(default_factory=dict)
    theme: str | None = None
    slo: str | None = None
    wrong: list[str] = field(default_factory=list)


def read() -> Settings:
    """Read both files; neither need exist."""
    settings = Settings()
    for path in (Path(LOCAL_FILE), user_file()):
        try:
            _add(settings, read_toml(path), safe(str(path)))
        except click.UsageError as error:
            settings.wrong.append(error.message)
    _check_views(settings)
    _check_objective(settings)
    _check_prices(settings)
    return settings


def check_theme(settings: Settings, known: Iterable[str]) -> None:
    """Remove a theme that is none of those known, with a warning."""
    if settings.theme is None or settings.theme in (names := list(known)):
        return
    near = difflib.get_close_matches(settings.theme, names, 1)
    meant = f"did you mean {near[0]}?" if near else "there are wiretape-dark and wiretape-light"
    settings.wrong.append(f"theme: there is no theme {safe(settings.theme)}: {meant}")
    settings.theme = None


def _add(settings: Settings, document: Mapping[str, object], where: str) -> None:
    """Add what a file says, unless one before it has said it."""
    settings.wrong += unknown_names(document, where)
    for name in _TEXTS:
        value = document.get(name)
        if value is not None and not isinstance(value, str):
            settings.wrong.append(f"{name} in {where} must be a text in quotes")
        elif value is not None and getattr(settings, name) is None:
            setattr(settings, name, value)
    for name in _TABLES:
        table = document.get(name, {})
        if isinstance(table, dict):
            _fill(getattr(settings, name), table, f"[{name}] in {where}", settings.wrong)
        else:
            settings.wrong.append(f"{name} in {where} is no table: write [{name}] on a line of its own")


def _fill(into: dict[str, str], table: Mapping[str, object], where: str, wrong: list[str], prefix: str = "") -> None:
    """Add the texts of a table; `replay.play = "p"` is TOML for a table within it."""
    for name, value in table.items():
        if isinstance(value, dict):
            _fill(into, value, where, wrong, f"{prefix}{name}.")
        elif isinstance(value, str) and value and len(into) < _MOST:
            into.setdefault(f"{prefix}{name}", value)
        else:
            wrong.append(f"{safe(prefix + name)} under {where} must be a text in quotes")


def _check_views(settings: Settings) -> None:
    from wiretape.viewer.filters.parser import FilterError, parse

    for name, text in list(settings.views.items()):
        try:
            parse(text)
        except FilterError as error:
            del settings.views[name]
            settings.wrong.append(f"the view {safe(name)} is no filter: {error}")


def _check_objective(settings: Settings) -> None:
    from wiretape.viewer.stats.metrics import objective

    if settings.slo is None:
        return
    try:
        objective(settings.slo)
    except ValueError as error:
        settings.slo = None
        settings.wrong.append(f"slo: {safe(str(error))}")


def _check_prices(settings: Settings) -> None:
    from wiretape.viewer.model import prices
    from wiretape.viewer.stats.prices import PricesWrong

    try:
        prices.read()
    except PricesWrong as error:
        if str(error) not in settings.wrong:  # a file that is no TOML is wrong for all
            settings.wrong.append(str(error))


def history_file() -> Path:
    """Return the path of the history, in the user's state directory; neither need exist."""
    import platformdirs

    return Path(platformdirs.user_state_path("wiretape")) / "filters.json"


def read_history(path: Path) -> list[str]:
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


def add_to_history(path: Path, text: str) -> None:
    """Add a filter to the history, which is made where there is none, or a broken one. Raises `OSError`."""
    try:
        known = read_history(path)
    except ValueError:  # whoever reads it is told that it is broken
        known = []
    if (filters := with_filters(known, text)) != known:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        outfile.replace_private(path, json.dumps(filters, indent=0).encode())
