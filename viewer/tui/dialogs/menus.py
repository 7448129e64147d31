"""Small screens over another: what can be copied, what can be exported, and a line to type.

Where a copy goes is `clipboard`'s. An export is the command that is shown, run beside the viewer.
"""

import asyncio
import contextlib
import functools
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option
from textual.worker import Worker

from recorder.errors import WiretapeError
from recorder.sanitize import safe
from viewer import formatting
from viewer.tui.base import clipboard, paint
from viewer.tui.base.host import Superseded, host
from viewer.tui.dialogs.offers import Copy, Later

_CSS: Final = """
    %s { align: center middle; background: $background 60%%; }
    %s > Vertical { width: 80%%; max-width: 100; height: auto; max-height: 80%%; background: $surface; padding: 0 1;
        border: round $primary; }
    %s OptionList, %s OptionList:focus { height: auto; max-height: 16; background: $surface; border: none; padding: 0;
        text-wrap: nowrap; text-overflow: ellipsis; }
    %s #head { color: $text-primary; text-style: bold; }
    %s #told { color: $text-muted; height: auto; max-height: 4; }
    %s #mistake { color: $text-error; height: auto; max-height: 3; text-wrap: wrap; }
    %s Input, %s Input:focus { border: none; height: 1; background: $panel; padding: 0; }
"""
_SHOWN: Final = 60
R = TypeVar("R")
_FORMATS: Final = {"har": "har", "asciicast": "cast", "sse": "sse"}


def _css(name: str) -> str:
    return _CSS % ((name,) * _CSS.count("%s"))


