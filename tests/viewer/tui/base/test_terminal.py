"""The way to the terminal: one that is slow, that nobody reads, or that is gone holds nothing up."""

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from textual.theme import Theme

from tests.support.colours import pairs
from tests.support.forked import CLI
from tests.support.growing_tape import recorder
from tests.support.sample_tape import LIVE, event
from tests.support.terminal import Screen, Terminal
from wiretape.recorder.clock import Clock
from wiretape.viewer.text.background import QUERY
from wiretape.viewer.tui.base.terminal import PLACED, Lag, cut_short, open_nonblocking
from wiretape.viewer.tui.base.theme import DARK, LIGHT, contrast

SOON_SECONDS = 60.0


def viewing(tape: Path) -> Terminal:
    return Terminal([*CLI, "view", "--db", str(tape)])


def test_a_viewer_whose_terminal_was_taken_away_ends(tape: Path) -> None:
    with viewing(tape) as terminal:
        terminal.wait_for(LIVE[:8])
        terminal.take_away()
        assert terminal.process.wait(SOON_SECONDS) == 129


def test_a_terminal_that_nobody_reads_holds_up_no_end(tape: Path) -> None:
    with viewing(tape) as terminal:
        terminal.wait_for(LIVE[:8])
        terminal.press("\x1b[15~" * 15 + "q")  # another theme: all of the screen each time
        assert terminal.process.wait(SOON_SECONDS) == 0
        while terminal.read():
            pass
        assert "1049" in terminal.screen.modes  # too full for the notice of the end


def test_a_truncated_frame_leaves_no_colours_or_held_output() -> None:
    assert cut_short(b";2;3mword\x1b[4;5Hmore\x1b[0m\x1b[?2026l") == b";2;3mword\x1b[0m\x1b[?2026l"
    assert cut_short(b"") == b"\x1b[0m\x1b[?2026l"


def test_letters_stay_where_they_are_put_until_the_end(tape: Path) -> None:
    with viewing(tape) as terminal:
        terminal.wait_for(LIVE[:8])
        assert terminal.screen.is_placed
        assert terminal.sent.count(PLACED.encode()) == 1
        terminal.press("q")
        assert terminal.ended() == 0
        assert terminal.is_restored()


ANSWER = "\x1b]11;rgb:%s/%s/%s\x1b\\"


def sgr(colour: str) -> bytes:
    """Return the parameters of a background."""
    return b"48;2;%d;%d;%d" % tuple(bytes.fromhex(colour[1:]))


def is_drawn(terminal: Terminal, theme: Theme, length_before: int = 0) -> Callable[[Screen], bool]:
    return lambda _: sgr(str(theme.background)) in terminal.sent[length_before:]


def test_the_theme_follows_the_terminals_answer_whenever_it_comes(tape: Path) -> None:
    with Terminal([*CLI, "view", "--db", str(tape)], environment={"COLORTERM": "truecolor"}) as terminal:
        terminal.wait_for(LIVE[:8])
        assert terminal.sent.count(QUERY.encode()) == 1
        assert is_drawn(terminal, DARK)(terminal.screen)
        terminal.press(ANSWER % ("ffff", "ffff", "ffff"))
        terminal.wait_for(is_drawn(terminal, LIGHT))
        length_before = len(terminal.sent)
        terminal.press(ANSWER % ("1d", "1f", "21"))
        terminal.wait_for(is_drawn(terminal, DARK, length_before))
        assert not any("rgb" in line for line in terminal.screen.lines)  # nor as keys: / would begin a filter
        terminal.press("\x1b[15~")
        terminal.wait_for("theme: wiretape-light")
        terminal.press(ANSWER % ("0", "0", "0") + "\x1b[15~")  # once chosen by a key, it stays
        terminal.wait_for("theme: wiretape-dark")
        terminal.press("q")
        assert terminal.ended() == 0


