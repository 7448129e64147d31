"""The ended exchanges of a tape with all that counts and spans tell of them."""

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any

from wiretape.recorder.clock import wall_ns
from wiretape.recorder.decode.exchange import Exchange
from wiretape.recorder.decode.operation import GENERATIONS
from wiretape.recorder.decode.stalls import DEFAULT
from wiretape.recorder.tape.reader import Connection
from wiretape.recorder.tape.selects import Column, select
from wiretape.recorder.tape.tables import exchanges, measures
from wiretape.viewer.sessions.exchanges import SessionExchange, own_time, stalls_of
from wiretape.viewer.source.tape import queries, sessions
from wiretape.viewer.source.tape.columns import JOINED, among, stalled_gaps
from wiretape.viewer.stats.dashboard import FinishedExchange, Traced
from wiretape.viewer.stats.parameters import NO_PARAMETERS, RequestParameters, parameters_of
from wiretape.viewer.stats.tools.request import Judged


def _columns(record: type[FinishedExchange] | type[Traced], *worked_out: str) -> dict[str, Column]:
    """Return the columns with the names of a record's fields, except those `worked_out`."""
    columns, names = {**exchanges.c, **measures.c}, (field.name for field in fields(record))
    return {name: columns[name] for name in names if name in columns and name not in worked_out}


_COUNTED = _columns(FinishedExchange, "flags")
_TOLD = _columns(Traced, "request_headers", "labels")
_FACTS = select(
    exchanges.c.no, exchanges.c.status, exchanges.c.ended_by, exchanges.c.end_ns, exchanges.c.gap_bytes,
    exchanges.c.framing, exchanges.c.started_at, exchanges.c.request_headers, exchanges.c.labels, measures.c.outcome,
    measures.c.error_code, measures.c.duration_ns, measures.c.flags, measures.c.finish_reason,
    measures.c.choices, measures.c.conversation_key, measures.c.latency_ns, measures.c.turn_spans,
    measures.c.last_silence_ns, measures.c.tool_spans,
    stalled_gaps(DEFAULT.stall_ns).label("gaps"), *_COUNTED.values(), *_TOLD.values(),
).select_from(JOINED)  # fmt: skip


def traced(connection: Connection, numbers: Sequence[int], *, of_spans: bool = False) -> Iterator[Traced]:
    """Yield the exchanges of these numbers, which have ended; those that have been deleted since are left out.

    `of_spans` finds the time before each, for which the sessions of the tape are read, and the request's parameters.
    """
    pauses = sessions.before(connection, numbers) if of_spans else {}
    with connection.begin():
        rows = connection.execute(_FACTS.where(among(numbers))).all()
    for row, body in queries.decoded_bodies(connection, ((row.no, row) for row in rows)):
        exchange = Exchange(
            status=row.status, ended_by=row.ended_by, end_ns=row.end_ns, gap_bytes=row.gap_bytes, framing=row.framing
        )
        counted = FinishedExchange(
            exchange=exchange,
            judged=Judged(row.outcome or "open", row.error_code, row.duration_ns),
            body=body,
            flags=(row.flags or "").split(),
            own_time=own_time(_facts(row)),
            **{name: getattr(row, name) for name in _COUNTED},
        )
        yield Traced(
            counted=counted,
            started_ns=wall_ns(row.started_at),
            request_headers=row.request_headers or [],
            labels=row.labels or {},
            finish_reasons=_finish_reasons(row),
            conversation=row.conversation_key,
            stalls=None if row.first_output_silence_ns is None else stalls_of(_facts(row)),
            pause=pauses.get(row.no),
            parameters=_parameters(connection, row) if of_spans else NO_PARAMETERS,
            **{name: getattr(row, name) for name in _TOLD},
        )


def _parameters(connection: Connection, row: Any) -> RequestParameters:
    """Return the parameters of a request for a generation; its body is read only now."""
    is_generation = row.operation in GENERATIONS
    return parameters_of(queries.request(connection, row.no).plain) if is_generation else NO_PARAMETERS


def _facts(row: Any) -> SessionExchange:
    """Return the facts of an exchange's own time, without its place in a session."""
    where = row.no, None, row.started_at, None, None, row.clock
    times = row.ttft_ns, row.latency_ns, row.duration_ns, row.end_ns
    silences = {"last_silence_ns": row.last_silence_ns, "tool_spans": row.tool_spans}
    return SessionExchange(*where, row.outcome, row.operation, *times, row.gaps, row.turn_spans, **silences)


def _finish_reasons(row: Any) -> list[str]:
    """Return the finish reason of each choice of an answer; none unless all are known."""
    others = [choice.get("finish_reason") for choice in row.choices or () if isinstance(choice, dict)]
    reasons = [row.finish_reason, *others]
    return reasons if all(isinstance(reason, str) for reason in reasons) else []
