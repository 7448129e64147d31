"""The page of a run in Chromium: its filters select what `ls` selects, its percentiles are those of `stats`."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import numpy as np
import pytest

from tests.support import hosted_sessions
from tests.support.browser import Page, chromium
from tests.support.commands import run
from tests.support.sample_tape import DONE, begin, end, event, recorded, response
from tests.support.session_tape import ELSEWHERE, FIRST, KEY, LIMITED, SECOND, frames, session_tape
from wiretape.recorder.decode.stalls import DEFAULT
from wiretape.recorder.tape import journal
from wiretape.viewer.query import parser
from wiretape.viewer.source.base import ALL, Selection
from wiretape.viewer.source.place import TapePlace
from wiretape.viewer.source.tape import conditions, queries
from wiretape.viewer.wings.page import run as run_page
from wiretape.viewer.wings.page import sources

pytestmark = pytest.mark.nightly

UNPACK = """(async () => {
  const read = async (name) => JSON.parse(new TextDecoder().decode(await unpack(name)));
  globalThis.run = unpackRun(await read("data"), await unpack("gaps"));
  globalThis.run.texts = document.getElementById("texts") && (await read("texts"));
})()"""
LINE = "document.querySelector('.selected').textContent"
FILTERS = (
    "model:gpt-*", "model:GPT-X", "-model:gpt-x", "model!=gpt-x", "model:gpt-x,thinker-1", 'model:"gpt-*"',
    "ttft>300ms", "ttft<=0.3s ttft>200ms", "ttft_ms>300", "-ttft>300ms", "ttft!=100ms..500ms", "ttft:100ms..500ms",
    "ttft:..200ms,1s..", "gap.max>1s", "stall>2s", "dur>3s or ttft>1s", "(is:ok or is:cut) -model:gpt-x-mini",
    "is:failed", "is:err", "is:ok", "-is:complete", "outcome!=complete", "is:trunc*", "status:5xx", "status>=400",
    "status:200,429", "-status:200", "tps>60", "tps:50..100", "tokens>100", "tok.out<=251", "bytes>10k",
    "coalesced>10%", "coalesced:0", "flag:stall", "-flag:stall", "flag!=stall", "flag:no_*",
    "flag:no_usage flag:stall", "has:usage_x or is:ok", "has:error", "-has:error", "has:tps", "has:ttft,error",
    "has!=tps", "label:run=r0", "label:team", "label:team=s*", "label:team=search,team=batch", "label!=team=search",
    "-label:nothing", "upstream:api.example.com", "host:127.0.0.1", "host:*example*", "path:/v1/chat/completions",
    "path:/v1/*", "method:post", "error:over*", "error:overloaded", "error_code!=overloaded", "operation:chat", "id:0",
    "connection_reused:yes", "not (is:ok and ttft>1s)", "finish:stop", "not is:ok not is:cut", "is:ok and ttft<150ms",
    "reads>100 events>150", "clock:kernel", "conversation:*", "-conversation:0", "-has:conversation",
    "cache_verdict:first", "-cache_verdict:first", "cache_verdict:nothing", "-has:cache_broken_at", "protocol:h2",
    "-has:protocol",
)  # fmt: skip
REFUSED = (
    "text:hello",
    "gpt",
    "model~gpt.*",
    "gap:2s..5s",
    "since:2h",
    "ttft>300",
    "is:nonsense",
    "nothing:1",
    "(is:ok",
    "prompt:x",
)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with chromium(tmp_path_factory.mktemp("profile")) as page:
        page.look()
        yield page


@pytest.fixture(scope="module")
def fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tape = tmp_path_factory.mktemp("run") / "run.db"
    run(tape, "db", "fixture", "--exchanges", "300", "--chunks", "30", "--db", str(tape))
    return tape


@pytest.fixture(scope="module")
def synthetic(fixture: Path) -> Path:
    return exported(fixture)


@pytest.fixture(scope="module")
def page_path(demo: tuple[Path, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the demo's exchanges, with their texts."""
    return exported(demo[0], "--with-text", to=tmp_path_factory.mktemp("demo") / "demo.html")


