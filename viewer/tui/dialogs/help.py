"""The keys of the screen below, to search and to run: made from the bindings themselves, remapped or not."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import ClassVar, Final

from textual.app import App, ComposeResult
from textual.binding import ActiveBinding, Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input, Static
from textual.widgets.option_list import Option

from wiretape.viewer.tui.base import paint
from wiretape.viewer.tui.base.keys import hidden
from wiretape.viewer.tui.dialogs.menus import Menu

GROUPS: Final = ("on this screen", "playing", "the playhead", "everywhere", "moving about")
"""The headings of the keys, in their order."""

_PLAYING: Final = frozenset({"play", "faster", "idle", "follow"})
_PLAYHEAD: Final = frozenset({"step", "seek", "jump", "end", "goto", "first", "mark", "next_bookmark", "again"})
_MOVING: Final = frozenset(
    {"move", "step", "page", "top", "bottom", "leave", "pane", "focus_pane", "focus_next", "focus_previous"}
)
_NAMED_FROM: Final = 120
"""Width of a terminal, in columns, from which the ids are shown, by which the configuration knows the actions."""


@dataclass(slots=True)
class Entry:
    """One action: its keys, as they are shown and by name, its description, its id in a key map, and its binding."""

    keys: list[str]
    names: list[str]
    description: str
    id: str
    bound: ActiveBinding

    @property
    def group(self) -> str:
        """Its heading: one of `GROUPS`."""
        action = self.bound.binding.action.partition("(")[0].rpartition(".")[2]
        if self.id.startswith("replay.") and action in _PLAYING | _PLAYHEAD:
            return GROUPS[1 if action in _PLAYING else 2]
        if action in _MOVING and not self.id.startswith("app."):
            return GROUPS[4]
        return GROUPS[3 if not self.id or self.id.startswith("app.") else 0]

    def matches(self, text: str) -> bool:
        """Return True if every word of a text is found in it."""
        own = f"{' '.join(self.keys)} {' '.join(self.names)} {self.description} {self.id}".lower()
        return all(word in own for word in text.lower().split())


class HelpScreen(Menu[None]):
    """Every key that works on the screen below; enter runs the action under the cursor."""

    DEFAULT_CSS = """
    HelpScreen > Vertical { width: 90%; max-width: 90; height: 90%; max-height: 100%; }
    HelpScreen Input, HelpScreen Input:focus { margin-bottom: 1; }
    HelpScreen OptionList, HelpScreen OptionList:focus { height: 1fr; max-height: 100%; scrollbar-size-vertical: 1;
        scrollbar-background: $surface; }
    HelpScreen #note { height: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,f1", "cancel", "close", id="help.cancel"),
        hidden("up", "move(-1)", "up", id="help.up"),
        hidden("down", "move(1)", "down", id="help.down"),
        hidden("pageup", "page(-1)", "page up", id="help.page_up"),
        hidden("pagedown", "page(1)", "page down", id="help.page_down"),
    ]

    def __init__(self, bindings: Mapping[str, ActiveBinding]) -> None:
        """List `bindings`: `active_bindings` of the screen below."""
        super().__init__()
        self._below = dict(bindings)
        self._entries: list[Entry] = []
        self._shown: list[Entry | None] = []

    def compose(self) -> ComposeResult:
        """Lay out the line to search by, and the list."""
        self._entries = entries(self.app, self._below)
        with Vertical():
            yield Input(placeholder="search the keys of this screen")
            yield self.options
            yield Static(paint.content(""), id="note")

    def on_mount(self) -> None:
        """List all."""
        self._list()

    def on_resize(self) -> None:
        """List as there is room now."""
        self._list()

    def on_input_changed(self) -> None:
        """List what matches."""
        self._list()

    def action_page(self, by: int) -> None:
        """Move the cursor by a page."""
        to = (self.options.highlighted or 0) + by * max(self.options.size.height - 1, 1)
        self.options.highlighted = min(self._able, key=lambda at: abs(at - to), default=None)

    @property
    def _able(self) -> list[int]:
        """The lines of the actions that apply now."""
        return [at for at, entry in enumerate(self._shown) if entry is not None and entry.bound.enabled]

    def _list(self) -> None:
        named, text = self.app.size.width >= _NAMED_FROM, self.query_one(Input).value
        options: list[Option] = []
        self._shown = []
        for group, entries in groupby((entry for entry in self._entries if entry.matches(text)), lambda one: one.group):
            options.append(Option(paint.content(group, "bold $text-accent"), disabled=True))
            self._shown.append(None)
            for entry in entries:
                options.append(Option(paint.content(self._line(entry, named)), disabled=not entry.bound.enabled))
                self._shown.append(entry)
        if not options:
            options = [Option(paint.content(f"no key for '{text}' on this screen"), disabled=True)]
        self.options.clear_options()
        self.options.add_options(options)
        self.options.highlighted = next(iter(self._able), None)
        names = " · [keys] in .wiretape.toml sets keys by these names" if named else ""
        self.query_one("#note", Static).update(paint.content(f"enter: do it · esc: close{names}"))

    def _line(self, entry: Entry, named: bool) -> str:
        keys = max(len(" ".join(one.keys)) for one in self._entries)
        wide = max(len(one.description) for one in self._entries)
        line = f"  {' '.join(entry.keys):>{keys}}  {entry.description:<{wide}}  {entry.id if named else ''}"
        return line.rstrip()

    def choose(self, at: int) -> None:
        """Close, and run the chosen action on the screen below."""
        entry = self._shown[at] if at < len(self._shown) else None
        if entry is not None and self.finish(None):
            self.app.call_later(self.app.run_action, entry.bound.binding.action, entry.bound.node)


def entries(app: App[object], bindings: Mapping[str, ActiveBinding]) -> list[Entry]:
    """Return the actions of some bindings, each with all of its keys, in their groups."""
    found: dict[tuple[int, str], Entry] = {}
    for bound in bindings.values():
        binding = bound.binding
        if not binding.description or binding.system:
            continue
        # Our own may be short for the footer's sake, Textual's are in capitals.
        description = (binding.tooltip or binding.description) if binding.id else binding.description.lower()
        entry = found.setdefault((id(bound.node), binding.action), Entry([], [], description, binding.id or "", bound))
        # The current keys, one by one: a binding's own display text covers all of its keys.
        shown = app.get_key_display(binding.with_key(binding.key))
        entry.keys.append("enter" if binding.key == "enter" else shown)
        entry.names.append(binding.key)
    return sorted(found.values(), key=lambda entry: (GROUPS.index(entry.group), not entry.id))
