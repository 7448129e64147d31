"""Dialogs over a screen: a line to type, and menus of copies, exports and saved views.

An export is the command that is shown, run beside the viewer.
"""

import asyncio
import contextlib
import os
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.fuzzy import Matcher
from textual.screen import ModalScreen, Screen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from wiretape.recorder import paths
from wiretape.recorder.clock import Clock
from wiretape.recorder.errors import ConfigError, WiretapeError
from wiretape.recorder.sanitize import clipped, safe
from wiretape.viewer import config
from wiretape.viewer.text import formatting
from wiretape.viewer.text.cells import Part
from wiretape.viewer.tui import bindings
from wiretape.viewer.tui.base import clipboard, paint
from wiretape.viewer.tui.base.host import Superseded, host
from wiretape.viewer.tui.dialogs import beside, opening, outside
from wiretape.viewer.tui.dialogs.offers import Copy, Later
from wiretape.viewer.tui.widgets.bar import content

if TYPE_CHECKING:
    from wiretape.viewer.source.base import Source

R = TypeVar("R")

_SUFFIXES: Final = {"asciicast": "cast"}


class Dialog(ModalScreen[R | None]):
    """A box over another screen. Its result is None if it is cancelled."""

    DEFAULT_CSS = """
    Dialog { align: center middle; background: transparent; }
    Dialog > Vertical { width: 80%; max-width: 100; height: auto; max-height: 80%; background: $surface; padding: 0 1;
        border: round $primary; border-title-color: $text-primary; }
    Dialog Input, Dialog Input:focus { border: none; height: 1; background: $panel; padding: 0; }
    Dialog OptionList, Dialog OptionList:focus { height: auto; max-height: 16; background: $surface; border: none;
        padding: 0; }
    Dialog #head { color: $text-primary; text-style: bold; }
    Dialog #note { color: $text-muted; height: auto; }
    Dialog #mistake { color: $text-error; height: auto; max-height: 3; text-wrap: wrap; }
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings.of(*bindings.DIALOG)

    def finish(self, result: R | None) -> bool:
        """Close with a result; False if it is closed already: a second key came before the first was done."""
        if not self.is_active:
            return False
        self.dismiss(result)
        return True

    def action_cancel(self) -> None:
        self.finish(None)


class AskScreen(Dialog[str]):
    """Asks for a line of text.

    `mistake` returns the error of a line while it is typed, `refusal` when it is submitted: the dialog then stays.
    """

    def __init__(
        self,
        label: str,
        value: str = "",
        mistake: Callable[[str], str | None] = lambda _: None,
        refusal: Callable[[str], str | None] = lambda _: None,
    ) -> None:
        super().__init__()
        self._label = label
        self._value = value
        self._mistake = mistake
        self._refusal = refusal

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(paint.content(self._label), id="head")
            # A line to type may hold recorded text: it is shown made safe.
            yield Input(safe(self._value), select_on_focus=False)
            yield Static(paint.content(""), id="mistake")

    def on_input_changed(self, event: Input.Changed) -> None:
        self.query_one("#mistake", Static).update(paint.content(self._mistake(event.value) or ""))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        wrong = self._mistake(event.value) or self._refusal(event.value)
        if wrong is None:
            self.finish(event.value)
        else:
            self.query_one("#mistake", Static).update(paint.content(wrong))


class Menu(Dialog[R]):
    """A list of options to choose from, perhaps below a line to search by."""

    BINDINGS: ClassVar[list[BindingType]] = bindings.of(*bindings.MENU)

    def __init__(self) -> None:
        super().__init__()
        self.options = OptionList()

    def choose(self, at: int) -> None:
        raise NotImplementedError

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.choose(event.option_index)

    def on_input_submitted(self) -> None:
        if self.options.highlighted is not None:
            self.choose(self.options.highlighted)

    def action_move(self, by: int) -> None:
        if by > 0:
            self.options.action_cursor_down()
        else:
            self.options.action_cursor_up()

    def action_page(self, by: int) -> None:
        to = (self.options.highlighted or 0) + by * max(self.options.size.height - 1, 1)
        able = (at for at, option in enumerate(self.options.options) if not option.disabled)
        self.options.highlighted = min(able, key=lambda at: abs(at - to), default=None)


@dataclass(frozen=True, slots=True)
class MenuEntry:
    """A line of a menu: its label, a description, and its action."""

    label: str
    description: str
    run: Callable[[], object]


class ActionMenu(Menu[None]):
    """A list of entries; the chosen one is run once the menu is closed."""

    def __init__(self, head: str, entries: Sequence[MenuEntry]) -> None:
        super().__init__()
        self._head, self._entries = head if entries else f"{head}: there is nothing here", entries
        width = max((cell_len(entry.label) for entry in entries), default=0)
        self.options = OptionList(*(Option(_row(entry, width)) for entry in entries))

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(paint.content(self._head), id="head")
            yield self.options

    def choose(self, at: int) -> None:
        """Close, and run the entry, by the application: this screen will not be there any more."""
        if self.finish(None):
            self.app.call_later(self._entries[at].run)


def _row(entry: MenuEntry, width: int) -> Table:
    row = Table.grid(padding=(0, 2, 0, 0))
    row.add_column(width=width, no_wrap=True)
    row.add_column(overflow="fold")
    description = formatting.line(entry.description)
    is_command = description.startswith("wiretape ")
    row.add_row(Text(safe(entry.label)), Text(description if is_command else clipped(description, 60)))
    return row


def copy_menu(app: App[Any], copies: Sequence[Copy], screen: Screen[Any] | None = None) -> ActionMenu:
    """Return the menu of texts to copy; the text of a `screen` is offered to the user's pager and editor, too."""
    entries = [MenuEntry(label, *_copying(app, label, text)) for label, text in copies]
    if screen is not None and outside.has_page(screen):
        open_outside = host(screen).open_outside
        for name, program in (("pager", outside.show), ("editor", outside.edit)):
            description = f"the text of this screen, in your {name}"
            entries.append(MenuEntry(name, description, partial(open_outside, program, screen)))
    return ActionMenu("copy", entries)


