"""What an event says, in one line."""

from sqlalchemy import Connection

from viewer import queries
from viewer.model import gist
from viewer.model.transcript import Transcript

from ..conftest import COMPLETE, FAILED, TOOLS


def gists(connection: Connection, id: str) -> list[str]:
    transcript = Transcript(queries.decoded(connection, queries.find(connection, id)))
    return [gist.of(transcript, event) for event in range(len(transcript))]


def test_each_kind_says_what_matters_of_it(connection: Connection) -> None:
    assert gists(connection, COMPLETE) == [
        "assistant", "'Hel'", ": keep-alive", "'lo'", "', '", "'world'", "stop", "5 in, 4 out", "[DONE]",
    ]  # fmt: skip
    assert gists(connection, TOOLS)[1:4] == ["'get_weather{\"city\":'", "'\"Oslo\"}'", "tool_calls"]
    assert gists(connection, FAILED)[1] == "overloaded"
