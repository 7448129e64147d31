"""Sends requests through a recorder of its own, each once, at their pace and within a budget.

A client of this process sends each request to a server on loopback, under a path that nobody can guess; the server
hands it over to the recorder's relay, which sends it to its target, and records it as it records any other. So a key
passes the relay as a program's own key does, and the tape gets its mark.
"""

import asyncio
import contextlib
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import anyio.lowlevel
import httpx

from wiretape.recorder.clock import SYSTEM
from wiretape.recorder.destinations import is_loopback
from wiretape.recorder.relay import server, service
from wiretape.recorder.relay.app import HttpApp
from wiretape.recorder.relay.client import Client
from wiretape.recorder.relay.guard import Refusal
from wiretape.recorder.relay.outward import Proxies
from wiretape.recorder.relay.proxy import RelayedExchange, RelayOptions, Repetition
from wiretape.recorder.relay.request import Request
from wiretape.viewer.wings.resend.requests import ResentRequest

MOST_AT_ONCE: Final = 8
STORED_SECONDS: Final = 10.0
"""Time within which an exchange that has ended is on the tape, with its cost."""
LABEL: Final = "resent"
"""The label of resent exchanges; its value is the run's."""


@dataclass(frozen=True, slots=True)
class Pace:
    """The times of requests: as recorded, `rate` of them a second, or all of them every `every_ns`."""

    rate: float | None = None
    every_ns: int | None = None

    def times(self, requests: Sequence[ResentRequest], repeats: int) -> Iterator[tuple[int | None, int, ResentRequest]]:
        """Yield each request with its time since the start in ns, None: when those of the round before have ended.

        The number of the repetition, from 1, stands between them.
        """
        first_ns = min(request.started_ns for request in requests)
        for number, (place, request) in itertools.product(range(repeats), enumerate(requests)):
            since_ns: int | None = request.started_ns - first_ns
            if self.rate is not None:
                since_ns = int((number * len(requests) + place) * 1e9 / self.rate)
            elif self.every_ns is not None:
                since_ns = (since_ns or 0) + number * self.every_ns
            elif number and not place:
                since_ns = None
            yield since_ns, number + 1, request


@dataclass(slots=True)
class Budget:
    """A limit of costs (None: no limit), the costs until now, and the estimates of running requests, in price units."""

    most: int | None = None
    spent: int = 0
    running: int = 0

    def admits(self, request: ResentRequest) -> bool:
        """Return True, and reserve a request's estimate, if the budget has room for it."""
        if self.most is not None and self.spent + self.running + (request.cost or 0) > self.most:
            return False
        self.running += request.cost or 0
        return True

    def settle(self, request: ResentRequest, cost: int | None) -> None:
        """Replace the estimate of a request that has ended by its cost, if that is known."""
        self.running -= request.cost or 0
        self.spent += cost if cost is not None else request.cost or 0


class _Handover(HttpApp):
    """Hands each request over to the relay, once, by the path under which it is expected."""

    def __init__(self, recorder: service.Recorder, observer: service.Observer) -> None:
        self.on_refused, self.on_trouble = observer.refused, observer.failed
        self._recorder = recorder
        self.expected: dict[bytes, tuple[ResentRequest, Repetition]] = {}
        self.exchange_ids: dict[bytes, str] = {}

    def respond(self, client: Client, request: Request) -> RelayedExchange | None:
        """Relay a request that is expected; any other is refused."""
        entry = self.expected.pop(request.target, None)
        if entry is None:
            self.refuse(client, Refusal(404, "no request is expected here"))
            return None
        resent, repetition = entry
        relayed = self._recorder.proxy.relay(
            client, request, resent.target.upstream, resent.path.encode(), RelayOptions(repeats=repetition)
        )
        if relayed is not None:
            self.exchange_ids[request.target] = relayed.id
        return relayed


