"""The data of the tree of conversations, as read from a tape: the conversations, their turns, and the bars of both.

`read` runs in the tape's thread: it reads the changes, of conversations near the cursor and of the opened ones.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from wiretape.recorder.clock import Clock
from wiretape.recorder.decode.stalls import Thresholds
from wiretape.viewer.listing import bars, outline
from wiretape.viewer.listing.bars import Bars, SessionBars
from wiretape.viewer.rows import ConversationRow, TurnRow

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from wiretape.viewer.source.base import Version
    from wiretape.viewer.source.tape.conditions import Condition


@dataclass(frozen=True, slots=True)
class ConversationsData:
    """The version of the tape, its conversations, their totals, and the exchanges of some, with the bars of both.

    `times` has the rows of the conversations that the bars of their times were made of. Exchanges are judged a little
    after they are shown: the first verdicts about a cache take long on a large tape.
    """

    version: "Version | None" = None
    totals: str = "reading …"
    conversations: list[ConversationRow] = field(default_factory=list)
    turns: dict[str, list[TurnRow]] = field(default_factory=dict)
    times: dict[str, tuple[ConversationRow, SessionBars]] = field(default_factory=dict)
    contexts: dict[str, SessionBars] = field(default_factory=dict)
    is_judged: bool = False

    def bars(self, *, of_context: bool) -> Bars:
        """Return the bars of the time, or of the content of the requests."""
        times = {name: found for name, (_, found) in self.times.items()}
        wall_ns = {name: found.length for name, found in times.items()}
        shown = self.contexts if of_context else times
        turns = {no: bar for name in self.turns if name in shown for no, bar in shown[name].turns.items()}
        if of_context:
            return Bars("CONTEXT", bars.CONTEXT, shown, wall_ns, turns)
        return Bars(sessions=shown, wall_ns=wall_ns, turns=turns)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The data to read: of the `opened` conversations, and for the `lines` of the tree that may be drawn next.

    `of_context` asks for the content of the requests.
    """

    opened: frozenset[str]
    lines: slice
    of_context: bool = False

    def near(self, conversations: Sequence[ConversationRow], turns: Mapping[str, Sequence[TurnRow]]) -> frozenset[str]:
        """Return the names of the conversations on these lines, and of the opened ones."""
        drawn = outline.lines(conversations, self.opened, turns)[self.lines]
        return self.opened.union(one.conversation for one in drawn if isinstance(one, ConversationRow))

    def is_in(self, data: ConversationsData) -> bool:
        """Return True if it has been read."""
        near = self.near(data.conversations, data.turns)
        return near <= data.times.keys() and (not self.of_context or near <= data.turns.keys())


def read(
    connection: "Connection", text: str, clock: Clock, limits: Thresholds, known: ConversationsData, wanted: Wanted
) -> ConversationsData:
    """Read the changes since the last reading, and what else is wanted."""
    from wiretape.viewer.query.parser import parse
    from wiretape.viewer.source.tape import conditions, conversations, following

    version, turns = following.version(connection), known.turns
    where = conditions.condition(parse(text, clock)) if text.strip() else None
    if is_changed := version != known.version:
        listed = conversations.listed(connection, where)
        known = replace(known, version=version, totals=outline.totals(listed), conversations=listed, turns={})
    near = wanted.near(known.conversations, turns)
    needed = near if wanted.of_context else wanted.opened
    missing = needed - turns.keys()
    is_judged = known.is_judged or bool(needed and not missing)
    if names := needed if is_changed or is_judged != known.is_judged else missing:
        found = conversations.turns(connection, names, where, judged=is_judged)
        contexts = {name: own for name, its in found.items() if (own := bars.of_context(its))}
        known = replace(known, turns=known.turns | found, contexts=known.contexts | contexts, is_judged=is_judged)
    stale = {one.conversation: one for one in known.conversations if one.conversation in near and _is_stale(one, known)}
    return replace(known, times=known.times | _times(connection, stale, where, clock, limits)) if stale else known


def _is_stale(one: ConversationRow, known: ConversationsData) -> bool:
    """Return True if the time of a conversation has changed: while an exchange runs, it always has."""
    return one.open > 0 or one.conversation not in known.times or known.times[one.conversation][0] != one


def _times(
    connection: "Connection", stale: Mapping[str, ConversationRow], where: "Condition | None", clock: Clock,
    limits: Thresholds,
) -> dict[str, tuple[ConversationRow, SessionBars]]:  # fmt: skip
    from wiretape.viewer.sessions.exchanges import spans
    from wiretape.viewer.source.tape import sessions

    members = sessions.members(connection, limits, clock, where, stale)
    return {name: (stale[name], bars.of_time(spans(found, limits).spans, limits)) for name, found in members}
