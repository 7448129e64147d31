"""The keys of the screen below, to look through and to run: made from the bindings themselves, remapped or not.

Give it `screen.active_bindings` of the screen that it is shown over.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import ActiveBinding, Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from viewer.tui import paint


@dataclass(slots=True)
class Entry:
    """One action: its keys, what it does, the id that a key map knows it by, and where it is bound."""

    keys: list[str]
    said: str
    id: str
    bound: ActiveBinding

    def fits(self, text: str) -> bool:
        """Say whether every word of a text is found in it."""
        own = f"{' '.join(self.keys)} {self.said} {self.id}".lower()
        return all(word in own for word in text.lower().split())


class HelpScreen(ModalScreen[None]):
    """Every key that works on the screen below; enter does what the one under the cursor would."""

    DEFAULT_CSS = """
    HelpScreen { align: center middle; background: $background 60%; }
    HelpScreen > Vertical { width: 90%; max-width: 90; height: 90%; background: $surface; padding: 0 1;
        border: round $primary; }
    HelpScreen Input, HelpScreen Input:focus { border: none; height: 1; background: $panel; padding: 0; }
    HelpScreen Input { margin-bottom: 1; }
    HelpScreen OptionList, HelpScreen OptionList:focus { height: 1fr; background: $surface; border: none; padding: 0; }
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
        self._shown: list[Entry] = []

    def compose(self) -> ComposeResult:
        """Lay out the line to search by, and the list."""
        self._entries = entries(self.app, self._given)
        with Vertical():
            yield Input(placeholder="search the keys of this screen")
            yield OptionList()
            yield Static(paint.content("enter: do it · esc: close · [keys] in .wiretape.toml sets keys by these names"),
                         id="told")  # fmt: skip

    def on_mount(self) -> None:
        """List all."""
        self._list("")

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
        at = (options.highlighted or 0) + by * max(options.size.height - 1, 1)
        options.highlighted = max(0, min(at, options.option_count - 1)) if options.option_count else None

    def action_cancel(self) -> None:
        """Close."""
        self.dismiss()

    def _list(self, text: str) -> None:
        self._shown = [entry for entry in self._entries if entry.fits(text)]
        options = self.query_one(OptionList)
        options.clear_options()
        wide = max((len(" ".join(entry.keys)) for entry in self._entries), default=0)
        said = max((len(entry.said) for entry in self._entries), default=0)
        for entry in self._shown:
            line = f"{' '.join(entry.keys):>{wide}}  {entry.said:<{said}}  {entry.id}"
            options.add_option(Option(paint.content(line), disabled=not entry.bound.enabled))
        options.highlighted = 0 if self._shown else None

    def _run(self, at: int | None) -> None:
        """Close, and do what was chosen on the screen below."""
        if at is None or at >= len(self._shown):
            return
        bound, app = self._shown[at].bound, self.app
        self.dismiss()
        app.call_later(app.run_action, bound.binding.action, bound.node)


def entries(app: App[object], bindings: Mapping[str, ActiveBinding]) -> list[Entry]:
    """Give the actions of some bindings, each with all of its keys: first those that a key map can name, in order."""
    found: dict[tuple[int, str], Entry] = {}
    for bound in bindings.values():
        binding = bound.binding
        if not binding.description or binding.system:
            continue
        entry = found.setdefault(
            (id(bound.node), binding.action), Entry([], binding.description, binding.id or "", bound)
        )
        # As it is set now, and each for itself: a binding's own words for its key are those of all of its keys.
        entry.keys.append(app.get_key_display(binding.with_key(binding.key)))
    return sorted(found.values(), key=lambda entry: not entry.id)
