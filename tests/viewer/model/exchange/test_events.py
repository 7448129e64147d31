"""What an event says, in one line."""

from sqlalchemy import Connection

from recorder.decode.derive import decode
from recorder.decode.outcome import Exchange
from tests.viewer.conftest import COMPLETE, FAILED, TOOLS
from viewer.model.exchange import events
from viewer.model.exchange.transcript import Transcript
from viewer.tape import queries

FACTS = Exchange(200, "text/event-stream", None, "end", 0, 0, 1)


def gists(connection: Connection, id: str) -> list[str]:
    transcript = Transcript(queries.decoded(connection, queries.find(connection, id)))
    return [events.of(transcript, event) for event in range(len(transcript))]


def test_each_kind_says_what_matters_of_it(connection: Connection) -> None:
    assert gists(connection, COMPLETE) == [
        "assistant", "'Hel'", ": keep-alive", "'lo'", "', '", "'world'", "stop", "5 in, 4 out", "[DONE]",
    ]  # fmt: skip
    assert gists(connection, TOOLS)[1:4] == ["'get_weather{\"city\":'", "'\"Oslo\"}'", "tool_calls"]
    assert gists(connection, FAILED)[1] == "overloaded"


def test_what_cannot_be_read_says_why_and_how_it_begins() -> None:
    transcript = Transcript(decode(FACTS, [], b"event: odd\ndata: {not json\n\n" + b"data: " + b"x" * 20_000 + b"\n\n"))
    assert events.of(transcript, 0) == "no JSON from byte 1: {not json"
    assert events.of(transcript, 1) == f"no JSON: {'x' * 191}"


def test_nul_is_shown_as_the_tape_keeps_it() -> None:
    assert events.said("a\0b") == "a\ufffdb"
