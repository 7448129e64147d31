"""Pages of answers to agents: their size, their rows, and the offset to go on with."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wiretape.recorder.errors import WiretapeError
from wiretape.viewer.report import answers

ROOM = 2000
cells = st.one_of(st.none(), st.integers(), st.floats(), st.text(max_size=300), st.lists(st.text(max_size=20)))


def pages(rows: list[list[Any]]) -> list[dict[str, Any]]:
    rows_seen, offset = list[dict[str, Any]](), 0
    while True:
        text = answers.table(("a", "b"), rows[offset:], offset, ROOM, ["a note"], more=False)
        assert len(text.encode()) <= ROOM
        rows_seen.append(json.loads(text))
        if "next" not in rows_seen[-1]:
            return rows_seen
        offset = rows_seen[-1]["next"]["offset"]


@given(st.lists(st.tuples(cells, cells).map(list), max_size=40))
def test_pages_hold_each_row_once_within_their_limit(rows: list[list[Any]]) -> None:
    assert sum(len(page["recorded"]) for page in pages(rows)) == len(rows)


def test_only_an_unfinished_page_names_the_next() -> None:
    assert json.loads(answers.table(("a",), [[1]], 3, ROOM, [], more=True))["next"] == {"offset": 4}
    assert "next" not in json.loads(answers.table(("a",), [[1]], 3, ROOM, [], more=False))


def test_an_oversized_row_is_shortened_with_its_length() -> None:
    (page,) = pages([["é" * 50_000, {"b": "c" * 9_000}]])
    first, second = page["recorded"][0]
    assert first.startswith("ééé")
    assert first.endswith("… (50,000 characters)")
    assert second.startswith('{"b":"ccc')


def test_a_row_of_too_many_columns_is_refused() -> None:
    with pytest.raises(WiretapeError, match="a row of 500 columns is larger than 2,000 bytes: name fewer columns"):
        answers.table(("a",), [["x" * 100] * 500], 0, ROOM, [], more=False)


def test_texts_are_safe_in_names_cells_and_notes() -> None:
    text = answers.table(("a\x1b",), [[{"b\x1b": ["\u202e"]}]], 0, ROOM, ["\x9b"], more=False)
    assert not set(text) & set("\x1b\x9b\u202e")


def test_numbers_that_json_lacks_are_texts() -> None:
    assert json.loads(answers.table(("a",), [[float("inf")]], 0, ROOM, [], more=False))["recorded"] == [["inf"]]


@given(st.lists(st.text(st.characters(exclude_characters="\n"), max_size=3000), max_size=20))
def test_pages_of_lines_together_are_the_text(lines: list[str]) -> None:
    rows_seen, offset = list[str](), 0
    while True:
        text = answers.text(lines, offset, 4000, [])
        assert len(text.encode()) <= 4000
        page = json.loads(text)
        rows_seen += page["recorded"].split("\n")
        if "next" not in page:
            break
        offset = page["next"]["offset"]
    assert "".join(rows_seen) == "".join(map(answers.safe, lines))
