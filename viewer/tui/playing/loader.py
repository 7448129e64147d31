"""Reading one exchange for a screen: stored facts at once, then the decoded body, again while the exchange is running.

The tape's thread only reads; decoding runs beside it and beside the loop, so that neither waits. Keys that are pressed
meanwhile wait in a `KeyQueue`.
"""

import asyncio
import contextlib
import dataclasses
import functools
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar

from wiretape.recorder.errors import NoResultFound, WiretapeError
from wiretape.viewer.exchange import opened as opening
from wiretape.viewer.exchange.opened import Known, OpenedExchange
from wiretape.viewer.source import decoder
from wiretape.viewer.source.base import REST, Version
from wiretape.viewer.source.decoder import Decoder
from wiretape.viewer.tui.base.host import Host, Superseded, in_thread

if TYPE_CHECKING:
    from wiretape.viewer.source.stored import StoredExchange

P = ParamSpec("P")
T = TypeVar("T")

GONE: Final = "this exchange is not on the tape any more"


class Loader:
    """Reads the exchange `no`; results are passed to `on_facts` and `on_exchange`, errors in words to `on_failure`."""

    def __init__(
        self,
        host: Host,
        no: int,
        on_facts: Callable[[Known], None],
        on_exchange: Callable[[OpenedExchange], None],
        on_failure: Callable[[str], None],
    ) -> None:
        self._host, self._no = host, no
        self._key = f"exchange {id(self)}"  # two screens may read the same exchange
        self._on_facts, self._on_exchange, self._on_failure = on_facts, on_exchange, on_failure
        self._decoding: asyncio.Task[asyncio.Task[OpenedExchange] | None] | None = None
        self._decoder: Decoder | None = None
        self._answer: asyncio.Task[OpenedExchange] | None = None
        self._version: Version | None = None
        self._not_before_ns = 0  # reading again would otherwise take all of a core for a long stream
        self._reading = asyncio.Lock()
        self._is_reading = False
        self._closed = False
        self._closing = threading.Lock()
        self.facts: Known | None = None
        self.exchange: OpenedExchange | None = None

    def begin(self) -> "asyncio.Task[asyncio.Task[OpenedExchange] | None]":
        """Start a process for a large exchange, even before there is a screen: decoding takes longest."""
        self._decoding = asyncio.create_task(self._decode_apart())
        self._decoding.add_done_callback(_retrieve)
        return self._decoding

    async def load_facts(self) -> None:
        """Read the facts that need no decoding."""
        with ErrorReporter(self._on_failure):
            await (self._decoding or self.begin())
            self._version = await self._host.tape.read(lambda source: source.version(), self._key)
            self.facts = await self._read_facts()
            self._on_facts(self.facts)
            if self.exchange is not None:  # the process was faster
                self._on_exchange(self.exchange)

    async def load_exchange(self) -> None:
        with ErrorReporter(self._on_failure):
            await self._load_exchange()

    async def reload(self) -> None:
        """If it still runs, check its recorder; read it again if the tape has changed and enough time has passed.

        The last events are passed on before the recorder's death, which ends following them.
        """
        if self.facts is None or not self.is_live or self._reading.locked():
            return
        async with self._reading:
            with ErrorReporter(self._on_failure):
                facts = dataclasses.replace(self.facts, recorder=await self._ask(lambda exchange: exchange.recorder()))
                version = await self._host.tape.read(lambda source: source.version(), self._key)
                if version != self._version:
                    if self._host.clock.now() < self._not_before_ns:
                        return
                    self._version = version  # before the read: a write during it is a change
                    facts = await self._read_facts()
                    await self._load_exchange()
                self.facts = facts
                self._on_facts(facts)

    @property
    def is_live(self) -> bool:
        """True if it is running, or has ended but is not measured yet, as of the last read."""
        is_unmeasured = self.facts is not None and self.facts.row.outcome == "open"
        return self.exchange is not None and (self.exchange.live or is_unmeasured)

    def close(self) -> None:
        with self._closing:
            self._closed = True
        self._release()

    async def _ask(self, question: "Callable[[StoredExchange], T]") -> T:
        no = self._no  # the thread keeps its last question, which must not keep a screen that was left
        return await self._host.tape.read(lambda source: question(source.exchange(no)), self._key)

    async def _read_facts(self) -> Known:
        facts = await self._ask(lambda exchange: exchange.known())
        if self.facts is not None and facts.row.id != self.facts.row.id:
            raise NoResultFound  # the tape was replaced, and the new one has another exchange of this number
        return facts

    async def _load_exchange(self) -> None:
        began = self._host.clock.now()
        decoding, self._decoding = self._decoding or self.begin(), None
        answer = await decoding
        if answer is None:
            exchange_bytes = await self._ask(lambda exchange: exchange.stored())
            self._take(await in_thread(functools.partial(opening.open_exchange, exchange_bytes, self._host.limits)))
        else:
            self._take(await answer)
        now = self._host.clock.now()
        self._not_before_ns = now + REST * (now - began)

    async def _decode_apart(self) -> "asyncio.Task[OpenedExchange] | None":
        """Start to decode a large exchange in a process of its own; return None if it is not large."""
        self._decoder, self._answer = None, None
        try:
            await self._ask(self._start_decoder)
        except BaseException:
            self._decoding = None
            self._release()
            raise
        if self._decoder is None:
            return None
        early = None if self.exchange is not None else self._take_early(asyncio.get_running_loop())
        self._answer = asyncio.create_task(in_thread(functools.partial(self._decoder.answer, early)))
        self._answer.add_done_callback(_retrieve)
        return self._answer

    def _start_decoder(self, exchange: "StoredExchange") -> None:
        """Start a process if the exchange is large; in the tape's thread, since the loop is about to draw."""
        if exchange.weight() > decoder.LARGE:
            started = self._host.decoders.ask(self._no)
            with self._closing:
                if not self._closed:
                    self._decoder = started
                    return
            started.dismiss()

    def _release(self) -> None:
        started, self._decoder = self._decoder, None
        if started is not None and self._answer is None:
            started.dismiss()
        elif started is not None:
            started.process.kill()

    def _take_early(self, loop: asyncio.AbstractEventLoop) -> Callable[[OpenedExchange], None]:
        """Return a callback, for another thread, for decoded data without verdicts."""

        def take(opened_exchange: OpenedExchange) -> None:
            with contextlib.suppress(RuntimeError):  # the application has ended
                loop.call_soon_threadsafe(self._take, opened_exchange)

        return take

    def _take(self, exchange: OpenedExchange) -> None:
        if not self._closed:
            self.exchange = exchange
            if self.facts is not None:
                self._on_exchange(exchange)


