"""Pure: conversations and the exchanges of the open ones, as the lines of a tree, with their content."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from wiretape.recorder.plurals import counted
from wiretape.viewer.exchange.states import STATES, Look, moment
from wiretape.viewer.listing.bars import Bars
from wiretape.viewer.record.rows import ConversationRow, TurnRow
from wiretape.viewer.record.units import ms
from wiretape.viewer.text import formatting
from wiretape.viewer.text.cells import Part, laid_out

Line = ConversationRow | TurnRow

_BETWEEN: Final = 2
_INDENT: Final = 2
_SHORT: Final = 8

_NARROW: Final = 100
"""Width in cells below which the name and the text take less."""
_MISSED: Final = {
    "prefix_changed": "{} changed",
    "partial": "{} changed",
    "expired": "expired",
    "provider": "the provider's own miss",
    "unmarked": "nothing marked",
}
"""The verdicts that are shown, in words."""


@dataclass(frozen=True, slots=True)
class OutlineColumn:
    """A column: its title, its width, its rank (0 goes last when there is no room), its renderer, its alignment."""

    title: str
    width: int
    rank: int
    render: Callable[[Line, Look, Bars], Sequence[Part]]
    right: bool = True


def lines(
    conversations: Sequence[ConversationRow], open_names: Collection[str], turns: Mapping[str, Sequence[TurnRow]]
) -> list[Line]:
    """Return each conversation, with its exchanges behind it where it is open."""
    visible_lines: list[Line] = []
    for conversation in conversations:
        visible_lines.append(conversation)
        if conversation.conversation in open_names:
            visible_lines += turns.get(conversation.conversation, ())
    return visible_lines


def totals(conversations: Sequence[ConversationRow]) -> str:
    """Return the totals of all conversations: tokens, where they are known."""
    exchanges, failed, open = (
        sum(getattr(conversation, name) for conversation in conversations) for name in ("exchanges", "failed", "open")
    )
    tokens = [
        f"{sum(counts):,} {word}"
        for name, word in (("input_tokens", "in"), ("output_tokens", "out"))
        if (counts := [count for conversation in conversations if (count := getattr(conversation, name)) is not None])
    ]
    parts = [counted(len(conversations), "conversation"), counted(exchanges, "exchange")]
    parts += [f"{failed:,} failed"] if failed else []
    parts += [f"{open:,} open"] if open else []
    return " · ".join([*parts, *([f"tokens {', '.join(tokens)}"] if tokens else [])])


def fitted(width: int) -> tuple[OutlineColumn, ...]:
    """Choose the columns for a width in cells, beside the name in front and the text behind them.

    In a narrow tree, the model goes before the number, which stands behind a turn's name.
    """
    bar, is_wide = min(max(width // 8, 9), 48), width >= _NARROW
    # The name of the largest part, with its share, stands behind its bar only where the tree is wide.
    bar_column = OutlineColumn("", bar + (0, 16)[is_wide], 1, partial(_bar, bar, is_wide), right=False)
    columns = (*_COLUMNS, bar_column, OutlineColumn("MODEL", (10, 18)[width >= 150], 4 if is_wide else 1, _model))
    room = width - _name_width(width) - _BETWEEN - (20, 24)[is_wide]
    chosen = set[OutlineColumn]()
    for column in sorted(columns, key=lambda column: column.rank):
        if column.width + _BETWEEN <= room:
            chosen.add(column)
            room -= column.width + _BETWEEN
    return tuple(column for column in columns if column in chosen)


def titles(columns: Sequence[OutlineColumn], width: int, bars: Bars) -> Iterator[Part]:
    yield from laid_out([("CONVERSATION", "muted")], _name_width(width), right=False)
    for column in columns:
        yield " " * _BETWEEN, "plain"
        yield from laid_out([(column.title or bars.title, "muted")], column.width, right=column.right)
    yield from _text([("ASKED, ANSWERED", "muted")], columns, width)


def line(
    item: Line, columns: Sequence[OutlineColumn], width: int, look: Look, bars: Bars, *, is_open: bool = False
) -> Iterator[Part]:
    """Yield the parts of a line of `width` cells; `is_open`: the exchanges of the conversation stand below it."""
    room, has_number = _name_width(width), any(column.render is _number for column in columns)
    name = _turn(item, room, has_number=has_number) if isinstance(item, TurnRow) else _name(item, is_open)
    yield from laid_out(name, room, right=False)
    for column in columns:
        yield " " * _BETWEEN, "plain"
        yield from laid_out(column.render(item, look, bars), column.width, right=column.right)
    text: list[Part] = _exchange_text(item) if isinstance(item, TurnRow) else [(formatting.line(item.asked), "plain")]
    yield from _text(text, columns, width)


def _name_width(width: int) -> int:
    return (18, 24)[width >= _NARROW]


def _text(parts: Sequence[Part], columns: Sequence[OutlineColumn], width: int) -> Iterator[Part]:
    room = width - _name_width(width) - sum(column.width + _BETWEEN for column in columns) - _BETWEEN
    yield " " * _BETWEEN, "plain"
    yield from laid_out(parts, max(room, 0), right=False)


def _name(conversation: ConversationRow, is_open: bool) -> list[Part]:
    program = f"{formatting.line(conversation.argv0)} " if conversation.argv0 else ""
    sign = "▾" if is_open else "▸"
    running_sign = f"{STATES['open'].sign} " if conversation.open else ""
    return [
        (f"{sign} {running_sign}", "accent"),
        (program, "plain"),
        (formatting.line(conversation.conversation), "strong"),
    ]


def _turn(turn: TurnRow, room: int, *, has_number: bool) -> list[Part]:
    """Return the name of a turn; its number is in it unless a column `has_number`."""
    state, number = STATES.get(turn.outcome), "" if has_number else f" #{turn.number}"
    sign: Part = (state.sign, state.tone) if state else ("?", "muted")
    # Limit the indentation of a deep turn: its id needs room.
    unindented_width = 4 + _SHORT  # of a turn that continues the first one
    deepest = max((room - unindented_width - len(number)) // _INDENT, 0)
    return [
        (" " * (2 + _INDENT * min(turn.depth, deepest)), "plain"),
        sign,
        (f" {formatting.line(turn.id)[:_SHORT]}", "strong"),
        (number, "muted"),
    ]


def _exchange_text(turn: TurnRow) -> list[Part]:
    """Return the tools whose results came, or the new question; the cache's verdict; and the answer.

    The answer is the tools called, the text, or the outcome.
    """
    parts: list[Part] = []
    if turn.results_of and not turn.newly_asked:
        parts.append((f"← {formatting.line(turn.results_of)} ", "muted"))
    parts += _missed(turn)
    parts += [(f"“{formatting.line(turn.newly_asked)}” ", "muted")] if turn.newly_asked else []
    if turn.tools:
        text = f"  {formatting.line(turn.content)}" if turn.content else ""
        return [*parts, ("→ ", "accent"), (formatting.line(turn.tools), "plain"), (text, "muted")]
    answer: Part = (
        (formatting.line(turn.content), "plain") if turn.content else (formatting.line(turn.outcome), "muted")
    )
    return [*parts, answer]


def _missed(turn: TurnRow) -> list[Part]:
    """Return the verdict about the provider's cache, if something can be done about it, or could not be expected."""
    if turn.cache_verdict not in _MISSED or (turn.cache_verdict == "partial" and turn.cache_broken_at is None):
        return []
    place = formatting.line(turn.cache_broken_at or "prefix")
    cached, sent = formatting.count(turn.cache_read_input_tokens), formatting.count(turn.input_tokens)
    return [(f"cache: {_MISSED[turn.cache_verdict].format(place)}, {cached} of {sent} read  ", "warning")]


