"""Reading one exchange for a screen: what is known at once, then all of it, and again while it still runs.

The tape is only asked for what is on it; decoding goes on beside it and beside the loop, so that neither waits. How
often a stream that grows is read again depends on how long that takes.
"""

import asyncio
import contextlib
import dataclasses
import functools
import threading
from collections.abc import Callable
from typing import Any, Final

from sqlalchemy import Connection
from sqlalchemy.exc import NoResultFound

from recorder.errors import WiretapeError
from viewer.model.exchange import opened as opening
from viewer.model.exchange.opened import Opened
from viewer.tape import decoder as apart
from viewer.tape import exchange
from viewer.tape.decoder import Decoder
from viewer.tape.exchange import Known
from viewer.tui.base.host import Host, Superseded, in_thread

_PATIENCE: Final = 4
GONE: Final = "this exchange is not on the tape any more"


class Loader:
    """Reads the exchange `no`; what comes of it goes to `knows`, `opens` and, in words, `fails`."""

    def __init__(
        self,
        host: Host,
        no: int,
        knows: Callable[[Known], None],
        opens: Callable[[Opened], None],
        fails: Callable[[str], None],
    ) -> None:
        self._tape, self._clock, self._limits = host.tape, host.clock, host.limits
        self._decoders = host.decoders
        self._no = no
        self._key = f"exchange {id(self)}"  # two screens may read the same one
        self._decoder: Decoder | None = None
        self._answer: asyncio.Task[Opened] | None = None
        self._knows, self._opens, self._fails = knows, opens, fails
        self._version: tuple[int, int] | None = None
        self._patient_until = 0
        self._closed = False
        self._taking = threading.Lock()
        self._begun: asyncio.Task[asyncio.Task[Opened] | None] | None = None
        self._apart: asyncio.Task[Opened] | None = None
        self.known: Known | None = None
        self.opened: Opened | None = None

    def begin(self) -> None:
        """Begin to decode a large one, though the screen is not there yet: that takes longest."""
        self._begun = asyncio.create_task(self._begin_apart())
        self._begun.add_done_callback(_look_at)

    async def know(self) -> None:
        """Read what can be told at once."""
        with Told(self._fails):
            begun, self._begun = self._begun or self._begin_apart(), None
            self._apart = await begun
            self._version = await self._written()
            await self._know()
            if self.opened is not None:  # it was decoded before this could be told
                self._opens(self.opened)

    async def open(self) -> None:
        """Read and decode all of it."""
        with Told(self._fails):
            await self._open()

    async def again(self) -> None:
        """If it still runs, look whether its recorder does, too, and if the tape has changed, read it again.

        That is never done more often than decoding it allows.
        """
        if self.known is None or not self.is_live:
            return
        with Told(self._fails):
            recorder = await self._tape.ask(functools.partial(exchange.recorder, no=self._no), self._key)
            self.known = dataclasses.replace(self.known, recorder=recorder)
            self._knows(self.known)
            version = await self._written()
            if version != self._version and self._clock.now() >= self._patient_until:
                self._version = version
                await self._know()
                await self._open()

    @property
    def is_live(self) -> bool:
        """Whether it still runs, or has ended but is not measured yet, as far as was seen."""
        is_unmeasured = self.known is not None and self.known.row["outcome"] == "open"
        return self.opened is not None and (self.opened.live or is_unmeasured)

    async def _written(self) -> tuple[int, int]:
        """Give what is otherwise whenever the tape has been written to, or another is there."""
        version = await self._tape.ask(exchange.version, self._key)
        return version, self._tape.openings

    async def _know(self) -> None:
        found = await self._tape.ask(functools.partial(exchange.known, no=self._no), self._key)
        if self.known is not None and found.row["id"] != self.known.row["id"]:
            raise NoResultFound  # another tape is there now, and has given the number to another exchange
        self.known = found
        self._knows(found)

    def close(self) -> None:
        """End what still decodes: nobody waits for it any more."""
        with self._taking:
            self._closed = True
        self._let_go()

    def _let_go(self) -> None:
        decoder, self._decoder = self._decoder, None
        if decoder is not None and self._answer is None:
            decoder.dismiss()
        elif decoder is not None:
            decoder.kill()

    async def _open(self) -> None:
        began = self._clock.now()
        apart, self._apart = self._apart or await self._begin_apart(), None
        if apart is None:
            answer = await self._tape.ask(functools.partial(exchange.stored, no=self._no), self._key)
            self._come(await in_thread(functools.partial(opening.opened, answer, self._limits)))
        else:
            self._come(await apart)
        now = self._clock.now()
        self._patient_until = now + _PATIENCE * (now - began)

    async def _begin_apart(self) -> "asyncio.Task[Opened] | None":
        """Begin to decode a large one in a process of its own; None if it is not large."""
        self._decoder, self._answer = None, None
        try:
            await self._tape.ask(self._ask_apart, self._key)
        except BaseException:
            self._let_go()
            raise
        if self._decoder is None:
            return None
        begun = None if self.opened is not None else self._handed_on()
        self._answer = task = asyncio.create_task(in_thread(functools.partial(self._decoder.answer, begun)))
        task.add_done_callback(_look_at)
        return task

    def _ask_apart(self, connection: Connection) -> None:
        """Ask a process to decode it, if it is large: in the tape's thread, since the loop is about to draw."""
        if exchange.weight(connection, self._no) > apart.LARGE:
            decoder = self._decoders.ask(self._no)
            with self._taking:
                if not self._closed:
                    self._decoder = decoder
                    return
            decoder.dismiss()  # the screen was left meanwhile

    def _handed_on(self) -> Callable[[Opened], None]:
        """Give what hands on, from another thread, what has been decoded but is still being judged."""
        loop = asyncio.get_running_loop()

        def begun(opened: Opened) -> None:
            with contextlib.suppress(RuntimeError):  # the application has ended
                loop.call_soon_threadsafe(self._come, opened)

        return begun

    def _come(self, opened: Opened) -> None:
        if self._closed:
            return
        self.opened = opened
        if self.known is not None:
            self._opens(opened)


def _look_at(done: "asyncio.Task[Any]") -> None:
    """Take an error that nobody may wait for any more."""
    _ = done.cancelled() or done.exception()


class Told:
    """Tells what went wrong within; what a newer question has overtaken is nobody's business."""

    def __init__(self, fails: Callable[[str], None]) -> None:
        self._fails = fails

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, NoResultFound):
            self._fails(GONE)
        elif isinstance(error, WiretapeError):
            self._fails(str(error))
        return isinstance(error, NoResultFound | WiretapeError | Superseded)
