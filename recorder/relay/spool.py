"""Request bodies on their way upstream: in memory within a budget, and beyond it in private temporary files.

A body is read whole before its request is sent, so that its size and hash are known and a request over the limit never
reaches upstream. All bodies together may hold `MEMORY_BYTES` of memory; what is more goes to a file that has no name
(or loses it at once), that only this user can read, and that is gone when the exchange is over. The disk is accessed by
threads: a slow one must not hold up the streams of others. The directory is Python's: `TMPDIR`, else the system's.
"""

import asyncio
import hashlib
import tempfile
from collections.abc import AsyncIterator
from typing import IO

import httpx

MEMORY_BYTES = 32 << 20
"""Held by all bodies together."""
BODY_MEMORY_BYTES = 8 << 20
"""Held by one: more than any text, and most images."""
_PIECE = 256 << 10


class Memory:
    """Counts the bytes that bodies hold."""

    def __init__(self, limit: int = MEMORY_BYTES) -> None:
        self._limit = limit
        self.used = 0

    def reserve(self, size: int) -> bool:
        """Reserve `size` bytes; return False if there are not so many."""
        if self.used + size > self._limit:
            return False
        self.used += size
        return True

    def release(self, size: int) -> None:
        """Release `size` bytes."""
        self.used -= size


class Body(httpx.AsyncByteStream):
    """A request's body. Iterating over it yields the pieces to send, once, and releases their memory."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._pieces: list[bytes] = []
        self._held = 0
        self._file: IO[bytes] | None = None
        self._digest = hashlib.sha256()
        self.size = 0

    @property
    def sha256(self) -> str:
        """The SHA-256 of all that was appended, in hex."""
        return self._digest.hexdigest()

    @property
    def is_spooled(self) -> bool:
        """Whether a part of it is in a file."""
        return self._file is not None

    async def append(self, data: bytes) -> None:
        """Append the next piece; raises OSError if it can be held neither in memory nor in a file."""
        self._digest.update(data)
        self.size += len(data)
        if self._file is None and self.size <= BODY_MEMORY_BYTES and self._memory.reserve(len(data)):
            self._pieces.append(data)
            self._held += len(data)
        else:
            await asyncio.to_thread(self._spool, data)

    def _spool(self, data: bytes) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the exchange
        self._file.write(data)
        self._file.flush()

    async def start(self, size: int) -> bytes:
        """Return the first `size` bytes; to be called before the body is iterated over."""
        held = b"".join(self._pieces)
        self._pieces = [held]
        if self._file is None:
            return held[:size]
        return held[:size] + await asyncio.to_thread(self._read, 0, max(size - len(held), 0))

    def stream(self) -> httpx.AsyncByteStream:
        """Return what to send: in one piece if it is in memory."""
        return self if self.is_spooled else httpx.ByteStream(b"".join(self._pieces))

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while self._pieces:
            piece = self._pieces.pop(0)
            yield piece
            self._drop(len(piece))
        position = 0
        while self._file is not None and (data := await asyncio.to_thread(self._read, position, _PIECE)):
            position += len(data)
            yield data

    def _read(self, position: int, size: int) -> bytes:
        assert self._file is not None
        self._file.seek(position)
        return self._file.read(size)

    def forget_sent(self) -> None:
        """Release the memory of a body that was sent in one piece."""
        if not self.is_spooled:
            self._pieces.clear()
            self._drop(self._held)

    def _drop(self, size: int) -> None:
        self._held -= size
        self._memory.release(size)

    def close(self) -> None:
        """Release the memory and the file."""
        self._pieces.clear()
        self._drop(self._held)
        if self._file is not None:
            self._file.close()
