"""Draw the README's pictures from a demo: `python -m tests.support.pictures DIRECTORY`; Chromium makes the PNGs.

`stall.gif` is a terminal in which a program stalls while it is recorded, and is asked why; `viewer.png` is the viewer
at a stall, `page.png` the HTML page of the run: all as a user sees them.
"""

import asyncio
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.support.browser import chromium
from tests.support.forked import CLI
from tests.support.terminal import Terminal
from wiretape.recorder.clock import SYSTEM
from wiretape.recorder.demo import scenes
from wiretape.recorder.demo.upstream import ScriptedUpstream
from wiretape.viewer.source.tape import exchange, queries
from wiretape.viewer.text.cells import Part, Tone
from wiretape.viewer.tui.app import ViewerApp
from wiretape.viewer.tui.inspector.screen import InspectorScreen
from wiretape.viewer.wings.films import gif
from wiretape.viewer.wings.films.film import TICK_NS, Film, FilmFrame, ScreenSize
from wiretape.viewer.wings.replay.thread import LoopThread

_CELLS = (104, 26)
_WIDTH = 1280
_PIXELS = (_WIDTH, 680)
_FONT_FACES = re.compile(r"@font-face \{[^}]*\}")
_FONT = "font-family: Fira Code, monospace"
_TERMINAL = ScreenSize(90, 21)
_MARGIN: Part = (" ", "plain")
_COLUMNS = _TERMINAL.columns - 2
_PROGRAM = """\
import openai

question = {"role": "user", "content": "Play the scene stall."}
for chunk in openai.OpenAI().chat.completions.create(model="demo-stall", messages=[question], stream=True):
    print("".join(choice.delta.content or "" for choice in chunk.choices), end="", flush=True)
print()
"""
_TONES: dict[str, Tone] = {"1": "strong", "2": "muted", "31": "error", "32": "success", "33": "warning", "36": "accent"}
"""The tones of a terminal's styles, by the codes of SGR."""


def main(directory: Path) -> None:
    """Record a demo and write the pictures to a directory."""
    directory.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as private:
        work = Path(private)
        with (directory / "stall.gif").open("wb") as file:
            gif.write(file, _stalled_program(work / "app"))
        tape, page, screen = work / "demo.db", work / "run.html", work / "viewer.html"
        _wiretape("demo", "--db", str(tape))
        _wiretape("export", "--html", "--with-text", "-o", str(page), "--db", str(tape))
        screen.write_text(asyncio.run(_viewer_at_the_stall(tape)), "utf-8")
        with chromium(work / "profile") as browser:
            browser.look(*_PIXELS, dark=True)
            browser.open(screen)
            browser.look(_WIDTH, browser.run("Math.ceil(document.querySelector('svg').getBoundingClientRect().height)"))
            (directory / "viewer.png").write_bytes(browser.screenshot())
            browser.look(*_PIXELS, dark=True)
            browser.open(page)
            browser.run("window.scrollTo(0, document.querySelector('h1').getBoundingClientRect().top - 10)")
            (directory / "page.png").write_bytes(browser.screenshot())


def _wiretape(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "wiretape.viewer.cli", *arguments], check=True, stdout=subprocess.DEVNULL)


class _TerminalFilm:
    """What happens on a terminal, as `gif.write` takes a film."""

    size = _TERMINAL

    def __init__(self) -> None:
        self.length_ns = 0
        self._frames: list[FilmFrame] = []
        self._lines: list[Sequence[Part]] = []

    def frames(self, tick_ns: int) -> list[FilmFrame]:
        """Return the frames, the last one again at the end, from where it is held."""
        assert tick_ns == TICK_NS  # as for any film of less than a minute
        return [*self._frames, FilmFrame(self.length_ns, self._frames[-1].lines)]

    def type(self, command: str) -> None:
        for end in range(0, len(command) + 1, 4):
            prompt: list[Part] = [("$ ", "success"), (command[:end], "strong"), ("▏", "accent")]
            self._show([prompt], TICK_NS)
        self._lines.append([("$ ", "success"), (command, "strong")])
        self._show([], 2 * TICK_NS)

    def play(self, film: Film) -> None:
        """Show the text of a film as a program prints it, and at the foot the film's silence and its bar."""
        for frame in film.frames(TICK_NS):
            _, _, text, *_, status, _, bar, axis, _ = frame.lines
            heading: list[Part] = [("── recorded meanwhile ", "muted"), ("─" * (_COLUMNS - 22), "muted")]
            self._show([text, [], heading, status, bar, axis], TICK_NS)

    def print(self, lines: Sequence[str], seconds: float) -> None:
        self._lines += map(_parts, lines)
        self._show([], round(seconds * 1e9))

    def _show(self, more: Sequence[Sequence[Part]], lasting_ns: int) -> None:
        lines = [[], *([_MARGIN, *line] for line in (*self._lines, *more))]
        lines += [[]] * (self.size.lines - len(lines))
        self._frames.append(FilmFrame(self.length_ns, lines))
        self.length_ns += lasting_ns


