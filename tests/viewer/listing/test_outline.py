"""The lines of the tree of conversations: as wide as there is room, with what matters most."""

from rich.cells import cell_len

from wiretape.viewer.exchange.states import Look
from wiretape.viewer.listing import outline
from wiretape.viewer.rows import ConversationRow, TurnRow

AT = "2026-03-01T12:00:00.000000Z"
CONVERSATION = ConversationRow(
    "k" * 36, "a1", AT, AT, 1234, 2, 1, ["m", "界" * 9], 10**9, None, 7, 1e7, "\x1b[2J", "界" * 99
)
TURN = TurnRow(1, 99, 1234.5, "new\n", "a1" * 8, AT, None, "complete", 1, 2, None, "text", "look, \x1b]0;t\x07")


def drawn(one: outline.Line, width: int, *, opened: bool = False) -> str:
    return "".join(text for text, _ in outline.line(one, outline.fitted(width), width, Look(), opened=opened))


def test_every_line_fills_its_width_and_nothing_recorded_reaches_the_terminal() -> None:
    for width in (60, 80, 100, 120, 200):
        columns = outline.fitted(width)
        titles = "".join(text for text, _ in outline.titles(columns, width))
        lines = [drawn(CONVERSATION, width), drawn(CONVERSATION, width, opened=True), drawn(TURN, width), titles]
        assert {cell_len(line) for line in lines} == {width}
        assert not any("\x1b" in line or "\n" in line for line in lines)


def test_figures_give_way_to_the_text() -> None:
    assert [column.title for column in outline.fitted(60)] == ["N"]
    assert [column.title for column in outline.fitted(200)][-1] == "MODEL"


def test_totals_are_of_what_is_known() -> None:
    assert outline.totals([CONVERSATION, CONVERSATION]) == (
        "2 conversations · 2,468 exchanges · 4 failed · 2 open · tokens 2,000,000,000 in"
    )
    assert outline.totals([]) == "0 conversations · 0 exchanges"


def test_only_what_is_opened_has_its_exchanges_below_it() -> None:
    assert outline.lines([CONVERSATION], (), {CONVERSATION.conversation: [TURN]}) == [CONVERSATION]
    assert outline.lines([CONVERSATION], {"k" * 36}, {CONVERSATION.conversation: [TURN]}) == [CONVERSATION, TURN]
    assert outline.lines([CONVERSATION], {"k" * 36}, {}) == [CONVERSATION], "not read yet"
