"""The viewer as an application: a tape, a clock, and a stack of screens that ask the tape what they show.

What all screens share is here: the tape's reader, the keys that work everywhere, and leaving the terminal as it was
found, however the viewer ends. A screen never asks the tape on the loop, only through `TapeReader`. A screen may have
`copies()` and `exports()` for the menus, and `action_time_format`; what it lacks is simply not there.
"""

import asyncio
import contextlib
import gc
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from rich.text import Text
from textual.app import App
from textual.binding import Binding, BindingType
from textual.dom import DOMNode
from textual.driver import Driver
from textual.events import Event, Key, Resize
from textual.filter import LineFilter, Monochrome, NoColor
from textual.notifications import SeverityLevel
from textual.screen import Screen
from textual.widgets import Input, OptionList
from textual.worker import Worker, WorkerError

from recorder.clock import SYSTEM, Clock
from recorder.decode.stalls import Thresholds
from recorder.errors import WiretapeError
from viewer.model.settings import Settings
from viewer.tape.decoder import Decoders
from viewer.tui.base import crash, keys
from viewer.tui.base import theme as themes
from viewer.tui.base.host import TapeReader
from viewer.tui.base.paint import ASCII
from viewer.tui.base.terminal import Lag, TerminalDriver
from viewer.tui.dialogs.cramped import LEAST, CrampedScreen
from viewer.tui.list.drilled import DrilledScreen
from viewer.tui.list.screen import StreamsScreen
from viewer.tui.widgets.slips import Slips

_SIGNALS: Final = ("SIGTERM", "SIGHUP", "SIGINT", "SIGQUIT")
_NEEDS: Final = {
    "copy_menu": ("copies",), "export_menu": ("exports",), "outside": ("pages", "copies"),
    "time_format": ("action_time_format",),
}  # fmt: skip
"""What a screen must have, at least one of them, for an action of the application."""

_LATE_SECONDS: Final = 5
_INTERRUPTED: Final = 128 + 2
_HUNG_UP: Final = 128 + 1
_OF_KEYS: Final = 128 + 2, 128 + 3
"""Codes of the signals that keys send to all programs in a terminal: SIGINT and SIGQUIT."""

_LOADED_S: Final = 2
_COLLECTED_AT: Final = 20_000, 2, 2
_READ_PER_SECOND: Final = 30
"""So many characters of what is said in passing are read in a second."""

DEFAULTS: Final = Thresholds()


