"""Pure: the facts of one exchange in words, the same in `show`, in the inspector and in the preview of the list.

Recorded text has passed `safe`; unknown is `–`. Verdicts and their words are in `timing.verdicts` and `timing.wording`.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from wiretape.recorder.decode import causes, rpc
from wiretape.recorder.decode.attribution import Slowness, Spread
from wiretape.recorder.decode.causes import Ending
from wiretape.recorder.decode.dialects import registry
from wiretape.recorder.decode.exchange import FLAGS, NOT_SHIPPED
from wiretape.recorder.decode.values import compact
from wiretape.recorder.facts import CLOCKS, PROTOCOLS
from wiretape.recorder.local_time import moment
from wiretape.recorder.plurals import counted
from wiretape.recorder.sanitize import clipped
from wiretape.viewer.exchange.states import ranked
from wiretape.viewer.record.rows import DetailRow, ListRow, value
from wiretape.viewer.text.cells import Part
from wiretape.viewer.text.formatting import UNKNOWN, amount, cell, count, host, line, ms, span
from wiretape.viewer.timing.verdicts import Verdict

Line = list[Part]
"""The pieces of a line, each with its tone."""


class RelaySide(NamedTuple):
    """A side of the relay: its name, the distribution of its delays (None: unknown), and its meaning."""

    name: str
    delays: Spread | None
    meaning: str


ATTRIBUTES: Final = "attributes"
"""The label of the values that a declared dialect names: they may hold texts of the answer."""
QUOTAS: Final = {
    "quota_requests_left": "{} requests left",
    "quota_tokens_left": "{} tokens left",
    "quota_5h_percent": "5 h used to {} %",
    "quota_7d_percent": "7 d used to {} %",
}
"""The fields of quotas, and their words."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A label and its value: one text, or figures that stay whole where the line is wrapped."""

    label: str
    parts: tuple[str, ...]


def _story(row: DetailRow) -> Iterator[Fact]:
    """Yield the start, model and operation, the ending and its reason, the labels, and the conversation if known."""
    response_model = f" (answered by {line(row.response_model)})" if row.response_model not in (None, row.model) else ""
    answered = f", answer {line(row.response_id)}" if row.response_id else ""
    yield Fact("started", (moment(row.started_at),))
    yield Fact("model", (f"{line(row.model)}{response_model}{answered}",))
    yield Fact("operation", (f"{line(row.operation)}, API {line(row.api)}",))
    yield Fact("outcome", (f"{line(row.ending)}: {reason(row)}",))
    yield Fact("status", (f"{cell(row.status)}, finish reason {line(row.finish_reason)}",))
    yield from labels(row)
    if attributes := row.derived["attributes"]:
        yield Fact(ATTRIBUTES, tuple(f"{line(name)} {_attribute(value)}" for name, value in attributes.items()))
    if row.conversation is not None:
        by = f", by {line(row.conversation_key_from)}" if row.conversation_key_from else ""
        continued = f"continues {line(row.continues)}" if row.continues else "continues nothing that is known"
        yield Fact("belongs to", (f"conversation {line(row.conversation)}{by}", continued))


def _attribute(value: Any) -> str:
    return line(clipped(value if isinstance(value, str) else compact(value), 200))


def measured(row: DetailRow, *, burst: bool) -> Iterator[Fact]:
    """Yield the durations, the gaps, the tokens and their cost; `burst` withholds tokens per second."""
    times = ("ttfb", "ttfc", "ttft", "ttfo", "ttst", "latency", "duration")
    gaps = {f"icl {name}": f"icl_{name}" for name in ("p50", "p90", "p99", "max")}
    gaps |= {"max gap": "max_gap", "max silence": "max_silence", "without output": "max_output_silence"}
    tokens = [f"{name} {count(value(row, f'{name}_tokens'))}" for name in ("input", "output", "reasoning", "total")]
    yield Fact("times ms", tuple(f"{name} {ms(value(row, f'{name}_ms'))}" for name in times))
    yield Fact("gaps ms", tuple(f"{label} {ms(value(row, f'{name}_ms'))}" for label, name in gaps.items()))
    yield from reported(row)
    tpot = row.tpot_ms
    # Hidden tokens did not come in this time, and of a burst only the time of its arrival is known.
    withheld = "hidden_tokens" if "hidden_tokens" in row.flags else "burst" if burst else None
    rate = f"withheld ({withheld})" if withheld else ms(1000 / tpot if tpot else None)
    yield Fact("tokens", (*tokens, f"tpot ms {ms(tpot)}", f"tps {rate}"))
    cost = () if row.cost is None else (f"{amount(row.cost)} {line(row.currency)}",)
    hits = () if row.cache_hit_rate is None else (f"from the cache {100 * row.cache_hit_rate:.1f} % of the input",)
    if cost or hits:
        yield Fact("cost", (*cost, *hits))


