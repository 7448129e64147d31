"""Runs of recorders, and processes of this machine: their environments, commands and TCP sockets (Linux).

A process number says something only on the machine, and since its boot, that gave it. When a recorder was last heard of
is on the tape; a tape that is written to is read on the same machine, so the wall clock is its recorder's.

Sockets and environments are read from `/proc`; where `HAS_PROC` is false, nothing is found.
"""

import contextlib
import functools
import os
import socket
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, Literal, NamedTuple

from wiretape.recorder import paths

State = Literal["running", "ended", "lost"]
LOST_MS: Final = 15_000
"""Silence after which a recorder counts as lost, in ms; it reports every 5 s."""


@dataclass(frozen=True, slots=True)
class RecorderRun:
    """One run of a recorder, as its tape has it. Times are wall times in UTC, ISO 8601.

    `is_gone` is whether its process is known to have ended; `upstreams` are pairs of a name and a URL.
    """

    pid: int
    heartbeat_at: str
    ended_at: str | None = None
    is_gone: bool = False
    listen: str = ""
    upstreams: Sequence[Sequence[str]] = ()

    def silent_ms(self, wall_ns: int) -> float | None:
        """Return the time since its last report, in ms; None if it has reported none."""
        try:
            return (wall_ns / 1e9 - datetime.fromisoformat(self.heartbeat_at).timestamp()) * 1000
        except (ValueError, TypeError, OverflowError):
            return None

    def state(self, wall_ns: int) -> State:
        """Return the state at `wall_ns`: running, ended in good order, or lost (the process is gone or silent)."""
        if self.ended_at is not None:
            return "ended"
        return "lost" if self.is_gone or (self.silent_ms(wall_ns) or 0) > LOST_MS else "running"


def is_gone(pid: int | None, boot: str | None) -> bool:
    """Return True if a process is known to have ended that ran as `pid`, on the machine and since its `boot`."""
    return boot == boot_id() and pid is not None and not _exists(pid)


def may_return(pid: int, boot: str | None) -> bool:
    """Return True if a process that ran as `pid` since this machine's `boot` may still run; else it has ended."""
    return boot == boot_id() and _exists(pid)


@functools.cache
def boot_id() -> str | None:
    """Return the identity of this machine's boot, as Linux has it; None where the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None


def _exists(pid: int) -> bool:
    if pid <= 0:
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # it belongs to another user
    try:  # an ended process exists until its parent has read its exit code
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] not in b"ZX"
    except (OSError, IndexError):
        return True  # a system without /proc


_PROC = Path("/proc")
_TABLES = _PROC / "self/net/tcp", _PROC / "self/net/tcp6"
HAS_PROC = all(paths.exists(path) for path in (_PROC / "self/environ", _TABLES[0]))
_ESTABLISHED, _LISTENS = "01", "0A"


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
        # The last digits of IPv4's addresses, also as mapped to IPv6, and those of `::1`.
        loopback = "7F", "00000000000000000000000001000000"
        return self.state == _ESTABLISHED and self.remote.partition(":")[0].endswith(loopback)


def pids_started_with(text: str | bytes) -> list[int]:
    """Return the processes that were started with a text in their environment, and that this one may look into."""
    needle, pids = os.fsencode(text), list[int]()
    for pid in _pids():
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            if needle in (_PROC / str(pid) / "environ").read_bytes():
                pids.append(pid)
    return pids


def has_secret(peer: tuple[str, int], local: tuple[str, int], secret: bytes) -> bool:
    """Return True if a process that has the peer's end of a connection was started with a secret in its environment.

    `peer` and `local` are the addresses of its ends, of IPv4.
    """
    ends = [_table_address(peer), _table_address(local)]
    inodes = {
        entry.inode
        for entry in _sockets()
        if entry.state == _ESTABLISHED and [address[-len(ends[0]) :] for address in (entry.local, entry.remote)] == ends
    }
    return bool(inodes) and any(not inodes.isdisjoint(_open_sockets(pid)) for pid in pids_started_with(secret))


def command_line(pid: int) -> list[str]:
    """Return the words of a process's command line; none if it has ended."""
    try:
        return os.fsdecode((_PROC / str(pid) / "cmdline").read_bytes()).rstrip("\0").split("\0")
    except OSError:
        return []


def called_ports(callers: Collection[int]) -> dict[int, int]:
    """Return the ports of this machine that processes are connected to, and the processes that listen there.

    Left out are those that listen themselves, and ports of another user's processes.
    """
    table = list(_sockets())
    caller_inodes = {inode for pid in callers for inode in _open_sockets(pid)}
    ports = {_port(entry.remote) for entry in table if entry.inode in caller_inodes and entry.is_to_loopback}
    listening = {
        entry.inode: entry.local_port for entry in table if entry.state == _LISTENS and entry.local_port in ports
    }
    foreign_inodes = set(listening) - caller_inodes
    if not foreign_inodes:
        return {}
    return {listening[inode]: pid for pid in _pids() for inode in _open_sockets(pid) if inode in foreign_inodes}


def listener(port: int) -> int | None:
    """Return a process that listens at a port of this machine; None if it is not known."""
    inodes = {entry.inode for entry in _sockets() if entry.state == _LISTENS and entry.local_port == port}
    return next((pid for pid in _pids() for inode in _open_sockets(pid) if inode in inodes), None)


def listening_ports() -> set[int]:
    """Return the ports of this machine at which processes of anybody listen."""
    return {entry.local_port for entry in _sockets() if entry.state == _LISTENS}


def _pids() -> Iterator[int]:
    if HAS_PROC:
        yield from (int(name) for name in os.listdir(_PROC) if name.isdigit())


def _open_sockets(pid: int) -> Iterator[str]:
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
                _, local, remote, state, _, _, _, _, _, inode, *_ = line.split()
                if state in (_ESTABLISHED, _LISTENS):
                    yield _Socket(local, remote, state, inode)


def _table_address(address: tuple[str, int]) -> str:
    """Return an address of IPv4 as the tables have it, where its number is in the machine's byte order."""
    host, port = address
    number = int.from_bytes(socket.inet_aton(host), sys.byteorder)
    return f"{number:08X}:{port:04X}"


def _port(address: str) -> int:
    return int(address.rpartition(":")[2], 16)
