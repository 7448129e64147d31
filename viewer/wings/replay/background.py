"""A server of recordings in a thread of the program that tests: one socket, and a path of its own for each test.

The paths keep requests of an earlier test's client apart from those of the current test.
"""

import asyncio
import dataclasses
import math
import re
import secrets
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from wiretape.recorder.clock import SYSTEM, KernelTime
from wiretape.recorder.relay import pointing, server
from wiretape.recorder.relay.client import App, Client
from wiretape.recorder.relay.guard import Refusal
from wiretape.recorder.relay.providers import Upstream
from wiretape.recorder.relay.request import Request
from wiretape.recorder.relay.responder import Responder
from wiretape.recorder.tape.masking import Rules
from wiretape.viewer.source.replayed import LabelChoice, ReplaySource
from wiretape.viewer.wings.replay import recording, testenv, timeline
from wiretape.viewer.wings.replay.control import Control, ControlHandle
from wiretape.viewer.wings.replay.marks import MarkerSettings
from wiretape.viewer.wings.replay.network import THREADS, NetworkGuard
from wiretape.viewer.wings.replay.planning import Planner
from wiretape.viewer.wings.replay.recording import LabelledUpstreams, Recording
from wiretape.viewer.wings.replay.recordings import LABEL, Shelf, label_of, selection
from wiretape.viewer.wings.replay.serve import CONTROL_PATH, Replay, Served, answer_error
from wiretape.viewer.wings.replay.thread import LoopThread
from wiretape.viewer.wings.replay.timeline import RequestTimeline
from wiretape.viewer.wings.replay.websocket import Upgrade

_TEST_PATH: Final = re.compile(rb"(/test-\d+)(/.*|\?.*|$)", re.DOTALL)
_SECONDS: Final = 30.0
"""Timeout for calls to the thread; reached only if the machine is out of order."""
_OVER_MESSAGE: Final = (
    "this base URL was of a test that is over: make the client within the test or in a fixture of function scope, so "
    "that it reads its base URL again"
)

T = TypeVar("T")


@dataclass(slots=True)
class _Serving:
    """One test as the thread serves it: its path, and the requests received."""

    prefix: str
    has_waits: bool
    replay: Replay = field(init=False)
    control: Control = field(init=False)
    requests: list[Served] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)

    def timeline(self) -> list[RequestTimeline]:
        return timeline.of(self.requests, self.replay.began_ns, has_waits=self.has_waits)


