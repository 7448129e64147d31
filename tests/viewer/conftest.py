"""Fixtures of the viewer's tests: tapes that no test writes to."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.sample_tape import frames, recorded, wire_frames
from wiretape.recorder.tape.reader import Connection
from wiretape.viewer.source.tape import queries


@pytest.fixture(scope="session")
def wires(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tape with one exchange on each wire."""
    return recorded(tmp_path_factory.mktemp("wires") / "wires.db", list(wire_frames()))


@pytest.fixture(scope="session")
def tape(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory.mktemp("tape") / "tape.db", list(frames()))


@pytest.fixture(scope="session")
def session_connection(tape: Path) -> Iterator[Connection]:
    with queries.opened(tape) as connection:
        yield connection


@pytest.fixture
def connection(session_connection: Connection) -> Connection:
    session_connection.rollback()
    return session_connection
