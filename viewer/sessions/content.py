"""Pure: the content of a request for people: a table by source, and where the largest results of tools came from."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from wiretape.viewer.exchange.facts import Line
from wiretape.viewer.record.rows import DetailRow, TableRow
from wiretape.viewer.sessions.context import RequestContext
from wiretape.viewer.text.formatting import line

FIELDS: Final = ("source", "name", "bytes", "share_pct", "new")
_MOST: Final = 20


@dataclass(frozen=True, slots=True)
class BroughtBy:
    """The exchange that brought a message into a dialogue, and its number there, if the dialogue's start is known."""

    id: str
    turn: int | None


@dataclass(frozen=True, slots=True)
class SentContext:
    """The content of an exchange's request; `brought` has the exchanges of its largest results of tools, in order."""

    row: DetailRow
    context: RequestContext
    brought: Sequence[BroughtBy] = ()


def table(sent: SentContext) -> list[TableRow]:
    """Return the largest parts as rows of `FIELDS`, the others as one."""
    smaller_parts = sent.context.parts[_MOST:]
    rows = [
        _row(part.source, part.name, part.size, sent.context, is_new=part.is_new) for part in sent.context.parts[:_MOST]
    ]
    if smaller_parts:
        size, is_new = sum(part.size for part in smaller_parts), any(part.is_new for part in smaller_parts)
        rows.append(_row("all others", f"{len(smaller_parts)} parts", size, sent.context, is_new=is_new))
    return rows


def _row(source: str, name: str | None, size: int, context: RequestContext, *, is_new: bool | None) -> TableRow:
    new = None if is_new is None else "new" if is_new else ""
    share = f"{100 * size / context.size:.1f}"
    return dict(zip(FIELDS, (source, name or "", f"{size:,}", share, new), strict=True))


def head(sent: SentContext) -> Iterator[Line]:
    """Yield the length of the request, and how to read the shares."""
    context, tokens = sent.context, sent.row.derived.get("input_tokens")
    new = "unknown how many are new" if context.new_size is None else f"{context.new_size:,} new"
    yield [(f"{context.size:,} bytes, {new} since its predecessor", "strong")]
    token_count = "" if tokens is None else f" {tokens:,}"
    yield [(f"shares are of the bytes: estimates of shares of the{token_count} input tokens", "muted")]


def largest_results(sent: SentContext) -> Iterator[Line]:
    """Yield the largest results of tools in few words each, behind a title."""
    for number, (result, by) in enumerate(zip(sent.context.results, sent.brought, strict=False)):
        title: Line = [] if number else [("largest tool results: ", "muted")]
        yield [
            *title,
            (f"{line(result.name)} {result.size:,} bytes ", "plain"),
            (f"from {line(by.id)[:8]}", "muted"),
        ]


def results(sent: SentContext) -> Iterator[Line]:
    """Yield the largest results of tools, and the turn that brought each into the dialogue."""
    if sent.brought:
        yield []
        yield [("largest tool results", "strong")]
    for result, by in zip(sent.context.results, sent.brought, strict=False):
        name = line(result.name) if result.name else "of an unknown call"
        turn = "" if by.turn is None else f"turn {by.turn}, "
        yield [(f"{result.size:>12,} bytes  {name}  ", "plain"), (f"{result.place}, from {turn}{line(by.id)}", "muted")]