def exported(tape: Path, *options: str, to: Path | None = None) -> Path:
    file = to or tape.with_suffix(".html")
    run(tape, "export", "--html", "-o", str(file), *options)
    return file


def selected(page: Page, text: str) -> list[str] | str:
    """Return the ids that a filter of the page selects, or why it is refused."""
    script = f"""(() => {{ try {{
      const fits = filterOf(run, {json.dumps(text)});
      return run.rows.id.filter((_, row) => fits(row));
    }} catch (error) {{ if (!(error instanceof FilterError)) throw error; return error.message; }} }})()"""
    selection: list[str] | str = page.run(script)
    return selection


def test_a_runs_page_requests_only_itself(page: Page, synthetic: Path) -> None:
    page.open(synthetic, "q=ttft%3E300ms&by=label.team&lanes=label.team&metric=gap")
    assert page.requests == [synthetic.as_uri()]
    assert page.faults == []
    assert page.run(LINE).startswith("selected:")


def test_filters_select_what_ls_selects(page: Page, synthetic: Path, fixture: Path) -> None:
    page.open(synthetic)
    page.run(UNPACK)
    wrong = []
    with queries.opened(fixture) as connection:
        for text in FILTERS:
            try:
                filter_ = conditions.condition(parser.parse(text))
            except parser.FilterError:
                expected: Any = "refused"
            else:
                expected = [row["id"] for row in queries.exchanges(connection, ("id",), where=filter_)]
            selection = selected(page, text)
            if ("refused" if isinstance(selection, str) else selection) != expected:
                wrong.append((text, selection if isinstance(selection, str) else len(selection), len(expected)))
    assert wrong == []


def test_what_a_page_cannot_answer_is_refused_by_name(page: Page, synthetic: Path) -> None:
    page.open(synthetic)
    page.run(UNPACK)
    assert [text for text in REFUSED if not isinstance(selected(page, text), str)] == []
    assert "not on this page" in selected(page, "text:hello")


def test_percentiles_of_a_selection_are_those_of_stats(page: Page, synthetic: Path, fixture: Path) -> None:
    page.open(synthetic)
    page.run(UNPACK)
    text = "model:gpt-x ttft>200ms"
    (row,) = json.loads(run(fixture, "stats", "-f", text, "--format", "json").stdout)
    for name, percent in (("ttft", 50), ("ttft", 95), ("latency", 90), ("icl_p99", 50), ("duration", 99)):
        selection = page.run(f"""(() => {{
          const fits = filterOf(run, {json.dumps(text)});
          const rows = run.rows.id.map((_, row) => row).filter((row) => fits(row) && run.isMeasured(row));
          return percentile(valuesOf(run, {json.dumps(name)}, rows), {percent});
        }})()""")
        if row[f"{name}_n"] * (100 - percent) < 100:
            assert selection is None
        else:
            assert selection == pytest.approx(row[f"{name}_p{percent}_ms"], abs=0.001)


def test_verdict_and_lanes_come_first_and_banners_last(page: Page, synthetic: Path) -> None:
    page.open(synthetic)
    places = page.run("""['.verdict', '.runtime', '.cards', '#page > h2', '.banner'].map(
      (one) => document.querySelector(one).getBoundingClientRect().top)""")
    assert places[1] < places[3] < places[2] < places[4]
    assert places[0] < places[1]
    assert " complete · " in page.run("document.querySelector('.verdict').textContent")


def test_lanes_are_named_by_model(page: Page, synthetic: Path) -> None:
    page.open(synthetic)
    assert {"gpt-x", "gpt-x-mini", "local-8b", "thinker-1"} <= {text for text, *_ in page.drawn(".runtime", 900)}


