"""The derived values of one exchange: one entry each, from which everything else that names it is derived.

An entry is a field of `Timing`, or of `Measures`: its name and type, its meaning, its formula, and its aliases in
filters, columns and statistics; of a metric also its unit, and whether it has statistics. The tape's column, the fields
of lists, details, exports and servers, the filter's field, the statistics and every text about it come from there,
under its name. Adding a value is one entry and a migration that adds its column.

Integer nanoseconds since T0 (the moment before the upstream request is issued) or between two timestamps, None where
unknown and never 0 in its place. An inter-chunk latency (`icl`) is between two output chunks, and 0 if one read brought
both; a gap (`max_gap_ns`) is between two reads that brought output, and survives coalescing. Tokens come from `usage`
only: chunks are never counted as tokens. Percentiles are interpolated linearly (Hyndman and Fan's type 7, numpy's
default).

Over a WebSocket, times from T0 count from the message that asked for the first response, and the time between a
response and the message that asks for the next does not count: gaps lie within a response, and latency and duration are
those of all responses added up, where several ran at once only once. Only `connect_ns` and `ttfb_ns` are of the
WebSocket itself.

`chat` decides on the content of a chunk, `outcome` on the end of an exchange; statistics over many are the viewer's.
"""

import builtins
import dataclasses
import struct
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import itemgetter, sub
from typing import TYPE_CHECKING, Any, Final

from wiretape.recorder.decode.dialect import Chunk
from wiretape.recorder.decode.exchange import Exchange, Operation, Outcome, Reads
from wiretape.recorder.decode.stalls import DEFAULT, Layer, StreamSilences, is_held_by_compression, output_gaps
from wiretape.recorder.decode.turns import union
from wiretape.recorder.decode.values import JsonObject
from wiretape.recorder.facts import FACTS, internal, value

if TYPE_CHECKING:
    from wiretape.recorder.decode.decoder import Decoded

SPARK_STEPS_NS = tuple(step * 1_000_000 for step in (3, 10, 30, 100, 300, 1000, 3000))
"""Lower limit of the gaps, in ns, for each sign of a sparkline after the first."""


