"""Pure: the turns of hosted agent sessions, from the events of their streams.

The rules (an event's effects are those of `effects`):

1. A turn is the one with the id that its events name; where an API numbers none, it lasts from `begin` to `end`, one at
   a time in each thread. An `end` without a turn says nothing; what comes late is its turn's, and changes no time.
2. A turn whose `begin` did not come (the stream was opened in its middle) starts with its first event, and the time to
   its first output is unknown: something may have come before.
3. An event whose id came before, on this stream or on another one of the session, is dropped with all that it carries.
4. Text is taken once: a whole text replaces its additions, and is new output only with what they do not have. Where
   several streams tell the additions, only what goes beyond the longest so far is new.
5. Tokens are those of the end, or else the sum of those of the requests to the model. Totals of a session are none.
6. A list of the session's history fills in texts, calls and tokens that no stream told; it changes no time, and
   begins no turn. Where turns have no numbers, the events between two ends belong to one turn, unless two begin there.
7. An error is the turn's outcome only if nothing of the turn follows; one that the server retries is none.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, Literal

from wiretape.recorder.decode.effects import Effect, SessionEvent
from wiretape.recorder.decode.turns import TurnDraft, TurnTokens
from wiretape.recorder.decode.values import JsonObject

MOST_TURNS: Final = 10_000
"""Limit of the turns of one session: a peer could begin a million."""
_MOST_IDS: Final = 100_000
"""Limit of the ids of events that are remembered; OpenAI's SDK remembers 1,024."""

_THREAD_PATH = re.compile(r"/sessions/[^/]+/threads/([^/?]+)/")

OutputKind = Literal["content", "reasoning", "tool"]
_OUTPUTS: Final[dict[str, OutputKind]] = {"text": "content", "reasoning": "reasoning", "call": "tool"}
"""The effects that bring output, and its kind."""


@dataclass(slots=True, eq=False)
class Output:
    """New output at a mark: an addition to a text, or to a call; a replaced one has no text, but keeps its mark."""

    mark: int
    kind: OutputKind
    text: str
    call: str = ""
    name: str = ""


@dataclass(slots=True, eq=False)
class _Text:
    """One part of a message, or the arguments of a call; `heard` has the length that each stream has told."""

    outputs: list[Output] = field(default_factory=list)
    size: int = 0
    heard: dict[int, int] = field(default_factory=dict)
    is_whole: bool = False

    def added(self, text: str, connection: int, *, is_identified: bool) -> str:
        """Return the new text of an addition."""
        if self.is_whole:
            return ""
        # An event with an id of its own was never seen: then all of it is new.
        position = self.size if is_identified else self.heard.get(connection, 0)
        self.heard[connection] = position + len(text)
        return text[max(self.size - position, 0) :]

    def remainder(self, text: str) -> str:
        """Return the new text of a whole one; if it differs from the additions, it replaces them."""
        if not text:
            return ""
        spoken = "".join(output.text for output in self.outputs)
        self.is_whole = True
        if text.startswith(spoken):
            return text[len(spoken) :]
        for output in self.outputs:
            output.text = ""
        self.size = 0
        return text


@dataclass(slots=True, eq=False)
class Ask:
    """A client's event that a stream repeats, its mark and its id; `kind` is a word of `turns.BEGINNINGS`."""

    mark: int
    kind: str
    id: str
    connection: int


