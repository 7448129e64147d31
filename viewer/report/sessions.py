"""Pure: the time of sessions for people: its parts in one line, a session on a page, and its turns in a table."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Final

from rich.text import Text

from wiretape.recorder.plurals import counted
from wiretape.recorder.sanitize import safe
from wiretape.viewer.exchange import facts
from wiretape.viewer.record.rows import TableRow
from wiretape.viewer.record.units import ms
from wiretape.viewer.report import stats
from wiretape.viewer.report.tables import Table, TableColumn, outcome_sign, paragraph, plain, table
from wiretape.viewer.sessions.account import Account, TurnTime
from wiretape.viewer.text import formatting
from wiretape.viewer.text.formatting import beside, count, share, span

_LABEL: Final = 11

TURN_FIELDS: Final = {
    "turn": "its number among the exchanges and turns of the session, by their starts",
    "id": "id of the exchange",
    "start_ms": "T0 of the session's first exchange → its own T0; of a WebSocket's turn, its request",
    "ttft_ms": "time to its first output",
    "waiting_ms": "its time before its first output",
    "streaming_ms": "its time between its first and last output, stalls left out",
    "stalled_ms": "its time in stalls",
    "closing_ms": "its time after its last output",
    "failed_ms": "its time before its first and after its last output, if it failed",
    "backoff_ms": "time before it in which none was open, and it continues one that failed",
    "tools_ms": "time before it in which none was open, and tools ran; of a hosted turn, in it, too",
    "idle_ms": "time before it in which none was open, all else",
    "outcome": "how the exchange ended, or the turn of a hosted agent",
    "operation": "kind of request",
    "model": "the model asked for",
    "input_tokens": "tokens of the request, from usage",
    "output_tokens": "tokens of the answer, from usage",
    "cache_read_input_tokens": "tokens read from the provider's cache, from usage",
    "cache_verdict": "why it read its prompt from the provider's cache, or did not",
}
"""The fields of a turn with their meanings."""
FACTS: Final = (
    "id", "outcome", "operation", "model", "input_tokens", "output_tokens", "cache_read_input_tokens", "cache_verdict",
)  # fmt: skip
"""The fields of a turn that are those of its exchange."""

_TOKENS_OF_TURN: Final = {
    "input_tokens": "input_tokens", "output_tokens": "output_tokens", "cache_read_input_tokens": "input_cached_tokens",
}  # fmt: skip
_BEFORE: Final = ("backoff", "tools", "idle")
_SHOWN: Final = {
    "turn": "", "id": "id", "start_ms": "start s", "waiting_ms": "wait s", "streaming_ms": "stream s",
    "stalled_ms": "stall s", "failed_ms": "failed s", "backoff_ms": "backoff s", "tools_ms": "tools s",
    "idle_ms": "idle s", "input_tokens": "in", "cache_read_input_tokens": "cached", "cache_verdict": "cache",
    "output_tokens": "tokens", "outcome": "outcome", "model": "model",
}  # fmt: skip


def shares(account: Account) -> str:
    parts = sorted(((took_ns, name) for name, took_ns in account.parts.items() if took_ns), reverse=True)
    return " · ".join(f"{name} {share(took_ns, account.wall_ns)}" for took_ns, name in parts)


def times(accounts: Sequence[Account], width: int | None = None) -> Iterator[Text]:
    """Yield the parts of the time of sessions, added up; nothing where there is none."""
    known_accounts = [account for account in accounts if account.is_known]
    total = sum(known_accounts, Account())
    if total.wall_ns:
        of = f"{counted(len(known_accounts), 'session')} in {span(ms(total.wall_ns))}"
        unknown = (
            f"; unknown of {counted(len(accounts) - len(known_accounts), 'session')}"
            if len(known_accounts) < len(accounts)
            else ""
        )
        yield from _label("time", f"{of}: {shares(total)}{unknown}", width)


def lines(
    key: str, account: Account, models: Sequence[str], question: str | None, tokens: TableRow,
    quotas: Sequence[TableRow] = (), width: int | None = None,
) -> Iterator[Text]:  # fmt: skip
    """Yield a session on one screen: what took its time, its parts as bars, its counts, and what is left of `quotas`.

    These are the fields `facts.QUOTAS` of its exchanges: the last that is known of each counts.
    """
    room = width or 100
    yield from paragraph("", sentence(account), room, "bold")
    yield from _label(
        "session", " · ".join(filter(None, [safe(key), ", ".join(map(safe, models)), safe(question or "")])), room
    )
    longest = max(account.parts.values(), default=0)
    for name, took_ns in account.parts.items():
        bar_text = stats.bar(took_ns, longest, min(30, max(room - 40, 5))) if took_ns else ""
        percent = share(took_ns, account.wall_ns) if took_ns else ""
        yield Text(f"{name:<{_LABEL}}{beside(took_ns / 1e6, longest / 1e6):>9} {percent:>5}  {bar_text}".rstrip())
    counts = [counted(account.exchanges, "exchange"), counted(account.turns, "turn")]
    counts += [f"{number} {word}" for word, number in (("failed", account.failed), ("open", account.open)) if number]
    if account.exchanges_max > 1:
        counts.append(f"at most {account.exchanges_max} at once, {span(ms(account.parallel_ns))} in parallel")
    yield from _label("counts", " · ".join(counts), room)
    if account.ttft_p50_ns is not None:
        yield from _label("ttft", f"median {span(ms(account.ttft_p50_ns))}", room)
    words_of_tokens = {"input_tokens": "in", "cache_read_input_tokens": "cached", "output_tokens": "out"}
    token_counts = (
        f"{words} {count(tokens[name])}" for name, words in words_of_tokens.items() if tokens.get(name) is not None
    )
    yield from _label("tokens", " · ".join(token_counts), room)
    if tokens.get("duplicate_n"):
        yield from _label("paid twice", f"{stats.duplicates(tokens)}: ls -f flag:duplicate", room)
    last = {name: next((row[name] for row in reversed(quotas) if row[name] is not None), None) for name in facts.QUOTAS}
    yield from _label("quota", " · ".join(facts.quotas(last)), room)
    if account.clock_step:
        yield from _label("note", "the wall clock was set back: a gap of unknown length counts as 0", room)


def stalls(stories: Iterable[tuple[str, str]], width: int | None = None) -> Iterator[Text]:
    """Yield the end of a session's page: its stalls, each with the id of its exchange, and what shows more."""
    for id, story in stories:
        yield from _label("stall", f"{safe(id)[:8]} {story}", width or 100)
    yield from _label("more", "--part time: a row for each turn", width)


