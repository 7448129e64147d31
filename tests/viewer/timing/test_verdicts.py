"""Verdicts: stalls and bursts, their causes, and their agreement with the flags of the tape."""

import dataclasses
import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.compressors import COMPRESS
from tests.support.sample_tape import event
from tests.support.timed_exchanges import COMMENT, EMPTY, MS, Part, evenly, facts, outcome, timed, word
from wiretape.recorder.decode.attribution import FREE_BYTES, Attribution
from wiretape.recorder.decode.decoder import decode
from wiretape.recorder.decode.derive import derive
from wiretape.recorder.decode.stalls import Thresholds
from wiretape.recorder.demo import synthetic
from wiretape.recorder.tape import file
from wiretape.viewer.source.tape import queries
from wiretape.viewer.timing import verdicts, wording
from wiretape.viewer.timing.verdicts import Verdict

LIMITS = Thresholds()
LARGE = word("x" * 2 * FREE_BYTES)


def judged(*parts: Part, limits: Thresholds = LIMITS, **other: object) -> list[Verdict]:
    return verdicts.verdicts(timed(*parts, **other), outcome(*parts, **other), limits)


def error(message: str = "overloaded") -> bytes:
    return f"data: {json.dumps({'error': {'message': message}})}\n\n".encode()


def summary_of(verdict: Verdict) -> tuple[str, str, str | None]:
    return verdict.kind, verdict.form, verdict.who


def test_a_verdict_names_a_silences_place_and_words() -> None:
    (verdict,) = judged(
        (100, word("The ")), (200, COMMENT + word("queue")), (3114, EMPTY + word(" waits")), (3120, word("."))
    )
    assert summary_of(verdict) == ("stall", "gap", "upstream")
    assert (verdict.from_ns, verdict.lasted_ns) == (200 * MS, 2914 * MS)
    assert (verdict.before, verdict.after) == ("queue", " waits")
    assert (verdict.read, verdict.event, verdict.chunk) == (2, 4, 3)
    assert (verdict.reads_meanwhile, verdict.comments_meanwhile, verdict.events_meanwhile) == (0, 0, 0)
    assert (verdict.relay_ns, verdict.client_ns) == (50_000, 0)


def test_what_came_meanwhile_without_output_is_counted() -> None:
    (verdict,) = judged((0, word()), (1000, COMMENT), (2000, COMMENT + EMPTY), (3000, word()))
    assert (verdict.reads_meanwhile, verdict.comments_meanwhile, verdict.events_meanwhile) == (2, 2, 1)
    (trickled,) = judged((0, word()), (1000, word()[:9]), (3000, word()[9:]))
    assert (trickled.reads_meanwhile, trickled.comments_meanwhile, trickled.events_meanwhile) == (1, 0, 0)


def test_a_gap_of_exactly_the_threshold_is_no_stall() -> None:
    parts = (0, word()), (2000, word()), (2100, word())
    assert judged(*parts) == []
    assert [verdict.lasted_ns for verdict in judged(*parts, limits=Thresholds(stall_ms=99))] == [2000 * MS, 100 * MS]


def test_any_kind_of_output_gives_bounded_words() -> None:
    (verdict,) = judged((0, word("y" * 100 + "z")), (3000, word("z" + "y" * 100)))
    assert verdict.before is not None
    assert verdict.after is not None
    assert (len(verdict.before), verdict.before[-1], len(verdict.after), verdict.after[0]) == (80, "z", 80, "z")


def test_a_stream_cut_in_a_silence_ends_stalled() -> None:
    parts = (100, word("Half ")), (200, word("an ans")), (900, COMMENT)
    for by in ("idle_timeout", "client", "eof", "shutdown"):
        (verdict,) = judged(*parts, by=by, end=5000)
        assert summary_of(verdict) == ("stall", "end", "upstream")
        assert (verdict.from_ns, verdict.lasted_ns, verdict.before, verdict.after) == (
            200 * MS,
            4800 * MS,
            "an ans",
            None,
        )
        assert (verdict.read, verdict.reads_meanwhile, verdict.comments_meanwhile) == (None, 1, 1)
    assert judged(*parts, by="eof", end=2100) == judged(*parts, by="end", end=2100) == []
    assert judged(*parts, by=None) == []


