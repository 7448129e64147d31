"""One exchange in time: which read brought what, whose a silence was, and what cannot be known."""

from tests.support.sample_tape import event
from tests.support.timed_exchanges import COMMENT, MS, evenly, facts, timed, word
from wiretape.recorder.decode.attribution import Attribution, SilenceCause
from wiretape.recorder.decode.decoder import decode


def test_a_read_is_named_by_its_recorded_place() -> None:
    exchange, reads, body = facts(*evenly(5, 10))
    reads_left = [read for read in reads if read.seq != 1]
    attribution = Attribution(exchange, reads_left, decode(exchange, reads_left, body))
    assert [attribution.place(chunk) for chunk in attribution.outputs] == [0, 1, 2, 3]
    assert [attribution.lacks_reads(0, 1), attribution.lacks_reads(1, 3)] == [True, False]


def test_how_many_output_chunks_a_read_brought_is_counted() -> None:
    attribution = timed((0, word()), (10, word() + COMMENT + word() + event({}, "stop")), (20, COMMENT))
    assert (attribution.brought, attribution.brought_by(1)) == ([1, 2], 2)


def test_what_came_between_two_reads_is_counted() -> None:
    attribution = timed((0, word()), (10, COMMENT), (20, event({"content": ""})), (30, word()))
    first_output, last_output = attribution.outputs
    assert attribution.items_between(0, 3, first_output.end, last_output.end) == {
        "reads_meanwhile": 2, "comments_meanwhile": 1, "events_meanwhile": 1, "pings_meanwhile": 0,
    }  # fmt: skip


def test_an_unexplained_silence_is_upstreams() -> None:
    assert timed((0, word()), (3000, word())).silent(0, 1) == SilenceCause("upstream")


def test_other_timestamps_than_reads_prove_nothing() -> None:
    attribution = timed((0, word()), (3000, word()), coarse_clock=True)
    assert attribution.silent(0, 1) == SilenceCause(None, unclear="instants")


def test_a_client_that_never_waited_has_no_step() -> None:
    attribution = timed((0, word()), (10, word(), 13))
    assert attribution.longest_steps(0, 1) == {"relay_ns": 3 * MS, "client_ns": 0}


def test_an_answer_that_failed_has_no_output_to_judge() -> None:
    assert timed((0, word()), (3000, word()), status=500).outputs == []
