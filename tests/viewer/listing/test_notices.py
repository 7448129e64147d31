"""Messages of an empty list."""

from pathlib import Path

from tests.support.cases import each_case
from tests.support.sample_tape import HOSTILE
from wiretape.recorder.errors import TapeDamaged
from wiretape.recorder.process import RecorderRun
from wiretape.viewer.listing import notices
from wiretape.viewer.listing.notices import Lines, Term
from wiretape.viewer.query.parser import parse

STARTED, WALL_NS = "2026-03-01T12:00:00.000000Z", 1_772_366_400 * 10**9
URL = "http://127.0.0.1:8377"


def text_of(lines: Lines) -> str:
    return "\n".join("".join(text for text, _ in line) for line in lines)


def recorder(after_s: float, *, is_ended: bool = False, is_gone: bool = False) -> str:
    wall_ns = WALL_NS + round(after_s * 10**9)
    run = RecorderRun(1, STARTED, STARTED if is_ended else None, is_gone, URL, [["", "https://api.example.com"]])
    return text_of([notices.recorder_line(run, wall_ns)])


def test_recorder_runs_as_long_as_it_reports() -> None:
    assert recorder(5) == "● REC 127.0.0.1:8377 → api.example.com"
    assert recorder(16) == "? recorder silent since 2026-03-01 12:00 UTC"
    assert recorder(5, is_ended=True) == "○ recorder not running"


def test_a_recorder_is_gone_with_its_process() -> None:
    assert recorder(1, is_gone=True).startswith("? recorder silent")
    assert recorder(1, is_gone=True, is_ended=True) == "○ recorder not running"


def test_several_upstreams_are_counted() -> None:
    run = RecorderRun(1, HOSTILE, listen=HOSTILE, upstreams=[["a", HOSTILE], ["b", HOSTILE]])
    line = text_of([notices.recorder_line(run, WALL_NS)])
    assert line.endswith(" → 2 upstreams")
    assert "\x1b" not in line


def test_no_tape_says_where_and_how() -> None:
    text = text_of(notices.no_tape(Path(f"/a/{HOSTILE}.db")))
    assert "wiretape record --upstream" in text
    assert "wiretape run --db x.db -- python" in text_of(notices.no_tape(Path("x.db"), " --db x.db"))
    assert "wiretape record --db x.db --up" in text_of(notices.empty(None, WALL_NS, " --db x.db"))
    assert "WIRETAPE_DB" in text
    assert "\x1b" not in text


def test_an_empty_tape_says_who_records() -> None:
    assert "Recorder: not running" in text_of(notices.empty(None, WALL_NS))
    run = RecorderRun(1, STARTED, listen=URL)
    assert "Recorder: running at 127.0.0.1:8377" in text_of(notices.empty(run, WALL_NS))


def test_none_match_counts_each_term() -> None:
    text = text_of(notices.none_match(7, [Term("is:live", 1), Term("ttft>900s", 0, "ttft>900ms")]))
    assert "still run" not in text
    assert "1 still runs: what is measured counts" in text_of(notices.none_match(7, [], 1))
    assert "0 of 7 match." in text
    assert "         1  is:live  alone" in text
    assert "         0  ttft>900s  alone: did you mean ttft>900ms?" in text


@each_case(
    ("text", "suggestion"),
    [
        ("ttft>900s", "ttft>900ms"),
        ("ttft>59s", None),
        ("status>900", None),
        ("since:-2h", None),
        ("error:429", "status:429"),
        ("error:no", None),
        ("timeout", "prompt:timeout"),
    ],
)
def test_a_term_without_matches_may_mean_another(text: str, suggestion: str | None) -> None:
    suggestion_ = notices.meant(parse(text))
    assert (None if suggestion_ is None else str(suggestion_)) == suggestion


def test_error_is_shown_unchanged() -> None:
    assert "is damaged ␛" in text_of(notices.failed(TapeDamaged("is damaged \x1b")))
