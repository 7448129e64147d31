"""The viewer as an application: a tape, a clock, and a stack of screens.

Shared by all screens: the tape's reader, the keys that work everywhere, and restoring the terminal at the end. A
screen may have `copies()`, `exports()`, `pages()` and `action_time_format`, which these keys use. After a fault,
the traceback goes to a private file.
"""

import asyncio
import contextlib
import errno
import gc
import os
import signal
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.dom import DOMNode
from textual.driver import Driver
from textual.events import Event, Key, Resize
from textual.filter import LineFilter, Monochrome, NoColor
from textual.notifications import SeverityLevel
from textual.screen import ModalScreen, Screen
from textual.widgets import Input, OptionList, Static
from textual.worker import Worker, WorkerError

from wiretape.recorder import paths
from wiretape.recorder.clock import SYSTEM, Clock
from wiretape.recorder.decode.stalls import Thresholds
from wiretape.recorder.errors import WiretapeError
from wiretape.recorder.sanitize import safe
from wiretape.viewer.config import Config
from wiretape.viewer.source.base import Place
from wiretape.viewer.source.decoder import Decoders
from wiretape.viewer.text.background import by_variable
from wiretape.viewer.tui import bindings
from wiretape.viewer.tui.base import keys, paint
from wiretape.viewer.tui.base import theme as themes
from wiretape.viewer.tui.base.host import SourceReader, TapeReader
from wiretape.viewer.tui.base.paint import ASCII
from wiretape.viewer.tui.base.terminal import Lag, TerminalDriver
from wiretape.viewer.tui.list.screen import DrilledScreen, StreamsScreen

LEAST_SIZE: Final = (60, 16)
"""The columns and rows that a screen needs."""


_NEEDS: Final = {
    "copy_menu": ("copies",), "export_menu": ("exports",), "browse": ("exports",),
}  # fmt: skip
"""The methods that an action of the application needs; a screen must have at least one."""

# A shell reports 128 and the number of the signal that ended a program.
_SIGNALLED: Final = 128
"""Added to a signal's number, this is the exit code after that signal."""

_LOADED_S: Final = 2
"""Time until the modules that are loaded after the first rows are there, in seconds."""

DEFAULTS: Final = Thresholds()


class _ListPlaceholder(Screen[None]):
    """Takes the place of the list under a screen that is opened first; the list is loaded on the way back to it."""

    holds_keys = True

    def __init__(self, streams: StreamsScreen) -> None:
        super().__init__()
        self._streams = streams

    def on_screen_resume(self) -> None:
        """Show the list, unless another screen has been pushed meanwhile."""
        if self.app.screen is self:
            self.app.switch_screen(self._streams)


