"""Serves a tape, and records what upstream answers instead: a `Cassette`, from `start` to `stop`.

What is recorded goes through a recorder of its own, as `record` has it: relay, tap, writer. The server of that recorder
hands requests to `Replay` first. The tape is read by other connections, which cannot write.

A tape that is text is recorded to a private database, from which the text is written again when something has been
recorded: what was in it stays as it is, byte for byte.
"""

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from recorder.clock import SYSTEM, KernelTime
from recorder.errors import TapeBusy, WiretapeError
from recorder.plurals import counted
from recorder.relay import local, providers, server, service
from recorder.relay.guard import Refusal
from recorder.relay.providers import Upstream
from recorder.relay.proxy import Exchange, Proxy
from recorder.relay.server import Client, Request
from recorder.relay.upstream import Limits
from recorder.tape import cut, file, journal, retention
from recorder.tape.losses import Totals
from viewer.replay import planning
from viewer.replay.planning import Planner, ToRecord
from viewer.replay.replacing import Replacing
from viewer.replay.serve import Replay, Served
from viewer.replay.source import Select, Source
from viewer.replay.textfile import TextFile
from viewer.replay.websocket import Upgrade
from viewer.tape.replayed import Head

SETTLE_SECONDS = 3.0
"""A request waits this long for the recording of the same one, which has ended, to be on the tape."""
_SAVE_SECONDS = 1.0
"""The text of a cassette is written again so often at most, and at the end."""


@dataclass(frozen=True, slots=True)
class Options:
    """The settings of a cassette; `select` chooses what is served, and no upstream stands for the well-known APIs.

    `labels` are those of what is recorded.
    """

    tape: Path
    answers: planning.Options = field(default_factory=planning.Options)
    select: Select = lambda _: None
    host: str = "127.0.0.1"
    port: int = 0
    upstreams: Sequence[Upstream] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    ca_file: Path | None = None
    purpose: str = "wiretape serve"

    @property
    def is_recording(self) -> bool:
        """Whether anything may be recorded."""
        return self.answers.record != "none"


@dataclass(frozen=True, slots=True)
class Observer:
    """Whom a cassette tells what happens: requests served, refused, what went wrong, and what was recorded.

    `recorded` gets each exchange that is on the tape now, and whether it stays: one that failed does not take the place
    of an older one that did not. `served` gets the others when they are over.
    """

    served: Callable[[Served], None] = lambda _: None
    refused: Callable[[Refusal], None] = lambda _: None
    trouble: Callable[[str], None] = lambda _: None
    recorded: Callable[[journal.Finished, bool], None] = lambda _one, _is_kept: None


@dataclass(slots=True)
class _Pending:
    """An exchange that is not on the tape as a whole yet."""

    exchange: Exchange
    to_record: ToRecord
    settled: asyncio.Event = field(default_factory=asyncio.Event)


