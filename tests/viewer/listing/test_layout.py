"""The columns of the list: which there is room for, and a line of them."""

from rich.cells import cell_len
from sqlalchemy import Connection

from tests.support.cases import each_case
from tests.support.exchanges import LOOK, plain
from tests.support.exchanges import listed as row
from tests.support.sample_tape import HOSTILE
from wiretape.viewer.listing import layout
from wiretape.viewer.source.tape import live


def test_lines_fill_every_width_and_never_more(connection: Connection) -> None:
    found = live.listed(connection, range(1, 8))
    for width in range(60, 201):
        chosen, between = layout.fitted(width), layout.gap_between(width)
        for one in found:
            shown = plain(layout.line(one, chosen, LOOK, between))
            assert cell_len(shown.rstrip()) <= width - 2
            assert cell_len(shown) == 2 + sum(slot.width + between for slot in chosen)


def test_columns_give_way_by_rank() -> None:
    shown = {width: [slot.column.name for slot in layout.fitted(width)] for width in (60, 80, 120, 240)}
    assert shown[60] == ["id", "start", "model", "ttft", "duration", "flags"]
    assert {"max_gap", "gaps"} <= set(shown[80])
    assert {"status", "tokens", "tps"} <= set(shown[120])
    assert shown[240] == [column.name for column in layout.COLUMNS]


def test_flags_take_what_room_is_left() -> None:
    shown = {width: layout.fitted(width) for width in (60, 120, 250)}
    wide = {width: slot.width for width, chosen in shown.items() for slot in chosen if slot.column.name == "flags"}
    assert wide[60] >= max(len(word) for word in ("interrupted", "error_event"))
    assert wide[120] >= len("connect_error")
    assert wide[250] >= len("truncated stall burst")


def test_gaps_have_room_to_be_seen() -> None:
    wide = {
        width: slot.width for width in (80, 120, 300) for slot in layout.fitted(width) if slot.column.name == "gaps"
    }
    assert (wide[80] >= 8, wide[120] >= 12, wide[300]) == (True, True, 24)


def test_columns_can_be_left_out_and_make_room_for_others() -> None:
    names = {slot.column.name for slot in layout.fitted(80, {"gaps", "model"})}
    assert not names & {"gaps", "model"}
    assert "icl_p50" in names


def test_refusal_beside_its_status_is_one_word() -> None:
    refused = row(outcome="http_error", outcome_detail="rate_limited", status=429)
    (beside,) = [slot.column for slot in layout.fitted(120) if slot.column.name == "flags"]
    assert plain(beside.shown(refused, LOOK, 13)) == "rate_limited"
    assert plain(beside.shown(row(outcome="http_error", status=300), LOOK, 13)) == "http_error"
    (alone,) = [slot.column for slot in layout.fitted(120, {"status"}) if slot.column.name == "flags"]
    assert plain(alone.shown(refused, LOOK, 13)) == "429"


@each_case(
    ("reason", "shown"),
    [("stop", ""), ("STOP", ""), ("end_turn", ""), ("COMPLETE", ""), ("completed", ""), ("tool_use", "tool_use"),
     ("max_tokens", "max_tokens"), (None, "")],
)  # fmt: skip
def test_a_finish_reason_is_shown_unless_it_is_the_usual_one_of_an_api(reason: str | None, shown: str) -> None:
    (flags,) = [slot.column for slot in layout.fitted(120) if slot.column.name == "flags"]
    assert plain(flags.shown(row(finish_reason=reason), LOOK, 13)) == shown


def test_hostile_text_in_a_line_drives_nothing() -> None:
    shown = plain(layout.line(row(model=HOSTILE, path=HOSTILE, upstream=HOSTILE), layout.fitted(200), LOOK, 2))
    assert not [sign for sign in shown if ord(sign) < 32 or 0x7F <= ord(sign) < 0xA0]


def test_titles_stand_over_their_columns_and_say_the_order() -> None:
    chosen = layout.fitted(120)
    shown = plain(layout.titles(chosen, LOOK, 1, None))
    assert "UTC▼" in shown
    assert "TTFT ms▲" in plain(layout.titles(chosen, LOOK, 1, ("ttft_ms", False)))
    for column in layout.COLUMNS:
        titled = plain(layout.titles(chosen, LOOK, 1, (column.field or "", True)))
        assert len(titled) == len(shown)
        if column.field and column.name in {slot.column.name for slot in chosen} - {"start"}:
            assert f"{column.title}▼" in titled or f"{column.full_title}▼" in titled
    at = 2 + shown.index("TTFT")
    found = layout.column_at(chosen, 1, at)
    assert found is not None
    assert found.name == "ttft"
    assert layout.column_at(chosen, 1, 1) is None