class ViewerApp(App[int]):
    """Shows a tape; its result is the exit code, or `failure` is the error in reading the tape."""

    TITLE = "wiretape"
    NOTIFICATION_TIMEOUT = 2
    READING_SPEED = 30
    """Characters a second: a long toast stays longer."""

    CSS = """
    ToastRack { dock: top; align: right top; margin: 1 0 0 0; scrollbar-size: 0 0; }
    Toast { width: auto; max-width: 100%; margin: 0; padding: 0 1; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = bindings.of(*bindings.APPLICATION, *bindings.TERMINAL)

    def __init__(
        self,
        tape: Path,
        clock: Clock = SYSTEM,
        *,
        filter_text: str = "",
        follow: bool = False,
        first_screen: Callable[[], Screen[Any]] | None = None,
        selected: int | None = None,
        place: Place | None = None,
        limits: Thresholds = DEFAULTS,
        config: Config | None = None,
        ascii: bool = False,
    ) -> None:
        """Show the list, filtered and followed, with the cursor on the exchange `selected`, below the `first_screen`.

        `limits` are those of the verdicts, `config` is the configuration. The source at a `place` is listed
        instead of the tape, and opened exchanges are copied from it to the tape.
        """
        super().__init__()
        self.tape = TapeReader(tape)
        # One thread for both where the list is the tape's own.
        self.list_reader: TapeReader | SourceReader = (
            self.tape if place is None or place.file == tape else SourceReader(place)
        )
        self.clock = clock
        self.lag = Lag(clock)
        self.limits = limits
        self.decoders = Decoders(tape, limits)
        self.ascii = ascii
        self.failure: WiretapeError | None = None
        self._streams = StreamsScreen(filter_text, follow=follow, selected=selected)
        self._first_screen = first_screen
        self._config = config or Config()
        self._warnings = set[str]()
        self._away: Worker[None] | None = None
        self._has_crashed = False
        self._cleanup = contextlib.ExitStack()
        self._ending: asyncio.Task[None] | None = None
        self._typed_ahead = keys.TypedAhead(self)
        for theme in themes.THEMES:
            self.register_theme(theme)
        chosen = self._config.theme
        self.use_theme(chosen if chosen and chosen in self.theme_choices else themes.AUTO)

    @property
    def theme_choices(self) -> set[str]:
        return {*self.available_themes, *themes.CHOICES}

    def use_theme(self, choice: str) -> None:
        """Use a theme: by its name, `dark` or `light`; with `auto`, the one for the terminal's background."""
        self.follows_terminal = choice == themes.AUTO
        name = (by_variable(os.environ.get("COLORFGBG")) or "dark") if self.follows_terminal else choice
        self.theme = themes.NAMES.get(name, name)

    def get_driver_class(self) -> type[Driver]:
        """Use `TerminalDriver` where Textual would use its own driver for a terminal."""
        driver = super().get_driver_class()
        return TerminalDriver if driver in TerminalDriver.__bases__ else driver

    def on_terminal_driver_background(self, message: TerminalDriver.Background) -> None:
        if self.follows_terminal:
            self.theme = themes.NAMES[message.color_scheme]

    def on_terminal_driver_gone(self) -> None:
        self._end(signal.SIGHUP)

    def on_mount(self) -> None:
        """Show the streams; exit in order on signals that would leave the terminal in disorder."""
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
            with contextlib.suppress(RuntimeError, ValueError):  # not in the main thread
                asyncio.get_running_loop().add_signal_handler(number, self._end, number)
        self.set_keymap(self._config.keys)
        first_screen = None if self._first_screen is None else self._first_screen()
        is_covered = first_screen is not None and not first_screen.is_modal
        self.push_screen(_ListPlaceholder(self._streams) if is_covered else self._streams)
        if first_screen is not None:
            self.push_screen(first_screen)
        # Nothing that the first rows would have to wait for.
        self.call_after_refresh(self._check_keys)
        self.call_after_refresh(_enable_gc)
        self.set_timer(_LOADED_S, self._freeze)

    def _freeze(self) -> None:
        """Exclude the objects loaded since then from garbage collection: a full one would delay a key by 30 ms.

        Postponed while a temporary screen is open: its objects have to be collected.
        """
        if not self.screen_stack:  # the application is ending
            return
        if self.screen is self._streams:
            gc.collect()  # present garbage would stay for ever
            gc.freeze()
        else:
            self.set_timer(_LOADED_S, self._freeze)

    @property
    def _is_away(self) -> bool:
        """True while another program has the terminal."""
        return self._away is not None and not self._away.is_finished

    def _end(self, number: signal.Signals) -> None:
        if self._is_away and number in (signal.SIGINT, signal.SIGQUIT):
            return  # keys send them to all programs in a terminal: it is for the one that has it
        # If the terminal is gone, pending writes to it may delay the end for ever.
        last_resort = threading.Timer(5, os._exit, (_SIGNALLED + number,))
        last_resort.daemon = True
        last_resort.start()
        self._ending = asyncio.create_task(self._exit_after(_SIGNALLED + number))

    async def _exit_after(self, code: int) -> None:
        if self._away is not None and self._is_away:
            self._away.cancel()
            with contextlib.suppress(WorkerError):  # the cancellation, as requested above
                await self._away.wait()
        self.exit(code)

    def on_unmount(self) -> None:
        self._typed_ahead.stop()
        self.tape.close()
        self.list_reader.close()
        self.decoders.close()
        self._cleanup.close()

    async def on_event(self, event: Event) -> None:
        """Hold back a key until the one before it has finished."""
        if not isinstance(event, Key) or event.is_forwarded or not self._typed_ahead.takes(event):
            await super().on_event(event)

    async def run_action(
        self, action: Any, default_namespace: DOMNode | None = None, namespaces: Mapping[str, DOMNode] | None = None
    ) -> bool:
        """Run an action; an option list that has not been laid out yet raises `KeyError` if it is paged."""
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
        """Show a toast in place of the last one; a long text stays longer."""
        self.clear_notifications()
        if self.screen_stack:  # a toast that goes leaves its holder behind, which would keep the place
            self.screen.query("ToastHolder").remove()
        text = f"{title}: {message}" if title else message
        seconds = timeout or max(self.NOTIFICATION_TIMEOUT, len(text) / self.READING_SPEED)
        super().notify(text, severity=severity, timeout=seconds, markup=markup)

    def _check_keys(self) -> None:
        """Exit if the configuration names no action, or no key."""
        for name, message in keys.mistakes(self._config.keys):
            self.give_up(self._config.error(f"keys.{name}", message))
            return

    def on_resize(self, event: Resize) -> None:
        """Request a larger terminal if there is too little room for any screen."""
        is_cramped = event.size.width < LEAST_SIZE[0] or event.size.height < LEAST_SIZE[1]
        is_shown = isinstance(self.screen, CrampedScreen)
        if is_cramped and not is_shown:
            self.push_screen(CrampedScreen())
        elif is_shown and not is_cramped:
            self.pop_screen()

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Return the filters that every line passes last: no colours, and ASCII only, if the options are set."""
        greys = (Monochrome, NoColor) if self.no_color else ()  # Textual's own answer to NO_COLOR is shades of grey
        filters = [line_filter for line_filter in super().get_line_filters() if not isinstance(line_filter, greys)]
        return [*filters, *[themes.WITHOUT_COLORS] * self.no_color, *[ASCII] * self.ascii]

    def handle_bindings_clash(self, clashed_bindings: set[Binding], node: DOMNode) -> None:
        warning = keys.clash_warning(clashed_bindings)
        if warning is not None and warning not in self._warnings:
            self._warnings.add(warning)
            self.call_later(self.notify, warning, severity="warning")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return True if an action applies: footer and help show no others."""
        if action == "back":
            return len(self.screen_stack) > 2 or self._undo() is not None
        needs = _NEEDS.get(action)
        return needs is None or (bool(self.screen_stack) and any(hasattr(self.screen, name) for name in needs))

    def give_up(self, error: WiretapeError) -> None:
        """Exit with an error of one line, which the command prints."""
        self.failure = error
        self.exit(error.exit_code)

    def show_streams(self, filter_text: str) -> None:
        if isinstance(self.screen, StreamsScreen):
            self.screen.set_filter(filter_text)
        else:
            self.push_screen(DrilledScreen(filter_text))

    def action_leave(self) -> None:
        if len(self.screen_stack) > 2 and not isinstance(self.screen, CrampedScreen):
            self.pop_screen()
        else:
            self.exit(0)

    async def action_back(self) -> None:
        undo = self._undo()
        if undo is not None:
            undo()
        elif len(self.screen_stack) > 2 and not isinstance(self.screen, CrampedScreen):
            self.pop_screen()

    def _undo(self) -> Callable[[], object] | None:
        undo: Callable[[], object] | None = getattr(self.screen, "undo", None) if self.screen_stack else None
        return undo

    def action_interrupt(self) -> None:
        """Copy the selection; without any, exit at once."""
        selected = self.focused.selected_text if isinstance(self.focused, Input) else ""
        selected = selected or self.screen.get_selected_text() or ""
        if selected:
            self.copy_to_clipboard(selected)
        else:
            self.exit(_SIGNALLED + signal.SIGINT)

    def action_help(self) -> None:
        from wiretape.viewer.tui.dialogs.help import HelpScreen

        if not self.screen.is_modal:
            self.push_screen(HelpScreen(self.screen.active_bindings))

    def action_copy_menu(self) -> None:
        from wiretape.viewer.tui.dialogs import menus

        if not self.screen.is_modal:
            self.push_screen(menus.copy_menu(self, self._acting_screen.copies(), self.screen))

    def action_export_menu(self) -> None:
        from wiretape.viewer.tui.dialogs import menus, offers

        if not self.screen.is_modal:
            self.push_screen(menus.export_menu(self, offers.possible(self._acting_screen.exports())))

    def action_browse(self) -> None:
        """Write the page of this screen's exchanges, and open it in the browser."""
        from wiretape.viewer.tui.dialogs import offers
        from wiretape.viewer.tui.dialogs.menus import browse

        exports = (arguments for _, arguments in offers.possible(self._acting_screen.exports()))
        page = next((arguments for arguments in exports if arguments[-2:] == ["--format", "html"]), None)
        if page is None:
            self.notify("there is no page of this")
        else:
            self.run_worker(browse(self.screen, page, self._cleanup))

    def open_outside(self, program: Callable[..., Awaitable[str | None]], screen: Screen[Any]) -> None:
        if not self._is_away:
            self._away = self.run_worker(self._go_away(program, screen))

    async def _go_away(self, program: Callable[..., Awaitable[str | None]], screen: Screen[Any]) -> None:
        from wiretape.viewer.tui.dialogs import outside

        page = outside.page(screen)
        if page is not None and (error := await program(self, *page)) is not None:
            self.notify(error, severity="error")

    def action_next_theme(self) -> None:
        self.use_theme(themes.following(self.theme))
        self.notify(self.theme, title="theme", markup=False, timeout=2)

    @property
    def _acting_screen(self) -> Any:
        """The screen; `check_action` ensures that it has the methods that an action needs."""
        return self.screen

    def _fatal_error(self) -> None:
        """Exit after a fault of the viewer's own: a few lines for people, the traceback in a file."""
        if not self._has_crashed:
            self._has_crashed = True
            self.panic(Text(report_crash(sys.exception(), self.clock), no_wrap=True, overflow="ignore"))