@dataclass(slots=True, eq=False)
class AgentTurn(TurnDraft):
    """A turn of a hosted agent; `thread` is that of a sub-agent, "" of the root.

    `asks` are the client's events that the streams repeated for it, `connections` the streams that told it, in their
    order, each with the mark of its first event; `last_event` is the mark of the last one. `tool_spans` are the marks
    between which a tool ran, `waits` those between which it waited for the client, None at the end of one that goes on.
    `calls` are the ids of its calls with their names.
    """

    asks: list[Ask] = field(default_factory=list)
    connections: dict[int, int] = field(default_factory=dict)
    last_event: int = 0
    is_begun_elsewhere: bool = False
    """True if this is what another stream tells of it: its tokens count where it began."""
    outputs: list[Output] = field(default_factory=list)
    calls: dict[str, str] = field(default_factory=dict)
    tool_spans: list[tuple[int, int]] = field(default_factory=list)
    waits: list[tuple[int, int | None]] = field(default_factory=list)
    error_message: str | None = None
    is_interrupted: bool = False
    last_error: Effect | None = None
    failed_at: int | None = None
    """The mark of an error, while no event of the turn follows it."""
    parts: dict[tuple[OutputKind, str], dict[int, _Text]] = field(default_factory=dict)
    """The texts by kind, message and part."""
    requests: dict[str, Effect] = field(default_factory=dict)
    """The counts of the requests to the model by their ids, or those of all."""
    running_calls: set[str] = field(default_factory=set)
    last_mark: int = 0
    """The last call or output: since then a tool runs, if any does."""

    @property
    def tool_calls(self) -> list[tuple[str, str, str]]:
        """The id, name and arguments of each call, in their order."""
        return [(id, self.calls[id], self._joined(kind, id)) for kind, id in self.parts if kind == "tool"]

    def part_of(self, kind: OutputKind, key: str, part: int) -> _Text:
        return self.parts.setdefault((kind, key), {}).setdefault(part, _Text())

    def add(self, mark: int, kind: OutputKind, text: str, part: _Text, name: str = "", call: str = "") -> None:
        """Add output; after the turn's end it changes its texts, and none of its times."""
        output = Output(mark, kind, text, call, name)
        part.outputs.append(output)
        part.size += len(text)
        self.outputs.append(output)
        if self.end is None:
            self.note_output(mark)
            self.last_mark = mark

    def settle(self) -> None:
        """Set texts, tokens, and the outcome of a turn without an end, once all events are there."""
        self.texts = [self._joined(*key) for key in self.parts if key[0] == "content"]
        self.tokens = TurnTokens(
            input=self._total("input"), input_cached=self._total("input_cached"), output=self._total("output")
        )
        if self.end is None and self.failed_at is not None and self.last_error is not None:
            self.end, self.outcome = self.failed_at, "error"
            self.error, self.error_message = self.last_error.code, self.last_error.message

    def fill(self, listed: Sequence[SessionEvent]) -> None:
        """Add texts, calls and tokens from a list's events of this turn, in the order of the list."""
        following = [key for event in listed for effect in event.effects if (key := _part_key(effect)) is not None]
        order: list[tuple[OutputKind, str] | None] = [None, *self.parts]  # None is the place before the first
        after = dict(pairwise(order))
        places = {key: place for place, key in enumerate(self.parts)}
        previous = order[min((places[key] for key in following if key in places), default=len(places))]
        for key in following:
            if key not in places:
                places[key] = len(places)
                after[previous], after[key] = key, after.get(previous)
            previous = key
        for effect in (effect for event in listed for effect in event.effects):
            if (key := _part_key(effect)) is not None:
                kind, id = key
                part = self.part_of(kind, id, effect.part)
                if not part.is_whole and len(effect.text) > part.size:
                    part.outputs = [Output(self.first, kind, effect.text)]  # what chunks brought stays theirs
                if kind == "tool":
                    self.calls[id] = self.calls.get(id) or effect.tool
            elif effect.tokens is not None and "" not in self.requests:
                self.requests.setdefault(effect.key, effect)
        parts, self.parts = self.parts, {}
        key = after.get(None)
        while key is not None:
            self.parts[key] = parts[key]
            key = after.get(key)

    @property
    def usages(self) -> list[JsonObject]:
        return [request.usage for request in self.requests.values() if request.usage]

    def _total(self, name: str) -> int | None:
        """Add up a count of all requests to the model; None if none reports it."""
        counts = [getattr(request.tokens, name, None) for request in self.requests.values()]
        return sum(reported) if (reported := [count for count in counts if count is not None]) else None

    def _joined(self, kind: OutputKind, key: str) -> str:
        parts = self.parts.get((kind, key), {})
        return "".join(output.text for _, text in sorted(parts.items()) for output in text.outputs)


