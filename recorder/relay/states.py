"""Pure: the states of a connection on each side, and every step between them.

A client's connection is two machines, because a request can arrive during the answer to another: its input
(`Inbound`) and its output (`Outbound`). A connection to an API server is two as well: its input (`Receiving`) and the
progress of the request (`Sending`). An exchange joins one connection of each side and has a `Stage`.

A step that its table lacks is a fault of wiretape's own and raises `IllegalStep`; the exchange that it happens to
reports it. `python -m wiretape.recorder.relay.states` prints the tables.
"""

from enum import Enum
from typing import Any, NoReturn, TypeVar


class State(Enum):
    """A state, described by its value."""

    __hash__ = object.__hash__  # Enum's own is a Python function, too slow for a lookup in each exchange


class Inbound(State):
    """The input of a client's connection."""

    NEW = "the first bytes, which show whether HTTP/2 is spoken"
    HEAD = "the head of a request, or nothing between two requests"
    BODY = "the body of a request"
    UPGRADE = "bytes after a request for another protocol, which wait for the answer"
    TAKEN = "another protocol"
    DEAF = "bytes that are dropped, until the client leaves"


class Outbound(State):
    """The output of a client's connection."""

    IDLE = "nothing: no request is being answered"
    ASKED = "nothing yet: a request is being answered"
    ANSWERING = "an answer, after which the connection is kept"
    LAST = "the connection's last answer"
    FLUSHING = "the rest of the last answer, which the client has not taken"
    LINGERING = "nothing more: the client may read the last answer before the close"
    TAKEN = "another protocol"
    CLOSED = "nothing: the connection is closed"


class Receiving(State):
    """The input of a connection to an API server."""

    IDLE = "nothing: it is kept for the next exchange"
    WAITING = "nothing yet, or informational responses"
    STREAMING = "the body of the response"
    ENDED = "nothing more: the response is whole"
    SURPLUS = "bytes after the response"
    BROKEN = "nothing more: the response broke off, or is no HTTP"
    SWITCHED = "another protocol"


class Sending(State):
    """The progress of a request to an API server."""

    OPEN = "the client has more of it"
    GIVEN = "all of it is written, and waits for the kernel"
    SENT = "the kernel has taken all of it"
    REFUSED = "the server takes nothing any more"


class StreamOutput(State):
    """The output of a stream of HTTP/2."""

    OPEN = "more of it may be written"
    ENDING = "all of it is written, and waits for the peer's window"
    ENDED = "its end is sent, or a reset"


class Flow(State):
    """The permission of a peer to send."""

    OPEN = "its data is read"
    HELD = "nothing is read, so that it has to wait"


class Stage(State):
    """The progress of an exchange."""

    WAITING = "no head of an answer has come"
    FAILING = "no answer will come, and the rest of the request's body is read"
    RELAYING = "the head has been passed on"
    DRAINING = "the answer is whole, and the client has not taken all of it"
    UPLOADING = "the answer is whole, and more of the request comes, as HTTP/2 allows"
    WEBSOCKET = "both sides have switched to WebSocket"
    ENDED = "its end is recorded"


class RequestBody(State):
    """The progress of the body of an exchange's request."""

    COMING = "more of it comes from the client"
    WHOLE = "all of it has come, or no more will"


S = TypeVar("S", bound=State)


class IllegalStep(Exception):
    """An event came in a state that has no step for it."""


class TransitionTable(dict[tuple[S, str], S]):
    """The steps of one machine: the state after an event in a state. A lookup calls nothing, unlike a function."""

    def __missing__(self, key: tuple[S, str]) -> NoReturn:
        state, event = key
        raise IllegalStep(f"{type(state).__name__} {state.name} has no step for {event!r}")


