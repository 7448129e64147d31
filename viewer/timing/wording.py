"""Verdicts in words: the judgement and its evidence, each in one line.

Recorded text passes `safe` here. `pages` lays the lines out, `verdicts` judges.
"""

from collections.abc import Callable, Sequence
from typing import Final

from wiretape.recorder.decode.stalls import Thresholds
from wiretape.recorder.plurals import counted
from wiretape.recorder.sanitize import clipped
from wiretape.viewer.record import units
from wiretape.viewer.text.formatting import UNKNOWN, count, line, ms, timestamp_with_unit
from wiretape.viewer.timing.verdicts import Verdict, longest_stall

_QUOTED: Final = 24
_UNCLEAR: Final = {
    "instants": "the timestamps are not those of socket reads",
    "missing": "reads of that time are missing from the tape",
    "handing_on": "relay or client, the tape cannot tell",
}
_CAUSES: Final = {
    "buffered": ("buffered", "upstream, or something on the way, held it back"),
    "compressed": ("buffered by compression", "a compressor before wiretape was not flushed for each"),
    "fake": ("fake streaming", "as if made whole, then cut up"),
}


def sentences(verdict: Verdict, timestamp: Callable[[int], str] = timestamp_with_unit) -> tuple[str, str]:
    """Return the judgement and its evidence; `timestamp` displays the start of a stall, given in ns since T0."""
    if verdict.kind == "stall":
        evidence = _blamed(verdict)
        if verdict.relay_ns is not None:
            evidence += f", relay {_ms(verdict.relay_ns)} ms"
        if verdict.client_ns is not None:
            wait = f"{_ms(verdict.client_ns)} ms of waiting" if verdict.client_ns else "no wait"
            evidence += f", {wait} for the client"
        return f"{_ms(verdict.lasted_ns)} ms from {timestamp(verdict.from_ns)}, {_place(verdict)}", evidence
    name, cause = _CAUSES[verdict.form]
    reads = counted(verdict.output_reads or 0, "read")
    judgement = f"{name}: {count(verdict.output_chunks)} output chunks in {reads} within {_ms(verdict.lasted_ns)} ms"
    share = 100 * (verdict.ttft_ns or 0) / verdict.latency_ns if verdict.latency_ns else 100.0
    wait = f"ttft {_ms(verdict.ttft_ns)} ms is {share:.1f} % of the latency"
    return judgement, f"{verdict.chunks_per_read or 0:,.1f} chunks a read, {wait}: {cause}"


def nothing(limits: Thresholds) -> str:
    """Return the words for no verdict at all."""
    return f"no stall of more than {limits.stall_ms:,g} ms, no burst"


def brief(verdicts: Sequence[Verdict]) -> str:
    """Return all verdicts on an exchange in a few words: the longest stall, the number of stalls, the burst."""
    count = sum(verdict.kind == "stall" for verdict in verdicts)
    parts = []
    if (longest := longest_stall(verdicts)) is not None:
        many = "stall" if count == 1 else f"{count:,} stalls, longest"
        parts.append(f"{many} {lasted(longest)}")
    for verdict in verdicts:
        if verdict.kind == "burst":
            parts.append(f"{_CAUSES[verdict.form][0]} in {counted(verdict.output_reads or 0, 'read')}")
    return ", ".join(parts)


def lasted(stall: Verdict) -> str:
    """Return the length of a stall and its party."""
    return f"{stall.lasted_ns / 1e9:,.1f} s {by(stall)}"


def story(stall: Verdict, ended_by: str | None) -> str:
    """Return the length of a stall, its party, its arrivals without output, and what ended it, in one phrase."""
    arrivals = "nothing came" if stall.is_quiet else f"only {_arrivals(stall) or 'parts of an event'} came"
    if stall.who in ("client", "relay"):
        arrivals = "data that had come was not handed on"
    of_wiretape = ("headers_timeout", "idle_timeout", "local", "shutdown", "died")
    match stall.until:
        case None:
            end = "then it went on"
        case "end":
            end = "until upstream ended the stream"
        case "error":
            end = "until upstream sent an error"
        case "cut" if ended_by in ("client", "client_stalled"):
            end = "until the client left"
        case "cut":
            end = f"until {'wiretape ended it' if ended_by in of_wiretape else 'upstream cut it'}"
    return f"{lasted(stall)}: {arrivals}, {end}"


def by(stall: Verdict) -> str:
    return f"by {stall.who}" if stall.who else "(unclear by whom)"


def _place(verdict: Verdict) -> str:
    if verdict.form == "end" and verdict.read is not None:
        return f"until it was cut off: read {verdict.read} was never handed on"
    if verdict.form == "end":
        event = {"error": "an error came", "end": "the stream ended"}.get(verdict.until or "", "it was cut off")
        return f"until {event}" + (f": {_quoted(verdict.before, last=True)} …" if verdict.before else "")
    place = f"read {verdict.read}" if verdict.event is None else f"event #{verdict.event}"
    handed = " was handed on" if verdict.form == "delivery" else ""
    words = f": {_quoted(verdict.before, last=True)} … {_quoted(verdict.after)}"
    return f"before {place}{handed}" + (words if verdict.before or verdict.after else "")


def _blamed(verdict: Verdict) -> str:
    if verdict.who == "upstream":
        return f"upstream {_sent(verdict)}"
    late = "it had come in time" if verdict.form == "delivery" else "data that had come was not read"
    match verdict.who:
        case "relay":
            return f"the relay: {late}, and nothing waited for the client"
        case "client":
            paused = "reading from upstream was paused for it" if verdict.form == "gap" else late
            return f"the client read slowly: {paused}"
    if verdict.unclear == "at_once":
        burst = f"what ended it brought {counted(verdict.output_chunks or 0, 'output chunk')} at once"
        return f"unclear: {burst}: held back before the relay, or the relay did not run"
    return f"unclear: {_UNCLEAR[verdict.unclear or 'handing_on']}"


def _sent(verdict: Verdict) -> str:
    if arrivals := _arrivals(verdict):
        return f"sent no output meanwhile, only {arrivals}"
    if verdict.reads_meanwhile:
        return f"sent only parts of an event meanwhile, in {counted(verdict.reads_meanwhile, 'read')}"
    return "silent"


def _arrivals(verdict: Verdict) -> str:
    """Return what came in a stall without being output, counted; empty without any."""
    comments, pings = verdict.comments_meanwhile or 0, verdict.pings_meanwhile or 0
    counts = {"comment": comments, "ping": pings, "other event": (verdict.events_meanwhile or 0) - pings}
    return " and ".join(counted(number, thing) for thing, number in counts.items() if number)


def _quoted(text: str | None, *, last: bool = False) -> str:
    if text is None:
        return UNKNOWN
    words = line(text)
    if len(words) > _QUOTED:
        words = f"…{words[-_QUOTED:]}" if last else clipped(words, _QUOTED)
    return f"'{words}'"


def _ms(ns: float | None) -> str:
    return ms(units.ms(ns))
