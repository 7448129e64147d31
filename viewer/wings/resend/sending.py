"""Sends requests through a recorder of its own, each once, at their pace and within a budget.

A client of this process sends each request to a server on loopback, under a path that nobody can guess; the server
hands it over to the recorder's relay, which sends it to its target, and records it as it records any other. So a key
passes the relay as a program's own key does, and the tape gets its mark.
"""

import asyncio
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx

from wiretape.recorder.clock import SYSTEM
from wiretape.recorder.relay import server, service
from wiretape.recorder.relay.app import HttpApp
from wiretape.recorder.relay.client import Client
from wiretape.recorder.relay.guard import Refusal
from wiretape.recorder.relay.outward import Proxies
from wiretape.recorder.relay.proxy import RelayedExchange, RelayOptions, Repetition
from wiretape.recorder.relay.request import Request
from wiretape.recorder.tape.losses import Totals
from wiretape.viewer.wings.resend.requests import ResentRequest

MOST_AT_ONCE: Final = 8
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
    """The sum that may be spent, in units of prices (None: any), and what was spent and may be by running requests."""

    most: int | None = None
    spent: int = 0
    running: int = 0

    def admits(self, request: ResentRequest) -> bool:
        """Take a request's estimate if the sum then stays within the budget; return True if it does."""
        if self.most is not None and self.spent + self.running + (request.cost or 0) > self.most:
            return False
        self.running += request.cost or 0
        return True

    def settle(self, request: ResentRequest, cost: int | None) -> None:
        """Replace the estimate of a request that has ended by its cost, if that is known."""
        self.running -= request.cost or 0
        self.spent += cost if cost is not None else request.cost or 0


@dataclass(slots=True)
class Outcome:
    """The end of a run: requests sent, those left because of the budget, and the recorder's totals."""

    sent: int = 0
    left: int = 0
    totals: Totals | None = None
    problems: list[str] = field(default_factory=list)


class _Handover(HttpApp):
    """Hands each request over to the relay, once, by the path under which it is expected."""

    def __init__(self, on_refused: Callable[[Refusal], None], on_trouble: Callable[[str], None]) -> None:
        self.on_refused, self.on_trouble = on_refused, on_trouble
        self.expected: dict[bytes, tuple[ResentRequest, Repetition]] = {}
        self.recorder: service.Recorder
        self.exchange_ids: dict[bytes, str] = {}

    def respond(self, client: Client, request: Request) -> RelayedExchange | None:
        """Relay a request that is expected; any other is refused."""
        entry = self.expected.pop(request.target, None)
        if entry is None:
            self.refuse(client, Refusal(404, "no request is expected here"))
            return None
        resent, repetition = entry
        relayed = self.recorder.proxy.relay(
            client, request, resent.target.upstream, resent.path.encode(), RelayOptions(repeats=repetition)
        )
        if relayed is not None:
            self.exchange_ids[request.target] = relayed.id
        return relayed


