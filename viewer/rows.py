"""Pure: a tape's data as rows of named fields; the names that `ls`, `show` and `export` share are a contract.

An exchange is a `ListRow`, or a `DetailRow` with all of its fields. A row whose columns are the user's choice is a
`TableRow`. Times since T0 and durations are milliseconds (`_ms`, floats), unknown is None. Fields stand in an order of
meaning everywhere: when, who, what, how long, how much, why; a new one that has no place there stands at the end.
`queries` reads the rows, `export` and `report` print them.
"""

import base64
import dataclasses
import functools
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar
from urllib.parse import quote

from wiretape.recorder.decode import encoding
from wiretape.recorder.decode.dialect import Chunk, Piece
from wiretape.recorder.decode.exchange import Read
from wiretape.recorder.decode.metrics import SHOWN
from wiretape.recorder.decode.turns import TURN_FIELDS
from wiretape.recorder.decode.values import JsonObject
from wiretape.recorder.errors import TapeDamaged

if TYPE_CHECKING:
    from wiretape.recorder.decode.decoder import Decoded

T = TypeVar("T")

TableRow = dict[str, Any]
"""A row that is printed or exported: JSON values by the names of its columns, in their order."""

Headers = Sequence[Sequence[str]]
"""Each `[name, value]`, as stored: redacted."""


def field_name(stored: str) -> str:
    """Return the name of a field that the tape has under `stored`: milliseconds for nanoseconds."""
    return f"{stored.removesuffix('_ns')}_ms" if stored.endswith("_ns") else stored


_FIRST: Final = (
    "id", "started_at",
    "model", "request_model", "response_model", "upstream", "labels", "conversation",
    "method", "path", "operation", "api", "protocol", "rpc_method", "tool_name", "status", "outcome", "outcome_detail",
    "connect_ms", "ttfb_ms", "ttfc_ms", "ttft_ms", "ttfo_ms", "ttst_ms", "max_gap_ms", "max_silence_ms",
    "max_output_silence_ms", "first_output_silence_ms", "icl_p50_ms", "icl_p99_ms", "icl_max_ms", "tpot_ms",
    "latency_ms", "duration_ms",
    "input_tokens", "input_uncached_tokens", "cache_read_input_tokens", "cache_write_input_tokens",
    "cache_write_1h_input_tokens", "output_tokens", "reasoning_tokens", "total_tokens", "tps_user",
    "context_system_bytes", "context_tools_bytes", "context_user_bytes", "context_assistant_bytes",
    "context_tool_results_bytes", "context_images_bytes", "context_documents_bytes", "context_other_bytes",
    "output_chunks", "events", "reads", "coalesced_fraction", "bytes",
    "finish_reason", "error_code", "error_message", "flags", "connection_reused", "clock",
)  # fmt: skip
TEXT_FIELDS: Final = ("content", "reasoning", "refusal", "tool_calls")
CACHE: Final = (
    "cache_verdict", "cache_broken_at", "cache_expected_tokens", "cache_idle_ms", "cache_common_tokens", "cache_remedy",
)  # fmt: skip
CACHE_VERDICTS: Final = {
    "unknown": "the prompt of the request, or of its predecessor, is not on the tape, or not readable",
    "unreported": "usage does not say how many tokens a cache had",
    "first": "it has no predecessor whose prompt could have been read",
    "hit": "at least 80 % of the predecessor's input tokens were read from the cache",
    "partial": "fewer were read",
    "prefix_changed": "no read: the prompt does not begin with the predecessor's, but differs at cache_broken_at",
    "too_short": "the predecessor's prompt is below the least that the provider caches",
    "unmarked": "Anthropic: neither request marks anything with cache_control",
    "expired": "the last request with the same tools and system prompt is longer ago than the provider keeps a prefix",
    "provider": "the same prefix, in time, and still no read: the reason is the provider's own",
}
"""Every value of `cache_verdict`, and its meaning; the first that is true counts."""
DETAIL_FIELDS: Final = (
    "upstream_name", "conversation_key_from", "continues", "asked", "response_id", "framing", "attributes",
    "dialect_version", "choices",
    "ttf_byte_ms", "ttf_content_ms", "thinking_ms", "tail_ms", "icl_mean_ms", "icl_p90_ms", "tpot_est_ms",
    "tpot_adj_ms", "usage", "cost", "currency", "e2e_tps", "tokens_per_chunk", "chunks", "comments", "gap_bytes",
    "cache_hit_rate", *CACHE, "ended_by", "ended_detail", "reset_code", "request_truncated", "clock_error_ms",
)  # fmt: skip
PAID: Final = ("cost", "currency", "cache_hit_rate")
WORKED_OUT: Final = ("conversation", "continues", *PAID, "upstream_name", *CACHE)
"""Fields that are computed on request only: neither the tape nor a list has them by default."""

