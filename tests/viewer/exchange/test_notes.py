"""Notes beside a tape."""

import json
import os
import stat
from pathlib import Path

import pytest

from wiretape.recorder.errors import WiretapeError
from wiretape.viewer.exchange import notes
from wiretape.viewer.exchange.notes import Notes


def test_notes_are_kept_beside_the_tape_and_only_for_their_owner(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    notes.write(tape, "aa", Notes("slow\n\x1b", [3, 7]))
    notes.write(tape, "bb", Notes("", [1]))
    assert notes.read(tape, "aa") == Notes("slow\n\x1b", [3, 7])
    assert stat.S_IMODE(notes.path_of(tape).stat().st_mode) == 0o600
    assert sorted(os.listdir(tmp_path)) == ["tape.db.notes.json"]


def test_empty_notes_are_removed_and_those_of_others_stay(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    notes.write(tape, "aa", Notes("x"))
    notes.write(tape, "bb", Notes("y"))
    notes.write(tape, "aa", Notes())
    assert list(json.loads(notes.path_of(tape).read_text())) == ["bb"]


def test_bookmark_is_toggled() -> None:
    noted = Notes(bookmarks=[5])
    assert [noted.toggle(3), noted.toggle(5)] == [True, False]
    assert noted.bookmarks == [3]


def test_missing_file_means_no_notes(tmp_path: Path) -> None:
    assert notes.read(tmp_path / "tape.db", "aa") == Notes()


@pytest.mark.parametrize("text", ["{", "[]", '{"aa": 5}', "\udcff"])
def test_foreign_file_is_left_alone(tmp_path: Path, text: str) -> None:
    path = notes.path_of(tmp_path / "tape.db")
    path.write_text(text, "utf-8", "surrogateescape")
    before = path.read_bytes()
    with pytest.raises(WiretapeError, match="move it away"):
        notes.write(tmp_path / "tape.db", "aa", Notes("x"))
    assert path.read_bytes() == before


def test_malformed_notes_are_read_as_far_as_possible(tmp_path: Path) -> None:
    notes.path_of(tmp_path / "tape.db").write_text('{"aa": {"text": 5, "bookmarks": [2, "x", 1]}}')
    assert notes.read(tmp_path / "tape.db", "aa") == Notes("", [1, 2])


def test_unwritable_notes_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(WiretapeError, match="cannot be written"):
        notes.write(tmp_path / "nowhere" / "tape.db", "aa", Notes("x"))
