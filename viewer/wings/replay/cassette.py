"""A `Cassette`: serves a tape at a port of its own, and records new answers of upstream."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from wiretape.recorder.clock import SYSTEM, KernelTime
from wiretape.recorder.relay import local, server
from wiretape.recorder.relay.guard import Refusal
from wiretape.recorder.relay.outward import Proxies
from wiretape.recorder.relay.providers import Upstream
from wiretape.recorder.tape import cut, journal
from wiretape.recorder.tape.losses import Totals
from wiretape.viewer.source.base import ALL
from wiretape.viewer.source.replayed import ExchangeHead, ReplaySource, Select
from wiretape.viewer.wings.replay import planning, recording
from wiretape.viewer.wings.replay.control import Control
from wiretape.viewer.wings.replay.planning import Planner
from wiretape.viewer.wings.replay.recording import Recording
from wiretape.viewer.wings.replay.serve import Replay, Served
from wiretape.viewer.wings.replay.websocket import Upgrade


@dataclass(frozen=True, slots=True)
class CassetteOptions:
    """Settings of a cassette.

    `choose` selects the exchanges to serve; an empty `upstreams` stands for the well-known APIs; new recordings get
    the `labels`.
    """

    tape: Path
    answers: planning.ServingOptions = field(default_factory=planning.ServingOptions)
    choose: Select = lambda _: ALL
    host: str = "127.0.0.1"
    port: int = 0
    upstreams: Sequence[Upstream] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    proxies: Proxies | None = None
    ca_file: Path | None = None

    @property
    def is_recording(self) -> bool:
        return self.answers.record != "none"


@dataclass(frozen=True, slots=True)
class CassetteObserver:
    """Callbacks of a cassette: for requests served, requests refused, failures, and recorded exchanges."""

    served: Callable[[Served], None] = lambda _: None
    refused: Callable[[Refusal], None] = lambda _: None
    trouble: Callable[[str], None] = lambda _: None
    recorded: Callable[[journal.Finished, bool], None] = lambda _exchange, _is_kept: None


class Cassette:
    """Serves a tape, and records to it as `answers.record` has it, from `start` to `stop`.

    Used by one event loop, in any thread. A program with a server of its own uses a `Recording` and `Replay`s instead.
    """

    def __init__(self, options: CassetteOptions, observer: CassetteObserver | None = None) -> None:
        self._options, self._observer = options, observer or CassetteObserver()
        self._recording: Recording | None = None
        self._replay: Replay
        self._server: server.Server
        self.base = ""
        """The base URL, after `start`."""

    @property
    def heads(self) -> Sequence[ExchangeHead]:
        return self._replay.heads

    @property
    def masked_count(self) -> int:
        return 0 if self._recording is None else self._recording.masked_count

    async def start(self) -> None:
        """Open the tape, make it if it is to be recorded to and is not there, and serve. Raises `WiretapeError`."""
        local.raise_descriptor_limit()
        # Before the tape is opened: a recorder has to know the address, to which it rewrites those in heads.
        sock = server.bound(self._options.host, self._options.port)
        self.base = server.base_url(sock)
        try:
            path = await self._open()
            options, observer = self._options, self._observer
            recorder = self._recording
            self._replay = Replay(
                lambda: Planner(ReplaySource(path, options.choose), options.answers),
                upstreams=None if recorder is None else recorder.labelled(options.labels, observer.recorded),
                upgrade=Upgrade,
                direct=(lambda app: Control(app, options.answers.token)) if options.answers.token else None,
                hold_seconds=options.answers.hold_seconds,
                on_served=observer.served,
                on_refused=observer.refused,
                on_trouble=observer.trouble,
            )
            await self._replay.start()
        except BaseException:
            sock.close()
            await self._close()
            raise
        self._server = server.Server(self._replay, sock, self._observer.refused, kernel_time=KernelTime(SYSTEM))
        self._replay.warm()

    async def _open(self) -> Path:
        """Return the database that is served."""
        options = self._options
        if not options.is_recording:
            return await asyncio.to_thread(cut.readable, options.tape)
        purpose = f"wiretape serve --record {options.answers.record}"
        settings = recording.RecordingOptions(
            options.tape,
            options.upstreams,
            proxies=options.proxies,
            ca_file=options.ca_file,
            purpose=purpose,
            redaction=options.answers.redaction,
        )
        recorder = Recording(settings, self._observer.trouble, self._observer.refused)
        await recorder.start(self.base)
        self._recording = recorder
        return recorder.path

    def cut(self) -> None:
        """End at once a `stop` that waits for running recordings."""
        if self._recording is not None:
            self._recording.cut()

    async def stop(self) -> Totals | None:
        """Stop; running recordings may take some seconds. Return the recorder's totals, or None without a recorder."""
        self._server.close()  # nothing new is admitted; what is relayed still passes this server
        totals = await self._close()
        await self._replay.stop()
        # Time for sending the end of the last answers.
        await self._server.wait_closed(0 if totals is None else 1.0)
        return totals

    async def _close(self) -> Totals | None:
        return None if self._recording is None else await self._recording.stop()