class TurnMachine:
    """The turns of one session, from the events of its streams in the order of their arrival.

    A *mark* is the number of an event in that order; the caller knows the times of the marks. Each stream has a
    number, its `connection`.
    """

    def __init__(self) -> None:
        self.turns: list[AgentTurn] = []
        self.fault: tuple[int, Effect] | None = None
        """The last error outside of a turn."""
        self._by_id: dict[str, AgentTurn] = {}
        self._latest: dict[str, AgentTurn] = {}
        """The turn of each thread that began last."""
        self._asks: dict[str, list[Ask]] = {}
        """The client's events, by threads, that no turn has yet."""
        self._ask_ids: set[str] = set()
        self._seen: dict[tuple[str, str], AgentTurn | None] = {}
        """The ids of events by threads, each with its turn."""

    def take(self, mark: int, event: SessionEvent, connection: int = 0) -> None:
        """Apply an event."""
        if not event.effects or self._is_repeated(event):
            return
        for effect in event.effects:
            if effect.name == "ask":
                self._ask(mark, event, effect, connection)
            elif effect.name == "close":
                self._close(mark, event, effect, connection)
            else:
                turn = self._turn(mark, event, effect, connection)
                if turn is not None:
                    if event.id:
                        self._seen[event.thread, event.id] = turn
                    # If the begin of the turn was missed, its end is the first event that names the sub-agent.
                    turn.thread = turn.thread or event.thread
                    if turn.end is None:
                        self._latest[turn.thread] = turn
                    turn.connections.setdefault(connection, mark)
                    turn.last_event = mark
                    self._apply(mark, event, effect, turn, connection)
                elif effect.name == "error":
                    self.fault = mark, effect

    def part(self, event: SessionEvent, connection: int) -> None:
        """Leave a turn without a number open if another one begins on a stream that told nothing of it.

        To be called where events may be missing before the stream: the end was among them.
        """
        turn = None if event.turn or not event.effects else self._running(event)
        if turn is not None and connection not in turn.connections and event.effects[0].name == "begin":
            del self._latest[event.thread]
            # The client's events that this stream repeated before the event that begins a turn belong to the new one.
            self._asks[event.thread] = [ask for ask in turn.asks if ask.connection == connection]
            turn.asks = [ask for ask in turn.asks if ask.connection != connection]

    def fill(self, listed: Sequence[SessionEvent]) -> None:
        """Fill in texts, calls and tokens from the events of a list, once those of all streams are there."""
        holders = {key: turn for turn in self.turns for key in turn.parts}

        def told(event: SessionEvent) -> AgentTurn | None:
            if event.turn:
                return self._by_id.get(event.turn)
            keys = (_part_key(effect) for effect in event.effects)
            by_part = (holders[key] for key in keys if key is not None and key in holders)
            return self._seen.get((event.thread, event.id)) or next(by_part, None)

        spans: list[list[SessionEvent]] = [[]]
        for event in listed:
            spans[-1].append(event)
            if any(effect.name in ("end", "close") for effect in event.effects):
                spans.append([])
        for span in spans:
            tellers = [told(event) for event in span]
            events_by_turn = dict[AgentTurn, list[SessionEvent]]()
            for event, turn in zip(span, tellers, strict=True):
                if turn is not None:
                    events_by_turn.setdefault(turn, []).append(event)
            # A list without the end of a turn has events of two turns in one span: then only known parts are filled in.
            begin_count = sum(effect.name == "begin" for event in span for effect in event.effects)
            if len(events_by_turn) == 1 and begin_count < 2:
                (only,) = events_by_turn
                events_by_turn[only] = [
                    event
                    for event, turn in zip(span, tellers, strict=True)
                    if turn is only or (not event.turn and event.thread == only.thread)
                ]
            for turn, events in events_by_turn.items():
                turn.fill(events)

    def finish(self) -> list[AgentTurn]:
        """Return the turns in the order of their first events, once all events are there."""
        for turn in self.turns:
            turn.settle()
        return self.turns

    def _is_repeated(self, event: SessionEvent) -> bool:
        # A client's event comes twice: in the queue, and when it is processed.
        if not event.id or any(effect.waits for effect in event.effects):
            return False
        # Events of a thread come on its own stream and on that of the session.
        key = event.thread, event.id
        if key in self._seen:
            return True
        self._seen[key] = None
        if len(self._seen) > _MOST_IDS:
            del self._seen[next(iter(self._seen))]
        return False

    def _running(self, event: SessionEvent) -> AgentTurn | None:
        """Return the turn that an event names, else the one that is running in its thread."""
        if event.turn:
            return self._by_id.get(event.turn)
        turn = self._latest.get(event.thread)
        return None if turn is None or turn.end is not None else turn

    def _turn(self, mark: int, event: SessionEvent, effect: Effect, connection: int) -> AgentTurn | None:
        """Return the turn of an effect, which may begin one."""
        if (turn := self._running(event)) is not None:
            return turn
        if effect.name != "begin" and not event.turn:
            if effect.name not in (*_OUTPUTS, "result", "tokens", "progress"):
                return None
            latest = self._latest.get(event.thread)
            is_known = latest is not None and (_OUTPUTS.get(effect.name), effect.key) in latest.parts
            if is_known or (effect.name not in _OUTPUTS and latest is not None and connection in latest.connections):
                return latest
        if len(self.turns) == MOST_TURNS:
            return None
        turn = AgentTurn(first=mark, start=mark, id=event.turn, thread=event.thread, last_mark=mark)
        turn.is_begin_known = effect.name == "begin"
        if event.turn:
            self._by_id[event.turn] = turn
        self._latest[event.thread] = turn
        self.turns.append(turn)
        turn.asks = self._asks.pop(event.thread, [])
        if turn.asks:
            turn.begun_by = turn.asks[-1].kind
        return turn

    def _ask(self, mark: int, event: SessionEvent, effect: Effect, connection: int) -> None:
        if effect.waits or effect.key in self._ask_ids or effect.ask is None:
            return
        if effect.key:
            self._ask_ids.add(effect.key)
        ask = Ask(mark, effect.ask, effect.key, connection)
        turn = self._turn(mark, event, effect, connection) if event.turn else self._running(event)
        if turn is None or turn.end is not None:
            self._asks.setdefault(event.thread, []).append(ask)
            return
        turn.asks.append(ask)
        if turn.first_output is None:
            turn.begun_by = turn.begun_by or effect.ask

    def _close(self, mark: int, event: SessionEvent, effect: Effect, connection: int) -> None:
        """End the turns of a thread; with the root's, those of all."""
        for thread, turn in self._latest.items():
            if turn.end is None and (not event.thread or thread == event.thread):
                turn.connections.setdefault(connection, mark)
                self._end(mark, turn, effect)

    def _end(self, mark: int, turn: AgentTurn, effect: Effect) -> None:
        if turn.end is not None:
            return
        turn.end, turn.outcome, turn.finish_reason = mark, effect.outcome, effect.reason
        if effect.tokens is not None:  # those of the whole turn
            turn.requests = {"": effect}
        error = turn.last_error
        # A session that terminates behind an error failed.
        has_failed = effect.name == "close" and error is not None and not error.is_retried
        if turn.outcome == "error" or (has_failed and turn.outcome == "complete"):
            turn.outcome, turn.error = "error", effect.code or (error.code if error is not None else None)
            turn.error_message = effect.message or (error.message if error is not None else None)
        elif turn.is_interrupted and turn.outcome == "complete":
            turn.outcome = "interrupted"
        self._end_waits(mark, turn)
        if turn.running_calls and turn.last_mark < mark:
            turn.tool_spans.append((turn.last_mark, mark))

    def _apply(self, mark: int, event: SessionEvent, effect: Effect, turn: AgentTurn, connection: int) -> None:
        name = effect.name
        if name in _OUTPUTS or name in ("result", "progress"):
            turn.failed_at = None
        if name == "begin":
            turn.begun_by = turn.begun_by or effect.ask
            # The user's message may come before the event that names its turn.
            turn.is_begin_known = turn.is_begin_known or (bool(event.turn) and turn.first_output is None)
        elif name == "end":
            self._end(mark, turn, effect)
        elif name in _OUTPUTS:
            self._say(mark, event, effect, turn, connection)
        elif name == "tokens":
            turn.requests[effect.key] = effect
        elif name == "error":
            turn.last_error = effect
            turn.failed_at = None if effect.is_retried else mark
        elif name == "interrupt":
            turn.is_interrupted = True
        else:
            self._work(mark, effect, turn)

    def _work(self, mark: int, effect: Effect, turn: AgentTurn) -> None:
        """Apply an effect on the tools of a turn, or on its wait for the client."""
        if effect.name == "wait":
            is_waiting = bool(turn.waits) and turn.waits[-1][1] is None
            turn.waits += [] if turn.end is not None or is_waiting else [(mark, None)]
        elif effect.name != "progress":
            self._end_waits(mark, turn)
            turn.running_calls.discard(effect.key)
            if effect.runs and turn.end is None and turn.last_mark < mark:
                turn.tool_spans.append((turn.last_mark, mark))
                turn.last_mark = mark

    def _say(self, mark: int, event: SessionEvent, effect: Effect, turn: AgentTurn, connection: int) -> None:
        """Apply an effect that may be output."""
        kind = _OUTPUTS[effect.name]
        part = turn.part_of(kind, effect.key, effect.part)
        if effect.is_whole:
            text = part.remainder(effect.text)
        else:
            text = part.added(effect.text, connection, is_identified=bool(event.id))
        is_new_call = kind == "tool" and effect.key not in turn.calls
        if kind == "tool":
            turn.calls[effect.key] = turn.calls.get(effect.key) or effect.tool
        if text or is_new_call:
            turn.add(mark, kind, text, part, effect.tool if is_new_call else "", effect.key)
            self._end_waits(mark, turn)
        if effect.runs:
            turn.running_calls.add(effect.key)

    def _end_waits(self, mark: int, turn: AgentTurn) -> None:
        if turn.waits and turn.waits[-1][1] is None:
            turn.waits[-1] = turn.waits[-1][0], mark


def _part_key(effect: Effect) -> tuple[OutputKind, str] | None:
    """Return the key of the texts that an effect brings, among those of its turn."""
    kind = _OUTPUTS.get(effect.name)
    return None if kind is None else (kind, effect.key)


def thread_at(path: str) -> str:
    """Return the id of the sub-agent whose own stream a path names; "" for the stream of a session."""
    match = _THREAD_PATH.search(path)
    return match[1] if match else ""
