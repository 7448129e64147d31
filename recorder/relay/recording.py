"""One exchange's way onto the tape: numbers its reads, counts lost data, and records the end."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from wiretape.recorder import facts
from wiretape.recorder.clock import Clock
from wiretape.recorder.facts import Answered, Begun, Connected, Ended, EndedBy, Framing
from wiretape.recorder.relay.tap import Tap
from wiretape.recorder.relay.upstream import ConnectionFacts
from wiretape.recorder.tape import journal
from wiretape.recorder.tape.losses import Began, Relayed
from wiretape.recorder.tape.redact import Redactor

REQUEST_STORED_BYTES = 16 << 20
"""Limit of a stored request body, in bytes; its size and hash are those of the whole body."""
STORED_BYTES = 64 << 20
"""Limit of a stored response body, in bytes; the remainder is relayed and counted."""
_MOST_BYTES = 1 << 50
_REDACTOR = Redactor(None)
_BEGUN = facts.names(Begun)
_begun_facts = attrgetter(*_BEGUN)
_answered_facts, _connected_facts, _end_facts = (
    facts.reader(Answered), facts.reader(Connected), facts.reader(Connected, Ended)
)  # fmt: skip


class UntakenRead(NamedTuple):
    """A read that the kernel has not taken for the other side; `end` is its place in all that was written there."""

    at: int
    data: bytes
    end: int


@dataclass(slots=True)
class _UploadProgress:
    """Progress of a request body of the `length` in its head, if any; `has_gap`: a piece could not be kept."""

    length: int | None
    size: int = 0
    sha256: Any = field(default_factory=hashlib.sha256)
    has_gap: bool = False


class ClientSide:
    """The recording of the client's side of a WebSocket."""

    is_client = True

    def __init__(self, tap: Tap, id: str, t0: int, *, storable: int, on_gap: Callable[[], None] = lambda: None) -> None:
        self._tap, self.id, self._t0, self._storable, self._on_gap = tap, id, t0, storable, on_gap
        self.bytes = self.gap = self.seq = 0

    def put_read(self, at: int, relayed: int | None, data: bytes) -> None:
        """Enter one read, handed to upstream at `relayed`; once one could not be kept, none after it is."""
        size = len(data)
        self.bytes += size
        relayed_ns = None if relayed is None else relayed - self._t0
        is_kept = self.bytes <= self._storable
        if not is_kept or not self._tap.frames.put_read(self, at - self._t0, relayed_ns, data, size):
            self._storable = -1
            self.gap += size
            self._tap.counts.dropped_bytes += size
            self._on_gap()


