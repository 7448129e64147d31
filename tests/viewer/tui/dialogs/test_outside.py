"""Pagers and editors of a screen, which have the terminal meanwhile, and give it back."""

import json
import signal
from pathlib import Path

import pytest
from textual.screen import Screen

from tests.support.forked import CLI
from tests.support.growing_tape import recorder
from tests.support.sample_tape import HOSTILE, LIVE, event
from tests.support.screens import journey, shows, staged
from tests.support.terminal import Terminal
from wiretape.recorder.sanitize import safe
from wiretape.viewer.tui.dialogs import outside
from wiretape.viewer.tui.dialogs.menus import copy_menu

PAGER_KEYS, EDITOR_KEYS = "kk\r", "k\r"
"""The last but one of the menu of copies, and the last."""

PAGER = """#!/bin/sh
cat >"$0.got"
echo it pages >&2
read line <&2
exit "${line:-0}"
"""

EDITOR = """#!/bin/sh
cp -p "$1" "$0.got"
echo "$1" >"$0.name"
echo it edits
read line
exit "${line:-0}"
"""


def program(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o700)
    return str(path)


def has_ended(number: int) -> bool:
    """Return True if a process has ended, even if nobody has waited for it yet."""
    path = Path(f"/proc/{number}/cmdline")
    return not path.exists() or not path.read_bytes()


def viewing(tape: Path, *more: str, **environment: str) -> Terminal:
    return Terminal([*CLI, "view", "--db", str(tape), *more], environment=environment)


def choose(terminal: Terminal, keys: str) -> None:
    """Choose from the menu of copies."""
    terminal.press("y")
    terminal.wait_for("in your editor")
    terminal.press(keys)


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tape with one exchange, whose text is hostile."""
    path = tmp_path_factory.mktemp("odd") / "tape.db"
    with recorder(path) as writing:
        writing.record("a" * 16, [(10, event({"content": HOSTILE})), (20, event({}, "stop"))])
    return path


def test_pagers_and_editors_return_the_terminal(odd: Path, tmp_path: Path) -> None:
    pager, editor = program(tmp_path / "pager", PAGER), program(tmp_path / "editor", EDITOR)
    folder = {"TMPDIR": str(tmp_path), "VISUAL": editor, "WIRETAPE_PAGER": pager, "PAGER": "no-such"}
    with viewing(odd, "@", **folder) as terminal:
        terminal.wait_for("#–/#1")
        for keys, words in ((PAGER_KEYS, "it pages"), (EDITOR_KEYS, "it edits")):
            choose(terminal, keys)
            terminal.wait_for(words)
            assert terminal.is_restored()
            terminal.press("\n")
            terminal.wait_for(lambda screen: "1049" in screen.modes and any("q back" in line for line in screen.lines))
            assert not terminal.is_restored()
        terminal.press("qq")
        assert terminal.ended() == 0
        assert terminal.is_restored()
    paged = (tmp_path / "pager.got").read_text("utf-8")
    assert safe(HOSTILE, multiline=True) in paged
    assert not [sign for sign in paged if ord(sign) < 32 and sign != "\n"]
    edited = tmp_path / "editor.got"
    assert HOSTILE.encode("utf-8", "surrogatepass") in edited.read_bytes()
    assert edited.stat().st_mode & 0o777 == 0o600
    assert not Path((tmp_path / "editor.name").read_text().strip()).exists()


def test_a_failure_is_reported_in_a_line(tape: Path, tmp_path: Path) -> None:
    editor = program(tmp_path / "editor", EDITOR)
    broken = program(tmp_path / "broken", "#!/no/such/interpreter\n")
    with viewing(tape, EDITOR=editor, VISUAL="", PAGER="no-such-program -x") as terminal:
        terminal.wait_for(LIVE[:8])
        choose(terminal, PAGER_KEYS)
        terminal.wait_for("there is no program no-such-program: set PAGER to one that is there")
        assert terminal.sent.count(b"\x1b[?1049l") == 0
        choose(terminal, EDITOR_KEYS)
        terminal.wait_for("it edits")
        terminal.press("3\n")
        terminal.wait_for("editor ended with exit code 3")
        terminal.press("q")
        assert terminal.ended() == 0
    with viewing(tape, EDITOR=broken, VISUAL="") as terminal:
        terminal.wait_for(LIVE[:8])
        choose(terminal, EDITOR_KEYS)
        terminal.wait_for("broken cannot be run: No such file or directory")
        terminal.press("q")
        assert terminal.ended() == 0


def test_an_interrupt_ends_programs_and_an_end_ends_both(tape: Path, tmp_path: Path) -> None:
    editor = program(tmp_path / "editor", EDITOR.replace("read", "echo $$ >$0.pid; read"))
    with viewing(tape, EDITOR=editor, VISUAL="") as terminal:
        terminal.wait_for(LIVE[:8])
        choose(terminal, EDITOR_KEYS)
        terminal.wait_for("it edits")
        terminal.signal(signal.SIGINT)
        terminal.press("\n")
        terminal.wait_for(LIVE[:8])
        choose(terminal, EDITOR_KEYS)
        terminal.wait_for("it edits")
        terminal.signal(signal.SIGTERM)
        assert terminal.ended() == 143
        assert terminal.is_restored()
        number = int((tmp_path / "editor.pid").read_text())
        terminal.wait_until(lambda: has_ended(number))
        assert not list(tmp_path.glob("wiretape-*"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [("data: {}\n\n", ".sse"), (json.dumps({"a": 1}), ".json"), ("{ words", ".txt"), ("words", ".txt"), ("", ".txt")],
)
def test_a_file_name_says_what_it_holds(text: str, expected: str) -> None:
    assert outside.suffix(text) == expected


def test_the_first_variable_that_names_a_program_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*outside.PAGERS, *outside.EDITORS):
        monkeypatch.delenv(name, raising=False)
    assert outside.editor() == ("", ["vi"])
    assert outside.pager()[1][0] in ("less", "more")
    monkeypatch.setenv("PAGER", "cat")
    assert outside.pager()[1][0] in ("less", "more")
    monkeypatch.setenv("WIRETAPE_PAGER", "most -w 'a b'")
    assert outside.pager() == ("WIRETAPE_PAGER", ["most", "-w", "a b"])
    monkeypatch.setenv("EDITOR", "nano")
    monkeypatch.setenv("VISUAL", "it's")
    assert outside.editor() == ("VISUAL", ["it's"])


def test_a_screen_describes_itself_or_offers_all_copies() -> None:
    class Copying:
        def copies(self) -> list[tuple[str, str]]:
            return [("id", "7f3a"), ("text", "two\nlines")]

    class Paging(Copying):
        def pages(self) -> tuple[str, str]:
            return "bytes.sse", "data: 1\n\n"

    assert outside.page(Paging()) == ("bytes.sse", "data: 1\n\n")
    assert outside.page(Copying()) == ("text", "-------- id\n7f3a\n\n-------- text\ntwo\nlines\n")
    assert outside.page(object()) is None


def test_offering_a_text_does_not_make_it(tape: Path) -> None:
    calls = list[str]()

    class Paging(Screen[None]):
        def copies(self) -> list[tuple[str, str]]:
            return []

        def pages(self) -> tuple[str, str]:
            calls.append("made")
            return "events.txt", "long"

    async def steps() -> None:
        async with staged(tape, Paging) as (app, pilot):
            app.push_screen(copy_menu(app, [], app.screen))
            await shows(pilot, "pager", "editor")
            assert not calls

    journey(steps())