def test_a_page_of_some_shows_the_trend_of_all(page: Page, fixture: Path, tmp_path: Path) -> None:
    file = tmp_path / "part.html"
    with TapePlace(fixture).opened() as source, file.open("wb") as out:
        run_page.write(out, sources.read_run(source, sources.PageContent(most_rows=50), DEFAULT))
    page.open(file)
    shown = page.run("document.getElementById('page').textContent")
    assert "Of all 300 exchanges" in shown
    assert "The newest 50" in shown
    page.run("document.querySelector('#page > .picture').classList.add('trend')")
    assert "drawn below: the newest 50" in {text for text, *_ in page.drawn(".trend", 900)}
    left_edge, top, width = page.run(
        "(({ x, y, width }) => [x, y, width])(document.querySelector('.trend').getBoundingClientRect())"
    )
    mouse(page, "mouseMoved", left_edge + width * 0.5, top + 60)
    readouts = page.run("[...document.querySelectorAll('.readout')].map((one) => one.textContent).join()")
    assert " failed · TTFT p50 " in readouts
    assert page.faults == []


def test_only_long_idle_times_are_cut_from_axes(page: Page, synthetic: Path) -> None:
    page.open(synthetic)
    page.run("""globalThis.wall = clockAxis({
      at: [0, 5, 3600, 3607].map((s) => s * 1e6), end: [2, 8, 3604, 3608].map((s) => s * 1e6) })""")
    assert page.run("wall.periods.map(({ start, end }) => [start / 1e6, end / 1e6])") == [[0, 8], [3600, 3608]]
    assert page.run("wall.length") < 20e6
    assert page.run("wall.at.map((place) => wall.time(place) / 1e6)") == [0, 5, 3600, 3607]
    assert page.run("wall.end.map((place, row) => (place - wall.at[row]) / 1e6)") == [2, 3, 4, 1]
    assert page.run("wall.time(8e6 + wall.cut / 2) / 1e6") == 8


def test_a_tile_and_its_interval_share_a_unit(page: Page, synthetic: Path) -> None:
    page.open(synthetic)
    assert page.run("scaleOf(9000, 'ms')[1](8000)") == "8,000"
    units = page.run("[...document.querySelectorAll('.cards div')].map((one) => one.querySelectorAll('small').length)")
    assert max(units) == 1
    assert page.run("""[20000, 400000].map((value) => {
      const [unit, write] = scaleOf(value, "ms");
      return `${[value * 0.9, value, value * 1.1].map(write).join(" ")} ${unit}`;
    })""") == ["18.0 20.0 22.0 s", "6:00 6:40 7:20 min"]


def test_the_first_screen_has_the_gaps_of_stats(page: Page, synthetic: Path, fixture: Path) -> None:
    page.open(synthetic)
    (row,) = json.loads(run(fixture, "stats", "--format", "json").stdout)
    tiles = page.run("""Object.fromEntries([...document.querySelectorAll('.cards div')].map(
      (one) => [one.querySelector('dt').textContent, one.querySelector('dd').textContent]))""")
    assert tiles["gap p99"] == f"{row['gap_p99_ms']:,.1f}ms"
    assert tiles["longest gap"] == f"{row['gap_max_ms']:,.0f}ms"
    assert f"gap p99 {row['gap_p99_ms']:.1f} ms · longest gap {row['gap_max_ms'] / 1000:.2f} s" in page.run(LINE)


def test_a_selections_gap_curve_is_the_tapes(page: Page, synthetic: Path, fixture: Path) -> None:
    page.open(synthetic)
    page.run(UNPACK)
    counts = page.run("stepsOf(run, run.rows.id.map((_, row) => row).filter(run.isMeasured)).counts")
    with TapePlace(fixture).opened() as source:
        (sample,) = source.samples(ALL, gaps=True)
    assert sum(counts) == np.count_nonzero(sample.gaps)
    assert counts == page.run("run.groups[''][0].counts")


