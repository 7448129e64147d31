"""What a recording command says on standard error: lines, and on a terminal one status line below, often rewritten."""

import shutil
import sys
from typing import TextIO

from recorder.journal import Finished
from recorder.safe import safe


class Screen:
    """Lines above, a status line below; off a terminal there is no status line."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self.live = self._stream.isatty()
        self._status = ""

    def line(self, text: str) -> None:
        """Say one line; recorded text in it is made safe."""
        self._write(f"{self._clear()}{safe(text)}\n{self._status}")

    def status(self, text: str) -> None:
        """Rewrite the status line."""
        if self.live:
            width = shutil.get_terminal_size().columns
            clear, self._status = self._clear(), safe(text)[: width - 1]
            self._write(clear + self._status)

    def close(self) -> None:
        """Leave the last status line standing."""
        if self._status:
            self._write("\n")
        self._status = ""

    def _clear(self) -> str:
        return "\r\x1b[K" if self._status else ""

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:
            self.live = False  # nobody reads us any more: recording goes on


def finished_line(one: Finished, clock: str) -> str:
    """Give an exchange's line, such as `14:01:57 7f3a81d0 complete gpt-x 200 ttft 388 gap p50 11 max 2914 ms 7.2 s`."""
    outcome = one.outcome if one.outcome_detail is None else f"{one.outcome}/{one.outcome_detail}"
    parts = [clock, one.id[:8], outcome, str(one.status or "–"), one.model or f"{one.method} {one.path}"]
    if one.ttft_ns is not None:
        parts.append(f"ttft {_ms(one.ttft_ns)}")
    if one.icl_p50_ns is not None and one.max_stall_ns is not None:
        parts.append(f"gap p50 {_ms(one.icl_p50_ns)} max {_ms(one.max_stall_ns)} ms")
    if one.completion_tokens is not None:
        parts.append(f"{one.completion_tokens} tok")
    if one.duration_ns is not None:
        parts.append(f"{one.duration_ns / 1e9:.2f} s")
    loud = [flag.upper() for flag in one.flags if flag in ("stall", "burst", "storage_gap", "malformed", "empty")]
    return "  ".join(parts + loud)


def _ms(nanoseconds: float) -> str:
    return f"{nanoseconds / 1e6:.0f}"
