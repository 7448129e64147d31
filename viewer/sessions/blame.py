"""Pure: the party that made an exchange fail or stall, with the evidence for it.

The ending of a failed exchange decides, else its longest stall, else a burst. Of a client that left in a silence, the
party of that silence is the one. `upstream` includes the network before
the relay. The texts hold figures and words of wiretape only: no recorded text.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from wiretape.recorder.decode.attribution import Attribution
from wiretape.recorder.decode.exchange import FLAGS, Standing
from wiretape.recorder.decode.stalls import Thresholds
from wiretape.viewer.record.units import ms
from wiretape.viewer.text import formatting
from wiretape.viewer.timing import wording
from wiretape.viewer.timing.verdicts import Verdict, longest_stall

Party = Literal["upstream", "wiretape", "client", "unclear", "none"]

PARTIES: Final[dict[Party, str]] = {
    "upstream": "the provider, or the network before wiretape",
    "wiretape": "the recorder, or its machine",
    "client": "the program that sent the request",
    "unclear": "the tape cannot tell",
    "none": "nothing failed, stalled or came as a burst",
}
"""The parties of a verdict, and their meanings."""

MOST_STALLS: Final = 3

_ENDINGS: Final[dict[tuple[str, str | None], tuple[Party, str]]] = {
    ("complete", None): ("none", ""),
    ("open", None): ("unclear", "it still runs"),
    ("connect_error", None): ("upstream", ""),
    ("connect_error", "dns"): ("unclear", "the name may be wrong, or the resolver of the recorder's machine"),
    ("connect_error", "tls"): ("unclear", "the certificate may be wrong, or the trust of the recorder's machine in it"),
    ("connect_error", "local"): ("wiretape", ""),
    ("timeout", None): ("upstream", "the limits are those of the recorder"),
    ("http_error", None): ("unclear", ""),
    ("http_error", "rate_limited"): ("upstream", "the provider's limit of requests or tokens"),
    ("http_error", "server_error"): ("upstream", "by HTTP, a status from 500 on is the server's failure"),
    ("http_error", "client_error"): ("client", "by HTTP, a status of 400 to 499 finds fault with the request"),
    ("error_event", None): ("upstream", "it stood in the stream, after a successful status"),
    ("client_closed", None): ("client", ""),
    ("truncated", None): ("upstream", "the stream lacks its end"),
    ("malformed", None): ("upstream", ""),
    ("interrupted", None): ("wiretape", ""),
}
"""The party and a reason by outcome and its detail."""
_PARTY: Final[dict[str | None, Party]] = {
    "upstream": "upstream", "relay": "wiretape", "client": "client", None: "unclear",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Blame:
    """A party, and the evidence in sentences."""

    party: Party
    evidence: tuple[str, ...]


def blame(
    outcome: Standing, detail: str | None, timed: Attribution, verdicts: Sequence[Verdict], limits: Thresholds
) -> Blame:
    """Return the party of an exchange's ending, of its longest stall or of its burst."""
    party, reason = _ENDINGS.get((outcome, detail)) or _ENDINGS.get((outcome, None)) or ("unclear", "")
    stall = longest_stall(verdicts)
    silent_end = next((verdict for verdict in verdicts if verdict.until == "cut"), None)
    if outcome == "client_closed" and silent_end is not None and silent_end.who != "client":
        party, reason = _PARTY[silent_end.who], "the client left during a silence"
    if party == "none" and verdicts:
        party = _PARTY[(stall or verdicts[0]).who]
    untimed = timed.exchange.untimed
    if party == "none" and untimed is not None:
        party = "unclear"
    evidence = [*filter(None, (reason,)), *map(sentence, longest(verdicts))]
    if untimed is not None:
        evidence.append(f"timing unknown: {FLAGS[untimed]}")
    elif not verdicts:
        evidence.append(wording.nothing(limits))
    slowness = timed.slowness()
    if slowness.delay is not None:  # of all reads: the share of wiretape, and of the client
        waited = "" if slowness.client is None else f"; longest wait for the client {_ms(slowness.client.max_ns)}"
        evidence.append(f"wiretape handed each read on within {_ms(slowness.delay.max_ns)}{waited}")
    return Blame(party, tuple(evidence))


def longest(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return the burst, and the longest stalls in their order."""
    stalls = [verdict for verdict in verdicts if verdict.kind == "stall"]
    ranked = sorted(stalls, key=lambda stall: -stall.lasted_ns)[:MOST_STALLS]
    return [verdict for verdict in verdicts if verdict.kind == "burst" or verdict in ranked]


def sentence(verdict: Verdict) -> str:
    # Without the words around it, which are recorded, and without #, which trackers link.
    judged, evidence = wording.sentences(replace(verdict, before=None, after=None))
    kind = "stall: " if verdict.kind == "stall" else ""
    return f"{kind}{judged}; {evidence}".replace("#", "")


def _ms(ns: int) -> str:
    return f"{formatting.ms(ms(ns))} ms"
