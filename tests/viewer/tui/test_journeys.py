"""The command `view` in a pseudo-terminal: journeys of a user, and a terminal restored after each."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.commands import RUN
from tests.support.forked import CLI, ROOT
from tests.support.growing_tape import recorder
from tests.support.sample_tape import COMPLETE, COMPLETE_READS, HOSTILE, LIVE, event
from tests.support.terminal import Terminal

POINTER = "OSC 22;default"
"""Textual's own sequence: the mouse's pointer is the usual one."""


def viewing(tape: Path, *more: str, is_fresh: bool = False, **environment: str) -> Terminal:
    return Terminal([*CLI, "view", "--db", str(tape), *more], environment=environment, is_fresh=is_fresh)


def test_from_the_list_filtered_into_an_exchange_and_back(tape: Path) -> None:
    with viewing(tape) as terminal:
        terminal.wait_for(LIVE[:8])
        assert {"1049", "1000"} <= terminal.screen.modes
        terminal.press("/")
        terminal.wait_for(lambda screen: "q quit" not in screen.lines[-1])
        terminal.press("id:aaaa")
        terminal.wait_for("2 / 7")
        terminal.press("\r")
        terminal.wait_for("q quit")
        terminal.press("jq")
        assert terminal.ended() == 0
        assert terminal.is_restored()


@pytest.mark.parametrize("arguments", [[COMPLETE], ["--compare", COMPLETE, LIVE]], ids=["one", "two"])
def test_back_from_a_named_exchange_finds_it_listed(tape: Path, arguments: list[str]) -> None:
    with viewing(tape, *arguments) as terminal:
        terminal.wait_for("Hello, world")
        terminal.press("q")
        terminal.wait_for(lambda screen: any(line.startswith("▌ ✓ aaaa0000 ") for line in screen.lines))
        terminal.press("q")
        assert terminal.ended() == 0


def test_the_terminal_is_restored_whatever_ends_the_viewer(tape: Path) -> None:
    ends = {signal.SIGTERM: 143, signal.SIGHUP: 129, signal.SIGINT: 130, signal.SIGQUIT: 131}
    with contextlib.ExitStack() as stack:
        terminals = {number: stack.enter_context(viewing(tape)) for number in ends}
        interrupted = stack.enter_context(viewing(tape, "--no-mouse"))
        for terminal in (*terminals.values(), interrupted):
            terminal.wait_for(LIVE[:8])
            assert not terminal.is_restored()
        assert not interrupted.screen.modes & {"1000", "1002", "1003"}
        for number, terminal in terminals.items():
            terminal.signal(number)
        interrupted.press("\x03")
        assert {number: terminal.ended() for number, terminal in terminals.items()} == ends
        assert interrupted.ended() == 130
        assert all(terminal.is_restored() for terminal in (*terminals.values(), interrupted))


def test_a_fault_is_five_lines_and_a_file(tape: Path, tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from wiretape.viewer.tui.app import ViewerApp\n"
        "def broken(): raise RuntimeError('odd \\x1b]0;title\\x07 [/x]')\n"
        f"app = ViewerApp(Path({str(tape)!r}), first_screen=broken); sys.exit(app.run() or app.return_code)"
    )
    with Terminal(["-c", program], 200, environment={"XDG_STATE_HOME": str(tmp_path)}) as terminal:
        assert terminal.ended() == 1
        assert terminal.is_restored()
        text_lines = [line for line in terminal.screen.lines if line]
        (log,) = (tmp_path / "wiretape" / "log").iterdir()
        assert len(text_lines) == 5
        assert text_lines[1] == "  RuntimeError: odd ␛]0;title␇ [/x]"
        assert text_lines[2] == f"The traceback is in {log}"
        assert "in broken" in log.read_text()
        assert log.stat().st_mode & 0o077 == 0


NOT_KEPT = """
import sys
from pathlib import Path
from wiretape.recorder.clock import Clock
from wiretape.viewer.tui.app import ViewerApp

def broken():
    raise RuntimeError("odd")