def reported(row: DetailRow) -> Iterator[Fact]:
    """Yield the times of the server itself, with the rest of the wire's time, and the quotas that it names."""
    times = {name: value(row, f"server_{name}_ms") for name in ("queue", "prefill", "decode", "total")}
    times["network and gateways"] = value(row, "network_ms")
    if parts := [f"{label} {ms(time)}" for label, time in times.items() if time is not None]:
        yield Fact("server ms", (*parts, f"from {line(value(row, 'server_times_from'))}"))
    if left := tuple(quotas({name: value(row, name) for name in QUOTAS})):
        yield Fact("quota", left)


def quotas(values: Mapping[str, float | None]) -> Iterator[str]:
    """Yield the known quotas in words."""
    for name, words in QUOTAS.items():
        if (number := values[name]) is not None:
            yield words.format(count(number) if isinstance(number, int) else f"{number:g}")


def all_facts(row: DetailRow, verdicts: Iterable[Verdict], headers: Iterable[Fact] = ()) -> Iterator[Fact]:
    """Yield all facts of an exchange, with those of its `headers` behind its story."""
    yield from _story(row)
    yield from headers
    yield from measured(row, burst=any(verdict.kind == "burst" for verdict in verdicts))
    of_streams = () if "nonstream" in row.flags else ("events", "comments", "chunks", "output_chunks")
    names = ("reads", *of_streams, "bytes", "gap_bytes")
    yield Fact("counts", tuple(f"{name.replace('_', ' ')} {count(value(row, name))}" for name in names))
    yield from transport(row)


def cache(row: DetailRow) -> Fact | None:
    """Return the verdict about the provider's cache, if there was anything to read; none for a first request."""
    if row.cache_verdict in (None, "first", "unknown"):
        return None
    is_read = row.cache_verdict in ("hit", "partial")
    place = f" at {line(row.cache_broken_at)}" if row.cache_broken_at and not is_read else ""
    details: list[str] = []
    if (expected := row.cache_expected_tokens) is not None:
        # An estimate by bytes is nothing beside a read of more tokens.
        common = row.cache_common_tokens if row.cache_broken_at and row.cache_verdict != "hit" else None
        details.append(
            f"{count(expected) if common is None else f'{count(common)} of {count(expected)}'} tokens expected"
        )
    if (cached := value(row, "cache_read_input_tokens")) is not None:
        details.append(f"{count(cached)} read")
    if row.cache_verdict == "expired":
        details.append(f"the last one {ms(row.cache_idle_ms)} ms before")
    if is_read and row.cache_broken_at:
        details.append(f"prompts differ at {line(row.cache_broken_at)}")
    if row.cache_remedy is not None:
        details.append(f"try {line(row.cache_remedy)}")
    verdict = f"{line(row.cache_verdict).replace('_', ' ')}{place}"
    return Fact("cache", (f"{verdict}: {', '.join(details)}" if details else verdict,))


def labels(row: DetailRow) -> Iterator[Fact]:
    if row.labels:
        yield Fact("labels", tuple(line(f"{key}={label}") for key, label in row.labels.items()))


def transport(row: DetailRow) -> Iterator[Fact]:
    """Yield the facts about the connection, the clock of the timestamps, and a request that broke off."""
    wordings = {True: "kept from an exchange before, without a connect", False: "new"}
    protocol = () if row.protocol is None else (PROTOCOLS.get(row.protocol, line(row.protocol)),)
    reused = () if row.connection_reused is None else (wordings[row.connection_reused],)
    if protocol or reused:
        yield Fact("connection", (*protocol, *reused))
    if row.clock is not None:
        late = () if row.clock_error_ms is None else (f"late by at most {ms(row.clock_error_ms)} ms",)
        meaning = f" ({CLOCKS[row.clock]})" if row.clock in CLOCKS else ""
        yield Fact("clock", (f"{line(row.clock)}{meaning}", *late))
    if row.request_truncated:
        yield Fact("request", ("its body broke off: it was not sent to its end",))


def flags(row: ListRow, replaced: Collection[str] = ()) -> Iterator[tuple[str, str]]:
    """Yield the flags and their meanings, the gravest first; those that verdicts have `replaced` are left out."""
    for flag in ranked(row.flags):
        if flag not in replaced:
            yield flag, FLAGS.get(flag, "not known to this version")


def who_was_slow(slowness: Slowness) -> Iterator[RelaySide]:
    yield RelaySide("upstream gap", slowness.upstream, "the provider, or the network before the relay")
    yield RelaySide("relay delay", slowness.relay, "wiretape itself")
    yield RelaySide("client wait", slowness.client, "your program reading slowly")
    if slowness.unclear is not None:
        yield RelaySide("unclear", slowness.unclear, "upstream, relay or client: the tape cannot tell")


