"""Tables: what gives way on a narrow terminal, and that no row is ever wider than it."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tests.support.cases import each_case
from wiretape.viewer.report import tables
from wiretape.viewer.report.tables import Table, TableColumn

FIELDS = ("name", "text", "n", "verdict")
ROWS = [
    {"name": "ttft_p50_ms", "text": "x" * 40, "n": 1234567, "verdict": "no clear difference"},
    {"name": "tps", "text": "\u4f60" * 15, "n": None, "verdict": "new is better"},
]
FAMILY = "\U0001f469\u200d\U0001f469\u200d\U0001f467"
THUMB, HEART, KEY = "\U0001f44d\U0001f3fd", "\u2764\ufe0f", "1\ufe0f\u20e3"


def plain(table: Table) -> list[str]:
    return [line.plain for line in table.lines]


def test_a_table_shows_every_field_and_every_row() -> None:
    rows = [{"seq": 0, "at_ms": 10.5, "data": "a\nb"}, {"seq": 10, "at_ms": None, "data": "c"}]
    expected = ["seq  at_ms  data", "  0   10.5  a␊b", " 10      –  c"]
    assert plain(tables.grid(("seq", "at_ms", "data"), rows)) == expected


def test_a_table_of_nothing_is_its_headings() -> None:
    assert plain(tables.grid(("seq", "data"), [])) == ["seq  data"]


def test_what_is_not_important_gives_way_from_the_right() -> None:
    assert tables.grid(FIELDS, ROWS, 50).hidden == ("verdict",)
    assert tables.grid(FIELDS, ROWS, 30).hidden == ("n", "verdict")
    assert tables.grid(FIELDS, ROWS, 24).hidden == ("text", "n", "verdict")


def test_what_is_important_stays_longest() -> None:
    table = tables.grid(FIELDS, ROWS, 45, ("name", "verdict", "n", "text"))
    assert table.hidden == ("text",)
    assert plain(table)[0].split() == ["name", "n", "verdict"]
    assert tables.grid(FIELDS, ROWS, 35, ("name", "verdict")).hidden == ("text", "n")


def test_with_enough_room_nothing_is_hidden_or_cut() -> None:
    table = tables.grid(FIELDS, ROWS, 90)
    assert table.hidden == ()
    assert "x" * 40 in plain(table)[1]


def test_texts_are_cut_before_columns_and_numbers_never() -> None:
    table = tables.grid(("name", "text"), ROWS, 26)
    assert table.hidden == ()
    assert plain(table)[1:] == ["ttft_p50_ms  xxxxxxxxxxxx…", "tps          \u4f60\u4f60\u4f60\u4f60\u4f60\u4f60…"]
    number = [{"name": "n" * 11, "total": 1234567890123}]
    assert tables.grid(("name", "total"), number, 24).hidden == ("total",)


def test_cut_text_regrows_where_columns_were_dropped() -> None:
    rows = [{"name": "n" * 30, "rest": "r" * 40}]
    assert plain(tables.grid(("name", "rest"), rows, 32))[1] == "n" * 30


def test_the_first_column_is_cut_as_last_resort() -> None:
    assert plain(tables.grid(FIELDS, ROWS, 5)) == ["name", "ttft…", "tps"]


def test_short_cells_replace_whole_ones_without_room() -> None:
    columns = [TableColumn("at", "at", lambda row: row["at"], lambda row: row["at"][-5:]), tables.plain("id")]
    rows = [{"at": "2026-03-01 12:00", "id": "a"}]
    assert plain(tables.table(columns, rows, 40)) == ["at                id", "2026-03-01 12:00  a"]
    assert plain(tables.table(columns, rows, 12)) == ["at     id", "12:00  a"]


@each_case("text", [FAMILY, THUMB, HEART, KEY])
def test_ambiguously_wide_characters_are_drawn_in_parts(text: str) -> None:
    line = plain(tables.grid(("model", "id"), [{"model": text, "id": "a"}]))[1]
    assert not {"\u200d", "\ufe0f", "\u20e3", "\U0001f3fd"} & set(line)


def widest(text: str) -> int:
    """Return the cells of a text in a terminal that draws each code point by itself, spacing marks included."""
    return sum(max(cell_len(sign), unicodedata.category(sign) == "Mc") for sign in text)


def test_marks_that_some_terminals_give_a_cell_are_counted() -> None:
    hindi = "\u0939\u093f\u0928\u094d\u0926\u0940"
    lines = plain(tables.grid(("model", "outcome"), [{"model": hindi * 3, "outcome": "complete"}], 28))
    assert widest(lines[1]) <= 28
    assert lines[1].endswith("complete")


texts = st.text(
    st.characters(exclude_categories=["Cs"]) | st.sampled_from(FAMILY + THUMB + HEART + KEY + "\u093f\u0940"),
    max_size=60,
)
cells = st.none() | st.integers() | texts


@given(st.lists(st.tuples(cells, cells, cells, cells), max_size=4), st.integers(1, 120), st.permutations(FIELDS))
def test_no_row_is_wider_than_the_terminal(found: list[tuple[object, ...]], width: int, important: list[str]) -> None:
    rows = [dict(zip(FIELDS, values, strict=True)) for values in found]
    table = tables.grid(FIELDS, rows, width, important)
    assert all(widest(line.plain) <= width for line in table.lines)
    assert len(table.lines) == 1 + len(rows)
    assert "name" not in table.hidden


def test_a_sentence_is_wrapped_between_words_behind_its_label() -> None:
    lines = [line.plain for line in tables.paragraph("note: ", "one two-three four", 16)]
    assert lines == ["note: one", "      two-three", "      four"]
    assert [line.plain for line in tables.paragraph("note: ", "one two three")] == ["note: one two three"]
    joined = f"one two{tables.NO_BREAK}three"
    assert [line.plain for line in tables.paragraph("note: ", joined, 18)] == ["note: one", "      two three"]
    assert [line.plain for line in tables.paragraph("note: ", joined)] == ["note: one two three"]
    assert max(len(line.plain) for line in tables.paragraph("note: ", "x" * 90, 30)) == 30


def test_the_first_column_may_take_half_the_width() -> None:
    rows = [{"metric": "m" * 38, "text": "t" * 60, "n": 1}]
    table = tables.grid(("metric", "text", "n"), rows, 80)
    assert "m" * 38 in plain(table)[1]
    assert table.hidden == ()


@each_case(
    ("value", "expected"),
    [
        (None, "–"),
        (1234567, "1,234,567"),
        (1234.56, "1,234.6"),
        (0.01234, "0.01"),
        (0.0, "0.0"),
        (-0.001, "0.00"),
        (-0.01, "-0.01"),
    ],
)
def test_figures_have_as_many_decimals_as_help(value: float | None, expected: str) -> None:
    assert tables.number(value) == expected
