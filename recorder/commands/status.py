"""A recording command's output on standard error: lines, and on a terminal a status line below, often rewritten."""

import contextlib
import os
import queue
import shutil
import sys
import threading
from array import array
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TextIO

from wiretape.recorder.clock import SYSTEM
from wiretape.recorder.decode import causes
from wiretape.recorder.decode.causes import Ending
from wiretape.recorder.decode.exchange import NOTABLE, UNDECODED
from wiretape.recorder.decode.operation import is_covered
from wiretape.recorder.plurals import counted
from wiretape.recorder.sanitize import clipped
from wiretape.recorder.tape.journal import Finished
from wiretape.recorder.tape.losses import Totals
from wiretape.recorder.tape.redact import shown

_MOST_STALLED = 50
"""Limit of stalls whose owners are worked out for the closing line."""

Owners = Mapping[str, int]
"""Counts of stalls by their owner, such as `by upstream`."""


class Screen:
    """Output lines, with a status line below them on a terminal.

    A separate thread writes the text: a suspended terminal, or a pipe without a reader, must not delay a stream. If too
    much text waits, the excess is dropped.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self.live = self._stream.isatty()
        self._status = ""
        self._queue: queue.Queue[str | None] = queue.Queue(1000)
        self._thread = threading.Thread(target=self._write_texts, daemon=True)
        self._thread.start()

    def report(self, text: str) -> None:
        self.line(f"wiretape: {text}")

    def line(self, text: str) -> None:
        """Print one line without credentials; recorded text in it is made safe, and clipped."""
        self._write_line(clipped(shown(text), 4096))

    def finished(self, exchange: Finished, clock: str) -> None:
        """Print an exchange's line, whose recorded text is safe already: a search for keys in all of it takes long."""
        self._write_line(finished_line(exchange, clock))

    def _write_line(self, text: str) -> None:
        self._write(f"{self._clear()}{text}\n{self._status}")

    def status(self, text: str) -> None:
        if self.live:
            width = shutil.get_terminal_size().columns
            clear, self._status = self._clear(), shown(text)[: width - 1]
            self._write(clear + self._status)

    def close(self) -> None:
        """Leave the last status line on the screen, and wait a moment until all lines are written."""
        if self._status:
            self._write("\n")
        self._status = ""
        with contextlib.suppress(queue.Full):
            self._queue.put_nowait(None)
        self._thread.join(0.5)

    def _clear(self) -> str:
        return "\r\x1b[K" if self._status else ""

    def _write(self, text: str) -> None:
        with contextlib.suppress(queue.Full):
            self._queue.put_nowait(text)

    def _write_texts(self) -> None:
        """Write to the descriptor itself: a thread that is stuck in Python's own buffer would keep us from exiting."""
        try:
            descriptor: int | None = self._stream.fileno()
        except (OSError, ValueError):
            descriptor = None
        # A terminal has the encoding that it was adapted to; pipes get UTF-8 in every locale, as files keep their text.
        encoding = (self._stream.encoding, self._stream.errors or "replace") if self.live else ("utf-8", "replace")
        with contextlib.suppress(OSError, ValueError):  # the reader is gone: recording goes on
            while text := self._next_text():
                if descriptor is None:
                    self._stream.write(text)
                else:
                    data = text.encode(*encoding)
                    while data:
                        data = data[os.write(descriptor, data) :]
        self.live = False

    def _next_text(self) -> str:
        """Wait for text, and return all that is written soon after it; empty at the end."""
        texts = list[str]()
        try:
            while (text := self._queue.get(block=not texts)) is not None:
                if not texts:
                    SYSTEM.sleep(0.02)  # a busy recorder has a line for each exchange
                texts.append(text)
            self._queue.put_nowait(None)  # for the next call, which is the last one
        except (queue.Empty, queue.Full):
            pass
        return "".join(texts)


