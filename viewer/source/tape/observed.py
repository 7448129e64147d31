"""The exchanges of a tape as other tools would have observed them: the facts and the decoded events of each."""

import itertools
import json
import multiprocessing
import os
import signal
from array import array
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, select

from wiretape.recorder import children
from wiretape.recorder.clock import wall_ns
from wiretape.recorder.decode import encoding
from wiretape.recorder.decode.exchange import Exchange
from wiretape.recorder.tape.schema import REQUEST_BODY, exchanges, measures
from wiretape.viewer.source.tape import queries
from wiretape.viewer.source.tape.columns import among
from wiretape.viewer.source.tape.conditions import Condition
from wiretape.viewer.stats.tools.request import CountTokens, Judged
from wiretape.viewer.stats.tools.summary import Addend, Observed, measure_observed
from wiretape.viewer.stats.tools.tools import AUTHORITIES, MeasuringTool, authority

PART: Final = 500
"""Number of exchanges that one process measures at a time."""

MANY: Final = 2000
"""More exchanges are measured by several processes: to start one takes as long as to measure hundreds."""

_FACTS = select(
    exchanges.c.no, exchanges.c.status, exchanges.c.ended_by, exchanges.c.end_ns, exchanges.c.gap_bytes,
    measures.c.outcome, measures.c.error_code, measures.c.duration_ns, exchanges.c.started_at,
    measures.c.flags,
)  # fmt: skip


def observed(connection: Connection, rule: MeasuringTool, where: Condition | None = None) -> Iterator[Observed]:
    """Yield the exchanges that `where` selects, oldest first; `rule` says whether their requests are needed."""
    batches = queries.in_batches(connection, _FACTS, where, fetch=lambda tape, facts: tape.execute(facts).all())
    numbered = ((row.no, row) for batch in batches for row in batch)
    for row, decoded in queries.decoded_bodies(connection, numbered):
        exchange = Exchange(row.status, None, None, row.ended_by, None, None, row.end_ns, row.gap_bytes)
        requested = _requested_tokens(connection, row.no) if rule.reads_request else None
        judged = Judged(row.outcome, row.error_code, row.duration_ns, (row.flags or "").split())
        yield Observed(exchange, decoded, judged, wall_ns(row.started_at), requested)


def one(connection: Connection, no: int) -> Observed:
    """Return one exchange as any tool would have observed it. Raises `StopIteration` if there is none."""
    reading = next(rule for rule in AUTHORITIES.values() if rule.reads_request)
    return next(observed(connection, reading, among([no])))


def measured(
    connection: Connection,
    tape: Path,
    tool: str,
    where: Condition | None = None,
    count_tokens: CountTokens | None = None,
) -> Iterator[Addend]:
    """Yield the exchanges that `where` selects as a tool measures them, oldest first; many by several processes."""
    processes = len(os.sched_getaffinity(0))
    if count_tokens is not None or processes == 1 or queries.count(connection, where) <= MANY:
        for one in observed(connection, authority(tool), where):
            yield _packed(measure_observed(tool, one, count_tokens))
        return
    numbers, parts = queries.numbers(connection, where), list[list[int]]()
    while part := list(itertools.islice(numbers, PART)):
        parts.append(part)
    spawn, ignored = multiprocessing.get_context("spawn"), (signal.SIGINT, signal.SIG_IGN)
    with children.spawning(), ProcessPoolExecutor(processes, spawn, signal.signal, ignored) as pool:
        try:
            for found, damage in pool.map(partial(_measured_part, tape, tool), parts):
                yield from found
                for line in damage:
                    queries.report_damage(line)
        finally:
            pool.shutdown(cancel_futures=True)


def _measured_part(tape: Path, tool: str, numbers: list[int]) -> tuple[list[Addend], list[str]]:
    """Measure some exchanges; return also the lines that report their damage."""
    damage = list[str]()
    with queries.opened(tape, damage.append) as connection:
        found = observed(connection, authority(tool), among(numbers))
        return [_packed(measure_observed(tool, one)) for one in found], damage


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
