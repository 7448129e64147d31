"""The exchanges of a tape as other tools would have observed them: the facts and the decoded events of each."""

import itertools
import json
import multiprocessing
import os
from array import array
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from wiretape.recorder import children
from wiretape.recorder.clock import wall_ns
from wiretape.recorder.decode import encoding, plain
from wiretape.recorder.decode.decoder import Decoded
from wiretape.recorder.decode.exchange import Exchange, Headers, Outcome
from wiretape.recorder.decode.metrics import DECODER_VERSION
from wiretape.recorder.decode.values import JsonObject
from wiretape.recorder.facts import EndedBy
from wiretape.recorder.tape.reader import Connection
from wiretape.recorder.tape.selects import Text, case, cast, select
from wiretape.recorder.tape.tables import REQUEST_BODY, exchanges, measures
from wiretape.viewer.source.tape import queries
from wiretape.viewer.source.tape.columns import among
from wiretape.viewer.source.tape.conditions import Condition
from wiretape.viewer.stats.tools.request import CountTokens, Judged
from wiretape.viewer.stats.tools.summary import Addend, Observed, measure_observed
from wiretape.viewer.stats.tools.tools import authority

PART: Final = 500
"""Number of exchanges that one process measures at a time."""

MANY: Final = 2000
"""More exchanges are measured by several processes: to start one takes as long as to measure hundreds."""

_FACTS = select(
    exchanges.c.no, exchanges.c.status, exchanges.c.ended_by, exchanges.c.end_ns, exchanges.c.gap_bytes,
    measures.c.outcome, measures.c.error_code, measures.c.duration_ns, exchanges.c.started_at,
    measures.c.flags, measures.c.event_runs, measures.c.usage, measures.c.ttft_ns, measures.c.icl,
    measures.c.decoder_version,
    # No tool looks at other answers' headers, which would be most of a row.
    case((cast(exchanges.c.response_headers, Text).like('%"x-litellm-%'), exchanges.c.response_headers)),
)  # fmt: skip


def observed(
    connection: Connection, where: Condition | None = None, *, requests: bool = True, texts: bool = True
) -> Iterator[Observed]:
    """Yield the exchanges that `where` selects, oldest first, with the limit of tokens in their `requests`.

    Without `texts`, plain streams are made of their measures, with other texts, and not decoded.
    """
    for batch in queries.in_batches(connection, _FACTS, where):
        rows = [_Facts(*row) for row in batch]
        is_plain = {row.no for row in rows if not texts and row.decoder_version == DECODER_VERSION and row.event_runs}
        bodies = queries.decoded_bodies(connection, [(row.no, row.no) for row in rows if row.no not in is_plain])
        for row in rows:
            decoded = _plain(row) or queries.chunks(connection, row.no) if row.no in is_plain else next(bodies)[1]
            exchange = Exchange(
                status=row.status,
                ended_by=row.ended_by,
                end_ns=row.end_ns,
                gap_bytes=row.gap_bytes,
                headers=Headers(response=tuple((name.lower(), value) for name, value in row.headers or ())),
            )
            requested = _requested_tokens(connection, row.no) if requests else None
            judged = Judged(row.outcome or "open", row.error_code, row.duration_ns, (row.flags or "").split())
            yield Observed(exchange, decoded, judged, wall_ns(row.started_at), requested)


class _Facts(NamedTuple):
    """A row of `_FACTS`."""

    no: int
    status: int | None
    ended_by: EndedBy | None
    end_ns: int | None
    gap_bytes: int
    outcome: Outcome | None
    error_code: str | None
    duration_ns: int | None
    started_at: str
    flags: str | None
    event_runs: list[list[Any]] | None
    usage: JsonObject | None
    ttft_ns: int | None
    icl: bytes
    decoder_version: int | None
    headers: list[list[str]] | None


def _plain(row: _Facts) -> Decoded | None:
    """Return the plain stream of an exchange that has one; None if its measures are damaged."""
    gaps = np.frombuffer(row.icl or b"", "<i8")
    at_ns = [] if row.ttft_ns is None else [row.ttft_ns, *(row.ttft_ns + np.cumsum(gaps)).tolist()]
    return plain.stream(row.event_runs or (), row.usage, at_ns)


def one(connection: Connection, no: int) -> Observed:
    """Return one exchange as any tool would have observed it. Raises `StopIteration` if there is none."""
    return next(observed(connection, among([no])))


def measured(
    connection: Connection,
    tape: Path,
    tool: str,
    where: Condition | None = None,
    count_tokens: CountTokens | None = None,
) -> Iterator[Addend]:
    """Yield the exchanges that `where` selects as a tool measures them, oldest first; many by several processes."""
    processes, rule = len(os.sched_getaffinity(0)), authority(tool)
    texts = count_tokens is not None or rule.needs_reads
    to_decode = where
    if not rule.needs_reads:
        to_decode = measures.c.event_runs.is_(None) if where is None else where & measures.c.event_runs.is_(None)
    if count_tokens is not None or processes == 1 or queries.count(connection, to_decode) <= MANY:
        for request in observed(connection, where, requests=rule.reads_request, texts=texts):
            yield _packed(measure_observed(tool, request, count_tokens))
        return
    numbers, parts = queries.numbers(connection, where), list[list[int]]()
    while part := list(itertools.islice(numbers, PART)):
        parts.append(part)
    spawn = multiprocessing.get_context("spawn")
    with children.spawning(), ProcessPoolExecutor(processes, spawn, children.attach) as pool:
        try:
            for addends, damage in pool.map(partial(_measured_part, tape, tool), parts):
                yield from addends
                for line in damage:
                    queries.report_damage(line)
        finally:
            pool.shutdown(cancel_futures=True)


def _measured_part(tape: Path, tool: str, numbers: list[int]) -> tuple[list[Addend], list[str]]:
    """Measure some exchanges; return also the lines that report their damage."""
    damage = list[str]()
    with queries.opened(tape, damage.append) as connection:
        rule = authority(tool)
        requests = observed(connection, among(numbers), requests=rule.reads_request, texts=rule.needs_reads)
        return [_packed(measure_observed(tool, request)) for request in requests], damage


def _packed(addend: Addend) -> Addend:
    """Replace the lists among the numbers of an exchange with arrays: another process gets those much faster."""
    numbers = addend[0].numbers
    lists = {name: value for name, value in numbers.items() if isinstance(value, list)}
    numbers.update({name: array("d", value) for name, value in lists.items()})
    return addend


def _requested_tokens(connection: Connection, no: int) -> int | None:
    """Return the longest answer that a request asked for, None where it set no limit."""
    with connection.begin():
        columns = (exchanges.c.request_headers, REQUEST_BODY)
        headers, body = connection.execute(select(*columns).where(exchanges.c.no == no)).one()
    try:
        payload = json.loads(encoding.uncoded(headers or [], body or b"null"))
    except (ValueError, RecursionError):
        return None
    limit = payload.get("max_completion_tokens", payload.get("max_tokens")) if isinstance(payload, dict) else None
    return limit if isinstance(limit, int) and not isinstance(limit, bool) and limit > 0 else None
