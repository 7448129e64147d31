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

_OPENED: Final = "▾"
_CLOSED: Final = "▸"
_BETWEEN: Final = 2
_INDENT: Final = 2
_SHORT: Final = 8
_UNINDENTED: Final = 4 + _SHORT
"""Width of the name of a turn that continues the first one, in cells."""

_NARROW: Final = 100
"""Width in cells below which the name and the text take less."""

_WIDE: Final = 150
"""Width in cells from which models have more room."""

_MODELS: Final = (10, 18)
_NAMES: Final = (18, 24)
_LEAST_TEXTS: Final = (20, 24)
"""Width of the name, and the least of the text, in cells: where the tree is narrow, and elsewhere."""

_MISSED: Final = {
    "prefix_changed": "{} changed",
    "partial": "{} changed",
    "expired": "expired",
    "provider": "the provider's own miss",
    "unmarked": "nothing marked",
}
"""The verdicts that are shown, in words."""

_LARGEST: Final = (0, 16)
"""Width of the largest part's name with its share behind its bar: none where the tree is narrow."""

_LEAST_BAR: Final = 9
_MOST_BAR: Final = 48


@dataclass(frozen=True, slots=True)
class OutlineColumn:
    """A column: its title, its width, its rank (0 goes last when there is no room), its renderer, its alignment."""

    title: str
    width: int
    rank: int
    shown: Callable[[Line, Look, Bars], Sequence[Part]]
    right: bool = True


def lines(
    conversations: Sequence[ConversationRow], opened: Collection[str], turns: Mapping[str, Sequence[TurnRow]]
) -> list[Line]:
    """Return each conversation, with its exchanges behind it where it is `opened`."""
    listed: list[Line] = []
    for one in conversations:
        listed.append(one)
        if one.conversation in opened:
            listed += turns.get(one.conversation, ())
    return listed


def totals(conversations: Sequence[ConversationRow]) -> str:
    """Return the totals of all conversations: tokens, where they are known."""
    exchanges, failed, open = (
        sum(getattr(one, name) for one in conversations) for name in ("exchanges", "failed", "open")
    )
    tokens = [
        f"{sum(known):,} {word}"
        for name, word in (("input_tokens", "in"), ("output_tokens", "out"))
        if (known := [count for one in conversations if (count := getattr(one, name)) is not None])
    ]
    said = [counted(len(conversations), "conversation"), counted(exchanges, "exchange")]
    said += [f"{failed:,} failed"] if failed else []
    said += [f"{open:,} open"] if open else []
    return " · ".join([*said, *([f"tokens {', '.join(tokens)}"] if tokens else [])])