class Timeline:
    """The input of the metrics: the facts of an exchange, and its chunks in time.

    `tokens` are the output tokens of `usage`, `silences` those of the streams that were waited for. `at` and
    `output_reads` are the timestamps and the reads of the output chunks, of those that have one; `gaps` are the times
    between them.
    """

    def __init__(
        self,
        exchange: Exchange,
        reads: Reads,
        decoded: "Decoded | None" = None,
        tokens: int | None = None,
        silences: Sequence[StreamSilences] = (),
    ) -> None:
        self.exchange, self.reads, self.tokens, self.silences = exchange, reads, tokens, silences
        has_turns = decoded is not None and (bool(decoded.turns) or decoded.is_session)
        self.turns = _turns(decoded, exchange) if decoded is not None and has_turns else None
        self.is_begin_known = decoded is None or not decoded.turns or decoded.turns[0].is_begin_known
        """False if the stream was opened in the middle of its first turn."""
        self._flush_count = decoded.flush_count if decoded is not None else None
        self.chunks = self.output_chunks = 0
        self._later: set[int] = set()
        """The positions of the output chunks that begin a later response over the same WebSocket."""
        self.at: list[int] = []
        self.output_reads: list[int] = []
        self._outputs: list[tuple[int, Chunk]] = []
        chunk_at = self._add(decoded) if decoded is not None else []
        self.first_chunk_ns = chunk_at[0] if chunk_at and self.is_begin_known else None
        self.gaps = list(map(sub, self.at[1:], self.at))
        if self._later:
            self.gaps = [gap for chunk, gap in enumerate(self.gaps, 1) if chunk not in self._later]
        self.ordered_gaps = sorted(self.gaps)
        of_outputs = output_gaps(self.at, self.output_reads)
        if self._later:
            of_outputs = ((chunk, gap) for chunk, gap in of_outputs if chunk not in self._later)
        self.longest_gap_ns = max(map(itemgetter(1), of_outputs), default=None)
        self.latency_ns = self.at[-1] if self.at else None
        # Chunks after the last event belong to the answer too: then only the end of the exchange ends it.
        last_ns, ended_ns = max(chunk_at, default=0), decoded.ended_ns if decoded is not None else None
        end_ns = ended_ns if ended_ns is not None and ended_ns >= last_ns else exchange.end_ns
        self.duration_ns = None if end_ns is None else max(end_ns, last_ns)
        if self.turns is not None:
            self.duration_ns = sum(turn[1] - turn[0] for turn in self.turns) if self.turns else None

    def _add(self, decoded: "Decoded") -> list[int]:
        """Add the chunks of a stream, run by run; return the known timestamps of all that count."""
        chunk_at: list[int] = []
        item_at_ns, turn = decoded.answering_ns, 0
        for run in decoded.runs:
            if not run.chunk.counts:
                continue
            self.chunks += len(run)
            at = [at_ns for at_ns in item_at_ns[run.items] if at_ns is not None]
            chunk_at += at
            if run.chunk.output:
                self.output_chunks += len(run)
                if at:
                    self._outputs.append((len(self.at), run.chunk))
                    if decoded.turns and turn != (turn := decoded.turn_of(run.item)) and self.at:
                        self._later.add(len(self.at))
                self.at += at
                self.output_reads += [read for read in decoded.reads[run.items] if read is not None] if at else []
        return chunk_at

    @property
    def first_tokens(self) -> int | None:
        """The output tokens that the first output chunk reports."""
        from wiretape.recorder.decode.dialects import (
            registry,  # it loads all dialects: a shell that completes a line waits
        )

        return registry.tokens(self._outputs[0][1]).output if self._outputs else None

    def first(self, *kinds: str) -> int | None:
        """Return when the first output came that carries one of these: content, reasoning, tool."""
        position = self._position(*kinds)
        return None if position is None or not self.is_begin_known else self.at[position]

    def thinking(self) -> int | None:
        """Return the time from the first reasoning to the first answer in a chunk after it."""
        reasoning, answer = self._position("reasoning"), self._position("content", "tool")
        if reasoning is None or answer is None or reasoning >= answer:
            return None
        return self.at[answer] - self.at[reasoning]

    def time_per(self, count: int | None) -> float | None:
        """Return the time from the first to the last output, divided by `count`; that of several responses is added up.

        A window of 0 (all in one read) says nothing about speed: neither 0 nor infinity.
        """
        window = sum(self.gaps) if self._later else self.at[-1] - self.at[0] if self.at else 0
        return window / count if count is not None and count > 0 and window > 0 else None

    def time_per_token(self, tokens_of_first: int | None) -> float | None:
        """Return the time for each token after those of the first output."""
        if self.tokens is None or tokens_of_first is None:
            return None
        # Each later response has a first token, too, whose wait is in no gap.
        return self.time_per(self.tokens - tokens_of_first - len(self._later))

    def first_byte(self) -> int | None:
        """Return when the first byte of the body came; over a WebSocket, after the first message that asked."""
        has_asked = self.turns and self.exchange.framing == "websocket"
        asked_ns = self.turns[0][0] if self.turns and has_asked else 0
        reads = zip(self.reads.at_ns, self.reads.size, strict=True)
        since = asked_ns if has_asked else -1
        return next((at - asked_ns for at, size in reads if size > 0 and at >= since), None)

    def longest_silence(self) -> int | None:
        """Return the longest later silence of bytes; of several responses or turns, within one."""
        if self.turns is None and self.exchange.framing != "websocket":
            ends = [one.stream.end_ns for one in self.silences]
            return longest_silence(self.exchange, self.reads, ends[0] or self.duration_ns) if ends else None
        return self.longest("bytes")

    def first_silence(self, layer: Layer) -> int | None:
        """Return the first silence of the first stream on a layer."""
        return self.silences[0].first_ns(layer) if self.silences and self.is_begin_known else None

    def longest(self, layer: Layer) -> int | None:
        """Return the longest later silence of all streams on a layer."""
        return max((longest for one in self.silences if (longest := one.longest_ns(layer)) is not None), default=None)

    def percentile(self, fraction: float) -> float | None:
        """Return a percentile of the gaps; `fraction` is 0 to 1."""
        return percentile(self.ordered_gaps, fraction) if self.gaps else None

    def tail(self) -> int | None:
        """Return the time from the last output to the end."""
        return None if self.duration_ns is None or self.latency_ns is None else self.duration_ns - self.latency_ns

    def tokens_per_second(self) -> float | None:
        """Return the tokens per second after the first."""
        tpot = self.time_per_token(1)
        return 1e9 / tpot if tpot else None

    def histogram(self) -> bytes:
        """Return the count of the gaps of each bit length, none if there are no gaps."""
        counts = [0] * 64  # the bits of the longest time in ns that the tape can hold
        for bits, times in Counter(map(int.bit_length, self.gaps)).items():
            counts[min(bits, 63)] += times
        return struct.pack("<64I", *counts) if self.gaps else b""

    def flags(self) -> set[str]:
        """Return the flags that the timing of the output chunks raises."""
        if not self.at:
            return {"single_chunk"} if self.output_chunks == 1 else set()
        reads = len(set(self.output_reads))
        is_held = is_held_by_compression(len(self.at), reads, self._flush_count)
        raised = {
            "buffered_by_compression": is_held,
            "coalesced": len(self.at) - reads >= len(self.at) / 2,
            "single_chunk": reads == 1,
            "burst": is_held or DEFAULT.is_burst(self.at, self.output_reads),
        }
        return {flag for flag, is_raised in raised.items() if is_raised}

    def _position(self, *kinds: str) -> int | None:
        return next((at for at, chunk in self._outputs if any(getattr(chunk, kind) for kind in kinds)), None)


