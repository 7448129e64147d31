"""Pages in the user's browser: which programs are started, and which never."""

import asyncio
from pathlib import Path

import pytest

from wiretape.viewer.tui.dialogs import opening

_NAMES = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY", "SSH_CONNECTION")


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the display and the browser of this machine."""
    for name in _NAMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")


def program(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o700)
    return str(path)


def test_without_display_or_named_browser_nothing_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "lynx", f"touch {tmp_path / 'started'}")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not asyncio.run(opening.open_file(tmp_path / "page.html"))
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize("name", ["BROWSER", "DISPLAY", "WAYLAND_DISPLAY"])
def test_a_named_browser_is_reachable_over_ssh_too(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_CONNECTION", "there")
    assert not opening.is_reachable()
    monkeypatch.setenv(name, "x")
    assert opening.is_reachable()


def test_a_mac_has_a_browser_unless_used_remotely(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    assert opening.is_reachable()
    monkeypatch.setenv("SSH_CONNECTION", "there")
    assert not opening.is_reachable()


def test_a_browser_gets_the_files_address_without_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = tmp_path / "got"
    monkeypatch.setenv("BROWSER", program(tmp_path / "named", f'echo "$1" >{saved}; test ! -t 0 -a ! -t 1 -a ! -t 2'))
    assert asyncio.run(opening.open_file(tmp_path / "a; $(b) é.html"))
    assert saved.read_text() == f"file://{tmp_path}/a%3B%20%24%28b%29%20%C3%A9.html\n"


def test_a_browser_that_fails_has_opened_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROWSER", program(tmp_path / "named", "exit 3"))
    monkeypatch.setenv("PATH", "")
    assert not asyncio.run(opening.open_file(tmp_path / "page.html"))
