"""The process at the other end of a connection on this machine, by Linux's /proc.

Java sends no credential to a proxy unless its program does so in code. Its environment has the proxy's password all the
same: a process that was started with it there may use the proxy, as one that sends it.
"""

import contextlib
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

from recorder.relay.sockets import Ends

_PROC = Path("/proc")
_TABLES = _PROC / "self/net/tcp", _PROC / "self/net/tcp6"
ARE_KNOWN = _TABLES[0].exists()
"""True on Linux."""
_STATE, _INODE = 3, 9
_ESTABLISHED = "01"


def has_secret(ends: Ends, secret: bytes) -> bool:
    """Return True if a process that has the peer's end of a connection was started with a secret in its environment.

    `ends` are as the recorder sees them, its own first.
    """
    ours, theirs = ends
    if (inode := _inode(theirs, ours)) is None:
        return False
    return any(_has_open(process, f"socket:[{inode}]") for process in _started_with(secret))


def _inode(local: tuple[str, int], remote: tuple[str, int]) -> str | None:
    """Return the inode of the socket with these addresses, also as mapped to IPv6; None if it is no process's here."""
    wanted = [_written(local), _written(remote)]
    for table in _TABLES:
        with contextlib.suppress(OSError):  # without IPv6 there is one table
            for line in table.read_text("ascii").splitlines()[1:]:
                cells = line.split()
                if cells[_STATE] == _ESTABLISHED and [cell[-len(wanted[0]) :] for cell in cells[1:3]] == wanted:
                    return cells[_INODE]
    return None


def _written(address: tuple[str, int]) -> str:
    """Return an address as the tables have it: a number in the machine's byte order, in hexadecimal digits."""
    host, port = address
    number = int.from_bytes(socket.inet_aton(host), sys.byteorder)
    return f"{number:08X}:{port:04X}"


def _started_with(secret: bytes) -> Iterator[Path]:
    """Yield the processes that were started with a secret in their environment, and that this one may look into."""
    for process in _PROC.iterdir():
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            if process.name.isdigit() and secret in (process / "environ").read_bytes():
                yield process


def _has_open(process: Path, link: str) -> bool:
    with contextlib.suppress(OSError):
        for descriptor in os.listdir(process / "fd"):
            with contextlib.suppress(OSError):  # it has been closed
                if os.readlink(process / "fd" / descriptor) == link:
                    return True
    return False
