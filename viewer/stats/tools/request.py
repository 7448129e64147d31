"""One exchange as a measuring tool sees it, and the errors that make the tool give up.

The tools differ in their units: some read the lines of the body, some the blocks between blank lines. `BodyFrame` keeps
both, at the timestamp of the read with its last byte. `engines`, `clients` and `tracers` have the tools' rules.
"""

import functools
import json
import re
from array import array
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import sub
from typing import Any, Final, NamedTuple

import msgspec

from wiretape.recorder.decode.decoder import COMMENT, EVENT, RECORD, Decoded, Item
from wiretape.recorder.decode.dialects import chat, registry
from wiretape.recorder.decode.exchange import NOT_SHIPPED, Exchange, Outcome
from wiretape.recorder.decode.runs import ItemRun
from wiretape.recorder.decode.usage_fields import is_from_timings
from wiretape.recorder.decode.values import JsonObject

Numbers = dict[str, "float | list[float] | array[float] | None"]
"""A tool's own numbers for one exchange, by its own names, in ms unless the name says otherwise; None is unknown.

A list may be an array instead, which takes a third of the memory.
"""

CountTokens = Callable[[str], int]
"""Counts the tokens of a text as a tokenizer does, without its special tokens."""

_BOM: Final = b"\xef\xbb\xbf"
"""A byte order mark, one of which the standard drops in front of a stream of events."""
_LINE_ENDS: Final = re.compile("[\x85\u2028\u2029]")

LEFT: Final = "the client left"
"""Reason to leave an exchange out: its client left although the tool would have read on."""


class Judged(NamedTuple):
    """The measures of an exchange that tools need: `duration_ns` is from T0 to `[DONE]`, else to the end."""

    outcome: Outcome
    error_code: str | None
    duration_ns: int | None
    flags: Sequence[str] = ()


class ClientLeft(Exception):
    """The client left, and a tool had no reason to: by its own rule it would have read on."""


class ToolError(Exception):
    """A tool's reason to count a request as failed, in that tool's words.

    `numbers` are those that the tool records in spite of it.
    """

    def __init__(self, reason: str, *, numbers: Numbers | None = None) -> None:
        super().__init__(reason)
        self.numbers = numbers


@dataclass(frozen=True, slots=True)
class BodyFrame:
    """An event, a comment, or the unterminated rest of a body (`is_terminated` is False), with its raw bytes.

    One frame stands for several events in a row that differ only in one text, which is never empty; its bytes are those
    of one of them. `at_ns` has the timestamp of each event.
    """

    at_ns: Sequence[int]
    comment: bool
    type: str
    data: str
    raw: bytes
    is_terminated: bool = True

    def lines(self) -> list[bytes]:
        """Return its lines that are not blank, without the white space around them."""
        return [line for line in map(bytes.strip, self.raw.splitlines()) if line]


