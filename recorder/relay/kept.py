"""A client's connections to API servers that wait for another exchange: those of HTTP/1.1."""

from collections.abc import Callable
from functools import partial

from wiretape.recorder.relay.providers import Upstream
from wiretape.recorder.relay.upstream import Connection

KEPT = 8
"""Limit of idle connections of HTTP/1.1: of one client's to API servers, or of a client of HTTP/2 to one of them."""

OnClosed = Callable[[Connection, Exception | None], None]


class KeptConnections:
    """Idle connections by their API server, at most `KEPT`; the one used last is the last."""

    __slots__ = ("_connections",)

    def __init__(self) -> None:
        self._connections: dict[Upstream, Connection] = {}

    def __len__(self) -> int:
        return len(self._connections)

    def add(self, connection: Connection, on_closed: OnClosed) -> None:
        """Keep an idle connection for the next request to its server.

        If its server closes it, `on_closed` is called with it, and with the error if it was reset.
        """
        connection.closed_by_peer = partial(self._closed, connection, on_closed)
        self._connections[connection.upstream] = connection
        if len(self._connections) > KEPT:
            self._connections.pop(next(iter(self._connections))).close()

    def take(self, upstream: Upstream) -> Connection | None:
        """Return the connection to a server, if it is still open and silent."""
        connection = self._connections.pop(upstream, None)
        if connection is not None and not connection.is_silent():
            connection.close()
            return None
        return connection

    def _closed(self, connection: Connection, on_closed: OnClosed, error: Exception | None) -> None:
        if self._connections.get(connection.upstream) is connection:
            del self._connections[connection.upstream]
        on_closed(connection, error)

    def reset(self) -> None:
        for connection in self._connections.values():
            connection.reset()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