class PluginServer:
    """The server of all tests, in a thread of its own, from the first test that is served to the end of all."""

    def __init__(self) -> None:
        self._planning = ThreadPoolExecutor(1, f"{THREADS}-planner")  # one: it opens the tapes, and only it reads them
        self._shelf = Shelf()
        self._switch = _Switch()
        self._recordings: dict[tuple[Path, tuple[Upstream, ...], Rules], Recording] = {}
        self._problems: list[str] = []
        self._report = self._problems.append
        self._count = 0
        self._token = secrets.token_urlsafe(24)
        self.masked_count = 0
        """The secrets that were masked in new recordings; known when all tapes are closed."""
        self._thread = LoopThread(THREADS)
        self._base = self._call(self._listen())

    async def _listen(self) -> str:
        sock = server.bound("127.0.0.1", 0)
        self._front = server.Server(self._switch, sock, kernel_time=KernelTime(SYSTEM))
        return server.base_url(sock)

    def begin(self, settings: MarkerSettings, test: str, environ: Mapping[str, str]) -> "WiretapeServer":
        """Serve a test, which has these variables. Raises `WiretapeError`, and ValueError for a wrong variable."""
        test = label_of(test)
        self._count += 1
        prefix = f"/test-{self._count}"
        base = self._base + prefix
        record = settings.options.record
        if record == "once":
            suffices = self._planning.submit(self._shelf.suffices, settings.tape, settings.filter, test)
            record = "none" if suffices.result(_SECONDS) else record
        if record == "none":
            serving = self._call(self._replay(prefix, settings, test))
            return WiretapeServer(base, self, serving, testenv.variables(base, environ), settings.allowed_hosts)
        plan = pointing.plan_base_urls(settings.upstreams, environ, ())
        serving = self._call(self._record(prefix, settings, test, plan.upstreams))
        return WiretapeServer(base, self, serving, plan.values(base), settings.allowed_hosts, is_recording=True)

    def is_recorded(self, tape: Path) -> bool:
        """Return True if a test has begun to record to a tape."""
        return any(path == tape for path, _, _ in self._recordings)

    async def _replay(self, prefix: str, settings: MarkerSettings, test: str) -> _Serving:
        recorder = next((recorder for key, recorder in self._recordings.items() if key[0] == settings.tape), None)
        if recorder is not None:  # an earlier run of the test has recorded; the tape may not have it yet
            await recorder.settle_all()

        def open_planner() -> Planner:
            if recorder is not None:
                choice = LabelChoice(LABEL, test, with_unlabelled=True)
                source = ReplaySource(recorder.path, lambda _: selection(settings.filter), choice)
                return Planner(source, dataclasses.replace(settings.options, record="none"))
            excerpt = self._shelf.excerpt(settings.tape, settings.filter, test)
            return Planner(excerpt, dataclasses.replace(settings.options, record="none"))

        return await self._answer(prefix, settings, open_planner, None)

    async def _record(
        self, prefix: str, settings: MarkerSettings, test: str, upstreams: Sequence[Upstream]
    ) -> _Serving:
        """Serve a test, and record its new requests under its id."""
        recorder = await self._recording(settings.tape, tuple(upstreams), settings.options.redaction)
        filtered = selection(settings.filter)
        choice = LabelChoice(LABEL, test, with_unlabelled=settings.options.record != "once")

        def open_planner() -> Planner:
            source = ReplaySource(recorder.path, lambda _: filtered, choice)
            return Planner(source, settings.options)

        return await self._answer(prefix, settings, open_planner, recorder.labelled({LABEL: test}))

    async def _recording(self, tape: Path, upstreams: tuple[Upstream, ...], redaction: Rules) -> Recording:
        """Return the recorder to a tape, which runs until the end of all tests."""
        recorder = self._recordings.get((tape, upstreams, redaction))
        if recorder is None:
            tape.parent.mkdir(parents=True, exist_ok=True)
            # A test's tape is made to be committed: secrets are masked also where it is a database.
            recorder_options = recording.RecordingOptions(
                tape, upstreams, purpose="pytest", redaction=redaction, masks_database=True
            )
            recorder = Recording(recorder_options, lambda message: self._report(message), lambda _: None)
            await recorder.start(self._base)
            self._recordings[tape, upstreams, redaction] = recorder
        return recorder

    async def _answer(
        self,
        prefix: str,
        settings: MarkerSettings,
        open_planner: Callable[[], Planner],
        upstreams: LabelledUpstreams | None,
    ) -> _Serving:
        serving = _Serving(prefix, has_waits=math.isfinite(settings.options.speed))

        def direct(replay: Replay) -> Control:
            serving.control = Control(replay, self._token)
            return serving.control

        serving.replay = Replay(
            open_planner,
            upstreams=upstreams,
            upgrade=Upgrade,
            direct=direct,
            hold_seconds=settings.options.hold_seconds,
            thread=self._planning,
            on_came=serving.requests.append,
            on_trouble=serving.troubles.append,
        )
        await serving.replay.start()
        self._switch.apps[prefix.encode()] = serving.replay
        self._report = serving.troubles.append  # what fails from now on is this test's
        return serving

    def end(self, serving: _Serving) -> None:
        self._call(self._end(serving))

    async def _end(self, serving: _Serving) -> None:
        self._report = self._problems.append  # a recording may fail after its test, when it is stored
        del self._switch.apps[serving.prefix.encode()]
        await serving.replay.stop()

    def settled(self, query: Callable[[], T]) -> T:
        """Return the result of `query` in the thread, after all earlier client activity has been processed."""

        async def after_looks() -> T:
            for _ in range(2):  # the loop looks after its sockets in between
                await asyncio.sleep(0)
            return query()

        return self._call(after_looks())

    def _call(self, coroutine: Coroutine[Any, Any, T], seconds: float = 0.0) -> T:
        return self._thread.call(coroutine, seconds + _SECONDS)

    def control(self, serving: _Serving, base: str) -> ControlHandle:
        return ControlHandle(serving.control, f"{base}{CONTROL_PATH.decode()}", self._call)

    def close(self) -> Sequence[str]:
        """End the thread, and close all tapes; return what went wrong since the last test."""
        # Recordings first: answers that they still relay pass the server.
        for recorder in self._recordings.values():
            self._problems += self._call(recorder.stop()).problems
            self.masked_count += recorder.masked_count
        self._call(self._unlisten())
        self._thread.close(_SECONDS)
        self._planning.submit(self._shelf.close).result(_SECONDS)
        self._planning.shutdown()
        return self._problems

    async def _unlisten(self) -> None:
        self._front.close()
        await self._front.wait_closed(0)