class ViewerApp(App[int]):
    """Shows a tape; its result is the exit code, or `failure` is what the tape's first reading failed with."""

    TITLE = "wiretape"
    NOTIFICATION_TIMEOUT = 2
    CSS = """
    ToastRack { dock: top; align: right top; margin: 1 0 0 0; scrollbar-size: 0 0; }
    Toast { width: auto; max-width: 100%; margin: 0; padding: 0 1; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark", "help", "help", key_display="?", id="app.help"),
        Binding("f1", "help", "help", show=False, id="app.help_too"),
        Binding("y", "copy_menu", "copy (yank)", show=False, id="app.copy"),
        Binding("x", "export_menu", "export to a file (save)", show=False, id="app.export"),
        Binding("T", "time_format", "time format", show=False, id="app.time_format"),
        Binding("f3", "outside('show')", "in the pager", show=False, id="app.pager"),
        Binding("f4", "outside('edit')", "in the editor", show=False, id="app.editor"),
        Binding("f5", "next_theme", "dark or light theme (colours)", show=False, id="app.theme"),
        Binding("f6", "picture", "screenshot to a file (SVG)", show=False, id="app.picture"),
        Binding("ctrl+z", "suspend_process", "suspend", show=False, id="app.suspend"),
        Binding("ctrl+c", "interrupt", "copy, or quit at once", show=False, priority=True, id="app.interrupt"),
        Binding("escape", "back", "back", show=False, id="app.back"),
        Binding("q", "leave", "quit", id="app.leave"),
    ]

    def __init__(
        self,
        tape: Path,
        clock: Clock = SYSTEM,
        *,
        filter_text: str = "",
        follow: bool = False,
        opened: Callable[[], Screen[Any]] | None = None,
        selected: int | None = None,
        limits: Thresholds = DEFAULTS,
        settings: Settings | None = None,
        ascii: bool = False,
    ) -> None:
        """Take the tape's path, and what is shown first: the list, filtered and followed, and over it `opened`.

        In the list the cursor is on the exchange with the number `selected`, as far as it is there.
        `limits` are those of the verdicts, `settings` what the configuration says.
        """
        super().__init__()
        self.tape = TapeReader(tape)
        self.clock = clock
        self.lag = Lag(clock)
        self.limits = limits
        self.decoders = Decoders(tape, limits)
        self.ascii = ascii
        self.failure: WiretapeError | None = None
        self._streams = StreamsScreen(filter_text, follow=follow, selected=selected)
        self._first = opened
        self._settings = settings or Settings()
        self._clashes = keys.Clashes()
        self._slips: list[str] = []
        self._away: Worker[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._typed_ahead = keys.TypedAhead(self)
        for theme in themes.THEMES:
            self.register_theme(theme)
        chosen = self._settings.theme
        self.theme = chosen if chosen in self.available_themes else themes.THEMES[0].name

    def get_driver_class(self) -> type[Driver]:
        """Draw by way of `TerminalDriver` where Textual would draw on a terminal itself."""
        found = super().get_driver_class()
        return TerminalDriver if found in TerminalDriver.__bases__ else found

    def on_terminal_driver_gone(self) -> None:
        """Leave, as if it had been hung up."""
        self._end(_HUNG_UP)

    def on_mount(self) -> None:
        """Show the streams; leave on the signals that would otherwise leave the terminal in disorder."""
        loop = asyncio.get_running_loop()
        for name in _SIGNALS:
            number = getattr(signal, name, None)
            if number is not None:
                with contextlib.suppress(
                    NotImplementedError, RuntimeError, ValueError
                ):  # not on Windows, nor in a thread
                    loop.add_signal_handler(number, self._end, 128 + number)
        self.set_keymap(keys.existing(self._settings.keys))
        self.push_screen(self._streams)
        if self._first is not None:
            self.push_screen(self._first())
        self.call_after_refresh(self._check_settings)
        self.call_after_refresh(_collect_from_now_on)
        self.set_timer(_LOADED_S, self._leave_out)

    def _leave_out(self) -> None:
        """Leave what has been loaded since out of collections, too: a full one would hold up a key by 30 ms.

        That is put off while a screen is open that goes again: what it leaves behind has to be collected.
        """
        if not self.screen_stack:  # the application is ending
            return
        if self.screen is self._streams:
            gc.collect()  # what is garbage now would stay for ever
            gc.freeze()
        else:
            self.set_timer(_LOADED_S, self._leave_out)

    def _end(self, code: int) -> None:
        away = self._away if self._away is not None and not self._away.is_finished else None
        if away is not None and code in _OF_KEYS:
            return  # it is for the program that has the terminal
        # Where the terminal is gone, what still waits to be written to it may hold up the end for ever.
        late = threading.Timer(_LATE_SECONDS, os._exit, (code,))
        late.daemon = True
        late.start()
        if away is None:
            self.exit(code)
        else:
            self._ending = asyncio.create_task(self._end_after(away, code))

    async def _end_after(self, away: Worker[None], code: int) -> None:
        """End when the program that has the terminal has been told to."""
        away.cancel()
        with contextlib.suppress(WorkerError):  # it was cancelled: that is what is waited for
            await away.wait()
        self.exit(code)

    def on_unmount(self) -> None:
        """Give the tape back."""
        self._typed_ahead.stop()
        self.tape.close()
        self.decoders.close()

    async def on_event(self, event: Event) -> None:
        """Let a key wait until the one before it has done all that it does; any takes away what was told of slips."""
        if isinstance(event, Key) and self.screen_stack:
            self.screen.query(Slips).remove()
        if not isinstance(event, Key) or event.is_forwarded or not self._typed_ahead.takes(event):
            await super().on_event(event)

    async def run_action(
        self, action: Any, default_namespace: DOMNode | None = None, namespaces: Mapping[str, DOMNode] | None = None
    ) -> bool:
        """Run an action; a list of options that has not been laid out yet knows no pages, and stays where it is."""
        try:
            return await super().run_action(action, default_namespace, namespaces)
        except KeyError:
            if not isinstance(default_namespace, OptionList):
                raise
            return True

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = False,
    ) -> None:
        """Say something in passing, in place of what was said before; what is long stays longer."""
        self.clear_notifications()
        if self.screen_stack:  # a toast that goes leaves its holder behind, which would keep the place
            self.screen.query("ToastHolder").remove()
        said = f"{title}: {message}" if title else message
        lasts = timeout or max(self.NOTIFICATION_TIMEOUT, len(said) / _READ_PER_SECOND)
        super().notify(said, severity=severity, timeout=lasts, markup=markup)

    def _check_settings(self) -> None:
        wrong = self._settings.wrong
        if self._settings.keys:
            from viewer.tui import keymap

            mapped = self._settings.keys
            wrong = [*wrong, *filter(None, [keymap.unknown(mapped), keys.missing(mapped)])]
        self._tell_slips(*wrong)

    def _tell_slips(self, *more: str) -> None:
        """Tell of what is wrong in the configuration, all of it at once."""
        self._slips += more
        if more:
            self.screen.query(Slips).remove()
            self.screen.mount(Slips(self._slips))

    def on_resize(self, event: Resize) -> None:
        """Say so where there is too little room for any screen."""
        is_cramped = event.size.width < LEAST[0] or event.size.height < LEAST[1]
        shown = isinstance(self.screen, CrampedScreen)
        if is_cramped and not shown:
            self.push_screen(CrampedScreen())
        elif shown and not is_cramped:
            self.pop_screen()

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Draw without colours and with ASCII only, where asked: the last thing done to every line of every screen."""
        greys = (Monochrome, NoColor) if self.no_color else ()  # Textual's own answer to NO_COLOR is shades of grey
        filters = [one for one in super().get_line_filters() if not isinstance(one, greys)]
        return [*filters, *[themes.WITHOUT_COLORS] * self.no_color, *[ASCII] * self.ascii]

    def handle_bindings_clash(self, clashed_bindings: set[Binding], node: DOMNode) -> None:
        """Tell of keys that the configuration has given to two actions."""
        told = self._clashes.told(clashed_bindings)
        if told is not None:
            self._tell_slips(told)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave out of footer and help what the screen does not have."""
        if action == "back":
            return len(self.screen_stack) > 2
        needed = _NEEDS.get(action)
        return needed is None or (bool(self.screen_stack) and any(hasattr(self.screen, name) for name in needed))

    def give_up(self, error: WiretapeError) -> None:
        """Leave with an error of one line, which the command line prints."""
        self.failure = error
        self.exit(error.exit_code)

    def show_streams(self, filter_text: str) -> None:
        """Filter the list; over another screen, open one that leads back to it."""
        if isinstance(self.screen, StreamsScreen):
            self.screen.set_filter(filter_text)
        else:
            self.push_screen(DrilledScreen(filter_text))

    def action_leave(self) -> None:
        """Go back a screen; from the first one, leave."""
        if len(self.screen_stack) > 2 and not isinstance(self.screen, CrampedScreen):
            self.pop_screen()
        else:
            self.exit(0)

    async def action_back(self) -> None:
        """Go back a screen; the first one stays."""
        if len(self.screen_stack) > 2 and not isinstance(self.screen, CrampedScreen):
            self.pop_screen()

    def action_interrupt(self) -> None:
        """Copy what is selected; where nothing is, leave at once, as from an interrupt."""
        typed = self.focused.selected_text if isinstance(self.focused, Input) else ""
        selected = typed or self.screen.get_selected_text()
        if selected:
            self.copy_to_clipboard(selected)
        else:
            self.exit(_INTERRUPTED)

    def action_help(self) -> None:
        """Show the keys of this screen."""
        from viewer.tui.dialogs.help import HelpScreen

        self._open_menu(HelpScreen, self.screen.active_bindings)

    def action_copy_menu(self) -> None:
        """Offer what this screen has to copy."""
        from viewer.tui.dialogs.menus import CopyMenu

        self._open_menu(CopyMenu, self._offered("copies"))

    def action_export_menu(self) -> None:
        """Offer what this screen has to export."""
        from viewer.tui.dialogs.menus import ExportMenu

        self._open_menu(ExportMenu, self._offered("exports"))

    def action_time_format(self) -> None:
        """Show times in the screen's next format."""
        change = getattr(self.screen, "action_time_format", None)
        if change is not None:
            change()

    def action_outside(self, name: str) -> None:
        """Show what is on the screen in the user's pager (`show`) or editor (`edit`)."""
        from viewer.tui.dialogs import outside

        if self.screen.is_modal or (self._away is not None and not self._away.is_finished):
            return
        page = outside.page(self.screen)
        if page is None:
            self.notify("there is no text here")
        else:
            self._away = self.run_worker(self._go_away({"show": outside.show, "edit": outside.edit}[name], *page))

    async def _go_away(self, program: Callable[..., Awaitable[str | None]], *page: str) -> None:
        failed = await program(self, *page)
        if failed is not None:
            self.notify(failed, severity="error")

    def action_next_theme(self) -> None:
        """Take the other theme."""
        self.theme = themes.following(self.theme)
        self.notify(self.theme, title="theme", markup=False, timeout=2)

    def action_picture(self) -> None:
        """Write what is on the screen to an SVG file in the current directory."""
        from viewer.tui.dialogs.menus import file_name

        path = Path(file_name("wiretape", ["--format", "svg"]))
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(self.export_screenshot())
        except OSError as error:
            self.notify(f"{path} cannot be written: {error.strerror}", severity="error")
        else:
            self.notify(f"written to {path}")

    def _offered(self, name: str) -> list[Any]:
        offer: Callable[[], list[Any]] | None = getattr(self.screen, name, None)
        return offer() if offer is not None else []

    def _open_menu(self, menu: Callable[[Any], Screen[Any]], content: Any) -> None:
        if not self.screen.is_modal:
            self.push_screen(menu(content))

    def _fatal_error(self) -> None:
        """Leave after a fault of the viewer's own: a few words for people, the traceback in a file."""
        if not self._exit_renderables:
            self._exit_renderables.append(Text(crash.report(self._exception, self.clock)))
        self._close_messages_no_wait()


def _collect_from_now_on() -> None:
    """What is there now stays: no collection need look at it again; the command starts without any.

    From then on collections are few: one of the middle sort, every few pages of a list, took 2 ms of a key's 10.
    """
    gc.freeze()
    gc.set_threshold(*_COLLECTED_AT)
    gc.enable()