@dataclass(slots=True)
class Sender:
    """One run of requests: `send` returns when all have ended, or after `stop`.

    `cost_of` gives the cost of an exchange by its id, None if it is unknown; it is called in a thread once the exchange
    is on the tape. `sent` and `unsent` count requests, the latter those for which the budget had nothing left.
    """

    requests: Sequence[ResentRequest]
    tape: Path
    run: str
    repeats: int = 1
    pace: Pace = Pace()
    budget: Budget = field(default_factory=Budget)
    proxies: Proxies | None = None
    ca_file: Path | None = None
    cost_of: Callable[[str], int | None] = lambda _: None
    sent: int = 0
    unsent: int = 0
    problems: list[str] = field(default_factory=list)
    _stopped: asyncio.Event = field(default_factory=asyncio.Event)
    _stored: dict[str, asyncio.Event] = field(default_factory=dict)

    def stop(self) -> None:
        """End the run and its running requests; their data until then stays on the tape."""
        self._stopped.set()

    async def send(self) -> None:
        """Send all requests. Raises `WiretapeError` if the tape cannot be written."""
        sock = server.bound("127.0.0.1", 0)
        upstreams = list({request.target.upstream.url: request.target.upstream for request in self.requests}.values())
        # A key for a server of this machine goes in the clear: no proxy may see it.
        local_hosts = [upstream.host for upstream in upstreams if is_loopback(upstream.host)]
        proxies = self.proxies and replace(self.proxies, excluded=[*self.proxies.excluded, *local_hosts])
        options = service.RecorderOptions(
            self.tape, upstreams, labels={LABEL: self.run}, proxies=proxies, ca_file=self.ca_file,
            purpose="wiretape resend",
        )  # fmt: skip
        observer = service.Observer(
            finished=lambda exchange: self._stored_event(exchange.id).set(),
            trouble=lambda message: self.problems.append(f"storing: {message or 'works again'}"),
            refused=lambda refusal: self.problems.append(refusal.message),
            failed=self.problems.append,
        )
        base = server.base_url(sock)
        recorder = service.Recorder(options, observer, served_at=base)
        try:
            await recorder.start()
            await recorder.tap.ready()  # nothing is paid for that could not be recorded, and costs are known soon
        except BaseException:
            sock.close()
            raise
        handover = _Handover(recorder, observer)
        relay = server.Server(handover, sock)
        # No proxy, cookie or redirect of a client: a request goes to the relay as it is, and its answer stays there.
        limits = httpx.Limits(max_connections=MOST_AT_ONCE)
        try:
            async with httpx.AsyncClient(base_url=base, trust_env=False, timeout=None, limits=limits) as client:
                await anyio.lowlevel.checkpoint()  # loads what makes a first connection late
                if not recorder.tap.gave_up:
                    await self._send_all(client, handover)
        finally:
            relay.close()
            await recorder.stop()
            await relay.wait_closed(0)
        self.problems += recorder.totals().problems

    async def _send_all(self, client: httpx.AsyncClient, handover: _Handover) -> None:
        tasks, slots, origin_ns = set[asyncio.Task[None]](), asyncio.Semaphore(MOST_AT_ONCE), SYSTEM.now()
        stopped: asyncio.Task[Any] = asyncio.create_task(self._stopped.wait())
        for since_ns, number, request in self.pace.times(self.requests, self.repeats):
            if since_ns is None:
                await _ended(tasks, stopped)
                origin_ns = SYSTEM.now()
            delay_s = (origin_ns + (since_ns or 0) - SYSTEM.now()) / 1e9
            await asyncio.wait([stopped], timeout=max(delay_s, 0))
            slot: asyncio.Task[Any] = asyncio.create_task(slots.acquire())
            await asyncio.wait([slot, stopped], return_when=asyncio.FIRST_COMPLETED)
            if self._stopped.is_set():
                slot.cancel()
                break
            if not self.budget.admits(request):
                self.unsent = len(self.requests) * self.repeats - self.sent
                break
            self.sent += 1
            path = f"/{os.urandom(16).hex()}"
            handover.expected[path.encode()] = request, Repetition(request.recorded["id"], number, self.run)
            task = asyncio.create_task(self._send_one(client, handover, path, request))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            task.add_done_callback(lambda _: slots.release())
        await _ended(tasks, stopped)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        stopped.cancel()

    async def _send_one(
        self, client: httpx.AsyncClient, handover: _Handover, path: str, request: ResentRequest
    ) -> None:
        cost: int | None = None
        try:
            # Made by itself, and not by the client, which would add headers of its own.
            headers = [(name.encode(), value.encode("utf-8", "surrogateescape")) for name, value in request.headers]
            url = client.base_url.join(path)
            message = httpx.Request(request.recorded["method"], url, headers=headers, content=request.body)
            try:
                answer = await client.send(message, stream=True)
                try:
                    async for _ in answer.aiter_raw():
                        pass
                finally:
                    await answer.aclose()
            except httpx.HTTPError as error:  # the tape has how it ended, if it came to the relay
                if handover.expected.pop(path.encode(), None):
                    self.problems.append(f"{request.recorded['id']} was not sent: {error}")
            id = handover.exchange_ids.get(path.encode())
            if self.budget.most is not None and id is not None:
                with contextlib.suppress(TimeoutError):  # of a tape that cannot be written, nothing is known
                    async with asyncio.timeout(STORED_SECONDS):
                        await self._stored_event(id).wait()
                    cost = await asyncio.to_thread(self.cost_of, id)
        finally:
            self.budget.settle(request, cost)

    def _stored_event(self, id: str) -> asyncio.Event:
        return self._stored.setdefault(id, asyncio.Event())


async def _ended(tasks: set[asyncio.Task[None]], stopped: asyncio.Task[Any]) -> None:
    """Wait until all running requests have ended, or until the run is stopped."""
    while tasks and not stopped.done():
        await asyncio.wait([*tasks, stopped], return_when=asyncio.FIRST_COMPLETED)
