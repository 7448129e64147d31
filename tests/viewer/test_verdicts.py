"""Verdicts: what is a stall or a burst, whose it is, and that they agree with the flags of the tape."""

import dataclasses
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recorder import fixture, tapefile
from recorder.derive import derive
from viewer import queries, verdicts
from viewer.slowness import FREE_BYTES
from viewer.thresholds import Thresholds
from viewer.verdicts import Verdict

from .timing import COMMENT, EMPTY, MS, Part, evenly, facts, outcome, timed, word

LIMITS = Thresholds()
LARGE = word("x" * 2 * FREE_BYTES)


def judged(*parts: Part, limits: Thresholds = LIMITS, **other: object) -> list[Verdict]:
    return verdicts.verdicts(timed(*parts, **other), outcome(*parts, **other), limits)


def told(verdict: Verdict) -> tuple[str, str, str | None]:
    return verdict.kind, verdict.form, verdict.who


def test_a_silence_is_upstreams_and_its_verdict_says_where_it_was_and_which_words_it_interrupted() -> None:
    (found,) = judged(
        (100, word("The ")), (200, COMMENT + word("queue")), (3114, EMPTY + word(" waits")), (3120, word("."))
    )
    assert told(found) == ("stall", "gap", "upstream")
    assert (found.from_ns, found.lasted_ns) == (200 * MS, 2914 * MS)
    assert (found.before, found.after) == ("queue", " waits")
    assert (found.read, found.event, found.chunk) == (2, 4, 3)
    assert (found.reads_meanwhile, found.comments_meanwhile, found.events_meanwhile) == (0, 0, 0)
    assert (found.relay_ns, found.client_ns) == (50_000, 0)


def test_what_came_meanwhile_without_output_is_counted() -> None:
    (found,) = judged((0, word()), (1000, COMMENT), (2000, COMMENT + EMPTY), (3000, word()))
    assert (found.reads_meanwhile, found.comments_meanwhile, found.events_meanwhile) == (2, 2, 1)
    (trickled,) = judged((0, word()), (1000, word()[:9]), (3000, word()[9:]))
    assert (trickled.reads_meanwhile, trickled.comments_meanwhile, trickled.events_meanwhile) == (1, 0, 0)


def test_a_gap_of_exactly_the_threshold_is_no_stall_and_the_threshold_can_be_moved() -> None:
    parts = (0, word()), (2000, word()), (2100, word())
    assert judged(*parts) == []
    assert [one.lasted_ns for one in judged(*parts, limits=Thresholds(stall_ms=99))] == [2000 * MS, 100 * MS]


def test_words_are_those_of_whatever_kind_of_output_and_bounded() -> None:
    (found,) = judged((0, word("y" * 100 + "z")), (3000, word("z" + "y" * 100)))
    assert found.before is not None
    assert found.after is not None
    assert (len(found.before), found.before[-1], len(found.after), found.after[0]) == (80, "z", 80, "z")


def test_a_stream_that_was_cut_after_a_silence_never_came_out_of_it() -> None:
    parts = (100, word("Half ")), (200, word("an ans")), (900, COMMENT)
    for by in ("idle_timeout", "client", "eof", "shutdown"):
        (found,) = judged(*parts, by=by, end=5000)
        assert told(found) == ("stall", "end", "upstream")
        assert (found.from_ns, found.lasted_ns, found.before, found.after) == (200 * MS, 4800 * MS, "an ans", None)
        assert (found.read, found.reads_meanwhile, found.comments_meanwhile) == (None, 1, 1)
    assert judged(*parts, by="eof", end=2100) == judged(*parts, by="end", end=2100) == []
    assert judged(*parts, by=None) == []


def test_a_stream_that_never_began_stalled_from_its_head_on() -> None:
    (found,) = judged((500, COMMENT), by="idle_timeout", end=5002)
    assert (told(found), found.from_ns, found.lasted_ns) == (("stall", "end", "upstream"), 2 * MS, 5000 * MS)
    assert (found.before, found.reads_meanwhile, found.comments_meanwhile) == (None, 1, 1)


def test_a_client_that_took_no_more_is_who_ended_the_stream() -> None:
    parts = (0, LARGE), (10, word(), None), (20, word(), None)
    (found,) = judged(*parts, by="client_stalled", end=60_000)
    assert (told(found), found.read, found.from_ns) == (("stall", "end", "client"), 1, 10 * MS)
    assert told(judged(*parts, by="client", end=9000)[0]) == ("stall", "end", "client")


def test_what_came_in_time_and_was_handed_on_late_stalled_in_delivery() -> None:
    (clients,) = judged((0, LARGE), (10, word("late"), 4010), (20, word(), 4011))
    assert (told(clients), clients.from_ns, clients.after) == (("stall", "delivery", "client"), 50_000, "late")
    assert (clients.relay_ns, clients.client_ns) == (1 * MS, 4000 * MS) or clients.client_ns == 4000 * MS
    (relays,) = judged((0, word()), (10, word(), 4010), (20, word(), 4011))
    assert told(relays) == ("stall", "delivery", "relay")
    (unclear,) = judged((0, LARGE), (10, word(), 4010))
    assert (told(unclear), unclear.client_ns) == (("stall", "delivery", None), None)


