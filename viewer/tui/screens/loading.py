"""Reading one exchange for a screen: what is known at once, then all of it, and again while it still runs.

The tape is only asked for what is on it; decoding goes on beside it and beside the loop, so that neither waits. How
often a stream that grows is read again depends on how long that takes.
"""

import functools
import gc
import subprocess
from collections.abc import Callable
from typing import Final

from sqlalchemy.exc import NoResultFound

from recorder.clock import Clock
from recorder.errors import WiretapeError
from viewer import inspecting, opening
from viewer.inspecting import Known
from viewer.opening import Opened
from viewer.thresholds import Thresholds
from viewer.tui.reader import Superseded, TapeReader
from viewer.tui.screens.driving import aside

_KEY: Final = "inspector"
_PATIENCE: Final = 4
_GONE: Final = "this exchange is not on the tape any more"


class Loader:
    """Reads the exchange `no`; what comes of it goes to `knows`, `opens` and, in words, `fails`."""

    def __init__(
        self,
        tape: TapeReader,
        clock: Clock,
        no: int,
        limits: Thresholds,
        knows: Callable[[Known], None],
        opens: Callable[[Opened], None],
        fails: Callable[[str], None],
    ) -> None:
        self._tape = tape
        self._clock = clock
        self._no = no
        self._limits = limits
        self._started: list[subprocess.Popen[bytes]] = []
        self._knows, self._opens, self._fails = knows, opens, fails
        self._version: int | None = None
        self._patient_until = 0
        self.known: Known | None = None
        self.opened: Opened | None = None

    async def know(self) -> None:
        """Read what can be told at once."""
        with _Told(self._fails):
            self._version = await self._tape.ask(inspecting.version, _KEY)
            await self._know()

    async def open(self) -> None:
        """Read and decode all of it."""
        with _Told(self._fails):
            await self._open()

    async def again(self) -> None:
        """If it still runs and the tape has changed, read it again; never more often than decoding it allows."""
        if self.opened is None or not self.opened.live or self._clock.now() < self._patient_until:
            return
        with _Told(self._fails):
            version = await self._tape.ask(inspecting.version, _KEY)
            if version != self._version:
                self._version = version
                await self._know()
                await self._open()
            elif self.known is not None:
                self._knows(self.known)

    async def _know(self) -> None:
        self.known = await self._tape.ask(functools.partial(inspecting.known, no=self._no), _KEY)
        self._knows(self.known)

    def close(self) -> None:
        """End what still decodes: nobody waits for it any more."""
        for process in self._started:
            process.kill()

    async def _open(self) -> None:
        began = self._clock.now()
        if await self._tape.ask(functools.partial(inspecting.size, no=self._no), _KEY) > inspecting.LARGE:
            self._started.clear()
            work = functools.partial(inspecting.apart, self._tape.path, self._no, self._limits, self._started)
        else:
            answer = await self._tape.ask(functools.partial(inspecting.stored, no=self._no), _KEY)
            work = functools.partial(opening.opened, answer, self._limits)
        self.opened = await aside(work)
        gc.freeze()  # what is there now stays: a collection while it plays need not look at it
        now = self._clock.now()
        self._patient_until = now + _PATIENCE * (now - began)
        self._opens(self.opened)


class _Told:
    """Tells what went wrong within; what a newer question has overtaken is nobody's business."""

    def __init__(self, fails: Callable[[str], None]) -> None:
        self._fails = fails

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, NoResultFound):
            self._fails(_GONE)
        elif isinstance(error, WiretapeError):
            self._fails(str(error))
        return isinstance(error, NoResultFound | WiretapeError | Superseded)
