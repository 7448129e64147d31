"""An exchange as a turn of a conversation: its request, and that of the exchange which it continues."""

from sqlalchemy import Connection

from recorder.decode.prompt import Prompt
from recorder.errors import NotFound
from viewer.model.exchange import turn as turns
from viewer.model.exchange.turn import Asked, Turn
from viewer.source.tape import queries


def turn(connection: Connection, no: int) -> Turn:
    """Return an exchange as a turn. Raises sqlalchemy's `NoResultFound`."""
    continued = queries.worked_out(connection, no, ("continues",))["continues"]
    before = None if continued is None else _asked(connection, queries.find(connection, continued))
    return turns.turn(_asked(connection, no), before)


def prompt(connection: Connection, no: int) -> Prompt:
    """Return what an exchange asked. Raise `NotFound` if that is not known."""
    found = _asked(connection, no)
    if found.prompt is None:
        raise NotFound(f"there is nothing to compare in the request of {found.row.id}: {found.problem}")
    return found.prompt


def _asked(connection: Connection, no: int) -> Asked:
    row = queries.detail(connection, no)
    if row.framing != "websocket":
        return turns.asked(row, queries.request(connection, no))
    return turns.asked_over_websocket(row, turns.over_websocket(queries.decoded(connection, no)))
