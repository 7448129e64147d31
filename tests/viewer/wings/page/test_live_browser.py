"""Live pages in Chromium: they grow as their tape does, hold still when told to, and apply patches as they came."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from tests.support.browser import Page, chromium
from tests.support.commands import RUN
from tests.support.forked import ROOT
from tests.support.frames import until
from tests.support.growing_tape import recorder
from tests.support.patched import CASES
from tests.support.sample_tape import COMPLETE_READS, begin, end, response
from tests.support.session_tape import FIRST, KEY, frames
from wiretape.recorder.tape import journal
from wiretape.viewer.wings.page.site import difference

pytestmark = pytest.mark.nightly

ID, OTHER, HOSTILE = "a" * 16, "b" * 16, "</script><img src=http://127.0.0.1:9/>\u202e"
BAR = "(document.querySelector('.livebar')?.textContent ?? '')"
SAID = "(document.querySelector('.said')?.textContent ?? '')"
IDS = "[...document.querySelectorAll('tr[data-row]')].map((one) => one.cells[0].textContent)"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with chromium(tmp_path_factory.mktemp("profile")) as page:
        page.look()
        yield page


@contextmanager
def viewing(tape: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [*RUN, "view", "--web", "--db", str(tape)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.terminate()


def show(page: Page, url: str) -> None:
    page.requests.clear()
    page.call("Page.navigate", url=url)
    until(lambda: page.run("document.querySelector('h1') !== null"))


def test_the_list_and_an_opened_exchange_grow(page: Page, tmp_path: Path) -> None:
    tape = tmp_path / "t.db"
    opening, *remainder = COMPLETE_READS
    parts = [
        opening,
        (remainder[0][0], remainder[0][1].replace(b"Hel", json.dumps(HOSTILE)[1:-1].encode())),
        *remainder[1:],
    ]
    with recorder(tape) as tape_recorder, viewing(tape) as (process, url):
        show(page, url)
        assert page.run("document.querySelector('h1').textContent") == "0 exchanges"
        page.run("document.querySelector('input.filter').focus()")
        tape_recorder.record(OTHER)
        tape_recorder.begin(ID, parts[:2])
        until(lambda: sorted(page.run(IDS)) == [ID[:8], OTHER[:8]])
        assert page.run("document.activeElement.className").endswith("filter")
        page.run(f"document.querySelectorAll('tr[data-row]')[{page.run(IDS).index(ID[:8])}].click()")
        until(lambda: page.run(f"location.pathname.includes({json.dumps(ID)}) && {SAID}.length > 0"))
        begun = page.run(SAID)
        tape_recorder.go_on(ID, parts, 2, len(parts))
        until(lambda: len(page.run(SAID)) > len(begun))
        assert page.run(SAID).startswith(begun)
        tape_recorder.end(ID, parts)
        until(lambda: "complete" in page.run("document.querySelector('.verdict').textContent"))
        assert "over" in page.run(BAR)
        process.terminate()
        until(lambda: "has ended" in page.run(BAR))
    assert page.faults == []
    assert all(request.startswith(url) or request.startswith("data:") for request in page.requests)


def test_the_lanes_show_the_last_minutes_without_idle_time(page: Page, tmp_path: Path) -> None:
    tape, parts = tmp_path / "t.db", [(0, COMPLETE_READS[0][1]), (20 * 60_000, COMPLETE_READS[1][1])]
    with recorder(tape) as tape_recorder, viewing(tape) as (_, url):
        for id, started in ((ID, "2026-03-01T08:00:00.000000Z"), (OTHER, "2026-03-01T12:00:00.000000Z")):
            coming = [msgspec.structs.replace(begin(id, 0, b"{}"), started_at=started), *response(id, parts)]
            store = tape_recorder.store
            store.settle(store.append([*coming, end(id, parts)]))
        show(page, url)
        until(lambda: len(page.run(IDS)) == 2)
        times = {text[:5] for text, *_ in page.drawn(".runtime", 1000)}
        assert {"12:16", "12:19"} <= times
        assert not {"12:10", "08:10"} & times
        page.run("document.querySelector('.runtime').dispatchEvent(new MouseEvent('dblclick'))")
        texts = {text for text, *_ in page.drawn(".runtime", 990)}
        assert {"08:10", "12:10", "3.7 h"} <= texts
    assert page.faults == []


def test_a_page_on_hold_stays_as_addressed(page: Page, tmp_path: Path) -> None:
    tape = tmp_path / "t.db"
    with recorder(tape) as tape_recorder, viewing(tape) as (_, url):
        tape_recorder.record(ID)
        show(page, f"{url}#live=off")
        until(lambda: page.run(IDS) == [ID[:8]])
        tape_recorder.record(OTHER)
        assert "held" in page.run(BAR)
        page.run("document.querySelector('.livebar button').click()")
        until(lambda: len(page.run(IDS)) == 2)
        page.run("new Promise((done) => setTimeout(done, 300))")
        assert page.run("location.hash") == ""


def test_patches_are_applied_as_they_were_made(page: Page, tmp_path: Path) -> None:
    with viewing(tmp_path / "none.db") as (_, url):
        page.call("Page.navigate", url=url)
        until(lambda: "no tape" in page.run(BAR))
        for old, new in CASES:
            patch = difference(old, new)
            result = page.run(f"JSON.stringify(patched(JSON.parse({text(old)}), JSON.parse({text(patch)})))")
            assert json.loads(result) == new


def text(value: object) -> str:
    return json.dumps(json.dumps(value))


SESSIONS = (
    "[...document.querySelectorAll('section')].find((one) => one.querySelector('h2')?.textContent === 'Sessions')"
)
TURNS = "document.querySelectorAll(\"section[aria-label='The session that is chosen'] tbody tr\").length"


def test_a_session_appears_with_its_second_exchange(page: Page, tmp_path: Path) -> None:
    tape, coming = tmp_path / "t.db", list(frames())
    ends = [place + 1 for place, frame in enumerate(coming) if isinstance(frame, journal.End)]
    first, limited, second, _ = (coming[start:until] for start, until in pairwise([0, *ends]))
    with recorder(tape) as tape_recorder, viewing(tape) as (_, url):
        store = tape_recorder.store
        store.settle(store.append(first))
        show(page, url)
        until(lambda: page.run(IDS) == [FIRST[:8]])
        assert page.run(f"{SESSIONS}.hidden")
        store.settle(store.append(limited))
        until(lambda: not page.run(f"{SESSIONS}.hidden"))
        page.run(f"[...{SESSIONS}.querySelectorAll('tbody tr')].at(-1).click()")
        assert page.run(TURNS) == 2
        page.run("document.activeElement.blur()")
        store.settle(store.append(second))
        until(lambda: page.run(TURNS) == 3)
        until(lambda: "8,400 ms in 2 turns" in page.run(f"{SESSIONS}.querySelector('.opened').textContent"))
        assert page.run("document.querySelector('.filter').value") == f'conversation:"{KEY}"'
        assert page.faults == []
