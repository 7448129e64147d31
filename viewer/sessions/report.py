"""Pure: the record of a report about exchanges, to paste into an issue; `issue` lays it out in lines.

It holds figures, words of wiretape, and those recorded texts that `disclosure` lets pass: no prompt, answer, key,
label, path or name of a machine. Unknown is None. The fields are a contract: `schema` has their meanings.
"""

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC
from typing import Any, Final

from wiretape.recorder.decode import payloads, rpc
from wiretape.recorder.decode.attribution import Attribution
from wiretape.recorder.decode.causes import Ending
from wiretape.recorder.decode.dialects import registry
from wiretape.recorder.decode.exchange import DETAILS, FLAGS, OPERATIONS, OUTCOMES, RESET_CODE, Operation, Standing
from wiretape.recorder.decode.stalls import Thresholds
from wiretape.recorder.errors import TapeDamaged
from wiretape.recorder.facts import CLOCKS, ENDED_BY, FRAMINGS, PROTOCOLS, ClockName, Framing
from wiretape.recorder.plurals import counted
from wiretape.viewer.exchange import request_ids, story
from wiretape.viewer.record import rows, units
from wiretape.viewer.record.fields import ACCOUNT_FIELDS
from wiretape.viewer.record.rows import DetailRow, Headers
from wiretape.viewer.sessions import blame
from wiretape.viewer.sessions.account import Account
from wiretape.viewer.sessions.disclosure import Disclosure
from wiretape.viewer.sessions.retries import Attempt, Attempts
from wiretape.viewer.text.formatting import ms
from wiretape.viewer.timing import wording
from wiretape.viewer.timing.verdicts import Verdict

MOST_EXCHANGES: Final = 5
"""Most exchanges of a session or a filter that are reported one by one."""
_LEFT_OUT: Final = "message left out"
"""Stands for the code of an error that has only a message."""
_ID: Final = re.compile(r"[0-9a-f]{16}")
_CLOSE: Final = re.compile(r"close_[0-9]{1,5}")
_CODES: Final = {
    "connect_error": (RESET_CODE,), "client_closed": (RESET_CODE,), "truncated": (RESET_CODE, _CLOSE),
}  # fmt: skip
"""The details with a code, by outcome."""
_VERSION: Final = re.compile(r"[0-9][0-9A-Za-z.+-]{0,31}")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_SECONDS: Final = re.compile(r"[0-9]{1,9}")
_DOUBTFUL: Final = (
    "clock_suspect", "coarse_clock", "no_timing", "storage_gap", "request_not_stored", "bytes_not_shipped", "rebuilt",
    "imported", "decode_limit", "undecoded", "unknown_payload", "no_usage", "hidden_tokens", "coalesced", "h2_offered",
)  # fmt: skip
"""Flags of unknown or doubtful figures."""
_COPIED: Final = (
    "id", "upstream", "api", "operation", "status", "outcome", "outcome_detail", "ttft_ms", "first_output_silence_ms",
    "max_output_silence_ms", "latency_ms", "duration_ms", "input_tokens", "output_tokens", "reads", "bytes", "framing",
    "connection_reused", "clock", "clock_error_ms",
)  # fmt: skip
"""Fields that a report takes from a cleaned row as they are; each is named, since a new one may hold a text."""


def _is(meaning: str) -> Any:
    return field(metadata={"doc": meaning})


@dataclass(frozen=True, slots=True)
class RequestId:
    """A header of a response that names the request to its provider."""

    header: str
    value: str


@dataclass(frozen=True, slots=True)
class Moment:
    """Something that happened at a time since T0."""

    at_ms: float
    what: str