@pytest.mark.parametrize("filter", ["model:gpt-x", "stall>2s", "gap.max<25ms", ""])
def test_percentiles_of_selected_gaps_are_those_of_the_tape(
    page: Page, synthetic: Path, fixture: Path, filter: str
) -> None:
    page.open(synthetic, f"q={quote(filter)}&metric=gap&by=")
    with TapePlace(fixture).opened() as source:
        (sample,) = source.samples(Selection(parser.parse(filter) if filter else None), gaps=True)
    gaps = sample.gaps[sample.gaps > 0] / 1e6
    cells = page.run("""(() => {
      const ofGaps = (one) => one.caption?.textContent.startsWith("gap ");
      const cells = [...document.querySelectorAll("table")].find(ofGaps).querySelectorAll("tbody td");
      return [...cells].map((one) => one.textContent.replaceAll(",", ""));
    })()""")
    assert int(cells[1]) == len(gaps)
    for percent, cell in zip((5, 25, 50, 75, 90, 95, 99), cells[2:], strict=True):
        if len(gaps) * (100 - percent) < 100:
            assert cell == "–"
        else:
            assert float(cell) == pytest.approx(np.percentile(gaps, percent), rel=0.012, abs=0.01)
            assert float(cell) <= round(gaps.max(), 2)


def test_the_text_at_a_timestamp_had_come_by_then(page: Page, page_path: Path, demo: tuple[Path, str]) -> None:
    page.open(page_path)
    page.run(UNPACK)
    fields = ("model", "ttft_ms", "latency_ms", "max_gap_ms", "output_chunks")
    with TapePlace(demo[0]).opened() as source:
        columns = source.columns(fields, ALL, 100, 10**6)
        texts = source.outputs(columns.numbers, 10**6)
    row = next(at for at, model in enumerate(columns.values["model"]) if model == "demo-stall")
    text = texts[columns.numbers[row]]
    times = page.run(f"[...run.outputs({row})]")
    assert times[0] == pytest.approx(columns.values["ttft_ms"][row] / 1000, abs=0.5)
    assert times[-1] == pytest.approx(columns.values["latency_ms"][row] / 1000, abs=0.5)
    assert len(times) == len(text.sizes)
    for count in (1, 5, len(times)):
        assert page.run(f"saidBy(run, {row}, {times[count - 1]} + 0.01).text") == text.text[: sum(text.sizes[:count])]


def test_a_row_opens_its_exchange_under_its_address(page: Page, page_path: Path) -> None:
    page.open(page_path, "sort=-max_gap_ms")
    page.run("document.querySelector('tr[data-row]').click()")
    page.run("new Promise((done) => setTimeout(done, 400))")
    assert "demo-stall" in page.run("document.querySelector('.opened').textContent")
    assert page.run("document.querySelector('.opened .said').textContent").startswith("The model begins")
    fragment = page.run("location.hash").removeprefix("#")
    page.open(page_path, fragment)
    page.run("new Promise((done) => setTimeout(done, 300))")
    assert "demo-stall" in page.run("document.querySelector('.opened').textContent")


def mouse(page: Page, kind: str, x: float, y: float, button: str = "none") -> None:
    page.call(
        "Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, buttons=int(button == "left"), clickCount=1
    )


def test_the_pointer_shows_progress_and_a_click_opens(page: Page, page_path: Path) -> None:
    page.open(page_path, "lanes=model")
    page.run("document.querySelector('.runtime').scrollIntoView()")
    left_edge, top, width = page.run(
        "(({ x, y, width }) => [x, y, width])(document.querySelector('.runtime').getBoundingClientRect())"
    )
    for lane in range(19):  # only the stalled ones run in the middle
        mouse(page, "mouseMoved", left_edge + width * 0.7, top + 22 + 15 * lane + 7)
        if "demo-stall" in page.run("document.querySelector('.pointed').textContent"):
            break
    assert "The model begins to speak," in page.run("document.querySelector('.pointed').textContent")
    page.click(left_edge + width * 0.7, top + 22 + 15 * lane + 7)
    page.run("new Promise((done) => setTimeout(done, 400))")
    assert "demo-stall" in page.run("document.querySelector('.opened').textContent")


