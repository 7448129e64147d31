"""The data of the tree of conversations, as read from a tape: the conversations, their turns, and the bars of both.

`read` runs in the tape's thread: it reads the changes, of conversations near the cursor and of the opened ones.
"""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from wiretape.recorder.clock import Clock
from wiretape.recorder.decode.stalls import Thresholds
from wiretape.viewer.listing import bars, outline
from wiretape.viewer.listing.bars import Bars, SessionBars
from wiretape.viewer.record.rows import ConversationRow, TurnRow

if TYPE_CHECKING:
    from wiretape.viewer.source.base import Version
    from wiretape.viewer.source.tape_source import TapeSource


class TimedConversation(NamedTuple):
    """A conversation as it was when the bars of its time were made."""

    row: ConversationRow
    bars: SessionBars


@dataclass(frozen=True, slots=True)
class ConversationsData:
    """The version of the tape, the `rows` of its conversations, their totals, and the exchanges of some, with bars.

    Exchanges are judged a little after they are shown: the first verdicts about a cache take long on a large tape.
    """

    version: "Version | None" = None
    totals: str = "reading …"
    rows: dict[str, ConversationRow] = field(default_factory=dict)
    turns: dict[str, list[TurnRow]] = field(default_factory=dict)
    times: dict[str, TimedConversation] = field(default_factory=dict)
    contexts: dict[str, SessionBars] = field(default_factory=dict)
    is_judged: bool = False

    def bars(self, *, of_context: bool) -> Bars:
        """Return the bars of the time, or of the content of the requests."""
        times = {name: timed.bars for name, timed in self.times.items()}
        wall_ns = {name: session.length for name, session in times.items()}
        sessions = self.contexts if of_context else times
        turns = {no: bar for name in self.turns if name in sessions for no, bar in sessions[name].turns.items()}
        if of_context:
            return Bars("CONTEXT", bars.CONTEXT, sessions, wall_ns, turns)
        return Bars(sessions=sessions, wall_ns=wall_ns, turns=turns)


@dataclass(frozen=True, slots=True)
class TreeQuery:
    """The names of the conversations to read: the `open` ones, and those on lines that may be drawn next.

    `of_context` asks for the content of the requests.
    """

    open: frozenset[str] = frozenset()
    near: frozenset[str] = frozenset()
    of_context: bool = False

    def is_in(self, data: ConversationsData) -> bool:
        """Return True if all that there is of it has been read."""
        names = [name for name in self.open | self.near if name in data.rows]
        return all(name in data.times and (name in data.turns or not self.of_context) for name in names)


def read(
    source: "TapeSource", text: str, clock: Clock, limits: Thresholds, data: ConversationsData, query: TreeQuery
) -> ConversationsData:
    """Read the changes since the last reading, and what else the query asks for."""
    from wiretape.viewer.query.parser import parse
    from wiretape.viewer.source.base import Selection

    version, previous_turns = source.version(), data.turns
    selection = Selection(parse(text, clock) if text.strip() else None)
    if is_changed := version != data.version:
        rows = source.conversations(selection)
        by_name = {row.conversation: row for row in rows}
        data = replace(data, version=version, totals=outline.totals(rows), rows=by_name, turns={})
    near = {name: data.rows[name] for name in query.open | query.near if name in data.rows}
    needed = near.keys() if query.of_context else near.keys() & query.open
    missing = needed - previous_turns.keys()
    # The first rows are shown without verdicts about a cache, which take long: the next reading has them.
    is_judged = data.is_judged or bool(needed and not missing)
    if names := needed if is_changed or is_judged != data.is_judged else missing:
        turns_by_name = source.trees(names, selection, judged=is_judged)
        contexts = {
            name: context for name, turns in turns_by_name.items() if (context := bars.of_context(turns)) is not None
        }
        data = replace(data, turns=data.turns | turns_by_name, contexts=data.contexts | contexts, is_judged=is_judged)
    # While an exchange runs, the time of its conversation always has changed.
    stale = {
        name: row for name, row in near.items() if row.open > 0 or name not in data.times or data.times[name].row != row
    }
    if not stale:
        return data

    from wiretape.viewer.sessions.exchanges import spans

    times = {
        name: TimedConversation(stale[name], bars.of_time(spans(members, limits).spans, limits))
        for name, members in source.members(stale, limits, clock, selection)
    }
    return replace(data, times=data.times | times)