@dataclass(frozen=True, slots=True)
class Retry:
    """An attempt as a report names it; `pause_ms` is the time between it and its neighbour towards the exchange."""

    id: str
    outcome: Standing
    status: int | None
    pause_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedExchange:
    """One exchange of a report.

    It holds no `Exchange`: it is published, and a field that nobody has looked at may hold a private text.
    """

    id: str = _is("the exchange's id on the tape")
    reasons: tuple[str, ...] = _is("why it is listed: failed, stalled, slowest; empty for a report on one exchange")
    started_at: str | None = _is("when it began, UTC")
    upstream: str = _is("host of a known provider; else 'a local server', or 'a server of no known provider'")
    api: str | None = _is("the API that decoded the answer")
    api_version: str | None = _is("the version header of the API, a date")
    operation: Operation | None = _is("chat, embeddings, …")
    model: str | None = _is("the model asked for")
    response_model: str | None = _is("the model that the answer names")
    status: int | None = _is("HTTP status")
    outcome: Standing = _is("the classification of its end: see wiretape help outcomes")
    outcome_detail: str | None = _is("its detail")
    ending: str = _is("its end in words")
    error_code: str | None = _is("the code or type of upstream's error")
    error_type: str | None = _is("the type that an error names beside its code, if it was found")
    error_message: str | None = _is("its message, with --with-text only")
    answer: str | None = _is("the beginning of the answer's content, with --with-text only")
    finish_reason: str | None = _is("the finish reason of the answer")
    retry_after_s: int | None = _is("seconds to wait, as the response's header asked")
    response_id: str | None = _is("the id in the answer's body")
    request_ids: tuple[RequestId, ...] = _is("headers with the provider's id of the request: header, value")
    verdict: blame.Party = _is(
        f"who was at fault: {'; '.join(f'{name}: {text}' for name, text in blame.PARTIES.items())}"
    )
    evidence: tuple[str, ...] = _is("the evidence for the verdict, in sentences")
    ttft_ms: float | None = _is("T0 to the first output")
    longest_gap_ms: float | None = _is("longest time between two reads with output")
    first_output_silence_ms: float | None = _is("T0 to the first output, or to the end of a stream without any")
    max_output_silence_ms: float | None = _is("longest later time without output, whatever ended it")
    latency_ms: float | None = _is("T0 to the last output")
    duration_ms: float | None = _is("T0 to the end")
    input_tokens: int | None = _is("input tokens, as usage reports them")
    output_tokens: int | None = _is("output tokens, as usage reports them")
    reads: int | None = _is("socket reads of the body")
    bytes: int | None = _is("bytes of the body")
    stalls: tuple[str, ...] = _is("its longest stalls: length, party, arrivals meanwhile, what ended each")
    timeline: tuple[Moment, ...] = _is("what happened when: at_ms since T0, what")
    attempt: int | None = _is("number of this attempt by the client's own count, from 1 on")
    retries_before: tuple[Retry, ...] | None = _is(
        "failed attempts at the same request before it: id, outcome, status, pause_ms"
    )
    retries_after: tuple[Retry, ...] | None = _is("attempts at the same request after it failed, in the same form")
    recorded_by: str | None = _is("the version of wiretape that recorded it")
    client: tuple[str, ...] = _is("products and versions that the client's User-Agent names")
    protocol: str | None = _is("HTTP/1.1, HTTP/2, or WebSocket; null: not known")
    framing: Framing | None = _is("delimiting of the body: chunked, length, close, h2, none, websocket")
    stream: str | None = _is("framing of the payloads: sse, ndjson, …; json is no stream")
    connection_reused: bool | None = _is("sent on a connection kept from an exchange before")
    clock: ClockName | None = _is("the source of the reads' timestamps: kernel, loop, imported, none")
    clock_error_ms: float | None = _is("the timestamps may be late by this much")
    flags: tuple[str, ...] = _is("the flags of the exchange: see wiretape help outcomes")
    unknown: tuple[str, ...] = _is("unknown facts, in sentences")


