"""Records and lines of reports: verdicts, and nothing private in them."""

import json
from dataclasses import asdict, fields, replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tests.support.cases import each_case
from tests.support.exchanges import detailed
from tests.support.timed_exchanges import COMMENT, evenly, timed, word
from wiretape.recorder.decode.attribution import Attribution
from wiretape.recorder.decode.causes import Ending, counts
from wiretape.recorder.decode.exchange import DETAILS, FLAGS, OUTCOMES
from wiretape.recorder.decode.stalls import DEFAULT
from wiretape.recorder.facts import ENDED_BY
from wiretape.viewer.sessions import issue, report
from wiretape.viewer.sessions.account import PARTS, Account
from wiretape.viewer.sessions.disclosure import Disclosure
from wiretape.viewer.sessions.report import Examined, IssueReport, ReportedExchange
from wiretape.viewer.sessions.retries import Attempt, Attempts
from wiretape.viewer.timing.verdicts import verdicts

HOST = "canary-laptop"
CANARIES = (
    "sk-canary0123456789abcdef", "Bearer canary0123456789", "Please canary, tell me a joke", "/home/canary/model.gguf",
    "C:/canary/x", "canary-laptop", "x-CANARY-LAPTOP.7", "team=canary value", "`canary`", "|canary|", "<b>canary</b>",
    "@canary", "hello@canary", "[canary](https://example.com)", "![canary](x)", "https://canary.example.com/x",
    "canary\n# canary", "\x1b]0;canary\x07", "canary\u202e", "canary #6", "canary.corp.internal", "../canary",
    "canary é", "arn:aws:bedrock:us-east-1:1:canary", "",
)  # fmt: skip
"""Texts that a report must not quote: keys, prompts, paths, names of machines, labels, Markdown, HTML, controls."""
RULE = Disclosure([HOST])
STALLED = [*evenly(4, 20, 100), (3200, COMMENT), (3900, word("canary"))]


def hostile(draw: Any) -> str:
    return str(draw(st.sampled_from(CANARIES)))


@st.composite
def examined(draw: Any) -> Examined:
    outcome = draw(st.sampled_from([*OUTCOMES, "canary"]))
    details = [*DETAILS.get(outcome, ()), "close_1011", "rst_cancel", hostile(draw), None]
    flags = [*draw(st.lists(st.sampled_from(sorted(FLAGS)), unique=True)), hostile(draw)]
    row = detailed(
        outcome=outcome, outcome_detail=draw(st.sampled_from(details)), flags=" ".join(flags),
        ended_by=draw(st.sampled_from([*ENDED_BY, "canary", None])), labels={hostile(draw): hostile(draw)},
        upstream=draw(st.sampled_from(["http://canary.corp.internal:1/v1", "https://api.openai.com", "canary"])),
        status=draw(st.sampled_from([None, 200, 400, 429, 500])), usage={"x": "canary"},
        gap_bytes=draw(st.integers(0, 9)),
        started_at=draw(st.sampled_from(["2026-03-01T12:00:00.123456Z", "canary", ""])), reads=1,
        **{name: hostile(draw) for name in (
            "id", "method", "path", "request_model", "response_model", "model", "error_code", "error_message",
            "finish_reason", "ended_detail", "api", "operation", "response_id", "framing", "clock", "content",
            "reasoning", "refusal", "sparkline", "conversation_key_from", "asked", "protocol", "reset_code",
        )},
    )  # fmt: skip
    by = row.ended_by if row.ended_by in ENDED_BY else "end"
    attribution = timed(*STALLED, by=by, gap_bytes=row.gap_bytes, clock=draw(st.sampled_from(["kernel", "none", None])))
    headers = ("user-agent", "x-request-id", "cf-ray", "retry-after", "anthropic-version", "openai-version", "host")
    attempt = Attempt(1, hostile(draw), 0, draw(st.sampled_from([None, 1])), hostile(draw), 500)
    return Examined(
        row=row, timed=attribution, verdicts=verdicts(attribution, outcome, DEFAULT),
        request_headers=[[name, hostile(draw)] for name in headers],
        response_headers=[[name, hostile(draw)] for name in headers] + [[hostile(draw), "canary"]],
        attempts=draw(st.sampled_from([None, Attempts((attempt,) * 5, attempt, (attempt,) * 5)])),
        recorded_by=hostile(draw),
    )  # fmt: skip


