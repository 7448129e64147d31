"""Decoding a large exchange in a process of its own: it neither holds up a screen nor leaves its memory behind.

Starting a process takes most of the time that decoding does, and reading a third of the rest: so one may be started,
and read ahead, before anybody wants the result. The result is defined in `wiretape.viewer.exchange.opened`, reading
from the tape in `exchange`.
"""

import contextlib
import pickle
import subprocess
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, cast

from wiretape.recorder import children
from wiretape.recorder.decode.stalls import Thresholds
from wiretape.recorder.errors import TapeError
from wiretape.recorder.sanitize import safe

if TYPE_CHECKING:
    from wiretape.viewer.exchange.opened import OpenedExchange

LARGE: Final = 1 << 20
"""A body of more bytes is decoded in a process of its own."""

_LARGEST_AHEAD: Final = 32 << 20
"""Size limit for reading ahead: another request waits until the read has ended; 12 MiB of 100,000 reads take 0.09 s."""

_FURTHER: Final = 2
"""Number of stages of judging that follow decoding, as of `opened.begin`."""

_PIPE_BYTES: Final = 1 << 20
"""Size of the pipe: the result of a hundred thousand events is 20 MB, and a larger pipe makes both sides wait less."""

_CHILD: Final = "import gc; gc.disable(); from wiretape.viewer.source.tape.exchange import decode_asked; decode_asked()"


class Decoders:
    """Processes that decode, one exchange each; at most one, `waiting`, waits for its request."""

    def __init__(self, tape: Path, limits: Thresholds) -> None:
        self._tape, self._limits = tape, limits
        self.waiting: Decoder | None = None
        self._lock = threading.Lock()
        self._closed = False

    def ready(self, no: int | None = None, size: int = 0) -> None:
        """Start a process that waits; meanwhile, it reads a named exchange, with a body of `size` bytes."""
        with self._lock:
            if self._closed:
                return
            self.waiting = self._spare() or Decoder(self._tape, self._limits)
            if no is not None and size <= _LARGEST_AHEAD:
                self.waiting.read_ahead(no)

    def ask(self, no: int) -> "Decoder":
        """Request an exchange from the waiting process, or a new one; the caller must fetch the answer."""
        with self._lock:
            spare = self._spare()
        decoder = spare or Decoder(self._tape, self._limits)
        decoder.ask(no)
        return decoder

    def _spare(self) -> "Decoder | None":
        """Remove and return the waiting process, or None if it has ended."""
        decoder, self.waiting = self.waiting, None
        if decoder is None or decoder.process.poll() is None:
            return decoder
        decoder.dismiss()
        return None

    def close(self) -> None:
        """End the waiting process, and start no other one."""
        with self._lock:
            self._closed = True
            waiting, self.waiting = self.waiting, None
        if waiting is not None:
            waiting.dismiss()


class Decoder:
    """A `process` that decodes one exchange of a tape, and is gone then. If killed, its answer is an error."""

    def __init__(self, tape: Path, limits: Thresholds) -> None:
        self._question = tape, limits
        self.ahead: int | None = None
        self._words = tempfile.TemporaryFile()  # noqa: SIM115 - closed by the caller, or by `dismiss`
        self.process = subprocess.Popen(
            children.python("-c", _CHILD),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._words,
            env=children.environment(),
            pipesize=_PIPE_BYTES,
            start_new_session=True,
        )

    def dismiss(self) -> None:
        """End a process that has nothing to decode."""
        self.process.kill()
        self._hang_up()
        with self._words, self.process:
            pass

    def read_ahead(self, no: int) -> None:
        """Make the process read an exchange that is likely to be requested."""
        if no != self.ahead:
            self.ahead = no
            self._say(no, is_asked=False)

    def ask(self, no: int) -> None:
        """Ask for an exchange; if the process is gone, its answer will tell."""
        self._say(no, is_asked=True)
        self._hang_up()

    def _hang_up(self) -> None:
        with contextlib.suppress(BrokenPipeError):  # the process is gone, and the request with it
            cast(IO[bytes], self.process.stdin).close()

    def _say(self, no: int, *, is_asked: bool) -> None:
        questions = cast(IO[bytes], self.process.stdin)
        with contextlib.suppress(BrokenPipeError):  # it is gone: `answer` says why
            pickle.dump((*self._question, no, is_asked), questions)
            questions.flush()

    def answer(self, begun: "Callable[[OpenedExchange], None] | None" = None) -> "OpenedExchange":
        """Wait for the decoded exchange; `begun` is called with the part that is ready before. Raises `TapeError`."""
        with self._words:
            try:
                return self._answered(begun)
            except (EOFError, pickle.UnpicklingError) as error:
                self.process.wait()
                raise TapeError(f"the exchange cannot be decoded ({self._why()})") from error

    def _answered(self, begun: "Callable[[OpenedExchange], None] | None") -> "OpenedExchange":
        """Read the process's output as it arrives, so that memory never holds it twice."""
        output = cast(IO[bytes], self.process.stdout)
        with self.process, output:
            exchange: OpenedExchange = pickle.load(output)
            for _ in range(_FURTHER):
                if begun is not None:
                    begun(exchange)
                exchange = exchange.with_stage(pickle.load(output))
            return exchange

    def _why(self) -> str:
        self._words.seek(0)
        last_line = self._words.read().decode("utf-8", "replace").strip().rpartition("\n")[2]
        return safe(last_line) or "its process was ended"
