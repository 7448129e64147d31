"""Copying to the terminal's clipboard, in terminals that support it, and to a file of the user's."""

import stat
from pathlib import Path

import pytest
from textual.screen import Screen

from tests.support.sample_tape import COMPLETE, HOSTILE
from tests.support.screens import journey, press, shows, staged, wait_for
from wiretape.viewer.tui.base import clipboard
from wiretape.viewer.tui.dialogs.menus import copy_menu
from wiretape.viewer.tui.dialogs.offers import Copy, Later

COPIES: list[Copy] = [("id", COMPLETE), ("text", HOSTILE)]


def test_a_copy_goes_to_clipboard_and_private_file(tape: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))

    async def steps() -> None:
        async with staged(tape, Screen) as (app, pilot):
            app.push_screen(copy_menu(app, COPIES))
            text = await shows(pilot, "id", COMPLETE, "[bold]x[/bold]")
            assert "\x1b" not in text
            await press(pilot, "j", "enter")
            await wait_for(pilot, lambda: app.toasts)
            assert app.clipboard == HOSTILE
            clip = tmp_path / "wiretape" / "clip"
            assert app.toasts == [f"text: {len(HOSTILE)} characters, to the terminal's clipboard and {clip}"]
            assert clip.read_text("utf-8") == HOSTILE
            assert stat.S_IMODE(clip.stat().st_mode) == 0o600

    journey(steps())


@pytest.mark.parametrize("has_file", [True, False])
def test_an_oversized_copy_names_its_command_instead(
    tape: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_file: bool
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path if has_file else tmp_path / "nowhere"))
    most, long = "é" * (clipboard.MOST // 2), "é" * (clipboard.MOST // 2 + 1)

    async def text_given() -> str:
        return long

    async def steps() -> None:
        async with staged(tape, Screen) as (app, pilot):
            clipboard.copy(app, "most", most)
            app.push_screen(copy_menu(app, [("SSE", Later("as it came", text_given, "wiretape show ab"))]))
            await shows(pilot, "as it came")
            await press(pilot, "enter")
            await wait_for(pilot, lambda: len(app.toasts) == 2)
            clipboard.copy(app, "long", long)
            assert app.clipboard == most
            clip = tmp_path / "wiretape" / "clip"
            destination = f"only to {clip}" if has_file else "not copied"
            explanation = f": 449,996 bytes are more than a terminal's clipboard takes (449,994): {destination}. "
            assert app.toasts[1:] == [
                f"SSE{explanation}wiretape show ab gives them",
                f"long{explanation}x exports them",
            ]
            assert not has_file or clip.read_text("utf-8") == long

    journey(steps())


def test_the_longest_control_sequence_fits_the_shortest_limit() -> None:
    assert len("\x1b]52;c;\x07") + clipboard.MOST * 4 // 3 <= 600_000
    assert clipboard.MOST % 3 == 0


def test_half_a_surrogate_pair_is_copied_as_question_mark(tape: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)

    async def steps() -> None:
        async with staged(tape, Screen) as (app, _):
            clipboard.copy(app, "text", "a\ud800b")
            assert app.clipboard == "a?b"

    journey(steps())


def test_without_a_runtime_directory_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    assert clipboard.save("x") is None
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "nowhere"))
    assert clipboard.save("x") is None


def test_links_are_not_followed_and_old_files_become_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    clip = tmp_path / "wiretape" / "clip"
    clip.parent.mkdir()
    clip.write_text("old and longer")
    clip.chmod(0o644)
    assert clipboard.save("new") == clip
    assert (clip.read_text(), stat.S_IMODE(clip.stat().st_mode)) == ("new", 0o600)
    clip.unlink()
    (tmp_path / "other").write_text("other")
    clip.symlink_to(tmp_path / "other")
    assert clipboard.save("new") is None
    assert (tmp_path / "other").read_text() == "other"