def _stalled_program(work: Path) -> _TerminalFilm:
    """Record a program whose stream stalls, and ask why."""
    work.mkdir()
    (work / "app.py").write_text(_PROGRAM, "utf-8")
    tape = work / "tape.db"
    thread = LoopThread("upstream")
    api = ScriptedUpstream(scenes.choose)
    thread.call(api.__aenter__())
    environment = {
        "OPENAI_BASE_URL": f"{api.url}/v1", "OPENAI_API_KEY": "none", "WIRETAPE_DB": str(tape),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }  # fmt: skip
    run, show = "run -- python app.py", "show @stall"
    printed = _output(run, work, environment)
    thread.call(api.__aexit__())
    thread.close(10)
    with queries.opened(tape) as connection:
        film = Film([exchange.full(connection, queries.find(connection, "@stall"))], size=ScreenSize(_COLUMNS, 12))
    terminal = _TerminalFilm()
    terminal.type(f"wiretape {run}")
    terminal.play(film)
    terminal.print(printed, 1.5)
    terminal.type(f"wiretape {show}")
    terminal.print(_output(show, work, environment), 2.0)
    return terminal


def _output(command: str, directory: Path, environment: dict[str, str]) -> list[str]:
    """Return what a command prints on a terminal, in lines of the terminal's width."""
    with Terminal([*CLI, *command.split()], _COLUMNS, environment=environment, directory=directory) as terminal:
        assert terminal.ended() == 0
        lines = terminal.sent.decode().replace("\r", "").splitlines()
    return [
        part for line in lines for part in ([line] if "\x1b" in line else re.findall(f".{{1,{_COLUMNS}}}|^$", line))
    ]


def _parts(line: str) -> list[Part]:
    """Return a terminal's line as parts, by its styles."""
    parts: list[Part] = []
    tone: Tone = "plain"
    for piece in re.split(r"(\x1b\[[\d;]*m)", line):
        if piece.startswith("\x1b"):
            tone = _TONES.get(piece[2:-1], "plain")
        elif piece:
            parts.append((piece, tone))
    return parts


async def _viewer_at_the_stall(tape: Path) -> str:
    """Return the viewer's screen in a page: the demo's stalled stream, with the playhead at the stall."""
    with queries.opened(tape) as connection:
        stalled = connection.exec_driver_sql(
            "SELECT exchanges.no FROM exchanges JOIN exchange_metrics USING (id) ORDER BY max_gap_ms DESC LIMIT 1"
        ).scalar_one()
    app = ViewerApp(tape, SYSTEM, first_screen=lambda: InspectorScreen(stalled, None))
    async with app.run_test(size=_CELLS) as pilot:
        await pilot.pause(1)
        await pilot.press("right_curly_bracket")
        await pilot.pause(1)
        svg = app.export_screenshot(title="wiretape view")
    drawing = _FONT_FACES.sub("", svg).replace(_FONT, "font-family: DejaVu Sans Mono, monospace")
    style = f"body {{ margin: 0 }} svg {{ width: {_WIDTH}px }}"
    return f'<!doctype html><style>{style}</style><div id="page"><div></div>{drawing}</div>'


if __name__ == "__main__":
    main(Path(sys.argv[1]))