FIELDS: Final = _FIRST + tuple(
    name for name in map(field_name, SHOWN) if name not in {*_FIRST, *TEXT_FIELDS, *DETAIL_FIELDS}
)
"""The fields of an exchange: the contract. A derived value that is new stands at its end."""

SHIPPED: Final = tuple(name for name in FIELDS if name != "conversation")
"""The fields that a server has, too."""

HEADER_FIELDS: Final = ("request_headers", "response_headers", "response_trailers")
"""The fields of a `HeadersRow` as `show` prints them."""

GAP_PERCENTILES: Final = {"gap_p50_ms": 0.5, "gap_p90_ms": 0.9, "gap_p99_ms": 0.99}
"""Percentiles of the gaps between reads with output, for filters and sorting: computed on request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListRow:
    """An exchange as a list shows it; a long text may be cut.

    `stored_ttft_ms` and `stored_ttfo_ms` are those of the tape, also where a list withholds them. `last_read_ms` is
    known for a running exchange. `stalls` are pairs of begin and end in ns since T0, none if they are not known.
    `recorder_pid` is the recording process, on request.
    """

    no: int
    id: str
    started_at: str
    method: str
    path: str
    upstream: str
    model: str | None
    status: int | None
    outcome: str
    outcome_detail: str | None
    error_code: str | None
    error_message: str | None
    finish_reason: str | None
    ended_by: str | None
    ended_detail: str | None
    operation: str | None
    api: str | None
    stalls: Sequence[tuple[int, int]] = ()
    ttft_ms: float | None
    ttfo_ms: float | None
    stored_ttft_ms: float | None
    stored_ttfo_ms: float | None
    thinking_ms: float | None
    icl_p50_ms: float | None
    icl_p99_ms: float | None
    max_gap_ms: float | None
    max_silence_ms: float | None
    latency_ms: float | None
    duration_ms: float | None
    tpot_ms: float | None
    tps_user: float | None
    events: int | None
    output_chunks: int | None
    output_tokens: int | None
    reads: int
    bytes: int | None
    flags: list[str]
    sparkline: str | None
    max_output_silence_ms: float | None
    first_output_silence_ms: float | None
    last_silence_ms: float | None
    silent_end_by: str | None
    silent_end_is_quiet: bool | None
    tool_spans: Sequence[Sequence[int]] | None
    last_read_ms: float | None = None
    recorder_pid: int | None = None

    @property
    def first_output_ms(self) -> float | None:
        """T0 to the first output, for drawings: that of this exchange, also where its answer began in another."""
        return self.stored_ttft_ms if self.ttft_ms is None else self.ttft_ms

    @property
    def first_answer_ms(self) -> float | None:
        """T0 to the first content or tool call, for drawings."""
        return self.stored_ttfo_ms if self.ttfo_ms is None else self.ttfo_ms

    @property
    def ending(self) -> str:
        """The outcome, with its detail in brackets."""
        return ending(self.outcome, self.outcome_detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class DetailRow(ListRow):
    """All data of an exchange except its events, reads and bytes.

    `others` has the derived values without an attribute, by field name. Fields of `WORKED_OUT` are known on request.
    """

    request_model: str | None
    response_model: str | None
    response_id: str | None
    framing: str | None
    connection_reused: bool | None
    protocol: str | None
    reset_code: str | None
    clock: str | None
    clock_error_ms: float | None
    request_truncated: bool | None
    gap_bytes: int
    labels: dict[str, str]
    content: str | None
    reasoning: str | None
    refusal: str | None
    tool_calls: list[JsonObject] | None
    choices: list[JsonObject] | None
    usage: JsonObject | None
    conversation_key_from: str | None
    asked: str | None
    others: Mapping[str, Any]
    upstream_name: str | None = None
    conversation: str | None = None
    continues: str | None = None
    cost: float | None = None
    currency: str | None = None
    cache_hit_rate: float | None = None
    cache_verdict: str | None = None
    cache_broken_at: str | None = None
    cache_expected_tokens: int | None = None
    cache_idle_ms: float | None = None
    cache_common_tokens: int | None = None
    cache_remedy: str | None = None

    @property
    def texts(self) -> dict[str, str]:
        """The known texts of the answer by name: reasoning, content, refusal."""
        found = (("reasoning", self.reasoning), ("content", self.content), ("refusal", self.refusal))
        return {name: text for name, text in found if text is not None}


@dataclass(frozen=True, slots=True)
class PreviewRow:
    """A row of the list, with the ends of its texts and their lengths in characters by their names."""

    row: ListRow
    texts: Mapping[str, str | None]
    sizes: Mapping[str, int | None]


@dataclass(frozen=True, slots=True)
class ConversationRow:
    """A conversation: its name, the id of its first exchange, and totals; `asked` and `argv0` are those of the first.

    Tokens and costs are the sums of the known values, or None if none is known.
    """

    conversation: str
    id: str
    started_at: str
    last_at: str
    exchanges: int
    failed: int
    open: int
    models: list[str]
    input_tokens: int | None
    output_tokens: int | None
    cache_read_input_tokens: int | None
    duration_ms: float | None
    argv0: str | None
    asked: str | None
    cost: float | None = None
    currency: str | None = None


@dataclass(frozen=True, slots=True)
class TurnRow:
    """An exchange in the tree of its conversation, with the beginnings of its prompt and of its answer.

    `newly_asked` is None for the first exchange, and where it equals its parent's. `sources` are the bytes of its
    request by source; none if they are unknown. `number` is its place among the session's exchanges, by their starts,
    and `results_of` are the tools whose results its request brings.
    """

    no: int
    depth: int
    duration_ms: float | None
    newly_asked: str | None
    id: str
    started_at: str
    model: str | None
    outcome: str
    input_tokens: int | None
    output_tokens: int | None
    cache_read_input_tokens: int | None
    content: str | None
    tools: str | None
    cache_verdict: str | None = None
    cache_broken_at: str | None = None
    sources: Mapping[str, int] = dataclasses.field(default_factory=dict)
    number: int = 1
    results_of: str | None = None


class HeadersRow(NamedTuple):
    """The headers of an exchange's request and of its response, and the response's trailers."""

    request: Headers
    response: Headers
    trailers: Headers


@dataclass(frozen=True, slots=True)
class RequestRow:
    """A request as on the tape; `body` may be only its beginning, `size` and `sha256` cover the whole body received.

    They are None until the body is complete, and if the recorder died before that.
    """

    id: str
    method: str
    path: str
    upstream: str
    headers: Headers
    body: bytes | None = dataclasses.field(repr=False)
    size: int | None
    sha256: str | None
    labels: dict[str, str]
    protocol: str | None = None

    @property
    def known_size(self) -> int:
        """Size of the body in bytes, or of its stored part while the size is unknown."""
        return len(self.body or b"") if self.size is None else self.size

    @property
    def plain(self) -> bytes | None:
        """The body without its content encoding, or verbatim if it cannot be decoded."""
        return None if self.body is None else encoding.uncoded(self.headers, self.body)

    @property
    def text(self) -> str | None:
        """The body as text, its content encoding undone; None without one, or if it is not UTF-8."""
        plain = self.plain
        try:
            return None if plain is None else plain.decode()
        except UnicodeDecodeError:
            return None


def _required(record: type[ListRow]) -> tuple[str, ...]:
    return tuple(one.name for one in dataclasses.fields(record) if one.default is dataclasses.MISSING)


LISTED: Final = tuple(name for name in _required(ListRow) if name != "no")
"""The fields of a `ListRow` as queries name them."""

_NAMED: Final = tuple(name for name in _required(DetailRow) if name not in ("no", "others"))
_OTHERS: Final = tuple(name for name in map(field_name, SHOWN) if name not in _NAMED)
DETAILED: Final = _NAMED + _OTHERS
"""The fields of a `DetailRow` as queries name them."""

ACCOUNT_FIELDS: Final = (
    "wall_ms", "streaming_ms", "stalled_ms", "waiting_ms", "closing_ms", "failed_ms", "backoff_ms", "tools_ms",
    "idle_ms", "parallel_ms", "turns", "exchanges_max", "ttft_p50_ms", "clock_step",
)  # fmt: skip
"""The fields of a session's time account (`wiretape.viewer.sessions.account`) beside its counts of exchanges."""

