"""Pure: a tape's data as rows of named fields (`wiretape.viewer.record.fields`).

An exchange is a `ListRow`, or a `DetailRow` with all of its fields. A row whose columns are the user's choice is a
`TableRow`. Times are floats in ms; unknown is None. `queries` reads the rows, `export` and `report` print them.
"""

import base64
import dataclasses
import functools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from wiretape.recorder.decode import encoding
from wiretape.recorder.decode.exchange import Exchange, Operation, Read, Standing
from wiretape.recorder.decode.metrics import SHOWN
from wiretape.recorder.decode.turns import TURN_FIELDS
from wiretape.recorder.decode.values import JsonObject
from wiretape.recorder.facts import ClockName, EndedBy, Framing
from wiretape.viewer.record.fields import DETAIL_FIELDS, FIELDS, HEADER_FIELDS, TEXT_FIELDS, CacheVerdict, field_name
from wiretape.viewer.record.units import ms

if TYPE_CHECKING:
    from wiretape.recorder.tape.masking import Masker

TableRow = dict[str, Any]
"""A row that is printed or exported: JSON values by the names of its columns, in their order."""

Headers = Sequence[Sequence[str]]
"""Each `[name, value]`, as stored: redacted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListRow:
    """An exchange as a list shows it; a long text may be cut.

    It holds no `Exchange`: a list has many, of a tape or of a server that has these columns only, in ms.
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
    upstream_name: str | None
    model: str | None
    status: int | None
    outcome: Standing
    outcome_detail: str | None
    error_code: str | None
    error_message: str | None
    finish_reason: str | None
    ended_by: EndedBy | None
    ended_detail: str | None
    operation: Operation | None
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
    turn_spans: Sequence[Sequence[Any]] | None
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
    """All data of an exchange except its events, reads and bytes, made of the facts and derived values that are shown.

    `derived` has the values without an attribute, by field name. Fields of `WORKED_OUT` are known on request.
    """

    request_model: str | None
    response_model: str | None
    response_id: str | None
    framing: Framing | None
    connection_reused: bool | None
    protocol: str | None
    reset_code: str | None
    clock: ClockName | None
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
    derived: Mapping[str, Any]
    conversation: str | None = None
    continues: str | None = None
    cost: float | None = None
    currency: str | None = None
    cache_hit_rate: float | None = None
    cache_verdict: CacheVerdict | None = None
    cache_broken_at: str | None = None
    cache_expected_tokens: int | None = None
    cache_idle_ms: float | None = None
    cache_common_tokens: int | None = None
    cache_remedy: str | None = None
    turn: int | None = None
    duplicate_of: str | None = None

    def completed(self, worked_out: TableRow) -> "DetailRow":
        """Return the row with fields of `WORKED_OUT`, and the flag that they raise."""
        flags = [*self.flags, *["duplicate"] * (worked_out.get("duplicate_of") is not None)]
        return dataclasses.replace(self, **worked_out, flags=sorted(flags))

    @property
    def texts(self) -> dict[str, str]:
        """The known texts of the answer by name: reasoning, content, refusal."""
        texts = (("reasoning", self.reasoning), ("content", self.content), ("refusal", self.refusal))
        return {name: text for name, text in texts if text is not None}


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

    It holds no `Exchange`: a conversation may have thousands of turns, and one statement reads what their lines show.
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
    outcome: Standing
    input_tokens: int | None
    output_tokens: int | None
    cache_read_input_tokens: int | None
    content: str | None
    tools: str | None
    cache_verdict: CacheVerdict | None = None
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
    """A request as on the tape, with the facts of its exchange; `body` may be only its beginning.

    `size` and `sha256` are of the whole body received: None until it is complete, and if the recorder died before that.
    """

    id: str
    exchange: Exchange
    body: bytes | None = dataclasses.field(repr=False)
    size: int | None
    sha256: str | None
    labels: dict[str, str]

    @property
    def headers(self) -> Headers:
        """The headers of the request: names in small letters, credentials redacted."""
        return self.exchange.headers.request

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
    return tuple(field.name for field in dataclasses.fields(record) if field.default is dataclasses.MISSING)


LISTED: Final = tuple(name for name in _required(ListRow) if name != "no")
"""The fields of a `ListRow` as queries name them."""

_NAMED: Final = tuple(name for name in _required(DetailRow) if name not in ("no", "derived"))

_DERIVED: Final = tuple(name for name in map(field_name, SHOWN) if name not in _NAMED)

DETAILED: Final = _NAMED + _DERIVED
"""The fields of a `DetailRow` as queries name them."""


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
    return DetailRow(no=no, derived={name: cells.pop(name) for name in _DERIVED}, **cells)


def value(row: ListRow, name: str) -> Any:
    return row.derived[name] if isinstance(row, DetailRow) and name in row.derived else getattr(row, name)


def record(row: DetailRow, headers: HeadersRow) -> TableRow:
    """Return all fields of an exchange by name, with the headers of its request and of its response, and trailers."""
    fields = {name: value(row, name) for name in FIELDS + TEXT_FIELDS + DETAIL_FIELDS}
    return fields | dict(zip(HEADER_FIELDS, headers, strict=True))


def only(rows: Iterable[TableRow], names: Sequence[str]) -> Iterator[TableRow]:
    """Yield rows with some of their fields, in this order."""
    return ({name: row[name] for name in names} for row in rows)


def ending(outcome: Standing, detail: str | None) -> str:
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


def read_row(socket_read: Read) -> TableRow:
    """Return a read's row."""
    return {
        "seq": socket_read.seq,
        "at_ms": ms(socket_read.at_ns),
        "relayed_ms": ms(socket_read.relayed_ns),
        "start": socket_read.start,
        "size": socket_read.size,
    }


def request(row: RequestRow) -> TableRow:
    """Return the row of a request: its body as text, and in base64 as it came if it was not that text in UTF-8."""
    text, exchange = row.text, row.exchange
    is_text = text is not None and encoding.is_identity(encoding.coding_of(row.headers))
    return {
        "id": row.id,
        **{name: getattr(exchange, name) for name in ("method", "path", "upstream")},
        "headers": [[*pair] for pair in row.headers],
        "body": text,
        "body_base64": None if row.body is None or is_text else base64.b64encode(row.body).decode(),
        **{name: getattr(row, name) for name in ("size", "sha256", "labels")},
    }


def masked(row: DetailRow, mask: "Masker") -> DetailRow:
    """Return a row with its texts masked; secrets in them are not counted, as they are those of the bodies."""
    count = mask.count
    values = {field.name: mask.value(getattr(row, field.name)) for field in dataclasses.fields(row)}
    mask.count = count
    return dataclasses.replace(row, **values)
