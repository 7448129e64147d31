"""A few reads of one exchange as the tape has them, for looking at an event as the socket gave it.

All reads of an exchange come with its body (`inspecting`); this is quick however many there are.
"""

from sqlalchemy import Connection, select

from recorder.exchange import Read
from recorder.schema import reads


def between(connection: Connection, no: int, first: int, last: int) -> dict[int, Read]:
    """Give the reads of an exchange from seq `first` to `last` by their seq, those that are on the tape."""
    columns = (reads.c.seq, reads.c.at_ns, reads.c.relayed_ns, reads.c.start, reads.c.size)
    asked = select(*columns).where(reads.c.exchange_no == no, reads.c.seq.between(first, last))
    with connection.begin():
        return {row.seq: Read(*row) for row in connection.execute(asked)}