def test_a_stream_that_never_began_stalled_since_its_request() -> None:
    (verdict,) = judged((500, COMMENT), by="idle_timeout", end=5002)
    assert (summary_of(verdict), verdict.from_ns, verdict.lasted_ns) == (("stall", "end", "upstream"), 0, 5002 * MS)
    assert (verdict.before, verdict.reads_meanwhile, verdict.comments_meanwhile) == (None, 1, 1)


def test_a_client_that_stopped_reading_ended_the_stream() -> None:
    parts = (0, LARGE), (10, word(), None), (20, word(), None)
    (verdict,) = judged(*parts, by="client_stalled", end=60_000)
    assert (summary_of(verdict), verdict.read, verdict.from_ns) == (("stall", "end", "client"), 1, 10 * MS)
    assert summary_of(judged(*parts, by="client", end=9000)[0]) == ("stall", "end", "client")


def test_timely_data_passed_on_late_stalled_in_delivery() -> None:
    (clients,) = judged((0, LARGE), (10, word("late"), 4010), (20, word(), 4011))
    assert (summary_of(clients), clients.from_ns, clients.after) == (("stall", "delivery", "client"), 50_000, "late")
    assert (clients.relay_ns, clients.client_ns) == (1 * MS, 4000 * MS) or clients.client_ns == 4000 * MS
    (relays,) = judged((0, word()), (10, word(), 4010), (20, word(), 4011))
    assert summary_of(relays) == ("stall", "delivery", "relay")
    (unclear,) = judged((0, LARGE), (10, word(), 4010))
    assert (summary_of(unclear), unclear.client_ns) == (("stall", "delivery", None), None)


def test_a_silence_while_paused_is_the_clients() -> None:
    many = [(at, word("x" * 50_000), 5000 + at) for at in range(1, 9)]
    parts = (0, LARGE), *many, (5010, word())
    (verdict,) = judged(*parts, paused=1)
    assert summary_of(verdict) == ("stall", "gap", "client")
    assert verdict.client_ns is not None
    assert verdict.client_ns > 4900 * MS
    assert "upstream" in {verdict.who for verdict in judged(*parts)}
    upstream = timed(*parts, paused=1).slowness().upstream
    assert upstream is not None
    assert upstream.max_ns == MS


def test_a_client_that_leaves_while_reading_was_paused_was_waited_for() -> None:
    large = word("x" * 300_000)
    parts = (0, large, 1500), (10, large, 5500), (20, large, None), (20, large, None)
    left = next(verdict for verdict in judged(*parts, paused=1, by="client", end=6000) if verdict.form == "end")
    assert (left.who, left.lasted_ns, left.client_ns) == ("client", 5980 * MS, 5980 * MS)


def test_a_late_delivery_beside_a_client_silence_counts() -> None:
    many = [(at, word("x" * 50_000), 5000 + at) for at in range(1, 9)]
    later = (6000, LARGE), (6010, word("late"), 9000), (6020, word(), 9001)
    verdicts_found = judged((0, LARGE), *many, (5010, word()), *later, paused=1)
    assert [(summary_of(verdict), verdict.from_ns > 6000 * MS) for verdict in verdicts_found] == [
        (("stall", "gap", "client"), False), (("stall", "delivery", "client"), True),
    ]  # fmt: skip


def test_a_wait_for_the_client_ends_when_read() -> None:
    comment = b":" + b"x" * 300_000 + b"\n\n"
    parts = (0, LARGE), (1, comment, 4000), (2, comment, 4001), (3, comment, 4002), (10_000, word())
    (verdict,) = judged(*parts, paused=1)
    assert (summary_of(verdict), verdict.lasted_ns) == (("stall", "gap", "upstream"), 10_000 * MS)


