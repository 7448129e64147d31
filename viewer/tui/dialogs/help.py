"""The actions of the screen below, to search and to run: those of the table that apply, with their present keys."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import groupby

from textual.app import App, ComposeResult
from textual.binding import ActiveBinding
from textual.containers import Vertical
from textual.widgets import Input, Static
from textual.widgets.option_list import Option

from wiretape.viewer.tui.base import paint
from wiretape.viewer.tui.bindings import GROUPS
from wiretape.viewer.tui.dialogs.menus import Menu


@dataclass(slots=True)
class KeyEntry:
    """An action: its heading, its meaning, its binding, and its keys, as they are shown and by name."""

    group: str
    meaning: str
    bound: ActiveBinding
    keys: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def matches(self, text: str) -> bool:
        texts = " ".join((*self.keys, *self.names, self.meaning)).lower()
        return all(word in texts for word in text.lower().split())


class HelpScreen(Menu[None]):
    """Every action that applies to the screen below; enter runs the one under the cursor."""

    DEFAULT_CSS = """
    HelpScreen > Vertical { width: 90%; max-width: 90; height: 90%; max-height: 100%; }
    HelpScreen Input, HelpScreen Input:focus { margin-bottom: 1; }
    HelpScreen OptionList, HelpScreen OptionList:focus { height: 1fr; max-height: 100%; scrollbar-size-vertical: 1;
        scrollbar-background: $surface; }
    HelpScreen #note { height: 1; }
    """

    def __init__(self, bindings: Mapping[str, ActiveBinding]) -> None:
        """List `bindings`: `active_bindings` of the screen below."""
        super().__init__()
        self._below = dict(bindings)
        self._entries: list[KeyEntry] = []
        self._options: list[KeyEntry | None] = []

    def compose(self) -> ComposeResult:
        self._entries = entries(self.app, self._below)
        with Vertical():
            yield Input(placeholder="type to search the actions")
            yield self.options
            yield Static(paint.content("enter: do it · esc: close"), id="note")

    def on_mount(self) -> None:
        self._list()

    def on_input_changed(self) -> None:
        self._list()

    def _list(self) -> None:
        text = self.query_one(Input).value
        options: list[Option] = []
        self._options = []
        width = max(len(" ".join(entry.keys)) for entry in self._entries)
        matches = (entry for entry in self._entries if entry.matches(text))
        for group, group_entries in groupby(matches, lambda entry: entry.group):
            options.append(Option(paint.content(group, "bold $text-accent"), disabled=True))
            self._options.append(None)
            for entry in group_entries:
                options.append(Option(paint.content(f"  {' '.join(entry.keys):>{width}}  {entry.meaning}")))
                self._options.append(entry)
        if not options:
            options = [Option(paint.content(f"no action for '{text}' on this screen"), disabled=True)]
        self.options.clear_options()
        self.options.add_options(options)
        self.options.highlighted = 1 if self._options else None

    def choose(self, at: int) -> None:
        entry = self._options[at] if at < len(self._options) else None
        if entry is not None and self.finish(None):  # the action is of the screen below, which is on top then
            self.app.call_later(self.app.run_action, entry.bound.binding.action, entry.bound.node)


def entries(app: App[object], bindings: Mapping[str, ActiveBinding]) -> list[KeyEntry]:
    """Return the actions of some bindings, each with all of its keys, in their groups."""
    entries_by_id: dict[str, KeyEntry] = {}
    for bound in bindings.values():
        binding = bound.binding
        if binding.id is None or binding.group is None or binding.system or not bound.enabled:
            continue
        entry = entries_by_id.setdefault(binding.id, KeyEntry(binding.group.description, binding.tooltip, bound))
        # The current keys, one by one: a binding's own display text covers all of its keys.
        key_text = app.get_key_display(binding.with_key(binding.key))
        entry.keys.append("enter" if binding.key == "enter" else key_text)
        entry.names.append(binding.key)
    return sorted(entries_by_id.values(), key=lambda entry: GROUPS.index(entry.group))
