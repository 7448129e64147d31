"""The keys of the screen below, to look through and to run: made from the bindings themselves, remapped or not.

Give it `screen.active_bindings` of the screen that it is shown over. They stand in groups by what they are for: what is
this screen's own first, moving about, which is as everywhere, last.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import ClassVar, Final

from textual.app import App, ComposeResult
from textual.binding import ActiveBinding, Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from viewer.tui.base import paint
from viewer.tui.dialogs.menus import close

GROUPS: Final = ("on this screen", "playing", "the playhead", "everywhere", "moving about")
"""What keys are for, in the order in which they stand."""

_PLAYING: Final = frozenset({"play", "faster", "idle", "follow"})
_PLAYHEAD: Final = frozenset({"step", "seek", "jump", "end", "goto", "first", "mark", "next_bookmark", "again"})
_MOVING: Final = frozenset(
    {"move", "step", "page", "top", "bottom", "leave", "pane", "focus_pane", "focus_next", "focus_previous"}
)
_NAMED_FROM: Final = 120
"""From so many columns on the ids are shown, by which the configuration knows the actions."""


@dataclass(slots=True)
class Entry:
    """One action: its keys, as they are shown and by name, what it does, its id in a key map, and where it is bound."""

    keys: list[str]
    names: list[str]
    said: str
    id: str
    bound: ActiveBinding

    @property
    def group(self) -> str:
        """Say what it is for: one of `GROUPS`."""
        action = self.bound.binding.action.partition("(")[0].rpartition(".")[2]
        if self.id.startswith("replay.") and action in _PLAYING | _PLAYHEAD:
            return GROUPS[1 if action in _PLAYING else 2]
        if action in _MOVING and not self.id.startswith("app."):
            return GROUPS[4]
        return GROUPS[3 if not self.id or self.id.startswith("app.") else 0]

    def fits(self, text: str) -> bool:
        """Say whether every word of a text is found in it."""
        own = f"{' '.join(self.keys)} {' '.join(self.names)} {self.said} {self.id}".lower()
        return all(word in own for word in text.lower().split())


class HelpScreen(ModalScreen[None]):
    """Every key that works on the screen below; enter does what the one under the cursor would."""

    DEFAULT_CSS = """
    HelpScreen { align: center middle; background: $background 60%; }
    HelpScreen > Vertical { width: 90%; max-width: 90; height: 90%; background: $surface; padding: 0 1;
        border: round $primary; }
    HelpScreen Input, HelpScreen Input:focus { border: none; height: 1; background: $panel; padding: 0; }
    HelpScreen Input { margin-bottom: 1; }
    HelpScreen OptionList, HelpScreen OptionList:focus { height: 1fr; background: $surface; border: none; padding: 0;
        scrollbar-size-vertical: 1; scrollbar-background: $surface; scrollbar-color: $panel; }
    HelpScreen #told { color: $text-muted; height: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,f1", "cancel", "close", id="help.cancel"),
        Binding("up", "move(-1)", "up", show=False, id="help.up"),
        Binding("down", "move(1)", "down", show=False, id="help.down"),
        Binding("pageup", "page(-1)", "page up", show=False, id="help.page_up"),
        Binding("pagedown", "page(1)", "page down", show=False, id="help.page_down"),
    ]

    def __init__(self, bindings: Mapping[str, ActiveBinding]) -> None:
        super().__init__()
        self._given = dict(bindings)
        self._entries: list[Entry] = []
        self._shown: list[Entry | None] = []

    def compose(self) -> ComposeResult:
        """Lay out the line to search by, and the list."""
        self._entries = entries(self.app, self._given)
        with Vertical():
            yield Input(placeholder="search the keys of this screen")
            yield OptionList()
            yield Static(paint.content(""), id="told")

    def on_mount(self) -> None:
        """List all."""
        self._list("")

    def on_resize(self) -> None:
        """List as there is room now."""
        self._list(self.query_one(Input).value)

    def on_input_changed(self, event: Input.Changed) -> None:
        """List what fits."""
        self._list(event.value)

    def on_input_submitted(self) -> None:
        """Do what is under the cursor."""
        self._run(self.query_one(OptionList).highlighted)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Do what was clicked."""
        self._run(event.option_index)

    def action_move(self, by: int) -> None:
        """Move the cursor."""
        options = self.query_one(OptionList)
        if by > 0:
            options.action_cursor_down()
        else:
            options.action_cursor_up()

    def action_page(self, by: int) -> None:
        """Move the cursor by a page."""
        options = self.query_one(OptionList)
        able = [at for at, entry in enumerate(self._shown) if entry and entry.bound.enabled]
        to = (options.highlighted or 0) + by * max(options.size.height - 1, 1)
        options.highlighted = min(able, key=lambda at: abs(at - to), default=None)

    def action_cancel(self) -> None:
        """Close."""
        close(self, None)

    def _list(self, text: str) -> None:
        named = self.app.size.width >= _NAMED_FROM
        fitting = [entry for entry in self._entries if entry.fits(text)]
        options = self.query_one(OptionList)
        options.clear_options()
        self._shown = []
        for group, found in groupby(fitting, lambda entry: entry.group):
            self._add(options, None, Option(paint.content(group, "bold $text-accent"), disabled=True))
            for entry in found:
                line = self._line(entry, named=named)
                self._add(options, entry, Option(paint.content(line), disabled=not entry.bound.enabled))
        if not fitting:
            self._add(options, None, Option(paint.content(f"no key for '{text}' on this screen"), disabled=True))
        options.highlighted = next((at for at, entry in enumerate(self._shown) if entry and entry.bound.enabled), None)
        names = " · [keys] in .wiretape.toml sets keys by these names" if named else ""
        self.query_one("#told", Static).update(paint.content(f"enter: do it · esc: close{names}"))

    def _add(self, options: OptionList, entry: Entry | None, option: Option) -> None:
        self._shown.append(entry)
        options.add_option(option)

    def _line(self, entry: Entry, *, named: bool) -> str:
        wide, said = (
            max((len(text(one)) for one in self._entries), default=0)
            for text in (lambda one: " ".join(one.keys), lambda one: one.said)
        )
        return f"  {' '.join(entry.keys):>{wide}}  {entry.said:<{said}}  {entry.id if named else ''}".rstrip()

    def _run(self, at: int | None) -> None:
        """Close, and do what was chosen on the screen below."""
        entry = self._shown[at] if at is not None and at < len(self._shown) else None
        if entry is not None and close(self, None):
            self.app.call_later(self.app.run_action, entry.bound.binding.action, entry.bound.node)


def entries(app: App[object], bindings: Mapping[str, ActiveBinding]) -> list[Entry]:
    """Give the actions of some bindings, each with all of its keys, in their groups."""
    found: dict[tuple[int, str], Entry] = {}
    for bound in bindings.values():
        binding = bound.binding
        if not binding.description or binding.system:
            continue
        # Our own may be short for the footer's sake, Textual's are in capitals.
        said = (binding.tooltip or binding.description) if binding.id else binding.description.lower()
        entry = found.setdefault((id(bound.node), binding.action), Entry([], [], said, binding.id or "", bound))
        # As it is set now, and each for itself: a binding's own words for its key are those of all of its keys.
        shown = app.get_key_display(binding.with_key(binding.key))
        entry.keys.append("enter" if binding.key == "enter" else shown)
        entry.names.append(binding.key)
    return sorted(found.values(), key=lambda entry: (GROUPS.index(entry.group), not entry.id))
