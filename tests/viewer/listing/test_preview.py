"""Why an exchange ended, in words."""

from dataclasses import replace
from datetime import datetime
from typing import Any

from tests.support.cases import each_case
from tests.support.exchanges import listed
from tests.support.sample_tape import HOSTILE
from wiretape.recorder.decode.attribution import Attribution
from wiretape.recorder.decode.exchange import OUTCOMES
from wiretape.recorder.decode.stalls import Thresholds
from wiretape.recorder.facts import ENDED_BY
from wiretape.recorder.tape.reader import Connection
from wiretape.viewer.exchange.states import Look
from wiretape.viewer.listing import preview
from wiretape.viewer.record.rows import ListRow, PreviewRow
from wiretape.viewer.source.tape import live, queries
from wiretape.viewer.timing.verdicts import Verdict, verdicts

LOOK, RECORDED = Look(), Look(wall_ns=1_772_366_430 * 10**9, recording=True)


def previewed(connection: Connection, no: int) -> ListRow:
    preview_ = live.preview(connection, no)
    assert preview_ is not None
    return preview_.row


@each_case(
    ("no", "reason"),
    [
        (1, "all came: finish reason stop, [DONE], then the end"),
        (3, "upstream closed the connection after 4 events, without [DONE] or a finish reason (closed mid-chunk)"),
        (4, "upstream answered 429: rate_limit_exceeded: slow down"),
        (5, "upstream sent an error in mid-stream: server_overloaded: overloaded"),
        (7, "nothing records it any more; the last read came 110 ms after the request. "
            "The next recorder on this tape will mark it as interrupted."),
    ],
)  # fmt: skip
def test_each_outcome_has_a_reason(no: int, reason: str, connection: Connection) -> None:
    assert preview.reason(previewed(connection, no), LOOK) == reason


@each_case(
    ("changed", "reason"),
    [
        ({"outcome": "interrupted", "ended_by": "died"}, "the recorder (pid 4121) died after 4 events, before"),
        ({"outcome": "interrupted", "ended_by": "shutdown"}, "the recorder (pid 4121) was stopped after 4 events"),
        ({"outcome": "client_closed", "ended_by": "client"}, "the client closed the connection after 4 events, before"),
        ({"outcome": "client_closed", "ended_by": "client_stalled"}, "the client stopped reading after 4 events"),
        ({"outcome": "timeout", "ended_by": "connect_timeout"}, "no connection came about for as long as the recorder"),
        ({"outcome": "timeout", "ended_by": "headers_timeout"}, "no answer came for as long as the recorder waits ("),
        ({"outcome": "timeout", "ended_by": "idle_timeout"}, "upstream fell silent after 4 events"),
        ({"outcome": "connect_error", "ended_by": "refused"}, "api.example.com refused the connection"),
        ({"outcome": "connect_error", "ended_by": "eof"}, "api.example.com closed the connection without an answer"),
        ({"outcome": "truncated", "ended_by": "reset"}, "upstream reset the connection after 4 events, without"),
        ({"outcome": "truncated", "ended_by": "reset", "events": 0}, "upstream reset the connection after "),
        ({"outcome": "truncated", "ended_by": "end", "flags": []}, "upstream ended the answer after 4 events"),
        ({"outcome": "complete", "ended_by": "end", "flags": ["nonstream"]}, "all came: then the end"),
        ({"outcome": "complete", "ended_by": "reset", "flags": []}, "all came: [DONE], then upstream reset the"),
        ({"outcome": "malformed", "ended_by": "end", "flags": []}, "an event is not JSON, although all came: [DONE]"),
        ({"outcome": "error_event", "outcome_detail": "finish"}, "upstream ended the answer with the finish reason"),
        ({"outcome": "error_event", "outcome_detail": "before_output"}, "upstream sent an error before any output, wi"),
        ({"outcome": "as yet unheard of"}, "as yet unheard of (eof), which this version does not know"),
    ],
)  # fmt: skip
def test_reasons_describe_what_happened(changed: dict[str, Any], reason: str, connection: Connection) -> None:
    row = replace(previewed(connection, 3), ended_detail=None, recorder_pid=4121, **changed)
    assert preview.reason(row, LOOK).startswith(reason)


