"""The configuration files of the viewer, and the history of filters."""

import stat
from pathlib import Path

import pytest

from tests.viewer.conftest import HOSTILE
from wiretape.viewer.model import settings
from wiretape.viewer.timing import thresholds


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    monkeypatch.chdir(tmp_path)
    own = tmp_path / "config" / "wiretape" / "config.toml"
    own.parent.mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    assert thresholds.user_file() == own
    return tmp_path / thresholds.LOCAL_FILE, own


def test_missing_files_are_no_mistake(files: tuple[Path, Path]) -> None:
    assert settings.read() == settings.Settings()


def test_nearer_file_comes_first(files: tuple[Path, Path]) -> None:
    near, far = files
    near.write_text('theme = "nord"\n[keys]\n"replay.play" = "p"\n[views]\nslow = "ttft>800ms"\n')
    far.write_text('theme = "dracula"\nslo = "ttft<1s"\n[keys]\n"replay.play" = "z"\nstats.group = "g"\n')
    found = settings.read()
    assert found.keys == {"replay.play": "p", "stats.group": "g"}
    assert (found.views, found.theme, found.slo, found.wrong) == ({"slow": "ttft>800ms"}, "nord", "ttft<1s", [])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[keys", ".wiretape.toml is no TOML: "),
        ("keys = 3", "keys in .wiretape.toml is no table: write [keys] on a line of its own"),
        ("[keys]\na.b = 3", "a.b under [keys] in .wiretape.toml must be a text in quotes"),
        ('[keys]\n"a\\u001b" = 3', "a␛ under [keys] in .wiretape.toml must be a text in quotes"),
        ("them = 3", "them in .wiretape.toml is no setting: did you mean theme?"),
        ("theme = 3", "theme in .wiretape.toml must be a text in quotes"),
        ('[views]\nslow = "ttft>fast"', "the view slow is no filter: 'fast' (character 6): expected a duration"),
        ('slo = "ttft"', "slo: 'ttft' is not a bound"),
    ],
)
def test_mistake_is_one_warning(text: str, said: str, files: tuple[Path, Path]) -> None:
    files[0].write_text(text)
    (line,) = settings.read().wrong
    assert line.startswith(said)
    assert "\n" not in line
    assert "\x1b" not in line


def test_valid_settings_beside_a_mistake_count(files: tuple[Path, Path]) -> None:
    near, far = files
    near.write_text('[views]\nbad = "("\ngood = "is:ok"\n')
    far.write_text("no toml")
    found = settings.read()
    assert found.views == {"good": "is:ok"}
    assert len(found.wrong) == 2


def test_unreadable_file_is_a_warning(files: tuple[Path, Path]) -> None:
    files[0].mkdir()
    (line,) = settings.read().wrong
    assert line == ".wiretape.toml cannot be read (Is a directory)"


def test_unknown_theme_is_removed_with_a_warning() -> None:
    for name, told in (("nrod", "did you mean nord?"), ("\x1b", "there are wiretape-dark and wiretape-light")):
        found = settings.Settings(theme=name)
        settings.check_theme(found, ["nord", "dracula"])
        assert found.theme is None
        assert found.wrong == [f"theme: there is no theme {name.replace(chr(27), '␛')}: {told}"]
    for known in ("nord", None):
        found = settings.Settings(theme=known)
        settings.check_theme(found, ["nord"])
        assert (found.theme, found.wrong) == (known, [])


def test_history_is_in_the_state_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert settings.history_file() == tmp_path / "wiretape" / "filters.json"


def test_history_keeps_the_newest_last(tmp_path: Path) -> None:
    path = tmp_path / "state" / "filters.json"
    assert settings.read_history(path) == []
    for text in ("a", HOSTILE, "\ud800", " ", "b", "a", "x" * 5000):
        settings.add_to_history(path, text)
    assert settings.read_history(path) == [HOSTILE, "\ud800", "b", "a"]
    assert [one.name for one in path.parent.iterdir()] == ["filters.json"]


def test_history_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "state" / "filters.json"
    settings.add_to_history(path, "a")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_only_the_newest_filters_are_kept(tmp_path: Path) -> None:
    texts = [f"a{number}" for number in range(settings.MOST_FILTERS + 5)]
    assert settings.with_filters(texts[:-1], texts[-1]) == texts[5:]


def test_several_filters_are_added_in_order() -> None:
    assert settings.with_filters(["a", "b", "c"], "b", "", "d", "b") == ["a", "c", "d", "b"]


@pytest.mark.parametrize("data", [b"{}", b"[1", b"\xff", b'["a"', b"[" * 9999])
def test_broken_history_is_an_error_and_is_replaced(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "filters.json"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"."):
        settings.read_history(path)
    settings.add_to_history(path, "a")
    assert settings.read_history(path) == ["a"]


def test_invalid_entries_of_the_history_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "filters.json"
    path.write_text('["a", 3, null, "", ["b"], "c"]')
    assert settings.read_history(path) == ["a", "c"]


def test_a_directory_that_cannot_be_written_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"."):
        settings.add_to_history(tmp_path / "file" / "filters.json", "a")
    (tmp_path / "filters.json").mkdir()
    with pytest.raises(OSError, match=r"."):
        settings.add_to_history(tmp_path / "filters.json", "a")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["file", "filters.json"]
