"""The names that a recorder gave to its upstreams."""

import json
from pathlib import Path

import msgspec
import pytest

from tests.support.cases import each_case
from tests.support.commands import run
from tests.support.frames import SESSION, STREAM, begin, body, end, head, opened, record
from wiretape.viewer.source.tape.functions import upstream_name

PAIRS = [["old", "http://a"], ["new", "http://b"], ["one", "http://c"], ["two", "http://c"], ["", "http://d"]]


@each_case(
    "url, name",
    [
        ("http://a", "old"),
        ("http://b", "new"),
        ("http://c", None),
        ("http://d", None),
        ("http://e", None),
        (None, None),
    ],
)
def test_a_url_of_exactly_one_upstream_has_a_name(url: str | None, name: str | None) -> None:
    assert upstream_name(json.dumps(PAIRS), url) == name


@each_case("value", [None, b"[]", "{", "7", "[1]", '[["a"]]', '[[["a"], "http://a"]]', '{"a": "http://a"}'])
def test_a_damaged_cell_names_nothing(value: object) -> None:
    assert upstream_name(value, "http://a") is None


@pytest.fixture
def tape_with_names(tmp_path: Path) -> Path:
    path = tmp_path / "tape.db"
    session = msgspec.structs.replace(SESSION, upstreams=[(name, url) for name, url in PAIRS])
    with opened(path, session) as store:
        for id, url in (("aaaa", "http://a"), ("bbbb", "http://b"), ("cccc", "http://c")):
            record(store, [begin(id * 4, upstream=url), head(id * 4), *body(id * 4, STREAM), end(id * 4, STREAM)])
    return path


def test_a_name_is_column_filter_and_group(tape_with_names: Path) -> None:
    assert run(tape_with_names, "ls", "--columns", "id,upstream_name").stdout.split() == [
        "id", "upstream_name", "cccc" * 4, "bbbb" * 4, "new", "aaaa" * 4, "old",
    ]  # fmt: skip
    for text in ("upstream:old", "upstream_name:old", "upstream:http://a", "-upstream:new,c"):
        assert run(tape_with_names, "ls", "-f", text, "--format", "ids").stdout.split() == ["aaaa" * 4], text
    assert json.loads(run(tape_with_names, "show", "aaaa", "--format", "json").stdout)["upstream_name"] == "old"
    rows = json.loads(run(tape_with_names, "stats", "--by", "upstream_name", "--format", "json").stdout)
    assert [(row["upstream_name"], row["n"]) for row in rows] == [("new", 1), ("old", 1), (None, 1)]


def test_only_a_screen_names_groups_of_upstreams(tape_with_names: Path) -> None:
    header, first_line, *_ = run(tape_with_names, "stats", "--by", "upstream", "--format", "table").stdout.splitlines()
    assert header.split()[:2] == ["upstream", "upstream_name"]
    assert first_line.split()[:2] == ["http://a", "old"]
    (row, *_) = json.loads(run(tape_with_names, "stats", "--by", "upstream", "--format", "json").stdout)
    assert "upstream_name" not in row
