"""A declaration, compiled to a dialect: closures that turn the JSON of an event into a `Chunk`.

The form is explained by `wiretape help dialects`. How an event is read:

1. `key` gives its kind. Rules whose `on` names other kinds are left out; `root` is where the paths of the others start.
2. In a protocol of requests and answers (`answer`), an event that is no answer only gives attributes. An answer ends
   the stream, of a batch the last one.
3. The rules act in the order of `_MAKERS`, whatever their order in the file: errors and ends look at the finish reason.
4. What they found is the chunk. An event in which nothing was found is none of the dialect's, unless the stream was
   recognised before, by more than the path or by such a finding.

The parser of a stream knows the events before: texts that a later event repeats, calls whose arguments have come, the
usage of each of several answers. A declaration may be hostile: its work is counted, and taken from the `Allowance`.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Literal, NamedTuple

from wiretape.recorder.decode import rpc
from wiretape.recorder.decode.agent_turns import thread_at
from wiretape.recorder.decode.allowance import Allowance
from wiretape.recorder.decode.declared import matching, paths
from wiretape.recorder.decode.declared.matching import Alternative
from wiretape.recorder.decode.declared.paths import Condition, Getter
from wiretape.recorder.decode.declared.table import CheckedTable, DeclarationError, Key, flag, tests, text, texts
from wiretape.recorder.decode.dialect import Chunk, Dialect, FinalText, Parse, Piece, ReportedError, Tokens, ToolPiece
from wiretape.recorder.decode.effects import SILENT_FLAGS, Effect, SessionEvent
from wiretape.recorder.decode.exchange import OPERATIONS, Exchange, Operation
from wiretape.recorder.decode.operation import UNKNOWN
from wiretape.recorder.decode.turns import TurnOutcome
from wiretape.recorder.decode.values import JsonObject, compact, index

_COUNTED: Final = frozenset({"timestamp", "index", "sequence_number", "obfuscation", "created"})
"""Keys of values that differ from event to event in many wires, and that few declarations read."""
_KEY = re.compile(r"event:(?: before (\S))?")
_STEPS_OF_LINE: Final = 100
"""Number of steps that cost as much as reading a line; a step is an action of a rule, or a value visited in a list."""
_COUNTS: Final = ("input", "output", "total", "reasoning", "cache_read", "cache_write")


@dataclass(slots=True)
class _Draft:
    """The findings in one event."""

    content: str = ""
    reasoning: str = ""
    tools: list[ToolPiece] | None = None
    usage: JsonObject | None = None
    attributes: list[tuple[str, Any]] | None = None
    finish: str | None = None
    model: str = ""
    id: str = ""
    fault: ReportedError | None = None
    is_audio: bool = False
    ends: bool = False
    begins: bool = False
    aborts: bool = False
    reason: str = ""
    is_cumulative: bool = False
    finals: list[FinalText] | None = None
    runs_tool: bool = False
    has_result: bool = False
    event: SessionEvent | None = None

    @property
    def has_findings(self) -> bool:
        """True if there is anything but a text or a finish reason."""
        marks = (self.is_audio, self.ends, self.begins, self.aborts, self.finals, self.fault, self.usage, self.id)
        return any(marks) or self.event is not None

    @property
    def size(self) -> int:
        """The length of its texts."""
        tools = sum([len(tool.arguments) for tool in self.tools or ()])
        return len(self.content) + len(self.reasoning) + tools + sum([len(final.text) for final in self.finals or ()])


@dataclass(slots=True)
class _Past:
    """The findings in the earlier events of a stream: texts by message, calls with arguments, usage by answer.

    `foreign` are the ids of messages that are not the answer's, `message` the id of the latest message,
    `progress_texts` are the answer only if no other text comes, and `unanswered_ids` those of requests of a batch.
    `uncounted_steps` are those that are not counted in the `Allowance` yet: this counts lines. In a session of turns,
    the findings are those in one turn; `whole_count` counts its finished texts, and `called_at` has the ids of its
    calls by their indexes.
    """

    is_recognised: bool = False
    has_content: bool = False
    has_reasoning: bool = False
    so_far: dict[str, "_TextSoFar"] = field(default_factory=dict)
    called_ids: set[str] = field(default_factory=set)
    usages: dict[str, JsonObject] = field(default_factory=dict)
    total: Counter[str] = field(default_factory=Counter)
    foreign: set[str] = field(default_factory=set)
    message: str = ""
    progress_texts: list[str] = field(default_factory=list)
    unanswered_ids: set[str] = field(default_factory=set)
    uncounted_steps: int = 0
    thread: str = ""
    is_in_turn: bool = False
    whole_count: int = 0
    called_at: dict[int, str] = field(default_factory=dict)

    def begin_turn(self) -> None:
        """Forget the findings of the turn before, unless it is running: they say nothing of the next."""
        if self.is_in_turn:
            return
        self.has_content = self.has_reasoning = False
        self.so_far, self.usages, self.total, self.progress_texts = {}, {}, Counter(), []
        self.called_at, self.called_ids, self.is_in_turn = {}, set(), True


@dataclass(slots=True)
class _TextSoFar:
    """The parts of a text that came, and their length together."""

    parts: list[str] = field(default_factory=list)
    size: int = 0

    def added(self, text: str) -> str:
        """Return the addition of a text that repeats its beginning, or, as some servers have it, is an addition only.

        The parts are joined only for a text that may repeat them: the work is linear in the data.
        """
        if len(text) >= self.size and text.startswith(text_so_far := "".join(self.parts)):
            addition = text[self.size :]
            self.parts = [text_so_far, addition] if self.size else [text]
        else:
            addition = text
            self.parts.append(text)
        self.size += len(addition)
        return addition


_Action = Callable[[Any, _Draft, _Past], None]


class _Rule(NamedTuple):
    """An action, and how often it may visit each value of an event."""

    action: _Action
    walks: int


class _TurnRule(NamedTuple):
    """The kinds of events that begin a turn, and that end it, and the getter of the id of an event's turn, if any."""

    begins: frozenset[str]
    ends: frozenset[str]
    by: Getter | None

    def around(self, rules: Sequence[_Rule], kind: str) -> list[_Rule]:
        """Return the rules for events of a kind, whose findings become those of a turn."""

        def begin(root: Any, draft: _Draft, past: _Past) -> None:
            past.begin_turn()

        def tell(root: Any, draft: _Draft, past: _Past) -> None:
            if effects := _effects(self, kind, draft, past):
                id = "" if self.by is None else _as_text(self.by(root))
                draft.event = SessionEvent(type=kind, effects=effects, turn=id, thread=past.thread)

        return [*([_Rule(begin, 0)] if kind in self.begins else []), *rules, _Rule(tell, 0)]


