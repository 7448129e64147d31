"""Frozen records of the facts on the wire, and the pure judgement that ends in an outcome.

The facts (`Exchange`, `Read`) are the relay's observations; nothing in them is interpreted. `judge` turns them, with
the `Evidence` that decoding the body gave, into exactly one outcome. The flags say everything else worth knowing.
Records that a stream may have by the hundred thousand are tuples, made in half the time of a dataclass. Timestamps are
integer nanoseconds since T0, the moment before the upstream request is issued; None is unknown.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, overload

from wiretape.recorder.decode import encoding, stalls
from wiretape.recorder.facts import Answered, Begun, Connected, Ended

Outcome = Literal[
    "open", "connect_error", "timeout", "http_error", "error_event", "client_closed", "truncated", "malformed",
    "interrupted", "complete",
]  # fmt: skip
Standing = Outcome | Literal["unmeasured", "orphan", "unknown"]
"""An outcome, or its substitute: ended without measures; open, but its recorder is gone; not a word of wiretape's."""
Verdict = tuple[Outcome, str | None]

OUTCOMES: Final[dict[Outcome, str]] = {
    "open": "still running, or not measured yet",
    "connect_error": "no connection, no headers",
    "timeout": "a limit was hit",
    "http_error": "status 300 or above",
    "error_event": "an error payload, a finish reason of a service that failed (error, abort, …), or a status of gRPC "
    "or Connect, after a 2xx",
    "client_closed": "the client left before the stream was complete",
    "truncated": "upstream ended before the stream was complete",
    "malformed": "complete, of an API known here, but at least one data event is not JSON",
    "interrupted": "the recorder stopped or died while it was open",
    "complete": "[DONE] or the API's own end of a stream came, or the end of a body that is not a stream, or the end"
    " of the HTTP framing of a stream that is not decoded; by gRPC or Connect, the status of a call that succeeded;"
    " over a WebSocket, all requested responses have ended, or, if none is known, it was closed in good order",
}

Operation = Literal[
    "chat", "generate_content", "text_completion", "embeddings", "rerank", "moderation", "image", "audio",
    "count_tokens", "models", "realtime", "agent_session", "mcp", "other", "unknown",
]  # fmt: skip

OPERATIONS: Final[dict[Operation, str]] = {
    "chat": "an answer to messages: chat completions, Responses, Messages, Converse, …",
    "generate_content": "an answer of Gemini",
    "text_completion": "a text that continues a prompt",
    "embeddings": "vectors of texts",
    "rerank": "an order of documents",
    "moderation": "a judgement of texts",
    "image": "images made or changed",
    "audio": "speech made or read",
    "count_tokens": "the number of tokens that a request would take",
    "models": "what models there are",
    "realtime": "a session of voice or text over a WebSocket, and each of its turns",
    "agent_session": "a stream of a session of an agent that runs at the provider, and each of its turns",
    "mcp": "a call by the Model Context Protocol: of a tool, for a list, …",
    "other": "anything else",
    "unknown": "a stream that is not decoded here, at a path whose answers are generated",
}
"""Every operation, and its meaning."""

_HTTP2_ERRORS: Final = (
    "no_error", "protocol_error", "internal_error", "flow_control_error", "settings_timeout", "stream_closed",
    "frame_size_error", "refused_stream", "cancel", "compression_error", "connect_error", "enhance_your_calm",
    "inadequate_security", "http_1_1_required",
)  # fmt: skip
"""The names of HTTP/2's error codes, in their order from 0 (RFC 9113, 7)."""

RESET_CODE: Final = re.compile(rf"(?:rst|goaway)_(?:{'|'.join(_HTTP2_ERRORS)}|0x[0-9a-f]{{1,8}})")
"""A name that `reset_code` returns."""


def reset_code(frame: Literal["rst", "goaway"], code: int) -> str:
    """Return the name of an HTTP/2 error code in a RST_STREAM or GOAWAY frame: `rst_cancel`, `goaway_0x42`."""
    return f"{frame}_{_HTTP2_ERRORS[code] if code < len(_HTTP2_ERRORS) else hex(code)}"