@pytest.mark.parametrize(("options", "environment", "theme"), [
    ((), {"COLORFGBG": "0;15"}, LIGHT), ((), {"COLORFGBG": "15;0"}, DARK), ((), {"WIRETAPE_THEME": "light"}, LIGHT),
    (("--theme", "dark"), {"COLORFGBG": "0;15"}, DARK), (("--theme", "auto"), {"COLORFGBG": "0;15"}, LIGHT),
    (("--theme", "light"), {"WIRETAPE_THEME": "dark"}, LIGHT),
])  # fmt: skip
def test_an_option_is_above_the_variables_and_asks_nothing(
    tape: Path, options: tuple[str, ...], environment: dict[str, str], theme: Theme
) -> None:
    environ = {"COLORTERM": "truecolor", **environment}
    with Terminal([*CLI, "view", "--db", str(tape), *options], environment=environ) as terminal:
        terminal.wait_for(LIVE[:8])
        terminal.press("q")
        assert terminal.ended() == 0
    other_theme = LIGHT if theme is DARK else DARK
    assert (sgr(str(theme.background)) in terminal.sent, sgr(str(other_theme.background)) in terminal.sent) == (
        True,
        False,
    )
    is_auto = options in ((), ("--theme", "auto")) and "WIRETAPE_THEME" not in environment
    assert (QUERY.encode() in terminal.sent) == is_auto


VISITS = (
    ("", LIVE[:8]), ("/is:nosuch", "no such outcome"), ("\x15is:ok\r", "2 / 7"), ("\\", "switches it on"),
    ("o", "order by"), ("\x1b", "-order by"), ("C", "columns"), ("\x1b", "-columns"),
    ("?", "on this screen"), ("\x1b", "-on this screen"), ("y", "wiretape show"), ("\x1b", "-wiretape show"),
    ("x", "wiretape export"), ("\x1b", "-wiretape export"), ("jjj", "Hello, world"),
    ("S", "server_overloaded"), ("j" * 20, "enter: the exchanges of"), ("q", "-failures"),
    ("G\r", "1 Replay"), ("v", "gaps as heat"), (",,  ", "#"), ("2", "▌2"), ("3", "▌3"), ("4", "▌4"), ("5", "▌5"),
    ("1:", "n goes on"), ("\x1b", "-n goes on"), ("q", "-Replay"),
    ("gmmc", "race"), ("d", "differ"), ("q", "-race"), ("mc", "best of the column"), ("q", "-best of"),
)  # fmt: skip
"""Keys, and the words that they bring to the screen, or with a `-` remove from it: all screens and dialogs."""


def visit(terminal: Terminal, visits: Iterable[tuple[str, str]]) -> None:
    for keys, shown in visits:
        terminal.press(keys)
        text = shown.removeprefix("-")
        terminal.wait_for(
            lambda screen, text=text, is_visible=text == shown: is_visible == (text in "\n".join(screen.lines))
        )


ASKED = (
    ("x", "wiretape export"), ("\r", "write to"), ("\x1b", "-write to"), ("'", "saved views"), ("\x1b", "-saved views"),
    ("C ", "columns"), ("\x1b", "-columns"), ("t", "conversations"), ("q", "-conversations ·"),
    ("v", "lanes ·"), ("j", "lanes ·"), ("q", "-lanes ·"),
    ("G\r", "1 Replay"), ("4", "response 200"), ("/", "words to find"), ("content\r", "1 / "), ("q", "-Replay"),
    ("/model:gpt", "model:"), ("\x15\x1b", "-model:gpt*"), ("\x1b[15~", "theme: "),
)  # fmt: skip
"""More of them, with texts in other styles."""


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_every_text_has_enough_contrast(tape: Path, theme: str) -> None:
    command = [*CLI, "view", "--db", str(tape), "--theme", theme]
    with Terminal(command, 120, 40, {"COLORTERM": "truecolor"}) as terminal:
        visit(terminal, [*VISITS, *ASKED])
        terminal.press("q")
        assert terminal.ended() == 0
    samples = {(text, ground): sample for text, ground, sample in pairs(terminal.sent.decode())}
    assert len(samples) > 40
    assert {sample: sample_pair for sample, sample_pair in samples.items() if contrast(*sample) < 4.5} == {}