@each_case("outcome", OUTCOMES)
def test_no_way_to_end_lacks_a_reason(outcome: str, connection: Connection) -> None:
    row = replace(previewed(connection, 3), outcome=outcome)
    reasons = {ended_by: preview.reason(replace(row, ended_by=ended_by), LOOK) for ended_by in ENDED_BY}
    assert not {ended_by: reason for ended_by, reason in reasons.items() if not reason or "{" in reason}


def test_running_exchange_has_no_reason(connection: Connection) -> None:
    row = previewed(connection, 7)
    soon = replace(RECORDED, wall_ns=round((datetime.fromisoformat(row.started_at).timestamp() + 0.5) * 1e9))
    assert preview.reason(row, soon) == "still running; the last read came 110 ms after the request"
    later = replace(soon, wall_ns=soon.wall_ns + 2_000_000_000)
    assert preview.reason(row, later) == "still running, silent for 2.4 s; the last read came 110 ms after the request"
    assert preview.reason(replace(row, last_read_ms=None), later).startswith("still running, waiting for 2.5 s; ")
    assert preview.reason(replace(row, ended_by="end"), LOOK) == "ended, and being measured"
    assert preview.reason(replace(row, last_read_ms=None), LOOK).startswith(
        "nothing records it any more; nothing was read"
    )


def test_a_heading_names_the_exchange(connection: Connection) -> None:
    def head(no: int, look: Look) -> str:
        return "".join(text for text, _ in preview.heading(previewed(connection, no), look))

    assert head(3, LOOK) == "■ b0000000 truncated (eof) · gpt-x-mini · POST api.example.com/v1/chat/completions"
    assert head(7, LOOK).startswith("? f0000000 orphan")
    assert head(7, RECORDED).startswith("● f0000000 open")


def test_figures_summarise_the_timing(connection: Connection) -> None:
    lines = preview.figures(previewed(connection, 1), LOOK)
    assert lines.startswith("ttft 110 ms · icl p50 10 ms · max gap 50 ms · ")
    assert lines.endswith(" · 8 events in 6 reads · 180 ms · 4 tokens")
    assert " 29.0 s+" not in lines
    assert preview.figures(previewed(connection, 7), RECORDED).endswith("2 events in 2 reads · 23.0 s+")


def test_unknown_figures_are_left_out(connection: Connection) -> None:
    assert preview.figures(previewed(connection, 4), LOOK).startswith("one body in 1 read · ")


def test_verdicts_precede_flags_and_replace_theirs(connection: Connection) -> None:
    row = previewed(connection, 2)
    judged = verdicts(Attribution(*queries.observed(connection, 2)), row.outcome, Thresholds())
    sentences = list(preview.evidence(row, judged))
    assert [name for name, _, _ in sentences].count("stall") == 1
    assert sentences[0][0] == "stall"
    assert sentences[0][2].startswith("3,000.0 ms from 0.050 s")
    assert ("no_usage", "muted") in [line[:2] for line in sentences]
    assert next(name for name, _, _ in preview.evidence(row, [])) == "stall"


def test_longest_of_many_stalls_are_shown_in_order() -> None:
    def stall(start: int, lasted: int) -> Verdict:
        return Verdict(kind="stall", form="gap", who="upstream", from_ns=start * 10**9, lasted_ns=lasted * 10**9)

    stalls = [stall(at, lasted) for at, lasted in ((0, 3), (10, 9), (20, 4), (30, 8), (40, 2))]
    sentences = [text.partition(" ")[0] for _, _, text in preview.evidence(listed(), stalls)]
    assert sentences == ["9,000.0", "4,000.0", "8,000.0"]


def test_text_is_the_content_or_a_substitute() -> None:
    unknown = dict.fromkeys(("content", "refusal", "tool_calls", "reasoning"))

    def text(size: int | None = None, **texts: str) -> tuple[str, str, int | None]:
        return preview.text(PreviewRow(listed(), unknown | texts, {"content": size}))

    assert text(9, content="a", reasoning="b") == ("content", "a", 9)
    assert text(tool_calls="[1]") == ("tool calls", "[1]", None)
    assert text(content="") == ("", "", None)


def test_hostile_text_drives_nothing(connection: Connection) -> None:
    row = replace(previewed(connection, 6), flags=[HOSTILE], finish_reason=HOSTILE)
    head = "".join(text for text, _ in preview.heading(row, LOOK))
    lines = [head, preview.reason(row, LOOK), *(name + text for name, _, text in preview.evidence(row, []))]
    assert not [sign for sign in "".join(lines) if ord(sign) < 32 or 0x7F <= ord(sign) < 0xA0]