@dataclass(frozen=True)
class MeasuredRequest:
    """The input of a tool's rule: one exchange.

    `decoded` is the body, None where no tool looks at it, and `api` its API; `is_litellm`: LiteLLM's proxy answered, by
    its headers. `requested_tokens` is the request's limit of the answer's tokens. `count_tokens` is None without a
    tokenizer.
    """

    exchange: Exchange
    judged: Judged
    decoded: Decoded | None = None
    api: str = chat.API
    is_litellm: bool = False
    requested_tokens: int | None = None
    count_tokens: CountTokens | None = None

    @functools.cached_property
    def frames(self) -> Sequence[BodyFrame]:
        """The events and comments of the body, and its unterminated rest."""
        return () if self.decoded is None else list(_frames(self.decoded, self))

    @functools.cached_property
    def runs(self) -> list[ItemRun]:
        """The runs of several events that one frame stands for: none with a tokenizer, which counts every text."""
        if self.decoded is None or self.count_tokens is not None:
            return []
        several = (run for run in self.decoded.runs if len(run) > 1)
        # Some tools end a line at these, too.
        return [run for run in several if (text := "".join(run.texts)).isascii() or not _LINE_ENDS.search(text)]

    @property
    def client_left(self) -> bool:
        """True if the client left before the stream was complete."""
        return self.judged.outcome == "client_closed"

    def check_status(self, successes: range = range(200, 201)) -> None:
        """Raise `ToolError` if no response came, or one whose status is not a success."""
        if self.exchange.status is None:
            if self.client_left:
                raise ClientLeft
            raise ToolError(f"no answer ({self.exchange.ended_by})")
        if self.exchange.status not in successes:
            raise ToolError(f"HTTP {self.exchange.status}")

    def check_end(self) -> None:
        """Raise `ToolError` if the connection broke within the body, or `ClientLeft` if the client left before its end.

        A tool's rule calls this after all data received: an objection before that is the tool's own failure, even if it
        then hung up; a later one is not.
        """
        if self.client_left:
            raise ClientLeft
        clean_ends = frozenset({"end", "client", "client_stalled"})
        if self.exchange.ended_by not in clean_ends:
            raise ToolError(f"connection broke ({self.exchange.ended_by})")

    def tokens_of(self, texts: Sequence[str]) -> int | None:
        """Count the tokens of texts put together; None without a tokenizer."""
        return None if self.count_tokens is None else self.count_tokens("".join(texts))

    def reported_tokens(self) -> int | None:
        """Return the completion tokens of the last usage that has them, wherever it stands; no tool reads timings."""
        runs = self.decoded.runs if self.decoded is not None else ()
        chunks = (run.chunk for run in reversed(runs) if run.chunk.usage and not is_from_timings(run.chunk.usage))
        reported = (registry.tokens(chunk).output for chunk in chunks)
        return next((tokens for tokens in reported if tokens is not None), None)

    def chunk_times(self, *, output: bool) -> list[int]:
        """Return the timestamps of the chunks with output, or of all except pings and errors without output."""
        if self.decoded is None:
            return []
        at_ns, runs = self.decoded.at_ns, self.decoded.runs
        counted = (run for run in runs if (run.chunk.output if output else run.chunk.counts))
        return [at for run in counted for at in at_ns[run.items] if at is not None]

    def finish_ns(self) -> int | None:
        if self.decoded is None:
            return None
        runs = (run for run in reversed(self.decoded.runs) if any(piece.finish_reason for piece in run.chunk.pieces))
        return next((self.decoded.at_ns[run.items.stop - 1] for run in runs), None)


def request(
    exchange: Exchange, body: Decoded, judged: Judged, apis: Collection[str] = (chat.API,), *, has_whole: bool = False
) -> MeasuredRequest | str:
    """Return an exchange as seen by a tool that measures these APIs, or the reason to leave it out.

    A stream that no dialect has recognised is taken for one of chat completions. A tool that `has_whole` measures
    answers that are not streamed, too.
    """
    seen = MeasuredRequest(exchange, judged)
    api = body.api if body.api is not None and body.api in apis else chat.API
    is_known = body.framing == "sse" and (body.api in (api, None) or "malformed" in body.flags)
    is_litellm = any(name.startswith("x-litellm-") for name, _ in exchange.headers.response)
    is_whole_answer = has_whole and not body.stream and body.api == api
    return admitted(
        seen,
        replace(seen, decoded=body, api=api, is_litellm=is_litellm),
        is_stream=body.stream or is_whole_answer or NOT_SHIPPED in judged.flags,
        is_whole=is_whole(exchange, body) and NOT_SHIPPED not in judged.flags,
        is_known=is_whole_answer or (is_known and not (body.runs and EVENT not in body.kinds)),
    )


def admitted(
    seen: MeasuredRequest, with_body: MeasuredRequest, *, is_stream: bool, is_whole: bool, is_known: bool
) -> MeasuredRequest | str:
    """Return an exchange as `seen` without its body, or with the `with_body` of it, or the reason of its exclusion.

    `is_known`: the body is server-sent events of an API that the tool measures.
    """
    if seen.judged.outcome == "open":
        return "still open"
    if (status := seen.exchange.status) is None or status >= 300:
        return seen
    if not is_stream:
        return "not streamed"
    if not is_whole:
        return "not wholly on the tape"
    if not is_known:
        return LEFT if seen.client_left else "of an API that it does not measure"
    return with_body


def load(text: bytes | str, place: str) -> JsonObject:
    payload = load_any(text, place)
    if not isinstance(payload, dict):
        raise ToolError(f"TypeError on {place} that is no object")
    return payload


