"""The exchanges of a tape with the same request, for reports, and who recorded them."""

from typing import Final

from wiretape.recorder.clock import wall_ns
from wiretape.recorder.decode.exchange import Outcome
from wiretape.recorder.tape.reader import Connection
from wiretape.recorder.tape.selects import Select, and_, func, or_, select
from wiretape.recorder.tape.tables import exchanges, measures, sessions
from wiretape.viewer.sessions import retries
from wiretape.viewer.sessions.retries import Attempt, RequestAttempts
from wiretape.viewer.source.tape.columns import JOINED

_NEARBY: Final = 200
"""Exchanges before and after one among which other attempts at its request are looked for."""

_LARGEST: Final = (1 << 63) - 1
"""The largest number of SQLite, which a damaged tape may hold."""

_SAME: Final = tuple(exchanges.c[name] for name in ("method", "path", "upstream", "request_sha256"))
_OWN: Final[Select] = select(
    sessions.c.version, measures.c.retries, exchanges.c.resent_from, *_SAME, exchanges.c.request_size
).select_from(JOINED.outerjoin(sessions, sessions.c.no == exchanges.c.session_no))


def recording(connection: Connection, no: int) -> RequestAttempts:
    """Read the attempts around an exchange at its request. Raises `NoResultFound`."""
    with connection.begin():
        version, count, resent_from, *request, size = connection.execute(_OWN.where(exchanges.c.no == no)).one()
        if not size or None in request or resent_from is not None:
            return RequestAttempts(version, None, count)
        same_values = (column == value for column, value in zip(_SAME, request, strict=True))
        is_alike = and_(exchanges.c.resent_from.is_(None), *same_values)
        is_own = exchanges.c.no == no  # on a damaged tape, a value may not even equal itself
        near = exchanges.c.no.between(max(no - _NEARBY, -_LARGEST), min(no + _NEARBY, _LARGEST))
        outcome = func.coalesce(measures.c.outcome, "open")
        statement = select(
            exchanges.c.no, exchanges.c.id, exchanges.c.started_at, exchanges.c.end_ns, outcome, exchanges.c.status
        ).select_from(JOINED)
        rows = connection.execute(statement.where(near, or_(is_alike, is_own)).order_by(exchanges.c.no)).all()
    return RequestAttempts(version, retries.attempts_around(no, [_attempt(*row) for row in rows]), count)


def _attempt(no: int, id: str, started_at: str, end_ns: int | None, outcome: Outcome, status: int | None) -> Attempt:
    started_ns = wall_ns(started_at) or 0
    return Attempt(no, id, started_ns, None if end_ns is None else started_ns + end_ns, outcome, status)
