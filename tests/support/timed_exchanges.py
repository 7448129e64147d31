"""Streams with given timestamps, for the tests of verdicts."""

from collections.abc import Sequence

from tests.support.sample_tape import event
from wiretape.recorder.decode.attribution import Attribution
from wiretape.recorder.decode.decoder import decode
from wiretape.recorder.decode.derive import derive
from wiretape.recorder.decode.exchange import Exchange, Read

MS = 1_000_000
COMMENT = b": ping\n\n"
EMPTY = event({"content": ""})

Part = tuple[int, bytes] | tuple[int, bytes, int | None]
"""A read: when it came, its bytes, and when it was handed on, in ms; at once if that is not given, None is never."""


def word(text: str = "a ") -> bytes:
    return event({"content": text})


def facts(
    *parts: Part, by: str | None = "end", end: float | None = None, **other: object
) -> tuple[Exchange, list[Read], bytes]:
    reads, start = list[Read](), 0
    for seq, (at, data, *relayed_part) in enumerate(parts):
        relayed = relayed_part[0] if relayed_part else at + 0.05
        relayed_ns = None if relayed is None else round(relayed * MS)
        reads.append(Read(seq, at * MS, relayed_ns, start, len(data)))
        start += len(data)
    last_ms = end if end is not None else parts[-1][0] + 1
    known = {
        "status": 200,
        "content_type": "text/event-stream",
        "content_encoding": None,
        "connected_ns": MS,
        "headers_ns": 2 * MS,
        "path": "/v1/chat/completions",
    }
    exchange = Exchange(**{**known, "ended_by": by, "end_ns": None if by is None else round(last_ms * MS), **other})  # type: ignore[arg-type]
    return exchange, reads, b"".join(part[1] for part in parts)


def timed(*parts: Part, **other: object) -> Attribution:
    exchange, reads, body = facts(*parts, **other)  # type: ignore[arg-type]
    return Attribution(exchange, reads, decode(exchange, reads, body))


def outcome(*parts: Part, **other: object) -> str:
    return derive(*facts(*parts, **other)).outcome  # type: ignore[arg-type]


def evenly(count: int, gap: int, first: int = 0) -> Sequence[Part]:
    return [(first + gap * at, word(f"w{at} ")) for at in range(count)]
