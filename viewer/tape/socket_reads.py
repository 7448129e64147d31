"""A few reads of one exchange as the tape has them, for looking at an event as the socket gave it.

All reads of an exchange come with its body (`inspecting`); this is quick however many there are.
"""

from sqlalchemy import Connection, select

from recorder.decode.outcome import Read
from recorder.tape import reading
from recorder.tape.schema import reads


def between(connection: Connection, no: int, first: int, last: int) -> dict[int, Read]:
    """Give the reads of an exchange from seq `first` to `last` by their seq, those that are on the tape."""
    asked = select(*reading.READ_COLUMNS).where(reads.c.exchange_no == no, reads.c.seq.between(first, last))
    with connection.begin():
        return {row.seq: Read(*row) for row in connection.execute(asked) if reading.is_intact(row)}
