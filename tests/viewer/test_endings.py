"""Why an exchange ended, in words."""

import pytest
from sqlalchemy import Connection

from tests.viewer.conftest import HOSTILE
from viewer import endings, queries, watching
from viewer.rows import Row
from viewer.streams import Look
from viewer.thresholds import Thresholds
from viewer.verdicts import Timed, Verdict, verdicts

LOOK, RECORDED = Look(), Look(wall_ns=1_772_366_430 * 10**9, recording=True)


def previewed(connection: Connection, no: int) -> Row:
    row = watching.preview(connection, no)
    assert row is not None
    return row


@pytest.mark.parametrize(
    ("no", "said"),
    [
        (1, "everything came; finish reason stop"),
        (3, "upstream ended before the stream was complete; upstream closed before the end of its framing; "
            "closed mid-chunk"),
        (4, "upstream answered 429; rate_limit_exceeded: slow down"),
        (5, "an error payload or finish_reason error after a 2xx; server_overloaded: overloaded"),
        (7, "nothing records it any more; the last read came 110ms after the request. "
            "The next recorder on this tape will mark it as interrupted."),
    ],
)  # fmt: skip
def test_each_ending_has_its_reason(no: int, said: str, connection: Connection) -> None:
    assert endings.reason(previewed(connection, no), LOOK) == said


def test_what_still_runs_has_no_end(connection: Connection) -> None:
    row = previewed(connection, 7)
    assert endings.reason(row, RECORDED) == "still running; the last read came 110ms after the request"
    assert endings.reason(row | {"ended_by": "end"}, LOOK) == "ended, and being measured"
    assert endings.reason(row | {"last_read_ms": None}, LOOK).startswith(
        "nothing records it any more; nothing was read"
    )


def test_a_heading_names_the_exchange(connection: Connection) -> None:
    def head(no: int, look: Look) -> str:
        return "".join(text for text, _ in endings.heading(previewed(connection, no), look))

    assert head(3, LOOK) == "■ b0000000 truncated (eof) · gpt-x-mini · POST api.example.com/v1/chat/completions"
    assert head(7, LOOK).startswith("? f0000000 orphan")
    assert head(7, RECORDED).startswith("● f0000000 open")


def test_figures_sum_the_timing_up(connection: Connection) -> None:
    said = endings.figures(previewed(connection, 1), LOOK)
    assert said == "first output 110ms · gaps p50 10ms, max 50ms · 8 events in 6 reads · 180ms · 4 tokens"
    assert " 29.0s+" not in said
    assert endings.figures(previewed(connection, 7), RECORDED).endswith("2 events in 2 reads · 23.0s+")


def test_verdicts_come_before_flags_and_say_it_once(connection: Connection) -> None:
    row = previewed(connection, 2)
    judged = verdicts(Timed(*queries.observed(connection, 2)), row["outcome"], Thresholds())
    told = list(endings.evidence(row, judged))
    assert [name for name, _, _ in told].count("stall") == 1
    assert told[0][0] == "stall"
    assert told[0][2].startswith("3,000.0 ms from 0.050 s")
    assert ("no_usage", "muted", "the stream has no usage") in told
    assert next(name for name, _, _ in endings.evidence(row, [])) == "stall"


def test_of_many_stalls_the_longest_are_told_in_their_order() -> None:
    def stall(start: int, lasted: int) -> Verdict:
        return Verdict(kind="stall", form="gap", who="upstream", from_ns=start * 10**9, lasted_ns=lasted * 10**9)

    found = [stall(at, lasted) for at, lasted in ((0, 3), (10, 9), (20, 4), (30, 8), (40, 2))]
    told = [text.partition(" ")[0] for _, _, text in endings.evidence({"flags": []}, found)]
    assert told == ["9,000.0", "4,000.0", "8,000.0"]


def test_the_text_is_the_content_or_what_there_is_instead() -> None:
    assert endings.text({"content": "a", "content_size": 9, "reasoning": "b"}) == ("content", "a", 9)
    assert endings.text({"content": None, "tool_calls": "[1]"}) == ("tool calls", "[1]", None)
    assert endings.text({"content": ""}) == ("", "", None)


def test_hostile_text_drives_nothing(connection: Connection) -> None:
    row = previewed(connection, 6) | {"flags": [HOSTILE], "finish_reason": HOSTILE}
    head = "".join(text for text, _ in endings.heading(row, LOOK))
    said = [head, endings.reason(row, LOOK), *(name + text for name, _, text in endings.evidence(row, []))]
    assert not [sign for sign in "".join(said) if ord(sign) < 32 or 0x7F <= ord(sign) < 0xA0]