@dataclass(frozen=True, slots=True, kw_only=True)
class IssueReport:
    """A report on one exchange, a session or the exchanges of a filter."""

    kind: str = _is("exchange, session or filter")
    wiretape: str = _is("the version of wiretape that wrote the report")
    total: int = _is("number of exchanges that the report is about")
    endings: str = _is("how they ended, counted")
    first_started_at: str | None = _is("when the first one began, UTC")
    last_started_at: str | None = _is("when the last one began, UTC")
    time: Mapping[str, Any] | None = _is(
        f"the time account of its sessions, added up; null for one exchange: {', '.join(ACCOUNT_FIELDS)}"
    )
    verdict: blame.Party = _is("the verdict on the listed exchanges if they agree, else unclear")
    verdicts: Mapping[str, int] = _is("number of listed exchanges by their verdicts")
    exchanges: tuple[ReportedExchange, ...] = _is("the listed exchanges, in their order")
    unknown: tuple[str, ...] = _is("facts unknown of all listed exchanges, in sentences")


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """All that a tape has of an exchange for its report; `attempts` are None if its request is not known."""

    row: DetailRow
    timed: Attribution
    verdicts: Sequence[Verdict]
    request_headers: Headers
    response_headers: Headers
    attempts: Attempts | None = None
    retry_count: int | None = None
    recorded_by: str | None = None
    reasons: tuple[str, ...] = ()


def schema() -> dict[str, str]:
    """Return the fields of a report with their meanings, those of an exchange as `exchanges.NAME`."""
    return {
        f"{prefix}{field.name}": field.metadata["doc"]
        for prefix, record in (("", IssueReport), ("exchanges.", ReportedExchange))
        for field in dataclasses.fields(record)
    }


def cleaned(endings: Mapping[Ending, int]) -> dict[Ending, int]:
    """Return counts of endings without recorded text: an outcome that is none counts as not measured."""
    counts: dict[Ending, int] = {}
    for ending, count in endings.items():
        outcome: Standing = ending.outcome if ending.outcome in OUTCOMES else "unmeasured"
        is_overload = ending.code is not None and "overload" in ending.code.lower()
        clean = ending._replace(
            outcome=outcome, detail=_detail(outcome, ending.detail), code="overload" if is_overload else None
        )
        counts[clean] = counts.get(clean, 0) + count
    return counts


def chosen(ranked: Mapping[str, Sequence[int]]) -> dict[int, list[str]]:
    """Return the numbers of the exchanges to list, with their reasons: the first of each, then the second, …"""
    reasons_by_no: dict[int, list[str]] = {}
    for place in range(MOST_EXCHANGES):
        for numbers in ranked.values():
            if place < len(numbers) and len(reasons_by_no) < MOST_EXCHANGES:
                reasons_by_no.setdefault(numbers[place], [])
    for reason, numbers in ranked.items():
        for no in numbers:
            if no in reasons_by_no and (reason != "slowest" or not reasons_by_no[no]):
                reasons_by_no[no].append(reason)
    return reasons_by_no


def report(
    kind: str,
    version: str,
    exchanges: Sequence[ReportedExchange],
    endings: Mapping[Ending, int],
    started: tuple[object, object],
    described: str,
    time: Account | None = None,
) -> IssueReport:
    """Return the report on some exchanges; `endings` counts all of them, `described` in words."""
    counts: dict[str, int] = {}
    for exchange in exchanges:
        counts[exchange.verdict] = counts.get(exchange.verdict, 0) + 1
    parties = {exchange.verdict for exchange in exchanges if exchange.verdict != "none"}
    unknown = exchanges[0].unknown if exchanges else ()
    common = [text for text in unknown if all(text in exchange.unknown for exchange in exchanges)]
    first_start, last_start = map(_moment, started)
    step_text = "gaps between exchanges: the wall clock was set back, and a gap of unknown length counts as 0"
    return IssueReport(
        kind=kind,
        wiretape=version,
        total=sum(endings.values()),
        endings=described,
        first_started_at=first_start,
        last_started_at=last_start,
        time=None if time is None else time.row(),
        verdict=(parties.pop() if len(parties) == 1 else "unclear") if parties else "none",
        verdicts=counts,
        exchanges=tuple(exchanges),
        unknown=(*common, *([step_text] if time is not None and time.clock_step else ())),
    )


