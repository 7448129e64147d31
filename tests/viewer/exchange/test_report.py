"""Pages about one exchange, as text."""

from collections.abc import Iterable
from dataclasses import replace

from rich.text import Text

from tests.support.sample_tape import COMPLETE, TOOLS
from tests.support.timed_exchanges import Part, evenly, outcome, timed, word
from wiretape.recorder.decode.attribution import Attribution
from wiretape.recorder.decode.stalls import Thresholds
from wiretape.recorder.tape.reader import Connection
from wiretape.viewer.exchange import pages, report
from wiretape.viewer.record.rows import DetailRow
from wiretape.viewer.source.tape import queries
from wiretape.viewer.source.tape.exchange import known
from wiretape.viewer.timing.verdicts import Verdict, verdicts


def plain(lines: Iterable[Text]) -> str:
    return "\n".join(line.plain for line in lines)


def detail(connection: Connection, id: str) -> DetailRow:
    return queries.detail(connection, queries.find(connection, id))


def test_a_page_says_what_happened(connection: Connection) -> None:
    text = plain(report.page(detail(connection, COMPLETE), []))
    for sentence in (
        "POST https://api.example.com/v1/chat/completions",
        "gpt-x-mini (answered by gpt-x-2026), answer r1",
        "complete: all came: finish reason stop, [DONE], then the end",
        "ttft 110.0",
        "icl p50 10.0",
        "input 5  output 4  reasoning –  total 9  tpot ms 20.0  tps 50.0",
        "run=a7",
        "12 characters: Hello, world",
    ):
        assert sentence in text


def test_a_page_names_errors_flags_and_tool_calls(connection: Connection) -> None:
    failed = plain(report.page(detail(connection, "d000"), []))
    assert "server_overloaded: overloaded" in failed
    assert "no_done: the stream has no [DONE]" in failed
    assert 'get_weather({"city":"Oslo"})' in plain(report.page(detail(connection, TOOLS), []))


def judged(*parts: Part, stall_ms: float = 2000) -> tuple[Attribution, list[Verdict]]:
    timed_stream = timed(*parts)
    return timed_stream, verdicts(timed_stream, outcome(*parts), Thresholds(stall_ms=stall_ms))


def test_a_page_tells_the_verdicts_with_their_evidence(connection: Connection) -> None:
    row = detail(connection, TOOLS)
    _, verdict = judged((0, word("so ")), (3000, word("far")))
    text = plain(report.page(row, verdict))
    assert "stall      3,000.0 ms from 0.000 s, before event #1: 'so ' … 'far'" in text
    assert "           upstream silent, relay 0.1 ms, no wait for the client" in text


def test_a_page_withholds_the_rate_of_a_burst(connection: Connection) -> None:
    row = detail(connection, COMPLETE)
    _, verdict = judged((1000, word() * 30))
    assert "tps withheld (burst)" in plain(report.page(row, verdict))
    flagged = replace(row, flags=["burst"], tps_user=None)
    assert "tpot ms 20.0  tps 50.0" in plain(report.page(flagged, []))
    hidden = replace(row, flags=["hidden_tokens"], tpot_ms=None)
    assert "tpot ms –  tps withheld (hidden_tokens)" in plain(report.page(hidden, []))


def test_flags_that_verdicts_replace_are_left_out(connection: Connection) -> None:
    row = replace(detail(connection, COMPLETE), flags=["burst", "no_done", "stall"])
    page = plain(report.page(row, []))
    assert [line.split()[1] for line in page.splitlines() if line.startswith("flag ")] == ["no_done:"]


def test_a_page_names_the_longest_stalls_and_counts_others(connection: Connection) -> None:
    row = detail(connection, COMPLETE)
    _, verdict = judged(*((at * at * 100, word(f"w{at}")) for at in range(10)), stall_ms=1)
    text = plain(report.page(row, verdict))
    assert "and 4 shorter stalls: see --part timing" in text
    assert "1,700.0 ms" in text
    assert " 100.0 ms from" not in text


def test_timing_says_who_was_slow_and_gives_every_verdict() -> None:
    exchange, verdict = judged(*evenly(4, 3000))
    lines = plain(report.timing(exchange.slowness(), verdict, Thresholds(), 120)).splitlines()
    assert lines[0].split("  ")[0] == "who was slow?"
    assert lines[1].startswith("upstream gap              3    3,000.0    3,000.0    3,000.0  ")
    assert lines[2].startswith("relay delay               4        0.1  ")
    assert lines[3].startswith("client wait               4        0.0  ")
    assert sum(line.startswith("stall") for line in lines) == 3
    assert any("only once the system's buffers" in line for line in lines)


def test_timing_names_unknown_values_and_the_limits_used() -> None:
    exchange, verdict = judged((0, word()))
    text = plain(report.timing(exchange.slowness(), verdict, Thresholds(stall_ms=1500, burst_share=0.9), 120))
    assert "upstream gap              –  " in text
    assert "no stall of more than 1,500 ms, no burst: 20 or more output chunks, 90 % of them in 2 reads" in text


def test_an_answer_shows_reasoning_before_content_and_dimmed(connection: Connection) -> None:
    row = replace(detail(connection, TOOLS), content="Cold.", refusal="No.")
    lines = list(report.answer(row))
    assert [line.plain for line in lines] == [
        "reasoning:", "Think. ", "Cold.", "refusal:", "No.", 'tool call: get_weather({"city":"Oslo"})',
    ]  # fmt: skip
    assert str(lines[1].style) == "dim"


def test_an_answer_keeps_its_lines_and_expands_its_tabs(connection: Connection) -> None:
    row = replace(detail(connection, COMPLETE), content="a\n\tb")
    assert plain(report.answer(row)) == "a\n    b"


def test_a_request_shows_redacted_headers_and_indented_json(connection: Connection) -> None:
    text = plain(report.rendered(pages.request(known(connection, queries.find(connection, COMPLETE)))))
    assert "authorization: REDACTED" in text
    assert 'body · 39 bytes\n{\n  "model": "gpt-x-mini",' in text
