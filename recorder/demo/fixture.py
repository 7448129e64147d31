"""A tape of synthetic exchanges, of any size and the same for the same seed: for measuring speed and trying commands.

Rows go through the schema's tables, in bulk. Like `store`, this writes, but only ever onto a tape without exchanges.
What the exchanges are is left to `synthetic`.
"""

import dataclasses
import functools
import hashlib
import json
import zlib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np
from numpy.random import Generator
from sqlalchemy import Connection, func, insert, select

from recorder.decode.outcome import Exchange, Read
from recorder.demo import synthetic
from recorder.demo.synthetic import ENDINGS, MODELS, VARIATIONS, Template
from recorder.errors import WiretapeError
from recorder.tape.schema import bodies, exchanges, measures, reads, segments, sessions

_BATCH: Final = 200
_BEGAN: Final = datetime(2026, 1, 1, tzinfo=UTC)
_APART: Final = timedelta(seconds=7.3)
_TEAMS: Final = ("search", "support", "batch")


@dataclasses.dataclass(frozen=True, slots=True)
class _Packed:
    """A template and its body as the tape keeps it."""

    template: Template
    sha256: str
    data: bytes


class _Rows:
    """The rows of some exchanges, table by table."""

    def __init__(self) -> None:
        self.exchanges: list[dict[str, Any]] = []
        self.reads: list[tuple[int, int, int, int | None, int, int]] = []
        self.bodies: list[dict[str, Any]] = []
        self.segments: list[dict[str, Any]] = []
        self.measures: list[dict[str, Any]] = []

    def add(self, facts: dict[str, Any], packed: _Packed, random: Generator) -> None:
        """Add one exchange, at instants of its own."""
        no, body = facts["no"], packed.template.body
        exchange, its_reads, measured = synthetic.timed(packed.template, random)
        self.exchanges.append(facts | _facts(packed.template, exchange, its_reads))
        self.reads += [(no, read.seq, read.at_ns, read.relayed_ns, read.start, read.size) for read in its_reads]
        if exchange.ended_by is None:
            self.segments.append({"exchange_no": no, "start": 0, "data": body})
            return
        self.bodies.append({"exchange_no": no, "size": len(body), "sha256": packed.sha256, "data": packed.data})
        values = {field.name: getattr(measured, field.name) for field in dataclasses.fields(measured)}
        self.measures.append({"exchange_no": no, **values, "flags": " ".join(measured.flags)})

    def write(self, connection: Connection) -> None:
        """Write all rows in one transaction."""
        with connection.begin():
            for table in (exchanges, bodies, segments, measures):
                if rows := getattr(self, table.name):
                    connection.execute(insert(table), rows)
            if self.reads:  # by far the most: plain numbers, which need no conversion
                connection.exec_driver_sql(str(insert(reads).compile(dialect=connection.dialect)), self.reads)


def fill(connection: Connection, count: int, chunks: int, seed: int) -> Iterator[int]:
    """Write `count` exchanges of up to `chunks` output chunks each; give after each commit how many there are.

    The first exchanges have one outcome each, so that a small tape has them all. Raises `WiretapeError` if the tape
    has exchanges already.
    """
    session_no = _begin_session(connection, seed)
    random = np.random.default_rng(seed)
    made = functools.cache(functools.partial(_made, chunks))  # only those that are drawn: a long one takes long
    shares = np.array(list(ENDINGS.values()), float)
    drawn = [*ENDINGS, *random.choice(list(ENDINGS), count, p=shares / shares.sum()).tolist()]
    for start in range(0, count, _BATCH):
        rows = _Rows()
        for at in range(start, min(start + _BATCH, count)):
            model = MODELS[random.integers(len(MODELS))]
            packed = made(model, drawn[at], int(random.integers(VARIATIONS)))
            rows.add(_identity(at, seed, random) | {"session_no": session_no}, packed, random)
        rows.write(connection)
        yield min(start + _BATCH, count)


def _made(chunks: int, model: synthetic.Model, ending: str, variation: int) -> _Packed:
    one = synthetic.template(model, ending, chunks, variation)
    return _Packed(one, hashlib.sha256(one.body).hexdigest(), zlib.compress(one.body))


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
        if connection.execute(select(func.count()).select_from(exchanges)).scalar():
            raise WiretapeError("the tape holds exchanges already: name another with --db")
        result = connection.execute(insert(sessions).values(row))
    assert result.inserted_primary_key is not None
    return int(result.inserted_primary_key[0])


def _moment(at: int) -> str:
    return (_BEGAN + at * _APART).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _identity(at: int, seed: int, random: Generator) -> dict[str, Any]:
    return {
        "no": at + 1,
        "id": hashlib.sha256(f"{seed}/{at}".encode()).hexdigest()[:16],
        "started_at": _moment(at),
        "labels": {"team": _TEAMS[random.integers(len(_TEAMS))], "run": f"r{at // 1000}"},
    }


def _facts(one: Template, exchange: Exchange, its_reads: Sequence[Read]) -> dict[str, Any]:
    """Give what a row of exchanges has beside its identity."""
    asked = json.dumps({"model": one.model.name, "stream": True}).encode()
    answered = exchange.status is not None
    left = exchange.end_ns if exchange.ended_by == "client" else None
    return {
        "method": "POST",
        "path": "/v1/chat/completions",
        "upstream": one.model.upstream,
        "request_model": one.model.name,
        "request_headers": [["content-type", "application/json"]],
        "request_body": asked,
        "request_size": len(asked),
        "request_sha256": hashlib.sha256(asked).hexdigest(),
        "status": exchange.status,
        "response_headers": [["content-type", exchange.content_type]] if answered else None,
        "connected_ns": exchange.connected_ns,
        "sent_ns": exchange.connected_ns,
        "headers_ns": exchange.headers_ns,
        "end_ns": exchange.end_ns,
        "client_closed_ns": left,
        "ended_by": exchange.ended_by,
        "framing": "chunked" if answered else None,
        "bytes": sum(read.size for read in its_reads) if exchange.ended_by is not None else 0,
    }
