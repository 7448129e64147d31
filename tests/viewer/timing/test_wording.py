"""Verdicts in words: each says who was slow, or that it is not known."""

from tests.support.cases import each_case
from tests.support.sample_tape import HOSTILE
from wiretape.viewer.timing.verdicts import Verdict
from wiretape.viewer.timing.wording import brief, sentences, story

MS = 1_000_000


def stall(**changes: object) -> Verdict:
    facts: dict[str, object] = {
        "kind": "stall", "form": "gap", "who": "upstream", "from_ns": 3881 * MS, "lasted_ns": 2914 * MS, "read": 9,
        "event": 120, "before": " queue", "after": " waits", "relay_ns": 100_000, "client_ns": 0,
    }  # fmt: skip
    return Verdict(**{**facts, **changes})  # type: ignore[arg-type]


def test_all_verdicts_in_a_few_words() -> None:
    burst = Verdict(kind="burst", form="buffered", who="upstream", from_ns=0, lasted_ns=MS, output_reads=2)
    assert brief([]) == ""
    assert brief([stall()]) == "stall 2.9 s by upstream"
    assert brief([stall(lasted_ns=2_000 * MS), stall(who=None, unclear="at_once"), burst]) == (
        "2 stalls, longest 2.9 s (unclear by whom), buffered in 2 reads"
    )


def test_a_stall_in_words() -> None:
    sentence, evidence = sentences(stall())
    assert sentence == "2,914.0 ms from 3.881 s, before event #120: ' queue' … ' waits'"
    assert evidence == "upstream silent, relay 0.1 ms, no wait for the client"


@each_case(
    ("facts", "expected"),
    [
        ({"comments_meanwhile": 3}, "upstream sent no output meanwhile, only 3 comments"),
        ({"comments_meanwhile": 1, "events_meanwhile": 2}, "only 1 comment and 2 other events"),
        ({"reads_meanwhile": 1}, "upstream sent only parts of an event meanwhile, in 1 read"),
        ({"who": "client", "client_ns": 5 * MS}, "paused for it, relay 0.1 ms, 5.0 ms of waiting for the client"),
        ({"who": "client", "form": "delivery"}, "the client read slowly: it had come in time"),
        ({"who": "client", "form": "end"}, "the client read slowly: data that had come was not read"),
        ({"who": "relay", "form": "delivery"}, "the relay: it had come in time, and nothing waited for the client"),
        ({"who": None, "unclear": "handing_on"}, "unclear: relay or client, the tape cannot tell"),
        ({"who": None, "unclear": "instants"}, "unclear: the timestamps are not those of socket reads"),
        ({"who": None, "unclear": "missing"}, "unclear: reads of that time are missing from the tape"),
        (
            {"who": None, "unclear": "at_once", "output_chunks": 51},
            "unclear: what ended it brought 51 output chunks at once: "
            "held back before the relay, or the relay did not run, relay 0.1 ms",
        ),
    ],
)
def test_the_evidence_says_who_was_slow(facts: dict[str, object], expected: str) -> None:
    assert expected in sentences(stall(**facts))[1]


@each_case(
    ("facts", "expected"),
    [
        ({"event": None}, "before read 9: "),
        ({"form": "delivery"}, "before event #120 was handed on: "),
        ({"form": "end", "read": None}, "until it was cut off: ' queue' …"),
        ({"form": "end", "read": None, "before": None}, "until it was cut off"),
        ({"form": "end"}, "until it was cut off: read 9 was never handed on"),
        ({"form": "end", "read": None, "until": "end"}, "until the stream ended: ' queue' …"),
        ({"form": "end", "read": None, "chunk": 11, "until": "error"}, "until an error came: ' queue' …"),
        ({"before": None, "after": "w" * 99}, f"– … '{'w' * 23}…'"),
    ],
)
def test_a_stall_says_where_it_was(facts: dict[str, object], expected: str) -> None:
    assert expected in sentences(stall(**facts))[0]


def test_a_burst_comes_with_its_figures() -> None:
    burst = Verdict(
        kind="burst", form="buffered", who="upstream", from_ns=1300 * MS, lasted_ns=0, output_chunks=38, output_reads=1,
        chunks_per_read=38.0, ttft_ns=1300 * MS, latency_ns=1300 * MS,
    )  # fmt: skip
    assert sentences(burst) == (
        "buffered: 38 output chunks in 1 read within 0.0 ms",
        "38.0 chunks a read, ttft 1,300.0 ms is 100.0 % of the latency: "
        "upstream, or something on the way, held it back",
    )


def test_recorded_words_cannot_reach_a_terminal_as_they_are() -> None:
    assert sentences(stall(before=HOSTILE, after=HOSTILE))[0].isprintable()


@each_case(
    ("facts", "ended_by", "expected"),
    [
        ({}, "end", "2.9 s by upstream: nothing came, then it went on"),
        ({"events_meanwhile": 3, "pings_meanwhile": 2}, "end", "only 2 pings and 1 other event came, then it went on"),
        ({"comments_meanwhile": 1, "until": "cut"}, "client", "only 1 comment came, until the client left"),
        ({"reads_meanwhile": 1, "until": "cut"}, "reset", "only parts of an event came, until upstream cut it"),
        ({"until": "cut"}, "idle_timeout", "nothing came, until wiretape ended it"),
        ({"until": "end"}, "end", "nothing came, until upstream ended the stream"),
        ({"until": "error"}, "end", "nothing came, until upstream sent an error"),
        ({"who": "client"}, "end", "2.9 s by client: data that had come was not handed on, then it went on"),
    ],
)
def test_a_stalls_story_has_arrivals_and_its_end(facts: dict[str, object], ended_by: str, expected: str) -> None:
    assert expected in story(stall(**facts), ended_by)
