"""A recorder as a whole: a tape's writer, a proxy and a server, started together and stopped in order.

What `record`, `run` and the demo have in common. Signals and screens are left to the commands.
"""

import asyncio
import contextlib
import gc
import os
import ssl
import uuid
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recorder import __version__
from recorder.clock import SYSTEM
from recorder.errors import WiretapeError
from recorder.process import boot_id
from recorder.relay import local, server
from recorder.relay.guard import Policy, Refusal
from recorder.relay.providers import Upstream
from recorder.relay.proxy import Proxy
from recorder.relay.tap import Tap
from recorder.relay.upstream import Limits, Transport
from recorder.tape import journal

DRAIN_SECONDS = 7
"""Running exchanges may take this long to end."""
STOP_SECONDS = 9.0
"""A stop takes this long at most; what the drain leaves of it, but never less than 1.5 s, is for the last commits."""
_WRITER_SECONDS = 1.5
_LAST_SECONDS = 1.0
"""So long may the last of what was answered take to be sent."""
_LOOK_SECONDS = 0.02
_COLLECT_AFTER = 10_000
"""Objects allocated and not freed before a collection of garbage."""


@dataclass(frozen=True, slots=True)
class Options:
    """The settings of a recorder."""

    tape: Path
    upstreams: Sequence[Upstream]
    host: str = "127.0.0.1"
    port: int = 0
    labels: dict[str, str] = field(default_factory=dict)
    allow_hosts: frozenset[str] = frozenset()
    keep_encoding: bool = False
    limits: Limits = field(default_factory=Limits)
    ca_file: Path | None = None
    purpose: str = "wiretape record"
    keep: journal.Keep | None = None


@dataclass(slots=True)
class Observer:
    """Whom a recorder tells what happens: exchanges, trouble with storing, refusals, failures of the relay itself."""

    finished: Callable[[journal.Finished], None] = lambda _: None
    trouble: Callable[[str], None] = lambda _: None
    refused: Callable[[Refusal], None] = lambda _: None
    failed: Callable[[str], None] = lambda _: None


class Recorder:
    """Records from `start` to `stop`."""

    def __init__(self, options: Options, observer: Observer) -> None:
        self._options, self._observer = options, observer
        self._sock = server.listen(options.host, options.port)
        self.base = server.base_url(self._sock)
        self.tap = Tap(
            options.tape,
            self._session(),
            f"{options.purpose} (pid {os.getpid()}) at {self.base}",
            on_finished=observer.finished,
            on_trouble=observer.trouble,
            keep=options.keep,
        )
        self._server: server.Server | None = None
        self._proxy: Proxy | None = None
        self._watching: asyncio.Task[None] | None = None
        self._is_cut = False

    def _session(self) -> journal.Session:
        upstreams = [(upstream.name, upstream.url) for upstream in self._options.upstreams]
        return journal.Session(
            str(uuid.uuid4()), __version__, os.getpid(), boot_id(), self.base, upstreams, SYSTEM.wall()
        )

    @property
    def live(self) -> int:
        """Exchanges running now."""
        return len(self._proxy.live) if self._proxy else 0

    async def start(self) -> None:
        """Open the tape, then accept connections; raises `WiretapeError` if either cannot be had."""
        local.raise_descriptor_limit()
        try:
            transport = Transport(tls_context(self._options.ca_file), self._options.limits)
            await self.tap.start()
        except BaseException:
            self._sock.close()
            raise
        self._proxy = Proxy(
            upstreams=self._options.upstreams,
            transport=transport,
            tap=self.tap,
            policy=Policy(self._options.allow_hosts | {_bracketed(self._options.host)}),
            labels=self._options.labels,
            keep_encoding=self._options.keep_encoding,
            on_refused=self._observer.refused,
            on_trouble=self._observer.failed,
        )
        self._server = server.Server(self._proxy, self._sock, self._observer.refused)
        self._watching = asyncio.create_task(self._proxy.watch())

    async def stop(self) -> int:
        """Drain, then close the tape; return the number of frames that could not be stored."""
        deadline = SYSTEM.now() + int(STOP_SECONDS * 1e9)
        await self._drain(SYSTEM.now() + int(DRAIN_SECONDS * 1e9))
        return await self.tap.close(max(_WRITER_SECONDS, (deadline - SYSTEM.now()) / 1e9))

    async def _drain(self, until: int) -> None:
        """Accept nothing more, let running exchanges end, and cut those that last longer than that."""
        assert self._server is not None  # it has been started
        assert self._proxy is not None
        assert self._watching is not None
        self._server.close()
        while self._proxy.live and SYSTEM.now() < until and not self._is_cut:
            await asyncio.sleep(_LOOK_SECONDS)
            self._server.close_idle()
        self._proxy.cut()
        await self._server.wait_closed(_LAST_SECONDS)
        self._watching.cancel()

    def cut(self) -> None:
        """End a drain, and the wait for the writer, at once."""
        self._is_cut = True
        self.tap.cut()


def tls_context(ca_file: Path | None) -> ssl.SSLContext:
    """Trust the system's store (or `SSL_CERT_FILE`), and `ca_file` besides."""
    context = ssl.create_default_context()
    if ca_file is not None:
        try:
            context.load_verify_locations(ca_file)
        except (OSError, ssl.SSLError) as error:
            raise WiretapeError(f"--ca-file {ca_file} cannot be used ({error}): give certificates in PEM") from error
    return context


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def run(main: Callable[[], Coroutine[Any, Any, int]]) -> int:
    """Run a command's main coroutine on uvloop where there is one."""
    factory: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
    with contextlib.suppress(ImportError):
        from uvloop import new_event_loop as factory
    # Looking for cycles among all that was imported would hold up every stream for milliseconds, again and again.
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER, 50, 100)
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(main())