def _turns(decoded: "Decoded", exchange: Exchange) -> list[tuple[int, int]]:
    """Return the times in which responses or turns ran, from their requests to their ends, if both are known.

    Those that overlap are one: time counts once.
    """
    spans = []
    for turn in decoded.turns:
        asked_ns = decoded.asked_ns(turn)
        end_ns = exchange.end_ns if turn.last is None else decoded.at_ns[turn.last]
        if turn.measures is not None and turn.measures.ended_at_ns is not None:
            end_ns = turn.measures.ended_at_ns
        if asked_ns is not None and end_ns is not None:
            spans.append((asked_ns, max(end_ns, asked_ns)))
    return union(spans)


Formula = Callable[[Timeline], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """The description of a metric beside its type and its formula.

    `unit` is "ns" where the name ends in `_ns`, and "" of a count. The metric is shown as unknown if the exchange has
    one of the flags in `withheld`. Statistics `of_every_outcome` include exchanges that did not become complete.
    """

    name: str = ""
    meaning: str
    unit: str
    has_statistics: bool = False
    withheld: tuple[str, ...] = ()
    of_every_outcome: bool = False


def metric(
    meaning: str,
    formula: Formula | None,
    unit: str,
    default: Any = None,
    aliases: tuple[str, ...] = (),
    **more: Any,
) -> Any:
    """Define a metric; `more` are fields of `Metric`."""
    return value(meaning, formula, default, Metric(meaning=meaning, unit=unit, **more), aliases)


def duration(meaning: str, formula: Formula, **more: Any) -> Any:
    return metric(meaning, formula, "ns", **more)


def count(meaning: str, formula: Formula | None = None, **more: Any) -> Any:
    """Define a metric that is a count, 0 if there is nothing to count."""
    return metric(meaning, formula, "", 0, **more)


_HIDDEN: Final = ("hidden_tokens",)
_LATER: Final = ("continuation",)


# Not frozen: making one of all these fields would take five times as long, for each exchange.
@dataclass(slots=True, kw_only=True)
class Timing:
    """The timing of one exchange: its metrics, and the gaps that they are made of."""

    connect_ns: int | None = duration(
        "T0 → connected, TLS included; unknown on a connection that was kept", lambda t: t.exchange.connected_ns
    )
    ttfb_ns: int | None = duration("T0 → response head", lambda t: t.exchange.headers_ns)
    ttf_byte_ns: int | None = duration(
        "T0 → first byte of the body, comments included",
        Timeline.first_byte,
    )
    ttfc_ns: int | None = duration(
        "T0 → first chunk of any kind that is not an error", lambda t: t.first_chunk_ns, has_statistics=True
    )
    ttft_ns: int | None = duration(
        "T0 → first output chunk: content, reasoning or tool call",
        lambda t: t.at[0] if t.at and t.is_begin_known else None,
        has_statistics=True,
        withheld=_LATER,
    )
    ttfo_ns: int | None = duration(
        "T0 → first answer: content or tool call",
        lambda t: t.first("content", "tool"),
        has_statistics=True,
        withheld=_LATER,
    )
    ttf_content_ns: int | None = duration("T0 → first content", lambda t: t.first("content"))
    thinking_ns: int | None = duration(
        "first reasoning → first answer; unknown unless reasoning came first", Timeline.thinking
    )
    ttst_ns: int | None = duration("first → second output chunk", lambda t: t.gaps[0] if t.gaps else None)
    latency_ns: int | None = duration("T0 → last output chunk", lambda t: t.latency_ns, has_statistics=True)
    duration_ns: int | None = duration(
        "T0 → the event that ends the stream ([DONE], …), else the end of the exchange",
        lambda t: t.duration_ns,
        aliases=("dur",),
        has_statistics=True,
    )
    tail_ns: int | None = duration("last output chunk → the end: duration − latency", Timeline.tail)
    max_gap_ns: int | None = duration(
        "longest gap between reads with output",
        lambda t: t.longest_gap_ns,
        aliases=("gap.max",),
        has_statistics=True,
    )
    max_silence_ns: int | None = duration(
        "longest later silence of a stream: no byte of the body, from its first (from the head if none came) to the "
        "end of the stream, whatever ended it",
        Timeline.longest_silence,
        aliases=("silence", "silence.max"),
        has_statistics=True,
        of_every_outcome=True,
    )
    max_output_silence_ns: int | None = duration(
        "longest later silence of output: from one read with output to the next, or from the last one to the end of "
        "the stream, whatever ended it; without the time of tools that the provider runs",
        lambda t: t.longest("output"),
        aliases=("output_silence", "stall", "max_stall"),
        has_statistics=True,
        of_every_outcome=True,
    )
    first_output_silence_ns: int | None = duration(
        "first silence of output: T0 → first output chunk, or to the end of a stream without any, also of a failed one",
        lambda t: t.first_silence("output"),
        has_statistics=True,
        of_every_outcome=True,
    )
    max_event_silence_ns: int | None = duration(
        "longest later silence of events of any type, pings too: from one to the next, or from the last one to the end "
        "of the stream, whatever ended it",
        lambda t: t.longest("events"),
        aliases=("event_silence",),
        has_statistics=True,
        of_every_outcome=True,
    )
    ttf_event_ns: int | None = duration(
        "T0 → first event of any type, pings too; unknown without one",
        lambda t: t.silences[0].first_event_ns if t.silences else None,
        has_statistics=True,
        of_every_outcome=True,
    )
    first_silence_ns: int | None = duration(
        "first silence of a stream: T0 → first byte of the body, or to the end of one without any, also of a failed "
        "one",
        lambda t: t.first_silence("bytes"),
        has_statistics=True,
        of_every_outcome=True,
    )
    first_event_silence_ns: int | None = duration(
        "first silence of events: T0 → first event, or to the end of a stream without any, also of a failed one",
        lambda t: t.first_silence("events"),
        has_statistics=True,
        of_every_outcome=True,
    )
    tpot_ns: float | None = duration(
        "time per token after the first: first to last output over output tokens − 1",
        lambda t: t.time_per_token(1),
        has_statistics=True,
        withheld=_HIDDEN,
    )
    tpot_est_ns: float | None = duration(
        "time per output chunk after the first: an estimate of tpot where there is no usage",
        lambda t: t.time_per(len(t.gaps)),
    )
    tpot_adj_ns: float | None = duration(
        "tpot without the tokens of the first chunk; needs usage on every chunk",
        lambda t: t.time_per_token(t.first_tokens),
        withheld=_HIDDEN,
    )
    tps_user: float | None = metric(
        "tokens per second after the first token",
        Timeline.tokens_per_second,
        "tokens/s",
        aliases=("tps",),
        has_statistics=True,
        withheld=("burst", *_HIDDEN),
    )
    e2e_tps: float | None = metric(
        "tokens per second of the whole latency",
        lambda t: 1e9 * t.tokens / t.latency_ns if t.tokens is not None and t.latency_ns and t.latency_ns > 0 else None,
        "tokens/s",
    )
    tokens_per_chunk: float | None = metric(
        "output tokens per output chunk",
        lambda t: t.tokens / t.output_chunks if t.output_chunks and t.tokens is not None else None,
        "tokens/chunk",
        withheld=_HIDDEN,
    )
    coalesced_fraction: float | None = metric(
        "share of output chunks in the same read as an earlier one",
        lambda t: (len(t.at) - len(set(t.output_reads))) / len(t.at) if t.at else None,
        "share of 1",
        aliases=("coalesced",),
    )
    icl_p50_ns: float | None = duration(
        "median gap between output chunks",
        lambda t: t.percentile(0.5),
        aliases=("icl.p50",),
        has_statistics=True,
    )
    icl_p90_ns: float | None = duration(
        "90th percentile of the gaps between output chunks", lambda t: t.percentile(0.9), aliases=("icl.p90",)
    )
    icl_p99_ns: float | None = duration(
        "99th percentile of the gaps between output chunks",
        lambda t: t.percentile(0.99),
        aliases=("icl.p99",),
        has_statistics=True,
    )
    icl_mean_ns: float | None = duration(
        "mean gap between output chunks", lambda t: sum(t.gaps) / len(t.gaps) if t.gaps else None
    )
    icl_max_ns: int | None = duration(
        "longest gap between output chunks",
        lambda t: max(t.gaps, default=None),
        aliases=("icl.max",),
        has_statistics=True,
    )
    # From Python 3.14 on, `bytes` in an annotation of this class is its field of that name.
    icl: builtins.bytes = value(
        "all gaps between output chunks, in ns: a byte with the width (4 or 8), then little-endian numbers",
        lambda t: struct.pack(f"<{len(t.gaps)}q", *t.gaps),
        b"",
        is_shown=False,
    )
    gap_hist: builtins.bytes = value(
        "gaps by the bit length of their ns: 64 little-endian uint32", Timeline.histogram, b"", is_shown=False
    )
    sparkline: str = internal("gaps from first to last output, as up to 24 characters", lambda t: sparkline(t.at), "")
    reads: int = count("socket reads of the body", lambda t: len(t.reads))
    bytes: int = metric("bytes of the body as they came", lambda t: sum(t.reads.size), "bytes", 0)
    chunks: int = count("chunks: payloads of the stream that its API's dialect knows", lambda t: t.chunks)
    output_chunks: int = count(
        "chunks with content, reasoning or a tool call's name or arguments", lambda t: t.output_chunks
    )


DIGESTS: Final = {15: "74757be010dd52f4"}
"""A digest of the names and types of all derived values, by the version of the decoder."""
DECODER_VERSION: Final = max(DIGESTS)
"""Version of the decoder; add one whenever the same facts would be derived differently, or more of them."""


def tokens(meaning: str, aliases: tuple[str, ...]) -> Any:
    """Define a count of tokens, which usage reports."""
    return metric(meaning, None, "tokens", aliases=aliases)


def context(meaning: str) -> Any:
    """Define the bytes of a request's body that are of one source."""
    return metric(f"bytes of the request's body: {meaning}", None, "bytes")


def server_time(meaning: str) -> Any:
    """Define a time that the server reports of itself."""
    return metric(f"the server's own time {meaning}, as it reports it", None, "ns", has_statistics=True)


@dataclass(slots=True, kw_only=True)
class Measures(Timing):
    """Every derived value of one exchange, beginning with its timing; the meaning of each field is its metadata."""

    decoder_version: int = internal("version of the decoder that derived this", default=DECODER_VERSION)
    outcome: Outcome = value("how the exchange ended, judged from the data received", default="open")
    outcome_detail: str | None = value("the kind of that outcome")
    error_code: str | None = value("the code or type of the error that upstream reported")
    error_message: str | None = value("the message of that error, credentials replaced", style="within")
    api: str | None = value(
        "API of the answer: openai.chat, …; by its form, else by the path; unknown: the answer is not understood"
    )
    operation: Operation | None = value("kind of request: chat, embeddings, models, …")
    response_model: str | None = value("the first model that the answer names")
    response_id: str | None = value("the first id that the answer names")
    finish_reason: str | None = value(
        "reason why the answer ended, verbatim from upstream; of Google's numbers, the name"
    )
    server_queue_ns: int | None = server_time("in its queue")
    server_prefill_ns: int | None = server_time("reading the prompt")
    server_decode_ns: int | None = server_time("generating the answer")
    server_total_ns: int | None = server_time("in all; of a header of a stream, up to the response head")
    network_ns: int | None = metric(
        "network and gateways: T0 → the end (of a header's total: the response head), less the server's total",
        None,
        "ns",
        has_statistics=True,
    )
    server_times_from: str | None = value("the header, or the place in the body, that reports the server's times")
    quota_requests_left: int | None = metric("requests left of the provider's quota, from a header", None, "requests")
    quota_tokens_left: int | None = metric("tokens left of the provider's quota, from a header", None, "tokens")
    quota_5h_percent: float | None = metric("used part of a subscription's window of 5 hours", None, "%")
    quota_7d_percent: float | None = metric("used part of a subscription's window of 7 days", None, "%")
    trace_id: str | None = value("the trace that the request's traceparent names", style="prefix")
    input_tokens: int | None = tokens(
        "tokens of the request, those read from and written to the provider's cache included, from usage",
        ("tok.in", "prompt_tokens"),
    )
    output_tokens: int | None = tokens("tokens of the answer, from usage", ("tok.out", "tokens", "completion_tokens"))
    total_tokens: int | None = tokens(
        "tokens in all, from usage, or the sum of the two where it has none", ("tok.total",)
    )
    reasoning_tokens: int | None = tokens("tokens of reasoning, from usage", ("tok.reason",))
    cache_read_input_tokens: int | None = tokens("tokens read from the provider's cache, from usage", ("tok.cached",))
    cache_write_input_tokens: int | None = tokens(
        "tokens written to the provider's cache, from usage", ("tok.cache_write", "cache_creation_input_tokens")
    )
    cache_write_1h_input_tokens: int | None = tokens(
        "tokens written to the provider's cache that it keeps for an hour, from usage; unknown unless it splits them",
        ("tok.cache_write_1h",),
    )
    input_uncached_tokens: int | None = tokens(
        "tokens of the request that usage counts neither as read from the provider's cache nor as written to it",
        ("tok.uncached",),
    )
    usage: JsonObject | None = value("usage: of each count the largest that came, of other fields the last value")
    events: int = count("events by the standard, [DONE] included")
    comments: int = count("comment lines")
    flags: tuple[str, ...] = value("flags (wiretape help outcomes), sorted", default=())
    content: str | None = value("the text of the answer", style="within")
    reasoning: str | None = value("the reasoning that came in the clear", style="within")
    refusal: str | None = value("the refusal", style="within")
    tool_calls: list[JsonObject] | None = value("tool calls: index, id, name, arguments")
    choices: list[JsonObject] | None = value("the choices beside the first")
    attributes: JsonObject | None = value(
        "values that a declared dialect names: method, tool, id and progress of a call by MCP, …"
    )
    rpc_method: str | None = value(
        "the method of a call by MCP or Agent2Agent, as its attributes name it",
        aliases=("mcp.method.name", "rpc.method"),
    )
    tool_name: str | None = value("the tool of a call by MCP", aliases=("gen_ai.tool.name",))
    dialect_version: str | None = value("hash of the declaration that decoded it; unknown: a built-in dialect did")
    conversation_key: str | None = internal("the conversation that the client names; of a redacted header, its hash")
    conversation_key_from: str | None = value(
        "the header, or the field of the request's body, that names it; session: the id of a hosted session"
    )
    conversation_parent: str | None = internal("the conversation that started this one, as the client names it")
    previous_response_id: str | None = internal("the response_id of the exchange that the request says it continues")
    messages_hash: str | None = internal("hash of the request's messages, without system prompts and tools")
    continues_hash: str | None = internal(
        "hash of the messages before the last answer: messages_hash of the continued exchange"
    )
    continued_answer_hash: str | None = internal("hash of that answer: answer_hash of the continued exchange")
    answer_hash: str | None = internal("hash of the text and the tool calls of the answer")
    retries: int | None = internal("number of earlier attempts at the same request, by the client's SDK")
    answers_tools: bool | None = internal("whether the request's messages after the last answer have results of tools")
    turn_spans: list[list[Any]] | None = value(
        "of a WebSocket or hosted session, [asked, first output, last output, end, outputs, calls a tool, answers one, "
        "outcome of a hosted turn] of each response: ns since T0",
        is_shown=False,
    )
    answers: int | None = internal(
        "answers that it stands for in rates of stalls: the turns of a WebSocket, else 1; unknown without times"
    )
    stalled_answers: int | None = internal("those of them that stalled")
    given_up_answers: int | None = internal("those of them that the client left in a stall of upstream's")
    last_silence_ns: int | None = internal(
        "last silence of output: from the last output, or from T0 without any, to the end of waiting; unknown where it "
        "can be no stall"
    )
    silences: bytes = internal(
        "silences of each stream that was waited for, by layer, with their owners: int64, three a record "
        "(wiretape.recorder.decode.layers.packed)",
        default=b"",
    )
    ping_gaps: bytes = internal(
        "times between successive pings or comments within one silence of output, in ns: int64", default=b""
    )
    tool_spans: list[list[int]] | None = value(
        "times in which a tool of the provider ran: [from, to] in ns since T0", is_shown=False
    )
    event_runs: list[list[Any]] | None = value(
        "of a plain stream of chat, the runs of its events: [kind, count, when one without output came: ns since T0]; "
        "unknown of any other",
        is_shown=False,
    )
    silent_end_by: str | None = internal(
        "who was silent when it broke off in a stall: upstream, client, relay or unclear; unknown: it did not"
    )
    silent_end_is_quiet: bool | None = internal("whether no byte at all came in that stall, no ping and no comment")
    turns: list[JsonObject] | None = value(
        "of a WebSocket or hosted session, its turns: see the view turns; times are ns since T0", is_shown=False
    )
    asked: str | None = value("the last text of the user in the request: its beginning, on one line")
    context_system_bytes: int | None = context("the system prompt")
    context_tools_bytes: int | None = context("the definitions of tools")
    context_user_bytes: int | None = context("messages of the user, without images, documents and tool results")
    context_assistant_bytes: int | None = context("messages of the model, its reasoning and tool calls included")
    context_tool_results_bytes: int | None = context("results of tools, without images and documents")
    context_images_bytes: int | None = context("images")
    context_documents_bytes: int | None = context("documents")
    context_other_bytes: int | None = context("all else, such as other parameters, brackets and separators")
    prompt_elements: bytes | None = internal(
        "elements of the request's prompt in their order, as MessagePack: their places, digests and lengths"
    )


METRICS: Final = {
    field.name: dataclasses.replace(entry, name=field.name)
    for field in dataclasses.fields(Measures)
    if (entry := field.metadata["metric"]) is not None
}
"""Every metric, by its name on the tape."""

SHOWN: Final = {
    entry.name: entry for entry in (*FACTS.values(), *dataclasses.fields(Measures)) if entry.metadata["is_shown"]
}
"""Every value that is a field of an exchange, a fact or derived, by its name on the tape."""


_FORMULAS: Final = {field.name: field.metadata["formula"] for field in dataclasses.fields(Timing)}
_WITHOUT_CHUNKS: Final = (
    "connect_ns", "ttfb_ns", "ttf_byte_ns", "duration_ns", "max_silence_ns", "max_event_silence_ns",
    "max_output_silence_ns", "ttf_event_ns", "first_silence_ns", "first_event_silence_ns", "first_output_silence_ns",
    "reads", "bytes",
)  # fmt: skip
"""Values that an answer without chunks has, such as one that is no stream: they come from its facts and its reads."""
_DEFAULTS: Final = {
    field.name: field.default for field in dataclasses.fields(Timing) if field.name not in _WITHOUT_CHUNKS
}


def measured(timeline: Timeline) -> JsonObject:
    """Return every field of `Timing`."""
    if timeline.chunks:
        return {name: formula(timeline) for name, formula in _FORMULAS.items()}
    # Most requests that are not of a model have no stream: forty formulas for nothing would take as long as the rest.
    return _DEFAULTS | {name: _FORMULAS[name](timeline) for name in _WITHOUT_CHUNKS}


def longest_silence(exchange: Exchange, reads: Reads, end_ns: int | None) -> int | None:
    """Return the longest time, in ns, without a byte of the body, up to `end_ns` (`duration_ns` of `Timing`).

    It lies between two reads, with or without output, or between the last one and the end; of a body without any byte,
    between the head and the end. The wait for the first byte is not part of it. None if the response has a single
    timestamp, or if the tape lacks bytes: they may have come at any time.
    """
    if exchange.ended_by in (None, "died"):
        end_ns = None  # where a recorder died, the end is only its last read
    longest, last_ns, missing = _gap_of_reads(reads, end_ns)
    if last_ns is None and exchange.framing != "none":
        last_ns = exchange.headers_ns
    if last_ns is not None and end_ns is not None and end_ns > last_ns and missing == exchange.gap_bytes:
        longest = max(end_ns - last_ns, longest or 0)
    return longest


def _gap_of_reads(reads: Reads, end_ns: int | None) -> tuple[int | None, int | None, int]:
    """Return the longest time between reads up to `end_ns`, when the last came, and the bytes missing in between."""
    at, ends = reads.at_ns, list(accumulate(reads.size, initial=0))
    if at and min(reads.size) > 0 and list(reads.start) == ends[:-1] and (end_ns is None or max(at) <= end_ns):
        return max(map(sub, at[1:], at), default=None), at[-1], 0  # nearly always
    longest: int | None = None
    last_ns: int | None = None
    position = missing = 0
    for at_ns, start, size in zip(at, reads.start, reads.size, strict=True):
        if not size or (end_ns is not None and at_ns > end_ns):
            continue
        if start != position:
            missing += start - position
        elif last_ns is not None and (longest is None or at_ns - last_ns > longest):
            longest = at_ns - last_ns
        last_ns, position = at_ns, start + size
    return longest, last_ns, missing


def percentile(ordered: Sequence[int], fraction: float) -> float:
    """Return the percentile of ascending, non-empty values by linear interpolation; `fraction` is 0 to 1."""
    position = (len(ordered) - 1) * fraction
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def sparkline(at: Sequence[int], cells: int = 24, span: tuple[int, int] | None = None) -> str:
    """Draw the gaps between ascending timestamps, in ns: each cell is the longest gap that ends in its slice of time.

    The scale is logarithmic and absolute, so that two lines compare: ▁ is below 3 ms, then come 3, 10, 30, 100 and
    300 ms, 1 s, and █ is 3 s or more. A space is a slice in which no gap ended. No gaps, no line. The slices are of
    the time from the first timestamp to the last, at most `cells` and no more than there are gaps; or, of a `span` that
    is longer than nothing, exactly `cells`.
    """
    if len(at) < 2:
        return ""
    start, end = span or (at[0], at[-1])
    if span is None:
        cells = min(cells, len(at) - 1) if end > start else 1
    gaps = list(map(sub, at[1:], at))
    # A gap that ends on a border ends the cell before it: an even stream fills every cell.
    borders = [start + cell * (end - start) // cells for cell in range(1, cells + 1)] if end > start else [at[-1]]
    line, start_gap = "", 0
    for border in borders:
        end_gap = bisect_right(at, border, start_gap + 1) - 1  # the gap before a timestamp has a number less by one
        line += spark(max(gaps[start_gap:end_gap])) if end_gap > start_gap else " "
        start_gap = end_gap
    return line.ljust(cells)


def spark(gap: int) -> str:
    """Return the sign of a gap in ns; a blank for none."""
    return " " if gap < 0 else "▁▂▃▄▅▆▇█"[bisect_right(SPARK_STEPS_NS, gap)]