def test_of_coarse_timestamps_nobody_is_blamed() -> None:
    (verdict,) = judged((0, word()), (3000, word()), coarse_clock=True)
    assert (verdict.who, verdict.unclear, verdict.relay_ns, verdict.client_ns) == (None, "instants", None, None)


def test_chunks_that_end_a_silence_together_are_unclear() -> None:
    parts = [*evenly(20, 50), (3600, word() * 52), *evenly(20, 50, first=3650)]
    (verdict,) = judged(*parts)
    assert (summary_of(verdict), verdict.unclear, verdict.output_chunks) == (("stall", "gap", None), "at_once", 52)
    spread = timed(*parts).slowness()
    assert spread.upstream is not None
    assert spread.unclear is not None
    assert (spread.upstream.max_ns, spread.unclear.max_ns) == (50 * MS, 2650 * MS)


def test_what_always_comes_together_was_held_back_by_upstream() -> None:
    parts = [(500 * at, word() * 10) for at in range(5)] + [(4600 + 500 * at, word() * 10) for at in range(5)]
    (verdict,) = judged(*parts)
    assert (summary_of(verdict), verdict.unclear, verdict.output_chunks) == (("stall", "gap", "upstream"), None, 10)


def test_a_short_gap_before_several_chunks_is_the_networks() -> None:
    spread = timed(*evenly(20, 20), (480, word() * 5), *evenly(20, 20, first=500)).slowness()
    assert spread.unclear is None
    assert spread.upstream is not None
    assert spread.upstream.max_ns == 100 * MS


def test_a_missing_end_leaves_the_last_silence_unknown() -> None:
    parts = (100, word("Half ")), (200, word("an ans"))
    assert [summary_of(verdict) for verdict in judged(*parts, by="eof", end=5000)] == [("stall", "end", "upstream")]
    assert judged(*parts, by="eof", end=5000, gap_bytes=70) == []
    exchange, reads, body = facts(*parts, (300, word()), by="eof", end=5000)
    lost = Attribution(exchange, reads[:2], decode(exchange, reads[:2], body))
    assert verdicts.verdicts(lost, "truncated", LIMITS) == []


def without(*seqs: int, parts: list[Part], **other: object) -> Attribution:
    """An exchange with reads missing from the tape."""
    exchange, reads, body = facts(*parts, **other)  # type: ignore[arg-type]
    remaining_reads = [read for read in reads if read.seq not in seqs]
    return Attribution(exchange, remaining_reads, decode(exchange, remaining_reads, body))


def test_a_silence_across_missing_reads_is_unclear() -> None:
    parts: list[Part] = [(1000 * at, word(f"{at}")) for at in range(8)]
    (verdict,) = verdicts.verdicts(without(3, 4, parts=parts), "complete", LIMITS)
    assert (summary_of(verdict), verdict.unclear, verdict.read) == (("stall", "gap", None), "missing", 5)
    assert (verdict.from_ns, verdict.lasted_ns) == (2000 * MS, 3000 * MS)
    spread = without(3, 4, parts=parts).slowness()
    assert spread.upstream is not None
    assert spread.upstream.n == 4


def test_a_late_delivery_behind_missing_reads_is_unclear() -> None:
    parts: list[Part] = [(0, word()), (10, word(), 3000), (20, word(), 4010), (30, word(), 4011)]
    (verdict,) = verdicts.verdicts(without(1, parts=parts), "complete", LIMITS)
    assert (summary_of(verdict), verdict.unclear, verdict.read) == (("stall", "delivery", None), "missing", 2)


@given(st.sets(st.integers(0, 9)), st.sampled_from(["complete", "truncated", "error_event"]), st.integers(0, 10))
def test_a_tape_with_any_reads_missing_is_judged(missing: set[int], outcome: str, taken: int) -> None:
    times = [0, 10, 3000, 3010, 3020, 6500, 6510, 9000, 9010, 20_000]
    parts: list[Part] = [
        (at, word() + COMMENT, at + 2500 * (seq % 3) if seq < taken else None) for seq, at in enumerate(times)
    ]
    lost = without(*missing, parts=parts, by="eof", end=30_000, paused=1)
    for verdict in verdicts.verdicts(lost, outcome, LIMITS):
        assert verdict.lasted_ns > 2000 * MS
    lost.slowness()