def reset_number(name: str) -> int:
    """Return the HTTP/2 error code that `reset_code` has named."""
    error = name.partition("_")[2]
    return _HTTP2_ERRORS.index(error) if error in _HTTP2_ERRORS else int(error, 16)


_RST: Final = "rst_NAME (HTTP/2: RST_STREAM with the error NAME)"
_RST_OR_GOAWAY: Final = "rst_NAME, goaway_NAME (HTTP/2: RST_STREAM or GOAWAY with the error NAME)"

DETAILS: Final[dict[Outcome, tuple[str, ...]]] = {
    "connect_error": ("dns", "refused", "tls", "reset", "protocol", "local", _RST_OR_GOAWAY),
    "timeout": ("connect", "headers", "idle"),
    "http_error": ("rate_limited", "client_error", "server_error", "redirect"),
    "error_event": ("before_output", "mid_stream", "finish"),
    "client_closed": ("stalled (the client stopped reading, or sending, and was cut; no stall of the answer)", _RST),
    "truncated": (
        "eof",
        "reset",
        "length",
        "framing",
        "aborted (upstream said so itself, as the AI SDK does when its answer is stopped)",
        "close_N (upstream closed a WebSocket with the code N)",
        _RST_OR_GOAWAY,
        "no_status (a stream of gRPC or Connect ended without the status of its call)",
        "unknown (upstream closed a stream that is not decoded and has no framing: it may have been whole)",
    ),
    "interrupted": ("shutdown", "local"),
}
"""The details of each outcome."""

FLAGS: Final[dict[str, str]] = {
    "asks_identity": "upstream was asked for no compression by --identity, not by the client: a compressor that holds "
    "a stream back does not show",
    "backpressure": "the client read so slowly that reading from upstream was paused",
    "buffered_by_compression": "half or more of the output chunks share a read with an earlier one, as the body came "
    "compressed, and its compressor was not flushed for them",
    "burst": f"{stalls.DEFAULT.burst_meaning}; also what is buffered by compression",
    "bytes_not_shipped": "the bytes of request and answer are not here: it was pulled from a server that does not have "
    "them; its measures and gaps are those that were shipped",
    "client_left": "the client closed early, after the stream was complete",
    "clock_suspect": "timestamps may be late by more than 1 ms: wiretape was busy when data came, or the kernel's "
    "clock is not the one that wiretape reads, as under libfaketime",
    "coalesced": "half or more of the output chunks share a read with an earlier one: gaps say little",
    "coarse_clock": "timestamps are not those of socket reads",
    "comments": "the stream holds comment lines, usually keep-alives",
    "continuation": "the answer began in an earlier exchange: the request continues it after a limit of tokens, or "
    "resumes its stream; TTFT is that of the first exchange, and withheld here",
    "decode_limit": "decoding stopped at a limit (bytes, lines, frames, events; at last, 20 s of CPU): only the "
    "beginning was decoded; bytes and reads count all data, and values that need the end are unknown",
    "duplicate": "the same request in its session at most 5 s before, both complete: paid twice; worked out when read, "
    "so that it is a filter and a flag of show, and lists have duplicate_of",
    "empty": "complete without any output",
    "empty_data": "an event with empty data",
    "error_field": "an error stood in an error: line, which the standard ignores",
    "given_up": "the client left in a stall of upstream's: no output had come for longer than the limit",
    "glued": "several payloads in one event, separated by one newline",
    "h2_offered": "the client offered HTTP/2, or spoke it, and upstream spoke HTTP/1.1",
    "hidden_tokens": "usage counts more tokens than the text can hold, as with hidden reasoning: rates are withheld",
    "id_changed": "the response id changes within the stream",
    "imported": "imported from another program's recording, with its timestamps",
    "malformed": "at least one data event of an API known here is not JSON",
    "multi_choice": "more than one choice; the content is that of the first",
    "multi_response": "several responses over one WebSocket, or turns of a hosted agent on one stream: TTFT and "
    "content are of the first, tokens and gaps of all",
    "no_done": "the stream has no [DONE]",
    "no_finish": "a choice has no finish reason",
    "no_timing": "the source has no timestamps within the body: measures of its timing are unknown",
    "no_usage": "the stream, or one of several responses over a WebSocket, has no usage of the answer",
    "nonstream": "the answer is not an event stream",
    "object_mismatch": "chunks do not call themselves chat.completion.chunk",
    "opaque_reasoning": "reasoning came encrypted",
    "pretty_printed": "a payload over several lines, where only the first has data:",
    "reasoning_additive": "total_tokens counts reasoning beside output_tokens",
    "rebuilt": "the body is built from the data in an imported file: its bytes are not the original ones",
    "request_not_stored": "the request body is not on the tape, or only its beginning",
    "sanitized": "text held NUL, lone surrogates or invalid UTF-8, now U+FFFD",
    "single_chunk": "the whole output came in one chunk or one read",
    "stall": stalls.DEFAULT.stall_meaning,
    "storage_gap": "bytes of the body, or of a client's WebSocket messages, are missing from the tape",
    "surplus_bytes": "upstream sent bytes after the end of the response",
    "total_unexplained": "total_tokens of usage is more than the sum of its counts: the remainder has no cost",
    "unclean_end": "the transport failed after the whole response had come",
    "undecoded": "a content encoding that is not decoded here, or a broken one",
    "unframed": "JSON stood in the stream outside of any event",
    "unknown_payload": "the stream's payloads are of no dialect known here: rates and latencies leave it out",
    "unterminated": "the last event lacks its blank line",
    "usage_from_timings": "tokens are those of llama.cpp's timings: no usage came",
    "wrong_coding": "the Content-Encoding is not that of the body, which was decoded by its beginning: clients fail",
}
"""Every flag that a measure can carry, or a reader raises, and its meaning."""

