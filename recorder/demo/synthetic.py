"""Synthetic exchanges, of any number and the same for the same seed: for measuring speed and trying commands.

Building and decoding a body is slow, drawing timestamps is fast. So each distinct body (a model, an ending, a
variation) is one `SyntheticExchange`, decoded once, and `timed` gives it timestamps and has `metrics` time it like any
recording. Gaps are lognormal with rare stalls; models differ in pace, in how many chunks share a read, and in whether
they report usage. `fill` writes them to a tape: rows go through the schema's tables, in bulk, and only ever onto a tape
without exchanges.
"""

import dataclasses
import functools
import hashlib
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from operator import sub
from typing import Final

import numpy as np
from numpy.random import Generator
from sqlalchemy import Connection, insert

from wiretape.recorder.decode import layers
from wiretape.recorder.decode.conversation import RecordedRequest
from wiretape.recorder.decode.decoder import Decoded, decode
from wiretape.recorder.decode.derive import derive, silent, stall_flags
from wiretape.recorder.decode.exchange import Exchange, Reads
from wiretape.recorder.decode.metrics import Measures, Timeline, measured
from wiretape.recorder.decode.plain import event_runs
from wiretape.recorder.decode.values import JsonObject
from wiretape.recorder.errors import WiretapeError
from wiretape.recorder.facts import EndedBy
from wiretape.recorder.ids import exchange_id
from wiretape.recorder.tape import file, packing, reading
from wiretape.recorder.tape.schema import bodies, exchanges, measures, segments, sessions, settlements

