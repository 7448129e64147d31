"""Pure: the sessions on the page of a run: their accounts, the parts of their time in sequence, and their turns.

The figures are those of `ls --by conversation` and of `show s:KEY --part time`, in µs. In a lane, the boundaries of the
parts are rounded, so that durations add up. A turn refers to its row of the page for all other fields.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from wiretape.recorder.decode.elements import SOURCES
from wiretape.recorder.decode.values import JsonObject
from wiretape.viewer.record import units
from wiretape.viewer.record.rows import ConversationRow
from wiretape.viewer.report.sessions import sentence
from wiretape.viewer.sessions.account import PARTS, Account, TurnTime
from wiretape.viewer.source.tape.run import CONTEXT, Columns
from wiretape.viewer.wings.page.document import deltas, shortened

MOST: Final = 200
"""Limit of sessions in a page: the newest."""

MOST_TURNS: Final = 20_000
"""Limit of turns in a page: those of the newest sessions; the others have neither a lane nor turns."""

_NAMES: Final = tuple(PARTS)
_BETWEEN: Final = ("backoff", "tools", "idle")
_OWN: Final = tuple(name for name in PARTS if name not in _BETWEEN)
_COUNTS: Final = ("turns", "exchanges_max", "clock_step")
_SUMS: Final = ("exchanges", "failed", "open", "input_tokens", "cache_read_input_tokens", "output_tokens")


@dataclass(frozen=True, slots=True)
class PageSession:
    """A session: its totals, its account, the parts of its time in their order, its turns, and the verdicts counted."""

    row: ConversationRow
    account: Account
    stretches: Sequence[tuple[str, int]]
    turns: Sequence[TurnTime]
    verdicts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class PageSessions:
    """The newest sessions of at least two exchanges, the newest first, of `total`."""

    each: Sequence[PageSession]
    total: int


NONE: Final = PageSessions((), 0)


def data(found: PageSessions, columns: Columns, *, text: bool) -> JsonObject:
    """Return the sessions; `columns` are the exchanges of the page; prompts need `text`."""
    places = {no: at for at, no in enumerate(columns.numbers)}
    with_turns = _with_turns(found.each)
    each = [
        _session(one, text=text) | _detail(one, columns, places) if at < with_turns else _session(one, text=text)
        for at, one in enumerate(found.each)
    ]
    return {"total": found.total, "parts": PARTS, "sources": SOURCES, "each": each}


def left_out(found: PageSessions) -> Iterator[str]:
    """Yield the omissions for the banner."""
    shown, with_turns = len(found.each), _with_turns(found.each)
    if shown < found.total:
        yield f"{found.total - shown:,} of {found.total:,} sessions: the newest {shown:,} are here"
    if with_turns < shown:
        yield f"the lanes and turns of {shown - with_turns:,} sessions: those of the newest {with_turns:,} are here"


def _with_turns(each: Sequence[PageSession]) -> int:
    """Return the number of sessions with turns in the page."""
    return sum(total <= MOST_TURNS for total in accumulate(len(one.turns) for one in each))


def _session(one: PageSession, *, text: bool) -> JsonObject:
    row, account = one.row, one.account
    return {
        "key": shortened(row.conversation),
        "asked": shortened(row.asked) if text and row.asked is not None else None,
        "models": [shortened(model) for model in row.models],
        "started_us": round(units.timestamp(row.started_at).timestamp() * 1e6),
        "said": sentence(account),
        "wall_us": _us(account.wall_ns),
        "parallel_us": _us(account.parallel_ns),
        "ttft_p50_us": None if account.ttft_p50_ns is None else _us(account.ttft_p50_ns),
        **dict.fromkeys(f"{part}_us" for part in PARTS),
        **{f"{part}_us": _us(took_ns) for part, took_ns in account.parts.items()},
        **{field: getattr(account, field) for field in _COUNTS},
        **{field: getattr(row, field) for field in _SUMS},
        "verdicts": one.verdicts,
        "lane": None,
        "by_turn": None,
    }


def _detail(one: PageSession, columns: Columns, places: Mapping[int, int]) -> JsonObject:
    """Return the lane of a session and its turns, with the bytes of each request by source."""
    at = [places.get(turn.span.no) for turn in one.turns]
    context = [[None if row is None else columns.values[name][row] for row in at] for name in CONTEXT]
    return {"lane": _lane(one.stretches), "by_turn": _turns(one.turns, at) | {"context": context}}


def _lane(stretches: Sequence[tuple[str, int]]) -> JsonObject:
    """Return the parts as numbers in the order of `PARTS`, and where each ends, as its difference from the one before.

    Neighbours of the same part are one.
    """
    ends, parts, at_ns = list[int](), list[int](), 0
    for part, took_ns in stretches:
        at_ns += took_ns
        code = _NAMES.index(part)
        if parts and parts[-1] == code:
            ends[-1] = _us(at_ns)
        elif took_ns:
            parts.append(code)
            ends.append(_us(at_ns))
    return {"part": parts, "us": deltas(ends)}


def _turns(turns: Sequence[TurnTime], at: Sequence[int | None]) -> JsonObject:
    """Return the turns as columns: the row `at` which the page has the exchange, or null, and the parts in µs."""
    first_ns = turns[0].span.start_ns if turns else 0
    spans = [one.span for one in turns]
    return {
        "row": deltas(at),
        "start_us": deltas(_us(span.start_ns - first_ns) for span in spans),
        "ttft_us": [None if span.first_ns is None else _us(span.first_ns - span.start_ns) for span in spans],
        "is_turn": [int(span.is_generation and not (span.is_open or span.failed)) for span in spans],
        "before": [_NAMES.index(one.before) for one in turns],
        "before_us": [_us(one.before_ns) for one in turns],
        **{f"{name}_us": [_us(one.parts[name]) if one.span.is_timed else None for one in turns] for name in _OWN},
    }


def _us(ns: float) -> int:
    return round(ns / 1000)
