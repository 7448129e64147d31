from recorder.tape.journal import Verified
from recorder.tape.losses import LATE_NS, REPORT_NS, Counts, LossReporter, Totals, reconcile

STORED = Counts(recorded=3, failed=1, stored_exchanges=5, stored_bytes=1000, dropped_bytes=30, unrecorded=2)


def test_the_totals_are_the_tapes() -> None:
    assert reconcile(STORED, Verified(5, 2, 1000, [])) == Totals(5, 2, 30, 2)
    assert not Totals(5, 2, 30, 2).is_whole
    assert Totals(5, 2, 0, 0).is_whole


def test_what_was_acknowledged_and_is_not_on_the_tape_is_missing_and_said() -> None:
    totals = reconcile(STORED, Verified(4, 2, 1, ["page 7 is never used"]))
    assert (totals.missing_exchanges, totals.missing_bytes) == (3, 1029)
    assert totals.problems == [
        "1 exchange and 999 bytes had been stored and cannot be read from the tape any more: something else changed it",
        "the tape is damaged: page 7 is never used",
    ]


def test_what_was_given_up_and_is_on_the_tape_all_the_same_is_not_missing() -> None:
    assert reconcile(STORED, Verified(6, 2, 1030, [])) == Totals(6, 2, 0, 1)


def test_a_tape_that_could_not_be_read_leaves_what_was_acknowledged() -> None:
    assert reconcile(STORED, None) == Totals(5, 1, 30, 2)
    assert reconcile(STORED, Verified(None, None, None, ["it is gone"])).problems == ["the tape is damaged: it is gone"]
    assert reconcile(STORED, Verified(5, 2, None, [])).missing_bytes == 30


def test_losses_are_reported_at_once_then_every_ten_seconds_and_when_they_are_over() -> None:
    reporter, counts = LossReporter(), Counts()
    second = 1_000_000_000

    def report(at: int, lost: int, *, lacking: bool = True) -> str | None:
        counts.dropped_bytes = lost
        return reporter.report(at * second, counts, 0, lacking=lacking)

    assert report(1, 0) is None
    assert report(2, 1) == "1 byte could not be stored so far; streams go on"
    assert [report(at, 1000 * at) for at in range(3, 12)] == [None] * 9
    assert report(12, 12_000) == "12,000 bytes could not be stored so far; streams go on"
    assert report(23, 12_000) is None
    assert report(24, 12_500, lacking=False) == "nothing is lost any more; in all, 12,500 bytes could not be stored"
    assert report(25, 12_500, lacking=False) is None
    counts.unrecorded = 2
    assert report(34, 12_500) == "2 exchanges and 12,500 bytes could not be stored so far; streams go on"


def test_a_writer_that_does_not_answer_is_reported_once_though_nothing_is_lost_yet() -> None:
    reporter, counts = LossReporter(), Counts()
    lags = [LATE_NS, REPORT_NS, REPORT_NS + 1, 2 * REPORT_NS, 0, 0]
    assert [reporter.report(0, counts, lag, lacking=False) for lag in lags] == [
        None,
        None,
        "nothing could be written for 10 s; what comes meanwhile is kept in memory",
        None,
        "works again, nothing was lost meanwhile",
        None,
    ]
