"""Commands in messages, with the tape that the running command was given."""

import json
import sys
from pathlib import Path

import pytest

from tests.support.cases import each_case
from wiretape.recorder.commands.hints import complete
from wiretape.recorder.commands.options import install_hint

UPGRADE = "t.db has the older schema 1: run 'wiretape db upgrade'"
DAMAGED = "t.db is damaged (malformed): run 'wiretape db check', or restore it from a backup"


@each_case(
    ("arguments", "expected"),
    [
        ("ls --db t.db", "run 'wiretape db upgrade --db t.db'"),
        ("ls --db=t.db", "run 'wiretape db upgrade --db t.db'"),
        ("ls", "run 'wiretape db upgrade'"),
        ("run -- program --db t.db", "run 'wiretape db upgrade'"),
        ("ls --db clickhouse://me:secret@host/x", "run 'wiretape db upgrade'"),
    ],
)
def test_a_recommended_command_names_the_tape(arguments: str, expected: str) -> None:
    assert complete(UPGRADE, arguments.split()).endswith(expected)


def test_a_path_with_blanks_is_quoted_and_named_once() -> None:
    message = complete(UPGRADE, ["ls", "--db", "my $tape.db"])
    assert message.endswith("'wiretape db upgrade --db \"my \\$tape.db\"'")
    assert complete(message, ["ls", "--db", "other.db"]) == message


def test_a_check_is_not_sent_to_itself() -> None:
    assert complete(DAMAGED, ["db", "check", "--db", "t.db"]) == "t.db is damaged (malformed): restore it from a backup"
    unusable = "t.db cannot be used (no): run 'wiretape db check --db t.db'"
    assert complete(unusable, ["db", "check"]) == "t.db cannot be used (no)"
    assert "db check --db t.db" in complete(DAMAGED, ["ls", "--db", "t.db"])


@each_case("command", ["wiretape help filters", "wiretape db cut", "wiretape pull", "wiretape ship --to …"])
def test_commands_for_other_tapes_are_left_alone(command: str) -> None:
    assert complete(f"see '{command}'", ["ls", "--db", "t.db"]) == f"see '{command}'"


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("uv-receipt.toml", "uv tool install --force 'wiretape[gif]'"),
        ("pipx_metadata.json", "pipx install --force 'wiretape[gif]'"),
        ("wiretape-0.1.0.dist-info/INSTALLER", "python3 -m pip install 'wiretape[gif]'"),
    ],
)
def test_an_extra_is_added_by_the_installer(
    file: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path, monkeypatch, "pip")
    (tmp_path / file).touch()
    assert install_hint("gif") == expected


def test_a_clones_extra_is_installed_from_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = installed(tmp_path, monkeypatch, "uv")
    origin = {"url": "file:///my%20clone", "dir_info": {"editable": True}}
    (info / "direct_url.json").write_text(json.dumps(origin))
    assert install_hint("gif") == "uv pip install -p python3 -e '/my clone[gif]'"


def installed(folder: Path, monkeypatch: pytest.MonkeyPatch, installer: str) -> Path:
    """Return the metadata of a package in a folder that is the environment now."""
    info = folder / "wiretape-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: wiretape\nVersion: 0.1.0\n")
    (info / "INSTALLER").write_text(f"{installer}\n")
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    monkeypatch.setattr(sys, "prefix", str(folder))
    monkeypatch.setattr(sys, "executable", "python3")
    return info
