"""A Textual driver that never blocks the application while it writes to the terminal.

Textual's own driver passes each frame to a thread through a queue of 30: when a terminal is slow or gone, the queue is
full and the loop stands still. This driver draws each frame on a `Canvas` and sends the next difference once the
terminal has taken the last one: frames are skipped, events never. It opens the terminal again in non-blocking mode,
since other programs share the open one. Keys, modes and signals remain Textual's.

The driver asks for the terminal's background, and takes the answer out of the keys whenever it comes: there is no time
limit, since a terminal behind a slow network answers late and others never.

A terminal that reorders right-to-left text itself would mix up the columns of a row. As the "BiDi in terminal
emulators" recommendation asks, the driver declares that this program places each character, and resets that at the end.
"""

import asyncio
import codecs
import contextlib
import os
import select
import threading
from collections import deque
from dataclasses import dataclass
from typing import Any, Final

from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Key
from textual.message import Message

from wiretape.recorder.clock import Clock
from wiretape.viewer.text import background
from wiretape.viewer.text.canvas import Canvas

PLACED: Final = "\x1b[8l"
"""Leave each character where it is put: RM 8, the explicit mode of ECMA-48."""

_ESCAPE: Final = "\x1b"


class Lag:
    """The terminal's delay for the last frames, from drawing to acceptance."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting_since: int | None = None
        """The clock's ns at which a frame was drawn that the terminal has not accepted yet."""
        self._delays_ns: deque[int] = deque(maxlen=16)

    @property
    def ms(self) -> float | None:
        """The longest of the last frames and of the one that waits, in ms; None before the first one.

        It does not include data that the terminal has taken but not shown yet, as behind a slow network.
        """
        waiting_ns = [] if self._waiting_since is None else [self._clock.now() - self._waiting_since]
        delays_ns = [*self._delays_ns, *waiting_ns]
        return max(delays_ns) / 1e6 if delays_ns else None

    def begin(self) -> None:
        if self._waiting_since is None:
            self._waiting_since = self._clock.now()

    def end(self) -> None:
        if self._waiting_since is not None:
            self._delays_ns.append(self._clock.now() - self._waiting_since)
            self._waiting_since = None