CONVERSATION_FIELDS: Final = (
    "conversation", "id", "started_at", "last_at", "models", "argv0", "asked", *ACCOUNT_FIELDS, "duration_ms",
    "exchanges", "failed", "open", "input_tokens", "output_tokens", "cache_read_input_tokens", "cost", "currency",
)  # fmt: skip
"""The fields of a conversation with the account of its time."""
EVENT_FIELDS: Final = (
    "seq", "kind", "at_ms", "gap_ms", "read", "type", "id", "data", "start", "end", "delta", "sender",
)  # fmt: skip
READ_FIELDS: Final = ("seq", "at_ms", "relayed_ms", "start", "size")
SENT_READ_FIELDS: Final = (*READ_FIELDS, "sender")
"""Fields of the reads of both directions."""
TURN_ROW_FIELDS: Final = ("exchange_id", *map(field_name, TURN_FIELDS))
"""Fields of a turn over a WebSocket."""
CHUNK_FIELDS: Final = (
    "id", "seq", "at_ms", "gap_ms", "read", "event", "kinds", "output", "choice", "content", "reasoning", "refusal",
    "tool_name", "tool_arguments", "finish_reason", "output_tokens",
)  # fmt: skip
_NOT_FRACTIONS: Final = {*READ_FIELDS, *CHUNK_FIELDS}
PART_FIELDS: Final = {
    "content": "content", "reasoning": "reasoning", "refusal": "refusal", "arguments": "tool_arguments",
}  # fmt: skip
"""Fields of a chunk's row by the parts of `wiretape.recorder.decode.templates`."""


