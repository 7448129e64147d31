"""Relays a WebSocket once upstream has switched to it: bytes go both ways as they come, and each read is recorded.

Bytes are not re-framed, unmasked or injected, and no frame is parsed: that is left to the decoder. A side that does
not read makes the other wait. Silence has no limit, as an idle WebSocket waits for its client's next action; a client
that takes nothing for a minute is cut off. When one side closes, so is the other.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

from wiretape.recorder.facts import EndedBy
from wiretape.recorder.relay.client import LINGER_SECONDS
from wiretape.recorder.relay.recording import ExchangeFrames, UntakenRead
from wiretape.recorder.relay.request import Headers
from wiretape.recorder.relay.responder import Takeover
from wiretape.recorder.relay.server import Http1Client
from wiretape.recorder.relay.sockets import Socket
from wiretape.recorder.relay.upstream import Http1Connection, ResponseHead, error_text

UNSENT_BYTES = 256 << 10
"""Limit of unsent bytes towards one side; beyond it the other has to wait."""

Enter = Callable[[int, int | None, bytes], None]


class WebSocketOwner(Protocol):
    """The exchange that became a WebSocket."""

    def websocket_ended(self, ended_by: EndedBy, detail: str | None, at: int, *, paused: int) -> None:
        """Record that the WebSocket has ended."""

    def failed(self, error: Exception) -> None:
        """Report a fault of our own."""

    def note_lag(self) -> None:
        """Note that reads may be stamped late."""


class _SocketDirection:
    """One direction of a WebSocket."""

    def __init__(self, source: Socket, target: Socket, enter: Enter, now: Callable[[], int]) -> None:
        self._source, self._target, self._enter, self._now = source, target, enter, now
        self._untaken_reads: deque[UntakenRead] = deque()
        self.waits_since: int | None = None
        self.came_at = now()
        self.paused = 0

    def relay(self, at: int, data: bytes) -> None:
        """Write a read to the other side at once, then record it."""
        is_taken, relayed = self._target.write(data), self._now()
        self.came_at = relayed
        if is_taken and not self._untaken_reads:
            self._enter(at, relayed, data)
        elif not self._target.unsent:  # the other side accepts no more bytes
            self._enter(at, None, data)
        else:
            self.waits_since = self.waits_since or self._now()
            self._untaken_reads.append(UntakenRead(at, data, self._target.written))
            if self._target.unsent > UNSENT_BYTES:
                self._source.pause()
                self.paused += 1

    def progressed(self) -> None:
        """Record the reads that the kernel has taken now; read on when half of the limit is free."""
        relayed, unsent = self._now(), self._target.unsent
        while self._untaken_reads and self._untaken_reads[0].end <= self._target.written - unsent:
            at, data, _ = self._untaken_reads.popleft()
            self._enter(at, relayed, data)
        self.waits_since = relayed if self._untaken_reads else None
        if unsent < UNSENT_BYTES // 2:
            self._source.resume()

    def end(self) -> None:
        """Record the reads that the kernel has not taken."""
        for at, data, _ in self._untaken_reads:
            self._enter(at, None, data)
        self._untaken_reads.clear()
        self.waits_since = None


class WebSocket(Takeover):
    """A WebSocket between a client and upstream, which takes the client's connection over."""

    def __init__(
        self, client: Http1Client, connection: Http1Connection, recording: ExchangeFrames, owner: WebSocketOwner
    ) -> None:
        self._client, self._connection, self._recording, self._owner = client, connection, recording, owner
        self._ending: tuple[EndedBy, str | None, int] | None = None
        """The way upstream ended, until the client has taken the last bytes."""
        self._is_over = False

    def begin(self, at: int, head: ResponseHead, headers: Headers, early_bytes: bytes, now: Callable[[], int]) -> None:
        """Pass on the head that switched protocols, and the bytes after it, and relay from then on."""
        self._now, self._upstream = now, self._connection.release(self)
        self._near, early = self._client.switch(head.status, head.reason, headers, self)
        self._near.stamp_as(self._upstream)
        self._down = _SocketDirection(self._upstream, self._near, self._recording.put_read, now)
        self._up = _SocketDirection(self._near, self._upstream, self._recording.switch().put_read, now)
        if early_bytes:
            self._down.relay(at, early_bytes)
        if early:
            self._near.stamp = now()  # reads that the kernel stamped later follow it
            self._up.relay(self._near.stamp, early)

    # responder.Takeover

    def received(self, at: int, data: memoryview) -> None:
        """Relay a read from the client."""
        if not self._is_over:
            self._up.relay(at, bytes(data))

    def progressed(self) -> None:
        """The kernel has taken more of the client's unsent bytes."""
        if self._is_over:
            return
        self._down.progressed()
        if self._ending is not None and self._down.waits_since is None:
            self._end_with_upstream(*self._ending)

    def write_failed(self, error: OSError) -> None:
        """End as if the client had left: it reads no more."""
        self._client.lost(error)

    def lost(self, error: Exception | None) -> None:
        """End because the client left; if all data had come by then, as upstream ended."""
        self._recording.client_closed_ns = self._now() - self._recording.t0
        if error is not None:
            self._upstream.reset()
        self._end(*(self._ending or ("client", None, self._now())))

    def dropped(self, ended_by: EndedBy, detail: str) -> None:
        """End because wiretape closed the client's connection."""
        self._end(*(self._ending or (ended_by, detail, self._now())))

    def failed(self, error: Exception) -> None:
        self._owner.failed(error)
        self.cut("died", "a fault of wiretape's own")

    @property
    def is_idle(self) -> bool:
        """True if it has ended, and only the client has not closed yet."""
        return self._is_over and not self._near.unsent

    # upstream.Switched

    def upstream_received(self, at: int, data: memoryview) -> None:
        """Relay a read from upstream."""
        self._down.relay(at, bytes(data))

    def upstream_progressed(self) -> None:
        """The kernel has taken more of upstream's unsent bytes."""
        self._up.progressed()

    def upstream_lost(self, error: Exception | None, at: int) -> None:
        """End as upstream closed, and let the client have all that came."""
        self._ending = ending = ("end", None, at) if error is None else ("reset", error_text(error), at)
        if self._down.waits_since is None:
            self._end_with_upstream(*ending)

    def _end_with_upstream(self, ended_by: EndedBy, detail: str | None, at: int) -> None:
        """End, and give the client time to read its last bytes: a reset, if it still sends, would discard them."""
        self._end(ended_by, detail, at)
        if ended_by == "reset":
            self._client.reset()
            return
        self._near.end()
        self._near.resume()
        asyncio.get_running_loop().call_later(LINGER_SECONDS, self._client.close)

    # called by the proxy

    @property
    def is_quiet(self) -> bool:
        """True if no bytes came for a second, and none wait: a stopping recorder does not wait for it."""
        came_at = max(self._up.came_at, self._down.came_at)
        return not (self._near.unsent or self._upstream.unsent) and came_at < self._now() - 1_000_000_000

    def note_lag(self) -> None:
        """Note that reads may be stamped late."""
        self._owner.note_lag()

    def end_if_stalled(self, since: int) -> None:
        """End if the client has taken nothing since then."""
        if self._down.waits_since is not None and self._down.waits_since < since:
            self.cut("client_stalled", "the client stopped reading")

    def cut(self, ended_by: EndedBy, detail: str) -> None:
        """Close both connections at once."""
        self._end(ended_by, detail, self._now())
        self._client.close()

    def _end(self, ended_by: EndedBy, detail: str | None, at: int) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._up.end()
        self._down.end()
        self._upstream.close()
        self._owner.websocket_ended(ended_by, detail, at, paused=self._down.paused)