class _Rules(NamedTuple):
    """The actions for events of one kind, and how often all together may visit each value of an event."""

    actions: tuple[_Action, ...]
    walks: int

    @classmethod
    def of(cls, rules: Sequence[_Rule]) -> "_Rules":
        return cls(tuple([rule.action for rule in rules]), sum([rule.walks for rule in rules]))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeclaredDialect(Dialect):
    """A dialect that was declared: `declaration` is its table, `version` a hash of that.

    `attributes_of` returns the values that it names of an exchange; `unread` are keys of events, common in wires, that
    it does not read; `ignored` are the keys of the table that mean nothing here.
    """

    declaration: Mapping[str, Any]
    version: str
    match: tuple[Alternative, ...]
    parser_of: Callable[[Exchange, Allowance, bool], Parse]
    attributes_of: Callable[[Exchange], JsonObject]
    unread: tuple[str, ...]
    ignored: tuple[Key, ...] = ()


def compile(table: Mapping[str, Any], reserved: Sequence[str] = ()) -> DeclaredDialect:
    """Check and compile one declaration; its name is none of those reserved. Raises `DeclarationError`."""
    ignored: list[Key] = []
    checked = CheckedTable(table, (), ignored)
    name = checked.read("name", partial(_name, reserved), "")
    if not name:
        raise DeclarationError((), "the dialect has no name")
    operation: Operation = checked.read("operation", _operation, "chat")
    match = matching.alternatives(checked)
    if not match:
        raise DeclarationError((), f"{name} has no match: it would recognise no stream")
    events = _Events(name, checked)
    eof = _eof(checked)
    from_request = checked.read("attributes", _of_exchange, matching.sources({}))
    checked.close()
    silent = dict.fromkeys(SILENT_FLAGS, "turn" not in table) | {
        "no_finish": "finish" in table,
        "no_usage": "usage" in table,
        "no_done": events.has_done,
    }
    return DeclaredDialect(
        api=name,
        operation=operation,
        parse=events.parser(None, Allowance(), is_certain=False),
        tokens=tokens,
        finish_ends=events.finish_ends,
        has_done=events.has_done,
        repeats=not _tests_texts(table) and "turn" not in table,
        silent=frozenset(flag for flag, is_declared in silent.items() if not is_declared),
        has_turns="turn" in table,
        is_declared=True,
        declaration=table,
        version=version_of(table),
        match=match,
        parser_of=lambda exchange, allowance, is_certain: events.parser(exchange, allowance, is_certain=is_certain),
        attributes_of=from_request,
        eof_ends=eof,
        unread=tuple(sorted(_COUNTED.difference(re.findall(r"\w+", json.dumps(table, default=str))))),
        ignored=tuple(ignored),
    )