def _label(label: str, text: str, width: int | None) -> Iterator[Text]:
    if text:
        yield from paragraph(f"{label:<{_LABEL}}", text, width)


_WORDS: Final = {
    "streaming": "answering",
    "stalled": "stalled",
    "waiting": "waiting for the model",
    "closing": "between the last output and the end",
    "failed": "in failing exchanges",
    "backoff": "backing off",
    "tools": "in tools",
    "idle": "idle",
}
"""Each part behind its share."""


def sentence(account: Account) -> str:
    """Return the verdict: how long it took, and what took most of it."""
    wall = f"{span(ms(account.wall_ns))} in {counted(account.turns, 'turn')}"
    if not account.is_known:
        return f"{wall}: unknown, its source has no times within the bodies"
    if not account.wall_ns:
        return wall
    largest_part, next_part, *_ = sorted(account.parts, key=account.parts.__getitem__, reverse=True)
    named_parts = (part for part in (largest_part, next_part) if account.parts[part])
    phrases = (f"{share(account.parts[part], account.wall_ns)} {_WORDS[part]}" for part in named_parts)
    return f"{wall}: {', '.join(phrases)}"


COMPARED: Final = {
    "metric": "figure of the session's time",
    "a": "of the first session",
    "b": "of the second session",
    "difference": "b − a",
}
"""The fields of a figure of two sessions with their meanings."""


def compared(a: Account, b: Account) -> list[TableRow]:
    """Return the `COMPARED` fields of each figure of two sessions."""
    a_row, b_row = a.row(), b.row()
    sides = ((name, value, b_row[name]) for name, value in a_row.items() if name != "clock_step")
    return [
        {"metric": name, "a": a, "b": b, "difference": None if a is None or b is None else b - a}
        for name, a, b in sides
    ]


def comparison(rows: Sequence[TableRow], width: int | None = None) -> Table:
    return table([plain(name) for name in COMPARED], rows, width)