def test_a_brush_zooms_and_keys_move(page: Page, synthetic: Path) -> None:
    page.open(synthetic)
    page.run("document.querySelector('.runtime').scrollIntoView()")
    left_edge, top, width = page.run(
        "(({ x, y, width }) => [x, y, width])(document.querySelector('.runtime').getBoundingClientRect())"
    )
    mouse(page, "mousePressed", left_edge + width * 0.4, top + 60, "left")
    mouse(page, "mouseMoved", left_edge + width * 0.6, top + 60, "left")
    mouse(page, "mouseReleased", left_edge + width * 0.6, top + 60, "left")
    page.run("new Promise((done) => setTimeout(done, 300))")
    begin, end = map(int, page.run("new URLSearchParams(location.hash.slice(1)).get('view')").split("_"))
    page.run("document.querySelector('.runtime').parentNode.focus()")
    page.press("ArrowRight", 39)
    page.run("new Promise((done) => setTimeout(done, 300))")
    assert int(page.run("new URLSearchParams(location.hash.slice(1)).get('view')").split("_")[0]) > begin
    page.press("0", 48, "0")
    page.run("new Promise((done) => setTimeout(done, 300))")
    assert page.run("new URLSearchParams(location.hash.slice(1)).get('view')") is None
    assert begin < end


def test_the_worst_of_two_groups_play_in_step(page: Page, synthetic: Path) -> None:
    page.open(synthetic)
    page.run(
        "[...document.querySelectorAll('button')].find((one) => one.textContent.startsWith('show the worst')).click()"
    )
    page.run("new Promise((done) => setTimeout(done, 300))")
    page.run("document.querySelector('input[type=range]').value = 100")
    page.run("document.querySelector('input[type=range]').dispatchEvent(new Event('input'))")
    first, second = page.run(
        "[...document.querySelectorAll('.pair .timeline')].map((one) => one.getAttribute('aria-valuenow'))"
    )
    assert first == second
    assert page.faults == []


