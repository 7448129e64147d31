"""The way to the terminal: what is drawn goes out as fast as it is taken, and never holds up the application.

Textual's own driver hands each frame to a thread through a queue of 30: where a terminal is slow, or gone, that queue
is full and the loop stands still. Here a frame goes into a `Canvas`; whenever the terminal has taken all of the last
difference, the next is made: frames are left out, events never. The terminal is opened anew for this, since what
others have open must go on blocking. Input, modes and signals stay Textual's.

A terminal that puts letters from right to left in their order by itself would mix the columns of a row that has some:
as the recommendation for terminals says, it is told that this program places each letter, and is put back at the end.
Letters then stand in the order in which they were sent.
"""

import asyncio
import contextlib
import os
import select
import threading
from collections import deque
from typing import Any, Final, Protocol, cast

from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message

from recorder.clock import Clock
from viewer.tui.base.canvas import Canvas

PLACED: Final = "\x1b[8l"
"""Each letter stays where it is put: RM 8, the explicit mode of ECMA-48."""

_ORDERED: Final = "\x1b[8h"
_PLAIN: Final = b"\x1b[0m\x1b[?2026l"
"""Ends a frame wherever it was cut off: its colours, and the wait for the rest of it."""

_PIECE: Final = 1 << 14
_END_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 1.0
_KEPT: Final = 16


class Lag:
    """How long the terminal took for the last frames, from when they were drawn until it had taken them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since: int | None = None
        self._took: deque[int] = deque(maxlen=_KEPT)

    @property
    def ms(self) -> float | None:
        """The longest of the last frames, the one that waits among them, in ms; None before the first one.

        What the terminal has taken but not shown yet, as beyond a slow network, is not in it.
        """
        waits = [] if self._since is None else [self._clock.now() - self._since]
        return max([*self._took, *waits], default=0) / 1e6 if waits or self._took else None

    def begin(self) -> None:
        """Something is drawn that the terminal does not have yet."""
        if self._since is None:
            self._since = self._clock.now()

    def end(self) -> None:
        """The terminal has all of it."""
        if self._since is not None:
            self._took.append(self._clock.now() - self._since)
            self._since = None


class Drawing(Protocol):
    """An application that draws on a terminal of its own."""

    lag: Lag


class TerminalDriver(LinuxDriver):
    """Writes what has changed, as the terminal takes it."""

    class Gone(Message):
        """There is no terminal any more."""

    def __init__(
        self, app: Any, *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        """Take the application, which is a `Drawing`, and Textual's own settings."""
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._lag = cast(Drawing, app).lag
        self._canvas = Canvas()
        self._waiting = bytearray()
        self._is_gone = False
        self._is_drawing = False
        self._terminal: int | None = None
        self._is_own = False
        self._running: asyncio.AbstractEventLoop | None = None
        self._look: asyncio.TimerHandle | None = None

    def start_application_mode(self) -> None:
        """Open the terminal, take its screen, and show on it what was shown before, if anything was."""
        self._running = asyncio.get_running_loop()
        self._terminal, self._is_own = _opened(2)
        self._canvas.forget()
        super().start_application_mode()  # type: ignore[no-untyped-call]
        self._is_drawing = True
        self.write(PLACED)
        self._watch()

    def stop_application_mode(self) -> None:
        """Give the terminal back as it was; of what still waits, only what it has the beginning of is ended."""
        following = self._waiting.find(b"\x1b")
        if following >= 0:
            del self._waiting[following:]
        self._waiting += _PLAIN  # not by way of the canvas, which would take it for something drawn
        self._is_drawing = False
        self._lag.end()
        self.write(_ORDERED)
        super().stop_application_mode()

    def close(self) -> None:
        """Wait a little for what still waits, and close the terminal."""
        if self._terminal is not None:
            self._drain()
            self._unwatch()
            if self._is_own:
                os.close(self._terminal)
            self._terminal = None
        super().close()

    def write(self, data: str) -> None:
        """Draw, or send what is not to be drawn; what is drawn while another has the terminal comes afterwards."""
        if threading.current_thread() is not threading.main_thread():
            if self._running is not None:
                self._running.call_soon_threadsafe(self.write, data)
            return
        if self._terminal is not None:
            with contextlib.suppress(OSError):  # it has no size: that of before stays
                self._canvas.resize(*os.get_terminal_size(self._terminal))
        others = self._canvas.take(data)
        if self._terminal is not None:
            self._waiting += others.encode("utf-8", "replace")
            self._send()

    def run_input_thread(self) -> None:
        """Read keys; where there is nothing to read from any more, the terminal is gone."""
        try:
            super().run_input_thread()
        except OSError:
            self.send_message(self.Gone())

    def _send(self) -> None:
        """Send what waits, and then what has changed since; go on when the terminal can take more."""
        loop, terminal = self._running, self._terminal
        if loop is None or terminal is None or self._is_gone:
            return
        if self._is_drawing and self._canvas.is_behind:
            self._lag.begin()
        try:
            while self._waiting or self._next_frame():
                del self._waiting[: os.write(terminal, self._waiting[:_PIECE])]
        except BlockingIOError:
            loop.add_writer(terminal, self._send)
        except OSError:
            self._hang_up()
        else:
            loop.remove_writer(terminal)

    def _next_frame(self) -> bool:
        """Say whether there is something to send yet, and let it wait."""
        if self._is_drawing:
            self._waiting += self._canvas.changes().encode("utf-8", "replace")
        if not self._waiting:
            self._lag.end()
        return bool(self._waiting)

    def _drain(self) -> None:
        """Send what waits, for as long as a terminal may keep people waiting for their shell."""
        deadline = asyncio.get_running_loop().time() + _END_SECONDS
        self._send()
        while self._waiting and not self._is_gone:
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0 or self._terminal is None:
                break
            select.select([], [self._terminal], [], left)
            self._send()
        self._waiting.clear()

    def _watch(self) -> None:
        """Look from time to time whether there still is a terminal: no signal tells those outside of its session."""
        if self._running is None or self._terminal is None:
            return
        poll = select.poll()
        poll.register(self._terminal, 0)
        if poll.poll(0):
            self._hang_up()
        else:
            self._look = self._running.call_later(_LOOK_SECONDS, self._watch)

    def _unwatch(self) -> None:
        if self._look is not None:
            self._look.cancel()
        if self._running is not None and self._terminal is not None:
            self._running.remove_writer(self._terminal)

    def _hang_up(self) -> None:
        """Send nothing more, and say that the terminal is gone."""
        if not self._is_gone:
            self._is_gone = True
            self._unwatch()
            self.send_message(self.Gone())


def _opened(descriptor: int) -> tuple[int, bool]:
    """Open the terminal of a descriptor so that writing to it never blocks; say whether that could be done.

    Where its name is another's, as in some containers, it is the descriptor itself, which may block.
    """
    try:
        return os.open(os.ttyname(descriptor), os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY), True
    except OSError:
        return descriptor, False