def test_a_silence_ends_with_upstreams_error_event() -> None:
    parts: list[Part] = [(0, word("Half ")), (100, word("an ans")), (150, error())]
    assert judged(*parts, end=5000) == []
    late: list[Part] = [*parts[:2], (1000, COMMENT), (3150, COMMENT + error()), (4000, COMMENT)]
    (verdict,) = judged(*late, end=60_000)
    assert summary_of(verdict) == ("stall", "end", "upstream")
    assert (verdict.from_ns, verdict.lasted_ns, verdict.before, verdict.read) == (100 * MS, 3050 * MS, "an ans", None)
    assert (verdict.event, verdict.chunk) == (4, 2)
    assert (verdict.reads_meanwhile, verdict.comments_meanwhile, verdict.events_meanwhile) == (1, 1, 0)
    (silent,) = judged((3000, error()), end=60_000)
    assert (summary_of(silent), silent.lasted_ns) == (("stall", "end", "upstream"), 3000 * MS)


def test_an_errors_finish_reason_ends_a_silence() -> None:
    assert judged((0, word()), (100, event({}, "error")), end=5000) == []
    assert judged((0, word()), (3000, event({}, "error")), end=5000)[0].lasted_ns == 3000 * MS


def test_twenty_thousand_waiting_reads_are_judged_at_once() -> None:
    lagging = timed(*((at, word("x" * 64), 20_000 + at) for at in range(20_000)), paused=1)
    began = time.process_time()
    copied = Attribution(lagging.exchange, lagging.reads, lagging.decoded)
    assert verdicts.verdicts(copied, "complete", LIMITS) == []
    assert copied.slowness().client is not None
    assert time.process_time() - began < 5  # what looked at each read again for each gap took minutes


def test_many_chunks_to_a_read_are_a_buffered_burst() -> None:
    (verdict,) = judged((1300, word() * 38))
    assert summary_of(verdict) == ("burst", "buffered", "upstream")
    assert (verdict.output_chunks, verdict.output_reads, verdict.chunks_per_read) == (38, 1, 38)
    assert (verdict.ttft_ns, verdict.latency_ns, verdict.lasted_ns) == (1300 * MS, 1300 * MS, 0)


def test_all_reads_at_the_very_end_are_fake_streaming() -> None:
    (verdict,) = judged(*evenly(30, 1, first=4000))
    assert summary_of(verdict) == ("burst", "fake", "upstream")
    assert (verdict.output_reads, verdict.chunks_per_read, verdict.lasted_ns) == (30, 1, 29 * MS)
    assert judged(*evenly(30, 20, first=400)) == []


def test_the_limits_of_a_burst_can_be_moved() -> None:
    assert judged((1300, word() * 19)) == []
    assert [verdict.kind for verdict in judged((1300, word() * 19), limits=Thresholds(burst_chunks=19))] == ["burst"]
    assert [verdict.kind for verdict in judged(*evenly(30, 20, first=400), limits=Thresholds(burst_window=0.9))] == [
        "burst"
    ]
    three = (0, word() * 10), (500, word() * 10), (1000, word() * 10)
    assert judged(*three) == []
    assert [verdict.kind for verdict in judged(*three, limits=Thresholds(burst_reads=3))] == ["burst"]


def test_only_successful_chat_streams_are_judged() -> None:
    parts = (0, word()), (3000, word())
    assert judged(*parts, status=500) == judged(*parts, content_type="application/json", framing="none") == []


def test_a_row_has_explained_fields_and_millisecond_durations() -> None:
    (verdict,) = judged((0, word()), (3000, word()))
    row = verdicts.row(verdict)
    assert tuple(row) == verdicts.FIELDS == tuple(verdicts.schema())
    assert (row["lasted_ms"], row["relay_ms"], row["ttft_ms"]) == (3000, 0.05, None)
    assert all(verdicts.schema().values())
    assert len(verdicts.FIELDS) == len(dataclasses.fields(Verdict))


