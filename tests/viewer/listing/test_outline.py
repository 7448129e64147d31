"""The lines of the tree of conversations: as wide as there is room, with what matters most."""

from dataclasses import replace

from rich.cells import cell_len

from wiretape.viewer.exchange.states import Look
from wiretape.viewer.listing import bars, outline
from wiretape.viewer.listing.bars import Bars
from wiretape.viewer.record.rows import ConversationRow, TurnRow
from wiretape.viewer.sessions.account import Span

AT = "2026-03-01T12:00:00.000000Z"
CONVERSATION = ConversationRow(
    "k" * 36, "a1", AT, AT, 1234, 2, 1, ["m", "界" * 9], 10**9, None, 7, 1e7, "\x1b[2J", "界" * 99
)
TURN = TurnRow(1, 99, 1234.5, "new\n", "a1" * 8, AT, None, "complete", 1, 2, None, "text", "look, \x1b]0;t\x07")


def some_bars() -> Bars:
    """Return the bars of a session of one turn, which waits for 3 s and streams for 1 s."""
    bars_ = bars.of_time([Span(1, 0, 4 * 10**9, 3 * 10**9, 4 * 10**9)])
    name = CONVERSATION.conversation
    return Bars(sessions={name: bars_}, wall_ns={name: bars_.length}, turns=bars_.turns)


def drawing(line: outline.Line, width: int, *, is_open: bool = False) -> str:
    columns = outline.fitted(width)
    return "".join(text for text, _ in outline.line(line, columns, width, Look(), some_bars(), is_open=is_open))


def test_every_line_fills_its_width_safely() -> None:
    for width in (60, 80, 100, 120, 200):
        columns = outline.fitted(width)
        titles = "".join(text for text, _ in outline.titles(columns, width, Bars()))
        lines = [drawing(CONVERSATION, width), drawing(CONVERSATION, width, is_open=True), drawing(TURN, width), titles]
        assert {cell_len(line) for line in lines} == {width}
        assert not any("\x1b" in line or "\n" in line for line in lines)


def test_figures_give_way_to_the_text() -> None:
    assert [column.title for column in outline.fitted(60)] == ["N", "TOOK s"]
    assert [column.title for column in outline.fitted(200)][-1] == "MODEL"
    assert "MODEL" in [column.title for column in outline.fitted(118)]


def test_the_bar_grows_and_goes_before_the_text() -> None:
    assert "░" not in drawing(TURN, 60)
    for width, cells in ((78, 9), (118, 14), (198, 24)):
        for line in (drawing(CONVERSATION, width), drawing(TURN, width)):
            assert line.count("░") + line.count("█") == cells
            assert ("waiting 75 %" in line) == (width > 100), "the model has its place"
    assert " 4.000 " in drawing(CONVERSATION, 78), "the wall time of the session"
    assert "–" in drawing(replace(CONVERSATION, conversation="another"), 78), "not read yet"


def test_totals_are_of_what_is_known() -> None:
    assert outline.totals([CONVERSATION, CONVERSATION]) == (
        "2 conversations · 2,468 exchanges · 4 failed · 2 open · tokens 2,000,000,000 in"
    )
    assert outline.totals([]) == "0 conversations · 0 exchanges"


def test_only_what_is_opened_has_its_exchanges_below_it() -> None:
    assert outline.lines([CONVERSATION], (), {CONVERSATION.conversation: [TURN]}) == [CONVERSATION]
    assert outline.lines([CONVERSATION], {"k" * 36}, {CONVERSATION.conversation: [TURN]}) == [CONVERSATION, TURN]
    assert outline.lines([CONVERSATION], {"k" * 36}, {}) == [CONVERSATION], "not read yet"


def test_a_turn_has_number_model_and_tools() -> None:
    turn = replace(TURN, newly_asked=None, number=17, model="small", results_of="read, \x1b]0;t\x07")
    assert "✓ a1a1a1a1" in drawing(turn, 118)
    for label in ("   #17  ", " small  ", "← read, "):
        assert label in drawing(turn, 118)
    assert "← read, ␛]0;t␇ → look" in drawing(turn, 200)
    assert "✓ a1a1a1a1 #17" in drawing(turn, 78)
    assert " small  ← read, ␛]0;t␇ → " in drawing(turn, 78)
    assert "← read" not in drawing(replace(turn, newly_asked="new"), 200)


def test_a_turn_says_why_its_cache_was_not_read() -> None:
    turn = replace(TURN, input_tokens=19740, cache_read_input_tokens=0)
    changed = replace(turn, cache_verdict="prefix_changed", cache_broken_at="tools[3]")
    assert "  cache: tools[3] changed, 0 of 19,740 read" in drawing(changed, 204)
    assert "cache: tools[3] changed" in drawing(changed, 78)
    assert "cache: expired, 0 of 19,740 read" in drawing(replace(turn, cache_verdict="expired"), 200)


def test_deep_turns_keep_their_ids_in_a_narrow_tree() -> None:
    assert "✓ a1a1a1a1" in drawing(TURN, 78)


def test_a_hit_needs_no_words() -> None:
    for verdict in ("hit", "partial", "first", "unknown", "unreported", "too_short", None):
        assert "cache" not in drawing(replace(TURN, cache_verdict=verdict), 200)


def test_a_hostile_place_of_a_difference_reaches_no_terminal() -> None:
    broken = replace(TURN, cache_verdict="prefix_changed", cache_broken_at="\x1b]2;x\x07{}")
    assert "␛]2;x␇{} changed" in drawing(broken, 200)
