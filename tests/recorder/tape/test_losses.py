import errno
import os
import stat
from pathlib import Path

import pytest

from wiretape.recorder.errors import TapeBusy
from wiretape.recorder.tape import losses
from wiretape.recorder.tape.journal import Verified
from wiretape.recorder.tape.losses import (
    LATE_NS,
    REPORT_NS,
    SLOT_BYTES,
    Counts,
    Keeper,
    LossReporter,
    Relayed,
    Totals,
    Unstored,
    reconcile,
)

STORED = Counts(recorded=3, failed=1, stored_exchanges=5, stored_bytes=1000, dropped_bytes=30, unrecorded=2)


def test_the_totals_are_the_tapes() -> None:
    assert reconcile(STORED, Verified(5, 2, 1000, [])) == Totals(5, 2, 30, 2)
    assert not Totals(5, 2, 30, 2).is_whole
    assert Totals(5, 2, 0, 0).is_whole


def test_acknowledged_data_that_is_gone_is_missing_and_reported() -> None:
    totals = reconcile(STORED, Verified(4, 2, 1, ["page 7 is never used"]))
    assert (totals.missing_exchanges, totals.missing_bytes) == (3, 1029)
    assert totals.problems == [
        "1 exchange and 999 bytes had been stored and cannot be read from the tape any more: something else changed it",
        "the tape is damaged: page 7 is never used",
    ]


def test_data_on_the_tape_is_never_missing() -> None:
    assert reconcile(STORED, Verified(6, 2, 1030, [])) == Totals(6, 2, 0, 1)


def test_acknowledgements_count_where_the_tape_cannot_be_read() -> None:
    assert reconcile(STORED, None) == Totals(5, 1, 30, 2, unmeasured=2)
    assert reconcile(STORED, Verified(None, None, None, ["it is gone"])).problems == ["the tape is damaged: it is gone"]
    assert reconcile(STORED, Verified(5, 2, None, [])).missing_bytes == 30


def test_exchanges_on_the_tape_without_measures_are_counted() -> None:
    assert reconcile(STORED, Verified(6, 2, 1030, [], unmeasured=4)).unmeasured == 4


def test_late_acknowledgements_are_not_reported_as_stuck() -> None:
    late = LossReporter().report(0, Counts(), 2 * REPORT_NS, LATE_NS, lacking=False)
    assert late == "writing is behind by 20 s; new data is kept in memory"


def test_losses_are_reported_at_once_then_every_ten_seconds() -> None:
    reporter, counts = LossReporter(), Counts()
    second = 1_000_000_000

    def report(at: int, lost: int, *, lacking: bool = True) -> str | None:
        counts.dropped_bytes = lost
        return reporter.report(at * second, counts, 0, 0, lacking=lacking)

    assert report(1, 0) is None
    assert report(2, 1) == "1 byte could not be stored; streams go on"
    assert [report(at, 1000 * at) for at in range(3, 12)] == [None] * 9
    assert report(12, 12_000) == "12,000 bytes could not be stored; streams go on"
    assert report(23, 12_000) is None
    assert report(24, 12_500, lacking=False) == "nothing is lost any more; in all, 12,500 bytes could not be stored"
    assert report(25, 12_500, lacking=False) is None
    counts.unrecorded = 2
    assert report(34, 12_500) == "2 exchanges and 12,500 bytes could not be stored; streams go on"


def test_a_silent_writer_is_reported_once_before_any_loss() -> None:
    reporter, counts = LossReporter(), Counts()
    lags = [LATE_NS, REPORT_NS, REPORT_NS + 1, 2 * REPORT_NS, 0, 0]
    assert [reporter.report(0, counts, lag, lag, lacking=False) for lag in lags] == [
        None,
        None,
        "nothing could be written for 10 s; new data is kept in memory",
        None,
        "works again, nothing was lost meanwhile",
        None,
    ]


