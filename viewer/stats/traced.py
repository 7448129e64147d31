"""A finished exchange for traces: the facts that dashboards count, and further ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from wiretape.viewer.stats.dashboard import Ended

OWN_ATTRIBUTES: Final = {
    "wiretape.exchange.id": "the exchange on the tape; also the id of the span",
    "wiretape.api": "the API whose form the answer has",
    "wiretape.outcome": "how the exchange ended",
    "wiretape.outcome.detail": "the kind of that outcome",
    "wiretape.time_to_first_token": "s from the request to the first chunk with content, reasoning or a tool call",
    "wiretape.longest_gap": "s of the longest gap between reads with output",
    "wiretape.stall.count": "how many of these gaps are stalls",
    "wiretape.flags": "the flags of the exchange (wiretape help outcomes)",
    "wiretape.clock": "whose time a read has: kernel or loop",
    "wiretape.label.KEY": "a label of the exchange",
}
"""wiretape's own attributes of spans, with their meanings."""

EVENTS: Final = {
    "wiretape.first_chunk": "the first chunk of any kind came",
    "wiretape.stall": "a stall began; wiretape.stall.duration is how long it lasted, in s",
}
"""The events of spans."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """The facts of an exchange besides those that are `counted`; None is unknown.

    `started_ns` is the wall time of T0, in ns since the epoch.
    """

    id: str
    counted: Ended
    started_ns: int | None
    request_headers: Sequence[Sequence[str]] = ()
    labels: Mapping[str, str]
    clock: str | None = None
    outcome_detail: str | None = None
    response_id: str | None = None
    finish_reasons: Sequence[str] = ()
    conversation: str | None = None
    ttft_ns: int | None = None
    max_stall_ns: int | None = None