def _enable_gc() -> None:
    """Collect only future objects, and rarely: the command starts with collection disabled.

    One collection of the second generation, every few pages of a list, would take 2 of the 10 ms of a key.
    """
    gc.freeze()
    gc.set_threshold(20_000, 2, 2)
    gc.enable()


class CrampedScreen(ModalScreen[None]):
    """Asks for more room; the application takes it away when there is enough."""

    CSS = """
    CrampedScreen { background: $background; align: left top; }
    CrampedScreen > Static { width: 1fr; height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = bindings.of(bindings.LEAVE)

    def compose(self) -> ComposeResult:
        yield Static(paint.content(f"wiretape needs {LEAST_SIZE[0]}x{LEAST_SIZE[1]}: enlarge me, or q quits"))


def report_crash(error: BaseException | None, clock: Clock) -> str:
    """Write the traceback to a private file of the user. Return five lines about it."""
    directory, path = paths.of_user("state"), Path("log", f"view-{clock.wall_ns() // 1_000_000}.txt")
    try:
        if directory is None:
            raise FileNotFoundError(errno.ENOENT, paths.NO_HOME)
        path = directory / path
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.touch(mode=0o600)  # a traceback may quote recorded text
        path.write_text("".join(traceback.format_exception(error)) if error else "", "utf-8", "backslashreplace")
        outcome = f"The traceback is in {path}"
    except OSError as failure:
        outcome = f"The traceback could not be kept: {path}: {failure.strerror}"
    return "\n".join(
        (
            "wiretape: the viewer broke. This is a fault of wiretape, not of the tape; the tape was only read.",
            f"  {safe(type(error).__name__)}: {safe(str(error))[:200]}",
            safe(outcome),
            "It may quote recorded text: look it through before you hand it on.",
            "Everything else goes on: 'wiretape ls' and 'wiretape show' read the same tape.",
        )
    )
