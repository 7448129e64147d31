"""The dashboard for Grafana asks for nothing that the metrics do not have."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.commands import run
from tests.support.exchanges import ONE
from wiretape.recorder.commands.metrics import RecorderState, Setup
from wiretape.viewer.stats.tools.otel import OTEL_SECONDS
from wiretape.viewer.wings.prometheus.serve import Exposition

NONE = Path("none.db")
BOARD: Final[dict[str, Any]] = json.loads(run(NONE, "help", "metrics", "--dashboard").stdout)
PANELS: Final = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
QUERIES: Final = [(panel["title"], target) for panel in PANELS for target in panel["targets"]]
_METRIC = re.compile(r"\b(?:gen_ai_client|wiretape)_[a-z_]+\b(?=[\[{)])")
_MATCHER = re.compile(r'([a-z_]+)(?:=~|!~|!=|=)"')
_GROUPED = re.compile(r"by \(([^)]*)\)")
_LEGEND = re.compile(r"\{\{(\w+)\}\}")


@pytest.fixture(scope="module")
def samples() -> dict[str, set[str]]:
    """The labels of every sample that Prometheus reads, by its name."""
    exposition = Exposition(Setup(Path("tape.db"), "s", "1", frozenset()))
    exposition.figures.add(replace(ONE, own_time={"waiting": 1}, output_tokens=9))
    exposition.pulse = RecorderState(1, 2, 3, 4, 5, 6)
    families = text_string_to_metric_families(exposition.text().decode())
    return {sample.name: set(sample.labels) for family in families for sample in family.samples}


@pytest.mark.parametrize(("title", "target"), QUERIES)
def test_a_query_names_metrics_and_labels_that_are_exposed(
    title: str, target: dict[str, str], samples: dict[str, set[str]]
) -> None:
    query = target["expr"]
    names = set(_METRIC.findall(query))
    assert names, title
    assert names <= samples.keys()
    labels = set[str]().union(*(samples[name] for name in names))
    grouped = {label.strip() for group in _GROUPED.findall(query) for label in group.split(",")}
    assert {*_MATCHER.findall(query), *grouped} <= labels
    assert set(_LEGEND.findall(target["legendFormat"])) <= grouped


def test_a_quantile_panel_says_where_its_buckets_end() -> None:
    capped = [panel for panel in PANELS if any("histogram_quantile" in target["expr"] for target in panel["targets"])]
    assert capped
    assert all(f" {OTEL_SECONDS[-1]:g} s" in panel["description"] for panel in capped)


def test_variables_are_labels_and_panels_use_the_source(samples: dict[str, set[str]]) -> None:
    source, *variables = BOARD["templating"]["list"]
    assert (source["name"], source["type"]) == ("datasource", "datasource")
    for variable in variables:
        match = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"]["query"])
        assert match
        assert match[2] in samples[match[1]]
    chosen = {"type": "prometheus", "uid": "${datasource}"}
    assert all(panel["datasource"] == chosen for panel in (*PANELS, *variables, *(target for _, target in QUERIES)))


def test_no_panel_covers_another() -> None:
    covered = set[tuple[int, int]]()
    for panel in BOARD["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= 24
        assert covered.isdisjoint(cells), panel["title"]
        covered |= cells
    ids = [panel["id"] for panel in BOARD["panels"]]
    assert len(set(ids)) == len(ids)


def test_only_the_metrics_have_a_dashboard() -> None:
    for words in ((), ("glossary",), ("ls",)):
        assert "wiretape help metrics --dashboard" in run(NONE, "help", *words, "--dashboard", code=2).output