app = ViewerApp(Path(sys.argv[1]), Clock(wall_ns=lambda: 7 * 10**6), first_screen=broken)
sys.exit(app.run() or app.return_code)
"""


@pytest.mark.parametrize("reason", ["Not a directory", "No space left on device"])
def test_a_fault_is_reported_even_without_its_file(reason: str, tape: Path, tmp_path: Path) -> None:
    folder = tmp_path / "wiretape"
    if reason == "Not a directory":
        folder.write_text("")
    elif not Path("/dev/full").exists():
        pytest.skip("only /dev/full, which this system lacks, is out of space on demand")
    else:
        (folder / "log").mkdir(parents=True)
        (folder / "log" / "view-7.txt").symlink_to("/dev/full")
    command = ["-c", NOT_KEPT, str(tape)]
    with Terminal(command, 200, environment={"XDG_STATE_HOME": str(tmp_path)}) as terminal:
        assert terminal.ended() == 1
        assert terminal.is_restored()
        text_lines = [line for line in terminal.screen.lines if line]
        assert len(text_lines) == 5
        assert text_lines[1] == "  RuntimeError: odd"
        assert text_lines[2].startswith("The traceback could not be kept: ")
        assert text_lines[2].endswith(f": {reason}")


def test_a_suspended_viewer_resumes_where_it_was(tape: Path) -> None:
    with viewing(tape, COMPLETE, is_fresh=True) as terminal:
        terminal.wait_for("█")  # the timeline, which is drawn last
        lines_before = list(terminal.screen.lines)
        for _ in range(2):
            terminal.press("\x1a")
            terminal.wait_until(terminal.has_stopped)
            while terminal.read(0.01):
                pass
            assert terminal.is_restored()
            assert terminal.screen.lines != lines_before
            terminal.signal(signal.SIGCONT)
            terminal.wait_for(lambda screen: screen.lines == lines_before)
            assert {"1049", "1000"} <= terminal.screen.modes
        terminal.press("qq")
        assert terminal.ended() == 0
        assert terminal.is_restored()


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tape with an attack in each field that can be recorded as text."""
    path = tmp_path_factory.mktemp("hostile") / "tape.db"
    odd = [
        HOSTILE,
        "[@click=app.leave]x[/]",
        "[/x=y]",
        "\x1b]0;SENTINEL\x07",
        "\x9dSENTINEL\x9c",
        "\x1b[2J\x1b[1;1H" * 99,
    ]
    with recorder(path) as writing:
        for number, text in enumerate([*odd, "y" * (10 << 20)]):
            fault = f"{text[:200]} fault".encode("utf-8", "replace")
            parts = [
                (10, event({"content": text}, model=text[:200])),
                (9000, event({}, "stop")),
                (9010, b"error: " + fault),
            ]
            writing.record(f"{number:x}" * 16, parts, number, f"/{text[:99]}", by="reset")
    return path


def test_of_what_was_recorded_no_control_reaches_the_terminal(hostile: Path) -> None:
    with viewing(hostile, "-f", f'-text:"{HOSTILE[:20]!r}"'.replace("\\", "x")) as terminal:
        terminal.wait_for("66666666")
        for number in range(5, -1, -1):
            terminal.press("j")
            terminal.wait_for(
                lambda screen, id=f"{number:x}" * 8: any(f" {id} " in line for line in screen.lines[-12:])
            )
        terminal.press("C")
        terminal.wait_for("columns")
        terminal.press("\x1b")
        terminal.wait_for(lambda screen: not any(" columns " in line for line in screen.lines))
        terminal.press("y")
        terminal.wait_for("this list")
        terminal.press("q")
        terminal.press("q")
        assert terminal.ended() == 0
        assert set(terminal.screen.strange) <= {POINTER}
        assert b"\x1b]0;" not in terminal.sent
        assert b"SENTINEL" in terminal.sent


def test_a_new_exchange_is_painted_soon_after_its_commit(tmp_path: Path) -> None:
    path = tmp_path / "tape.db"
    with recorder(path) as writing:
        writing.record("a" * 16)
        with viewing(path, "-F") as terminal:
            terminal.wait_for("aaaaaaaa")
            waits = []
            for sign in "bcdef":
                writing.begin(sign * 16, COMPLETE_READS[:2])
                waits.append(terminal.wait_for(sign * 8))
            terminal.press("q")
            assert terminal.ended() == 0
    assert min(waits) < 0.3 * 5  # five times the promised time, as elsewhere, because machines do other work meanwhile


def test_where_there_is_no_utf8_every_sign_is_ascii(tape: Path) -> None:
    with viewing(tape, is_fresh=True, LANG="C", LC_ALL="C", NO_COLOR="1") as terminal:
        terminal.wait_for(LIVE[:8])
        terminal.press("q")
        assert terminal.ended() == 0
        assert terminal.sent.isascii()


def refused(*arguments: str, **environment: str) -> Iterator[str]:
    outer, inner = os.openpty()
    environ = os.environ | {"TERM": "xterm"} | environment
    process = subprocess.run([*RUN, "view", *arguments], stdin=inner, capture_output=True, cwd=ROOT, env=environ)
    os.close(outer)
    os.close(inner)
    yield from (str(process.returncode), process.stderr.decode())


def test_without_a_terminal_it_says_what_to_do_instead(tape: Path) -> None:
    code, message = refused("--db", str(tape))
    assert code == "2"
    assert f"view needs a terminal for its keys and its screen: try 'wiretape ls --db {tape}'" in message


def test_a_terminal_that_only_prints_gets_advice(tape: Path) -> None:
    with viewing(tape, TERM="dumb") as terminal:
        assert terminal.ended() == 2
        assert "view needs a terminal for its keys and its screen: try 'wiretape ls" in terminal.screen.lines[0]
        assert b"\x1b" not in terminal.sent


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("zzzz",), 4, "wiretape: no exchange zzzz"),
        (("-f", "ttft>fast"), 2, "expected a duration"),
        (("--theme", "none"), 2, "there is no theme 'none'"),
        (("--at", "50%"), 2, "--at goes with an ID"),
        (("--compare", COMPLETE, COMPLETE, COMPLETE), 2, "--compare names both exchanges itself"),
    ],
)
def test_an_error_is_reported_before_the_screen_is_taken(
    arguments: tuple[str, ...], code: int, message: str, tape: Path
) -> None:
    with viewing(tape, *arguments) as terminal:
        assert terminal.ended() == code
        assert message in " ".join(line.strip() for line in terminal.screen.lines)
        assert b"\x1b[?1049h" not in terminal.sent