class Cassette:
    """Serves a tape, and records to it as `answers.record` has it. Used by one event loop, in any thread."""

    def __init__(self, options: Options, observer: Observer | None = None) -> None:
        self._options, self._observer = options, observer or Observer()
        self._opened = contextlib.ExitStack()
        self._tape = options.tape
        self._text: TextFile | None = None
        self._replay: Replay
        self._server: server.Server | None = None
        self._recorder: service.Recorder | None = None
        self._proxy: Proxy
        self._pending: dict[str, _Pending] = {}
        self._settled: set[Hashable] = set()
        self._replacing = Replacing()
        self._saving: asyncio.Task[None] | None = None
        self._saver = ThreadPoolExecutor(1, "cassette")
        self._is_new = asyncio.Event()
        self.base = ""
        """The base URL, after `start`."""

    @property
    def heads(self) -> Sequence[Head]:
        """What is served, oldest first."""
        return self._replay.heads

    def label(self, labels: Mapping[str, str]) -> None:
        """Label what is recorded from now on by these instead. May be called from any thread."""
        if self._recorder is not None:
            self._proxy.labels = dict(labels)

    async def start(self) -> None:
        """Open the tape, make it if it is to be recorded to and is not there, and serve. Raises `WiretapeError`."""
        local.raise_descriptor_limit()
        try:
            self._tape = await asyncio.to_thread(self._prepare)
            await (self._start_recorder() if self._options.is_recording else self._start_server())
        except BaseException:
            self._opened.close()
            raise
        self._replay.warm()

    def _prepare(self) -> Path:
        """Return the database that is served: of a cassette in text, a private one that is made of it."""
        path = self._options.tape
        if path.suffix != cut.SUFFIX:
            return path
        directory = Path(tempfile.mkdtemp(prefix="wiretape-"))
        self._opened.callback(shutil.rmtree, directory, ignore_errors=True)
        tape = directory / f"{path.stem}.db"
        if self._options.is_recording and not (path.is_file() and path.stat().st_size):
            return tape
        return cut.made(path, tape)

    def _new_replay(self) -> Replay:
        options = self._options

        def open_planner() -> Planner:
            return Planner(Source(self._tape, options.select), options.answers)

        observer = self._observer
        return Replay(
            open_planner,
            upstreams=self if options.is_recording else None,
            upgrade=Upgrade,
            on_served=observer.served,
            on_refused=observer.refused,
            on_trouble=observer.trouble,
        )

    async def _start_server(self) -> None:
        self._replay = self._new_replay()
        sock = server.listen(self._options.host, self._options.port)
        try:
            await self._replay.start()
        except BaseException:
            sock.close()
            raise
        self.base = server.base_url(sock)
        self._server = server.Server(self._replay, sock, self._observer.refused, kernel_time=KernelTime(SYSTEM))

    async def _start_recorder(self) -> None:
        options = self._options
        upstreams = options.upstreams or providers.well_known()
        settings = service.Options(
            self._tape, upstreams, options.host, options.port, dict(options.labels),
            limits=options.limits, ca_file=options.ca_file, purpose=options.purpose,
        )  # fmt: skip
        observer = service.Observer(
            finished=self._finished,
            trouble=lambda message: self._observer.trouble(f"storing: {message or 'works again'}"),
            refused=self._observer.refused,
            failed=self._observer.trouble,
        )
        self._recorder = service.Recorder(settings, observer)
        await self._recorder.start(self._stand_before)
        self.base = self._recorder.base
        if self._options.tape.suffix == cut.SUFFIX:
            self._text = TextFile(self._options.tape, self._tape, self._recorder.session)
            self._saving = asyncio.create_task(self._save_now_and_then())

    async def _stand_before(self, proxy: Proxy) -> Replay:
        self._proxy, self._replay = proxy, self._new_replay()
        await self._replay.start()
        return self._replay

    def cut(self) -> None:
        """End a `stop` that waits for what is still being recorded at once."""
        if self._recorder is not None:
            self._recorder.cut()

    async def stop(self) -> Totals | None:
        """End: what is still being recorded may take some seconds. Return what a recorder says of its end, if any."""
        if self._recorder is not None:
            await self._recorder.stop()
            await self._replay.stop()
            await self._keep()
            self._saver.shutdown()
        elif self._server is not None:
            self._server.close()
            await self._replay.stop()
            await self._server.wait_closed(0)
        self._opened.close()
        return self._recorder.totals() if self._recorder is not None else None

    # what is recorded

    async def settle(self, to_record: ToRecord) -> bool:
        """Wait until a recording that would answer the request, and has ended, is on the tape; False: there is none."""
        key = to_record.key
        if key is None:
            return False
        ended = [
            one for one in self._pending.values() if one.to_record.key == key and one.exchange not in self._proxy.live
        ]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_SECONDS):
                for one in ended:
                    await one.settled.wait()
        return key in self._settled

    def relay(self, client: Client, request: Request, to_record: ToRecord) -> Exchange | Refusal | None:
        """Relay a request, whose body has come whole; None if it is answered, a `Refusal` if it cannot be."""
        route = providers.route(self._proxy.upstreams, request.target)
        if route is None:
            advice = "no upstream is served at this path either: name it by --upstream URL, or begin the path by /NAME/"
            return Refusal(404, f"{to_record.miss.message}; {advice}, such as /openai/")
        exchange = self._proxy.relay(client, request, *route)
        if exchange is not None:
            self._pending[exchange.id] = _Pending(exchange, to_record)
            self._replay.recorded(exchange.id)
        return exchange

    def _finished(self, one: journal.Finished) -> None:
        """Note that an exchange is on the tape."""
        pending = self._pending.pop(one.id, None)
        if pending is not None:
            pending.settled.set()
            self._settled.add(pending.to_record.key)
            is_kept = self._replacing.add(one, pending.to_record.replaces)
            self._is_new.set()
            self._observer.recorded(one, is_kept)

    async def _save_now_and_then(self) -> None:
        while True:
            await self._is_new.wait()
            await self._save()
            await asyncio.sleep(_SAVE_SECONDS)

    async def _save(self) -> bool:
        """Write the text; return whether that could be done."""
        assert self._text is not None
        self._is_new.clear()
        kept, gone = list(self._replacing.kept), set(self._replacing.gone)
        try:  # in one thread: what is written last is the newest
            await asyncio.get_running_loop().run_in_executor(self._saver, self._text.save, kept, gone)
        except WiretapeError as error:
            self._observer.trouble(str(error))
            return False
        return True

    async def _keep(self) -> None:
        """Enter at the end what was recorded: into the text, or by deleting what it replaces."""
        if self._text is None:
            await asyncio.to_thread(self._erase)
            return
        assert self._saving is not None
        self._saving.cancel()
        await asyncio.wait([self._saving])
        if self._is_new.is_set() and not await self._save():
            self._opened.pop_all()  # what was recorded is still in the database
            self._observer.trouble(f"what was recorded is kept in {self._tape}")

    def _erase(self) -> None:
        gone = sorted(self._replacing.gone)
        if not gone:
            return
        try:
            with file.writing(self._tape, self._options.purpose, create=False) as connection:
                for _ in retention.erase(connection, gone):
                    pass
        except TapeBusy as error:
            count = counted(len(gone), "older recording")
            self._observer.trouble(f"{count} stay on the tape, to be removed by the next --record all: {error}")
        except WiretapeError as error:
            self._observer.trouble(f"what was recorded again could not be removed: {error}")