EXACT: Final = 1 << 52
"""Limit in ns below which the quotient by a million is the float nearest to the decimal: no need to round."""


DECIMALS: Final = 6
"""Decimals of a printed number: milliseconds are exact to the nanosecond."""

_COMPACT: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_NO_WORD: Final = re.compile(r"[\s\0-\x1f\x7f%]").sub
_NO_NAME: Final = re.compile(r"[\s\0-\x1f\x7f%=]").sub


def ms(ns: float | None) -> float | None:
    """Return nanoseconds as milliseconds, exact to the nanosecond. Raises `TapeDamaged` where they are no number."""
    if type(ns) is int and -EXACT < ns < EXACT:
        return ns / 1e6
    try:
        return None if ns is None else round(ns / 1e6, 6)
    except TypeError as error:  # SQLite keeps a text in any column
        reason = "the tape is damaged (a duration that is no number): run 'wiretape db check'"
        raise TapeDamaged(reason) from error


def ns(ms: float | None) -> int | None:
    """Return milliseconds as whole nanoseconds."""
    return None if ms is None else round(ms * 1e6)


def is_rounded(field: str) -> bool:
    """Return True if numbers of a field are to be rounded: milliseconds are already, and a cost is exact."""
    return not field.endswith("_ms") and not field.startswith("cost") and field not in _NOT_FRACTIONS


def rounded(row: TableRow, names: Iterable[str]) -> TableRow:
    """Return a row with its numbers of these names rounded to `DECIMALS`, and seconds to the nanosecond."""
    numbers = {name: value for name in names if type(value := row[name]) is float}
    decimals = 9 if row.get("unit") == "s" else DECIMALS
    return {**row, **{name: round(value, decimals) for name, value in numbers.items()}} if numbers else row


def timestamp(text: str) -> datetime:
    """Parse a wall time of the tape. Raises `TapeDamaged`."""
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        parsed = None
    if parsed is None or parsed.tzinfo is None:
        raise TapeDamaged("the tape is damaged (a time that is none): run 'wiretape db check'")
    return parsed


def stored_name(field: str) -> str:
    """Return the name under which the tape has a field: nanoseconds where the field has milliseconds."""
    return f"{field.removesuffix('_ms')}_ns" if field.endswith("_ms") else field