NOT_SHIPPED: Final = "bytes_not_shipped"
UNDECODED: Final = "unknown_payload"
"""The flag of a stream whose dialect is not known."""

SUSPECT_NS: Final = 1_000_000
"""Timestamps that may be later than this are flagged `clock_suspect`, in ns."""

FAILURES: Final = tuple(name for name in OUTCOMES if name not in ("complete", "open", "client_closed"))
"""The outcomes of a failed exchange; a running one, or one that the client left, has not failed."""

NOTABLE: Final = (
    "given_up", "stall", "buffered_by_compression", "burst", "storage_gap", "malformed", "empty", "backpressure",
    "unclean_end", "undecoded", "wrong_coding", "unknown_payload", "no_timing", "coarse_clock", "clock_suspect",
    "coalesced",
)  # fmt: skip
"""The flags that are shown where an exchange has only one line, the gravest first."""

_BROKEN = frozenset({"eof", "reset", "length", "framing", "idle_timeout", "shutdown", "local"})
_CLIENT = frozenset({"client", "client_stalled"})


class Read(NamedTuple):
    """One socket read: `size` bytes of the body at `start`; `relayed_ns` is the time of passing them to the client."""

    seq: int
    at_ns: int
    relayed_ns: int | None
    start: int
    size: int


@dataclass(frozen=True, slots=True)
class Reads(Sequence[Read]):
    """The reads of a body, in their order, as columns; as a sequence it is that of its `Read`s."""

    seq: Sequence[int]
    at_ns: Sequence[int]
    relayed_ns: Sequence[int | None]
    start: Sequence[int]
    size: Sequence[int]

    @classmethod
    def of(cls, reads: Sequence[Read]) -> "Reads":
        if isinstance(reads, cls):
            return reads
        return cls(*zip(*reads, strict=True)) if reads else cls((), (), (), (), ())

    def __len__(self) -> int:
        return len(self.seq)

    def __iter__(self) -> Iterator[Read]:
        return map(Read, self.seq, self.at_ns, self.relayed_ns, self.start, self.size)

    @overload
    def __getitem__(self, place: int) -> Read: ...
    @overload
    def __getitem__(self, place: slice) -> list[Read]: ...
    def __getitem__(self, place: int | slice) -> Read | list[Read]:
        if isinstance(place, slice):
            return [self[index] for index in range(*place.indices(len(self)))]
        return Read(self.seq[place], self.at_ns[place], self.relayed_ns[place], self.start[place], self.size[place])


@dataclass(frozen=True, slots=True)
class Sent:
    """The client's data over a WebSocket: the bytes, and the reads that brought them; `missing` were not stored."""

    reads: Reads
    data: bytes
    missing: int = 0