def reported(examined: Examined, rule: Disclosure, limits: Thresholds, *, with_text: bool = False) -> ReportedExchange:
    """Return the record of an exchange; only `with_text` it has the error's message and the answer."""
    sent, received = _first_of(examined.request_headers), _first_of(examined.response_headers)
    # An error, or an id, may repeat the name of a private host.
    rule = rule.hiding_hosts((examined.row.upstream, sent.get("host")))
    row = _cleaned(examined.row, rule)
    blamed = blame.blame(row.outcome, row.outcome_detail, examined.timed, examined.verdicts, limits)
    error = examined.timed.error
    error_type = None if error is None else payloads.error_type(examined.timed.decoded.item(error.item).data)
    versions = ({**sent, **received}.get(name, "") for name in ("anthropic-version", "openai-version"))
    retry_after = received.get("retry-after", "")
    names: dict[str, Any] = {
        "model": rule.name(examined.row.request_model),
        "response_model": rule.name(examined.row.response_model),
        "error_code": rule.name(examined.row.error_code)
        or (_LEFT_OUT if examined.row.error_message and not with_text else None),
        "error_type": rule.name(error_type),
        "response_id": rule.name(examined.row.response_id),
        "finish_reason": rule.name(examined.row.finish_reason),
    }
    names_by_header = {header: rule.name(received.get(header)) for header in request_ids.HEADERS}
    ids = [RequestId(header, name) for header, name in names_by_header.items() if name is not None]
    client = rule.client(sent.get("user-agent"))
    attempts = examined.attempts
    return ReportedExchange(
        **{name: rows.value(row, name) for name in _COPIED},
        reasons=examined.reasons,
        started_at=_moment(row.started_at),
        api_version=next((version for version in versions if _DATE.fullmatch(version)), None),
        **names,
        ending=_ending(row, examined.verdicts),
        error_message=_text(examined.row.error_message if with_text else None, rule),
        answer=_text(examined.row.content if with_text else None, rule),
        retry_after_s=int(retry_after) if _SECONDS.fullmatch(retry_after) else None,
        request_ids=tuple(ids[:5]),
        verdict=blamed.party,
        evidence=blamed.evidence,
        longest_gap_ms=row.max_gap_ms,
        stalls=tuple(
            wording.story(verdict, row.ended_by)
            for verdict in blame.longest(examined.verdicts)
            if verdict.kind == "stall"
        ),
        timeline=tuple(_timeline(row, examined)),
        attempt=None if examined.retry_count is None else examined.retry_count + 1,
        retries_before=None if attempts is None else _retries(attempts.earlier, attempts.pauses_before),
        retries_after=None if attempts is None else _retries(attempts.later, attempts.pauses_after),
        recorded_by=examined.recorded_by if examined.recorded_by and _VERSION.fullmatch(examined.recorded_by) else None,
        client=tuple(client),
        protocol=_protocol(row, examined.timed),
        stream=examined.timed.decoded.framing,
        flags=tuple(row.flags),
        unknown=tuple(_unknown(examined, row, names, has_ids=bool(ids), has_client=bool(client))),
    )


def _cleaned(row: DetailRow, rule: Disclosure) -> DetailRow:
    """Return a row whose texts are words of wiretape, or may be quoted; those of the answer are left out."""
    outcome: Standing = row.outcome if row.outcome in OUTCOMES else "unknown"
    return replace(
        row,
        id=row.id if _ID.fullmatch(row.id) else "unknown",
        upstream=rule.upstream(row.upstream),
        outcome=outcome,
        outcome_detail=_detail(outcome, row.outcome_detail),
        ended_by=row.ended_by if row.ended_by in ENDED_BY else None,
        ended_detail=None,
        error_code=rule.word(row.error_code) or (_LEFT_OUT if row.error_code or row.error_message else None),
        error_message=None,
        finish_reason=rule.word(row.finish_reason),
        api=row.api if row.api in rpc.FRAMINGS or registry.dialect_named(row.api) is not None else None,
        operation=row.operation if row.operation in OPERATIONS else None,
        framing=row.framing if row.framing in FRAMINGS else None,
        clock=row.clock if row.clock in CLOCKS else None,
        flags=[flag for flag in row.flags if flag in FLAGS],
        recorder_pid=None,
        labels={},
    )


def _ending(row: DetailRow, verdicts: Sequence[Verdict]) -> str:
    """Return the end of a cleaned row in words, with its longest stall."""
    if row.ended_by == "dns":
        return "the upstream's name did not resolve"
    # Trackers link a number behind #.
    return story.sentence(row, verdicts).replace("#", "").removesuffix(": ")