def report_of(kind: str, *exchanges: ReportedExchange) -> IssueReport:
    endings = report.cleaned({Ending(exchanges[0].outcome, "canary", "canary", 500): 1})
    time = Account(wall_ns=8, **{f"{name}_ns": 1 for name in PARTS}, clock_step=True) if kind == "session" else None
    return report.report(kind, "0.1.0", exchanges, endings, (exchanges[0].started_at, "canary"), counts(endings), time)


@given(examined(), st.sampled_from(["exchange", "session"]))
def test_no_private_text_is_in_a_report(one: Examined, kind: str) -> None:
    report_ = report_of(kind, *[report.reported(one, RULE, DEFAULT)] * (1 if kind == "exchange" else 5))
    lines = issue.lines(report_)
    assert "canary" not in "\n".join(lines).lower()
    assert "canary" not in json.dumps(asdict(report_)).lower()
    assert len(lines) <= issue.MOST_LINES
    assert all(line.isprintable() for line in lines)


@given(examined(), st.text(st.characters(codec="utf-8"), max_size=3000))
def test_a_report_with_text_keeps_limit_and_code(one: Examined, text: str) -> None:
    altered = replace(one, row=replace(one.row, content=f"x{text}", error_message=f"x{text}"))
    lines = issue.lines(report_of("exchange", report.reported(altered, RULE, DEFAULT, with_text=True)))
    assert len(lines) <= issue.MOST_LINES
    tokens = MarkdownIt("commonmark").enable("table").parse("\n".join(lines))
    inline = [child.type for token in tokens for child in token.children or ()]
    assert {*inline} <= {"text", "code_inline", "strong_open", "strong_close", "softbreak"}
    assert [token.type for token in tokens if token.level == 0 and token.type == "code_block"] == ["code_block"] * 2


PLAIN: dict[str, Any] = {
    "request_model": "gpt-4o", "status": 200, "flags": "", "reads": 3, "gap_bytes": 0, "ended_by": "end",
    "upstream": "https://api.openai.com", "labels": {},
}  # fmt: skip


def reported_of(attribution: Attribution, **facts: Any) -> ReportedExchange:
    row = detailed(**PLAIN | facts)
    one = Examined(
        row=row,
        timed=attribution,
        verdicts=verdicts(attribution, row.outcome, DEFAULT),
        request_headers=[],
        response_headers=[],
    )
    return report.reported(one, RULE, DEFAULT)


@each_case(
    "party, outcome, detail",
    [
        ("none", "complete", None), ("upstream", "truncated", "eof"), ("upstream", "timeout", "idle"),
        ("upstream", "http_error", "rate_limited"), ("upstream", "http_error", "server_error"),
        ("client", "http_error", "client_error"), ("unclear", "http_error", "redirect"),
        ("upstream", "error_event", "mid_stream"), ("client", "client_closed", None), ("wiretape", "interrupted", None),
        ("wiretape", "connect_error", "local"), ("unclear", "connect_error", "dns"),
        ("unclear", "connect_error", "tls"),
        ("upstream", "connect_error", "refused"), ("upstream", "malformed", None), ("unclear", "open", None),
    ],
)  # fmt: skip
def test_the_ending_decides_whose_fault_it_was(party: str, outcome: str, detail: str | None) -> None:
    assert reported_of(timed(*evenly(5, 20)), outcome=outcome, outcome_detail=detail).verdict == party


