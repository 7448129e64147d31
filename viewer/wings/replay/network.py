"""Refusal of a test's connections to anything but the server of its tape.

A client that was made at import, or that has a base URL of its own, would call the live API with the live key while
its test seems to be answered from a tape. So names and addresses are checked where programs of Python open
connections: in `socket`, and in uvloop's loop, which has sockets of its own. Sockets of the family Unix and datagrams
are left alone; connections that an earlier test left open, and libraries that connect in C, are not seen.
"""

import ipaddress
import socket
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import pytest

THREADS: Final = "wiretape"
"""First word in the names of wiretape's own threads, which record from the API."""
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
"""A client may look up `localhost`, whose other address is refused by the system itself."""


class NetworkGuard:
    """A check of each connection that the process opens while a test runs."""

    def __init__(self, base: str, allowed: Sequence[str]) -> None:
        """`base` is the URL of the test's server, `allowed` are further `HOST` or `HOST:PORT`."""
        self.refused: list[str] = []
        """`HOST` or `HOST:PORT` of each refused connection."""
        self._server_port = urlsplit(base).port
        self._allowed = {_endpoint(text) for text in allowed}

    def install(self, patch: "pytest.MonkeyPatch") -> None:
        """Check connections until the patch is undone."""
        stream, resolve = socket.socket, socket.getaddrinfo
        patch.setattr(stream, "connect", self._checked_connect(stream.connect))
        patch.setattr(stream, "connect_ex", self._checked_connect(stream.connect_ex))

        def getaddrinfo(host: Any, port: Any, *args: Any, **options: Any) -> Any:
            self._check_name(host, port)
            rows = resolve(host, port, *args, **options)
            self._allow_addresses(host, rows)
            return rows

        patch.setattr(socket, "getaddrinfo", getaddrinfo)
        try:
            from uvloop import Loop
        except ImportError:
            return
        connect, look_up = Loop.create_connection, Loop.getaddrinfo

        async def create_connection(loop: Any, factory: Any, host: Any = None, port: Any = None, **options: Any) -> Any:
            if host is not None:
                self._check(host, port)
            return await connect(loop, factory, host, port, **options)

        async def loop_getaddrinfo(loop: Any, host: Any, port: Any, **options: Any) -> Any:
            self._check_name(host, port)
            rows = await look_up(loop, host, port, **options)
            self._allow_addresses(host, rows)
            return rows

        patch.setattr(Loop, "create_connection", create_connection)
        patch.setattr(Loop, "getaddrinfo", loop_getaddrinfo)

    def _checked_connect(self, connect: Callable[..., Any]) -> Callable[..., Any]:
        def checked(sock: socket.socket, address: Any) -> Any:
            if sock.family in (socket.AF_INET, socket.AF_INET6) and sock.type == socket.SOCK_STREAM:
                self._check(address[0], address[1])
            return connect(sock, address)

        return checked

    def _check_name(self, host: Any, port: Any) -> None:
        """Refuse the look-up of a name that may not be connected to: without a network it would fail, and say less."""
        if host and _text(host) not in _LOOPBACK and not _is_address(_text(host)):
            self._check(host, port)

    def _allow_addresses(self, host: Any, rows: Sequence[Any]) -> None:
        ports = {port for name, port in self._allowed if name == _text(host)}
        self._allowed |= {(row[4][0], port) for row in rows for port in ports}

    def _check(self, host: Any, port: Any) -> None:
        """Raise ConnectionRefusedError, which programs take for a server that is down, unless it is allowed."""
        name, port = _text(host), int(port) if str(port).isdigit() else port
        is_server = port == self._server_port and name in _LOOPBACK
        if is_server or threading.current_thread().name.startswith(THREADS):
            return
        if {(name, None), (name, port)} & self._allowed:
            return
        self.refused.append(name if port is None else f"[{name}]:{port}" if ":" in name else f"{name}:{port}")
        raise ConnectionRefusedError(f"wiretape: {self.refused[-1]} is not the server of this test's tape")


def read_allowed(text: str) -> str:
    """Return `HOST` or `HOST:PORT` of the argument `allow_hosts` unchanged. Raise ValueError for anything else."""
    _endpoint(text)
    return text


def _endpoint(text: str) -> tuple[str, int | None]:
    """Return host and port, or None for every port. Raise ValueError for anything else."""
    if _is_address(text):
        return text, None
    parts = urlsplit(f"//{text}")
    if parts.netloc != text or not parts.hostname or "@" in text:
        raise ValueError("give a host, or HOST:PORT")
    return parts.hostname, parts.port


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _text(host: Any) -> str:
    return host.decode("ascii", "replace").lower() if isinstance(host, bytes | bytearray) else str(host).lower()