def export_menu(app: App[Any], exports: Sequence[tuple[str, list[str]]]) -> ActionMenu:
    """Return the menu of exports, as (label, arguments of `wiretape`), and of a picture of the screen."""
    entries = [
        MenuEntry(label, shlex.join(["wiretape", *arguments]), partial(_ask_and_export, app, label, arguments))
        for label, arguments in exports
    ]
    picture = MenuEntry("screenshot", "this screen, as SVG", lambda: app.run_worker(_write_picture(app)))
    return ActionMenu("export", [*entries, picture])


def _ask_and_export(app: App[Any], label: str, arguments: list[str]) -> None:
    """Ask for a file name, and run the command."""
    with_tape = _with_tape(app.screen, arguments)

    def export(name: str | None) -> None:
        if name is not None:
            app.run_worker(_export(app.notify, [*with_tape, "-o", os.path.expanduser(name)]))

    app.push_screen(AskScreen(f"{label}: write to", file_name(label, arguments), _no_file), export)


async def _write_picture(app: App[Any]) -> None:
    path, picture = Path(file_name("wiretape", ["--format", "svg"])), app.export_screenshot()

    def write() -> None:
        with path.open("x", encoding="utf-8") as file:  # never over a file that somebody else has just made
            file.write(picture)

    try:
        await asyncio.to_thread(write)
    except OSError as error:
        app.notify(f"{path} cannot be written: {error.strerror}", severity="error", markup=False)
    else:
        app.notify(f"written to {path}", markup=False)


def _copying(app: App[Any], label: str, text: str | Later) -> tuple[str, Callable[[], object]]:
    if isinstance(text, str):
        return text, partial(clipboard.copy, app, label, text)
    return text.description, lambda: app.run_worker(_copy_later(app, label, text))


async def _copy_later(app: App[Any], label: str, text: Later) -> None:
    with contextlib.suppress(Superseded):  # something else is copied by now
        try:
            copied = await text.read()
        except WiretapeError as error:
            app.notify(safe(str(error)), title="copy", severity="error", markup=False)
            return
        if copied:
            clipboard.copy(app, label, copied, text.command)
        else:
            app.notify(f"{safe(label)}: there is none", title="copy", markup=False)


def file_name(label: str, arguments: Sequence[str]) -> str:
    """Return an unused name for the file of an export: its label, with the suffix of its format."""
    format = arguments[arguments.index("--format") + 1] if "--format" in arguments[:-1] else "csv"
    stem = "-".join("".join(sign if sign.isascii() and sign.isalnum() else " " for sign in label).split()) or "export"
    names = [f"{stem}{f'-{n}' if n else ''}.{_SUFFIXES.get(format, format)}" for n in range(1000)]
    return next((name for name in names if not paths.exists(name)), names[0])


def _no_file(name: str) -> str | None:
    if not name.strip():
        return "a file name, please"
    return "that is there already: another name, please" if os.path.lexists(os.path.expanduser(name)) else None


