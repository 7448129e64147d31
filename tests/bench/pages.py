"""How large pages are, of a run and of a stream, and how quick: to write, to open in Chromium, and to move in.

    python tests/bench/pages.py [--exchanges 1000] [--chunks 201] [--tape FILE] [--rounds 3]

Makes the tape unless FILE exists. Prints the size of the page; how long the command takes, its CPU time, and how many
exchanges a second of CPU that is beyond a page of 100; from the request of the page until it is built; and the time of
a frame while the lanes move over the whole run, and while two exchanges play in step. Then the same of a page of one
stream of 1,000 chunks, with its bytes. Nothing is asserted.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT))

from tests.support.browser import Page, chromium  # noqa: E402

FRAMES = """new Promise((done) => {
  const frames = [], drawn = [];
  let before = null;
  const step = (now) => {
    if (before !== null) frames.push(now - before);
    before = now;
    if (frames.length === 120) return done([frames, drawn]);
    const began = performance.now();
    (%s)(frames.length);
    drawn.push(performance.now() - began);
    requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
})"""
MOVE = """(count) => {
  const key = count < 20 ? "+" : count < 60 ? "ArrowLeft" : count < 100 ? "ArrowRight" : "-";
  document.querySelector(".runtime").parentNode.dispatchEvent(new KeyboardEvent("keydown", { key }));
}"""
WORST = "[...document.querySelectorAll('button')].find((one) => one.textContent.startsWith('show the worst'))"
PLAY = "() => {}"


def wiretape(*arguments: str) -> tuple[float, float]:
    """Run a command; return the CPU time that it took, and how long."""
    began, usage_before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "wiretape.viewer.cli", *arguments], cwd=ROOT, check=True, capture_output=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = used.ru_utime + used.ru_stime - usage_before.ru_utime - usage_before.ru_stime
    return cpu, time.perf_counter() - began


def spread(name: str, values: list[float]) -> None:
    """Print a line of percentiles."""
    ordered = sorted(values)
    middle, high = ordered[len(ordered) // 2], ordered[min(len(ordered) - 1, len(ordered) * 95 // 100)]
    print(f"{name:<44} p50 {middle:7.1f}  p95 {high:7.1f}  max {ordered[-1]:7.1f} ms", flush=True)


def opened(page: Page, file: Path) -> float:
    """Open a page; return when it was built, in ms since it was asked for."""
    page.open(file)
    return float(page.run("performance.getEntriesByName('built')[0].startTime"))


def moved(page: Page) -> None:
    """Measure frames while the lanes move, and while two exchanges play."""
    frames: Any = page.run(FRAMES % MOVE)
    spread("lanes move: frame", frames[0])
    if not page.run(f"Boolean({WORST} && !{WORST}.disabled)"):
        return
    page.run(f"{WORST}.click()")
    page.run("new Promise((done) => setTimeout(done, 300))")
    page.run("document.querySelector('.pair').scrollIntoView()")
    page.run("document.querySelector('.pair').previousSibling.querySelector('.play').click()")
    spread("two exchanges play in step: frame", page.run(FRAMES % PLAY)[0])


def one_stream(page: Page, place: Path, rounds: int) -> None:
    """Measure the page of a stream."""
    tape, file = place / "stream.db", place / "stream.html"
    wiretape("db", "fixture", "--exchanges", "1", "--chunks", "1000", "--db", str(tape))
    wiretape("export", "--html", "@", "--with-bodies", "--db", str(tape), "-o", str(file))
    print(f"a stream of 1,000 chunks: {file.stat().st_size:,} bytes")
    spread("a stream: opened", [opened(page, file) for _ in range(rounds)])
    page.run("document.querySelector('.play').click()")
    spread("a stream plays: frame", page.run(FRAMES % PLAY)[0])


def main() -> None:
    """Measure."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--exchanges", type=int, default=1000)
    options.add_argument("--chunks", type=int, default=201)
    options.add_argument("--tape", type=Path)
    options.add_argument("--rounds", type=int, default=3)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        tape, few, file = chosen.tape or place / "run.db", place / "few.db", place / "run.html"
        if not tape.exists():
            counts = ("--exchanges", str(chosen.exchanges), "--chunks", str(chosen.chunks))
            wiretape("db", "fixture", *counts, "--db", str(tape))
        wiretape("db", "fixture", "--exchanges", "100", "--chunks", str(chosen.chunks), "--db", str(few))
        start, _ = min(wiretape("export", "--html", "--db", str(few), "-o", str(file)) for _ in range(chosen.rounds))
        cpu, took = min(wiretape("export", "--html", "--db", str(tape), "-o", str(file)) for _ in range(chosen.rounds))
        rate = (chosen.exchanges - 100) / max(cpu - start, 1e-3)
        print(f"written in {took:.2f} s, {cpu:.2f} s of CPU; of 100 exchanges {start:.2f} s of CPU")
        print(f"{rate:,.0f} exchanges a second of CPU beyond these 100")
        print(f"{file.stat().st_size:,} bytes")
        with chromium(place / "profile") as page:
            page.look()
            spread("opened", [opened(page, file) for _ in range(chosen.rounds)])
            moved(page)
            one_stream(page, place, chosen.rounds)


if __name__ == "__main__":
    main()
