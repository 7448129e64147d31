import errno
import os
import stat
from pathlib import Path

import pytest

from recorder.errors import TapeBusy
from recorder.tape import unstored
from recorder.tape.unstored import SLOT_BYTES, Keeper, Relayed, Unstored

KNOWN = Unstored("session-1", [Relayed("e1", 10, "end", 200, "chunked", 1, 2, 3, 4, None, 5, True), Relayed("e2", 0)])


def kept(tape: Path, *contents: Unstored) -> Unstored | None:
    keeper = Keeper(tape)
    for content in contents:
        keeper.keep(content)
    keeper.close(10)
    return unstored.read(tape)


def test_what_is_kept_last_is_read(tape: Path) -> None:
    unstored.prepare(tape, "session-1")
    assert unstored.read(tape) == Unstored("session-1")
    assert kept(tape, Unstored("session-1", unlisted=1), KNOWN) == KNOWN
    assert not Unstored("session-1")
    assert KNOWN


def test_the_file_is_private_has_all_of_its_room_and_keeps_it(tape: Path) -> None:
    unstored.path_of(tape).touch(0o644)
    unstored.prepare(tape, "session-1")
    before = unstored.path_of(tape).stat()
    assert stat.S_IMODE(before.st_mode) == 0o600
    assert before.st_size == 2 * SLOT_BYTES
    assert before.st_blocks * 512 >= 2 * SLOT_BYTES
    kept(tape, KNOWN)
    assert unstored.path_of(tape).stat().st_size == before.st_size


@pytest.mark.parametrize("slot", [0, 1])
def test_a_slot_that_was_written_in_part_leaves_the_one_before(tape: Path, slot: int) -> None:
    unstored.prepare(tape, "session-1")
    before, last = Unstored("session-1", [Relayed("e1", 1)]), Unstored("session-1", [Relayed("e1", 2)])
    assert kept(tape, *[before, last][: slot + 1]) == [before, last][slot]
    with unstored.path_of(tape).open("r+b") as file:
        file.seek((slot + 1) % 2 * SLOT_BYTES + 30)
        file.write(b"\xff\xff")
    assert unstored.read(tape) == [Unstored("session-1"), before][slot]


@pytest.mark.parametrize("content", [b"", b"junk" * 1000, bytes(2 * SLOT_BYTES)])
def test_a_file_of_another_kind_holds_nothing(tape: Path, content: bytes) -> None:
    assert unstored.read(tape) is None
    unstored.path_of(tape).write_bytes(content)
    assert unstored.read(tape) is None


def test_more_exchanges_than_fit_are_kept_shorter_and_then_counted(tape: Path) -> None:
    unstored.prepare(tape, "session-1")
    instants = dict.fromkeys(("connected_ns", "sent_ns", "headers_ns", "end_ns"), 1 << 40)
    many = [Relayed(f"{number:016x}", 1, "end", 200, "chunked", **instants) for number in range(6000)]
    assert kept(tape, Unstored("s", many)) == Unstored("s", [Relayed(one.id, 1) for one in many])
    most = kept(tape, Unstored("s", many * 10, 7, 70))
    assert most is not None
    assert most.exchanges[:6000] == [Relayed(one.id, 1) for one in many]
    assert len(most.exchanges) + most.unlisted == 60_007
    assert len(most.exchanges) + most.unlisted_bytes == 60_070


def test_a_disk_without_room_stops_the_start(tape: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(TapeBusy, match=r"tape.db.unstored cannot be written \(No space left on device\): free"):
        unstored.prepare(tape, "session-1")


@pytest.mark.damages
def test_a_link_in_the_place_of_the_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("precious")
    unstored.path_of(tmp_path / "tape.db").symlink_to(tmp_path / "other")
    with pytest.raises(TapeBusy, match="mend or remove it"):
        unstored.prepare(tmp_path / "tape.db", "session")
    assert (tmp_path / "other").read_text() == "precious"
