"""The headline figures of gaps are the same on the page, in `stats`, in the viewer and in `compare`."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support import page
from tests.support.commands import run
from tests.support.screens import journey, seen, shows, staged, wait_for
from wiretape.viewer.listing.groups import figure
from wiretape.viewer.tui.stats.screen import StatsScreen

FIGURES = {"TTFT p50": "ttft_p50_ms", "GAP p50": "gap_p50_ms", "GAP p99": "gap_p99_ms", "LONGEST GAP": "gap_max_ms"}


@pytest.fixture(scope="module")
def fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tape = tmp_path_factory.mktemp("headlines") / "run.db"
    run(tape, "db", "fixture", "--exchanges", "300", "--chunks", "30", "--db", str(tape))
    return tape


@pytest.fixture(scope="module")
def by_model(fixture: Path) -> dict[str, dict[str, Any]]:
    rows = json.loads(run(fixture, "stats", "--by", "model", "--format", "json").stdout)
    return {row["model"]: row for row in rows}


def on_screen(tape: Path) -> dict[str, dict[str, str]]:
    """Return the table of the viewer's stats screen: by model, the text below each heading."""
    headlines_by_source: dict[str, dict[str, str]] = {}

    async def steps() -> None:
        async with staged(tape, lambda: StatsScreen(""), (200, 40)) as (app, pilot):
            screen = app.screen
            assert isinstance(screen, StatsScreen)
            await shows(pilot, "failures")
            await wait_for(pilot, lambda: screen.data.pooled and "GAP" in seen(app))
            heads, *lines = (re.split(r" {2,}", line.strip(" ▌")) for line in seen(app).splitlines()[1:6])
            titles = [head.replace(" ms ", " ") for head in heads]
            headlines_by_source.update(
                {line[0]: dict(zip(titles, line, strict=True)) for line in lines if line[0] != "all"}
            )

    journey(steps())
    return headlines_by_source


def test_the_viewer_has_the_figures_of_stats(fixture: Path, by_model: dict[str, dict[str, Any]]) -> None:
    screen = on_screen(fixture)
    expected = {model: {head: figure(row[name]) for head, name in FIGURES.items()} for model, row in by_model.items()}
    assert {model: {head: row[head] for head in FIGURES} for model, row in screen.items()} == expected


def test_the_page_has_the_figures_of_stats(fixture: Path, by_model: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    file = tmp_path / "run.html"
    run(fixture, "export", "--html", "-o", str(file))
    data = page.read(file.read_bytes()).data
    for group in data["groups"]["model"]:
        n, p50, _, _, p99, longest = group["figures"]["gap"]
        row = by_model[group["name"]]
        assert (n, p50, p99, longest) == (row["gap_n"], row["gap_p50_ms"], row["gap_p99_ms"], row["gap_max_ms"])
    (whole,) = json.loads(run(fixture, "stats", "--format", "json").stdout)
    headlines = {headline["name"]: headline["value"] for headline in data["headlines"]}
    assert (headlines["gap p99"], headlines["longest gap"]) == (whole["gap_p99_ms"], whole["gap_max_ms"])


def test_stats_in_words_names_the_same_figures(fixture: Path, by_model: dict[str, dict[str, Any]]) -> None:
    lines = run(fixture, "stats", "--by", "model", "--format", "table").stdout.splitlines()
    assert "gap p99" in lines[0]
    assert "longest gap" in lines[0]
    for row in by_model.values():
        (line,) = [line for line in lines if line.split()[:1] == [row["model"]]]
        assert {f"{row['gap_p99_ms']:,.1f}", f"{row['gap_max_ms']:,.1f}"} <= set(line.split())


def test_a_groups_longest_gap_is_its_exchanges_longest(fixture: Path, by_model: dict[str, dict[str, Any]]) -> None:
    for row in by_model.values():
        assert row["gap_max_ms"] == row["max_gap_max_ms"]
    sides = ("--base", "model:gpt-x", "--new", "model:thinker-1")
    compared = {row["metric"]: row for row in json.loads(run(fixture, "compare", *sides, "--format", "json").stdout)}
    for side, model in (("base", "gpt-x"), ("new", "thinker-1")):
        assert compared["max_gap_p50_ms"][side] == pytest.approx(by_model[model]["max_gap_p50_ms"])
