"""The places of a stream that are worth going to."""

import pytest
from sqlalchemy import Connection

from tests.viewer.conftest import COMPLETE, FAILED, MS, TOOLS
from viewer.model.exchange import markers as landmarks
from viewer.model.exchange.markers import Marker
from viewer.model.exchange.transcript import Transcript
from viewer.tape import queries


@pytest.fixture
def tools(connection: Connection) -> Transcript:
    return Transcript(queries.decoded(connection, queries.find(connection, TOOLS)))


@pytest.fixture
def complete(connection: Connection) -> Transcript:
    return Transcript(queries.decoded(connection, queries.find(connection, COMPLETE)))


def test_markers_stand_in_their_order(tools: Transcript) -> None:
    found = landmarks.markers(tools, 50 * MS, [3050 * MS])
    assert [(marker.sign, marker.position) for marker in found] == [("B", 1), ("R", 1), ("T", 2), ("S", 2), ("D", 5)]
    assert found[3].at_ns == 3050 * MS


def test_errors_have_a_marker(connection: Connection) -> None:
    failed = Transcript(queries.decoded(connection, queries.find(connection, FAILED)))
    assert [(one.sign, one.position) for one in landmarks.markers(failed, None)] == [("C", 1), ("E", 2)]


def test_a_stream_without_events_has_no_markers() -> None:
    assert landmarks.markers(Transcript.of_texts({}), 5) == []


def test_past_the_last_marker_comes_the_first_one() -> None:
    markers = [Marker("C", 2, 0), Marker("S", 4, 0), Marker("S", 9, 0)]
    assert [landmarks.beyond(markers, at).position for at in (0, 2, 4, 9)] == [2, 4, 9, 2]  # type: ignore[union-attr]
    assert landmarks.beyond(markers, 9, "S") == Marker("S", 4, 0)
    assert landmarks.beyond(markers, 9, "S", back=True) == Marker("S", 4, 0)
    assert landmarks.beyond(markers, 2, back=True) == Marker("S", 9, 0)
    assert landmarks.beyond(markers, 2, "E") is None


def test_the_first_event_of_a_kind(tools: Transcript) -> None:
    assert (landmarks.first(tools, "tool"), landmarks.first(tools, "content")) == (2, None)


def test_what_is_not_there_is_said_in_words() -> None:
    assert [landmarks.missing(signs) for signs in ("E", "S", "")] == [
        "no error and no unreadable event here", "no stall here", "no marker here",
    ]  # fmt: skip