class TerminalDriver(LinuxDriver):
    """Writes the changed cells as the terminal takes them. `app` has a `lag`, and `follows_terminal` or not."""

    class Gone(Message):
        """There is no terminal any more."""

    @dataclass
    class Background(Message):
        """The terminal has told its background."""

        color_scheme: background.Background

    def __init__(self, app: Any, **settings: Any) -> None:
        super().__init__(app, **settings)
        self._lag: Lag = app.lag
        self._canvas = Canvas()
        self._unsent = bytearray()
        self._is_gone = False
        self._is_drawing = False
        self._terminal: int | None = None
        self._is_own = False
        self._main_loop: asyncio.AbstractEventLoop | None = None
        self._look: asyncio.TimerHandle | None = None

    def start_application_mode(self) -> None:
        """Open the terminal, switch to the alternate screen, and draw all that was drawn before."""
        self._main_loop = asyncio.get_running_loop()
        self._terminal, self._is_own = open_nonblocking(2)  # as Textual: standard output may be a pipe
        self._canvas.forget()
        super().start_application_mode()  # type: ignore[no-untyped-call]
        self._is_drawing = True
        self.write(PLACED)
        if self._app.follows_terminal:  # type: ignore[attr-defined]
            self.write(background.QUERY)
        self._watch()

    def stop_application_mode(self) -> None:
        """Restore the terminal; what still waits is dropped, except for the rest of a sequence that was cut in two."""
        self._unsent[:] = cut_short(self._unsent)
        self._is_drawing = False
        self._lag.end()
        self.write("\x1b[8h")  # resets `PLACED`
        super().stop_application_mode()

    def close(self) -> None:
        """Send what waits, for a second at most, and close the terminal."""
        if self._terminal is not None:
            self._drain()
            self._unwatch()
            if self._is_own:
                os.close(self._terminal)
            self._terminal = None
        super().close()

    def write(self, data: str) -> None:
        """Draw, and send control sequences; drawing done while another program has the terminal is sent later."""
        if threading.current_thread() is not threading.main_thread():
            if self._main_loop is not None:
                self._main_loop.call_soon_threadsafe(self.write, data)
            return
        if self._terminal is not None:
            with contextlib.suppress(OSError):  # it has no size: keep the last one
                self._canvas.resize(*os.get_terminal_size(self._terminal))
        sequences = self._canvas.take(data)
        if self._terminal is not None:
            self._unsent += sequences.encode("utf-8", "replace")
            self._send()

    def run_input_thread(self) -> None:
        """Read keys and answers; where there is nothing to read from any more, the terminal is gone."""
        parser, reader = XTermParser(self._debug), background.AnswerSplitter()
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        with contextlib.suppress(OSError):
            while not self.exit_event.is_set():
                # An escape character with this pause behind it is the key, not the start of a sequence.
                has_more = bool(select.select([self.fileno], [], [], 0.1)[0])
                keys, answers = reader.split(decode(os.read(self.fileno, 4096)) if has_more else "")
                for answer in answers:
                    self.send_message(self.Background(answer))
                # The parser itself would wait for the rest of a sequence once more.
                events = parser.feed(keys) if has_more or keys != _ESCAPE else [Key("escape", _ESCAPE)]
                for event in (*(events if keys else ()), *parser.tick()):
                    self.process_message(event)
            return
        self.send_message(self.Gone())

    def _send(self) -> None:
        """Send pending data, then the changes since; continue when the terminal can take more."""
        loop, terminal = self._main_loop, self._terminal
        if loop is None or terminal is None or self._is_gone:
            return
        if self._is_drawing and self._canvas.is_behind:
            self._lag.begin()
        try:
            while self._unsent or self._has_next_frame():
                # Each write copies its piece of the output: better not all of a screen that has been waiting.
                del self._unsent[: os.write(terminal, self._unsent[: 1 << 14])]
        except BlockingIOError:
            loop.add_writer(terminal, self._send)  # a blocking write would hold up every signal
        except OSError:
            self._hang_up()
        else:
            loop.remove_writer(terminal)

    def _has_next_frame(self) -> bool:
        if self._is_drawing:
            self._unsent += self._canvas.changes().encode("utf-8", "replace")
        if not self._unsent:
            self._lag.end()
        return bool(self._unsent)

    def _drain(self) -> None:
        # A terminal that reads nothing must not keep the viewer from ending.
        deadline = asyncio.get_running_loop().time() + 1.0
        self._send()
        while self._unsent and self._terminal is not None and not self._is_gone:
            seconds = deadline - asyncio.get_running_loop().time()
            if seconds <= 0:
                break
            select.select([], [self._terminal], [], seconds)
            self._send()
        self._unsent.clear()

    def _watch(self) -> None:
        """Look every second whether there still is a terminal: outside its session, no signal says so."""
        if self._main_loop is None or self._terminal is None:
            return
        poll = select.poll()
        poll.register(self._terminal, 0)
        if poll.poll(0):
            self._hang_up()
        else:
            self._look = self._main_loop.call_later(1.0, self._watch)

    def _unwatch(self) -> None:
        if self._look is not None:
            self._look.cancel()
        if self._main_loop is not None and self._terminal is not None:
            self._main_loop.remove_writer(self._terminal)

    def _hang_up(self) -> None:
        if not self._is_gone:
            self._is_gone = True
            self._unwatch()
            self.send_message(self.Gone())


def cut_short(unsent: bytes | bytearray) -> bytes:
    """Return the rest of the sequence or text that output stopped in, and the end of its frame: colours, sync mode."""
    return bytes(unsent).partition(b"\x1b")[0] + b"\x1b[0m\x1b[?2026l"


def open_nonblocking(descriptor: int) -> tuple[int, bool]:
    """Open the terminal of a descriptor again, so that writing never blocks. Return its descriptor and True.

    Where its name cannot be opened, as in some containers, return the descriptor itself, which may block, and False.
    """
    try:
        return os.open(os.ttyname(descriptor), os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY), True
    except OSError:
        return descriptor, False
