"""Whether a recorder's process is gone, as far as this machine can tell; when it was last heard of is on the tape.

It can tell only of what was started since its own boot: a process of that number may be another's on another machine.
"""

import os

from recorder.process import boot_id


def is_gone(pid: int | None, boot: str | None) -> bool:
    """Say whether a recorder is gone that ran as `pid`, on the machine and since its `boot`."""
    return boot is not None and boot == boot_id() and pid is not None and not _lives(pid)


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