def flags(verdict_list: list[Verdict]) -> set[str]:
    # What a client did not take is late, and no silence of output.
    return {
        verdict.kind
        for verdict in verdict_list
        if verdict.form != "delivery" and not (verdict.form == "end" and verdict.read is not None)
    }


PARTS = st.lists(
    st.tuples(st.sampled_from([0, 1, 30, 1999, 2000, 2001, 9000]), st.sampled_from([0, 1, 2, 9, 18])), max_size=30
)


@given(PARTS)
def test_streams_are_judged_as_flagged_by_default(drawn: list[tuple[int, int]]) -> None:
    at, parts = 1, list[Part]()
    for gap, count in drawn:
        at += gap
        parts.append((at, word() * count + COMMENT))
    if parts:
        verdicts_found = verdicts.verdicts(timed(*parts), outcome(*parts), LIMITS)
        assert flags(verdicts_found) == set(derive(*facts(*parts)).flags) & {"stall", "burst"}


@pytest.fixture(scope="module")
def synthetic_tape(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fixture") / "tape.db"
    with file.writing(path, "a test") as connection:
        list(synthetic.fill(connection, 150, 80, 3))
    return path


def test_tapes_are_judged_as_flagged_by_default(synthetic_tape: Path) -> None:
    seen = set[str]()
    with queries.opened(synthetic_tape) as connection:
        for no, row in enumerate(list(queries.exchanges(connection, ("outcome", "flags"))), 1):
            verdicts_found = verdicts.verdicts(Attribution(*queries.observed(connection, no)), row["outcome"], LIMITS)
            assert flags(verdicts_found) == set(row["flags"]) & {"stall", "burst"}
            seen |= flags(verdicts_found)
    assert "stall" in seen


def compressed(coding: str, *, flushed: bool, together: bool = False, count: int = 8) -> list[Part]:
    """Return reads of a stream of one word each 100 ms, compressed; `together`: all came in the last one."""
    pieces = COMPRESS[coding]([word(f"w{at} ") for at in range(count)], flushed)
    if together:
        return [(100 * count, b"".join(pieces))]
    return [(100 * at, piece) for at, piece in enumerate(pieces, 1) if piece]


@pytest.mark.parametrize("coding", COMPRESS)
def test_an_unflushed_compressor_buffers_its_stream(coding: str) -> None:
    parts = compressed(coding, flushed=False)
    (verdict,) = judged(*parts, content_encoding=coding)
    assert (summary_of(verdict), verdict.output_chunks, verdict.output_reads) == (
        ("burst", "compressed", "upstream"),
        8,
        1,
    )
    assert {"buffered_by_compression", "burst"} <= {*derive(*facts(*parts, content_encoding=coding)).flags}
    assert "buffered by compression" in wording.brief([verdict])


@pytest.mark.parametrize("coding", COMPRESS)
def test_a_flushed_compressor_keeps_gaps(coding: str) -> None:
    parts = compressed(coding, flushed=True)
    measured = derive(*facts(*parts, content_encoding=coding))
    assert judged(*parts, content_encoding=coding) == []
    assert (measured.ttft_ns, measured.max_gap_ns, measured.coalesced_fraction) == (100 * MS, 100 * MS, 0)


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_flushed_events_are_not_buffered_by_compression(coding: str) -> None:
    parts = compressed(coding, flushed=True, together=True)
    flags = derive(*facts(*parts, content_encoding=coding)).flags
    assert "coalesced" in flags
    assert "buffered_by_compression" not in flags


def test_a_plain_body_is_not_buffered_by_compression() -> None:
    parts = [(100, b"".join(word() for _ in range(8)))]
    flags = derive(*facts(*parts, content_encoding="gzip")).flags
    assert "wrong_coding" in flags
    assert "buffered_by_compression" not in flags