def fault(row: ListRow) -> str:
    return ": ".join(line(text) for text in (row.error_code, row.error_message) if text)


def reason(row: ListRow, silence: str | None = None) -> str:
    """Return the reason of an exchange's end, or its present state; `silence` has the words for the stall at its end.

    By default these are those of the tape's flags.
    """
    describe = _REASONS.get(row.outcome)
    cause = f"{line(row.ending)}, which this version does not know" if describe is None else describe(row)
    silence = broken_off(row) if silence is None else silence
    return f"{f'{silence}: ' if silence else ''}{f'{cause} ({line(row.ended_detail)})' if row.ended_detail else cause}"


def broken_off(row: ListRow, *, is_brief: bool = False) -> str:
    """Return the words for an exchange that broke off in a stall of upstream's, by the flags of the tape; else ""."""
    if row.silent_end_by != "upstream" or row.last_silence_ms is None:
        return ""
    ending = Ending(row.outcome, row.outcome_detail, row.error_code, row.status)
    return causes.broken_off(ending, row.last_silence_ms, is_quiet=bool(row.silent_end_is_quiet), is_brief=is_brief)


def silent_end(row: ListRow, verdicts: Sequence[Verdict]) -> str:
    """Return the words for an exchange that broke off in a stall of upstream's, by verdicts; else ""."""
    stall = next((verdict for verdict in verdicts if verdict.until == "cut" and verdict.who == "upstream"), None)
    if stall is None:
        return ""
    ending = Ending(row.outcome, row.outcome_detail, row.error_code, row.status)
    return causes.broken_off(ending, stall.lasted_ns / 1e6, is_quiet=stall.is_quiet)


def no_text(row: DetailRow, hint: str) -> str:
    """Return the reason that an answer has no content; `hint` names the place of its body."""
    other_parts = [name.replace("_", " ") for name in ("refusal", "tool_calls", "reasoning") if getattr(row, name)]
    if other_parts:
        return f"the answer has only {' and '.join(other_parts)}"
    if message := fault(row):
        return f"an error came before any output ({message})"
    if not row.bytes or row.gap_bytes == row.bytes or NOT_SHIPPED in row.flags:
        return no_body(row, hint)
    if row.outcome == "open":
        return "the exchange is still open, and no content has come or been measured yet"
    size = f"{counted(row.bytes, 'byte')} of body ({line(row.ending)}); {hint}"
    if "unknown_payload" in row.flags:
        return f"not decoded: no dialect knows this stream; {size}"
    return f"no content was found in {size}"


def no_body(row: DetailRow, hint: str) -> str:
    """Return the reason that the tape has no body, or one without events."""
    if row.bytes is None and "no_timing" in row.flags:
        return f"nobody knows what came of the body ({line(row.ending)}): it was imported without it"
    if not row.bytes:
        return f"no body came ({line(row.ending)})"
    if row.gap_bytes == row.bytes:
        return "nothing of the body is on the tape"
    if NOT_SHIPPED in row.flags:
        return FLAGS[NOT_SHIPPED]
    if "no_timing" in row.flags:
        return f"nobody knows when the {counted(row.bytes, 'byte')} of the body came: {FLAGS['no_timing']}; {hint}"
    if "decode_limit" in row.flags:
        return f"decoding the {counted(row.bytes, 'byte')} of its body stopped at a limit before any came; {hint}"
    return f"the body of {counted(row.bytes, 'byte')} has none ({line(row.ending)}); {hint}"


def number_of(number: int | None, thing: str) -> str:
    """Return a number of things, which may be unknown."""
    return f"{UNKNOWN} {thing}s" if number is None else counted(number, thing)


def _complete(row: ListRow) -> str:
    if row.api in rpc.FRAMINGS:
        return "the call is complete; its messages are not decoded"
    if "unknown_payload" in row.flags:
        return "the body is whole; its stream is not decoded"
    signs = [f"finish reason {line(row.finish_reason)}"] if row.finish_reason else []
    dialect = registry.dialect_named(row.api)
    has_done = dialect is not None and dialect.has_done and not {"no_done", "nonstream"} & set(row.flags)
    signs += ["[DONE]"] if has_done else []
    return f"all came: {', '.join([*signs, _AFTERWARDS.get(row.ended_by or '', 'then the end')])}"


