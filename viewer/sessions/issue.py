"""Pure: a report as at most 60 lines of Markdown, to paste into an issue.

Quoted names stand in code spans, times in a fence, texts in indented code: nothing in them is a mention, a link, HTML
or a reference to another issue.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from wiretape.recorder.plurals import counted
from wiretape.recorder.sanitize import clipped
from wiretape.viewer.sessions.account import PARTS
from wiretape.viewer.sessions.report import IssueReport, ReportedExchange, Retry
from wiretape.viewer.text.formatting import UNKNOWN, count, ms, span

MOST_LINES: Final = 60
_MOST_MOMENTS: Final = 8
_MOST_UNKNOWN: Final = 6
_MOST_STALLS: Final = 5
_MOST_RETRIES: Final = 3

Line = str


def lines(report: IssueReport) -> list[Line]:
    """Return a report as Markdown: of one exchange all that is known, of several a row each."""
    markdown = _exchange(report.exchanges[0], report) if report.kind == "exchange" else _several(report)
    return [*markdown]


def _exchange(exchange: ReportedExchange, report: IssueReport) -> Iterator[Line]:
    yield f"**Verdict: {exchange.verdict}**: {exchange.ending}"
    yield ""
    yield from _bullets(exchange.evidence, 5)
    yield from _table(("", ""), _facts(exchange, report))
    moments = exchange.timeline
    if len(moments) > _MOST_MOMENTS:  # what led to the end tells more than the connecting
        moments = (moments[0], *moments[1 - _MOST_MOMENTS :])
    yield from _fenced(f"{moment.at_ms / 1000:>10,.3f} s  {moment.what}" for moment in moments)
    yield "Not known:"
    yield ""
    yield from _bullets(exchange.unknown, _MOST_UNKNOWN)
    yield from _text("Error message", exchange.error_message)
    yield from _text("Answer", exchange.answer)
    yield _attachment([exchange.id])


def _facts(exchange: ReportedExchange, report: IssueReport) -> Iterator[tuple[str, str]]:
    yield "exchange", f"{_code(exchange.id)}, began {_time(exchange.started_at)}"
    response_model = exchange.response_model
    answered = f" answered by {_code(response_model)}" if response_model not in (None, exchange.model) else ""
    version = "" if exchange.api_version is None else f" {exchange.api_version}"
    api = f"{_code(exchange.api)}{version}"
    yield "model", f"{_code(exchange.model)}{answered}, {exchange.operation or UNKNOWN}, API {api}"
    yield "upstream", _upstream(exchange.upstream)
    status, reason = exchange.status or UNKNOWN, _code(exchange.finish_reason)
    yield "outcome", f"{_outcome(exchange)}, status {status}, finish reason {reason}"
    kind = f", type {_code(exchange.error_type)}" if exchange.error_type not in (None, exchange.error_code) else ""
    wait = "" if exchange.retry_after_s is None else f", retry after {exchange.retry_after_s:,} s"
    if exchange.error_code or kind or wait:
        yield "error", f"{_code(exchange.error_code)}{kind}{wait}"
    yield "request ids", _ids(exchange)
    yield "times", _times(exchange)
    size = f"{_counted(exchange.bytes, 'byte')} in {_counted(exchange.reads, 'read')}"
    tokens = f"{count(exchange.input_tokens)} in, {count(exchange.output_tokens)} out"
    yield "received", f"{size}; tokens: {tokens}"
    yield "retries", _retries(exchange)
    yield "client", ", ".join(map(_code, exchange.client)) or UNKNOWN
    yield "protocol", _protocol(exchange)
    late = "" if exchange.clock_error_ms is None else f", late by at most {ms(exchange.clock_error_ms)} ms"
    yield "clock", f"{exchange.clock or UNKNOWN}{late}"
    yield "wiretape", f"{report.wiretape}, recorded by {exchange.recorded_by or UNKNOWN}"
    if exchange.flags:
        more = f" and {len(exchange.flags) - 8} more" if len(exchange.flags) > 8 else ""
        yield "flags", ", ".join(exchange.flags[:8]) + more


def _several(report: IssueReport) -> Iterator[Line]:
    yield f"**Verdict: {report.verdict}**: {report.endings}"
    yield ""
    yield from _table(("", ""), _totals(report))
    if report.time is not None:
        yield from _table(("time", "ms", "share"), _parts(report.time, report.kind))
    titles = (
        "exchange", "began", "why", "model", "outcome", "verdict", "first token", "first silence", "longest silence",
        "request ids",
    )  # fmt: skip
    yield from _table(titles, map(_row, report.exchanges))
    yield from _fenced(
        f"{_since(exchange, report)}  {exchange.id}  {_ending_with_retries(exchange)}" for exchange in report.exchanges
    )
    if stalls := [f"{_code(exchange.id)} {stall}" for exchange in report.exchanges for stall in exchange.stalls]:
        yield "Stalls:"
        yield ""
        yield from _bullets(stalls, _MOST_STALLS)
    yield "Not known:"
    yield ""
    yield from _bullets(report.unknown, _MOST_UNKNOWN)
    yield _attachment([exchange.id for exchange in report.exchanges])


def _totals(report: IssueReport) -> Iterator[tuple[str, str]]:
    yield "exchanges", f"{report.total:,}, began {_time(report.first_started_at)} to {_time(report.last_started_at)}"
    if report.time is not None:
        ttft = report.time["ttft_p50_ms"]
        yield (
            "turns",
            f"{report.time['turns']:,}{'' if ttft is None else f', median to the first output {ms(ttft)} ms'}",
        )
    exchanges = report.exchanges
    verdicts = (f"{number:,} {party}" for party, number in report.verdicts.items())
    yield "listed", f"{len(exchanges):,} failed, stalled or slowest; verdicts: {', '.join(verdicts)}"
    yield "upstream", ", ".join(_distinct(_upstream(exchange.upstream) for exchange in exchanges))
    yield "client", ", ".join(_distinct(_code(name) for exchange in exchanges for name in exchange.client)) or UNKNOWN
    yield "protocol", "; ".join(_distinct(map(_protocol, exchanges)))
    yield "clock", ", ".join(_distinct(exchange.clock or UNKNOWN for exchange in exchanges))
    recorders = ", ".join(_distinct(exchange.recorded_by or UNKNOWN for exchange in exchanges))
    yield "wiretape", f"{report.wiretape}, recorded by {recorders}"


def _parts(time: Mapping[str, Any], kind: str) -> Iterator[tuple[str, str, str]]:
    wall = time["wall_ms"]
    parts = {name: time[f"{name}_ms"] for name in PARTS}
    for name, part in sorted(parts.items(), key=lambda item: -item[1]):
        if part:
            yield name, ms(part), f"{100 * part / wall:.1f} %"
    exchanges_max = counted(time["exchanges_max"], "exchange")
    yield "wall", ms(wall), f"at most {exchanges_max} at once" if kind == "session" else "sessions added up"


def _row(exchange: ReportedExchange) -> tuple[str, ...]:
    outcome = f"{_outcome(exchange)}{f', {exchange.status}' if exchange.status and exchange.status >= 300 else ''}"
    code = f" {_code(exchange.error_code)}" if exchange.error_code else ""
    times = (span(exchange.ttft_ms), span(exchange.first_output_silence_ms), span(exchange.max_output_silence_ms))
    names = _code(exchange.id), _time(exchange.started_at), ", ".join(exchange.reasons), _code(exchange.model)
    return (*names, outcome + code, exchange.verdict, *times, _ids(exchange))


def _since(exchange: ReportedExchange, report: IssueReport) -> str:
    if exchange.started_at is None or report.first_started_at is None:
        return f"{UNKNOWN:>10} s"
    began = datetime.fromisoformat(exchange.started_at) - datetime.fromisoformat(report.first_started_at)
    return f"{began.total_seconds():>10,.3f} s"


def _ending_with_retries(exchange: ReportedExchange) -> str:
    if not (exchange.retries_before or exchange.retries_after):
        return exchange.ending
    places = ((exchange.retries_before, "before"), (exchange.retries_after, "after"))
    attempts = [f"{counted(len(retries), 'attempt')} {place}" for retries, place in places if retries]
    return f"{exchange.ending}; {', '.join(attempts)}"


def _code(text: str | None) -> str:
    return UNKNOWN if text is None else f"`{text}`"


def _time(text: str | None) -> str:
    # UTC, whatever the zone of whoever makes the report: it is read by others.
    return UNKNOWN if text is None else f"{text[:23].replace('T', ' ')} UTC"


def _upstream(name: str) -> str:
    return name if " " in name else _code(name)


def _outcome(exchange: ReportedExchange) -> str:
    detail = f" ({exchange.outcome_detail})" if exchange.outcome_detail else ""
    return f"{exchange.outcome}{detail}"


def _ids(exchange: ReportedExchange) -> str:
    headers = [f"{request_id.header} {_code(request_id.value)}" for request_id in exchange.request_ids]
    answer = [f"answer {_code(exchange.response_id)}"] if exchange.response_id else []
    return ", ".join(headers + answer) or UNKNOWN


def _times(exchange: ReportedExchange) -> str:
    times = {
        "first output": exchange.ttft_ms, "longest silence of output": exchange.max_output_silence_ms,
        "last output": exchange.latency_ms,
        "end": exchange.duration_ms,
    }  # fmt: skip
    return ", ".join(f"{name} {UNKNOWN if value is None else f'{ms(value)} ms'}" for name, value in times.items())


def _counted(number: int | None, noun: str) -> str:
    return f"{UNKNOWN} {noun}s" if number is None else counted(number, noun)


def _retries(exchange: ReportedExchange) -> str:
    parts = [] if exchange.attempt is None else [f"attempt {exchange.attempt} by the client's count"]
    for name, retries in (("before", exchange.retries_before), ("after", exchange.retries_after)):
        if retries is None:
            return "; ".join([*parts, "unknown"])
        samples = ", ".join(map(_retry, retries[:_MOST_RETRIES])) + (", …" if len(retries) > _MOST_RETRIES else "")
        parts.append(f"{len(retries)} {name}{f' ({samples})' if retries else ''}")
    return "; ".join(parts)


def _retry(retry: Retry) -> str:
    status = f" {retry.status}" if retry.status is not None and retry.status >= 300 else ""
    return f"{_code(retry.id)} {retry.outcome}{status}, {retry.pause_ms / 1000:,.3f} s apart"


def _protocol(exchange: ReportedExchange) -> str:
    connection = {True: "kept connection", False: "new connection", None: None}[exchange.connection_reused]
    return ", ".join(filter(None, (exchange.protocol or UNKNOWN, exchange.framing, exchange.stream, connection)))


def _attachment(ids: Sequence[str]) -> str:
    id_arguments = " ".join(id for id in ids if id != "unknown") or "ID"
    cut = f"`wiretape db cut {id_arguments} -o report.jsonl`"
    return (
        f"To attach: {cut}, which replays exactly. It holds prompts and answers; `--redact REGEX` replaces words in it."
    )


def _distinct(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))[:_MOST_RETRIES]


def _bullets(texts: Sequence[str], most: int) -> Iterator[Line]:
    items = texts if len(texts) <= most else [*texts[: most - 1], f"{len(texts) - most + 1} more with --format json"]
    yield from (f"- {text}" for text in items)
    yield ""


def _table(titles: Sequence[str], cells: Iterable[Sequence[str]]) -> Iterator[Line]:
    yield f"| {' | '.join(titles)} |"
    yield f"|{'---|' * len(titles)}"
    yield from (f"| {' | '.join(row)} |" for row in cells)
    yield ""


def _fenced(texts: Iterable[str]) -> Iterator[Line]:
    yield "```text"
    yield from texts
    yield "```"
    yield ""


def _text(title: str, text: str | None) -> Iterator[Line]:
    """Yield a text as indented code, which nothing in it can end."""
    if text is None:
        return
    text_lines = [line for line in text.splitlines() if line.strip()]
    yield f"{title}:"
    yield ""
    yield from (f"    {clipped(line, 300)}" for line in text_lines[:4])
    yield ""
