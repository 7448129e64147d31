"""The key that all screens name first, the key map of the configuration, and what is told of two actions on one key."""

from collections.abc import Iterable
from typing import Final

from textual.app import App
from textual.binding import Binding

from recorder.safe import safe
from viewer.settings import Settings

HELP: Final = Binding("question_mark,f1", "app.help", "help", key_display="?", id="app.help")
"""A footer shows a screen's own keys before the app's: so each screen begins with this one."""


def use(app: App[object], found: Settings) -> None:
    """Set the keys, and tell of what is wrong in the configuration, a line for each."""
    app.set_keymap(found.keys)
    for line in found.wrong:
        app.notify(line, title="configuration", severity="warning", markup=False, timeout=10)


class Clashes:
    """Tells of each clash once, however often it is met with."""

    def __init__(self) -> None:
        self._told: set[frozenset[str]] = set()

    def told(self, clashed: Iterable[Binding]) -> str | None:
        """Say which actions have lost their keys to others; None if that has been said."""
        named = {binding.id or binding.action: binding.key for binding in clashed}
        if not named or frozenset(named) in self._told:
            return None
        self._told.add(frozenset(named))
        lost = ", ".join(f"{safe(name)} ({safe(key)})" for name, key in sorted(named.items()))
        return f"[keys] puts another action on the key of {lost}: give one of them another key"