def test_a_hostile_run_adds_no_element_and_does_nothing(page: Page, tape: Path, tmp_path: Path) -> None:
    file = exported(tape, "--with-text", to=tmp_path / "hostile.html")
    page.open(
        file,
        "by=model&lanes=model&x=%3Cscript%3E&q=%22%3C%2Fscript%3E&view=1_x&pair=-9&sort=__proto__&metric=constructor",
    )
    page.run("document.querySelectorAll('tr[data-row]').forEach((one) => one.click())")
    page.run("new Promise((done) => setTimeout(done, 300))")
    assert page.requests == [file.as_uri()]
    assert page.faults == []
    assert page.run("document.querySelectorAll('script:not([id])').length") == 1
    assert not page.run(
        r"/[\u0000-\u0008\u202a-\u202e\u2066-\u2069\u001b]/.test(document.getElementById('page').textContent)"
    )


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a session with a stall, a rate limit and a tool, and of a single exchange."""
    return exported(session_tape(tmp_path_factory.mktemp("sessions") / "sessions.db"))


def test_turns_run_at_once_only_while_they_last(page: Page, tmp_path: Path) -> None:
    page.open(exported(hosted_sessions.session_tape(tmp_path / "t.db", *hosted_sessions.worked_example())))
    page.run(UNPACK)
    streams = "[...run.at.keys()].filter((row) => run.rows.turns[row])"
    assert page.run(f"running(run, run, {streams})") == {
        "times": [100_000, 398_000, 998_000, 1_620_000], "counts": [1, 0, 1, 0], "most": 1
    }  # fmt: skip
    assert page.run(f"run.outputs({streams}[0]).map((us) => Math.round(us / 5e4))") == [6, 7, 24]


LANE = "document.querySelector('.sessionlanes .picture:not(.above)')"
BAR = f"(({{ x, y, width }}) => [x, y, width])({LANE}.getBoundingClientRect())"
CHOSEN = "document.querySelector('section[aria-label=\"The session that is chosen\"]')"


def test_a_lane_explains_its_parts_and_selects_exchanges(page: Page, agents: Path) -> None:
    page.open(agents, "align=start")
    page.run(f"{LANE}.scrollIntoView({{ block: 'center' }})")
    left_edge, top, width = page.run(BAR)
    readouts = []
    for ms in (200, 900, 2500, 3480, 4000, 6000):
        mouse(page, "mouseMoved", left_edge + 4 + (width - 8) * ms / 8400, top + 28)
        readouts.append(page.run("document.querySelector('.sessionlanes ~ .readout').textContent").split(" · ")[-1])
    assert readouts == [
        "waiting 400 ms, from 0", "streaming 1.00 s, from 400 ms", "tools 2.00 s, from 1.45 s",
        "failed 50.0 ms, from 3.45 s", "backoff 1.00 s, from 3.50 s", "stalled 3.00 s, from 5.20 s",
    ]  # fmt: skip
    page.click(left_edge + width / 2, top + 28)
    assert page.run("document.querySelector('.filter').value") == f'conversation:"{KEY}"'
    page.run(UNPACK)
    assert selected(page, f'conversation:"{KEY}"') == [FIRST, LIMITED, SECOND]
    assert selected(page, f'-conversation:"{KEY}"') == [ELSEWHERE]
    assert page.run(LINE).startswith("selected: 3 of 4 exchanges · 1 failed")
    assert page.faults == []


def test_a_sessions_turns_are_read_from_its_page(page: Page, agents: Path) -> None:
    page.open(agents, f"session={KEY}")
    head, *rows = page.run(f"""[...{CHOSEN}.querySelectorAll('tr')].map(
      (row) => [...row.children].map((cell) => cell.textContent))""")
    turns = [dict(zip(head, row, strict=True)) for row in rows]
    assert [row["id"] for row in turns] == [FIRST[:8], LIMITED[:8], SECOND[:8]]
    assert [row["TTFT ms"] for row in turns] == ["400.0", "–", "500.0"]
    assert [row["tools ms"] for row in turns] == ["0", "2,000.0", "0"]
    assert [row["backoff ms"] for row in turns] == ["0", "0", "1,000.0"]
    assert (turns[2]["stalled ms"], turns[2]["tokens in"], turns[2]["cached"]) == ("3,000.0", "900", "600")
    (table,) = page.run("""[...document.querySelectorAll('caption')].filter((one) => one.textContent === 'Sessions')
      .map((one) => [...one.parentElement.querySelectorAll('tbody td')].map((cell) => cell.textContent))""")
    assert table[0] == KEY
    assert (turns[0]["cache"], turns[1]["cache"], table[-1].split(" ")[1::3]) == ("unreported", "–", ["1", "1"])
    assert "3,000.0 · 35.7 %" in table
    page.run(f"{CHOSEN}.querySelector('tbody tr').click()")
    page.run("new Promise((done) => setTimeout(done, 400))")
    assert FIRST in page.run("document.querySelector('.opened').textContent")


def test_hostile_names_and_prompts_of_sessions_are_only_text(page: Page, tmp_path: Path) -> None:
    key = '</script><img src=x onerror=alert(1)>"\\\u202e'
    replacements = [(KEY, key), ("Fix it.", f"{key} asked"), ("gpt-x", f"{key} model")]
    coming = [_replaced(frame, replacements) if isinstance(frame, journal.Begin) else frame for frame in frames()]
    page.open(exported(recorded(tmp_path / "hostile.db", coming), "--with-text"))
    page.run("[...document.querySelectorAll('caption')].find((one) => one.textContent === 'Sessions')"
             ".parentElement.querySelector('tbody tr').click()")  # fmt: skip
    text = page.run(f"{CHOSEN}.textContent")
    assert '</script><img src=x onerror=alert(1)>"\\◆' in text
    assert page.run(LINE).startswith("selected: 3 of 4 exchanges")
    assert page.run("document.querySelectorAll('img').length") == 0
    assert "◆ asked" in page.run("document.querySelector('.sessions').textContent")
    assert page.faults == []


def _replaced(frame: journal.Begin, replacements: list[tuple[str, str]]) -> journal.Begin:
    body = frame.body or b""
    for text, hostile in replacements:
        body = body.replace(text.encode(), json.dumps(hostile)[1:-1].encode())
    return msgspec.structs.replace(frame, body=body)


def test_a_session_of_a_page_is_chosen_by_keys(page: Page, agents: Path) -> None:
    page.open(agents)
    page.run("[...document.querySelectorAll('caption')].find((one) => one.textContent === 'Sessions')"
             ".parentElement.querySelector('tbody tr').focus()")  # fmt: skip
    page.press("Enter", 13)
    assert KEY in page.run(f"{CHOSEN}.textContent")
    assert page.run("document.querySelector('.filter').value") == f'conversation:"{KEY}"'


@pytest.fixture(scope="module")
def closing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tape of an answer whose end came long after its last output, and of one that was quick."""
    path = tmp_path_factory.mktemp("closing") / "closing.db"
    texts = [(10 * at, event({"content": "a"})) for at in range(1, 202)]
    coming = list[journal.Frame]()
    for id, end_ms in (("a" * 16, 9000), ("b" * 16, 2011)):
        parts = [*texts, (end_ms, event({}, "stop") + DONE)]
        coming += [begin(id, 0, b'{"model": "m"}'), *response(id, parts), end(id, parts)]
    return recorded(path, coming)


