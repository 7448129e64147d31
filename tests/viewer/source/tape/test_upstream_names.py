"""The names that a recorder gave to its upstreams."""

import csv
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.commands import run
from tests.support.frames import STREAM, begin, body, end, head, opened, record
from wiretape.viewer.export.frames import open_tape
from wiretape.viewer.listing import drilling
from wiretape.viewer.source import settled
from wiretape.viewer.stats.dashboard import labels_of

NAMES = {"aaaa": "old", "bbbb": "new", "cccc": None}


@pytest.fixture
def tape_with_names(tmp_path: Path) -> Path:
    """A tape of three exchanges with one server: two by different names, one without."""
    path = tmp_path / "tape.db"
    with opened(path) as store:
        for id, name in NAMES.items():
            begun = begin(id * 4, upstream="http://a", upstream_name=name)
            record(store, [begun, head(id * 4), *body(id * 4, STREAM), end(id * 4, STREAM)])
    return path


def test_a_name_is_column_filter_and_group(tape_with_names: Path) -> None:
    assert run(tape_with_names, "ls", "--columns", "id,upstream_name").stdout.split() == [
        "id", "upstream_name", "cccc" * 4, "bbbb" * 4, "new", "aaaa" * 4, "old",
    ]  # fmt: skip
    for text in ("upstream:old", "upstream_name:old", "upstream.name:old", "-upstream:new has:upstream_name"):
        assert run(tape_with_names, "ls", "-f", text, "--format", "ids").stdout.split() == ["aaaa" * 4], text
    assert json.loads(run(tape_with_names, "show", "aaaa", "--format", "json").stdout)["upstream_name"] == "old"


def test_programs_get_the_name_by_default(tape_with_names: Path) -> None:
    for command in ("ls --format csv", "export --format csv"):
        rows = csv.DictReader(run(tape_with_names, *command.split()).stdout.splitlines())
        assert {row["id"][:4]: row["upstream_name"] or None for row in rows} == NAMES, command
    with closing(sqlite3.connect(tape_with_names)) as connection:
        viewed = connection.execute("SELECT substr(id, 1, 4), upstream_name FROM exchange_metrics").fetchall()
    assert dict(viewed) == NAMES
    assert [record.upstream_name for record in open_tape(tape_with_names).records()] == [*NAMES.values()]
    with settled.opened(tape_with_names, decodes=True) as tape:
        labels = [labels_of(exchange.counted).wiretape_upstream for exchange in tape.traced([1, 2, 3])]
    assert labels == ["old", "new", ""]


def test_two_names_of_one_url_are_two_groups(tape_with_names: Path) -> None:
    rows = json.loads(run(tape_with_names, "stats", "--by", "upstream", "--format", "json").stdout)
    groups = [row["upstream"] for row in rows]
    assert groups == ["http://a", "new", "old"]
    for name, id in zip(groups, ("cccc", "bbbb", "aaaa"), strict=True):
        selected = run(tape_with_names, "ls", "-f", drilling.group("upstream", name, groups), "--format", "ids")
        assert selected.stdout.split() == [id * 4], name


def test_a_screen_shows_names_in_place_of_urls(tape_with_names: Path) -> None:
    screen = run(tape_with_names, "ls", "--format", "table", "--columns", "id,upstream").stdout.splitlines()
    assert [line.split()[1] for line in screen] == ["upstream", "a", "new", "old"]
