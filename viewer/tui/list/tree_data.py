"""The data of the tree of conversations, as read from a tape: the conversations, their turns, and the bars of both.

`read` runs in the tape's thread: it reads the changes, of conversations near the cursor and of the opened ones.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from wiretape.recorder.clock import Clock
from wiretape.recorder.decode.stalls import Thresholds
from wiretape.viewer.listing import bars, outline
from wiretape.viewer.listing.bars import Bars, SessionBars
from wiretape.viewer.record.rows import ConversationRow, TurnRow

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from wiretape.viewer.source.base import Version
    from wiretape.viewer.source.tape.conditions import Condition


@dataclass(frozen=True, slots=True)
class ConversationsData:
    """The version of the tape, the `rows` of its conversations, their totals, and the exchanges of some, with bars.

    `times` has the rows of the conversations that the bars of their times were made of. Exchanges are judged a little
    after they are shown: the first verdicts about a cache take long on a large tape.
    """

    version: "Version | None" = None
    totals: str = "reading …"
    rows: dict[str, ConversationRow] = field(default_factory=dict)
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
    """The names of the conversations to read: the `opened` ones, and those on lines that may be drawn next.

    `of_context` asks for the content of the requests.
    """

    opened: frozenset[str] = frozenset()
    near: frozenset[str] = frozenset()
    of_context: bool = False

    def is_in(self, data: ConversationsData) -> bool:
        """Return True if all that there is of it has been read."""
        names = [name for name in self.opened | self.near if name in data.rows]
        return all(name in data.times and (name in data.turns or not self.of_context) for name in names)


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
        by_name = {one.conversation: one for one in listed}
        known = replace(known, version=version, totals=outline.totals(listed), rows=by_name, turns={})
    shown = {name: known.rows[name] for name in wanted.opened | wanted.near if name in known.rows}
    needed = shown.keys() if wanted.of_context else shown.keys() & wanted.opened
    missing = needed - turns.keys()
    is_judged = known.is_judged or bool(needed and not missing)
    if names := needed if is_changed or is_judged != known.is_judged else missing:
        found = conversations.turns(connection, names, where, judged=is_judged)
        contexts = {name: own for name, its in found.items() if (own := bars.of_context(its))}
        known = replace(known, turns=known.turns | found, contexts=known.contexts | contexts, is_judged=is_judged)
    stale = {name: one for name, one in shown.items() if _is_stale(one, known)}
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
