"""A server of recordings in a thread of the program that tests: one socket, and a path of its own for each test.

What a client of an earlier test asks for is so told apart from what the test of now asks for.
"""

import asyncio
import contextlib
import re
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from recorder.clock import SYSTEM, KernelTime
from recorder.relay import server
from recorder.relay.guard import Refusal
from recorder.relay.server import App, Client, Exchange, Request
from viewer.replay import testenv, timeline
from viewer.replay.marks import Asked
from viewer.replay.planning import Planner
from viewer.replay.recordings import Shelf
from viewer.replay.serve import Replay, Served, answer_error
from viewer.replay.timeline import Timeline
from viewer.replay.unread import Kernel, Watcher
from viewer.replay.websocket import Upgrade

_PLACE: Final = re.compile(rb"(/test-\d+)(/.*|\?.*|$)", re.DOTALL)
_SECONDS: Final = 30.0
"""What the thread is asked for takes no longer, unless the machine is out of order."""
_OVER: Final = (
    "this base URL was of a test that is over: make the client within the test or in a fixture of function scope, so "
    "that it reads its base URL again"
)

T = TypeVar("T")


@dataclass(slots=True)
class _Serving:
    """What the thread has of a test."""

    replay: Replay
    began_ns: int
    watcher: Watcher
    came: list[Served]
    troubles: list[str]

    def timeline(self) -> list[Timeline]:
        """Return what became of each request by now."""
        self.watcher.look()
        return timeline.of(self.came, self.began_ns)


class Background:
    """The thread, from the first test that is served to the end of all."""

    def __init__(self) -> None:
        self._planning = ThreadPoolExecutor(1, "wiretape-planner")
        self._shelf = Shelf()
        self._switch = _Switch()
        self._kernel = Kernel()
        self._count = 0
        started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event, str]] = Future()
        self._thread = threading.Thread(target=self._run, args=(started,), name="wiretape", daemon=True)
        self._thread.start()
        self._loop, self._stopped, self._base = started.result(_SECONDS)

    def _run(self, started: "Future[Any]") -> None:
        factory: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
        with contextlib.suppress(ImportError):  # then on asyncio's own
            from uvloop import new_event_loop as factory
        try:
            with asyncio.Runner(loop_factory=factory) as runner:
                runner.run(self._serve(started))
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)

    async def _serve(self, started: "Future[Any]") -> None:
        sock = server.listen("127.0.0.1", 0)
        front = server.Server(self._switch, sock, kernel_time=KernelTime(SYSTEM))
        stopped = asyncio.Event()
        started.set_result((asyncio.get_running_loop(), stopped, server.base_url(sock)))
        await stopped.wait()
        front.close()
        await front.wait_closed(0)

    def begin(self, asked: Asked, test: str) -> "WiretapeServer":
        """Serve a test. Raises `WiretapeError`."""
        self._count += 1
        place = f"/test-{self._count}"
        serving = self._call(self._begin(place, asked, test))
        return WiretapeServer(self._base + place, self, place, serving)

    async def _begin(self, place: str, asked: Asked, test: str) -> _Serving:
        def open_planner() -> Planner:
            return Planner(self._shelf.excerpt(asked.tape, asked.filter, test), asked.options)

        def add(served: Served, client: Client) -> None:
            came.append(served)
            watcher.add(served, client)

        came, troubles, watcher = list[Served](), list[str](), Watcher(self._kernel, SYSTEM)
        replay = Replay(open_planner, thread=self._planning, on_came=add, on_trouble=troubles.append, upgrade=Upgrade)
        await replay.start()
        self._switch.apps[place.encode()] = replay
        return _Serving(replay, SYSTEM.now(), watcher, came, troubles)

    def end(self, place: str, serving: _Serving) -> None:
        """Serve a test no longer."""
        self._call(self._end(place, serving))

    async def _end(self, place: str, serving: _Serving) -> None:
        del self._switch.apps[place.encode()]
        serving.watcher.close()
        await serving.replay.stop()

    def settled(self, read: Callable[[], T]) -> T:
        """Return what `read` returns in the thread, when that has taken notice of all that clients did before."""
        return self._call(_settled(read))

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(_SECONDS)

    def close(self) -> None:
        """End the thread, and close all tapes."""
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(_SECONDS)
        self._planning.submit(self._shelf.close).result(_SECONDS)
        self._planning.shutdown()
        self._kernel.close()


async def _settled(read: Callable[[], T]) -> T:
    for _ in range(2):  # the loop looks after its sockets in between
        await asyncio.sleep(0)
    return read()


class _Switch:
    """Leaves a request to the test whose path it has; without such a path, to the test that began last."""

    def __init__(self) -> None:
        self.apps: dict[bytes, App] = {}

    def serve(self, client: Client, request: Request) -> Exchange | None:
        """Answer a request."""
        match = _PLACE.fullmatch(request.target)
        app = self.apps.get(match[1]) if match else next(reversed(self.apps.values()), None)
        if app is None:
            answer_error(client, 410, _OVER, "over")
            return None
        if match:
            request.target = match[2] if match[2].startswith(b"/") else b"/" + match[2]
        return app.serve(client, request)

    def client_rejected(self, refusal: Refusal) -> None:
        """It was told to the client."""

    def client_failed(self, error: Exception) -> None:
        """Let the test of now fail."""
        for app in self.apps.values():
            app.client_failed(error)


class WiretapeServer:
    """Answers the requests of one test from its tape: what the fixture `wiretape_server` is.

    `url` is the base URL below which all APIs are served; `variables` are the environment variables that were set.
    """

    def __init__(self, url: str, background: Background, place: str, serving: _Serving) -> None:
        self.url = url
        self.variables: Mapping[str, str] = {}
        self._background, self._place, self._serving = background, place, serving

    def url_of(self, api: str) -> str:
        """Return the base URL that the SDK of an API expects, such as `openai` or `anthropic`. Raises ValueError."""
        return testenv.base_url(self.url, api)

    def timeline(self) -> list[Timeline]:
        """Return what became of each request so far, in the order in which they came."""
        return self._background.settled(self._serving.timeline)

    @property
    def misses(self) -> Sequence[str]:
        """What was asked for and is not recorded: for each, what it was, and the recording that is nearest."""
        return [one.miss for one in self.timeline() if one.miss is not None]

    @property
    def troubles(self) -> Sequence[str]:
        """What went wrong by no fault of the client's, such as a damaged tape."""
        return self._serving.troubles

    def end(self) -> None:
        """End all answers: the test is over."""
        self._background.end(self._place, self._serving)
