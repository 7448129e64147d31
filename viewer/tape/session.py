"""The exchanges of one run of a recorder, as they end."""

from collections.abc import Callable, Iterator

from sqlalchemy import Connection, select

from recorder.decode.outcome import Exchange
from recorder.tape.schema import exchanges, measures, sessions
from viewer.stats.dashboard import Ended
from viewer.stats.tools.request import Judged
from viewer.tape import following, queries
from viewer.tape.columns import JOINED, among

_FACTS = select(
    exchanges.c.no, exchanges.c.status, exchanges.c.ended_by, exchanges.c.end_ns, exchanges.c.gap_bytes,
    exchanges.c.framing, exchanges.c.upstream, exchanges.c.request_model, measures.c.outcome, measures.c.error_code,
    measures.c.duration_ns, measures.c.operation, measures.c.api, measures.c.response_model, measures.c.flags,
    measures.c.input_tokens, measures.c.output_tokens,
).select_from(JOINED)  # fmt: skip


def ended(connection: Connection, uuid: str, wait: Callable[[], None] = following.pause) -> Iterator[Ended]:
    """Yield every exchange of a session that has ended, then, for ever, those that end; `wait` precedes each poll."""
    own = exchanges.c.session_no == select(sessions.c.no).where(sessions.c.uuid == uuid).scalar_subquery()
    for numbers in following.ended_numbers(connection, own, wait=wait):
        for start in range(0, len(numbers), queries.BATCH):
            statement = _FACTS.where(among(numbers[start : start + queries.BATCH]), own)
            with connection.begin():
                rows = connection.execute(statement).all()
            for row, body in queries.decoded_bodies(connection, ((row.no, row) for row in rows)):
                exchange = Exchange(
                    row.status, None, None, row.ended_by, None, None, row.end_ns, row.gap_bytes, framing=row.framing
                )
                yield Ended(
                    operation=row.operation,
                    api=row.api,
                    upstream=row.upstream,
                    request_model=row.request_model,
                    response_model=row.response_model,
                    exchange=exchange,
                    judged=Judged(row.outcome, row.error_code, row.duration_ns),
                    body=body,
                    flags=(row.flags or "").split(),
                    input_tokens=row.input_tokens,
                    output_tokens=row.output_tokens,
                )