def load_any(text: bytes | str, place: str) -> Any:
    """Parse a JSON value as a tool does; `place` is for the error message."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError):
        try:  # the tools use the standard library's reader, which takes NaN and lone surrogates
            return json.loads(text)
        except (ValueError, RecursionError):
            raise ToolError(f"JSONDecodeError on {place}") from None


def place(line: bytes) -> str:
    """Return the name of a line of the body that a tool cannot read."""
    if line.startswith(b":"):
        return "SSE comment line"
    if line.startswith(b"data:"):
        return "data line" if line.startswith(b"data: ") else "'data:' without a space"
    return "SSE field line"


def first_choice(payload: JsonObject) -> JsonObject | None:
    """Return the first choice of a payload, {} where it is no object, None where there is no choice."""
    choices = payload.get("choices")
    if not isinstance(choices, list) or not choices:
        return None
    return choices[0] if isinstance(choices[0], dict) else {}


def part(choice: JsonObject, name: str) -> JsonObject:
    value = choice.get(name)
    return value if isinstance(value, dict) else {}


def text_of(content: Any) -> str:
    """Return a content that a tool puts together with others; raise `ToolError` if it is no string."""
    if not isinstance(content, str):
        raise ToolError("TypeError: the content is no text")
    return content


def completion_tokens(payload: JsonObject, api: str = chat.API) -> int | None:
    usage = payload.get("usage")
    return registry.BY_API[api].tokens(usage).output if isinstance(usage, dict) else None


def ms(ns: float) -> float:
    return ns / 1e6


def gaps(at: Sequence[int]) -> list[float]:
    return [gap / 1e6 for gap in map(sub, at[1:], at)]


def per_token(window_ns: float, tokens: int | None) -> float | None:
    """Return the ms for each token after the first; None without a count of at least 2."""
    return ms(window_ns) / (tokens - 1) if tokens is not None and tokens > 1 else None


def is_whole(exchange: Exchange, decoded: Decoded) -> bool:
    """Return True if all of a body is on the tape, with the timestamp of each of its events."""
    return not exchange.gap_bytes and decoded.whole and None not in decoded.at_ns


def _frames(decoded: Decoded, seen: MeasuredRequest) -> Iterator[BodyFrame]:
    covered = len(_BOM) if decoded.data.startswith(_BOM) else 0
    for item, items in _apart(list(_items(decoded, seen.runs))):
        yield from _undispatched(decoded, covered, decoded.starts[items.start])
        times = [at for at in decoded.at_ns[items] if at is not None]
        raw = decoded.data[item.start : item.end]
        yield BodyFrame(times, item.kind == "comment", item.type, item.data, raw)
        covered = max(covered, decoded.ends[items.stop - 1])
    remainder = decoded.data[covered:]
    if seen.client_left:
        # The client left in the middle of a line, before a tool could read it.
        remainder = remainder[: max(remainder.rfind(b"\n"), remainder.rfind(b"\r")) + 1]
    if remainder.strip():
        last_item = decoded.runs[-1].items.stop - 1 if decoded.runs else -1
        is_remainder = last_item >= 0 and decoded.kinds[last_item] == RECORD
        at_ns = decoded.at_ns[last_item] if is_remainder else decoded.ended_ns
        lines = [line[5:].removeprefix(b" ") for line in remainder.splitlines() if line.startswith(b"data:")]
        data = b"\n".join(lines).decode("utf-8", "replace")
        at_ns = (seen.exchange.end_ns or 0) if at_ns is None else at_ns
        yield BodyFrame([at_ns], remainder.startswith(b":"), "message", data, remainder, False)


def _undispatched(decoded: Decoded, start: int, end: int) -> Iterator[BodyFrame]:
    """Yield the lines between two items: of blocks without data, which the standard drops and some tools read."""
    raw = decoded.data[start:end]
    if raw.strip():
        at_ns = decoded.read_at_ns[bisect_left(decoded.read_ends, end)]
        if at_ns is not None:
            yield BodyFrame([at_ns], False, "", "", raw)


def _items(decoded: Decoded, runs: Sequence[ItemRun]) -> Iterator[tuple[Item, slice]]:
    """Yield the events and comments with their places; of each run one event, whose text is not blank if any is not."""
    runs_by_item = {run.item: run for run in runs}
    no = 0
    while no < len(decoded.kinds):
        run = runs_by_item.get(no)
        items = run.items if run else slice(no, no + 1)
        if decoded.kinds[no] in (EVENT, COMMENT):
            texts = run.texts if run else ()
            yield decoded.item(no + next((at for at, text in enumerate(texts) if not text.isspace()), 0)), items
        no = items.stop


def _apart(items: Sequence[tuple[Item, slice]]) -> list[tuple[Item, slice]]:
    """Leave out the comments between the lines of an event: they are among that event's bytes."""
    separate: list[tuple[Item, slice]] = []
    block: int | None = None
    for item, span in reversed(items):
        if item.kind == "event":
            block = item.start
        elif block is not None and item.end > block:
            continue
        separate.append((item, span))
    return separate[::-1]