KNOWN = Unstored(
    "session-1",
    [
        Relayed(
            id="e1",
            bytes=10,
            ended_by="end",
            status=200,
            framing="chunked",
            connected_ns=1,
            sent_ns=2,
            headers_ns=3,
            end_ns=4,
            paused=5,
            surplus=True,
        ),
        Relayed(id="e2", bytes=0),
    ],
)


def remembered(tape: Path, *contents: Unstored) -> Unstored | None:
    keeper = Keeper(tape)
    for content in contents:
        keeper.keep(content)
    keeper.close(10)
    return losses.read(tape)


def test_what_is_kept_last_is_read(tape: Path) -> None:
    losses.prepare(tape, "session-1")
    assert losses.read(tape) == Unstored("session-1")
    assert remembered(tape, Unstored("session-1", unlisted=1), KNOWN) == KNOWN
    assert not Unstored("session-1")
    assert KNOWN


def test_the_file_is_private_and_keeps_its_room(tape: Path) -> None:
    losses.path_of(tape).touch(0o644)
    losses.prepare(tape, "session-1")
    status = losses.path_of(tape).stat()
    assert stat.S_IMODE(status.st_mode) == 0o600
    assert status.st_size == 2 * SLOT_BYTES
    assert status.st_blocks * 512 >= 2 * SLOT_BYTES
    remembered(tape, KNOWN)
    assert losses.path_of(tape).stat().st_size == status.st_size


@pytest.mark.parametrize("slot", [0, 1])
def test_a_torn_slot_leaves_the_previous_one(tape: Path, slot: int) -> None:
    losses.prepare(tape, "session-1")
    previous, final = (
        Unstored("session-1", [Relayed(id="e1", bytes=1)]),
        Unstored("session-1", [Relayed(id="e1", bytes=2)]),
    )
    assert remembered(tape, *[previous, final][: slot + 1]) == [previous, final][slot]
    with losses.path_of(tape).open("r+b") as file:
        file.seek((slot + 1) % 2 * SLOT_BYTES + 30)
        file.write(b"\xff\xff")
    assert losses.read(tape) == [Unstored("session-1"), previous][slot]


@pytest.mark.parametrize("content", [b"", b"junk" * 1000, bytes(2 * SLOT_BYTES)])
def test_a_file_of_another_kind_holds_nothing(tape: Path, content: bytes) -> None:
    assert losses.read(tape) is None
    losses.path_of(tape).write_bytes(content)
    assert losses.read(tape) is None


def test_exchanges_that_do_not_fit_are_shortened_then_counted(tape: Path) -> None:
    losses.prepare(tape, "session-1")
    instants = dict.fromkeys(("connected_ns", "sent_ns", "headers_ns", "end_ns"), 1 << 40)
    many = [
        Relayed(id=f"{number:016x}", bytes=1, ended_by="end", status=200, framing="chunked", **instants)
        for number in range(5000)
    ]
    assert remembered(tape, Unstored("s", many)) == Unstored("s", [Relayed(id=relayed.id, bytes=1) for relayed in many])
    most = remembered(tape, Unstored("s", many * 10, 7, 70))
    assert most is not None
    assert most.exchanges[:5000] == [Relayed(id=relayed.id, bytes=1) for relayed in many]
    assert len(most.exchanges) + most.unlisted == 50_007
    assert len(most.exchanges) + most.unlisted_bytes == 50_070


def test_a_disk_without_room_stops_the_start(tape: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(TapeBusy, match=r"tape.db.unstored cannot be written \(No space left on device\): free"):
        losses.prepare(tape, "session-1")


@pytest.mark.damages
def test_a_link_in_the_files_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("precious")
    losses.path_of(tmp_path / "tape.db").symlink_to(tmp_path / "other")
    with pytest.raises(TapeBusy, match="mend or remove it"):
        losses.prepare(tmp_path / "tape.db", "session")
    assert (tmp_path / "other").read_text() == "precious"