Pairs = tuple[tuple[str, str], ...]


class Headers(NamedTuple):
    """The headers of a request and of its response, and its trailers: names in small letters, and values."""

    request: Pairs = ()
    response: Pairs = ()
    trailers: Pairs = ()


NO_HEADERS: Final = Headers()


# Not frozen, though nothing changes one: making one of all these fields would take twice as long, for each exchange.
@dataclass(slots=True, kw_only=True, unsafe_hash=True)
class Exchange(Begun, Connected, Answered, Ended):
    """The known facts about one request and its response, and what else decoding needs."""

    content_type: str | None = None
    content_encoding: str | None = None
    request_model: str | None = None
    """The model asked for."""
    request: bytes | None = None
    """The request body, without its content encoding, where decoding needs it."""
    request_missing: int = 0
    """Bytes of the request body that are not on the tape, at least."""
    headers: Headers = NO_HEADERS
    extensions: str | None = None
    """The extensions of a WebSocket that were agreed on."""
    sent: Sent | None = None
    """The data of the client of a WebSocket."""
    has_bytes: bool = True
    """True if its bytes and reads are there; if not, nothing can be derived of it."""
    dialects: str | None = None
    """The JSON of the declarations that were given for its recording."""

    @property
    def coding(self) -> str | None:
        """The codings of the body, in the order in which they were applied: text in base64, then compression."""
        base64 = encoding.BASE64 if encoding.is_base64(self.content_type) else None
        return ", ".join(filter(None, (base64, self.content_encoding))) or None

    @property
    def is_imported(self) -> bool:
        """True if it was not recorded, but imported."""
        return self.clock in ("imported", "none")

    @property
    def is_timed(self) -> bool:
        """True if the times of its body are known."""
        return self.untimed is None

    @property
    def untimed(self) -> str | None:
        """The flag with the reason why the times of its body are unknown; None if they are known."""
        if not self.has_bytes:
            return NOT_SHIPPED
        return "no_timing" if self.clock == "none" else None


class RecordedExchange(NamedTuple):
    """A recorded exchange: its facts, the reads of its body, and the body as it came."""

    exchange: Exchange
    reads: Reads
    body: bytes


class CloseFrame(NamedTuple):
    """The close frame of a WebSocket that came first: its code, and whether the client sent it."""

    code: int
    reason: str
    by_client: bool

    @property
    def is_clean(self) -> bool:
        """True if the WebSocket was closed in good order: done, going away, or without a code."""
        return self.code in (1000, 1001, 1005)


@dataclass(frozen=True, slots=True)
class Evidence:
    """The results of decoding the body."""

    stream: bool = False
    """True if it is an event stream."""
    understood: bool = False
    """True if it is of a dialect known here."""
    whole: bool = True
    """True if all received data could be decoded."""
    done: bool = False
    """True if the event that ends a stream of the dialect came."""
    finished: bool = False
    """True if every seen choice has a finish reason, in a dialect where that ends a stream."""
    error: Literal["before_output", "mid_stream", "finish"] | None = None
    malformed: bool = False
    close: CloseFrame | None = None
    pending: bool = False
    """True if a requested response over a WebSocket has not ended."""
    broken: bool = False
    """True if upstream broke the protocol of a WebSocket or a call."""
    lacks_status: bool = False
    """True if a call by gRPC or Connect has no status."""
    cut: bool = False
    """True if the body ends inside an event."""
    aborted: bool = False
    """True if upstream said that the answer stays incomplete."""


def judge(exchange: Exchange, evidence: Evidence) -> Verdict:
    """Return the outcome and its detail; the order of the rules is the order of `OUTCOMES`, the first match wins."""
    if exchange.ended_by is None:
        return "open", None
    unanswered = _judge_connection(exchange, evidence)
    if unanswered is not None:
        return unanswered
    status = exchange.status or 0
    if status == 429:
        return "http_error", "rate_limited"
    if status >= 300:
        return "http_error", "server_error" if status >= 500 else "client_error" if status >= 400 else "redirect"
    if evidence.error:
        return "error_event", evidence.error
    return _judge_end(exchange, evidence)


