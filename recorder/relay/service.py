"""A recorder as a whole: a tape's writer, a proxy and a server, started together and stopped in order.

With several workers, further processes relay beside this one: `wiretape.recorder.relay.workers`. All are one session.

`record`, `run` and the demo share it. Signals and screens are left to the commands, but for the one after a stop.
"""

import asyncio
import contextlib
import dataclasses
import json
import os
import signal
import socket
import ssl
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from wiretape.recorder import __version__, paths
from wiretape.recorder.clock import SYSTEM
from wiretape.recorder.plurals import counted
from wiretape.recorder.process import boot_id
from wiretape.recorder.relay import environment, local, outward, server, sharing
from wiretape.recorder.relay.guard import Policy
from wiretape.recorder.relay.intercept import Forward, Interception
from wiretape.recorder.relay.outward import Proxies
from wiretape.recorder.relay.providers import Upstream
from wiretape.recorder.relay.proxy import Proxy
from wiretape.recorder.relay.sharing import RelayShare, WorkerPlace
from wiretape.recorder.relay.tap import Tap
from wiretape.recorder.relay.upstream import Timeouts, Transport
from wiretape.recorder.relay.workers import Observer as Observer
from wiretape.recorder.relay.workers import Workers
from wiretape.recorder.tape import journal
from wiretape.recorder.tape.losses import Counts, Totals

DRAIN_SECONDS = 7
"""Time allowed for running exchanges to end, in seconds."""
STOP_SECONDS = 9.0
"""Limit of a stop whose writer stands still: the drain's remainder, but at least `WRITER_SECONDS`.

A writer that makes progress takes as long as it needs."""
WRITER_SECONDS = 1.5


@dataclass(frozen=True, slots=True)
class RecorderOptions:
    """The settings of a recorder."""

    tape: Path
    upstreams: Sequence[Upstream]
    host: str = "127.0.0.1"
    port: int = 0
    labels: dict[str, str] = field(default_factory=dict)
    allow_hosts: frozenset[str] = frozenset()
    identity: bool = False
    websocket: bool = True
    limits: Timeouts = field(default_factory=Timeouts)
    ca_file: Path | None = None
    client_cert: Path | None = None
    tls: ssl.SSLContext | None = None
    """The certificates of both files and the system, if they have been read already."""
    purpose: str = "wiretape record"
    keep: journal.Keep | None = None
    workers: int = 1
    interception: Interception | None = None
    dialects: list[dict[str, Any]] = field(default_factory=list)
    proxies: Proxies | None = None
    """The proxies on the way; None: those that the environment names."""


class WorkerSettings(msgspec.Struct, frozen=True):
    """The settings of a worker process."""

    options: RecorderOptions
    session: journal.Session


class Front:
    """Relays for the clients of one socket, from `start` to `drain`; its owner sets `stopping`.

    Without a socket, another server hands requests over to `proxy`.
    """

    def __init__(self, options: RecorderOptions, sock: socket.socket | None, observer: Observer) -> None:
        local.raise_descriptor_limit()
        self._options, self._sock, self._observer = options, sock, observer
        tls = options.tls or environment.tls_context(options.ca_file, options.client_cert, os.environ)
        proxies = options.proxies or outward.read(os.environ)
        if sock is not None:
            proxies = proxies.without(sock.getsockname()[1])
        self._transport = Transport(tls, options.limits, proxies=proxies)
        self._server: server.Server | None = None
        self.proxy: Proxy | None = None
        self._is_cut = False
        self.stopping = asyncio.Event()

    @property
    def live(self) -> int:
        """Exchanges running now."""
        return len(self.proxy.live) if self.proxy else 0

    @property
    def accepted(self) -> int:
        """The number of clients' connections."""
        return self._server.accepted if self._server else 0

    def start(self, tap: Tap) -> None:
        """Accept connections, whose exchanges are recorded by a tap."""
        host, no_websocket = (
            self._options.host,
            "WebSockets are not relayed (--no-websocket): send the request over HTTP",
        )
        self.proxy = Proxy(
            upstreams=self._options.upstreams,
            transport=self._transport,
            tap=tap,
            policy=Policy(self._options.allow_hosts | {f"[{host}]" if ":" in host else host}),
            labels=self._options.labels,
            identity=self._options.identity,
            no_websocket="" if self._options.websocket else no_websocket,
            on_refused=self._observer.refused,
            on_trouble=self._observer.failed,
        )
        with contextlib.suppress(ValueError, RuntimeError):  # signals reach the main thread only
            asyncio.get_running_loop().add_signal_handler(signal.SIGCONT, self.proxy.note_stop)
        settings = self._options.interception
        if self._sock is not None:
            port = self._sock.getsockname()[1]
            dialects = json.dumps(self._options.dialects)
            app = Forward(self.proxy, settings, port, self._observer, dialects) if settings else self.proxy
            self._server = server.Server(app, self._sock, self._observer.refused)

    async def drain(self) -> None:
        """Accept nothing more, let running exchanges end, and cut those that last longer than the drain."""
        assert self.proxy is not None  # it has been started
        until = SYSTEM.now() + int(DRAIN_SECONDS * 1e9)
        if self._server is not None:
            self._server.close()
        while self.proxy.live and SYSTEM.now() < until and not self._is_cut:
            self.proxy.cut_quiet()
            await asyncio.sleep(0.02)
            if self._server is not None:
                self._server.close_idle()
        self.proxy.cut()
        if self._server is not None:
            await self._server.wait_closed(1.0)  # for the last answers

    def cut(self) -> None:
        """End a drain at once."""
        self._is_cut = True


