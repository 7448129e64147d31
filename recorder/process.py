"""Which boot of which machine this is: a process number says something only within one."""

from pathlib import Path


def boot_id() -> str | None:
    """Give the identity of this machine's boot, as Linux has it; None where the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:  # not every system has one
        return None
