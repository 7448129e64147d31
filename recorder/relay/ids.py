"""The ids of exchanges: random, from a buffer, as a call to the system for each costs more than the id."""

import os

BYTES = 8
_BUFFERED = 512

_buffer = ""


def _forget() -> None:
    global _buffer
    _buffer = ""


os.register_at_fork(after_in_child=_forget)  # or both processes would give the same ids


def new() -> str:
    """Return a new id: 16 random hexadecimal digits."""
    global _buffer
    if not _buffer:
        _buffer = os.urandom(BYTES * _BUFFERED).hex()
    id, _buffer = _buffer[: 2 * BYTES], _buffer[2 * BYTES :]
    return id
