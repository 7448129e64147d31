"""Both sides of a WebSocket, as they send."""

import json
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

from wsproto.extensions import PerMessageDeflate
from wsproto.frame_protocol import FrameProtocol

from wiretape.recorder.decode.exchange import Exchange, Reads, Sent

MS = 1_000_000
ASK = json.dumps({"type": "response.create", "model": "gpt-test", "input": "Hi"})


def side(extensions: str | None = None, *, client: bool = False) -> FrameProtocol:
    """Return the encoder of the frames of one side."""
    deflate = PerMessageDeflate()
    if extensions is not None:
        deflate.finalize(extensions)
    return FrameProtocol(client, [deflate])


def response(number: int, *words: str, **usage: int) -> list[str]:
    """Return the messages of a response of these words."""
    id = f"resp_{number}"
    answer = {"id": id, "object": "response", "model": "gpt-test", "status": "completed", "output": []}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": answer | {"status": "in_progress"}},
        *({"type": "response.output_text.delta", "output_index": 0, "item_id": "m", "delta": word} for word in words),
        {"type": "response.completed", "response": answer | {"usage": usage or None}},
    ]
    return list(map(json.dumps, events))


def timed(pieces: Iterable[tuple[int, bytes]]) -> tuple[Reads, bytes]:
    """Return reads that bring these bytes at these times, in ms, and all bytes."""
    at_ms, data = zip(*pieces, strict=True) if (pieces := list(pieces)) else ((), ())
    at_ns, sizes = [at * MS for at in at_ms], [*map(len, data)]
    starts = [*accumulate(sizes, initial=0)][: len(sizes)]
    return Reads(range(len(sizes)), at_ns, at_ns, starts, sizes), b"".join(data)


def websocket(
    came: Sequence[tuple[int, bytes]],
    sent: Sequence[tuple[int, bytes]],
    ended_by: str = "end",
    *,
    path: str = "/v1/responses",
    extensions: str | None = None,
    end_ms: int = 1000,
) -> tuple[Exchange, Reads, bytes]:
    """Return a WebSocket as the decoder takes it: data from upstream, and from the client."""
    reads, body = timed(came)
    facts = Exchange(
        status=101, ended_by=ended_by, connected_ns=1 * MS, headers_ns=2 * MS, end_ns=end_ms * MS,
        framing="websocket", method="GET", path=path, extensions=extensions, sent=Sent(*timed(sent)),
    )  # fmt: skip
    return facts, reads, body


UPSTREAM, CLIENT = side(), side(client=True)
CAME = [bytes(UPSTREAM.send_data(message)) for message in response(1, "Hel", "lo", output_tokens=2)]
CAME += [bytes(UPSTREAM.ping(b"\xff")), bytes(UPSTREAM.close(1000, "bye"))]
SENT = [bytes(CLIENT.send_data(ASK)), bytes(CLIENT.pong(b"\xff")), bytes(CLIENT.close(1000))]


Spoken = tuple[int, str, dict[str, Any]]
"""A message of a session: its time in ms, who sends it (`client`, `server`, or `bytes`: the server, in binary)."""


def session(
    path: str, messages: Iterable[Spoken], ended_by: str = "end", close: tuple[str, int] | None = ("client", 1000)
) -> tuple[Exchange, Reads, bytes]:
    """Return a WebSocket of JSON messages in both directions; it is closed 10 ms after the last one."""
    upstream, client = side(), side(client=True)
    received, sent, at_ms = list[tuple[int, bytes]](), list[tuple[int, bytes]](), 0
    for at_ms, who, message in messages:
        text = json.dumps(message)
        if who == "client":
            sent.append((at_ms, bytes(client.send_data(text))))
        else:
            received.append((at_ms, bytes(upstream.send_data(text.encode() if who == "bytes" else text))))
    if close is not None:
        maker, into = (client, sent) if close[0] == "client" else (upstream, received)
        into.append((at_ms + 10, bytes(maker.close(close[1], "why"))))
    return websocket(received, sent, ended_by, path=path, end_ms=at_ms + 20)