class ExchangeFrames(ConnectionFacts):
    """The frames of one exchange, the source of its reads (`frame_queue.ReadSource`), and the facts that they bring.

    Timestamps are given as the clock's, and stored relative to T0.
    """

    __slots__ = (
        "_client", "_clock", "_described", "_end", "_frames", "_gap", "_head", "_put", "_request", "_started_ns",
        "_storable", "_tap", "_unrecorded", "_upload", "boot_ns", "bytes", "client_closed_ns", "id", "seq",
    )  # fmt: skip

    is_client = False

    def __init__(self, tap: Tap, clock: Clock, id: str) -> None:
        super().__init__(clock.now())
        self._tap, self._clock, self.id, self._frames = tap, clock, id, tap.frames
        self._put: Callable[[journal.Entry], None] = tap.put
        """Sends a frame."""
        self._storable = STORED_BYTES
        self._gap = self.bytes = self.seq = 0
        self._upload: _UploadProgress | None = None
        self.client_closed_ns: int | None = None
        self._unrecorded = False
        self._head: journal.Head | None = None
        self._end: journal.End | None = None
        self._described: tuple[tuple[object, ...], Relayed] | None = None
        self._client: ClientSide | None = None
        self._started_ns: int | None = None
        self.boot_ns: int | None = None
        self._request: tuple[Any, ...] | None = None

    def start(self) -> None:
        """Set T0, and `boot_ns`, the boot clock at T0: the request is about to be sent upstream."""
        self._started_ns, self.boot_ns = self._clock.wall_ns(), self._clock.boot_ns()
        self.t0 = self._clock.now()

    @property
    def started_at(self) -> str:
        """The wall time at T0."""
        return self._clock.wall(self._started_ns)

    def begin(self, frame: journal.Begin) -> None:
        """Enter the request, which may be on its way since `start`.

        Where there is no room, its body is left out, but not its size and hash. Without body and size, the body comes
        in pieces: `upload`, `uploaded`.
        """
        has_room = self._frames.has_room_for_request(min(len(frame.body or b""), REQUEST_STORED_BYTES))
        if frame.body and not has_room:
            frame = msgspec.structs.replace(frame, body=None)
        if frame.body_size is None:
            length = next((int(value) for name, value in frame.headers if name == b"content-length"), _MOST_BYTES)
            self._upload = _UploadProgress(length if length < _MOST_BYTES else None)
        elif frame.body is None:
            self._tap.counts.dropped_bytes += min(frame.body_size, REQUEST_STORED_BYTES)
        self._unrecorded = not (has_room or self._frames.admits())
        if self._unrecorded:
            self._tap.counts.unrecorded += 1
            self._storable, self._put = -1, _send_nothing
        self._request = _begun_facts(frame)
        self._tap.unstored.follow(self)
        if self._unrecorded:
            self._tap.unstored.note_lack(self)
        self._put(frame)
        if self._started_ns is None:
            self.start()

    def upload(self, data: bytes) -> None:
        """Enter a piece of the request body; once one could not be kept, none after it is.

        Pieces after the end of the exchange are ignored: the body has been truncated there.
        """
        upload = self._upload
        if upload is None:
            return
        start = upload.size
        upload.size += len(data)
        upload.sha256.update(data)
        piece = data[: max(REQUEST_STORED_BYTES - start, 0)]
        if not piece:
            return
        if upload.has_gap or self._unrecorded or not self._frames.has_room_for_request(len(piece)):
            upload.has_gap = True
            self._tap.counts.dropped_bytes += len(piece)
        else:
            self._put(journal.Upload(self.id, start, piece))

    @property
    def takes_upload(self) -> bool:
        """True while more of the request body can be stored."""
        upload = self._upload
        return upload is not None and upload.size < REQUEST_STORED_BYTES and not (upload.has_gap or self._unrecorded)

    def uploaded(self, *, is_whole: bool) -> None:
        """Enter that no more of the request body comes; `is_whole`: all of it came."""
        upload, self._upload = self._upload, None
        if upload is not None:
            size, sha256 = (upload.size, upload.sha256.hexdigest()) if is_whole else (upload.length, None)
            self._put(journal.Uploaded(self.id, size, sha256, truncated=not is_whole))

    def put_head(self, status: int, headers: list[tuple[bytes, bytes]], framing: Framing | None) -> None:
        """Record the head of the response, with the times until then."""
        self._head = journal.Head(
            id=self.id,
            headers=headers,
            status=status,
            framing=framing,
            headers_ns=self.headers_ns,
            connected_ns=self.connected_ns,
            sent_ns=self.sent_ns,
            connection_reused=self.connection_reused,
            clock=self.clock,
            protocol=self.protocol,
        )
        self._put(self._head)

    def put_read(self, at: int, relayed: int | None, data: bytes) -> None:
        """Enter one read; once one of a stream could not be kept, none after it is."""
        t0, size = self.t0, len(data)
        self.bytes += size
        relayed_ns = None if relayed is None else relayed - t0
        if self.bytes > self._storable or not self._frames.put_read(self, at - t0, relayed_ns, data, size):
            self._storable = -1
            self._gap += size
            self._tap.counts.dropped_bytes += size
            self._tap.unstored.note_lack(self)

    def switch(self) -> ClientSide:
        """Return the recording of the client's side, after the exchange has become a WebSocket."""
        storable = -1 if self._unrecorded else STORED_BYTES
        self._client = ClientSide(
            self._tap, self.id, self.t0, storable=storable, on_gap=lambda: self._tap.unstored.note_lack(self)
        )
        return self._client

    def end(
        self,
        ended_by: EndedBy,
        detail: str | None,
        at: int,
        *,
        paused: int = 0,
        surplus: bool = False,
        trailers: list[tuple[bytes, bytes]] | None = None,
        reset_code: str | None = None,
    ) -> None:
        """Enter the end of the exchange; a request body that is still coming is truncated.

        `paused` counts how often upstream had to wait for the client; `surplus`: bytes followed the response's end.
        `reset_code` is the HTTP/2 error that ended it, as `exchange.reset_code` names it.
        """
        if self._upload is not None:
            self.uploaded(is_whole=False)
        self._end = journal.End(
            id=self.id,
            ended_by=ended_by,
            ended_detail=detail and detail.encode("utf-8", "replace").decode(),
            end_ns=at - self.t0,
            client_closed_ns=self.client_closed_ns,
            bytes=self.bytes,
            gap_bytes=self._gap,
            paused=paused,
            surplus=surplus,
            clock_error_ns=self.clock_error_ns,
            client_bytes=None if self._client is None else self._client.bytes,
            client_gap_bytes=None if self._client is None else self._client.gap,
            trailers=trailers,
            reset_code=reset_code,
            connected_ns=self.connected_ns,
            sent_ns=self.sent_ns,
            connection_reused=self.connection_reused,
            clock=self.clock,
            protocol=self.protocol,
        )
        self._put(self._end)
        if self._unrecorded:
            self._tap.unstored.forget(self)

    def relayed(self) -> Relayed:
        """Return the facts about the exchange until now, for a tape that cannot be written."""
        # While storing is late, this is called for each exchange four times a second, on the loop that relays.
        client_bytes = None if self._client is None else self._client.bytes
        progress = (
            self._request, self._head, self._end, self.bytes, client_bytes, self.client_closed_ns,
            self.connected_ns, self.sent_ns, self.clock_error_ns,
        )  # fmt: skip
        if self._described is not None and self._described[0] == progress:
            return self._described[1]
        if self._end is not None:
            ending = _end_facts(self._end) | {"ended_detail": None}  # it is not redacted, and losses go to the disk
        else:
            ending = _connected_facts(self) | {
                "client_closed_ns": self.client_closed_ns,
                "bytes": self.bytes,
                "clock_error_ns": self.clock_error_ns,
                "client_bytes": client_bytes,
            }
        began: Began | None = None
        if self._request is not None:
            request = dict(zip(_BEGUN, self._request, strict=True))
            path, upstream = request["path"].partition("?")[0], request["upstream"]
            began = Began(**request | {"path": _REDACTOR.path(path), "upstream": _REDACTOR.url(upstream)})
        answer = {} if self._head is None else _answered_facts(self._head)
        relayed = Relayed(id=self.id, began=began, **answer, **ending)
        self._described = progress, relayed
        return relayed


def _send_nothing(frame: journal.Entry) -> None:
    pass


class _Unentered(ClientSide):
    def put_read(self, at: int, relayed: int | None, data: bytes) -> None:
        """Enter nothing."""


class Unrecorded(ExchangeFrames):
    """An exchange that is relayed, but neither recorded nor counted as missing."""

    def begin(self, frame: journal.Begin) -> None:
        """Enter nothing, from now on either."""
        self._put = _send_nothing

    def put_read(self, at: int, relayed: int | None, data: bytes) -> None:
        """Enter nothing."""

    def switch(self) -> ClientSide:
        """Return a client's side that records nothing."""
        return _Unentered(self._tap, self.id, self.t0, storable=0)