VARIATIONS: Final = 4
PATH: Final = "/v1/chat/completions"
STREAM: Final = "text/event-stream"
JSON: Final = "application/json"
_MS: Final = 1_000_000
_WORDS: Final = (
    "the", "pause", "before", "a", "word", "has", "length", "and", "every", "stream", "ends", "once", "in", "time", "—",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Model:
    """A model as its clients see it: medians in ms, and the share of events that come with the one before."""

    name: str
    upstream: str
    ttft: float
    gap: float
    together: float = 0.0
    usage: bool = True
    reasoning: bool = False


MODELS: Final = (
    Model("gpt-x", "https://api.example.com", 420, 18),
    Model("gpt-x-mini", "https://api.example.com", 260, 9),
    Model("thinker-1", "https://reason.example.net", 900, 24, reasoning=True),
    Model("local-8b", "http://127.0.0.1:8000", 120, 6, together=0.12, usage=False),
)

ENDINGS: Final = {
    "complete": 930, "client_closed": 20, "http_error": 15, "truncated": 10, "error_event": 10, "connect_error": 5,
    "timeout": 4, "malformed": 3, "interrupted": 2, "open": 1,
}  # fmt: skip
"""The outcomes, and their counts in a thousand exchanges."""

_ENDED_BY: Final[dict[str, EndedBy | None]] = {
    "client_closed": "client", "truncated": "eof", "connect_error": "refused", "interrupted": "died", "open": None,
}  # fmt: skip
_CUT: Final = frozenset({"client_closed", "truncated", "timeout", "interrupted", "open"})


@dataclass(frozen=True, slots=True)
class SyntheticExchange:
    """An exchange without timestamps: its body, where its reads end in it, and what decoding it gave."""

    model: Model
    ending: str
    facts: Exchange
    body: bytes
    ends: Sequence[int]
    decoded: Decoded
    derived: Measures
    request: RecordedRequest


def template(model: Model, ending: str, chunks: int, variation: int) -> SyntheticExchange:
    """Build and decode a body of up to `chunks` output chunks; the same arguments give the same body."""
    random = np.random.default_rng([chunks, variation])
    facts = _facts(ending, variation)
    pieces = _pieces(model, ending, chunks, variation) if facts.status is not None else []
    body, ends = b"".join(pieces), _ends(pieces, model.together, random)
    its_reads = _reads(ends, [1] * len(ends))
    decoded = decode(facts, its_reads, body)
    headers = [["content-type", "application/json"]]
    request = RecordedRequest(headers, json.dumps({"model": model.name, "stream": True}).encode())
    derived = derive(facts, its_reads, body, decoded, request)
    return SyntheticExchange(model, ending, facts, body, ends, decoded, derived, request)


def timed(template: SyntheticExchange, random: Generator) -> tuple[Exchange, Reads, Measures]:
    """Return a template's facts, reads and measures with drawn timestamps; the measures are those of `derive`."""
    ttft_ns, at_ns = _timestamps(template.model, len(template.ends), random)
    wait_ns = 30_000 * _MS if template.ending == "timeout" else 300_000
    facts = replace(
        template.facts,
        connected_ns=ttft_ns // 20 if template.ending != "connect_error" else None,
        sent_ns=ttft_ns // 20 if template.ending != "connect_error" else None,
        headers_ns=ttft_ns - _MS if template.facts.status is not None else None,
        end_ns=(at_ns[-1] if at_ns else ttft_ns) + wait_ns if template.facts.ended_by is not None else None,
    )
    its_reads = _reads(template.ends, at_ns)
    return facts, its_reads, _measured(template, facts, its_reads)


def _measured(template: SyntheticExchange, facts: Exchange, its_reads: Reads) -> Measures:
    """Derive the measures that depend on timestamps, as `derive` does; the body's were derived already."""
    decoded = replace(template.decoded, at_ns=[its_reads.at_ns[seq or 0] for seq in template.decoded.reads])
    silences = layers.silences(facts, its_reads, decoded, template.request.body)
    ended_silences = silences if facts.ended_by else ()
    timeline = Timeline(facts, its_reads, silences=ended_silences)
    flags = set(template.derived.flags) - {"coalesced", "single_chunk", "stall", "given_up", "burst"}
    if template.decoded.stream:
        timeline = Timeline(facts, its_reads, decoded, template.derived.output_tokens, ended_silences)
        flags |= timeline.flags()
    values = measured(timeline) | silent(timeline, decoded, template.derived.outcome, silences)
    flags |= stall_flags(values)
    runs = event_runs(facts, decoded) if template.decoded.stream else None
    return replace(template.derived, **values, event_runs=runs, flags=tuple(sorted(flags)))


def _timestamps(model: Model, reads: int, random: Generator) -> tuple[int, list[int]]:
    """Draw when the head and the first byte come, and when each read does, in ns since T0."""
    pace = random.lognormal(0, 0.15)
    gaps = random.lognormal(np.log(model.gap * pace), 0.35, reads)
    gaps += np.where(random.random(reads) < 0.0002, random.uniform(2000, 6000, reads), 0)  # a stall is rare
    ttft = random.lognormal(np.log(model.ttft * pace), 0.4)
    gaps[:1] = ttft
    return int(ttft * _MS), np.cumsum((gaps * _MS).astype(np.int64)).tolist()


def _reads(ends: Sequence[int], at: Sequence[int]) -> Reads:
    starts = [0, *ends[:-1]]
    relayed, sizes = [moment + 40_000 for moment in at], list(map(sub, ends, starts))
    return Reads(range(len(ends)), at, relayed, starts[: len(ends)], sizes)


def _ends(pieces: Sequence[bytes], together: float, random: Generator) -> list[int]:
    """Cut a body into reads: mostly at the ends of its pieces; some come together, some are cut in two."""
    ends, position = list[int](), 0
    for piece in pieces:
        if random.random() < 0.01:
            ends.append(position + len(piece) // 2)
        position += len(piece)
        if random.random() >= together:
            ends.append(position)
    return [*ends, position] if position and ends[-1:] != [position] else ends


def _facts(ending: str, variation: int) -> Exchange:
    status: int | None = 200
    ended_by = _ENDED_BY.get(ending, "end")
    if ending == "timeout":
        status, ended_by = (None, "headers_timeout") if variation % 2 else (200, "idle_timeout")
    elif ending == "http_error":
        status = 500 if variation % 2 else 429
    elif ending == "connect_error":
        status = None
    kind = None if status is None else STREAM if status == 200 else JSON
    end_ns = 1 if ended_by is not None else None
    return Exchange(status=status, content_type=kind, ended_by=ended_by, end_ns=end_ns, path=PATH)


def _pieces(model: Model, ending: str, chunks: int, variation: int) -> list[bytes]:
    """Return the events of a body."""
    if ending == "http_error":
        return [_json({"error": {"message": "try again later", "code": "overloaded"}})]
    outputs = [_event(model, _delta(model, at, chunks, variation)) for at in range(chunks)]
    pieces = [_event(model, {"role": "assistant", "content": ""}), *outputs]
    if ending in _CUT:
        return pieces[: 2 + chunks * (1 + variation) // (2 + VARIATIONS)]
    if ending == "error_event":
        count = 1 if variation % 2 else 1 + chunks // 2
        return [*pieces[:count], _sent({"error": {"message": "the model stopped", "code": "engine_error"}})]
    if ending == "malformed":
        pieces.insert(1 + chunks // 2, b'data: {"choices":[\n\n')
    pieces.append(_event(model, {}, "tool_calls" if _calls(model, variation) else "stop"))
    if model.usage:
        tokens: JsonObject = {"prompt_tokens": 40, "completion_tokens": chunks + chunks // 4}
        if model.reasoning:
            tokens["completion_tokens_details"] = {"reasoning_tokens": chunks // 2}
        pieces.append(_sent(_envelope(model, choices=[], usage={**tokens, "total_tokens": 40 + chunks + chunks // 4})))
    return [*pieces, b"data: [DONE]\n\n"]


def _calls(model: Model, variation: int) -> bool:
    return model.name == "gpt-x" and variation == VARIATIONS - 1


def _delta(model: Model, at: int, chunks: int, variation: int) -> JsonObject:
    word = f" {_WORDS[(at * (variation + 1) + at // 7) % len(_WORDS)]}"
    if model.reasoning and at < chunks * 2 // 5:
        return {"reasoning_content": word}
    if _calls(model, variation) and at >= chunks // 2:
        if at == chunks // 2:
            call = {"id": "call_1", "type": "function", "function": {"name": "look_up", "arguments": ""}}
        else:
            call = {"function": {"arguments": word}}
        return {"tool_calls": [{"index": 0, **call}]}
    return {"content": word}


def _event(model: Model, delta: JsonObject, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return _sent(_envelope(model, choices=[choice]))


def _envelope(model: Model, **more: object) -> JsonObject:
    return {
        "id": "chatcmpl-fixture",
        "object": "chat.completion.chunk",
        "created": 1767225600,
        "model": f"{model.name}-2026-01-01",
        "system_fingerprint": "fp_0123456789",
        **more,
    }


def _sent(payload: JsonObject) -> bytes:
    return b"data: " + _json(payload) + b"\n\n"


def _json(payload: JsonObject) -> bytes:
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode()


BATCH: Final = 200
_TEAMS: Final = ("search", "support", "batch")


@dataclass(frozen=True, slots=True)
class _Packed:
    """A template and its body as the tape keeps it."""

    template: SyntheticExchange
    sha256: str
    data: bytes


class _Rows:
    """The rows of some exchanges, table by table."""

    def __init__(self) -> None:
        self.exchanges: list[JsonObject] = []
        self.bodies: list[JsonObject] = []
        self.segments: list[JsonObject] = []
        self.measures: list[JsonObject] = []
        self.settlements: list[JsonObject] = []

    def add(self, facts: JsonObject, packed: _Packed, random: Generator) -> None:
        """Add one exchange, with timestamps of its own."""
        no, body = facts["no"], packed.template.body
        exchange, its_reads, measured = timed(packed.template, random)
        self.exchanges.append(facts | _exchange_columns(packed.template, exchange, its_reads))
        if exchange.ended_by is None:
            coming = packing.packed(0, 0, its_reads.at_ns, its_reads.relayed_ns, its_reads.size)
            self.segments.append({"exchange_no": no, **coming._asdict(), "data": body})
            return
        its_packed = packing.pack(its_reads)._asdict()
        arrays = {name: its_packed[name] for name in ("at_ns", "relayed_ns", "sizes")}
        facts = {"size": len(body), "sha256": packed.sha256, "data": packed.data}
        self.bodies.append({"exchange_no": no, **facts, **arrays})
        values = {field.name: getattr(measured, field.name) for field in dataclasses.fields(measured)}
        self.measures.append({"exchange_no": no, **values, "flags": " ".join(measured.flags)})
        self.settlements.append({"exchange_no": no, "version": no})

    def write(self, connection: Connection) -> None:
        with connection.begin():
            for table in (exchanges, bodies, segments, measures, settlements):
                if rows := getattr(self, table.name):
                    connection.execute(insert(table), rows)


def fill(connection: Connection, count: int, chunks: int, seed: int) -> Iterator[int]:
    """Write `count` exchanges of up to `chunks` output chunks each; yield the current count after each commit.

    The first exchanges have one outcome each, so that a small tape has them all. Raises `WiretapeError` if the tape
    has exchanges already.
    """
    session_no = _begin_session(connection, seed)
    random = np.random.default_rng(seed)
    build = functools.cache(functools.partial(_packed, chunks))  # only those that are drawn: a long one takes long
    shares = np.array(list(ENDINGS.values()), float)
    endings = [*ENDINGS, *random.choice(list(ENDINGS), count, p=shares / shares.sum()).tolist()]
    for start in range(0, count, BATCH):
        rows = _Rows()
        for at in range(start, min(start + BATCH, count)):
            model = MODELS[random.integers(len(MODELS))]
            packed = build(model, endings[at], int(random.integers(VARIATIONS)))
            rows.add(_identity_columns(at, seed, random) | {"session_no": session_no}, packed, random)
        rows.write(connection)
        yield min(start + BATCH, count)


def _packed(chunks: int, model: Model, ending: str, variation: int) -> _Packed:
    exchange = template(model, ending, chunks, variation)
    return _Packed(exchange, hashlib.sha256(exchange.body).hexdigest(), zlib.compress(exchange.body))


def _begin_session(connection: Connection, seed: int) -> int:
    at = _moment(0)
    row = {
        "uuid": f"fixture-{seed}",
        "version": "fixture",
        "pid": 0,
        "listen": "http://127.0.0.1:8377",
        "upstreams": [[model.name, model.upstream] for model in MODELS],
        "salt": hashlib.sha256(str(seed).encode()).digest(),
        "started_at": at,
        "heartbeat_at": at,
    }
    with connection.begin():
        if reading.outcomes(file.reader_of(connection)):
            raise WiretapeError("the tape holds exchanges already: name another with --db")
        result = connection.execute(insert(sessions).values(row))
    assert result.inserted_primary_key is not None
    return int(result.inserted_primary_key[0])


def _moment(at: int) -> str:
    return (datetime(2026, 1, 1, tzinfo=UTC) + at * timedelta(seconds=7.3)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _identity_columns(at: int, seed: int, random: Generator) -> JsonObject:
    return {
        "no": at + 1,
        "id": exchange_id(hashlib.sha256(f"{seed}/{at}".encode()).hexdigest()[:16]),
        "started_at": _moment(at),
        "labels": {"team": _TEAMS[random.integers(len(_TEAMS))], "run": f"r{at // 1000}"},
    }


def _exchange_columns(template: SyntheticExchange, exchange: Exchange, its_reads: Reads) -> JsonObject:
    """Return the columns of a row of exchanges other than those of `_identity_columns`."""
    request = template.request.body or b""
    has_response = exchange.status is not None
    return {
        "method": "POST",
        "path": PATH,
        "upstream": template.model.upstream,
        "request_model": template.model.name,
        "request_headers": template.request.headers,
        "request_body": request,
        "request_size": len(request),
        "request_sha256": hashlib.sha256(request).hexdigest(),
        "status": exchange.status,
        "response_headers": [["content-type", exchange.content_type]] if has_response else None,
        "connected_ns": exchange.connected_ns,
        "sent_ns": exchange.connected_ns,
        "headers_ns": exchange.headers_ns,
        "end_ns": exchange.end_ns,
        "client_closed_ns": exchange.end_ns if exchange.ended_by == "client" else None,
        "ended_by": exchange.ended_by,
        "framing": "chunked" if has_response else None,
        "bytes": sum(its_reads.size) if exchange.ended_by is not None else 0,
    }