def _tests_texts(table: Mapping[str, Any]) -> bool:
    """Return True if conditions of a checked table may look at a text itself: then no two texts mean the same."""
    rules = []
    for name in _MAKERS:
        entries = table.get(name, [])
        for entry in entries if isinstance(entries, list) else [entries]:
            rules.append((name, {"at": entry} if isinstance(entry, str) else entry))
    read_paths = [rule[part] for name, rule in rules if name in _TEXTS for part in ("at", "args") if part in rule]
    conditions = [*(rule.get("when") for _, rule in rules), table.get("only")]
    tables = [condition for condition in conditions if isinstance(condition, dict)]
    tested_paths = [path for tests in tables for path, expected in tests.items() if expected != "*"]
    if "key" in table and _KEY.fullmatch(table["key"]) is None:
        tested_paths.append(table["key"])
    text_keys = {key for path in read_paths for key in paths.last_keys(path)}
    tested_keys = {key for path in tested_paths for key in paths.last_keys(path)}
    tested_keys |= {key for path in (*read_paths, *tested_paths) for key in paths.filtered_keys(path)}
    return not text_keys.isdisjoint(tested_keys) or ("." in text_keys and "root" in table)


def version_of(table: Mapping[str, Any]) -> str:
    """Return the hash of a declaration, by its values alone."""
    values = json.dumps(table, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(values.encode("utf-8", "backslashreplace")).hexdigest()[:12]


def tokens(usage: JsonObject) -> Tokens:
    """Return the counts of the usage of any declared dialect."""
    counts: dict[str, Any] = {name: usage.get(f"{name}_tokens") for name in _COUNTS}
    return Tokens(**counts)


class _Events:
    """The rules of a declaration for events, by the kinds of these."""

    def __init__(self, name: str, table: CheckedTable) -> None:
        self._name = name
        self._kind = table.read("key", _kind, None)
        self._root = table.read("root", _root, None)
        self._only = table.read("only", _condition, None)
        self._answer = table.read("answer", tests, None)
        table.read("answer", _condition, None)
        self._ids = [_path(path) for path, expected in (self._answer or {}).items() if str(expected).startswith("$")]
        self.has_done = table.read("done", flag, False)
        self.finish_ends = table.read("finish-ends", flag, False)
        rules = [_turn_rule(entry) for entry in table.tables("turn")]
        self._turn = rules[0] if rules else None
        self._common: list[_Rule] = []
        self._by_kind: dict[str, list[_Rule]] = {}
        self._read_rules(table)

    def parser(self, exchange: Exchange | None, allowance: Allowance, *, is_certain: bool) -> Parse:
        """Return the parser of one stream; `is_certain`: all events are its own, also those that say nothing."""
        past, answer_test = _Past(), None
        if self._answer is not None:

            def request_field(name: str) -> Any:
                path = name.removeprefix("request.")
                return None if exchange is None or path == name else matching.request_value(exchange, path)

            answer_test = paths.condition(self._answer, request_field)
            # Each request of a batch has an answer of its own.
            batch = None if exchange is None or not self._ids else matching.request_value(exchange, ".")
            for request in batch if isinstance(batch, list) else ():
                past.unanswered_ids |= {str(id) for get in self._ids if (id := get(request)) is not None}
        name, kind_of, root_of, root_test = self._name, self._kind, self._root, self._only
        past.thread = thread_at((exchange or Exchange()).path)
        common = _Rules.of(self._common)
        by_kind = {kind: _Rules.of(rules) for kind, rules in self._by_kind.items()}

        def parse(payload: Any, event: str = "message", fault: ReportedError | None = None) -> Chunk | None:
            kind = None if kind_of is None else kind_of(payload, event)
            is_answer = answer_test is not None and answer_test(payload)
            if answer_test is not None and not is_answer:
                rules = _Rules.of(self._attributes)
            else:
                rules = common if kind is None else by_kind.get(kind, common)
            past.uncounted_steps += len(rules.actions) + (rules.walks * _breadth(payload) if rules.walks else 0)
            if past.uncounted_steps >= _STEPS_OF_LINE:
                allowance.take(past.uncounted_steps // _STEPS_OF_LINE)
                past.uncounted_steps %= _STEPS_OF_LINE
            draft = self._new_draft(
                payload, past, None if kind is not None else fault, answer_test, is_answer=is_answer
            )
            root = payload if root_of is None else root_of(payload, kind)
            if (root is not None or payload is None) and (root_test is None or root_test(root)):
                for act in rules.actions:
                    act(root, draft, past)
                if past.progress_texts and not past.has_content and (draft.ends or draft.finish):
                    # Texts of progress are the answer of a stream that ends without another.
                    draft.content, draft.is_cumulative, past.has_content = "".join(past.progress_texts), True, True
            past.is_recognised = past.is_recognised or is_certain or kind in by_kind
            chunk = _chunk(name, draft, is_answer, past.is_recognised)
            past.is_recognised = past.is_recognised or chunk is not None
            allowance.take_text(draft.size)
            return chunk

        def parse_batch(payload: Any, event: str = "message", fault: ReportedError | None = None) -> Chunk | None:
            if type(payload) is not list:
                return parse(payload, event, fault)
            return _merge_batch([chunk for message in payload if (chunk := parse(message, event)) is not None])

        return parse if answer_test is None else parse_batch

    def _new_draft(
        self, payload: Any, past: _Past, fault: ReportedError | None, answer_test: Condition | None, *, is_answer: bool
    ) -> _Draft:
        """Return the draft of an event before its rules: an answer ends a stream, if no other of a batch is missing."""
        if answer_test is None:
            return _Draft(fault=fault)
        ids = [str(id) for get in self._ids if (id := get(payload)) is not None]
        if is_answer:
            past.unanswered_ids.difference_update(ids)
            return _Draft(ends=not past.unanswered_ids, fault=fault)
        return _Draft(fault=None if ids else fault)

    def _read_rules(self, table: CheckedTable) -> None:
        """Read the rules; one that names no kinds is for the events of all kinds."""
        rules: list[tuple[tuple[str, ...], _Rule]] = []
        for name, maker in _MAKERS.items():
            for entry in table.tables(name, "at" if name in _BARE else None):
                kinds, condition = entry.read("on", texts, ()), entry.read("when", _compile_when, None)
                action = maker(entry)
                rule = _Rule(action if condition is None else _conditional(condition, action), _walks(entry.values))
                rules.append((kinds, rule))
        all_kinds = {*table.read("kinds", texts, ())}
        all_kinds |= set() if self._turn is None else self._turn.begins | self._turn.ends
        if self._kind is None and (all_kinds or any(kinds for kinds, _ in rules)):
            raise DeclarationError(table.key, "on names kinds of events: key must say where an event has its kind")
        from_events = table.read("attributes", _of_events, {})
        paths_by_name = table.values.get("attributes", {})
        self._attributes = [
            _Rule(_attribute(name, get), _walks({name: paths_by_name[name]})) for name, get in from_events.items()
        ]
        rules += [((), rule) for rule in self._attributes]
        for kind in all_kinds.union(*(kinds for kinds, _ in rules)):
            actions = [rule for kinds, rule in rules if not kinds or kind in kinds]
            self._by_kind[kind] = actions if self._turn is None else self._turn.around(actions, kind)
        self._common = [rule for kinds, rule in rules if not kinds]
        if self._turn is not None:
            self._common = self._turn.around(self._common, "")


def _walks(entry: Mapping[str, Any]) -> int:
    """Return the number of visits of a rule to each value of an event, at most: 0 if its paths walk through no list."""
    values = [item for value in entry.values() for item in (value if isinstance(value, dict | list) else [value])]
    rule_paths = [value for value in values if isinstance(value, str)]
    if "each" not in entry and not any("[" in path for path in rule_paths):
        return 0
    return sum(1 + path.count("|") for path in rule_paths)


def _breadth(payload: Any) -> int:
    """Return the number of values in an event's data."""
    count, remaining = 0, [payload]
    while remaining:
        value = remaining.pop()
        count += 1
        if type(value) is dict:
            remaining += value.values()
        elif type(value) is list:
            remaining += value
    return count


def _chunk(api: str, draft: _Draft, is_answer: bool, is_own: bool) -> Chunk | None:
    """Return the findings in an event as a chunk; None if there are none, unless the event is the dialect's own."""
    pieces: tuple[Piece, ...] = ()
    tools = tuple(draft.tools) if draft.tools else ()
    if draft.content or draft.reasoning or tools or draft.finish:
        pieces = (Piece(0, content=draft.content, reasoning=draft.reasoning, tools=tools, finish_reason=draft.finish),)
    elif not (is_own or draft.has_findings):
        return None
    return Chunk(
        api,
        draft.id,
        draft.model,
        pieces,
        content=bool(draft.content) or draft.is_audio or (is_answer and draft.fault is None),
        reasoning=bool(draft.reasoning),
        tool=any([tool.name or tool.arguments for tool in tools]),
        usage=draft.usage,
        fault=draft.fault,
        ends=draft.ends,
        aborts=draft.aborts,
        is_cumulative=draft.is_cumulative,
        attributes=tuple(draft.attributes) if draft.attributes else (),
        begins=draft.begins,
        reason=draft.reason,
        finals=tuple(draft.finals) if draft.finals else (),
        provider_calls=int(draft.runs_tool),
        provider_results=int(draft.has_result),
        event=draft.event,
    )


def _effects(turn: _TurnRule, kind: str, draft: _Draft, past: _Past) -> tuple[Effect, ...]:
    """Return the findings in an event as effects on the turns of a session."""
    effects = [Effect(name="begin")] if kind in turn.begins else []
    message = f"{past.message}/{past.whole_count}"
    effects += [Effect(name="reasoning", key=message, text=draft.reasoning)] if draft.reasoning else []
    effects += [Effect(name="text", key=message, text=draft.content)] if draft.content else []
    for tool in draft.tools or ():
        key = tool.id or past.called_at.get(-1 if tool.index is None else tool.index, "")
        past.called_at[-1 if tool.index is None else tool.index] = key
        effects.append(Effect(name="call", key=key, tool=tool.name, text=tool.arguments))
    for final in draft.finals or ():
        if final.name == "content":
            effects.append(Effect(name="text", key=message, text=final.text, is_whole=True))
            past.whole_count += 1
        else:
            key = final.id or past.called_at.get(-1 if final.part is None else final.part, "")
            effects.append(Effect(name="call", key=key, text=final.text, is_whole=True))
    effects += [Effect(name="wait")] if draft.runs_tool else []
    effects += [Effect(name="resume")] if draft.has_result else []
    if draft.usage:
        effects.append(Effect(name="tokens", usage=draft.usage, tokens=tokens(draft.usage).of_turn))
    fault = draft.fault or ReportedError(None, None)
    if kind in turn.ends:
        outcome: TurnOutcome = "cancelled" if draft.aborts else "error" if draft.fault is not None else "complete"
        reason = draft.finish or draft.reason or None
        effects.append(Effect(name="end", outcome=outcome, reason=reason, code=fault.code, message=fault.message))
        past.is_in_turn = False
    elif draft.fault is not None:
        effects.append(Effect(name="error", code=fault.code, message=fault.message))
    return tuple(effects)


def _merge_batch(chunks: Sequence[Chunk]) -> Chunk | None:
    """Return the findings in the messages of a batch as those of one; None if there are none."""
    if not chunks:
        return None
    return replace(
        chunks[0],
        pieces=tuple(piece for chunk in chunks for piece in chunk.pieces),
        content=any([chunk.content for chunk in chunks]),
        fault=next((chunk.fault for chunk in chunks if chunk.fault is not None), None),
        ends=any([chunk.ends for chunk in chunks]),
        attributes=tuple(attribute for chunk in chunks for attribute in chunk.attributes),
    )


def _conditional(condition: Condition, action: _Action) -> _Action:
    def act(root: Any, draft: _Draft, past: _Past) -> None:
        if condition(root):
            action(root, draft, past)

    return act


def _turn_rule(entry: CheckedTable) -> _TurnRule:
    begins, ends = entry.read("on", texts, ()), entry.read("ends", texts, ())
    if not begins or not ends:
        raise DeclarationError(entry.key, "turn needs on and ends: the kinds of events that begin a turn, and end it")
    return _TurnRule(frozenset(begins), frozenset(ends), entry.read("by", _path, None))


def _foreign(entry: CheckedTable) -> _Action:
    message = _required(entry, "id")

    def act(root: Any, draft: _Draft, past: _Past) -> None:
        past.foreign.add(str(message(root)))

    return act


def _text(entry: CheckedTable) -> _Action:
    get, message, if_none = _text_rule(entry)
    of = entry.read("of", _path, None)

    def act(root: Any, draft: _Draft, past: _Past) -> None:
        if of is not None:
            id = of(root)
            past.message = past.message if id is None else str(id)
            draft.is_cumulative = draft.is_cumulative or id is None
            if past.message in past.foreign:
                return
        if (if_none and past.has_content) or not (addition := get(root)):
            return
        if message is not None:
            addition = past.so_far.setdefault(str(message(root)), _TextSoFar()).added(addition)
        draft.is_cumulative = draft.is_cumulative or if_none or message is not None
        draft.content += addition
        past.has_content = True

    return act


def _final(entry: CheckedTable) -> _Action:
    get, _, _ = _text_rule(entry)

    def act(root: Any, draft: _Draft, past: _Past) -> None:
        if whole_text := get(root):
            draft.finals = [*(draft.finals or ()), FinalText(0, "content", None, whole_text)]

    return act


def _progress(entry: CheckedTable) -> _Action:
    get, _, _ = _text_rule(entry)

    def act(root: Any, draft: _Draft, past: _Past) -> None:
        if note := get(root):
            past.progress_texts.append(note)

    return act


def _reasoning(entry: CheckedTable) -> _Action:
    get, message, if_none = _text_rule(entry)

    def act(root: Any, draft: _Draft, past: _Past) -> None:
        if (if_none and past.has_reasoning) or not (addition := get(root)):
            return
        if message is not None:
            addition = past.so_far.setdefault(f"reasoning {message(root)}", _TextSoFar()).added(addition)
        draft.is_cumulative = draft.is_cumulative or if_none or message is not None
        draft.reasoning += addition
        past.has_reasoning = True

    return act


def _text_rule(entry: CheckedTable) -> tuple[Getter, Getter | None, bool]:
    get = entry.read("at", lambda value: paths.text(text(value)), None)
    if get is None:
        raise DeclarationError(entry.key, "at is missing: the path of the text")
    return get, entry.read("so-far", _path, None), entry.read("if-none", flag, False)


def _audio(entry: CheckedTable) -> _Action:
    get = _required(entry, "at")

    def act(root: Any, draft: _Draft, past: _Past) -> None:
        if not draft.content and get(root):  # beside a text it makes no difference
            draft.is_audio = True

    return act


def _tool(entry: CheckedTable) -> _Action:
    calls = entry.read("each", lambda value: paths.each_value(text(value)), None)
    key, id, name = (entry.read(field, _path, _no_value) for field in ("key", "id", "name"))
    arguments, whole = (entry.read(field, _path, _no_value) for field in ("args", "whole"))

    def act(root: Any, draft: _Draft, past: _Past) -> None:
        for call in [root] if calls is None else calls(root):
            call_id, position = _text_or_empty(id(call)), index(key(call))
            call_key = call_id or ("" if position is None else str(position))
            text = _as_text(arguments(call))
            if not text and (whole_value := whole(call)) is not None:
                draft.is_cumulative = True
                if call_key in past.called_ids:
                    final = FinalText(0, "arguments", position, _as_text(whole_value), id=call_id)
                    draft.finals = [*(draft.finals or ()), final]
                else:
                    text = _as_text(whole_value)
            if text and call_key:
                past.called_ids.add(call_key)
            piece = ToolPiece(position, call_id, _text_or_empty(name(call)), text)
            if piece.name or text or call_id:
                draft.tools = draft.tools or []
                draft.tools.append(piece)

    return act


def _usage(entry: CheckedTable) -> _Action:
    get = entry.read("at", _path, None)
    per = entry.read("per", _path, None)
    readers: dict[str, Getter] = {}
    for name in _COUNTS:
        reader = entry.read(name, lambda value: paths.number(text(value)), None)
        if reader is not None:
            readers[f"{name}_tokens"] = reader
    if not readers:
        raise DeclarationError(entry.key, f"usage names no count: it has some of {', '.join(_COUNTS)}")

    def act(root: Any, draft: _Draft, past: _Past) -> None:
        usage = root if get is None else get(root)
        counts = {name: value for name, reader in readers.items() if (value := reader(usage)) is not None}
        if not counts:
            return
        if per is not None:
            answer = str(per(root))
            previous = past.usages.get(answer, {})
            # Input is reported first, output last, and 0 for the other: the larger count of each is right.
            merged = previous | {name: max(value, previous.get(name, 0)) for name, value in counts.items()}
            if "total_tokens" in merged:
                known_sum = merged.get("input_tokens", 0) + merged.get("output_tokens", 0)
                merged["total_tokens"] = max(merged["total_tokens"], known_sum)
            past.total.update({name: value - previous.get(name, 0) for name, value in merged.items()})
            past.usages[answer], counts = merged, dict(past.total)
        draft.usage = counts

    return act


def _set_text(name: Literal["finish", "model", "id"], entry: CheckedTable) -> _Action:
    """Make an action that sets a text of the draft, if the event has one."""
    get = entry.read("at", lambda value: paths.text(text(value)), None) or _missing(entry, "at")

    def act(root: Any, draft: _Draft, past: _Past) -> None:
        if value := get(root):
            setattr(draft, name, value)

    return act


def _set_mark(name: Literal["begins", "runs_tool", "has_result"], entry: CheckedTable) -> _Action:
    """Make an action that sets a mark of the draft."""

    def act(root: Any, draft: _Draft, past: _Past) -> None:
        setattr(draft, name, True)

    return act


def _error(entry: CheckedTable) -> _Action:
    code, message = (entry.read(field, _path, _no_value) for field in ("code", "message"))
    reasons = entry.read("finish", _finish_reasons, None)

    def act(root: Any, draft: _Draft, past: _Past) -> None:
        if reasons is not None and draft.finish not in reasons:
            return
        value, previous = code(root), draft.fault
        is_code = isinstance(value, str | int) and not isinstance(value, bool) and value != ""
        own_code = str(value) if is_code else previous.code if previous else None
        own_message = _as_text(message(root)) or _text_or_empty(root)
        draft.fault = ReportedError(
            own_code or (draft.finish if reasons is not None else None),
            own_message or (previous.message if previous else None),
        )

    return act


def _end(entry: CheckedTable) -> _Action:
    reasons = entry.read("finish", _finish_reasons, None)

    def act(root: Any, draft: _Draft, past: _Past) -> None:
        draft.ends = draft.ends or reasons is None or draft.finish in reasons

    return act


def _abort(entry: CheckedTable) -> _Action:
    reason = entry.read("reason", lambda value: paths.text(text(value)), None)

    def act(root: Any, draft: _Draft, past: _Past) -> None:
        draft.aborts = True
        draft.reason = "" if reason is None else reason(root)

    return act


_MAKERS: Final[dict[str, Callable[[CheckedTable], _Action]]] = {
    "foreign": _foreign,
    "text": _text,
    "final": _final,
    "progress": _progress,
    "reasoning": _reasoning,
    "audio": _audio,
    "tool": _tool,
    "usage": _usage,
    "model": partial(_set_text, "model"),
    "id": partial(_set_text, "id"),
    "finish": partial(_set_text, "finish"),
    "error": _error,
    "begin": partial(_set_mark, "begins"),
    "end": _end,
    "abort": _abort,
    "run": partial(_set_mark, "runs_tool"),
    "result": partial(_set_mark, "has_result"),
}
"""The rules for events, in the order in which they are followed: errors and ends look at the finish reason."""
_TEXTS: Final = ("text", "final", "progress", "reasoning", "tool")
_BARE: Final = ("text", "final", "progress", "reasoning", "audio", "model", "id", "finish")


def _attribute(name: str, get: Getter) -> _Action:
    def act(root: Any, draft: _Draft, past: _Past) -> None:
        if (value := get(root)) is not None:
            draft.attributes = draft.attributes or []
            draft.attributes.append((name, value))

    return act


def _of_exchange(value: Any) -> Callable[[Exchange], JsonObject]:
    return matching.sources({name: path for name, path in _named_paths(value).items() if matching.is_source(path)})


def _of_events(value: Any) -> dict[str, Getter]:
    return {name: paths.value(path) for name, path in _named_paths(value).items() if not matching.is_source(path)}


def _named_paths(value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(name, str) and len(name) <= 64 for name in value):
        raise ValueError("must be a table of names with the paths of their values")
    return {name: text(path) for name, path in value.items()}


def _eof(table: CheckedTable) -> Callable[[Exchange], bool]:
    if isinstance(table.get("eof"), bool):
        is_end = table.read("eof", flag, False)
        return lambda _: is_end
    alternatives = matching.alternatives(table, "eof")
    return lambda exchange: any(alternative.fits(exchange) for alternative in alternatives)


def _name(reserved: Sequence[str], value: Any) -> str:
    name = text(value)
    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,63}", name):
        raise ValueError(f"{name!r} must be at most 64 small letters, digits, dots, '-' and '_'")
    if name in reserved or name in rpc.FRAMINGS or name == "unknown":
        raise ValueError(f"{name} is a built-in dialect's: choose another")
    return name


def _operation(value: Any) -> Operation:
    if not isinstance(value, str) or value not in OPERATIONS or value == UNKNOWN:
        raise ValueError(f"must be one of {', '.join(name for name in OPERATIONS if name != UNKNOWN)}")
    return value


def _kind(value: Any) -> Callable[[Any, str], str | None]:
    """Compile the place of an event's kind: a path in its data, or `event:`, its name as a server-sent event."""
    event_name = _KEY.fullmatch(text(value))
    if event_name is None:
        get = paths.text(value)
        return lambda payload, event: get(payload) or None
    border = event_name[1]

    def kind(payload: Any, event: str) -> str | None:
        name = event if border is None else event.partition(border)[0]
        return None if name == "message" else name

    return kind


def _root(value: Any) -> Callable[[Any, str | None], Any]:
    """Compile the place from which paths start: one for all events, or one for each kind, and the data for others."""
    if not isinstance(value, dict):
        get = paths.value(text(value))
        return lambda payload, kind: get(payload)
    getters = {kind: paths.value(text(path)) for kind, path in value.items()}
    return lambda payload, kind: getters[kind](payload) if kind in getters else payload


def _condition(value: Any) -> Condition:
    return paths.condition(tests(value))


def _compile_when(value: Any) -> Condition:
    return _condition(value) if isinstance(value, dict) else paths.truthy(texts(value))


def _path(value: Any) -> Getter:
    return paths.value(text(value))


def _finish_reasons(value: Any) -> frozenset[str]:
    return frozenset(texts(value))


def _required(entry: CheckedTable, name: str) -> Getter:
    return entry.read(name, _path, None) or _missing(entry, name)


def _missing(entry: CheckedTable, name: str) -> Any:
    raise DeclarationError(entry.key, f"{name} is missing")


def _no_value(_: Any) -> None:
    return None


def _text_or_empty(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else compact(value)