def _detail(outcome: Standing, detail: str | None) -> str | None:
    """Return a detail if it is of the list, whose texts begin with a detail each: others may quote a message."""
    details = {text.partition(" ")[0] for text in DETAILS.get(outcome, ())} if outcome in OUTCOMES else set()
    is_code = detail is not None and any(code.fullmatch(detail) for code in _CODES.get(outcome, ()))
    return detail if detail in details or is_code else None


def _first_of(headers: Headers) -> dict[str, str]:
    return {name.lower(): value for name, value in reversed(headers)}


def _moment(started_at: object) -> str | None:
    try:
        return f"{units.timestamp(str(started_at)).astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}Z"
    except TapeDamaged:
        return None


def _protocol(row: DetailRow, timed: Attribution) -> str | None:
    if row.framing == "websocket" and not timed.exchange.is_imported:
        return "WebSocket"
    return PROTOCOLS.get(row.protocol or "")


def _text(text: str | None, rule: Disclosure) -> str | None:
    # Most characters of an error's message and of an answer.
    return None if text is None else rule.text(text, 2000)


def _timeline(row: DetailRow, examined: Examined) -> list[Moment]:
    exchange, moments = examined.timed.exchange, [Moment(0.0, "request")]
    status = "" if row.status is None else f", status {row.status}"
    times = (
        (units.ms(exchange.connected_ns), "connected"),
        (units.ms(exchange.headers_ns), f"response head{status}"),
        (row.ttft_ms, "first output"),
        (row.latency_ms, "last output"),
    )
    moments += [Moment(at_ms, name) for at_ms, name in times if at_ms is not None]
    if (error := examined.timed.error) is not None and error.at_ns is not None:
        moments.append(Moment(error.at_ns / 1e6, "error payload"))
    for verdict in blame.longest(examined.verdicts):
        if verdict.kind == "stall":
            by = {"relay": "wiretape", None: "unclear"}.get(verdict.who, verdict.who)
            silence = f"silence of {ms(units.ms(verdict.lasted_ns))} ms begins ({by})"
            moments.append(Moment(verdict.from_ns / 1e6, silence))
    moments.sort(key=lambda moment: moment.at_ms)
    if exchange.end_ns is not None:
        end = f"end: {ENDED_BY[row.ended_by].partition(';')[0]}" if row.ended_by in ENDED_BY else "end"
        moments.append(Moment(exchange.end_ns / 1e6, end))
    return moments


def _retries(attempts: Sequence[Attempt], pauses: Sequence[int]) -> tuple[Retry, ...]:
    return tuple(
        Retry(
            attempt.id if _ID.fullmatch(attempt.id) else "unknown",
            attempt.outcome if attempt.outcome in OUTCOMES else "unknown",
            attempt.status,
            pause_ns / 1e6,
        )
        for attempt, pause_ns in zip(attempts, pauses, strict=True)
    )


def _unknown(
    examined: Examined, row: DetailRow, names: Mapping[str, str | None], *, has_ids: bool, has_client: bool
) -> Iterator[str]:
    yield "whether the network before wiretape or the provider was slow: for the tape, both are upstream"
    yield from (f"{flag}: {FLAGS[flag]}" for flag in _DOUBTFUL if flag in row.flags)
    stored_row = examined.row
    recorded = {
        "model": stored_row.request_model,
        "response_model": stored_row.response_model,
        "error_code": stored_row.error_code,
        "response_id": stored_row.response_id,
        "finish_reason": stored_row.finish_reason,
    }
    hidden = [name.replace("_", " ") for name, text in recorded.items() if text and names[name] is None]
    if hidden:
        yield f"{', '.join(hidden)}: left out, as no plain name (a path, a key, a name of this machine or a sentence)"
    if row.clock_error_ms is None:
        yield "how late the timestamps may be"
    if not has_ids and row.status is not None:
        yield "the provider's id of the request: the response has no such header"
    if not has_client:
        yield "the client's version: its User-Agent names none"
    if examined.attempts is None:
        yield "retries: the request is not on the tape as a whole"
    if row.gap_bytes:
        yield f"{counted(row.gap_bytes, 'byte')} of the answer"