def turn(exchange_id: str, values: Mapping[str, Any]) -> TableRow:
    """Return the row of a turn, as `measures.turns` has it: ns become ms."""
    row: TableRow = {"exchange_id": exchange_id}
    for name in TURN_FIELDS:
        value = values.get(name)
        row[field_name(name)] = ms(value) if name.endswith("_ns") else value
    return row


def exchange(fields: tuple[str, ...], values: Sequence[Any]) -> TableRow:
    """Return the row of an exchange's stored values: ns become ms, flags a list, labels a mapping."""
    row = dict(zip(fields, values, strict=True))
    for field in _durations(fields):
        if row[field] is not None:
            row[field] = ms(row[field])
    if "flags" in row:
        row["flags"] = (row["flags"] or "").split()
    if isinstance(row.get("labels"), str):
        row["labels"] = json.loads(row["labels"])
    return row


def detail(no: int, *values: object) -> DetailRow:
    """Return the row of an exchange's stored values, which are those of `DETAILED`."""
    cells = exchange(DETAILED, values)
    return DetailRow(no=no, others={name: cells.pop(name) for name in _OTHERS}, **cells)


def value(row: ListRow, name: str) -> Any:
    """Return the value of a field by its name."""
    return row.others[name] if isinstance(row, DetailRow) and name in row.others else getattr(row, name)


def record(row: DetailRow, headers: HeadersRow) -> TableRow:
    """Return all fields of an exchange by name, with the headers of its request and of its response, and trailers."""
    fields = {name: value(row, name) for name in FIELDS + TEXT_FIELDS + DETAIL_FIELDS}
    return fields | dict(zip(HEADER_FIELDS, headers, strict=True))


def only(found: Iterable[TableRow], names: Sequence[str]) -> Iterator[TableRow]:
    """Yield rows with some of their fields, in this order."""
    return ({name: row[name] for name in names} for row in found)


def ending(outcome: str, detail: str | None) -> str:
    """Return an outcome with its detail in brackets, verbatim."""
    return f"{outcome} ({detail})" if detail else outcome


class Exchanges(Iterator[TableRow]):
    """Rows of exchanges; `export` takes `batches` and writes them column by column instead.

    `batches` has the stored values of `fields`, behind the number of each exchange.
    """

    def __init__(self, fields: tuple[str, ...], batches: Iterable[Sequence[Sequence[object]]]) -> None:
        self.fields = fields
        self.batches = batches
        self._rows = (exchange(fields, values) for batch in batches for _, *values in batch)

    def __next__(self) -> TableRow:
        return next(self._rows)


