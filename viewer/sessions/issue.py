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
from wiretape.viewer.sessions.report import IssueReport, Moment, ReportedExchange, Retry
from wiretape.viewer.text.formatting import UNKNOWN, count, ms, span

MOST_LINES: Final = 60
_MOST_EVIDENCE: Final = 5
_MOST_MOMENTS: Final = 8
_MOST_UNKNOWN: Final = 6
_MOST_RETRIES: Final = 3
_MOST_FLAGS: Final = 8
_TEXT_LINES: Final = 4
_TEXT_WIDTH: Final = 300

Line = str


def lines(report: IssueReport) -> list[Line]:
    """Return a report as Markdown: of one exchange all that is known, of several a row each."""
    found = _exchange(report.exchanges[0], report) if report.kind == "exchange" else _several(report)
    return [*found]


def _exchange(one: ReportedExchange, report: IssueReport) -> Iterator[Line]:
    yield f"**Verdict: {one.verdict}**: {one.ending}"
    yield ""
    yield from _bullets(one.evidence, _MOST_EVIDENCE)
    yield from _table(("", ""), _facts(one, report))
    yield from _fenced(f"{at.at_ms / 1000:>10,.3f} s  {at.what}" for at in _some(one.timeline))
    yield "Not known:"
    yield ""
    yield from _bullets(one.unknown, _MOST_UNKNOWN)
    yield from _text("Error message", one.error_message)
    yield from _text("Answer", one.answer)
    yield _attachment([one.id])


def _facts(one: ReportedExchange, report: IssueReport) -> Iterator[tuple[str, str]]:
    yield "exchange", f"{_code(one.id)}, began {_time(one.started_at)}"
    yield (
        "model",
        f"{_code(one.model)}{_answered(one)}, {one.operation or UNKNOWN}, API {_code(one.api)}{_version(one)}",
    )
    yield "upstream", _upstream(one.upstream)
    yield "outcome", f"{_outcome(one)}, status {one.status or UNKNOWN}, finish reason {_code(one.finish_reason)}"
    kind = f", type {_code(one.error_type)}" if one.error_type not in (None, one.error_code) else ""
    wait = "" if one.retry_after_s is None else f", retry after {one.retry_after_s:,} s"
    if one.error_code or kind or wait:
        yield "error", f"{_code(one.error_code)}{kind}{wait}"
    yield "request ids", _ids(one)
    yield "times", _times(one)
    yield "received", f"{_counted(one.bytes, 'byte')} in {_counted(one.reads, 'read')}; tokens: {_tokens(one)}"
    yield "retries", _retries(one)
    yield "client", ", ".join(map(_code, one.client)) or UNKNOWN
    yield "protocol", _protocol(one)
    late = "" if one.clock_error_ms is None else f", late by at most {ms(one.clock_error_ms)} ms"
    yield "clock", f"{one.clock or UNKNOWN}{late}"
    yield "wiretape", f"{report.wiretape}, recorded by {one.recorded_by or UNKNOWN}"
    if one.flags:
        yield "flags", _listed(one.flags, _MOST_FLAGS)


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
    yield from _fenced(f"{_since(one, report)}  {one.id}  {_told(one)}" for one in report.exchanges)
    yield "Not known:"
    yield ""
    yield from _bullets(report.unknown, _MOST_UNKNOWN)
    yield _attachment([one.id for one in report.exchanges])


def _totals(report: IssueReport) -> Iterator[tuple[str, str]]:
    yield "exchanges", f"{report.total:,}, began {_time(report.first_started_at)} to {_time(report.last_started_at)}"
    if report.time is not None:
        ttft = report.time["ttft_p50_ms"]
        yield (
            "turns",
            f"{report.time['turns']:,}{'' if ttft is None else f', median to the first output {ms(ttft)} ms'}",
        )
    listed = report.exchanges
    verdicts = (f"{number:,} {party}" for party, number in report.verdicts.items())
    yield "listed", f"{len(listed):,} failed, stalled or slowest; verdicts: {', '.join(verdicts)}"
    yield "upstream", ", ".join(_distinct(_upstream(one.upstream) for one in listed))
    yield "client", ", ".join(_distinct(_code(name) for one in listed for name in one.client)) or UNKNOWN
    yield "protocol", "; ".join(_distinct(map(_protocol, listed)))
    yield "clock", ", ".join(_distinct(one.clock or UNKNOWN for one in listed))
    yield (
        "wiretape",
        f"{report.wiretape}, recorded by {', '.join(_distinct(one.recorded_by or UNKNOWN for one in listed))}",
    )


def _parts(time: Mapping[str, Any], kind: str) -> Iterator[tuple[str, str, str]]:
    wall = time["wall_ms"]
    parts = {name: time[f"{name}_ms"] for name in PARTS}
    for name, part in sorted(parts.items(), key=lambda one: -one[1]):
        if part:
            yield name, ms(part), f"{100 * part / wall:.1f} %"
    most = counted(time["exchanges_max"], "exchange")
    yield "wall", ms(wall), f"at most {most} at once" if kind == "session" else "sessions added up"


