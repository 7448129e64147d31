"""API dialects, and the records that they turn payloads into.

A *dialect* is how one API writes its answers as JSON objects: one module each in `dialects`, listed in
`dialects.registry`. Each object becomes a `Chunk`. Every value may have the wrong type: what cannot be read is absent.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from wiretape.recorder.decode.effects import SessionEvent
from wiretape.recorder.decode.exchange import Operation
from wiretape.recorder.decode.turns import TurnTokens
from wiretape.recorder.decode.values import JsonObject, count

if TYPE_CHECKING:
    from wiretape.recorder.decode.exchange import Exchange


@dataclass(frozen=True, slots=True)
class ReportedError:
    """An error that the upstream reports in its own words; `code` falls back to the error's type."""

    code: str | None
    message: str | None


@dataclass(frozen=True, slots=True)
class ToolPiece:
    """The addition of one chunk to one tool call; `index` and `id` are the wire's, None and "" where it has none.

    `whole` means that the call came in one piece: it never continues another, and arguments that follow hold instead.
    """

    index: int | None
    id: str
    name: str
    arguments: str
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Piece:
    """The addition of one chunk to one choice. Text is "" where nothing came.

    `part` tells apart texts of one choice that are finished one by one, in the wire's numbers; None if it has none.
    """

    index: int
    content: str = ""
    reasoning: str = ""
    refusal: str = ""
    tools: tuple[ToolPiece, ...] = ()
    finish_reason: str | None = None
    part: int | None = field(default=None, compare=False)


class FinalText(NamedTuple):
    """A finished text, which deltas may have brought before: `finals` compares it with them.

    `name` is `content`, `reasoning`, `refusal` or `arguments`, `part` the part of a text, or the index of a call, which
    may have an `id` instead. Texts of a higher `level` hold all those of a lower one: an item holds its parts.
    """

    choice: int
    name: str
    part: int | None
    text: str
    level: int = 0
    id: str = ""


@dataclass(frozen=True, slots=True)
class Chunk:
    """One payload.

    `content`, `reasoning` and `tool` are True if any choice has output of that class: audio and encrypted reasoning
    count although they add no text.
    """

    api: str
    """The dialect that claims it, "" if none does."""
    id: str = ""
    model: str = ""
    pieces: tuple[Piece, ...] = ()
    content: bool = False
    reasoning: bool = False
    tool: bool = False
    usage: JsonObject | None = None
    fault: ReportedError | None = None
    """The error that it reports, alone or beside output."""
    flags: tuple[str, ...] = ()
    """The flags of `exchange.FLAGS` that it raises."""
    ends: bool = False
    """True of the event that ends a stream of the dialect, and of a whole answer; a stream without it was truncated."""
    ping: bool = False
    """True if it only keeps the connection open."""
    aborts: bool = False
    """True if it says that the answer stays incomplete; `reason` is why."""
    is_cumulative: bool = False
    """True if its text depends on the chunks before, so that an equal payload may mean another text."""
    attributes: tuple[tuple[str, Any], ...] = ()
    whole: bool = False
    """True if its pieces are whole messages, no additions."""
    begins: bool = False
    """True if it begins an answer, also behind the end of another one."""
    reason: str = ""
    finals: tuple[FinalText, ...] = field(default=(), compare=False)
    """The texts that it finishes."""
    reported: JsonObject | None = field(default=None, compare=False)
    """The times and quotas that the server reports in it (`reported.in_payload`)."""
    event: SessionEvent | None = field(default=None, compare=False)
    """Its meaning for the turns of a hosted agent's session."""
    provider_calls: int = 0
    provider_results: int = 0
    """Tools that the provider runs itself: those that it calls here, and those whose results it brings."""

    @property
    def may_repeat(self) -> bool:
        """True if it may bring texts that came before, or that come again: see `finals`."""
        if self.finals or self.whole:
            return True
        return self.tool and any(
            [tool.whole and tool.index is not None for piece in self.pieces for tool in piece.tools]
        )

    @property
    def output(self) -> bool:
        """True if it carries content, reasoning, or the name or arguments of a tool call."""
        return self.content or self.reasoning or self.tool

    @property
    def counts(self) -> bool:
        """True if statistics count it as a chunk: an error only if it carries output, a ping never."""
        return self.output or (self.fault is None and not self.ping)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """The counts that usage reports, in the terms of OpenTelemetry's conventions; None where it reports none.

    `input` is the total: it includes the tokens that a cache read and wrote. The other counts are copied.
    `cache_write_1h` are the tokens of `cache_write` that the cache keeps for an hour. `has_other_models`: other models
    than that of the answer took part, whose tokens have a price of their own.
    """

    input: int | None = None
    output: int | None = None
    total: int | None = None
    reasoning: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    cache_write_1h: int | None = None
    has_other_models: bool = False

    @property
    def of_turn(self) -> TurnTokens:
        """The counts that a turn of a session has."""
        return TurnTokens(input=self.input, input_cached=self.cache_read, output=self.output)

    @property
    def uncached(self) -> int | None:
        """Input tokens that neither a cache read nor wrote; None where the counts contradict each other.

        A missing count of cached tokens is 0: APIs omit a count of 0, or have no such cache. With other models, those
        of this one are unknown, and so is the cost.
        """
        if self.input is None or self.has_other_models:
            return None
        return count(self.input - (self.cache_read or 0) - (self.cache_write or 0))


Parse = Callable[[JsonObject, str, ReportedError | None], Chunk | None]
"""Reads one JSON object, which came in an event of this type ("message" by default) and reports this error, if any.

Returns None if the object is not of the dialect.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One API's way to write its answers.

    `api` is its name on the tape, `operation` the default where the path names none. `tokens` reads the usage of a
    whole answer. `finish_ends` means that a finish reason for every choice ends a stream, as an event that `ends` does,
    and `has_done` that `[DONE]` does; `eof_ends` returns True if the end of the body as framed ends the stream of an
    exchange. `parser` makes a `Parse` for each stream, if the meaning of an object depends on earlier ones, or on the
    request. `repeats` means that objects that are equal mean the same, wherever they stand in a stream. `silent` are
    flags that say nothing of it: it has no such things. `is_declared`: it was declared, not written in Python.
    `forgives_empty_errors`: an error event without a code and a message is no error if output follows. `has_turns`: a
    stream tells the turns of a session; its chunks have events, of which `agent_turns` makes turns and output.
    """

    api: str
    operation: Operation
    parse: Parse
    tokens: Callable[[JsonObject], Tokens]
    finish_ends: bool = False
    has_done: bool = False
    eof_ends: "Callable[[Exchange], bool]" = lambda _: False
    parser: "Callable[[Exchange], Parse] | None" = None
    repeats: bool = True
    silent: frozenset[str] = frozenset()
    is_declared: bool = False
    forgives_empty_errors: bool = False
    has_turns: bool = False
