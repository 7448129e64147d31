"""Pages in Chromium: contents, keys, and no request to anywhere."""

import struct
import zlib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser import Page, chromium
from tests.support.commands import run
from tests.support.page_streams import long_stream, one_event, stalled_stream
from tests.support.sample_tape import ODD
from wiretape.viewer.exchange.transcript import Transcript
from wiretape.viewer.source.tape import queries

pytestmark = pytest.mark.nightly

KEYS = {" ": 32, "ArrowLeft": 37, "ArrowRight": 39, "Home": 36, "End": 35, "Enter": 13}
SAID = "[...document.querySelectorAll('.text')].map((one) => one.hidden ? '' : one.querySelector('.said').textContent)"
WHEN = "document.querySelector('.when').textContent"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with chromium(tmp_path_factory.mktemp("profile")) as page:
        page.look()
        yield page


@pytest.fixture(scope="module")
def stalled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stalled_stream(tmp_path_factory.mktemp("stalled") / "stalled.db")


@pytest.fixture(scope="module")
def stall(stalled: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a stream with a stall, with all that the tape has."""
    return exported(stalled, tmp_path_factory.mktemp("page") / "stall.html", "@", "--with-bodies")


def exported(tape: Path, file: Path, id: str, *options: str) -> Path:
    run(tape, "export", "--html", id, "-o", str(file), *options)
    return file


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.press(key, KEYS.get(key, 0), key if len(key) == 1 else "")


def pixels(png: bytes) -> bytes:
    """Return the bytes of an image's rows, each after the number of its filter."""
    data, at = b"", 8
    while at < len(png):
        (size,) = struct.unpack(">I", png[at : at + 4])
        data += png[at + 8 : at + 8 + size] if png[at + 4 : at + 8] == b"IDAT" else b""
        at += size + 12
    return zlib.decompress(data)


def test_a_page_asks_for_nothing_but_itself(page: Page, stall: Path) -> None:
    page.open(stall, "open=figures.tools.events.reads.headers.request.gaps.phases&read=3")
    press(page, "Home", " ")
    page.run("new Promise((done) => setTimeout(done, 300))")
    assert page.requests == [stall.as_uri()]
    assert page.faults == []


def test_the_policy_stops_a_scripts_requests_and_markup(page: Page, stall: Path) -> None:
    page.open(stall)
    assert page.run("fetch('http://127.0.0.1:9/').then(() => 'sent', () => 'stopped')") == "stopped"
    markup = "(() => { try { document.body.innerHTML = '<b>x</b>'; return 'made' } catch { return 'stopped' } })()"
    assert page.run(markup) == "stopped"
    page.faults.clear()


def test_the_player_shows_the_tapes_text_at_any_time(page: Page, stall: Path, stalled: Path) -> None:
    with queries.opened(stalled) as connection:
        transcript = Transcript(queries.observed(connection, queries.find(connection, "@"))[2])
    content = transcript.voices[0].content
    page.open(stall)
    for at_ns in (0, transcript.at[0], transcript.at[5] + 1_000_000_000, transcript.at[9], transcript.at[-1]):
        page.open(stall, f"t={at_ns / 1e6 + 0.001}")
        assert page.run(SAID) == [content.text[: content.length(transcript.position(at_ns + 1000))]]


def test_keys_step_through_reads_and_find_the_stall(page: Page, stall: Path) -> None:
    page.open(stall)
    press(page, "Home")
    assert "reads 0 / 16" in page.run(WHEN)
    press(page, "ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft")
    assert "reads 2 / 16" in page.run(WHEN)
    press(page, "}")
    assert page.run(SAID) == ["The model begins to speak , "]
    press(page, "ArrowRight")
    assert page.run(SAID) == ["The model begins to speak , and "]
    assert page.run("document.querySelector('.said').lastChild.className") == "g4"
    press(page, "l", "Enter")
    assert "data: {" in page.run("document.querySelector('.bytes pre').textContent")


def test_counts_of_coalesced_reads_do_not_overlap(page: Page, tmp_path: Path) -> None:
    tape = long_stream(tmp_path / "long.db", 50_000, together=12)
    page.open(exported(tape, tmp_path / "long.html", "@"))
    assert "events 50,003 / 50,003" in page.run(WHEN)
    for width in (1000, 360):
        spans = sorted(span for text, *span in page.drawn(".picture", width) if text.startswith("×"))
        assert len(spans) > 1
        assert all(previous[1] < following[0] for previous, following in pairwise(spans))


def test_times_of_a_long_stream_are_in_minutes(page: Page, tmp_path: Path) -> None:
    tape = long_stream(tmp_path / "long.db", 8_000)
    page.open(exported(tape, tmp_path / "long.html", "@"), "t=125250")
    at, of, end = page.run(WHEN).split()[:3]
    assert (at, of, end[1]) == ("2:05.250", "/", ":")
    press(page, "Home")
    assert page.run(WHEN).startswith("0:00.000 / ")
    assert page.run("[119.9994, 119.9996, 1836.755].map((s) => format.timeWithUnit(s * 1e9))") == [
        "119.999 s", "2:00.000", "30:36.755",
    ]  # fmt: skip


def test_a_click_shows_the_text_or_read(page: Page, stall: Path) -> None:
    page.open(stall)
    box = "(() => { const box = %s.getBoundingClientRect(); return [box.left, box.top, box.width, box.height] })()"
    left_edge, top, width, height = page.run(box % "document.querySelectorAll('.said span')[6]")
    page.click(left_edge + width / 2, top + height / 2)
    assert page.run(WHEN).startswith("2.810 ")
    left_edge, top, width, height = page.run(box % "document.querySelector('.picture')")
    page.click(left_edge + width - 84, top + 150)  # the last read
    assert "[DONE]" in page.run("document.querySelector('.bytes pre').textContent")
    page.run("new Promise((done) => setTimeout(done, 300))")
    assert "read=15" in page.run("location.hash")


def test_a_link_shows_what_its_sender_saw(page: Page, stall: Path) -> None:
    page.open(stall, "t=400&theme=dark&open=reads&zoom=300000000-500000000")
    assert page.run(WHEN).startswith("0.400 ")
    assert page.run("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 27)"
    assert page.run("document.querySelector('#reads table').rows.length") == 17


def test_a_table_is_filtered_and_walked_through(page: Page, tmp_path: Path) -> None:
    tape = long_stream(tmp_path / "long.db", 600)
    page.open(exported(tape, tmp_path / "long.html", "@", "--with-text"), "open=events")
    rows = "document.querySelectorAll('#events tbody tr').length"
    assert page.run(rows) == 500
    page.run("document.querySelector('#events input').focus()")
    press(page, *"stop")
    page.run("new Promise((done) => setTimeout(done, 300))")
    assert page.run(rows) == 1
    page.run("document.querySelector('#events tbody tr').focus()")
    press(page, "Enter")
    assert "events 603 / 603" in page.run(WHEN)


def test_a_table_is_copied_as_csv(page: Page, stall: Path) -> None:
    page.open(stall, "open=gaps")
    copied = page.run("csv([column('a', (row) => row[0]), column('b', (row) => row[1])], [['=1', 2], ['x\"y', null]])")
    assert copied == 'a,b\r\n\'=1,2\r\n"x""y",\r\n'


def test_playing_follows_the_clock_at_any_frame_rate(page: Page, tmp_path: Path) -> None:
    tape = long_stream(tmp_path / "long.db", 1000)
    page.open(exported(tape, tmp_path / "long.html", "@", "--with-bodies"))
    press(page, "Home")
    page.run("window.begun = performance.now()")
    press(page, " ")
    page.run("new Promise((done) => setTimeout(done, 1500))")
    passed, position = page.run(f"[(performance.now() - begun) / 1000, {WHEN}]")
    assert passed - 1.0 < float(position.split()[0]) < passed


def test_a_hostile_exchange_is_shown_and_does_nothing(page: Page, tape: Path, tmp_path: Path) -> None:
    page.open(exported(tape, tmp_path / "odd.html", ODD, "--with-bodies"), "open=events.headers.request.figures.tools")
    assert page.faults == []
    assert page.run("document.querySelectorAll('script').length") == 4
    assert page.run(SAID)[0] == page.run("document.querySelector('.content .said').textContent")
    # Outside of bodies, no control character that turns a line around is left.
    outside = "[...document.querySelectorAll('h1, header p, td, dd, th, dt')].map((one) => one.textContent).join('')"
    assert page.run(f"/[\\u202a-\\u202e\\u2066-\\u2069\\u001b]/.test({outside})") is False


def test_half_a_character_is_shown_as_unknown(page: Page, tmp_path: Path) -> None:
    page.open(exported(one_event(tmp_path / "half.db", "a\ud83d b"), tmp_path / "half.html", "@", "--with-text"))
    assert page.run(SAID)[0] == "a\ufffd b"


@pytest.mark.parametrize("look", [(1400, False), (1400, True), (500, False), (500, True)], ids=str)
def test_a_page_fits_its_window_in_both_themes(page: Page, stall: Path, look: tuple[int, bool]) -> None:
    width, dark = look
    page.look(width, dark=dark)
    page.open(stall)
    page.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert page.run("document.documentElement.scrollWidth") == width
    assert len(set(pixels(page.screenshot()))) > 100
    drawn: Any = page.run(
        "[...new Uint32Array(document.querySelector('canvas').getContext('2d')"
        ".getImageData(0, 0, 400, 300).data.buffer)].filter((one, place, all) => all.indexOf(one) === place).length"
    )
    assert drawn > 20
    page.look()


def test_a_line_of_10_mb_is_shown_without_delay(page: Page, tmp_path: Path) -> None:
    line = "x" * 10_000_000 + "</script><img src=http://127.0.0.1:9/>\u202e"
    tape = one_event(tmp_path / "line.db", line)
    page.open(exported(tape, tmp_path / "line.html", "@", "--with-bodies"), "open=events.request&read=0")
    assert page.run(SAID)[0] == line[-200_000:]
    press(page, "Home", " ", "End")
    assert page.requests == [(tmp_path / "line.html").as_uri()]
    assert page.faults == []
