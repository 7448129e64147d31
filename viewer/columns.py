"""The fields of an exchange's row as SQL expressions, over exchanges left-joined to measures.

What a list shows, what a filter compares and what a sort orders by is the same expression. SELECTs are `queries`'.
"""

from typing import Any, Final

from sqlalchemy import ColumnElement, case, func, literal, null, select

from recorder.schema import exchanges, measures, reads
from viewer import rows

JOINED: Final = exchanges.outerjoin(measures, measures.c.exchange_no == exchanges.c.no)
"""What the expressions select from: every exchange, measured or not."""


def column(field: str) -> ColumnElement[Any]:
    """Give the expression of a field; of an open exchange, reads and bytes are counted from what is there.

    Tokens per second are withheld where the answer came in a burst: how fast it was made is not known then.
    """
    own = reads.c.exchange_no == exchanges.c.no
    unmeasured = measures.c.exchange_no.is_(None)
    stored = rows.stored_name(field)
    match field:
        case "model":
            return func.coalesce(measures.c.model, exchanges.c.request_model)
        case "outcome":
            return func.coalesce(measures.c.outcome, "open")  # what has ended is measured a moment later
        case "reads":
            counted = select(func.count()).where(own).correlate(exchanges).scalar_subquery()
            return case((unmeasured, counted), else_=measures.c.reads)
        case "bytes":
            summed = select(func.coalesce(func.sum(reads.c.size), 0)).where(own).correlate(exchanges).scalar_subquery()
            return case((unmeasured, summed), else_=measures.c.bytes)
        case "gap_p50_ms" | "gap_p90_ms" | "gap_p99_ms":
            return func.gap_percentile(measures.c.icl, rows.GAP_PERCENTILES[field])
        case "tps_user":
            return case((flagged("burst"), null()), else_=measures.c.tps_user)
    found: ColumnElement[Any] = measures.c[stored] if stored in measures.c else exchanges.c[stored]
    return found


def flagged(flag: str) -> ColumnElement[bool]:
    """Give the condition that an exchange is measured and carries a flag."""
    return func.instr(literal(" ") + measures.c.flags + " ", f" {flag} ") > 0