def test_a_silence_while_reading_was_paused_for_the_client_is_the_clients() -> None:
    many = [(at, word("x" * 50_000), 5000 + at) for at in range(1, 9)]
    parts = (0, LARGE), *many, (5010, word())
    (found, delivered) = sorted(judged(*parts, paused=1), key=lambda one: one.form, reverse=True)
    assert told(found) == ("stall", "gap", "client")
    assert found.client_ns is not None
    assert found.client_ns > 4900 * MS
    assert told(delivered) == ("stall", "delivery", "client")
    assert "upstream" in {one.who for one in judged(*parts)}
    upstream = timed(*parts, paused=1).slowness().upstream
    assert upstream is not None
    assert upstream.max_ns == MS


def test_of_coarse_instants_nobody_is_blamed() -> None:
    (found,) = judged((0, word()), (3000, word()), coarse_clock=True)
    assert (found.who, found.relay_ns, found.client_ns) == (None, None, None)


def test_many_chunks_to_a_read_are_a_buffered_burst() -> None:
    (found,) = judged((1300, word() * 38))
    assert told(found) == ("burst", "buffered", "upstream")
    assert (found.output_chunks, found.output_reads, found.chunks_per_read) == (38, 1, 38)
    assert (found.ttft_ns, found.latency_ns, found.lasted_ns) == (1300 * MS, 1300 * MS, 0)


def test_one_chunk_to_a_read_and_all_in_a_flash_at_the_end_is_fake_streaming() -> None:
    (found,) = judged(*evenly(30, 1, first=4000))
    assert told(found) == ("burst", "fake", "upstream")
    assert (found.output_reads, found.chunks_per_read, found.lasted_ns) == (30, 1, 29 * MS)
    assert judged(*evenly(30, 20, first=400)) == []


def test_the_limits_of_a_burst_can_be_moved() -> None:
    assert judged((1300, word() * 19)) == []
    assert [one.kind for one in judged((1300, word() * 19), limits=Thresholds(burst_chunks=19))] == ["burst"]
    assert [one.kind for one in judged(*evenly(30, 20, first=400), limits=Thresholds(burst_window=0.9))] == ["burst"]
    three = (0, word() * 10), (500, word() * 10), (1000, word() * 10)
    assert judged(*three) == []
    assert [one.kind for one in judged(*three, limits=Thresholds(burst_reads=3))] == ["burst"]


def test_an_answer_that_is_no_chat_stream_or_failed_is_not_judged() -> None:
    parts = (0, word()), (3000, word())
    assert judged(*parts, status=500) == judged(*parts, content_type="application/json", framing="none") == []


def test_a_row_has_every_field_explained_and_durations_in_ms() -> None:
    (found,) = judged((0, word()), (3000, word()))
    row = verdicts.row(found)
    assert tuple(row) == verdicts.FIELDS == tuple(verdicts.schema())
    assert (row["lasted_ms"], row["relay_ms"], row["ttft_ms"]) == (3000, 0.05, None)
    assert all(verdicts.schema().values())
    assert len(verdicts.FIELDS) == len(dataclasses.fields(Verdict))


def flags(found: list[Verdict]) -> set[str]:
    return {one.kind for one in found if one.form in ("gap", "buffered", "fake")}


PARTS = st.lists(
    st.tuples(st.sampled_from([0, 1, 30, 1999, 2000, 2001, 9000]), st.sampled_from([0, 1, 2, 9, 18])), max_size=30
)


@settings(max_examples=150)
@given(PARTS)
def test_any_stream_is_judged_by_default_as_it_is_flagged(drawn: list[tuple[int, int]]) -> None:
    at, parts = 1, list[Part]()
    for gap, count in drawn:
        at += gap
        parts.append((at, word() * count + COMMENT))
    if parts:
        found = verdicts.verdicts(timed(*parts), outcome(*parts), LIMITS)
        assert flags(found) == set(derive(*facts(*parts)).flags) & {"stall", "burst"}


@pytest.fixture(scope="module")
def synthetic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fixture") / "tape.db"
    with tapefile.writing(path, "a test") as connection:
        list(fixture.fill(connection, 150, 80, 3))
    return path


def test_a_tape_is_judged_by_default_as_it_is_flagged(synthetic: Path) -> None:
    seen = set[str]()
    with queries.opened(synthetic) as connection:
        for no, row in enumerate(list(queries.exchanges(connection, ("outcome", "flags"))), 1):
            found = verdicts.verdicts(verdicts.Timed(*queries.observed(connection, no)), row["outcome"], LIMITS)
            assert flags(found) == set(row["flags"]) & {"stall", "burst"}
            seen |= flags(found)
    assert "stall" in seen
