"""A small file beside a tape in which a relay keeps what the tape lacks, for the case that the disk is full to the end.

Its room is taken when a recorder starts, so that a full disk cannot refuse it. The relay writes into it while storing
is held up, and the next writer of the tape enters what it finds. It holds ids, sizes, times and status codes, and
nothing that was sent. Two slots are written in turn, each with a checksum: one of them is whole at any moment.
"""

import contextlib
import errno
import os
import queue
import struct
import threading
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from recorder.errors import TapeBusy

SLOT_BYTES = 256 << 10
_SLOTS = 2
_HEAD = struct.Struct("<8sQII")
_MAGIC = b"wtlost\x00\x01"
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)


class Relayed(msgspec.Struct, array_like=True, frozen=True, gc=False, omit_defaults=True):
    """What a relay knows of an exchange; `ended_by` is None while it runs."""

    id: str
    bytes: int
    ended_by: str | None = None
    status: int | None = None
    framing: str | None = None
    connected_ns: int | None = None
    sent_ns: int | None = None
    headers_ns: int | None = None
    end_ns: int | None = None
    client_closed_ns: int | None = None
    paused: int = 0
    surplus: bool = False


class Unstored(msgspec.Struct, array_like=True, frozen=True):
    """What a session relayed and had not stored; `unlisted` exchanges are counted only, with their bytes."""

    session: str
    exchanges: list[Relayed] = []
    unlisted: int = 0
    unlisted_bytes: int = 0

    def __bool__(self) -> bool:
        return bool(self.exchanges or self.unlisted)


def path_of(tape: Path) -> Path:
    """Return the path of a tape's file of what it lacks."""
    tape = tape.resolve()
    return tape.with_name(tape.name + ".unstored")


def prepare(tape: Path, session: str) -> None:
    """Make the file, private and with all of its room, and note the session. Raises `TapeBusy`."""
    path = path_of(tape)
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR | _NO_FOLLOW, 0o600)
        try:
            os.fchmod(descriptor, 0o600)
            _take_room(descriptor, _SLOTS * SLOT_BYTES)
            os.pwrite(descriptor, _encode(0, Unstored(session)), 0)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        cure = "free some space" if error.errno == errno.ENOSPC else "mend or remove it"
        raise TapeBusy(f"{path} cannot be written ({error.strerror}): {cure}, or use another tape") from error


def _take_room(descriptor: int, size: int) -> None:
    """Reserve `size` bytes and write them, as not every file system keeps what was only reserved."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
    written = 0
    while written < size:
        written += os.pwrite(descriptor, bytes(size - written), written)


def read(tape: Path) -> Unstored | None:
    """Return what the file holds; None if there is none, or nothing in it is whole."""
    try:
        descriptor = os.open(path_of(tape), os.O_RDONLY | _NO_FOLLOW)
    except OSError:
        return None
    with open(descriptor, "rb") as file:
        slots = [file.read(SLOT_BYTES) for _ in range(_SLOTS)]
    return max(_whole(slots), key=lambda slot: slot[0], default=(0, None))[1]


def _whole(slots: Iterable[bytes]) -> Iterator[tuple[int, Unstored]]:
    for slot in slots:
        with contextlib.suppress(struct.error, msgspec.MsgspecError):
            magic, number, size, checksum = _HEAD.unpack_from(slot)
            payload = slot[_HEAD.size : _HEAD.size + size]
            if magic == _MAGIC and len(payload) == size and zlib.crc32(payload) == checksum:
                yield number, msgspec.msgpack.decode(payload, type=Unstored)


def remove(tape: Path) -> None:
    """Remove the file: the tape lacks nothing, or knows itself what."""
    with contextlib.suppress(OSError):
        path_of(tape).unlink()


class Keeper:
    """Writes into the file that `prepare` made, in a thread of its own: a disk may take its time."""

    def __init__(self, tape: Path) -> None:
        self._descriptor = os.open(path_of(tape), os.O_RDWR | _NO_FOLLOW)
        self._waiting: queue.SimpleQueue[Unstored | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def keep(self, unstored: Unstored) -> None:
        """Have this written in place of what was; returns at once."""
        self._waiting.put(unstored)

    def close(self, seconds: float) -> None:
        """Wait so long at most until all of it is on the disk."""
        self._waiting.put(None)
        self._thread.join(seconds)

    def _write(self) -> None:
        number = 0
        with contextlib.suppress(OSError), open(self._descriptor, "r+b", buffering=0):
            while (unstored := self._waiting.get()) is not None:
                number += 1
                os.pwrite(self._descriptor, _encode(number, unstored), number % _SLOTS * SLOT_BYTES)
            os.fsync(self._descriptor)


def _encode(number: int, unstored: Unstored) -> bytes:
    """Encode a slot; where exchanges are too many, the last are only counted."""
    payload = msgspec.msgpack.encode(unstored)
    while len(payload) > SLOT_BYTES - _HEAD.size:
        unstored = _shortened(unstored)
        payload = msgspec.msgpack.encode(unstored)
    return _HEAD.pack(_MAGIC, number, len(payload), zlib.crc32(payload)) + payload


def _shortened(unstored: Unstored) -> Unstored:
    """Keep only the sizes of exchanges; if that is all there is, count the last tenth of them."""
    bare = [Relayed(one.id, one.bytes) for one in unstored.exchanges]
    if bare != unstored.exchanges:
        return msgspec.structs.replace(unstored, exchanges=bare)
    kept = len(bare) * 9 // 10
    return msgspec.structs.replace(
        unstored,
        exchanges=bare[:kept],
        unlisted=unstored.unlisted + len(bare) - kept,
        unlisted_bytes=unstored.unlisted_bytes + sum(one.bytes for one in bare[kept:]),
    )