@dataclass(slots=True)
class Sender:
    """One run of requests: `send` returns when all have ended, or after `stop`."""

    requests: Sequence[ResentRequest]
    tape: Path
    run: str
    repeats: int = 1
    pace: Pace = Pace()
    budget: Budget = field(default_factory=Budget)
    proxies: Proxies | None = None
    ca_file: Path | None = None
    cost_of: Callable[[str], int | None] = lambda _: None
    """The cost of an exchange by its id, None if it is unknown; called in a thread once it is on the tape."""
    _stopped: asyncio.Event = field(default_factory=asyncio.Event)
    _recorded: dict[str, asyncio.Event] = field(default_factory=dict)
    _outcome: Outcome = field(default_factory=Outcome)

    def stop(self) -> None:
        """Send nothing more, and end the running requests; what came of them stays on the tape."""
        self._stopped.set()

    async def send(self) -> Outcome:
        """Send all requests. Raises `WiretapeError` if the tape cannot be written."""
        sock = server.bound("127.0.0.1", 0)
        handover = _Handover(lambda refusal: self._note(refusal.message), self._note)
        upstreams = list({request.target.upstream.url: request.target.upstream for request in self.requests}.values())
        options = service.RecorderOptions(
            self.tape, upstreams, labels={LABEL: self.run}, proxies=self.proxies, ca_file=self.ca_file,
            purpose="wiretape resend",
        )  # fmt: skip
        observer = service.Observer(
            finished=lambda exchange: self._event(exchange.id).set(),
            trouble=lambda message: self._note(f"storing: {message or 'works again'}"),
            refused=lambda refusal: self._note(refusal.message),
            failed=self._note,
        )
        base = server.base_url(sock)
        recorder = service.Recorder(options, observer, served_at=base)
        try:
            await recorder.start()
        except BaseException:
            sock.close()
            raise
        handover.recorder = recorder
        relay = server.Server(handover, sock)
        # No proxy, cookie or redirect of a client: a request goes to the relay as it is, and its answer stays there.
        limits = httpx.Limits(max_connections=MOST_AT_ONCE)
        try:
            async with httpx.AsyncClient(trust_env=False, timeout=None, limits=limits) as client:
                await self._send_all(client, handover, base)
        finally:
            relay.close()
            await recorder.stop()
            await relay.wait_closed(0)
        self._outcome.totals = recorder.totals()
        return self._outcome

    async def _send_all(self, client: httpx.AsyncClient, handover: _Handover, base: str) -> None:
        running, slots, origin_ns = set[asyncio.Task[None]](), asyncio.Semaphore(MOST_AT_ONCE), SYSTEM.now()
        stopped: asyncio.Task[Any] = asyncio.create_task(self._stopped.wait())
        count = 0
        for since_ns, number, request in self.pace.times(self.requests, self.repeats):
            if since_ns is None:
                await _ended(running, stopped)
            if since_ns is None:
                origin_ns = SYSTEM.now()
            left_s = (origin_ns + (since_ns or 0) - SYSTEM.now()) / 1e9
            await asyncio.wait([stopped], timeout=max(left_s, 0))
            taken: asyncio.Task[Any] = asyncio.create_task(slots.acquire())
            await asyncio.wait([taken, stopped], return_when=asyncio.FIRST_COMPLETED)
            if self._stopped.is_set():
                taken.cancel()
                break
            if not self.budget.admits(request):
                self._outcome.left = len(self.requests) * self.repeats - count
                break
            count += 1
            path = f"/{os.urandom(16).hex()}".encode()
            handover.expected[path] = request, Repetition(request.recorded["id"], number, self.run)
            task = asyncio.create_task(self._send_one(client, handover, base, path, request, slots))
            running.add(task)
            task.add_done_callback(running.discard)
        await _ended(running, stopped)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        stopped.cancel()
        self._outcome.sent = count

    async def _send_one(
        self, client: httpx.AsyncClient, handover: _Handover, base: str, path: bytes, request: ResentRequest,
        slots: asyncio.Semaphore,
    ) -> None:  # fmt: skip
        cost: int | None = None
        try:
            # Made by itself, and not by the client, which would add headers of its own.
            message = httpx.Request(
                request.recorded["method"], base + path.decode(), headers=[*request.headers], content=request.body
            )
            try:
                answer = await client.send(message, stream=True)
                try:
                    async for _ in answer.aiter_raw():
                        pass
                finally:
                    await answer.aclose()
            except httpx.HTTPError:
                pass  # the tape has how it ended
            if self.budget.most is not None and (id := handover.exchange_ids.get(path)) is not None:
                await self._event(id).wait()
                cost = await asyncio.to_thread(self.cost_of, id)
        finally:
            self.budget.settle(request, cost)
            slots.release()

    def _event(self, id: str) -> asyncio.Event:
        return self._recorded.setdefault(id, asyncio.Event())

    def _note(self, message: str) -> None:
        self._outcome.problems.append(message)


async def _ended(running: set[asyncio.Task[None]], stopped: asyncio.Task[Any]) -> None:
    """Wait until all running requests have ended, or until the run is stopped."""
    while running and not stopped.done():
        await asyncio.wait([*running, stopped], return_when=asyncio.FIRST_COMPLETED)
