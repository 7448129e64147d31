"""Explain why this machine could not open a socket or a file, and how to fix it.

Such a failure is easily mistaken for another: a connection that lacks a file descriptor looks like an upstream that
refuses, and a name lookup without one like an unknown name.
"""

import contextlib
import errno
import os
import resource  # at once: where no file can be opened, it cannot be imported either
import sys
import tempfile

from wiretape.recorder.errors import CannotListen

WANTED_DESCRIPTORS = (65536, 10240)
"""Soft limits of open files that a recorder tries to set, in this order."""
_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE})


_OTHERS = frozenset({errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL})


def is_local(error: OSError) -> bool:
    """Return True if a connection could not be opened because this machine lacks a resource."""
    return error.errno in _DESCRIPTORS | _OTHERS or not has_descriptors()


_DISK = frozenset({errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)})


def cause(error: OSError) -> str:
    """Return the missing resource and the remedy, as one message."""
    if error.errno in _DESCRIPTORS or not has_descriptors():
        return no_descriptors()
    if error.errno in _DISK:
        return f"no space is left in {tempfile.gettempdir()}: free some, or set TMPDIR to a directory that has more"
    return f"{error.strerror or str(error) or type(error).__name__}"


def cannot_listen(host: str, port: int, error: OSError, option: str = "--listen") -> CannotListen:
    """Return the error for an address at which nobody can listen; `option` names another."""
    match error.errno:
        case errno.EADDRNOTAVAIL | errno.EAFNOSUPPORT if host == "127.0.0.1":  # a namespace of IPv6 only
            cure = "this machine's loopback has no IPv4: 'ip addr add 127.0.0.1/8 dev lo' adds it"
        case errno.EADDRNOTAVAIL | errno.EAFNOSUPPORT:
            cure = f"this machine has no such address: name one that it has with {option}"
        case errno.EACCES:
            cure = f"use a port above 1023, or {option} :0"
        case errno.EADDRINUSE:
            cure = f"stop what does, or use {option} :0"
        case _:
            return CannotListen(f"cannot listen on {host}:{port}: {cause(error)}")
    reason = os.strerror(error.errno)  # asyncio's own words are a sentence
    return CannotListen(f"cannot listen on {host}:{port} ({reason}): {cure}")


def no_descriptors() -> str:
    """Return the message for a process that can open no more files."""
    limit = f"the limit is {descriptor_limits()[0]}"
    return f"no file descriptors are left ({limit}): raise the limit with 'ulimit -n' and start wiretape again"


def has_descriptors() -> bool:
    """Return True if this process can open a few more files, as a name lookup or a new process needs."""
    descriptors: list[int] = []
    try:
        for _ in range(4):
            descriptors.append(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return error.errno not in _DESCRIPTORS
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
    return True


def descriptor_limits() -> tuple[int, int]:
    """Return the soft and the hard limit of open files; `sys.maxsize` for none."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    endless = resource.RLIM_INFINITY
    return (sys.maxsize if soft == endless else soft), (sys.maxsize if hard == endless else hard)


def raise_descriptor_limit() -> None:
    """Raise the soft limit of open files towards the hard one: an exchange needs two or three."""
    soft, hard = descriptor_limits()
    for limit in WANTED_DESCRIPTORS:
        limit = min(limit, hard)
        if soft < limit:
            with contextlib.suppress(ValueError, OSError):  # some systems have a lower limit than they say
                resource.setrlimit(resource.RLIMIT_NOFILE, (limit, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
                return


def free_descriptors() -> int:
    """Return the number of files that this process can still open."""
    return max(descriptor_limits()[0] - _open_descriptors(), 0)


def _open_descriptors() -> int:
    for directory in ("/proc/self/fd", "/dev/fd"):
        with contextlib.suppress(OSError):
            return len(os.listdir(directory))
    usually_open = 24  # by a recorder at its start, where the system does not tell
    return usually_open