@functools.cache
def _durations(fields: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(field for field in fields if field.endswith("_ms"))


def read(one: Read) -> TableRow:
    """Return a read's row."""
    return {
        "seq": one.seq,
        "at_ms": ms(one.at_ns),
        "relayed_ms": ms(one.relayed_ns),
        "start": one.start,
        "size": one.size,
    }


class Chunks(Iterator[TableRow]):
    """The chunks of some exchanges, one row after the other; `export` takes `found` and makes lines of it instead.

    `found` has the id and the decoded body of each exchange; `limit` is how many rows there are at most.
    """

    def __init__(self, found: "Iterable[tuple[str, Decoded]]", limit: int | None = None) -> None:
        self.found = found
        self.limit = limit
        self._rows = itertools.islice((row for id, decoded in found for row in chunks(id, decoded)), limit)

    def __next__(self) -> TableRow:
        return next(self._rows)


def begun(found: Iterable[TableRow]) -> Iterator[TableRow]:
    """Read the first of some rows, and return an iterator of the same kind over all of them."""
    if isinstance(found, Exchanges):
        return Exchanges(found.fields, _begun(found.batches))
    if isinstance(found, Chunks):
        return Chunks(_begun(found.found), found.limit)
    return _begun(found)


def _begun(items: Iterable[T]) -> Iterator[T]:
    following = iter(items)
    return itertools.chain(list(itertools.islice(following, 1)), following)


def chunks(id: str, decoded: "Decoded") -> Iterator[TableRow]:
    """Yield one row for each choice of each chunk, or one without a choice where a chunk has none.

    Fields of the whole chunk (`seq`, timestamps, `output`, `output_tokens`) are the same on all of its rows.
    `gap_ms` is the time since the chunk before, None for the first. Several tool calls in one piece: names are joined
    by a space, arguments by a line feed.
    """
    before: int | None = None
    seq = 0
    for run in decoded.runs:
        own, field = chunk(id, run.chunk), PART_FIELDS.get(run.part or "")
        for item, text in enumerate(run.texts, run.item):
            at_ns, read = decoded.at_ns[item], decoded.reads[item]
            where = {"seq": seq, "at_ms": ms(at_ns), "gap_ms": _gap(before, at_ns), "read": read, "event": item}
            for row in own:
                yield {**row, **where} if field is None else {**row, **where, field: text}
            before, seq = at_ns, seq + 1


def chunk(id: str, one: Chunk) -> list[TableRow]:
    """Return the rows of a chunk, without its number and its timestamps."""
    from wiretape.recorder.decode.dialects import registry  # a shell that completes a line waits for it

    return [
        {
            **dict.fromkeys(CHUNK_FIELDS),
            "id": id,
            "kinds": " ".join(_kinds(one, piece)),
            "output": one.output,
            **_piece(piece),
            "output_tokens": registry.tokens(one).output,
        }
        for piece in one.pieces or (None,)
    ]


def gaps(at_ns: Sequence[int | None]) -> list[int | None]:
    """Return the time from each timestamp to the next: None beside an unknown one."""
    return [None if a is None or b is None else b - a for a, b in itertools.pairwise(at_ns)]


def request(one: RequestRow) -> TableRow:
    """Return the row of a request: its body as text, and in base64 as it came if it was not that text in UTF-8."""
    text = one.text
    is_text = text is not None and encoding.is_identity(encoding.coding_of(one.headers))
    return {
        **{name: getattr(one, name) for name in ("id", "method", "path", "upstream", "headers")},
        "body": text,
        "body_base64": None if one.body is None or is_text else base64.b64encode(one.body).decode(),
        **{name: getattr(one, name) for name in ("size", "sha256", "labels")},
    }


def flat(value: Any) -> str | int | float | None:
    """Return a value as one cell: lists of words joined by a space, other structures as compact JSON."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        return " ".join(value)
    if isinstance(value, list | dict):
        return _COMPACT.encode(value)
    cell: str | int | float | None = value
    return cell


def words(value: Any) -> str | int | float | None:
    """Return a value as one cell, as `flat` does, but a mapping of texts as words: `run=a7`, with a space as `%20`."""
    if type(value) is dict and all(type(one) is str for one in value.values()):
        return " ".join(f"{_NO_NAME(_percent, name)}={_NO_WORD(_percent, one)}" for name, one in value.items())
    return flat(value)


def _percent(match: re.Match[str]) -> str:
    return quote(match[0], safe="")


def _gap(before: int | None, at: int | None) -> float | None:
    return None if before is None or at is None else ms(at - before)


def _kinds(chunk: Chunk, piece: Piece | None) -> list[str]:
    """Return a row's kinds. In a chunk with one choice, output without text (audio, encrypted reasoning) counts."""
    alone = piece is not None and len(chunk.pieces) == 1
    carried = {
        "content": (piece is not None and piece.content) or (alone and chunk.content and not _refused(piece)),
        "reasoning": (piece is not None and piece.reasoning) or (alone and chunk.reasoning),
        "refusal": _refused(piece),
        "tool": piece is not None and piece.tools,
        "finish": piece is not None and piece.finish_reason,
        "usage": chunk.usage,
        "error": chunk.fault,
        "ping": chunk.ping,
    }
    return [kind for kind, is_carried in carried.items() if is_carried] or ["empty"]


def _refused(piece: Piece | None) -> bool:
    return piece is not None and bool(piece.refusal) and not piece.content


def _piece(piece: Piece | None) -> TableRow:
    tools = piece.tools if piece else ()
    return {
        "choice": piece.index if piece else None,
        "content": (piece and piece.content) or None,
        "reasoning": (piece and piece.reasoning) or None,
        "refusal": (piece and piece.refusal) or None,
        "tool_name": " ".join(tool.name for tool in tools if tool.name) or None,
        "tool_arguments": "\n".join(tool.arguments for tool in tools if tool.arguments) or None,
        "finish_reason": piece.finish_reason if piece else None,
    }


def encodable(value: object) -> str:
    """Return a value as a text that UTF-8 has bytes for: a lone surrogate is its escape."""
    text = value if isinstance(value, str) else str(flat(value))
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
