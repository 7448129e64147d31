"""Pure: the course of a test's requests, for assertions on the behaviour of its client.

All times are ms. Unknown values are None: the server sees its writes, when the client's buffers were full, and when the
client closed its connection.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from wiretape.viewer.wings.replay.serve import Served

MEANINGS: Final = {
    "method, path": "of the request",
    "asked_ms": "when the request came, since the test's server began; all other times are since then",
    "exchange": "the id of the recording that answered; miss: the reason that none did",
    "match": "why it answered: named, equal (bytes), fields (all that count), last (message) or path; or the mode of "
    "match=",
    "status": "of the answer",
    "faults": "those that were applied",
    "form": "the forms in which it was sent, with commas; None: as recorded",
    "head_ms": "when the answer's head was written",
    "writes": "the body as it was written, one write for each read of the recording: at_ms, size",
    "size": "the body bytes that were written",
    "waits": "spans, from at_ms to until_ms, in which the answer waited for the client: 256 KiB, beyond the "
    "system's buffers, were unread",
    "closed_ms": "when the client closed its connection before the answer was over; None: it did not",
    "ended_ms, ended": "when the answer was over, and how: end (whole), close, reset, garbage (as recorded, or by a "
    "fault), client (it closed before), refused (an error of wiretape's own, as for a miss), relayed (upstream "
    "answers, and is recorded), stopped (by the end of its test); None: it still runs",
}
"""The fields of a request in a timeline."""


@dataclass(frozen=True, slots=True)
class Write:
    """A write of body bytes, which is one read of the recording unless they were cut anew."""

    at_ms: float
    size: int


@dataclass(frozen=True, slots=True)
class Wait:
    """A span in which the client's buffers were full; `until_ms` is None if they stayed so."""

    at_ms: float
    until_ms: float | None


@dataclass(frozen=True, slots=True)
class RequestTimeline:
    """A request and its answer; its fields are explained in `MEANINGS`."""

    method: str
    path: str
    asked_ms: float
    exchange: str | None
    match: str | None
    status: int | None
    faults: tuple[str, ...]
    form: str | None
    miss: str | None
    head_ms: float | None
    writes: tuple[Write, ...]
    waits: tuple[Wait, ...]
    _closed_ms: float | None
    ended_ms: float | None
    ended: str | None
    _skipped_stall: bool = field(default=False, repr=False)

    @property
    def closed_ms(self) -> float | None:
        """When the client closed its connection early; None is given with a warning if a stall was not played."""
        if self._closed_ms is None and self._skipped_stall:
            warnings.warn(
                f"closed_ms is None, but the recorded stall of exchange {self.exchange} was not played: at speed=0, "
                "the default, there are no waits; mark the test with speed=1",
                stacklevel=2,
            )
        return self._closed_ms

    @property
    def size(self) -> int:
        return sum(write.size for write in self.writes)


def of(served: Sequence[Served], began_ns: int, *, has_waits: bool) -> list[RequestTimeline]:
    """Return the timelines of requests to a server that began at `began_ns`, in the order in which they came.

    It `has_waits` unless it answers as fast as possible.
    """
    return [
        RequestTimeline(
            method=request.method,
            path=request.path,
            asked_ms=(request.requested - began_ns) / 1e6,
            exchange=request.head.id if request.head else None,
            match=request.match.step if request.match else None,
            status=request.status,
            faults=request.faults,
            form=",".join(request.choice.names) or None,
            miss=request.miss.message if request.miss and request.ending != "relayed" else None,
            head_ms=_ms(request.head_ns),
            writes=tuple(Write(at / 1e6, size) for at, size in zip(request.written_ns, request.sizes, strict=True)),
            waits=tuple(Wait(at / 1e6, _ms(until or None)) for at, until in request.waits),
            _closed_ms=_ms(request.ended_ns) if request.ending == "client" else None,
            ended_ms=_ms(request.ended_ns),
            ended=request.ending or None,
            _skipped_stall=not has_waits and not request.faults and request.head is not None and request.head.has_stall,
        )
        for request in served
    ]


def _ms(ns: int | None) -> float | None:
    return None if ns is None else ns / 1e6