class _Switch:
    """Leaves a request to the test whose path it has; without such a path, to the test that began last."""

    def __init__(self) -> None:
        self.apps: dict[bytes, App] = {}

    def serve(self, client: Client, request: Request) -> Responder | None:
        """Answer a request, by the test that its path names."""
        match = _TEST_PATH.fullmatch(request.target)
        app = self.apps.get(match[1]) if match else next(reversed(self.apps.values()), None)
        if app is None:
            answer_error(client, 410, _OVER_MESSAGE, "over")
            return None
        if match:
            request.target = match[2] if match[2].startswith(b"/") else b"/" + match[2]
        return app.serve(client, request)

    def client_rejected(self, refusal: Refusal) -> None:
        """Ignore it: the client got the reason."""

    def client_failed(self, error: Exception) -> None:
        for app in self.apps.values():
            app.client_failed(error)


class WiretapeServer:
    """The value of the fixture `wiretape_server`: answers the requests of one test from its tape.

    `url` is the base URL below which all APIs are served; `variables` are the environment variables that are set;
    `control` holds, steps and ends its answers.
    """

    def __init__(
        self,
        url: str,
        background: PluginServer,
        serving: _Serving,
        variables: Mapping[str, str],
        allowed_hosts: Sequence[str],
        *,
        is_recording: bool = False,
    ) -> None:
        self.guard = NetworkGuard(url, allowed_hosts)
        self.url, self.variables, self.is_recording = url, variables, is_recording
        self._background, self._serving = background, serving
        self.control = background.control(serving, url)

    def url_of(self, api: str) -> str:
        """Return the base URL that the SDK of an API expects, such as `openai` or `anthropic`. Raises ValueError."""
        return testenv.base_url(self.url, api, self.variables)

    def timeline(self) -> list[RequestTimeline]:
        return self._background.settled(self._serving.timeline)

    @property
    def requests(self) -> Sequence[Served]:
        return self._serving.requests

    @property
    def was_asked(self) -> bool:
        return bool(self._serving.requests)

    @property
    def misses(self) -> Sequence[Served]:
        """The requests that are not recorded; `miss.message` has the reason and the nearest recording."""
        return [
            request for request in self._serving.requests if request.miss is not None and request.ending != "relayed"
        ]

    @property
    def notices(self) -> Sequence[str]:
        """Messages about answers to requests that differ from the recorded ones, and about forgotten holds."""
        requests = self._serving.requests
        return [notice for row in requests for notice in (row.match.notice if row.match else "", row.remark)]

    @property
    def troubles(self) -> Sequence[str]:
        """Failures that are not the client's, such as a damaged tape."""
        return self._serving.troubles

    def end(self) -> None:
        self._background.end(self._serving)