def fitted(width: int) -> tuple[OutlineColumn, ...]:
    """Choose the columns for a width in cells, beside the name in front and the text behind them.

    In a narrow tree, the model goes before the number, which stands behind a turn's name.
    """
    bar, is_wide = min(max(width // 8, _LEAST_BAR), _MOST_BAR), width >= _NARROW
    drawn = OutlineColumn("", bar + _LARGEST[is_wide], 1, partial(_bar, bar, is_wide), right=False)
    columns = (*_COLUMNS, drawn, OutlineColumn("MODEL", _MODELS[width >= _WIDE], 4 if is_wide else 1, _model))
    room = width - _name_width(width) - _BETWEEN - _LEAST_TEXTS[is_wide]
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
    one: Line, columns: Sequence[OutlineColumn], width: int, look: Look, bars: Bars, *, opened: bool = False
) -> Iterator[Part]:
    """Yield the parts of a line of `width` cells; `opened`: the exchanges of the conversation stand below it."""
    room, has_number = _name_width(width), any(column.shown is _number for column in columns)
    name = _turn(one, room, has_number=has_number) if isinstance(one, TurnRow) else _name(one, opened)
    yield from laid_out(name, room, right=False)
    for column in columns:
        yield " " * _BETWEEN, "plain"
        yield from laid_out(column.shown(one, look, bars), column.width, right=column.right)
    said: list[Part] = _said(one) if isinstance(one, TurnRow) else [(formatting.line(one.asked), "plain")]
    yield from _text(said, columns, width)


def _name_width(width: int) -> int:
    return _NAMES[width >= _NARROW]


def _text(parts: Sequence[Part], columns: Sequence[OutlineColumn], width: int) -> Iterator[Part]:
    room = width - _name_width(width) - sum(column.width + _BETWEEN for column in columns) - _BETWEEN
    yield " " * _BETWEEN, "plain"
    yield from laid_out(parts, max(room, 0), right=False)


def _name(one: ConversationRow, opened: bool) -> list[Part]:
    program = f"{formatting.line(one.argv0)} " if one.argv0 else ""
    sign = _OPENED if opened else _CLOSED
    running = f"{STATES['open'].sign} " if one.open else ""
    return [(f"{sign} {running}", "accent"), (program, "plain"), (formatting.line(one.conversation), "strong")]


def _turn(one: TurnRow, room: int, *, has_number: bool) -> list[Part]:
    """Return the name of a turn; its number is in it unless a column `has_number`."""
    state, number = STATES.get(one.outcome), "" if has_number else f" #{one.number}"
    sign: Part = (state.sign, state.tone) if state else ("?", "muted")
    deepest = max((room - _UNINDENTED - len(number)) // _INDENT, 0)
    return [
        (" " * (2 + _INDENT * min(one.depth, deepest)), "plain"),
        sign,
        (f" {formatting.line(one.id)[:_SHORT]}", "strong"),
        (number, "muted"),
    ]


def _said(one: TurnRow) -> list[Part]:
    """Return the tools whose results came, or the new question; the cache's verdict; and the answer.

    The answer is the tools called, the text, or the outcome.
    """
    asked: list[Part] = []
    if one.results_of and not one.newly_asked:
        asked.append((f"← {formatting.line(one.results_of)} ", "muted"))
    asked += _missed(one)
    asked += [(f"“{formatting.line(one.newly_asked)}” ", "muted")] if one.newly_asked else []
    if one.tools:
        text = f"  {formatting.line(one.content)}" if one.content else ""
        return [*asked, ("→ ", "accent"), (formatting.line(one.tools), "plain"), (text, "muted")]
    answered: Part = (formatting.line(one.content), "plain") if one.content else (formatting.line(one.outcome), "muted")
    return [*asked, answered]


def _missed(one: TurnRow) -> list[Part]:
    """Return the verdict about the provider's cache, if something can be done about it, or could not be expected."""
    if one.cache_verdict not in _MISSED or (one.cache_verdict == "partial" and one.cache_broken_at is None):
        return []
    place = formatting.line(one.cache_broken_at or "prefix")
    read, asked = formatting.count(one.cache_read_input_tokens), formatting.count(one.input_tokens)
    return [(f"cache: {_MISSED[one.cache_verdict].format(place)}, {read} of {asked} read  ", "warning")]


def _count(name: str) -> Callable[[Line, Look, Bars], Sequence[Part]]:
    def shown(one: Line, look: Look, bars: Bars) -> Sequence[Part]:
        value = getattr(one, name)
        return [(formatting.count(value), "muted" if value is None else "plain")]

    return shown


def _number(one: Line, look: Look, bars: Bars) -> Sequence[Part]:
    """Return the number of a conversation's exchanges, or which of them a turn is."""
    return [(f"#{one.number}", "muted") if isinstance(one, TurnRow) else (formatting.count(one.exchanges), "plain")]


def _failed(one: Line, look: Look, bars: Bars) -> Sequence[Part]:
    if isinstance(one, TurnRow) or not one.failed:
        return []
    return [(formatting.count(one.failed), "error")]


def _at(one: Line, look: Look, bars: Bars) -> Sequence[Part]:
    return [(moment(one.started_at if isinstance(one, TurnRow) else one.last_at, look, 11), "muted")]


def _took(one: Line, look: Look, bars: Bars) -> Sequence[Part]:
    took_ms = one.duration_ms if isinstance(one, TurnRow) else ms(bars.wall_ns.get(one.conversation))
    return [(formatting.first_that_fits((formatting.seconds(took_ms), formatting.seconds(took_ms, 1)), 9), "plain")]


def _bar(cells: int, is_named: bool, one: Line, look: Look, bars: Bars) -> Sequence[Part]:
    """Draw the bar of a line; name its largest part if it `is_named`."""
    bar = bars.of(one)
    if bar is None:
        return []
    return [*bar.drawn(cells, bars.signs), *([(" ", "plain"), bar.largest(bars.signs)] if is_named else [])]


def _model(one: Line, look: Look, bars: Bars) -> Sequence[Part]:
    named = formatting.line(one.model) if isinstance(one, TurnRow) else " ".join(map(formatting.line, one.models))
    return [(named, "plain")]


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
