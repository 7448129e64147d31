"""Pure: the events of hosted agent sessions as effects on turns, in one form for all APIs.

The provider runs the agent, and one stream reports many of its turns. Each API has a table of its events
(`dialects.openai_agents`, `dialects.anthropic_sessions`); the rules of a declared dialect make such events, too.
`agent_turns` puts them together to turns. These APIs grow by the week: an event of an unknown type has no effect, and
is counted.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from wiretape.recorder.decode.turns import TurnOutcome, TurnTokens
from wiretape.recorder.decode.values import JsonObject

EffectName = Literal[
    "begin", "end", "close", "text", "reasoning", "call", "result", "wait", "resume", "tokens", "error", "ask",
    "interrupt", "progress",
]  # fmt: skip

EFFECTS: Final[dict[EffectName, str]] = {
    "begin": "begins a turn, unless it is running",
    "end": "ends the turn",
    "close": "ends the session, and the turns in it",
    "text": "is text of a message: an addition, or the whole, which replaces the additions",
    "reasoning": "is reasoning: an addition, or the whole",
    "call": "calls a tool",
    "result": "brings the result of a tool",
    "wait": "lets the turn wait for the client",
    "resume": "ends this wait",
    "tokens": "counts the tokens of a request to the model",
    "error": "is an error, the turn's own if it is the last word of it",
    "ask": "repeats an event of the client, which began the turn or steers it",
    "interrupt": "repeats that the client interrupted the turn",
    "progress": "tells that the turn goes on",
}
"""Every effect, and its meaning behind the words "this event"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """One effect of an event on a turn.

    `key` is the id of the message, the call, the request to the model or the client's event; `part` numbers the texts
    of a message. `is_whole`: `text` is all of that part. Of a call, `text` are arguments, and `runs` says that the
    provider runs it now. `ask` is a word of `turns.BEGINNINGS`; `waits`: the client's event is still in the queue.
    `reason`, `outcome`, `code` and `message` are those of an end or an error; `is_retried`: the server tries again.
    """

    name: EffectName
    key: str = ""
    part: int = 0
    text: str = ""
    is_whole: bool = False
    tool: str = ""
    runs: bool = False
    ask: str | None = None
    waits: bool = False
    outcome: TurnOutcome = "complete"
    reason: str | None = None
    code: str | None = None
    message: str | None = None
    is_retried: bool = False
    usage: JsonObject | None = None
    tokens: TurnTokens | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEvent:
    """One event of a session, with its effects.

    `id` names it, also where another stream of the session repeats it; "" of one that nothing identifies. `turn` is the
    id of its turn, "" if the API numbers none; `thread` that of a sub-agent, "" for the root.
    """

    type: str
    effects: tuple[Effect, ...] = ()
    id: str = ""
    turn: str = ""
    thread: str = ""
    model: str = ""
    is_known: bool = True


Effects = tuple[Effect, ...]


class EventRow(NamedTuple):
    """The meaning of one type of events: the names of its effects, in words, and a function that reads them."""

    effects: str
    read: Callable[[JsonObject], Effects]


@dataclass(frozen=True, slots=True)
class EventTable:
    """The events of one API by their types; `source` is where they are defined, `date` (ISO 8601) when it was read."""

    source: str
    date: str
    rows: Mapping[str, EventRow]


def row(name: EffectName) -> EventRow:
    """Return the row of events with one effect that says no more than its name."""
    effects = (Effect(name=name),)
    return EventRow(name, lambda _: effects)


def plain(name: EffectName | None, prefix: str, names: str) -> dict[str, EventRow]:
    """Return the rows of events, by the names behind a prefix, with one effect that says no more, or with none."""
    return {prefix + kind: row(name) if name else EventRow("", lambda _: ()) for kind in names.split()}


SILENT_FLAGS: Final = frozenset({"no_finish", "no_usage", "hidden_tokens", "multi_choice"})
"""Flags that say nothing of a session of turns."""
