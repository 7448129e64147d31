"""The number of bytes that a client on this machine has read, from the kernel.

A write is over when the client's kernel has the bytes, long before its program reads them. For a connection within this
machine, Linux has the number of unread bytes at the other end (`sock_diag`, as in `ss`). It is polled every few ms, so
that a read is noted late by up to one interval, never too early. Elsewhere nothing is known.
"""

import asyncio
import contextlib
import socket
import struct
import sys
from typing import Final

from wiretape.recorder.clock import Clock
from wiretape.recorder.relay.client import Client
from wiretape.recorder.relay.server import Http1Client
from wiretape.recorder.relay.sockets import Ends
from wiretape.viewer.wings.replay.serve import Served

LOOK_SECONDS: Final = 0.002
_SOCK_DIAG: Final = 4
_BY_FAMILY: Final = 20
_REQUEST: Final = 1
_TCP: Final = 6
_ANY: Final = 0xFFFFFFFF
_INFO: Final = 2
"""The attribute that holds `struct tcp_info`."""
_HEAD = struct.Struct("=IHHII")
_ASKED = struct.Struct("=BBBBI")
_PORTS = struct.Struct("!HH")
_REST = struct.Struct("=III")
_ATTRIBUTE = struct.Struct("=HH")
_STATE_AT: Final = _HEAD.size + 1
_UNREAD_AT: Final = _HEAD.size + 4 + 48 + 4
_ATTRIBUTES_AT: Final = _HEAD.size + 72
_RECEIVED_AT: Final = 128
"""Offset of `tcpi_bytes_received` in `struct tcp_info`."""
_OPEN: Final = (1, 8)
"""The states of an end that can be read: ESTABLISHED, and CLOSE_WAIT."""


class Kernel:
    """The kernel's counts of the bytes read from TCP connections over IPv4."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        if sys.platform == "linux":
            with contextlib.suppress(OSError):  # then nothing is known
                self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _SOCK_DIAG)

    @property
    def tells(self) -> bool:
        """True if the system has such counts."""
        return self._socket is not None

    def read(self, ends: Ends) -> int | None:
        """Return the bytes that the first of two ends has read; None if it is closed, or if the system does not tell.

        Where its peer has closed, that counts as a byte, from which nothing follows.
        """
        if self._socket is None:
            return None
        try:
            self._socket.send(_question(ends))
            answer = self._socket.recv(4096, socket.MSG_DONTWAIT)
        except OSError:
            self.close()
            return None
        _, kind, _, _, _ = _HEAD.unpack_from(answer)
        if kind != _BY_FAMILY or answer[_STATE_AT] not in _OPEN:
            return None
        received = _received(answer)
        return (
            None if received is None else received - int.from_bytes(answer[_UNREAD_AT : _UNREAD_AT + 4], sys.byteorder)
        )

    def close(self) -> None:
        """Ask no more."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _question(ends: Ends) -> bytes:
    (host, port), (other_host, other_port) = ends
    addresses = [socket.inet_aton(one).ljust(16, b"\0") for one in (host, other_host)]
    asked = _ASKED.pack(socket.AF_INET, _TCP, 1 << _INFO - 1, 0, _ANY) + _PORTS.pack(port, other_port)
    asked += b"".join(addresses) + _REST.pack(0, _ANY, _ANY)
    return _HEAD.pack(_HEAD.size + len(asked), _BY_FAMILY, _REQUEST, 1, 0) + asked


def _received(answer: bytes) -> int | None:
    """Return the bytes that were received, of an answer's attributes."""
    at = _ATTRIBUTES_AT
    while at + _ATTRIBUTE.size <= len(answer):
        size, kind = _ATTRIBUTE.unpack_from(answer, at)
        if kind == _INFO and size >= _ATTRIBUTE.size + _RECEIVED_AT + 8:
            place = at + _ATTRIBUTE.size + _RECEIVED_AT
            return int.from_bytes(answer[place : place + 8], sys.byteorder)
        at += max(size + 3 & ~3, _ATTRIBUTE.size)
    return None


class Watcher:
    """Notes when the clients of some requests have read the data written to them."""

    def __init__(self, kernel: Kernel, clock: Clock) -> None:
        self._kernel, self._clock = kernel, clock
        self._loop = asyncio.get_running_loop()
        self._watched: list[tuple[Served, Client, Ends]] = []
        self._timer: asyncio.TimerHandle | None = None

    def add(self, served: Served, client: Client) -> None:
        """Watch a request's client until it has read all, or closes."""
        ends = client.ends if isinstance(client, Http1Client) else None  # streams share their connection
        if ends is not None:
            self._watched.append((served, client, ends))
            self._arm()

    def _arm(self) -> None:
        if self._watched and self._timer is None:
            self._timer = self._loop.call_later(LOOK_SECONDS, self._fire)

    def _fire(self) -> None:
        self._timer = None
        self.look()
        self._arm()

    def look(self) -> None:
        """Note the bytes read by now."""
        self._watched = [one for one in self._watched if self._look(*one)]

    def _look(self, served: Served, client: Client, ends: Ends) -> bool:
        """Note what one client has read by now; return True if there may be more."""
        read = served.read_ns
        if len(read) < len(served.ends):
            total = client.written if client.has_ended else self._kernel.read((ends[1], ends[0]))
            if total is None:  # until the end that the client's system knows of is seen here, too
                return self._kernel.tells and client.ends is not None
            while len(read) < len(served.ends) and served.ends[len(read)] <= total:
                read.append(self._clock.now() - served.requested)
        return not served.ended or len(read) < len(served.ends)

    def close(self) -> None:
        """Watch no more."""
        self._watched.clear()
        if self._timer is not None:
            self._timer.cancel()