def test_no_percentile_of_gaps_is_above_the_longest(page: Page, closing: Path) -> None:
    page.open(exported(closing))
    page.run(UNPACK)
    gaps = page.run("[...gapValues(run, [0, 1])]")
    assert (len(gaps), max(gaps)) == (400, 10.0)


def test_a_comparisons_page_opens_with_it_in_group_colours(page: Page, fixture: Path, tmp_path: Path) -> None:
    names = ["model:gpt-x", "model:gpt-x-mini"]
    page.open(exported(fixture, "--base", names[0], "--new", names[1], to=tmp_path / "compared.html"))
    assert page.faults == []
    heads = page.run("[...document.querySelectorAll('#page > h2')].map((one) => one.textContent)")
    assert heads[:2] == ["Comparison", "Exchanges over time"]
    assert page.run("[...document.querySelectorAll('select')].map((one) => one.value)")[1:3] == ["compared"] * 2
    legend = page.run("""[...document.querySelectorAll('.timeline + .legend span')]
      .filter((one) => !one.hidden).map((one) => one.textContent)""")
    assert legend[:4] == ["wait", "reasoning", *names]
    page.run(UNPACK)
    assert page.run(
        "laned(run, COMPARED, [...run.rows.id.keys()]).filter((one) => one.first).map((one) => one.name)"
    ) == [
        *names,
        None,
    ]


def test_the_lanes_of_one_session_show_tools_and_backoff(page: Page, agents: Path) -> None:
    tape, file = agents.with_suffix(".db"), agents.with_name("one.html")
    run(tape, "export", "--html", f"s:{KEY}", "-o", str(file))
    page.open(file)
    page.run(UNPACK)
    assert page.run("document.querySelector('select[aria-label=lanes]').value") == "conversation"
    words = page.run("[...document.querySelectorAll('.timeline + .legend span')].filter((one) => !one.hidden)"
                     ".map((one) => one.textContent)")  # fmt: skip
    assert [word for word in words if word in ("tools", "backoff")] == ["tools", "backoff"]
    places = page.run("""(() => {
      const session = [...unpackSessions(run)][0];
      const pauses = session.stretches.filter(({ part }) => PAUSES.includes(part));
      return pauses.map(({ part, from, to }) => [part, from, to]);
    })()""")
    assert places == [["tools", 1_450_000, 3_450_000], ["backoff", 3_500_000, 4_500_000]]
