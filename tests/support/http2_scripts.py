"""Scripted HTTP/2 exchanges: streams of one connection, and the view of both sides."""

import asyncio
import contextlib
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tests.support.http2 import LARGEST_STREAM, Ended, Headers, Limits, Peer, Stream, Upstream, ask, connect
from tests.support.relay import SECONDS


class Part(NamedTuple):
    """Data, sent in as many frames as windows ask for, and the length of their padding."""

    data: bytes
    padding: int | None

    def __repr__(self) -> str:
        return f"Part({len(self.data)} bytes, {self.padding})"


@dataclass(frozen=True, kw_only=True)
class Side:
    """The script of one side: headers, data, then trailers, a reset with this code, or neither."""

    headers: Headers = ()
    parts: Sequence[Part] = ()
    trailers: Headers | None = None
    reset: int | None = None

    @property
    def is_plain(self) -> bool:
        """The last frame of data, or the headers, end the stream."""
        return self.trailers is None and self.reset is None

    @property
    def is_empty(self) -> bool:
        """The headers are all."""
        return self.is_plain and not self.parts

    @property
    def body(self) -> bytes:
        """Return all data."""
        return b"".join(data for data, _ in self.parts)


@dataclass(frozen=True, kw_only=True)
class Script:
    """One exchange. The upstream answers once `awaited` bytes of the request came, or at its end.

    The client resets the stream with the code of `cancel` once that many bytes of the response came.
    """

    request: Side
    response: Side
    awaited: int | None = None
    cancel: tuple[int, int] | None = None


@dataclass(frozen=True)
class Leave:
    """A GOAWAY that the upstream sends with the last of `requests`: graceful, or refusing later ones."""

    requests: int
    code: int
    is_graceful: bool


@dataclass(frozen=True)
class Seen:
    """One side's view of a stream: the data received, and the end."""

    headers: Headers
    body: bytes
    trailers: Headers | None
    is_ended: bool
    reset: int | None
    own_reset: int | None = None
    has_sent_end: bool = True

    @classmethod
    def of(cls, stream: Stream) -> "Seen":
        """Return the view of a stream."""
        return cls(
            stream.head, bytes(stream.body), stream.trailers, stream.is_ended, stream.reset_code, stream.sent_reset,
            stream.has_sent_end,
        )  # fmt: skip


@dataclass(frozen=True)
class View:
    """Both sides of a stream; no upstream if its request did not get there."""

    path: str
    client: Seen
    upstream: Seen | None


async def send(stream: Stream, side: Side) -> None:
    """Send one side's data and its end."""
    parts = list(side.parts)
    for place, (data, padding) in enumerate(parts, 1):
        await stream.send(data, padding=padding, end=side.is_plain and place == len(parts))
    if side.reset is not None:
        stream.reset(side.reset)
    elif side.trailers is not None:
        stream.send_head(side.trailers, end=True)


class Scripts:
    """An upstream that answers by the script named in the path of a request."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.upstream = Upstream(self._answer, tls=tls)
        self._scripts: dict[str, Script] = {}
        self._streams: dict[str, Stream] = {}
        self._plays = 0
        self._leave: Leave | None = None

    async def _answer(self, stream: Stream) -> None:
        path = stream.headers[":path"]
        script, self._streams[path] = self._scripts[path], stream
        if self._leaves(stream):
            return
        if script.awaited is None:
            await stream.until(lambda: stream.is_ended)
        else:
            await stream.until(lambda: stream.is_ended or len(stream.body) >= (script.awaited or 0))
        side = script.response
        stream.send_head(side.headers, end=side.is_empty)
        await send(stream, side)

    def _leaves(self, stream: Stream) -> bool:
        """Send the GOAWAY when it is time; return True if it refuses the stream."""
        leave, peer = self._leave, stream.peer
        if leave is not None and peer.announced is None and len(self._streams) == leave.requests:
            peer.leave(leave.code, LARGEST_STREAM if leave.is_graceful else stream.id)
        return peer.announced is not None and stream.id > peer.announced

    async def play(
        self, base: str, scripts: Sequence[Script], client: Limits, upstream: Limits, prefix: str = "",
        tls: ssl.SSLContext | None = None, leave: Leave | None = None,
    ) -> list[View]:  # fmt: skip
        """Play scripts at once on one connection; return the views of each. The client's paths get the prefix."""
        self._plays += 1
        self._leave = leave
        self.upstream.limits = upstream
        self.upstream.peers = [peer for peer in self.upstream.peers if not peer.is_closed]
        self._scripts = {f"/{self._plays}/{number}": script for number, script in enumerate(scripts)}
        async with connect(base, client, tls) as peer, asyncio.timeout(SECONDS):
            streams = await asyncio.gather(
                *(request(peer, prefix + path, script) for path, script in self._scripts.items())
            )
            answered = [self._streams.pop(path, None) for path in self._scripts]
            for answered_view in filter(None, answered):
                if answered_view.peer.announced is None or answered_view.id <= answered_view.peer.announced:
                    await answered_view.closed()
        return [
            View(path, Seen.of(stream), Seen.of(other) if other else None)
            for path, stream, other in zip(self._scripts, streams, answered, strict=True)
        ]


async def request(peer: Peer, path: str, script: Script) -> Stream:
    """Play the client's side of a script; return its stream at the end."""
    side = script.request
    stream = peer.request(ask(path, *side.headers), end=side.is_empty)
    await asyncio.gather(_upload(stream, side), _cancel(stream, script))
    return await stream.over()


async def _upload(stream: Stream, side: Side) -> None:
    with contextlib.suppress(Ended):
        await send(stream, side)


async def _cancel(stream: Stream, script: Script) -> None:
    if script.cancel is not None:
        size, code = script.cancel
        with contextlib.suppress(Ended):
            await stream.until(lambda: len(stream.body) >= size or stream.is_ended)
            if not stream.is_ended:
                stream.reset(code)