def transport_flags(exchange: Exchange, outcome: Outcome, close: CloseFrame | None = None) -> set[str]:
    """Return the flags that follow from the facts alone, given the outcome they led to."""
    explained = outcome not in ("complete", "malformed", "error_event", "http_error") or close is not None
    raised = {
        "storage_gap": exchange.gap_bytes > 0 or (exchange.sent is not None and exchange.sent.missing > 0),
        "backpressure": exchange.paused > 0,
        "request_not_stored": exchange.request_missing > 0,
        "surplus_bytes": exchange.surplus,
        "coarse_clock": exchange.coarse_clock,
        "asks_identity": bool(exchange.asks_identity),
        "h2_offered": bool(exchange.h2_offered) and exchange.protocol != "h2",
        "imported": exchange.is_imported,
        "no_timing": exchange.clock == "none",
        "bytes_not_shipped": not exchange.has_bytes,
        "rebuilt": bool(exchange.rebuilt),
        "clock_suspect": exchange.clock_error_ns is not None and exchange.clock_error_ns > SUSPECT_NS,
        "unclean_end": exchange.ended_by in _BROKEN and not explained,
        "client_left": exchange.ended_by in _CLIENT and not explained and exchange.framing != "websocket",
    }
    return {flag for flag, is_raised in raised.items() if is_raised}


def _is_complete(exchange: Exchange, evidence: Evidence) -> bool:
    if evidence.stream and (evidence.done or evidence.finished):
        return True
    # The framing decides if the payload cannot be judged, or the recorder lost a part of it.
    is_known = evidence.whole and exchange.gap_bytes == 0
    if exchange.framing == "websocket" and is_known:
        return not evidence.pending and evidence.close is not None and evidence.close.is_clean
    if exchange.ended_by != "end" or (evidence.stream and (evidence.understood or evidence.cut) and is_known):
        return False
    return exchange.framing != "close" or not evidence.stream or evidence.understood


def _judge_connection(exchange: Exchange, evidence: Evidence) -> Verdict | None:
    """Return the outcome of an exchange without an answer, or whose answer ran into a timeout."""
    cause = exchange.ended_by
    if cause in ("dns", "refused", "tls", "protocol") or (cause == "local" and exchange.status is None):
        return "connect_error", cause
    if exchange.status is None and cause in ("reset", "eof", "length", "end"):
        return "connect_error", _reset(exchange) or "reset"
    if exchange.status is None and cause == "framing":
        return "connect_error", "protocol"
    if cause in ("connect_timeout", "headers_timeout"):
        return "timeout", cause.removesuffix("_timeout")
    if cause == "idle_timeout" and not _is_complete(exchange, evidence):
        return "timeout", "idle"
    return None


def _judge_end(exchange: Exchange, evidence: Evidence) -> Verdict:
    """Return the outcome of an exchange with a successful status."""
    cause = exchange.ended_by
    if cause == "died":
        return "interrupted", None
    if _is_complete(exchange, evidence):
        return ("malformed", None) if evidence.malformed else ("complete", None)
    if evidence.close is not None and not evidence.close.by_client:
        return "truncated", f"close_{evidence.close.code}"
    if cause in _CLIENT or evidence.close is not None:
        return "client_closed", "stalled" if cause == "client_stalled" else _reset(exchange)
    if cause in ("shutdown", "local"):
        return "interrupted", cause
    if evidence.broken:
        return "truncated", "framing"
    if cause == "end" and evidence.aborted:
        return "truncated", "aborted"
    if cause == "end" and evidence.lacks_status:
        return "truncated", "no_status"
    if cause == "end" and evidence.stream and not evidence.understood and not evidence.cut:
        return "truncated", "unknown"
    return "truncated", _reset(exchange) or (cause if cause in ("reset", "length", "framing") else "eof")


def _reset(exchange: Exchange) -> str | None:
    """Return the HTTP/2 error by which upstream or the client ended the stream, or upstream its connection, if any."""
    if exchange.reset_code == "goaway_no_error" and not (exchange.ended_by == "reset" and exchange.status is None):
        return None  # an announced end, which broke off no answer; a request after it was refused by that name
    return exchange.reset_code if exchange.ended_by in ("eof", "reset", "client") else None
