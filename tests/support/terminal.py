"""A program in a pseudo-terminal, and its visible screen: the part of a terminal that tests need to read it."""

import codecs
import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from rich.cells import cell_len

from tests.support.forked import ROOT, Forked

SECONDS = 60.0
_WHOLE_SECONDS = 0.0005  # a frame is larger than a terminal's buffer: its remainder comes at once
_TOKEN = re.compile(
    r"\x1b\[(?P<csi>[<-?]?[\d;:]*[ -/]*[@-~])|\x1b\](?P<osc>.*?)(?:\x07|\x1b\\)|\x1b[PX^_].*?\x1b\\"
    r"|\x1b(?P<esc>[ -OQ-WYZ\\`-~])|(?P<text>[^\x00-\x1f\x7f-\x9f]+)|(?P<control>[\x00-\x1a\x1c-\x1f\x7f-\x9f])",
    re.DOTALL,
)


class Screen:
    """The contents of a terminal of some size; `modes` are its active private modes."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self.modes: set[str] = set()
        self.is_placed = False
        """True if letters keep their cells, also those of right-to-left scripts."""
        self.strange: list[str] = []
        """Sequences that a program must not send: titles, clipboards, bells, C1 controls."""
        self._cells = [[" "] * columns for _ in range(rows)]
        self._x = self._y = 0
        self._margins = 0, rows
        self._rest = ""

    @property
    def lines(self) -> list[str]:
        return ["".join(line).rstrip() for line in self._cells]

    def feed(self, text: str) -> None:
        text, at = self._rest + text, 0
        while match := _TOKEN.match(text, at):
            at = match.end()
            self._take(match)
        self._rest = text[at:]

    def _take(self, match: "re.Match[str]") -> None:
        if match["csi"] is not None:
            self._control(match["csi"])
        elif match["osc"] not in (None, "11;?"):
            self.strange.append(f"OSC {match['osc']}")
        elif match["text"] is not None:
            for sign in match["text"]:
                self._put(sign)
        elif match["control"] == "\r":
            self._x = 0
        elif match["control"] == "\n":
            self._y = min(self._y + 1, self.rows - 1)
        elif match["control"] not in (None, "\x08", "\x0f"):
            self.strange.append(repr(match["control"]))

    def _put(self, sign: str) -> None:
        size = cell_len(sign)
        if size and self._x + size <= self.columns:
            self._cells[self._y][self._x : self._x + size] = [sign] + [""] * (size - 1)
            self._x += size

    def _control(self, code: str) -> None:
        final, body = code[-1], code[:-1]
        if final in "hl":
            self._mode(body, final == "h")
        elif final in "HG":
            row, _, column = body.partition(";") if final == "H" else (f"{self._y + 1}", "", body)
            self._y, self._x = min(int(row or 1), self.rows) - 1, min(int(column or 1), self.columns) - 1
        elif final == "J":
            self._cells = [[" "] * self.columns for _ in range(self.rows)]
        elif final == "K":
            self._cells[self._y][self._x :] = [" "] * (self.columns - self._x)
        elif final == "r":
            first, _, last = body.partition(";")
            self._margins, self._y, self._x = (int(first or 1) - 1, int(last or self.rows)), 0, 0
        elif final in "LM":
            self._scroll(int(body or 1), is_down=final == "L")

    def _scroll(self, lines: int, *, is_down: bool) -> None:
        blank, end = [[" "] * self.columns for _ in range(lines)], self._margins[1]
        moved = self._cells[self._y : end]
        self._cells[self._y : end] = blank + moved[:-lines] if is_down else moved[lines:] + blank

    def _mode(self, body: str, is_on: bool) -> None:
        if body == "8":
            self.is_placed = not is_on
        if not body.startswith("?"):
            return
        change = self.modes.add if is_on else self.modes.discard
        for mode in body[1:].split(";"):
            change(mode)
            if mode == "1049":
                self._cells = [[" "] * self.columns for _ in range(self.rows)]


class Terminal:
    """A program of Python's that runs in a pseudo-terminal; `sent` is every byte of its output, the last at `came`.

    Only one that `is_fresh` has its encoding from its environment, and can be seen to be suspended.
    """

    def __init__(
        self,
        command: Sequence[str],
        columns: int = 100,
        rows: int = 30,
        environment: Mapping[str, str] | None = None,
        directory: Path = ROOT,
        *,
        is_fresh: bool = False,
    ) -> None:
        self._outer, self._inner = pty.openpty()
        fcntl.ioctl(self._inner, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.screen = Screen(columns, rows)
        self.sent = b""
        self.came = 0.0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        base = {
            name: value
            for name, value in os.environ.items()
            if name not in ("NO_COLOR", "COLORFGBG", "COLORTERM", "COLUMNS", "LINES")
        }
        environ = {"TERM": "xterm-256color", "TZ": "UTC", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", **(environment or {})}
        ends = {"stdin": self._inner, "stdout": self._inner, "stderr": self._inner}
        start, command = (subprocess.Popen, [sys.executable, *command]) if is_fresh else (Forked, command)
        self.process = start(command, **ends, cwd=directory, env=base | environ, start_new_session=True)

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait(SECONDS)
        self.take_away()
        os.close(self._inner)

    def take_away(self) -> None:
        """Close the terminal, as a window is; no signal says so, since the program is in a session of its own."""
        with contextlib.suppress(OSError):
            os.close(self._outer)

    def press(self, keys: str) -> None:
        os.write(self._outer, keys.encode())

    def read(self, seconds: float = 0.0, *, drawn: bool = True) -> bool:
        """Read output within a timeout, and return True if there was any. If not `drawn`, it is dropped."""
        if not select.select([self._outer], [], [], seconds)[0]:
            return False
        data = b""
        while not data or select.select([self._outer], [], [], _WHOLE_SECONDS)[0]:
            data += os.read(self._outer, 1 << 16)
            self.came = time.perf_counter()
        self.sent += data
        if drawn:
            self.screen.feed(self._decoder.decode(data))
        return True

    def wait_for(self, shown: "str | Callable[[Screen], bool]", seconds: float = SECONDS) -> float:
        """Wait until a text is on the screen, or something holds of it; give after how many seconds it had come."""
        began = time.perf_counter()
        holds = shown if callable(shown) else lambda screen: any(shown in line for line in screen.lines)
        while not holds(self.screen):
            assert self.process.poll() is None or self.read(0.1), "\n".join(["it ended", *self.screen.lines])
            remaining_s = began + seconds - time.perf_counter()
            assert remaining_s > 0, "\n".join([f"not on the screen: {shown}", *self.screen.lines])
            self.read(min(remaining_s, 0.05))
        return max(self.came - began, 0.0)

    def wait_until(self, holds: Callable[[], bool], seconds: float = SECONDS) -> None:
        """Wait until a condition holds, without reading output."""
        deadline = time.perf_counter() + seconds
        while not holds():
            assert time.perf_counter() < deadline, "waited in vain"
            time.sleep(0.01)

    def ended(self, seconds: float = SECONDS) -> int:
        """Wait until the program has ended, and give its exit code."""
        deadline = time.perf_counter() + seconds
        while self.process.poll() is None:
            assert time.perf_counter() < deadline, "\n".join(["it has not ended", *self.screen.lines])
            self.read(0.02)
        while self.read(0.05):
            pass
        return self.process.returncode

    def has_stopped(self) -> bool:
        """Return True if the program has been suspended since the last call."""
        return os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOHANG) is not None

    def signal(self, number: "signal.Signals") -> None:
        self.process.send_signal(number)

    def is_restored(self) -> bool:
        """Return True if the terminal is in its original state: screen, cursor, no mouse, and lines with an echo."""
        local = termios.tcgetattr(self._inner)[3]
        is_plain = not self.screen.is_placed and not self.screen.modes & {
            "1049",
            "1000",
            "1002",
            "1003",
            "1006",
            "2004",
        }
        return bool(is_plain and "25" in self.screen.modes and local & termios.ICANON and local & termios.ECHO)