class AskScreen(ModalScreen[str | None]):
    """Asks for a line of text. Its result is None if nothing is wanted.

    `mistake` says what is wrong with a line while it is typed, `refusal` when it is submitted: it then stays as it is.
    """

    DEFAULT_CSS = _css("AskScreen")
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", "cancel", id="menu.cancel")]

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
        """Lay out the label, the line, and what is wrong with it."""
        with Vertical():
            yield Static(paint.content(self._label), id="head")
            # A line to type may hold what has been recorded: it is shown as it is safe to.
            yield Input(safe(self._value), select_on_focus=False)
            yield Static(paint.content(""), id="mistake")

    def on_input_changed(self, event: Input.Changed) -> None:
        """Say what is wrong so far."""
        self.query_one("#mistake", Static).update(paint.content(self._mistake(event.value) or ""))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Take the line, if nothing is wrong with it; else say what."""
        wrong = self._mistake(event.value) or self._refusal(event.value)
        if wrong is None:
            close(self, event.value)
        else:
            self.query_one("#mistake", Static).update(paint.content(wrong))

    def action_cancel(self) -> None:
        """Want nothing."""
        close(self, None)


class _Menu(ModalScreen[None]):
    """A list of labels to choose from; a letter jumps to the next label that begins with it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "cancel", "cancel", id="menu.cancel"),
        Binding("j", "move(1)", "down", show=False, id="menu.down"),
        Binding("k", "move(-1)", "up", show=False, id="menu.up"),
    ]
    head = ""

    def __init__(self, offered: Sequence[tuple[str, str]]) -> None:
        super().__init__()
        self._offered = list(offered)

    def compose(self) -> ComposeResult:
        """Lay out the heading and the list."""
        with Vertical():
            yield Static(
                paint.content(self.head if self._offered else f"{self.head}: there is nothing here"), id="head"
            )
            width = max((len(label) for label, _ in self._offered), default=0)
            lines = [
                f"{label:<{width}}  {formatting.cut(formatting.line(text), _SHOWN)}" for label, text in self._offered
            ]
            yield OptionList(*(Option(paint.content(line)) for line in lines))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Take what was chosen."""
        self.chosen(event.option_index)

    def chosen(self, at: int) -> None:
        """Take the entry of this number."""
        raise NotImplementedError

    def action_move(self, by: int) -> None:
        """Move the cursor."""
        options = self.query_one(OptionList)
        if by > 0:
            options.action_cursor_down()
        else:
            options.action_cursor_up()

    def action_cancel(self) -> None:
        """Choose nothing."""
        close(self, None)


class CopyMenu(_Menu):
    """What a screen has to copy: (label, text)."""

    DEFAULT_CSS = _css("CopyMenu")
    head = "copy"

    def __init__(self, copies: Sequence[Copy]) -> None:
        super().__init__([(label, text.said if isinstance(text, Later) else text) for label, text in copies])
        self._copies = copies

    def chosen(self, at: int) -> None:
        """Copy a text, and say where to."""
        app, (label, text) = self.app, self._copies[at]
        if not close(self, None):
            return
        if isinstance(text, str):
            clipboard.copy(app, label, text)
        else:
            _: Worker[None] = app.run_worker(functools.partial(_copy_later, app, label, text))


class ExportMenu(_Menu):
    """What a screen has to export: (label, arguments of `wiretape`)."""

    DEFAULT_CSS = _css("ExportMenu")
    head = "export"

    def __init__(self, exports: Sequence[tuple[str, list[str]]]) -> None:
        self._arguments = [_arguments(given) for _, given in exports]
        commands = [shlex.join(["wiretape", *given]) for given in self._arguments]
        super().__init__(list(zip((label for label, _ in exports), commands, strict=True)))

    def chosen(self, at: int) -> None:
        """Ask for a file name, and run the command."""
        arguments, app = self._arguments[at], self.app
        tape = host(self).tape.path

        def named(name: str | None) -> None:
            if name is not None:
                name = os.path.expanduser(name)
                on = [] if "--db" in arguments else ["--db", str(tape)]
                app.run_worker(_export(app.notify, [*arguments, "-o", name, *on], name))

        if not close(self, None):
            return
        label = self._offered[at][0]
        asked = AskScreen(f"{label}: write to", file_name(label, arguments), _no_file)
        app.call_later(app.push_screen, asked, named)  # by the app: this screen will not be there for the answer


async def _copy_later(app: App[Any], label: str, text: Later) -> None:
    with contextlib.suppress(Superseded):  # something else is copied by now
        try:
            given = await text.give()
        except WiretapeError as error:
            app.notify(safe(str(error)), title="copy", severity="error", markup=False)
            return
        if given:
            clipboard.copy(app, label, given, text.instead)
        else:
            app.notify(f"{safe(label)}: there is none", title="copy", markup=False)


def close(screen: ModalScreen[R], result: R | None) -> bool:
    """Close a screen over another; False if it is closed already: a second key came before the first was done."""
    if not screen.is_active:
        return False
    screen.dismiss(result)
    return True


def file_name(label: str, arguments: Sequence[str]) -> str:
    """Give a name for the file of an export that is not taken yet: of what it is, with the suffix of its format."""
    suffix = "csv"
    if "--format" in arguments[:-1]:
        named = arguments[arguments.index("--format") + 1]
        suffix = _FORMATS.get(named, named)
    stem = "-".join("".join(sign if sign.isascii() and sign.isalnum() else " " for sign in label).split()) or "export"
    names = (f"{stem}{f'-{number}' if number else ''}.{suffix}" for number in range(1000))
    return next((name for name in names if not Path(name).exists()), f"{stem}.{suffix}")


def _arguments(given: Sequence[str]) -> list[str]:
    rest = list(given[1:] if given[:1] == ["wiretape"] else given)
    return rest if rest[:1] == ["export"] else ["export", *rest]


def _no_file(name: str) -> str | None:
    if not name.strip():
        return "a file name, please"
    return "that is there already: another name, please" if os.path.lexists(os.path.expanduser(name)) else None


async def _export(notify: Callable[..., None], arguments: Sequence[str], name: str) -> None:
    """Run the command, and tell how it went."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "viewer.cli", *arguments,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    _, said = await process.communicate()
    lines = [safe(line) for line in said.decode("utf-8", "replace").splitlines() if line.strip()]
    if process.returncode:
        notify(lines[-1] if lines else f"exit {process.returncode}", title="export", severity="error", markup=False)
    else:
        notify(lines[-1] if lines else f"written to {safe(name)}", title="export", markup=False)
