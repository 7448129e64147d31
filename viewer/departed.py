"""Whether a recorder's process is gone, as far as this machine can tell; when it was last heard of is on the tape.

It can tell only of what was started since its own boot: a process of that number may be another's on another machine.
"""

import functools
import os
from pathlib import Path


def is_gone(pid: int, boot_id: str | None) -> bool:
    """Say whether a recorder is gone that ran as `pid`, on the machine and since the boot of `boot_id`."""
    return boot_id is not None and boot_id == _boot_id() and not _lives(pid)


@functools.cache
def _boot_id() -> str | None:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:  # not every system has one
        return None


def _lives(pid: int) -> bool:
    if os.name != "posix" or pid <= 0:
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # it is somebody else's
    return True