@each_case(
    "outcome, detail, expected",
    [
        ("truncated", "rst_internal_error", "rst_internal_error"), ("truncated", "close_1011", "close_1011"),
        ("client_closed", "rst_cancel", "rst_cancel"), ("connect_error", "goaway_0x42", "goaway_0x42"),
        ("truncated", "no_status", "no_status"), ("truncated", "unknown", "unknown"),
        ("truncated", "rst_secret", None), ("client_closed", "close_1011", None), ("complete", "rst_cancel", None),
    ],
)  # fmt: skip
def test_a_detail_is_reported_where_it_can_be_one(outcome: str, detail: str, expected: str | None) -> None:
    reported = reported_of(timed(*evenly(5, 20)), outcome=outcome, outcome_detail=detail, protocol="h2", api="grpc")
    assert (reported.outcome_detail, reported.protocol, reported.api) == (expected, "HTTP/2", "grpc")


def test_a_stall_names_its_party_with_figures_only() -> None:
    reported = reported_of(timed(*STALLED), outcome="complete")
    assert (reported.verdict, reported.ending) == ("upstream", "complete, stall 3.7 s by upstream")
    stall = "stall: 3,740.0 ms from 0.160 s, before event 5; upstream sent no output meanwhile, only 1 comment"
    assert reported.evidence[0].startswith(stall)
    assert reported.evidence[-1] == "wiretape handed each read on within 0.1 ms; longest wait for the client 0.0 ms"
    assert report.Moment(160.0, "silence of 3,740.0 ms begins (upstream)") in reported.timeline


def test_leaving_during_upstreams_silence_is_not_the_clients_fault() -> None:
    reported = reported_of(timed(*evenly(5, 20), by="client", end=9000), outcome="client_closed", ended_by="client")
    assert (reported.verdict, reported.evidence[0]) == ("upstream", "the client left during a silence")


def test_a_long_timeline_keeps_the_silence_in_which_it_ended() -> None:
    parts = [(10, word()), (3010, word()), (6500, word())]
    facts = {"outcome": "client_closed", "ended_by": "client", "ttft_ms": 10.0, "latency_ms": 6500.0}
    reported = reported_of(timed(*parts, by="client", end=10_000), **facts)
    assert len(reported.timeline) == 9
    assert "     6.500 s  silence of 3,500.0 ms begins (upstream)" in "\n".join(
        issue.lines(report_of("exchange", reported))
    )


def test_the_final_silence_decides_despite_a_longer_gap() -> None:
    parts = [(0, word()), (100, word()), (9000, word()), (9100, word())]
    reported = reported_of(timed(*parts, by="client", end=13_000), outcome="client_closed", ended_by="client")
    assert (reported.verdict, reported.evidence[0]) == ("upstream", "the client left during a silence")


def test_without_body_times_a_complete_answers_verdict_is_unclear() -> None:
    reported = reported_of(timed(*evenly(5, 20), clock="none"), outcome="complete", flags="no_timing")
    assert (reported.verdict, reported.protocol) == ("unclear", None)


def test_the_schema_has_every_field_with_a_meaning() -> None:
    names = [field.name for field in fields(IssueReport)] + [
        f"exchanges.{field.name}" for field in fields(ReportedExchange)
    ]
    assert [*report.schema()] == names
    assert all(report.schema().values())


def test_failed_stalled_and_slowest_exchanges_share_five_rows() -> None:
    ranked = {"failed": [9, 8, 7, 6, 5], "stalled": [9, 3], "slowest": [1, 9, 2]}
    assert report.chosen(ranked) == {
        9: ["failed", "stalled"], 1: ["slowest"], 8: ["failed"], 3: ["stalled"], 7: ["failed"],
    }  # fmt: skip
    assert report.chosen({"failed": [], "stalled": [], "slowest": [4]}) == {4: ["slowest"]}
