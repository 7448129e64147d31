"""Draw the README's pictures from a demo: `python -m tests.support.pictures DIRECTORY`; Chromium makes them PNG.

`viewer.png` is the viewer at a stall, `page.png` the HTML page of the run, both as a user sees them.
"""

import asyncio
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.browser import chromium
from wiretape.recorder.clock import SYSTEM
from wiretape.viewer.source.tape import queries
from wiretape.viewer.tui.app import ViewerApp
from wiretape.viewer.tui.inspector.screen import InspectorScreen

_CELLS = (104, 26)
_WIDTH = 1280
_PIXELS = (_WIDTH, 680)
_FONT_FACES = re.compile(r"@font-face \{[^}]*\}")
_FONT = "font-family: Fira Code, monospace"


def main(directory: Path) -> None:
    """Record a demo and write both pictures to a directory."""
    with tempfile.TemporaryDirectory() as private:
        work = Path(private)
        tape, page, screen = work / "demo.db", work / "run.html", work / "viewer.html"
        _wiretape("demo", "--db", str(tape))
        _wiretape("export", "--html", "--with-text", "-o", str(page), "--db", str(tape))
        screen.write_text(asyncio.run(_viewer_at_the_stall(tape)), "utf-8")
        with chromium(work / "profile") as browser:
            directory.mkdir(exist_ok=True)
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