def _with_tape(screen: Screen[Any], arguments: Sequence[str]) -> list[str]:
    return [*arguments, *([] if "--db" in arguments else ["--db", str(host(screen).tape.path)])]


async def browse(screen: Screen[Any], arguments: Sequence[str], cleanup: contextlib.ExitStack) -> None:
    """Open a page in the browser; its file stays while `cleanup` is open."""
    notify = partial(screen.app.notify, title="page", markup=False)
    notify("opening it …")
    try:
        message = await opening.open_page(host(screen).tape.path, _with_tape(screen, arguments), cleanup)
    except WiretapeError as error:
        notify(safe(str(error)), severity="error")
    else:
        # The message may have the path of a file, to be typed elsewhere.
        notify(safe(message), timeout=15.0)


async def _export(notify: Callable[..., None], arguments: Sequence[str]) -> None:
    """Run an export, and show its result."""
    failed, line = await beside.run(arguments)
    notify(line, title="export", severity="error" if failed else "information", markup=False)


class ViewsMenu(Menu[str]):
    """The saved views, which are the filters under `[views]` in the configuration; its result is a filter.

    How many exchanges fit each is counted one after the other, beside the loop, and shown as it becomes known.
    """

    DEFAULT_CSS = "ViewsMenu OptionList, ViewsMenu OptionList:focus, ViewsMenu #note { margin-top: 1; }"

    def __init__(self) -> None:
        super().__init__()
        self._views: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self._names: list[str] = []
        self._note = Static(paint.content(""), id="note")

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = "saved views"
            yield Input(placeholder="search the views")
            yield self.options
            yield self._note

    def on_mount(self) -> None:
        self.run_worker(self._read(), group="views")

    async def _read(self) -> None:
        try:
            self._views = (await asyncio.to_thread(config.read)).views
        except ConfigError as error:
            self.app.notify(str(error), severity="error", markup=False)
            self.dismiss(None)
            return
        self._list()
        for name, text in self._views.items():
            with contextlib.suppress(Superseded, WiretapeError):  # a view without its count can be chosen as well
                question = partial(_match_count, text=text, clock=host(self).clock)
                # One at a time: the list that the menu covers asks the same thread.
                self._counts[name] = await host(self).list_reader.read(question, "views")
                self._list()

    def on_input_changed(self) -> None:
        self.options.highlighted = None
        self._list()

    def choose(self, at: int) -> None:
        if at < len(self._names):
            self.finish(self._views[self._names[at]])

    def _list(self) -> None:
        typed, at = self.query_one(Input).value.strip(), self.options.highlighted
        self._names = _matching(self._views, typed)
        self.options.clear_options()
        self.options.add_options([Option(self._line(name)) for name in self._names])
        self.options.display = bool(self._names)
        self.options.highlighted = min(at or 0, len(self._names) - 1) if self._names else None
        self._note.update(self._help(typed))

    def _line(self, name: str) -> Content:
        wide = min(max(len(formatting.line(name)) for name in self._views), 20)
        count = self._counts.get(name)
        parts: list[Part] = [
            (f"{clipped(formatting.line(name), wide):<{wide}}  ", "strong"),
            (f"{'…' if count is None else f'{count:,}':>9}  ", "muted" if not count else "accent"),
            (formatting.line(self._views[name]), "plain"),
        ]
        return content(parts)

    def _help(self, typed: str) -> Content:
        if not self._views:
            user_file = config.user_file()
            alternative = f", or into {formatting.line(str(user_file))}" if user_file else ""
            places = f"Write some into {config.LOCAL_FILE} of this directory{alternative}:"
            empty: Part = ("No view is saved yet. ", "strong")
            examples = '[views]\nslow = "ttft>800ms"\ncut = "is:cut since:-2h"'
            return content([empty, (f"{places}\n\n", "plain"), (examples, "accent")])
        if not self._names:
            return content([(f"no view for '{formatting.line(typed)}'", "muted")])
        return content([("enter: show it · esc: close · the numbers are how many exchanges fit", "muted")])


def _matching(views: dict[str, str], typed: str) -> list[str]:
    """Return the names of the views that match the typed text: matching names before matching filters."""
    if not typed:
        return list(views)
    matcher = Matcher(typed)
    scores = {name: (matcher.match(name), matcher.match(text)) for name, text in views.items()}
    return sorted((name for name in views if any(scores[name])), key=lambda name: scores[name], reverse=True)


def _match_count(source: "Source", text: str, clock: Clock) -> int:
    from wiretape.viewer.query.parser import parse
    from wiretape.viewer.source.base import Selection

    return source.count(Selection(parse(text, clock)))
