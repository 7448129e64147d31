"""Looks at paths that the system refuses."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support.cases import each_case
from wiretape.recorder import paths


@pytest.fixture
def loop(tmp_path: Path) -> Path:
    link = tmp_path / "loop"
    link.symlink_to(link)
    return link


def test_a_loop_of_links_is_refused_and_nothing_raises(loop: Path) -> None:
    assert paths.refusal(loop) == "Too many levels of symbolic links"
    assert not any(look(loop) for look in (paths.exists, paths.is_file, paths.is_directory))
    assert paths.real(loop).name == "loop"


def test_an_overlong_name_is_refused_without_raising(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 300)
    assert paths.refusal(path) == "File name too long"
    assert not paths.exists(path)
    assert paths.real(path) == path


def test_what_is_missing_is_not_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "file", tmp_path / "missing", tmp_path / "file" / "below"):
        assert paths.refusal(path) == ""


def test_relative_paths_survive_a_removed_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert paths.current_directory() is None
    assert paths.real(Path("t.db")) == paths.absolute(Path("t.db")) == Path("t.db")


@each_case("name", [b"caf\xe9.db", "ünïcode.db".encode(), b"a?mode=memory#b%41.db"])
def test_a_path_survives_json_and_can_be_encoded(name: bytes) -> None:
    path = Path(os.fsdecode(name))
    assert paths.from_json(Path, paths.to_json(path)) == path
    assert paths.to_json(path).encode()
    assert paths.text(path).encode()


def test_a_nameless_homeless_user_has_no_directories(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(_: int) -> None:
        raise KeyError

    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", nobody)
    assert [paths.of_user(kind) for kind in ("config", "data", "state")] == [None] * 3


def test_a_disk_without_inodes_is_no_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert paths.shortage(tmp_path / "t.db") == ""
    monkeypatch.setattr("os.statvfs", lambda _: SimpleNamespace(f_files=10, f_favail=0, f_bavail=1 << 30, f_frsize=512))
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1 << 30))
    assert "no inodes" in paths.shortage(tmp_path / "t.db")
