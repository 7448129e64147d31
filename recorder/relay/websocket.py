"""Relays a WebSocket once upstream has switched to it: bytes go both ways as they come, and each read is recorded.

Nothing is re-framed, unmasked or injected, and no frame is looked at: what they mean is left to the decoder. A side
that does not read makes the other wait. Silence has no limit, as an idle WebSocket waits for what its client does next;
a client that takes nothing for a minute is cut off. When one side closes, so is the other.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

from wiretape.recorder.relay.recording import Recording
from wiretape.recorder.relay.responder import Takeover
from wiretape.recorder.relay.server import LINGER_SECONDS, Client, Headers
from wiretape.recorder.relay.sockets import Socket
from wiretape.recorder.relay.upstream import Connection, Head, words

UNSENT_BYTES = 256 << 10
"""What one side has not taken yet; beyond it the other has to wait."""
QUIET_NS = 1_000_000_000
"""A WebSocket over which nothing came for so long need not be waited for when the recorder stops."""

Enter = Callable[[int, int | None, bytes], None]


class Owner(Protocol):
    """The exchange that became a WebSocket."""

    def over(self, ended_by: str, detail: str | None, at: int, *, paused: int) -> None:
        """Record that the WebSocket has ended."""

    def failed(self, error: Exception) -> None:
        """Report a fault of our own."""

    def note_lag(self) -> None:
        """Note that reads may be stamped late."""


class _Direction:
    """What one side sends, on its way to the other."""

    def __init__(self, source: Socket, target: Socket, enter: Enter, now: Callable[[], int]) -> None:
        self._source, self._target, self._enter, self._now = source, target, enter, now
        self._waiting: deque[tuple[int, bytes, int]] = deque()
        """Reads that the kernel has not taken: their instant, bytes, and end in all that was written."""
        self.waits_since: int | None = None
        self.came_at = now()
        self.paused = 0

    def relay(self, at: int, data: bytes) -> None:
        """Write a read to the other side at once, then record it."""
        taken, relayed = self._target.write(data), self._now()
        self.came_at = relayed
        if taken and not self._waiting:
            self._enter(at, relayed, data)
        elif not self._target.unsent:  # the other side takes nothing any more
            self._enter(at, None, data)
        else:
            self._wait(at, data)

    def _wait(self, at: int, data: bytes) -> None:
        self.waits_since = self.waits_since or self._now()
        self._waiting.append((at, data, self._target.written))
        if self._target.unsent > UNSENT_BYTES:
            self._source.pause()
            self.paused += 1

    def progressed(self) -> None:
        """Record the reads that the kernel has taken now, and read on when half of what may wait is left."""
        relayed, unsent = self._now(), self._target.unsent
        while self._waiting and self._waiting[0][2] <= self._target.written - unsent:
            at, data, _ = self._waiting.popleft()
            self._enter(at, relayed, data)
        self.waits_since = relayed if self._waiting else None
        if unsent < UNSENT_BYTES // 2:
            self._source.resume()

    def end(self) -> None:
        """Record what was not taken."""
        for at, data, _ in self._waiting:
            self._enter(at, None, data)
        self._waiting.clear()
        self.waits_since = None


class WebSocket(Takeover):
    """A WebSocket between a client and upstream: what takes the client's connection over."""

    def __init__(self, client: Client, connection: Connection, recording: Recording, owner: Owner) -> None:
        self._client, self._connection, self._recording, self._owner = client, connection, recording, owner
        self._ending: tuple[str, str | None, int] | None = None
        """How upstream has ended, while the client has still to take what came."""
        self._is_over = False

    def begin(self, at: int, head: Head, headers: Headers, rest: bytes, now: Callable[[], int]) -> None:
        """Pass on the head that switched protocols, and what came with it, and relay from then on."""
        self._now, self._upstream = now, self._connection.release(self)
        self._near, early = self._client.switch(head.status, head.reason, headers, self)
        self._near.stamp_as(self._upstream)
        self._down = _Direction(self._upstream, self._near, self._recording.read, now)
        self._up = _Direction(self._near, self._upstream, self._recording.switch().read, now)
        if rest:
            self._down.relay(at, rest)
        if early:
            self._near.stamp = now()  # what the kernel has received since follows it
            self._up.relay(self._near.stamp, early)

    # responder.Takeover

    def received(self, at: int, data: memoryview) -> None:
        """Pass on what the client sent."""
        if not self._is_over:
            self._up.relay(at, bytes(data))

    def progressed(self) -> None:
        """The kernel has taken more of what is for the client."""
        if self._is_over:
            return
        self._down.progressed()
        if self._ending is not None and self._down.waits_since is None:
            self._end_with_upstream(*self._ending)

    def write_failed(self, error: OSError) -> None:
        """End as if the client had left: it does not read what it is sent."""
        self._client.lost(error)

    def lost(self, error: Exception | None) -> None:
        """End as the client left, or, where all had come by then, as upstream did."""
        self._recording.client_closed = self._now()
        self._end(*(self._ending or ("client", None, self._now())))

    def failed(self, error: Exception) -> None:
        """End by a fault of our own."""
        self._owner.failed(error)
        self.cut("died", "a fault of wiretape's own")

    @property
    def is_idle(self) -> bool:
        """Whether it has ended, and only the client has not closed yet."""
        return self._is_over and not self._near.unsent

    # what upstream does

    def came(self, at: int, data: memoryview) -> None:
        """Pass on what upstream sent."""
        self._down.relay(at, bytes(data))

    def taken(self) -> None:
        """The kernel has taken more of what is for upstream."""
        self._up.progressed()

    def upstream_lost(self, error: Exception | None, at: int) -> None:
        """End as upstream closed, and let the client have all that came."""
        self._ending = ("end", None, at) if error is None else ("reset", words(error), at)
        if error is not None:
            self._end(*self._ending)
            self._client.close()
        elif self._down.waits_since is None:
            self._end_with_upstream(*self._ending)

    def _end_with_upstream(self, ended_by: str, detail: str | None, at: int) -> None:
        """End, and give the client time to read what it was sent: a reset on what it still sends would take that."""
        self._end(ended_by, detail, at)
        self._near.end()
        self._near.resume()
        asyncio.get_running_loop().call_later(LINGER_SECONDS, self._client.close)

    # what the proxy does with it

    @property
    def is_quiet(self) -> bool:
        """Whether nothing came for a while, and nothing waits."""
        came_at = max(self._up.came_at, self._down.came_at)
        return not (self._near.unsent or self._upstream.unsent) and came_at < self._now() - QUIET_NS

    def note_lag(self) -> None:
        """Note that reads may be stamped late."""
        self._owner.note_lag()

    def end_if_stalled(self, since: int) -> None:
        """End if the client has taken nothing since then."""
        if self._down.waits_since is not None and self._down.waits_since < since:
            self.cut("client_stalled", "the client stopped reading")

    def cut(self, ended_by: str, detail: str) -> None:
        """Close both connections at once."""
        self._end(ended_by, detail, self._now())
        self._client.close()

    def _end(self, ended_by: str, detail: str | None, at: int) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._up.end()
        self._down.end()
        self._upstream.close()
        self._owner.over(ended_by, detail, at, paused=self._down.paused)