def _retrieve(done: "asyncio.Task[Any]") -> None:
    """Retrieve an error that may have no reader any more."""
    _ = done.cancelled() or done.exception()


class ErrorReporter:
    """Reports the errors of a block to `on_failure` in words, except that a question was superseded."""

    def __init__(self, on_failure: Callable[[str], None]) -> None:
        self._on_failure = on_failure

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, NoResultFound):
            self._on_failure(GONE)
        elif isinstance(error, WiretapeError):
            self._on_failure(str(error))
        return isinstance(error, NoResultFound | WiretapeError | Superseded)


class KeyQueue:
    """Keys pressed before the exchange is read: their actions wait, in order.

    `is_ready` tells whether an action can be done that needs a decoded (False) or a judged (True) exchange.
    """

    def __init__(self, is_ready: Callable[[bool], bool]) -> None:
        self._is_ready = is_ready
        self._queue: deque[tuple[bool, Callable[[], object]]] = deque(maxlen=1000)
        self._is_acting = False

    def do(self, action: Callable[[], object], *, judged: bool = False) -> None:
        """Execute an action after those before it, immediately if possible; one within another, always immediately."""
        if self._is_acting and self._is_ready(judged):  # a part of the action that runs
            action()
        else:
            self._queue.append((judged, action))
            self.catch_up()

    def catch_up(self) -> None:
        """Execute the actions that are ready."""
        while not self._is_acting and self._queue and self._is_ready(self._queue[0][0]):
            _, action = self._queue.popleft()
            self._is_acting = True
            try:
                action()
            finally:
                self._is_acting = False


def queued(
    judged: bool = False,
) -> Callable[[Callable[Concatenate[Any, P], object]], Callable[Concatenate[Any, P], None]]:
    """Make an action of a screen with a `key_queue` wait until its exchange is decoded, or `judged`, too."""

    def decorate(action: Callable[Concatenate[Any, P], object]) -> Callable[Concatenate[Any, P], None]:
        @functools.wraps(action)
        def later(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> None:
            self.key_queue.do(functools.partial(action, self, *args, **kwargs), judged=judged)

        return later

    return decorate
