"""Bytes of one direction of a WebSocket in, its messages and control frames out, each with its byte range.

RFC 6455, and RFC 7692 where compression was agreed on. `wsproto` unmasks, inflates and judges; it gets one frame at a
time, in small pieces, so that the byte range of each message is known and none is inflated beyond a limit.
"""

import struct
import sys
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from wsproto.extensions import Extension, PerMessageDeflate
from wsproto.frame_protocol import Frame, FrameProtocol, Opcode, ParseFailed

from wiretape.recorder.decode import encoding
from wiretape.recorder.decode.allowance import FRAME, MAX_LINES, Allowance, TooMuchError

Kind = Literal["text", "binary", "ping", "pong", "close", "broken", "limit"]

COMPRESSED: Final = 0x40
"""The bit of a frame's first byte that says that its message is compressed."""

_CONTROL: Final[dict[Opcode, Kind]] = {Opcode.PING: "ping", Opcode.PONG: "pong", Opcode.CLOSE: "close"}
# Deflate packs at most 1,032 to 1 (zlib.net/zlib_tech.html): a slice never inflates to more than 4 MiB at once.
_SLICE: Final = 4096
_TAKEOVER: Final = frozenset({"server_no_context_takeover", "client_no_context_takeover"})


class WebSocketMessage(NamedTuple):
    """A message, or a control frame: its bytes from the first of its first frame to the last of its last one.

    Control frames may stand between the frames of a message. `data` is the message itself, unmasked and inflated; of a
    close frame its code and reason as text. `broken`: the peer broke the protocol, and the rest cannot be read;
    `limit`: the rest is too large to be inflated, or too many frames.
    """

    start: int
    end: int
    kind: Kind
    data: bytes


def messages(
    data: bytes, *, from_client: bool, extensions: str | None, allowance: Allowance | None = None
) -> Iterator[WebSocketMessage]:
    """Yield the messages of one direction, up to its close frame; one that the end cuts off is left out.

    `extensions` are those that the server has accepted, `allowance` limits the frames.
    """
    return _FrameParser(data, from_client, extensions, allowance).run()


class Incoming:
    """The messages of one direction while its bytes arrive; all bytes are kept, and `size` counts them."""

    def __init__(self, *, from_client: bool, extensions: str | None) -> None:
        self._data = bytearray()
        self._parser = _FrameParser(self._data, from_client, extensions)

    @property
    def size(self) -> int:
        """The number of bytes received."""
        return len(self._data)

    def feed(self, data: bytes) -> list[WebSocketMessage]:
        """Return the messages that these bytes complete."""
        self._data += data
        return list(self._parser.run(is_final=False))


def frame_ends(data: bytes) -> list[int]:
    """Return the ends of the frames of one direction, those of fragments too; a last one that is cut off is left out.

    The number of frames is limited as in decoding.
    """
    ends, end = list[int](), 0
    while end < len(data) and len(ends) < MAX_LINES // FRAME and (end := _end(data, end)) <= len(data):
        ends.append(end)
    return ends


def payloads(data: bytes) -> Iterator[tuple[int, list[tuple[int, int, bytes]]]]:
    """Yield the payloads in the frames of each message or control frame, in the order of `messages`.

    Each has its byte range and the key that masks it, "" for none; before them, the first byte of the first frame: its
    opcode, and `COMPRESSED`. A message that was cut off is the last.
    """
    start, first_byte, frames = 0, 0, list[tuple[int, int, bytes]]()
    for end in frame_ends(data):
        at = start + {126: 4, 127: 10}.get(data[start + 1] & 0x7F, 2)
        key = data[at : at + 4] if data[start + 1] & 0x80 else b""
        frame = at + len(key), end, key
        if data[start] & 0x08:
            yield data[start], [frame]
        else:
            first_byte = first_byte if frames else data[start]
            frames.append(frame)
            if data[start] & 0x80:
                yield first_byte, frames
                frames = []
        start = end
    remainder = data[start:]
    if len(remainder) > 14:  # the longest head
        at = {126: 4, 127: 10}.get(remainder[1] & 0x7F, 2)
        key = remainder[at : at + 4] if remainder[1] & 0x80 else b""
        first_byte = first_byte if frames else remainder[0]
        frames.append((start + at + len(key), len(data), key))
    if frames:
        yield first_byte, frames