def _truncated(row: ListRow) -> str:
    if (row.outcome_detail or "").startswith("close_"):
        return f"upstream closed the WebSocket {_progress(row)}, before the answer was complete: {fault(row)}"
    if row.outcome_detail == "unknown":
        return f"upstream closed the connection {_progress(row)}; the stream, which is not decoded, may have been whole"
    if row.outcome_detail == "aborted":
        return f"upstream aborted the answer {_progress(row)}"
    if row.outcome_detail == "no_status":
        return f"upstream ended the stream {_progress(row)}, without the status of the call"
    signs_of_flags = {"no_done": "[DONE]", "no_finish": "a finish reason"}
    missing = [sign for flag, sign in signs_of_flags.items() if flag in row.flags]
    without = f", without {' or '.join(missing)}" if missing else ""
    return f"{_CUT.get(_end(row), 'upstream stopped').format(after=_progress(row))}{without}"


def _end(row: ListRow) -> str:
    """Return the end of the transport: `ended_by`, or the kind of the HTTP/2 frame that ended the stream."""
    frame = (row.outcome_detail or "").partition("_")[0]
    return frame if frame in ("rst", "goaway") else row.ended_by or ""


def _timeout(row: ListRow) -> str:
    waited = "" if row.duration_ms is None else f" ({span(row.duration_ms)} after the request)"
    if row.ended_by == "idle_timeout":
        return f"upstream fell silent {_progress(row)}, for longer than the recorder waits{waited}"
    awaited = "connection came about" if row.ended_by == "connect_timeout" else "answer came"
    return f"no {awaited} for as long as the recorder waits{waited}"


def _http_error(row: ListRow) -> str:
    message = fault(row)
    return f"upstream answered {cell(row.status)}{f': {message}' if message else ''}"


def _error_event(row: ListRow) -> str:
    places = {"before_output": " before any output", "mid_stream": " in mid-stream"}
    message, place = fault(row), places.get(row.outcome_detail or "", "")
    if row.outcome_detail == "finish":
        return f"upstream ended the answer with the finish reason {line(row.error_code or row.finish_reason)}"
    return f"upstream sent an error{place}{f': {message}' if message else ', without a message'}"


def _client_closed(row: ListRow) -> str:
    did = {"client_stalled": "stopped reading", "rst": "reset the stream"}.get(_end(row), "closed the connection")
    return f"the client {did} {_progress(row)}, before the answer was complete"


def _interrupted(row: ListRow) -> str:
    pid = f" (pid {row.recorder_pid})" if row.recorder_pid else ""
    did = {"shutdown": "was stopped", "local": "lacked resources"}.get(row.ended_by or "", "died")
    return f"the recorder{pid} {did} {_progress(row)}, before the answer was complete"


def _progress(row: ListRow) -> str:
    if row.events:
        return f"after {number_of(row.events, 'event')}"
    if row.bytes is None and "no_timing" in row.flags:  # the import did not have the body
        return "after an unknown part of the answer"
    return f"after {number_of(row.bytes, 'byte')}" if row.bytes else "before anything of the answer came"


_AFTERWARDS: Final = {
    "end": "then the end",
    "client": "then the client closed the connection",
    "client_stalled": "then the client stopped reading",
    "shutdown": "then the recorder was stopped",
    "died": "then the recorder died",
    "local": "then the recorder lacked file descriptors, ports or disk",
    "idle_timeout": "then nothing, not even the end, until the recorder waited no longer",
    "eof": "then upstream closed the connection without ending the body",
    "length": "then upstream closed the connection before its Content-Length",
    "reset": "then upstream reset the connection",
    "framing": "then bytes that are not HTTP",
}
_CUT: Final = {
    "end": "upstream ended the answer {after}",
    "eof": "upstream closed the connection {after}",
    "length": "upstream closed the connection {after}, before its Content-Length",
    "reset": "upstream reset the connection {after}",
    "framing": "upstream sent bytes that are not HTTP {after}",
    "rst": "upstream reset the stream {after}",
    "goaway": "upstream ended the connection {after}",
}
_UNCONNECTED: Final = {
    "dns": "the name {host} did not resolve",
    "refused": "{host} refused the connection",
    "local": "this machine had no file descriptors, ports or disk left for it, or wiretape refused its large head",
    "tls": "the TLS handshake with {host} failed",
    "protocol": "what {host} answered is no HTTP",
    "framing": "what {host} answered is no HTTP",
    "reset": "{host} reset the connection without an answer",
    "rst": "{host} reset the stream without an answer",
    "goaway": "{host} ended the connection without an answer",
}
_REASONS: Final[dict[str, Callable[[ListRow], str]]] = {
    "open": lambda row: "still running" if row.ended_by is None else "ended, and being measured",
    "complete": _complete,
    "malformed": lambda row: f"an event is not JSON, although {_complete(row)}",
    "truncated": _truncated,
    "timeout": _timeout,
    "http_error": _http_error,
    "error_event": _error_event,
    "connect_error": lambda row: _UNCONNECTED.get(_end(row), "{host} closed the connection without an answer").format(
        host=line(host(row.upstream))
    ),
    "client_closed": _client_closed,
    "interrupted": _interrupted,
}
