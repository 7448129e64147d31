"""Bars of the parts of a session: each part has its share of the cells, in the order of time."""

import random
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise

import pytest
from rich.cells import cell_len

from wiretape.recorder.decode.elements import SOURCES
from wiretape.recorder.decode.stalls import DEFAULT
from wiretape.viewer.listing import bars
from wiretape.viewer.listing.bars import Bars, PartBar, PartSign, Phase
from wiretape.viewer.record.rows import ConversationRow, TurnRow
from wiretape.viewer.sessions.account import PARTS, Span, account
from wiretape.viewer.tui.base import paint

MS = 1_000_000
AT = "2026-03-01T12:00:00.000000Z"


def text(bar: PartBar, cells: int) -> str:
    return "".join(text for text, _ in bar.runs(cells, bars.TIME))


def worked_example() -> list[Span]:
    """Return a turn, an attempt that gets 429, and a turn with a stall, as in the definition of the time account."""
    return [
        Span(1, 0, 1450 * MS, 400 * MS, 1400 * MS, calls_tool=True),
        Span(2, 3450 * MS, 3500 * MS, failed=True, continues=1),
        Span(3, 4500 * MS, 8400 * MS, 5000 * MS, 8400 * MS, [(5200 * MS, 8200 * MS)], continues=2, answers_tool=True),
    ]


def test_a_sessions_bar_shows_parts_in_place() -> None:
    time_bars = bars.of_time(worked_example())
    assert time_bars.length == 8400 * MS
    drawing = "░" * 4 + "█" * 10 + "▄" + "▚" * 20 + "─" * 10 + "░" * 5 + "█" * 2 + "╱" * 30 + "█" * 2
    assert text(time_bars.session, 84) == drawing, "of 50 ms closing and 50 ms failed, each half a cell, one is shown"
    assert text(time_bars.session, 8) == "█▚▚─░╱╱╱"
    assert time_bars.session.largest(bars.TIME) == ("stalled 36 %", "error")


def test_turn_bars_include_waits_on_their_sessions_axis() -> None:
    time_bars = bars.of_time(worked_example())
    first, failed, second = (text(time_bars.turns[no], 84) for no in (1, 2, 3))
    assert first.rstrip() == "░" * 4 + "█" * 10 + "▄"
    assert failed.rstrip() == " " * 14 + "▚" * 20 + "×"
    assert second.rstrip() == " " * 35 + "─" * 10 + "░" * 5 + "█" * 2 + "╱" * 30 + "█" * 2
    assert time_bars.turns[3].largest(bars.TIME)[0] == "stalled 77 %", "of its own time"
    assert text(time_bars.turns[2], 3) == "▚× ", "however short it is, it has a cell"


def test_an_alternating_part_has_its_share_of_cells() -> None:
    phases, at = list[Phase](), 0
    for _ in range(1000):
        for part, took in (("waiting", 1), ("streaming", 3), ("tools", 2)):
            phases.append(Phase(part, at, at + took))
            at += took
    assert Counter(text(PartBar(phases, 0, at), 30)) == {"█": 15, "▚": 10, "░": 5}


def test_a_thousand_random_bars_fill_their_cells_truly() -> None:
    source = random.Random(3)
    for _ in range(1000):
        borders = sorted(source.sample(range(500), k=source.randint(2, 20)))
        phases = [Phase(source.choice(list(PARTS)), *border) for border in pairwise(borders)]
        cells = source.randint(1, 60)
        drawing = text(PartBar(phases, borders[0], borders[-1]), cells)
        assert len(drawing) == cells
        length = borders[-1] - borders[0]
        for cell, sign in enumerate(drawing):
            start, end = borders[0] + cell * length / cells, borders[0] + (cell + 1) * length / cells
            assert sign in {bars.TIME[part].sign for part, low, high in phases if low < end and high > start}


def test_the_responses_over_a_websocket_are_one_bar() -> None:
    time_bars = bars.of_time([Span(1, 0, 20, 10, 20), Span(1, 30, 40, 30, 40, continues=1)])
    assert text(time_bars.turns[1], 4) == "░█ █"


def test_a_session_without_any_length_is_blank() -> None:
    time_bars = bars.of_time([Span(1, 5, 5)])
    assert text(time_bars.session, 4) == text(time_bars.turns[1], 4) == "    "
    assert time_bars.session.largest(bars.TIME) == ("", "plain")


def test_a_bar_adds_up_to_the_account() -> None:
    spans = worked_example()
    assert {part: bars.of_time(spans).session.sizes[part] for part in PARTS} == account(spans, DEFAULT).parts


@pytest.mark.parametrize(("known", "parts"), [(bars.TIME, PARTS), (bars.CONTEXT, SOURCES)])
def test_every_part_has_its_own_sign_even_in_ascii(known: dict[str, PartSign], parts: Iterable[str]) -> None:
    assert list(known) == list(parts)
    signs = [sign.sign for sign in known.values()]
    assert {cell_len(sign) for sign in signs} == {1}
    assert len(set(signs)) == len({paint.in_ascii(sign) for sign in signs}) == len(signs)
    assert "?" not in paint.in_ascii("".join(signs))


def some_turn(no: int, **sources: int) -> TurnRow:
    return TurnRow(no, 0, None, None, f"a{no}", AT, None, "complete", None, None, None, None, None, sources=sources)


def test_request_bars_share_the_largest_requests_axis() -> None:
    time_bars = bars.of_context(
        [some_turn(1, system=20, user=20), some_turn(2), some_turn(3, system=20, tool_results=60)]
    )
    assert time_bars is not None
    assert time_bars.turns.keys() == {1, 3}, "the second is not known"
    drawings = {no: "".join(text for text, _ in bar.runs(8, bars.CONTEXT)) for no, bar in time_bars.turns.items()}
    assert drawings == {1: "░░██    ", 3: "░░▒▒▒▒▒▒"}
    assert time_bars.session is time_bars.turns[3]
    assert time_bars.session.largest(bars.CONTEXT) == ("results 75 %", "warning")
    assert bars.of_context([some_turn(2)]) is None


def test_a_legend_starts_with_the_sessions_largest_parts() -> None:
    time_bars = bars.of_time(worked_example())
    legend = ["".join(text for text, _ in item) for item in Bars(sessions={"k": time_bars}).legend("k")]
    assert legend[:2] == ["╱ stalled 36 %", "▚ tools 24 %"]
    assert legend[-2:] == ["× failed <1 %", "idle"]


def test_an_unread_sessions_legend_has_only_the_signs() -> None:
    time_bars = Bars(signs={"a": PartSign("x", "plain", "word")}).legend("k")
    assert ["".join(text for text, _ in item) for item in time_bars] == ["x word"]


def test_a_line_without_a_known_bar_has_none() -> None:
    row = ConversationRow("k", "a1", AT, AT, 1, 0, 0, [], None, None, None, None, None, None)
    assert Bars().of(row) is None