INBOUND = TransitionTable[Inbound](
    {
        (Inbound.NEW, "HTTP/1.1"): Inbound.HEAD,
        (Inbound.HEAD, "head"): Inbound.BODY,
        (Inbound.BODY, "end"): Inbound.HEAD,
        (Inbound.HEAD, "upgrade"): Inbound.UPGRADE,
        **{(state, "switch"): Inbound.TAKEN for state in (Inbound.NEW, Inbound.UPGRADE)},
        (Inbound.UPGRADE, "resume"): Inbound.HEAD,
        (Inbound.TAKEN, "resume"): Inbound.NEW,
        **{(state, "deafen"): Inbound.DEAF for state in Inbound},
    }
)
OUTBOUND = TransitionTable[Outbound](
    {
        (Outbound.IDLE, "ask"): Outbound.ASKED,
        (Outbound.ASKED, "answer"): Outbound.ANSWERING,
        (Outbound.ASKED, "answer last"): Outbound.LAST,
        **{(state, "switch"): Outbound.TAKEN for state in (Outbound.IDLE, Outbound.ASKED)},
        (Outbound.TAKEN, "resume"): Outbound.IDLE,
        (Outbound.ANSWERING, "finish"): Outbound.IDLE,
        **{
            (state, event): after
            for state in (Outbound.IDLE, Outbound.ASKED, Outbound.ANSWERING, Outbound.LAST)
            for event, after in (("flush", Outbound.FLUSHING), ("linger", Outbound.LINGERING))
        },
        **{(state, "close"): Outbound.CLOSED for state in Outbound if state is not Outbound.CLOSED},
    }
)
RECEIVING = TransitionTable[Receiving](
    {
        (Receiving.IDLE, "begin"): Receiving.WAITING,
        (Receiving.WAITING, "head"): Receiving.STREAMING,
        (Receiving.WAITING, "switch"): Receiving.SWITCHED,
        (Receiving.STREAMING, "end"): Receiving.ENDED,
        (Receiving.ENDED, "surplus"): Receiving.SURPLUS,
        (Receiving.ENDED, "keep"): Receiving.IDLE,
        **{(state, "break"): Receiving.BROKEN for state in (Receiving.WAITING, Receiving.STREAMING)},
    }
)
SENDING = TransitionTable[Sending](
    {
        (Sending.OPEN, "give all"): Sending.GIVEN,
        (Sending.GIVEN, "take all"): Sending.SENT,
        **{(state, "refuse"): Sending.REFUSED for state in Sending},
    }
)
OUTPUT = TransitionTable[StreamOutput](
    {
        (StreamOutput.OPEN, "end"): StreamOutput.ENDING,
        (StreamOutput.ENDING, "sent"): StreamOutput.ENDED,
        **{(state, "drop"): StreamOutput.ENDED for state in (StreamOutput.OPEN, StreamOutput.ENDING)},
    }
)
STAGE = TransitionTable[Stage](
    {
        (Stage.WAITING, "answer"): Stage.RELAYING,
        (Stage.WAITING, "fail"): Stage.FAILING,
        (Stage.WAITING, "switch"): Stage.WEBSOCKET,
        (Stage.RELAYING, "drain"): Stage.DRAINING,
        **{(state, "upload"): Stage.UPLOADING for state in (Stage.RELAYING, Stage.DRAINING)},
        **{(state, "end"): Stage.ENDED for state in Stage if state is not Stage.ENDED},
    }
)
TABLES: tuple[TransitionTable[Any], ...] = (INBOUND, OUTBOUND, RECEIVING, SENDING, OUTPUT, STAGE)


def raise_illegal(error: Exception) -> None:
    """Raise the `IllegalStep` of a parser's callback, for which the parser raised `error`; do nothing without one."""
    if isinstance(error.__context__, IllegalStep):
        raise error.__context__


def described() -> str:
    """Return all tables as Markdown: a row for each state, event and next state."""
    rows = ["| machine | state | event | next state |", "|---|---|---|---|"]
    for table in TABLES:
        for (state, event), next_state in table.items():
            rows.append(f"| {type(state).__name__} | {state.name} | {event} | {next_state.name} |")
    return "\n".join(rows)


if __name__ == "__main__":
    print(described())
