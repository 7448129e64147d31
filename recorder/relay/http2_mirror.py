"""The connections to API servers that mirror a client's HTTP/2 connection.

They speak HTTP/2 if the server does; else each exchange takes one of HTTP/1.1. They live as long as the client's: a
server's announcement of its end is passed on, and where a server closes its connection between two exchanges, the
client's is closed, too.
"""

import asyncio
from collections.abc import Collection
from typing import Protocol

from wiretape.recorder.clock import Clock
from wiretape.recorder.errors import UpstreamError
from wiretape.recorder.relay import http2_upstream
from wiretape.recorder.relay.http2 import STREAMS
from wiretape.recorder.relay.http2_frames import GoAway
from wiretape.recorder.relay.http2_upstream import Http2Connection
from wiretape.recorder.relay.providers import Upstream
from wiretape.recorder.relay.request import Priority
from wiretape.recorder.relay.upstream import IDLE_CONNECTIONS, Carrier, ConnectionFacts, Http1Connection, Transport


class Mirrored(Protocol):
    """The client's connection."""

    @property
    def is_closed(self) -> bool: ...

    def hold(self) -> None:
        """Hold frames back until `release`."""

    def release(self) -> None:
        """Send the held frames."""

    def limit_streams(self, allowed: int) -> None:
        """Allow as many streams as the API servers do."""

    def upstream_leaves(self, announced: GoAway, refused: Collection[int]) -> None:
        """Pass the announcement of the last server on; it will not process the `refused` streams of the client."""

    def upstream_closed(self, *, is_reset: bool) -> None:
        """Note that a server has closed its connection, or reset it."""


class Mirror:
    """The connections of HTTP/2, one for each API server, and those of HTTP/1.1 to servers without it."""

    def __init__(self, client: Mirrored, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._loop = asyncio.get_running_loop()
        self.connections: dict[Upstream, Http2Connection] = {}
        self._opening: dict[Upstream, asyncio.Task[Http2Connection | Http1Connection]] = {}
        self._idle: dict[Upstream, list[Http1Connection]] = {}

    def reuse(self, upstream: Upstream) -> Carrier | None:
        """Return a stream of the connection to an API server, or an idle connection of HTTP/1.1; None without any."""
        connection = self.connections.get(upstream)
        if connection is not None:
            if connection.is_ready():
                return connection.carrier()
            self._forget(connection)
        idle = self._idle.get(upstream)
        while idle:
            idle_connection = idle.pop()
            if idle_connection.is_silent():
                return idle_connection
            idle_connection.close()
        return None

    async def connect(self, transport: Transport, upstream: Upstream, facts: ConnectionFacts) -> Carrier:
        """Return a stream of a new connection to an API server, or a new connection of HTTP/1.1.

        Streams that need the same connection wait for it together. Raises `UpstreamError`.
        """
        if not self._needs_http1(transport, upstream):
            new_connection: Http2Connection | Http1Connection | None = self.connections.get(upstream)
            if new_connection is None:
                new_connection = await asyncio.shield(self._begin_opening(transport, upstream))
            facts.connected_ns = self._clock.now() - facts.t0
            if carrier := self.reuse(upstream):
                return carrier
            if not self._needs_http1(transport, upstream):
                lost = new_connection.failure if isinstance(new_connection, Http2Connection) else None
                raise lost or UpstreamError("eof", "upstream closed the connection before the request")
        return await transport.connect(upstream, facts)

    def _begin_opening(
        self, transport: Transport, upstream: Upstream
    ) -> "asyncio.Task[Http2Connection | Http1Connection]":
        """Return the task that opens the connection to an API server, which is one for all streams."""
        opening = self._opening.get(upstream)
        if opening is None:
            opening = self._opening[upstream] = self._loop.create_task(self._open(transport, upstream))
            opening.add_done_callback(lambda done: done.cancelled() or done.exception())  # the streams raise it
        return opening

    def _needs_http1(self, transport: Transport, upstream: Upstream) -> bool:
        """Return True if an API server is known not to speak HTTP/2."""
        return upstream in transport.http1_only or upstream in self._idle

    async def _open(self, transport: Transport, upstream: Upstream) -> Http2Connection | Http1Connection:
        """Open a connection to an API server, keep it, and return it."""
        try:
            connection = await http2_upstream.open(transport, upstream, self._clock)
        finally:
            self._opening.pop(upstream, None)
        if self._client.is_closed:
            connection.close()
        elif isinstance(connection, Http2Connection):
            self.adopt(connection)
        else:
            self._idle.setdefault(upstream, []).append(connection)
        return connection

    def adopt(self, connection: Http2Connection) -> None:
        """Use a connection for new streams, and mirror its end."""
        self.connections[connection.upstream] = connection
        connection.on_settings = self._limit_streams
        connection.hold_client, connection.release_client = self._client.hold, self._client.release
        connection.on_leaving = lambda *news: self._leaves(connection, *news)
        connection.on_closed = lambda: self._closed(connection)
        if connection.settled.done():
            self._limit_streams()

    def _limit_streams(self) -> None:
        self._client.limit_streams(
            min((STREAMS, *(connection.streams_allowed for connection in self.connections.values())))
        )

    def prioritize(self, priority: Priority) -> None:
        """Pass the new priority of a stream on to its server."""
        for connection in self.connections.values():
            connection.prioritize(priority)

    def _leaves(self, connection: Http2Connection, announced: GoAway, refused: Collection[int]) -> None:
        """Report the end that a server has announced, unless another server has a connection."""
        self._forget(connection)
        if not self.connections:
            self._client.upstream_leaves(announced, refused)

    def _closed(self, connection: Http2Connection) -> None:
        self._forget(connection)
        if connection.has_served:  # else a request is about to come, and a new connection has the reason
            self._client.upstream_closed(is_reset=connection.is_reset)

    def keep(self, carrier: Carrier) -> None:
        """Keep an idle connection of HTTP/1.1 for another request."""
        assert isinstance(carrier, Http1Connection)
        idle = self._idle.setdefault(carrier.upstream, [])
        if self._client.is_closed or len(idle) >= IDLE_CONNECTIONS:
            carrier.close()
            return
        carrier.keep()
        carrier.closed_by_peer = lambda *_: idle.remove(carrier) if carrier in idle else None
        idle.append(carrier)

    def _forget(self, connection: Http2Connection) -> None:
        if self.connections.get(connection.upstream) is connection:
            del self.connections[connection.upstream]

    def close(self, *, by_reset: bool = False) -> None:
        """Close all connections; those of HTTP/2 by a reset, if the client has reset its own."""
        for connection in self.connections.values():
            connection.close(by_reset=by_reset)
        for idle in self._idle.values():
            for idle_connection in idle:
                idle_connection.close()
        self.connections.clear()
        self._idle.clear()
        for opening in self._opening.values():
            opening.cancel()