def turn_rows(turn_times: Sequence[TurnTime], exchanges: Mapping[int, TableRow]) -> Iterator[TableRow]:
    """Yield the `TURN_FIELDS` of each turn; `exchanges` are the `FACTS` and the `turns` of the exchanges by number.

    Tokens of a WebSocket are those of all of its turns, and stand at its first; a hosted turn has its own.
    """
    seen = set[int]()
    turns_left = _own_turns(turn_times, exchanges)
    # Beside hosted turns, requests are what begins these.
    is_hosted = any(turn.span.outcome is not None for turn in turn_times)
    rows = [turn for turn in turn_times if turn.span.is_generation or not is_hosted]
    for number, turn in enumerate(rows, 1):
        exchange_facts = exchanges.get(turn.span.no, {})
        if turn.span.outcome is not None:
            exchange_facts = {**exchange_facts, "outcome": turn.span.outcome}
            if turn.span.no in turns_left:
                own_turn = next(turns_left[turn.span.no])
                exchange_facts |= {name: own_turn.get(of_turn) for name, of_turn in _TOKENS_OF_TURN.items()}
                seen.discard(turn.span.no)
        first_ns = turn.span.first_ns
        parts = {f"{name}_ms": ms(took_ns) for name, took_ns in turn.parts.items() if name not in _BEFORE}
        parts = parts if turn.span.is_timed else dict.fromkeys(parts)
        before = {name: turn.pause_ns if name == turn.pause else 0 for name in _BEFORE}
        before["tools"] += turn.parts["tools"]
        pauses = {f"{name}_ms": ms(took_ns) for name, took_ns in before.items()}
        row = {
            "turn": number,
            "start_ms": ms(turn.span.start_ns - turn_times[0].span.start_ns),
            "ttft_ms": None if first_ns is None else ms(first_ns - turn.span.start_ns),
            **parts,
            **pauses,
            **{
                name: exchange_facts.get(name)
                for name in FACTS
                if turn.span.no not in seen or not name.endswith("_tokens")
            },
        }
        seen.add(turn.span.no)
        yield {name: row.get(name) for name in TURN_FIELDS}


def _own_turns(turn_times: Sequence[TurnTime], exchanges: Mapping[int, TableRow]) -> dict[int, Iterator[TableRow]]:
    """Return the hosted turns of exchanges by number, in the order of their starts.

    A turn without a start has no time: which ones are left is unknown then, and the exchange is left out.
    """
    counts = Counter(turn.span.no for turn in turn_times if turn.span.outcome is not None)
    turns_by_no = {no: exchanges.get(no, {}).get("turns") or () for no in counts}
    return {
        no: iter(sorted(turns, key=itemgetter("started_at_ns")))
        for no, turns in turns_by_no.items()
        if len(turns) == counts[no] and all("started_at_ns" in turn for turn in turns)
    }


_IMPORTANT: Final = (
    "mark", "start_ms", "waiting_ms", "streaming_ms", "stalled_ms", "tools_ms", "backoff_ms", "cache_verdict",
    "input_tokens", "output_tokens", "outcome", "cache_read_input_tokens", "idle_ms", "failed_ms", "id", "model",
)  # fmt: skip


def turns(rows: Sequence[TableRow], width: int | None = None) -> Table:
    always = ("start_ms", "waiting_ms", "streaming_ms")
    names = [name for name in _SHOWN if not name.endswith("_ms") or name in always or any(row[name] for row in rows)]
    # The sign of its outcome stays where there is no room for more of that.
    mark = TableColumn("mark", "", lambda row: f"{outcome_sign(row['outcome'])} {row['turn']:>{len(str(len(rows)))}}")
    return table([mark, *(_column(name) for name in names if name != "turn")], rows, width, _IMPORTANT)


def _column(name: str) -> TableColumn:
    return TableColumn(name, _SHOWN[name], lambda row: _cell(name, row[name]))


def _cell(name: str, value: object) -> str:
    if name.endswith("_ms") and isinstance(value, float | int):
        return f"{value / 1000:,.2f}" if value or name == "start_ms" else formatting.UNKNOWN
    if name == "id":
        return formatting.line(str(value))[:8]
    return count(value) if type(value) is int else formatting.cell(value)
