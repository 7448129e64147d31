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
from wiretape.viewer.source.base import Columns
from wiretape.viewer.wings.page.document import deltas, shortened

MOST: Final = 200
"""Limit of sessions in a page: the newest."""

MOST_TURNS: Final = 20_000
"""Limit of turns in a page: those of the newest sessions; the others have neither a lane nor turns."""

CONTEXT: Final = tuple(f"context_{source}_bytes" for source in SOURCES)
"""The fields with the bytes of a request by source."""

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

    sessions: Sequence[PageSession]
    total: int


NONE: Final = PageSessions((), 0)


def data(page: PageSessions, columns: Columns, *, text: bool) -> JsonObject:
    """Return the sessions; `columns` are the exchanges of the page; prompts need `text`."""
    places = {no: at for at, no in enumerate(columns.numbers)}
    with_turns = _with_turns(page.sessions)
    sessions = [
        _session(session, text=text) | _detail(session, columns, places)
        if at < with_turns
        else _session(session, text=text)
        for at, session in enumerate(page.sessions)
    ]
    return {"total": page.total, "parts": PARTS, "sources": SOURCES, "each": sessions}


def left_out(page: PageSessions) -> Iterator[str]:
    """Yield the omissions for the banner."""
    count, with_turns = len(page.sessions), _with_turns(page.sessions)
    if count < page.total:
        yield f"{page.total - count:,} of {page.total:,} sessions: the newest {count:,} are here"
    if with_turns < count:
        yield f"the lanes and turns of {count - with_turns:,} sessions: those of the newest {with_turns:,} are here"


def _with_turns(sessions: Sequence[PageSession]) -> int:
    return sum(total <= MOST_TURNS for total in accumulate(len(session.turns) for session in sessions))


def _session(session: PageSession, *, text: bool) -> JsonObject:
    row, account = session.row, session.account
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
        "verdicts": session.verdicts,
        "lane": None,
        "by_turn": None,
    }


def _detail(session: PageSession, columns: Columns, places: Mapping[int, int]) -> JsonObject:
    """Return the lane of a session and its turns, as columns, with the bytes of each request by source.

    The lane has its parts as numbers in the order of `PARTS`, and their ends as differences; neighbours of the same
    part are one. `row` of a turn is the place of its exchange in the page, or null.
    """
    ends, parts, at_ns = list[int](), list[int](), 0
    for part, took_ns in session.stretches:
        at_ns += took_ns
        code = _NAMES.index(part)
        if parts and parts[-1] == code:
            ends[-1] = _us(at_ns)
        elif took_ns:
            parts.append(code)
            ends.append(_us(at_ns))
    turns = session.turns
    spans = [turn.span for turn in turns]
    rows = [places.get(span.no) for span in spans]
    by_turn = {
        "row": deltas(rows),
        "start_us": deltas(_us(span.start_ns - spans[0].start_ns) for span in spans),
        "ttft_us": [None if span.first_ns is None else _us(span.first_ns - span.start_ns) for span in spans],
        "is_turn": [int(span.is_generation and not (span.is_open or span.failed)) for span in spans],
        "before": [_NAMES.index(turn.pause) for turn in turns],
        "before_us": [_us(turn.pause_ns) for turn in turns],
        **{f"{name}_us": [_us(turn.parts[name]) if turn.span.is_timed else None for turn in turns] for name in _OWN},
        "context": [[None if row is None else columns.values[name][row] for row in rows] for name in CONTEXT],
    }
    return {"lane": {"part": parts, "us": deltas(ends)}, "by_turn": by_turn}


def _us(ns: float) -> int:
    return round(ns / 1000)