def finished_line(exchange: Finished, clock: str) -> str:
    """Return an exchange's line: `14:01:57 7f3a81d0 complete 200 gpt-x ttft 388 ms icl p50 11 max gap 2914 ms`."""
    outcome = exchange.outcome if exchange.outcome_detail is None else f"{exchange.outcome}/{exchange.outcome_detail}"
    name = clipped(shown(exchange.model or f"{exchange.method} {exchange.path}"), 80)
    parts = [clock, exchange.id[:8], outcome, str(exchange.status or "–"), name]
    if exchange.ttft_ns is not None:
        parts.append(f"ttft {_ms(exchange.ttft_ns)} ms")
    if exchange.icl_p50_ns is not None and exchange.max_gap_ns is not None:
        parts.append(f"icl p50 {_ms(exchange.icl_p50_ns)} max gap {_ms(exchange.max_gap_ns)} ms")
    if exchange.output_tokens is not None:
        parts.append(f"{exchange.output_tokens} tok")
    if exchange.duration_ns is not None:
        parts.append(f"{exchange.duration_ns / 1e9:.2f} s")
    return "  ".join(parts + [flag for flag in NOTABLE if flag in exchange.flags and flag != exchange.outcome])


@dataclass(slots=True)
class Tally:
    """The endings of finished generations, the ids of some that stalled, and the count of streams not decoded."""

    endings: Counter[Ending] = field(default_factory=Counter)
    stalled: list[str] = field(default_factory=list)
    undecoded: int = 0

    @property
    def is_judged(self) -> bool:
        """True if the owners of the stalls are worked out."""
        return 0 < len(self.stalled) <= _MOST_STALLED

    def add(self, exchange: Finished) -> None:
        """Count an exchange: its ending if it is a generation."""
        self.undecoded += UNDECODED in exchange.flags
        if is_covered(exchange.operation):
            self.endings[exchange.ending] += 1
            if exchange.ending.stalled and len(self.stalled) <= _MOST_STALLED:
                self.stalled.append(exchange.id)

    def latencies(self) -> list[str]:
        """Return the latencies for the closing line: none of a recorder that runs for days."""
        return []


@dataclass(slots=True)
class TimedTally(Tally):
    """A tally of one command, with the times of its complete generations."""

    ttft_ns: "array[int]" = field(default_factory=lambda: array("q"))
    longest_gap_ns: int | None = None

    def add(self, exchange: Finished) -> None:
        """Count an exchange, and note its times."""
        Tally.add(self, exchange)
        if is_covered(exchange.operation) and exchange.outcome == "complete":  # as `stats` measures them
            self.ttft_ns.extend(() if exchange.ttft_ns is None else (exchange.ttft_ns,))
            if exchange.max_gap_ns is not None:
                self.longest_gap_ns = max(self.longest_gap_ns or 0, exchange.max_gap_ns)

    def latencies(self) -> list[str]:
        """Return the median time to first token and the longest gap, if any."""
        parts = []
        if self.ttft_ns:
            import statistics

            parts = [f"ttft p50 {_ms(statistics.median(self.ttft_ns))} ms"]
        return parts + ([] if self.longest_gap_ns is None else [f"max gap {_ms(self.longest_gap_ns)} ms"])


def summary(
    totals: Totals,
    tally: Tally,
    owners: Callable[[Sequence[str]], Owners] | None = None,
) -> str:
    """Return the counts of a recording with the causes of failures, as `stats` has them, and its latencies.

    `owners` counts the exchanges of some ids by the party that caused their stall. Without the endings of all
    generations, as of a recorder whose writer was shared, there are no causes.
    """
    generations = counted(totals.generations, "generation")
    parts = [f"{generations}, {totals.failed:,} failed"]
    if 0 < totals.generations == tally.endings.total():
        owned = owners(tally.stalled) if owners and tally.is_judged else {}
        slow = [part for part in (causes.stalls(tally.endings, owned), causes.buffered(tally.endings)) if part]
        parts = [f"{generations}: {causes.summary(tally.endings)}", ", ".join(slow)]
    parts.append(", ".join(tally.latencies()))
    parts += [counted(totals.non_generations, "other request")] if totals.non_generations else []
    parts += [undecoded(tally.undecoded)] if tally.undecoded else []
    return " · ".join(part for part in parts if part)


def undecoded(count: int) -> str:
    """Return the notice that no dialect knows some streams."""
    return f"{counted(count, 'stream')} not decoded: wiretape help dialects"


def unmeasured(count: int, total: int, naming: str = "", *, soon: bool = False) -> str:
    """Return the notice that exchanges are not measured; `naming` is the option that names their tape.

    `soon`: a recorder runs that measures them.
    """
    measuring = "the recorder that runs" if soon else f"the next recorder, or 'wiretape db rebuild{naming}',"
    return f"{count:,} of {counted(total, 'exchange')} are not measured yet: {measuring} measures them"


def _ms(nanoseconds: float) -> str:
    return f"{nanoseconds / 1e6:.0f}"