def test_no_color_sends_no_colours_from_any_screen(tape: Path) -> None:
    with Terminal([*CLI, "view", "--db", str(tape)], 120, 40, {"NO_COLOR": "1"}) as terminal:
        visit(terminal, VISITS)
        terminal.press("q")
        assert terminal.ended() == 0
        looks = set(re.findall(r"\x1b\[([\d;:]*)m", terminal.sent.decode()))
        assert looks >= {"1", "7"}
        assert not [
            look for look in looks if re.search(r"(?:^|[;:])(?:3[0-8]|4[0-8]|58|9[0-7]|10[0-7])(?:$|[;:])", look)
        ]


SLOW = """
import asyncio, json, sys, time
from pathlib import Path
from wiretape.viewer.tui.app import ViewerApp
from wiretape.viewer.tui.inspector.screen import InspectorScreen

class Playing(InspectorScreen):
    def on_mount(self):  # besides the screen's own, which is called as well
        self.run_worker(self.play())

    async def play(self):
        while not self.is_open:
            await asyncio.sleep(0.01)
        while (self.app.lag.ms or 0) < 200:  # until the terminal takes no more
            self.app.action_next_theme()
            await asyncio.sleep(0.02)
        self.action_top()
        began = time.monotonic_ns()
        self.action_play()
        while self.playback.playing:
            await asyncio.sleep(0.001)
        took = time.monotonic_ns() - began
        found = {"took": took, "end": self.playback.end_ns}
        Path(sys.argv[2] + ".new").write_text(json.dumps(found))
        Path(sys.argv[2] + ".new").rename(sys.argv[2])

app = ViewerApp(Path(sys.argv[1]), first_screen=lambda: Playing(1))
sys.exit(app.run())
"""


def test_a_replay_survives_a_terminal_that_takes_nothing(tmp_path: Path) -> None:
    path, result = tmp_path / "tape.db", tmp_path / "result"
    words = [f"word{number} " for number in range(60)]
    with recorder(path) as writing:
        parts = [(100 + 10 * number, event({"content": word})) for number, word in enumerate(words)]
        writing.record("a" * 16, [*parts, (710, event({}, "stop")), (711, b"data: [DONE]\n\n")])
    with Terminal(["-c", SLOW, str(path), str(result)], 140, 40) as terminal:
        terminal.wait_for("word0")
        terminal.wait_until(result.exists)
        answer = json.loads(result.read_text())
        assert 0 <= answer["took"] - answer["end"] < 5 * 10**9  # however busy the machine is
        terminal.wait_for("terminal is slow")
        terminal.wait_for(lambda screen: any("#61/#61" in line for line in screen.lines))
        terminal.wait_for("word59")
        terminal.press("qq")
        assert terminal.ended() == 0
        assert terminal.is_restored()


def test_an_event_costs_few_bytes(tmp_path: Path) -> None:
    path = tmp_path / "tape.db"
    with recorder(path) as writing:
        parts = [(100 + 10 * number, event({"content": f"word{number} "})) for number in range(60)]
        writing.record("a" * 16, [*parts, (710, event({}, "stop"))])
    with Terminal([*CLI, "view", "--db", str(path), "@", "--at", "#19"], 120, 40) as terminal:
        terminal.wait_for("#19/#60")
        terminal.wait_for("word59")
        costs = []
        for number in range(21, 32):
            length_before = len(terminal.sent)
            terminal.press(".")
            terminal.wait_for(f"#{number - 1}/#60")
            costs.append(len(terminal.sent) - length_before)
        assert sorted(costs)[len(costs) // 2] <= 400
        terminal.press("qq")
        assert terminal.ended() == 0


def test_an_unknown_terminal_is_written_to_unchanged(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w") as file:
        assert open_nonblocking(file.fileno()) == (file.fileno(), False)


def test_lag_is_the_longest_of_recent_and_waiting_frames() -> None:
    now = [0]
    lag = Lag(Clock(lambda: now[0]))
    assert lag.ms is None
    for took in (30, 2, *[1] * 15):
        lag.begin()
        now[0] += took * 10**6
        lag.end()
        lag.end()
    assert lag.ms == 2
    lag.begin()
    now[0] += 70 * 10**6
    lag.begin()
    assert lag.ms == 70
