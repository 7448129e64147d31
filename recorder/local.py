"""What this machine lacks when a socket or a file cannot be opened: in words that say what to do.

Without a name of its own such a failure looks like somebody else's: a connection that cannot be opened for want of
a file descriptor looks like an upstream that refuses, and a name that cannot be looked up for the same reason like one
that does not exist.
"""

import errno
import os
import tempfile

_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE})
_DISK = frozenset({errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)})
_OTHERS = frozenset({errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL})


def is_local(error: OSError) -> bool:
    """Return whether an error in opening a connection is for want of something here."""
    return error.errno in _DESCRIPTORS | _OTHERS or not has_descriptors()


def cause(error: OSError) -> str:
    """Return what is missing, and what to do about it."""
    if error.errno in _DESCRIPTORS or not has_descriptors():
        return f"no file descriptors are left ({_limit()}): raise the limit with 'ulimit -n' and start wiretape again"
    if error.errno in _DISK:
        return f"no space is left in {tempfile.gettempdir()}: free some, or set TMPDIR to a directory that has more"
    return f"{error.strerror or str(error) or type(error).__name__}"


def spool_cause(error: OSError) -> str:
    """Return why a temporary file cannot be written, and what to do about it."""
    known = error.errno in _DISK | _DESCRIPTORS
    return cause(error) if known else f"{cause(error)} (a temporary file in {tempfile.gettempdir()}): set TMPDIR"


def has_descriptors() -> bool:
    """Return whether this process can open another file."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return error.errno not in _DESCRIPTORS
    return True


def descriptor_limits() -> tuple[int, int] | None:
    """Return how many files this process may open, and how many it may ask for; None where there is no such limit."""
    if os.name != "posix":
        return None
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft, hard


def _limit() -> str:
    limits = descriptor_limits()
    return f"the limit is {limits[0]}" if limits else "the limit is the system's"
