"""The filters of earlier runs."""

import stat
from pathlib import Path

import pytest

from tests.support.sample_tape import HOSTILE
from wiretape.viewer.tui.list import filter


def test_history_is_in_the_state_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert filter.history_file() == tmp_path / "wiretape" / "filters.json"


def test_history_keeps_the_newest_last(tmp_path: Path) -> None:
    path = tmp_path / "state" / "filters.json"
    assert filter.read_history(path) == []
    for text in ("a", HOSTILE, "\ud800", " ", "b", "a", "x" * 5000):
        filter.add_filters(path, text)
    assert filter.read_history(path) == [HOSTILE, "\ud800", "b", "a"]
    assert [file.name for file in path.parent.iterdir()] == ["filters.json"]


def test_history_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "state" / "filters.json"
    filter.add_filters(path, "a")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_only_the_newest_filters_are_kept(tmp_path: Path) -> None:
    texts = [f"a{number}" for number in range(filter.MOST_FILTERS + 5)]
    assert filter.with_filters(texts[:-1], texts[-1]) == texts[5:]


def test_several_filters_are_added_in_order() -> None:
    assert filter.with_filters(["a", "b", "c"], "b", "", "d", "b") == ["a", "c", "d", "b"]


@pytest.mark.parametrize("data", [b"{}", b"[1", b"\xff", b'["a"', b"[" * 9999])
def test_broken_history_is_an_error_and_is_replaced(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "filters.json"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"."):
        filter.read_history(path)
    filter.add_filters(path, "a")
    assert filter.read_history(path) == ["a"]


def test_invalid_entries_of_the_history_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "filters.json"
    path.write_text('["a", 3, null, "", ["b"], "c"]')
    assert filter.read_history(path) == ["a", "c"]


def test_an_unwritable_directory_is_an_error_without_remains(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"."):
        filter.add_filters(tmp_path / "file" / "filters.json", "a")
    (tmp_path / "filters.json").mkdir()
    with pytest.raises(OSError, match=r"."):
        filter.add_filters(tmp_path / "filters.json", "a")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["file", "filters.json"]