def _row(one: ReportedExchange) -> tuple[str, ...]:
    outcome = f"{_outcome(one)}{f', {one.status}' if one.status and one.status >= 300 else ''}"
    code = f" {_code(one.error_code)}" if one.error_code else ""
    times = (span(one.ttft_ms), span(one.first_output_silence_ms), span(one.max_output_silence_ms))
    why = ", ".join(one.reasons)
    return _code(one.id), _time(one.started_at), why, _code(one.model), outcome + code, one.verdict, *times, _ids(one)


def _since(one: ReportedExchange, report: IssueReport) -> str:
    if one.started_at is None or report.first_started_at is None:
        return f"{UNKNOWN:>10} s"
    began = datetime.fromisoformat(one.started_at) - datetime.fromisoformat(report.first_started_at)
    return f"{began.total_seconds():>10,.3f} s"


def _told(one: ReportedExchange) -> str:
    if not (one.retries_before or one.retries_after):
        return one.ending
    before, after = len(one.retries_before or ()), len(one.retries_after or ())
    told = [f"{counted(count, 'attempt')} {place}" for count, place in ((before, "before"), (after, "after")) if count]
    return f"{one.ending}; {', '.join(told)}"


def _code(text: str | None) -> str:
    return UNKNOWN if text is None else f"`{text}`"


def _time(text: str | None) -> str:
    # UTC, whatever the zone of whoever makes the report: it is read by others.
    return UNKNOWN if text is None else f"{text[:23].replace('T', ' ')} UTC"


def _upstream(name: str) -> str:
    return name if " " in name else _code(name)


def _answered(one: ReportedExchange) -> str:
    return f" answered by {_code(one.response_model)}" if one.response_model not in (None, one.model) else ""


def _version(one: ReportedExchange) -> str:
    return "" if one.api_version is None else f" {one.api_version}"


def _outcome(one: ReportedExchange) -> str:
    detail = f" ({one.outcome_detail})" if one.outcome_detail else ""
    return f"{one.outcome}{detail}"


def _ids(one: ReportedExchange) -> str:
    named = [f"{found.header} {_code(found.value)}" for found in one.request_ids]
    answer = [f"answer {_code(one.response_id)}"] if one.response_id else []
    return ", ".join(named + answer) or UNKNOWN


def _times(one: ReportedExchange) -> str:
    known = {
        "first output": one.ttft_ms, "longest silence of output": one.max_output_silence_ms,
        "last output": one.latency_ms,
        "end": one.duration_ms,
    }  # fmt: skip
    return ", ".join(f"{name} {UNKNOWN if value is None else f'{ms(value)} ms'}" for name, value in known.items())


def _counted(number: int | None, noun: str) -> str:
    return f"{UNKNOWN} {noun}s" if number is None else counted(number, noun)


def _tokens(one: ReportedExchange) -> str:
    return f"{count(one.input_tokens)} in, {count(one.output_tokens)} out"


def _retries(one: ReportedExchange) -> str:
    parts = [] if one.attempt is None else [f"attempt {one.attempt} by the client's count"]
    for name, found in (("before", one.retries_before), ("after", one.retries_after)):
        if found is None:
            return "; ".join([*parts, "unknown"])
        listed = ", ".join(map(_retry, found[:_MOST_RETRIES])) + (", …" if len(found) > _MOST_RETRIES else "")
        parts.append(f"{len(found)} {name}{f' ({listed})' if found else ''}")
    return "; ".join(parts)


def _retry(one: Retry) -> str:
    status = f" {one.status}" if one.status is not None and one.status >= 300 else ""
    return f"{_code(one.id)} {one.outcome}{status}, {one.pause_ms / 1000:,.3f} s apart"


def _protocol(one: ReportedExchange) -> str:
    kept = {True: "kept connection", False: "new connection", None: None}[one.connection_reused]
    return ", ".join(filter(None, (one.protocol or UNKNOWN, one.framing, one.stream, kept)))


def _some(moments: Sequence[Moment]) -> list[Moment]:
    """Return the moments of a timeline, without some in its middle if there are too many."""
    return [*moments[: _MOST_MOMENTS - 1], *moments[-1:]] if len(moments) > _MOST_MOMENTS else [*moments]


def _attachment(ids: Sequence[str]) -> str:
    named = " ".join(id for id in ids if id != "unknown") or "ID"
    cut = f"`wiretape db cut {named} -o report.jsonl`"
    return (
        f"To attach: {cut}, which replays exactly. It holds prompts and answers; `--redact REGEX` replaces words in it."
    )


def _distinct(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))[:_MOST_RETRIES]


def _listed(names: Sequence[str], most: int) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _bullets(texts: Sequence[str], most: int) -> Iterator[Line]:
    shown = texts if len(texts) <= most else [*texts[: most - 1], f"{len(texts) - most + 1} more with --format json"]
    yield from (f"- {text}" for text in shown)
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
    shown = [line for line in text.splitlines() if line.strip()]
    yield f"{title}:"
    yield ""
    yield from (f"    {clipped(line, _TEXT_WIDTH)}" for line in shown[:_TEXT_LINES])
    yield ""