def _count(name: str) -> Callable[[Line, Look, Bars], Sequence[Part]]:
    def render(item: Line, look: Look, bars: Bars) -> Sequence[Part]:
        value = getattr(item, name)
        return [(formatting.count(value), "muted" if value is None else "plain")]

    return render


def _number(item: Line, look: Look, bars: Bars) -> Sequence[Part]:
    """Return the number of a conversation's exchanges, or which of them a turn is."""
    return [(f"#{item.number}", "muted") if isinstance(item, TurnRow) else (formatting.count(item.exchanges), "plain")]


def _failed(item: Line, look: Look, bars: Bars) -> Sequence[Part]:
    if isinstance(item, TurnRow) or not item.failed:
        return []
    return [(formatting.count(item.failed), "error")]


def _at(item: Line, look: Look, bars: Bars) -> Sequence[Part]:
    return [(moment(item.started_at if isinstance(item, TurnRow) else item.last_at, look, 11), "muted")]


def _took(item: Line, look: Look, bars: Bars) -> Sequence[Part]:
    took_ms = item.duration_ms if isinstance(item, TurnRow) else ms(bars.wall_ns.get(item.conversation))
    return [(formatting.first_that_fits((formatting.seconds(took_ms), formatting.seconds(took_ms, 1)), 9), "plain")]


def _bar(cells: int, is_named: bool, item: Line, look: Look, bars: Bars) -> Sequence[Part]:
    """Draw the bar of a line; name its largest part if it `is_named`."""
    bar = bars.of(item)
    if bar is None:
        return []
    return [*bar.runs(cells, bars.signs), *([(" ", "plain"), bar.largest(bars.signs)] if is_named else [])]


def _model(item: Line, look: Look, bars: Bars) -> Sequence[Part]:
    model = formatting.line(item.model) if isinstance(item, TurnRow) else " ".join(map(formatting.line, item.models))
    return [(model, "plain")]


_COLUMNS: Final = (
    OutlineColumn("LAST", 11, 8, _at),
    OutlineColumn("N", 5, 2, _number),
    OutlineColumn("FAIL", 4, 3, _failed),
    OutlineColumn("IN", 10, 5, _count("input_tokens")),
    OutlineColumn("OUT", 8, 7, _count("output_tokens")),
    OutlineColumn("CACHED", 10, 6, _count("cache_read_input_tokens")),
    OutlineColumn("TOOK s", 9, 0, _took),
)
"""The columns between the name and the bar."""
