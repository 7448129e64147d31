"""Pure: conversations and the exchanges of the open ones, as the lines of a tree, with their content."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from wiretape.recorder.plurals import counted
from wiretape.viewer.exchange.states import STATES, Look, moment
from wiretape.viewer.rows import ConversationRow, TurnRow
from wiretape.viewer.text import formatting
from wiretape.viewer.text.cells import Part, laid_out

Line = ConversationRow | TurnRow

_OPENED: Final = "▾"
_CLOSED: Final = "▸"
_BETWEEN: Final = 2
_DEEPEST: Final = 6
_LEAST_TEXT: Final = 24
_NAME: Final = 24
_SHORT: Final = 8


@dataclass(frozen=True, slots=True)
class OutlineColumn:
    """A column of figures: its title, its width, its rank (0 goes last when there is no room), its renderer."""

    title: str
    width: int
    rank: int
    shown: Callable[[Line, Look], Part]


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
    """Choose the columns for a width in cells, beside the name in front and the text behind them."""
    chosen = list(_COLUMNS)
    while chosen and _NAME + _LEAST_TEXT + sum(column.width + _BETWEEN for column in chosen) + _BETWEEN > width:
        chosen.remove(max(chosen, key=lambda column: column.rank))
    return tuple(chosen)


def titles(columns: Sequence[OutlineColumn], width: int) -> Iterator[Part]:
    """Yield the titles of the columns."""
    yield from laid_out([("CONVERSATION", "muted")], _NAME, right=False)
    for column in columns:
        yield " " * _BETWEEN, "plain"
        yield from laid_out([(column.title, "muted")], column.width, right=True)
    yield from _text([("ASKED, ANSWERED", "muted")], columns, width)


def line(
    one: Line, columns: Sequence[OutlineColumn], width: int, look: Look, *, opened: bool = False
) -> Iterator[Part]:
    """Yield the parts of a line of `width` cells; `opened`: the exchanges of the conversation stand below it."""
    yield from laid_out(_turn(one) if isinstance(one, TurnRow) else _name(one, opened), _NAME, right=False)
    for column in columns:
        yield " " * _BETWEEN, "plain"
        yield from laid_out([column.shown(one, look)], column.width, right=True)
    said: list[Part] = _said(one) if isinstance(one, TurnRow) else [(formatting.line(one.asked), "plain")]
    yield from _text(said, columns, width)


def _text(parts: Sequence[Part], columns: Sequence[OutlineColumn], width: int) -> Iterator[Part]:
    room = width - _NAME - sum(column.width + _BETWEEN for column in columns) - _BETWEEN
    yield " " * _BETWEEN, "plain"
    yield from laid_out(parts, max(room, 0), right=False)


def _name(one: ConversationRow, opened: bool) -> list[Part]:
    program = f"{formatting.line(one.argv0)} " if one.argv0 else ""
    sign = _OPENED if opened else _CLOSED
    running = f"{STATES['open'].sign} " if one.open else ""
    return [(f"{sign} {running}", "accent"), (program, "plain"), (formatting.line(one.conversation), "strong")]


def _turn(one: TurnRow) -> list[Part]:
    state = STATES.get(one.outcome)
    sign: Part = (state.sign, state.tone) if state else ("?", "muted")
    return [(f"  {'  ' * min(one.depth, _DEEPEST)}", "plain"), sign, (f" {formatting.line(one.id)[:_SHORT]}", "strong")]


def _said(one: TurnRow) -> list[Part]:
    """Return the new part of the prompt, and the answer: the tools called, the text, or the outcome."""
    asked: list[Part] = [(f"“{formatting.line(one.newly_asked)}” ", "muted")] if one.newly_asked else []
    if one.tools:
        text = f"  {formatting.line(one.content)}" if one.content else ""
        return [*asked, ("→ ", "accent"), (formatting.line(one.tools), "plain"), (text, "muted")]
    answered: Part = (formatting.line(one.content), "plain") if one.content else (formatting.line(one.outcome), "muted")
    return [*asked, answered]


def _count(name: str, of_turn: bool = True) -> Callable[[Line, Look], Part]:
    def shown(one: Line, look: Look) -> Part:
        if isinstance(one, TurnRow) and not of_turn:
            return "", "plain"
        value = getattr(one, name)
        return formatting.count(value), "muted" if value is None else "plain"

    return shown


def _failed(one: Line, look: Look) -> Part:
    if isinstance(one, TurnRow) or not one.failed:
        return "", "plain"
    return formatting.count(one.failed), "error"


def _at(one: Line, look: Look) -> Part:
    return moment(one.started_at if isinstance(one, TurnRow) else one.last_at, look, 8), "muted"


def _took(one: Line, look: Look) -> Part:
    return formatting.span(one.duration_ms), "plain"


def _model(one: Line, look: Look) -> Part:
    named = formatting.line(one.model) if isinstance(one, TurnRow) else " ".join(map(formatting.line, one.models))
    return named, "plain"


_COLUMNS: Final = (
    OutlineColumn("LAST", 8, 4, _at),
    OutlineColumn("N", 5, 0, _count("exchanges", of_turn=False)),
    OutlineColumn("FAIL", 4, 2, _failed),
    OutlineColumn("IN", 10, 5, _count("input_tokens")),
    OutlineColumn("OUT", 8, 3, _count("output_tokens")),
    OutlineColumn("CACHED", 10, 6, _count("cache_read_input_tokens")),
    OutlineColumn("TOOK", 9, 1, _took),
    OutlineColumn("MODEL", 18, 7, _model),
)
"""The columns between the name and the text."""