class Recorder:
    """Records from `start` to `stop`.

    With `served_at`, the base URL of another server, nothing is listened on: that hands requests over to `proxy`.
    """

    def __init__(self, options: RecorderOptions, observer: Observer, *, served_at: str = "") -> None:
        self._options, self._observer = options, observer
        self._sock = None if served_at else server.bound(options.host, options.port, shares=options.workers > 1)
        self.base = served_at if self._sock is None else server.base_url(self._sock)
        self._session = self._new_session()
        self._workers = Workers(options.workers - 1, observer)
        self._front: Front | None = None
        self._purpose = f"{options.purpose} (pid {os.getpid()}) at {self.base}"
        self.tap = Tap(
            options.tape,
            self._session,
            self._purpose,
            on_finished=observer.finished,
            on_trouble=observer.trouble,
            on_notice=observer.notice,
            keep=options.keep,
            place=WorkerPlace(worker_shares=self._worker_shares, workers=self._workers.pids),
        )

    def _new_session(self) -> journal.Session:
        upstreams = [(upstream.name, upstream.url) for upstream in self._options.upstreams]
        return journal.Session(
            str(uuid.uuid4()),
            __version__,
            os.getpid(),
            boot_id(),
            self.base,
            upstreams,
            SYSTEM.wall(),
            dialects=self._options.dialects or None,
        )

    @property
    def session(self) -> str:
        return self._session.uuid

    def _worker_shares(self) -> Sequence[RelayShare]:
        """Return the workers' shares; tell them to give up, as they cannot see that there will be no more writer."""
        if self.tap.gave_up:
            self._workers.give_up()
        return self._workers.shares()

    @property
    def live(self) -> int:
        """Exchanges running now."""
        return (self._front.live if self._front else 0) + sum(share.live for share in self._workers.shares())

    @property
    def unfinished(self) -> int:
        """Exchanges of this process that are running, or that the tape does not hold as a whole yet but will."""
        return self.tap.unfinished

    @property
    def accepted(self) -> int:
        """The number of clients' connections in this process."""
        return self._front.accepted if self._front else 0

    @property
    def counts(self) -> Counts:
        return sharing.total([self.tap.share(), *self._workers.shares()]).counts

    def lag_ns(self) -> int:
        """Return the time from a frame's queueing to its commit, the longest of all processes'."""
        return max(
            self.tap.lag_ns(), *(max(share.counts.lag_ns, share.waiting_ns) for share in self._workers.shares()), 0
        )

    def totals(self) -> Totals:
        """Return the totals of the recording, after `stop`."""
        totals, counts, deaths = self.tap.totals(), self.counts, self._workers.deaths
        if not deaths:
            return totals
        # The last stored frames of a process that died are unknown, so others' losses cannot be set off against them.
        return dataclasses.replace(
            totals,
            missing_bytes=max(totals.missing_bytes, counts.dropped_bytes),
            missing_exchanges=max(totals.missing_exchanges, counts.unrecorded),
            problems=[*totals.problems, f"a worker process died {counted(deaths, 'time')}: its unstored data is lost"],
        )

    async def start(self) -> None:
        """Open the tape, then accept connections; raises `WiretapeError` if either cannot be had."""
        try:
            self._front = Front(self._options, self._sock, self._observer)
            await self.tap.start()
        except BaseException:
            self._close()
            raise
        try:
            self._front.start(self.tap)
            if self._options.workers > 1:
                await self._start_workers()
        except BaseException:
            await self.stop()
            raise

    async def _start_workers(self) -> None:
        assert self._sock is not None  # workers share a port
        port = self._sock.getsockname()[1]
        options = dataclasses.replace(self._options, port=port, purpose=self._purpose, tls=None)
        settings = WorkerSettings(options, self._session)
        await self._workers.start(msgspec.json.encode(settings, enc_hook=paths.to_json))

    async def stop(self) -> int:
        """Drain, then close the tape; return the number of frames that could not be stored."""
        assert self._front is not None
        deadline = SYSTEM.now() + int(STOP_SECONDS * 1e9)
        self._workers.send("drain")
        await self._front.drain()
        await self._workers.stop(_seconds_until(deadline))
        lost = await self.tap.close(_seconds_until(deadline))
        self._close()
        return lost + self._workers.lost

    def _close(self) -> None:
        if self._sock is not None:
            self._sock.close()

    @property
    def proxy(self) -> Proxy:
        """The proxy of this process, after `start`."""
        assert self._front is not None
        assert self._front.proxy is not None
        return self._front.proxy

    def hurry(self) -> None:
        """Leave what is not measured soon after the end to the next writer."""
        self._workers.send("hurry")
        self.tap.hurry()

    def cut(self) -> None:
        """End a drain, and the wait for the writer, at once."""
        if self._front is not None:
            self._front.cut()
        self._workers.send("cut")
        self.tap.cut()


def _seconds_until(deadline: int) -> float:
    return max(WRITER_SECONDS, (deadline - SYSTEM.now()) / 1e9)
