"""Other processes of this user, as Linux tells of them in /proc: their environment, command line and connections.

On a system without it nothing is known of them.
"""

import contextlib
import os
import socket
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")
_TABLES = _PROC / "self/net/tcp", _PROC / "self/net/tcp6"
IS_THERE = all(path.exists() for path in (_PROC / "self/environ", _TABLES[0]))
_LOCAL, _REMOTE, _STATE, _INODE = 1, 2, 3, 9
_ESTABLISHED, _LISTENS = "01", "0A"
_LOOPBACK = ("7F", "00000000000000000000000001000000")
"""Last digits of loopback addresses in the tables: of IPv4, also as mapped to IPv6, and `::1`."""


class _Socket(NamedTuple):
    """A socket; its addresses are as the tables have them: hexadecimal digits, a colon, and the port's."""

    local: str
    remote: str
    state: str
    inode: str

    @property
    def local_port(self) -> int:
        return _port(self.local)

    @property
    def is_to_loopback(self) -> bool:
        return self.state == _ESTABLISHED and self.remote.partition(":")[0].endswith(_LOOPBACK)


def started_with(text: str | bytes) -> list[int]:
    """Return the processes that were started with a text in their environment, and that this one may look into."""
    wanted, found = os.fsencode(text), list[int]()
    for pid in _pids():
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            if wanted in (_PROC / str(pid) / "environ").read_bytes():
                found.append(pid)
    return found


def has_secret(peer: tuple[str, int], own: tuple[str, int], secret: bytes) -> bool:
    """Return True if a process that has the peer's end of a connection was started with a secret in its environment.

    `peer` and `own` are the addresses of its ends, of IPv4.
    """
    ends = [_written(peer), _written(own)]
    inodes = {
        one.inode
        for one in _sockets()
        if one.state == _ESTABLISHED and [address[-len(ends[0]) :] for address in (one.local, one.remote)] == ends
    }
    return bool(inodes) and any(not inodes.isdisjoint(_open_sockets(pid)) for pid in started_with(secret))


def command_line(pid: int) -> list[str]:
    """Return the words of a process's command line; none if it has ended."""
    try:
        return os.fsdecode((_PROC / str(pid) / "cmdline").read_bytes()).rstrip("\0").split("\0")
    except OSError:
        return []


def called_by(callers: Collection[int]) -> dict[int, int]:
    """Return the ports of this machine that processes are connected to, and the processes that listen there.

    Left out are those that listen themselves, and ports of another user's processes.
    """
    table = list(_sockets())
    own = {inode for pid in callers for inode in _open_sockets(pid)}
    called = {_port(one.remote) for one in table if one.inode in own and one.is_to_loopback}
    listening = {one.inode: one.local_port for one in table if one.state == _LISTENS and one.local_port in called}
    others = set(listening) - own
    if not others:
        return {}
    return {listening[inode]: pid for pid in _pids() for inode in _open_sockets(pid) if inode in others}


def listener(port: int) -> int | None:
    """Return a process that listens at a port of this machine; None if it is not known."""
    inodes = {one.inode for one in _sockets() if one.state == _LISTENS and one.local_port == port}
    return next((pid for pid in _pids() for inode in _open_sockets(pid) if inode in inodes), None)


def _pids() -> Iterator[int]:
    if IS_THERE:
        yield from (int(name) for name in os.listdir(_PROC) if name.isdigit())


def _open_sockets(pid: int) -> Iterator[str]:
    """Yield the inodes of a process's sockets."""
    with contextlib.suppress(OSError):
        for descriptor in os.listdir(_PROC / str(pid) / "fd"):
            with contextlib.suppress(OSError):  # it has been closed
                kind, _, inode = os.readlink(_PROC / str(pid) / "fd" / descriptor).partition(":")
                if kind == "socket":
                    yield inode.strip("[]")


def _sockets() -> Iterator[_Socket]:
    """Yield the TCP sockets that are connected or listen."""
    for table in _TABLES:
        with contextlib.suppress(OSError):  # without IPv6 there is one table
            for line in table.read_text("ascii").splitlines()[1:]:
                cells = line.split()
                if cells[_STATE] in (_ESTABLISHED, _LISTENS):
                    yield _Socket(cells[_LOCAL], cells[_REMOTE], cells[_STATE], cells[_INODE])


def _written(address: tuple[str, int]) -> str:
    """Return an address of IPv4 as the tables have it, where its number is in the machine's byte order."""
    host, port = address
    number = int.from_bytes(socket.inet_aton(host), sys.byteorder)
    return f"{number:08X}:{port:04X}"


def _port(address: str) -> int:
    return int(address.rpartition(":")[2], 16)
