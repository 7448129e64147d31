"""Runs of recorders: whether each still runs, and how long ago it was heard of.

A process number says something only on the machine, and since its boot, that gave it. When a recorder was last heard of
is on the tape; a tape that is written to is read on the same machine, so the wall clock is its recorder's.
"""

import functools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, Literal

State = Literal["running", "ended", "lost"]

LOST_MS: Final = 15_000
"""Silence after which a recorder is lost; it reports every 5 s."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a recorder, as its tape has it. Times are wall times in UTC, ISO 8601.

    `gone` is whether its process is known to have ended; `upstreams` are pairs of a name and a URL.
    """

    pid: int
    heartbeat_at: str
    ended_at: str | None = None
    gone: bool = False
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
        return "lost" if self.gone or (self.silent_ms(wall_ns) or 0) > LOST_MS else "running"


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
        return True  # it is somebody else's
    try:  # one that has ended exists until its parent has asked how
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] not in b"ZX"
    except (OSError, IndexError):
        return True  # a system without /proc