def masked(payload: bytes, key: bytes) -> bytes:
    """Return the payload of a frame masked by its key (RFC 6455, 5.3), which also undoes it."""
    return bytes(byte ^ key[place % 4] for place, byte in enumerate(payload)) if key else payload


def frame(payload: bytes, opcode: int, *, from_client: bool) -> bytes:
    """Return a message in one frame; a client's is masked, by a key of zeros."""
    size, mask = len(payload), 0x80 if from_client else 0
    form = ">BB" if size < 126 else ">BBH" if size < 1 << 16 else ">BBQ"
    sizes = (size,) if size < 126 else (126 if size < 1 << 16 else 127, size)
    head = struct.pack(form, 0x80 | opcode, mask | sizes[0], *sizes[1:])
    return head + (bytes(4) if from_client else b"") + payload


class _FrameParser:
    def __init__(
        self, data: bytes | bytearray, from_client: bool, extensions: str | None, allowance: Allowance | None = None
    ) -> None:
        self._data, self._at, self._allowance = data, 0, allowance
        self._messages = FrameProtocol(not from_client, _extensions(extensions))
        # Parsed separately: in a control frame, the extension forgets that the message around it is compressed.
        self._control = FrameProtocol(not from_client, [])
        self._start: int | None = None
        self._parts: list[bytes] = []
        self._inflated = 0

    def run(self, *, is_final: bool = True) -> Iterator[WebSocketMessage]:
        """Yield all messages that there are; unless the data are `is_final`, a frame waits for the rest of it."""
        size = len(self._data)
        while (start := self._at) < size:
            is_control = bool(self._data[start] & 0x08)
            end = _end(self._data, start)
            if end > size and not is_final:
                return
            end = self._at = min(end, size + 1)
            try:
                if self._allowance is not None:
                    self._allowance.take(FRAME)
                message = None
                if not is_control:
                    message = self._frame(start, end)
                else:
                    self._control.receive_bytes(bytes(self._data[start:end]))
                    for frame in self._control.received_frames():
                        message = WebSocketMessage(start, end, _CONTROL[frame.opcode], _payload(frame))
            except ParseFailed:
                message = WebSocketMessage(start, size, "broken", bytes(self._data[start:]))
            except TooMuchError:
                message = WebSocketMessage(start, size, "limit", b"")
            if message is not None:
                self._at = sys.maxsize if message.kind in ("close", "limit", "broken") else self._at
                yield message

    def _frame(self, start: int, end: int) -> WebSocketMessage | None:
        if self._start is None:
            self._start = start
        for place in range(start, end, _SLICE):
            piece = bytes(self._data[place : min(place + _SLICE, end)])
            self._messages.receive_bytes(piece)
            for frame in self._messages.received_frames():
                payload = _payload(frame)
                self._inflated += len(payload)
                if self._inflated > encoding.room(place + len(piece)):
                    return WebSocketMessage(start, len(self._data), "limit", b"")
                self._parts.append(payload)
                if frame.message_finished:
                    kind: Kind = "text" if frame.opcode is Opcode.TEXT else "binary"
                    message = WebSocketMessage(self._start, end, kind, b"".join(self._parts))
                    self._start, self._parts = None, []
                    return message
        return None


def _end(data: bytes | bytearray, start: int) -> int:
    """Return the end of the frame at `start`, beyond the data if that does not hold all of it."""
    head = data[start : start + 10]
    if len(head) < 2:
        return len(data) + 1
    size, at = head[1] & 0x7F, 2
    if size >= 126:
        form, at = (">H", 4) if size == 126 else (">Q", 10)
        if len(head) < at:
            return len(data) + 1
        (size,) = struct.unpack(form, head[2:at])
    return start + at + (4 if head[1] & 0x80 else 0) + int(size)


def _payload(frame: Frame) -> bytes:
    if isinstance(frame.payload, tuple):
        code, reason = frame.payload
        return f"{int(code)} {reason}".rstrip().encode()
    return frame.payload.encode() if isinstance(frame.payload, str) else bytes(frame.payload)


def _extensions(accepted: str | None) -> list[Extension]:
    """Return the extension that a server has accepted, ready to inflate.

    The agreed sizes of windows do not matter: the largest window inflates data of any.
    """
    for extension in (accepted or "").split(","):
        name, *parameters = (part.strip().lower() for part in extension.split(";"))
        if name == PerMessageDeflate.name:
            deflate = PerMessageDeflate()
            deflate.finalize("; ".join([name, *(part for part in parameters if part in _TAKEOVER)]))
            return [deflate]
    return []
