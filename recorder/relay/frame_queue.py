"""The frames of a relay's journal, in their order, until the writer has acknowledged them. No I/O.

Entries and reads are gathered first, and become one frame when they are sent. Each writer gets all frames that earlier
ones have not acknowledged: the last of them are those that the present writer has not got yet.
"""

import sys
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import NamedTuple, Protocol

from wiretape.recorder.clock import Clock
from wiretape.recorder.tape import journal

_JOINED_BYTES = 256 << 10
"""Bytes after which no more is gathered into a frame, and no more frames are joined into one piece."""


class UnacknowledgedFrame(NamedTuple):
    """A frame that is not acknowledged yet: its number, time and bytes, and the count of its entries.

    `body` are the bytes of reads in it, `begins` counts exchanges, `ends` are the ids of those that it ends.
    """

    seq: int
    at: int
    data: bytes
    entries: int
    body: int
    begins: int
    ends: list[str]


class ReadSource(Protocol):
    """The origin of reads: an exchange's body, or a client's side; `seq` is the number of the next one to be sent."""

    id: str
    seq: int

    @property
    def is_client(self) -> bool:
        """True if the client sent them over a WebSocket."""


_Read = tuple[ReadSource, int, int | None, bytes]
"""Source, timestamp, time at which it was relayed, and bytes."""


class FrameQueue:
    """Gathered entries and reads, and the frames that are not acknowledged; `size` are the bytes of all.

    Reads are refused where `size` would pass `limit`. `on_read` is called with the first read that is gathered.
    """

    __slots__ = ("_clock", "_entries", "_frames", "_gathered", "_reads", "_unsent", "limit", "on_read", "seq", "size")

    def __init__(self, clock: Clock, limit: int = sys.maxsize, on_read: Callable[[], None] = lambda: None) -> None:
        self._clock, self.limit, self.on_read = clock, limit, on_read
        self._frames: deque[UnacknowledgedFrame] = deque()
        self._entries, self._reads = list[journal.Entry](), list[_Read]()
        """Gathered entries, and reads in their order. Reads are sorted when they are sent: each stream's own lists
        would be cold in the processor's caches whenever one of its reads comes."""
        self._gathered = self._unsent = 0
        self.seq = self.size = 0

    def __len__(self) -> int:
        return len(self._frames)

    @property
    def oldest_at(self) -> int | None:
        """The time of the oldest frame; None without any."""
        return self._frames[0].at if self._frames else None

    @property
    def entries(self) -> int:
        return sum(frame.entries for frame in self._frames)

    @property
    def is_sent(self) -> bool:
        """True if the present writer has got all frames."""
        return not self._unsent

    def put(self, entry: journal.Entry) -> None:
        """Gather an entry, which is encoded with those before it once they are large enough together."""
        size = 512  # an estimate of an entry without its body: its size is known when it is encoded
        match entry:
            case journal.Begin(body=bytes(data)) | journal.Upload(data=data) | journal.SocketReads(data=data):
                size += len(data)
        self._entries.append(entry)
        self.size += size
        self._gathered += size
        if self._gathered > _JOINED_BYTES:
            self.encode()

    def put_read(self, source: ReadSource, at_ns: int, relayed_ns: int | None, data: bytes, size: int) -> bool:
        """Gather a read of `size` bytes; return False if there is no room for it. Every read comes this way."""
        if self.size + size > self.limit:
            return False
        if not self._reads:
            self.on_read()
        self._reads.append((source, at_ns, relayed_ns, data))
        self.size += size
        self._gathered += size
        if self._gathered > _JOINED_BYTES:
            self.encode()
        return True

    def has_room_for_request(self, size: int) -> bool:
        """Return True if a request body may be kept: bodies leave a quarter of the room to responses."""
        return self.size + size <= self.limit // 4 * 3

    def admits(self) -> bool:
        """Return True if another exchange may be recorded: frames that must not be lost have a bound, too."""
        return self.size <= 2 * self.limit

    def encode(self) -> None:
        """Make one frame of all that was gathered."""
        entries, reads = self._entries, self._reads
        if not (entries or reads):
            return
        self._entries, self._reads = [], []
        self.size -= self._gathered
        self._gathered = 0
        if reads:
            entries.insert(0, _socket_reads(reads))
        body, begins, ends = 0, 0, list[str]()
        for entry in entries:
            match entry:
                case journal.SocketReads(data=data):
                    body += len(data)
                case journal.Begin():
                    begins += 1
                case journal.End(id=id):
                    ends.append(id)
        self.seq += 1
        data = journal.encode(self.seq, journal.Entries(entries))
        facts = (len(entries), body, begins, ends)
        self._frames.append(UnacknowledgedFrame(self.seq, self._clock.now(), data, *facts))
        self.size += len(data)
        self._unsent += 1

    def take_piece(self) -> bytes:
        """Return the next frames to be sent as one piece; a large one is alone and not copied: it may be a body."""
        pieces, size = list[bytes](), 0
        for frame in islice(self._frames, len(self._frames) - self._unsent, None):
            size += len(frame.data)
            if pieces and size > _JOINED_BYTES:
                break
            pieces.append(frame.data)
        self._unsent -= len(pieces)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def send_again(self) -> None:
        """Send all frames once more, to another writer."""
        self._unsent = len(self._frames)

    def acknowledge(self, seq: int) -> list[UnacknowledgedFrame]:
        """Remove the frames up to a number, and return them."""
        frames = list[UnacknowledgedFrame]()
        while self._frames and self._frames[0].seq <= seq:
            frames.append(self._frames.popleft())
            self.size -= len(frames[-1].data)
        self._unsent = min(self._unsent, len(self._frames))
        return frames

    def clear(self) -> list[UnacknowledgedFrame]:
        """Remove all frames, and return them."""
        return self.acknowledge(self.seq)


def _socket_reads(reads: Sequence[_Read]) -> journal.SocketReads:
    """Return gathered reads as an entry, those of each source together."""
    runs: dict[ReadSource, tuple[journal.ReadRun, list[bytes]]] = {}
    for source, at_ns, relayed_ns, data in reads:
        if source not in runs:
            runs[source] = journal.ReadRun(source.id, source.seq, [], [], [], source.is_client), []
        run, pieces = runs[source]
        source.seq += 1
        run.at_ns.append(at_ns)
        run.relayed_ns.append(relayed_ns)
        run.sizes.append(len(data))
        pieces.append(data)
    joined_data = b"".join([data for _, pieces in runs.values() for data in pieces])
    return journal.SocketReads([run for run, _ in runs.values()], joined_data)
