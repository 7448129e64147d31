"""The columns of the list: which there is room for, and a line of them."""

from rich.cells import cell_len

from tests.support.cases import each_case
from tests.support.exchanges import LOOK, plain
from tests.support.exchanges import listed as row
from tests.support.sample_tape import HOSTILE
from wiretape.recorder.tape.reader import Connection
from wiretape.viewer.listing import layout
from wiretape.viewer.source.tape import live


def test_lines_fill_every_width_and_never_more(connection: Connection) -> None:
    rows = live.listed(connection, range(1, 8))
    for width in range(60, 201):
        chosen, between = layout.fitted(width), layout.gap_between(width)
        for row_ in rows:
            text = plain(layout.line(row_, chosen, LOOK, between))
            assert cell_len(text.rstrip()) <= width - 2
            assert cell_len(text) == 2 + sum(slot.width + between for slot in chosen)


def test_columns_give_way_by_rank() -> None:
    columns_by_width = {width: [slot.column.name for slot in layout.fitted(width)] for width in (60, 80, 120, 240)}
    assert columns_by_width[60] == ["id", "model", "happened", "timeline"]
    assert columns_by_width[80] == ["id", "model", "ttft", "duration", "happened", "timeline"]
    assert set(columns_by_width[120]) == {*columns_by_width[80], "start", "max_gap", "tokens"}
    assert {"status", "icl_p50", "tps"} < set(columns_by_width[240])
    assert [slot.column.name for slot in layout.fitted(420)] == [column.name for column in layout.COLUMNS]


def widths(*sizes: int) -> dict[int, dict[str, int]]:
    return {width: {slot.column.name: slot.width for slot in layout.fitted(width)} for width in sizes}


def test_names_and_causes_come_before_the_timeline() -> None:
    for width, wide in widths(*range(60, 301)).items():
        assert (wide["model"], wide["happened"]) >= (14, 20)
        assert wide["timeline"] >= (0.2 * width if width >= 80 else 10)


def test_names_are_as_wide_as_the_widest_in_sight() -> None:
    by_name = [{slot.column.name: slot.width for slot in layout.fitted(130, name_cells=cells)} for cells in (5, 18, 60)]
    assert [wide["model"] for wide in by_name] == [14, 18, 24]


def test_starts_have_their_seconds_where_there_is_room() -> None:
    columns = widths(100, 120, 160)
    assert ["start" in by_width and by_width["start"] >= 8 for by_width in columns.values()] == [True, True, True]
    assert "icl_p50" not in columns[100]


def test_a_stall_in_words_is_never_cut() -> None:
    assert min(by_width["happened"] for by_width in widths(*range(60, 301)).values()) >= len("stall 2.4 s")


def test_left_out_columns_make_room_for_others() -> None:
    names = {slot.column.name for slot in layout.fitted(80, {"timeline", "model"})}
    assert not names & {"timeline", "model"}
    assert {"start", "max_gap", "tokens"} <= names


def test_the_sign_of_the_order_touches_no_title() -> None:
    for column in layout.COLUMNS:
        order = (column.field or "started_at", True)
        for width in (80, 100, 120, 160, 420):
            between = layout.gap_between(width)
            titles = plain(layout.titles(layout.fitted(width, order=order), LOOK, between, order))
            assert "▼" not in titles or titles[titles.index("▼") + 1].isspace()


@each_case(
    ("reason", "expected"),
    [("stop", ""), ("STOP", ""), ("end_turn", ""), ("COMPLETE", ""), ("completed", ""), ("tool_use", "tool_use"),
     ("max_tokens", "max_tokens"), (None, "")],
)  # fmt: skip
def test_only_an_unusual_finish_reason_is_shown(reason: str | None, expected: str) -> None:
    (happened,) = [slot.column for slot in layout.fitted(120) if slot.column.name == "happened"]
    assert plain(happened.render(row(finish_reason=reason), LOOK, 13)) == expected


def test_hostile_text_in_a_line_drives_nothing() -> None:
    text = plain(layout.line(row(model=HOSTILE, path=HOSTILE, upstream=HOSTILE), layout.fitted(200), LOOK, 2))
    assert not [sign for sign in text if ord(sign) < 32 or 0x7F <= ord(sign) < 0xA0]


def test_titles_stand_over_their_columns_and_say_the_order() -> None:
    chosen = layout.fitted(160)
    text = plain(layout.titles(chosen, LOOK, 1, None))
    assert "UTC▼" in text
    assert "TTFT ms▲" in plain(layout.titles(chosen, LOOK, 1, ("ttft_ms", False)))
    for column in layout.COLUMNS:
        titled = plain(layout.titles(chosen, LOOK, 1, (column.field or "", True)))
        assert len(titled) == len(text)
        if column.field and column.name in {slot.column.name for slot in chosen} - {"start"}:
            assert f"{column.title}▼" in titled
    at = 2 + text.index("TTFT")
    found = layout.column_at(chosen, 1, at)
    assert found is not None
    assert found.name == "ttft"
    assert layout.column_at(chosen, 1, 1) is None
