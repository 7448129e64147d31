"""Queries in a process of their own: answers and refusals are those of `sql`, and nothing holds one longer."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.sample_tape import frames, recorded
from wiretape.recorder.clock import SYSTEM
from wiretape.recorder.errors import WiretapeError
from wiretape.viewer.source import sql
from wiretape.viewer.source.query_process import QueryProcess

FUNCTION = "instr(zeroblob(1000000), zeroblob(500000) || x'01')"
"""A function that runs for seconds, in which SQLite asks nobody whether to go on."""


@pytest.fixture
def queries() -> Iterator[QueryProcess]:
    process = QueryProcess()
    yield process
    process.close()


@pytest.fixture(scope="module")
def tape(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory.mktemp("sql") / "tape.db", list(frames()))


def test_answers_and_refusals_are_those_of_sql(queries: QueryProcess, tape: Path) -> None:
    query = "SELECT exchange_no, outcome FROM measures ORDER BY 1"
    for limit in (100, 2):
        assert queries.answer(tape, query, limit, texts=False) == sql.answer(tape, query, limit, texts=False)
    with pytest.raises(WiretapeError, match="holds recorded text"):
        queries.answer(tape, "SELECT content FROM measures", 1, texts=False)
    assert queries.answer(tape, "SELECT count(content) > 0 FROM measures", 1, texts=True).rows == [[1]]


def test_an_uninterruptible_function_is_stopped_before_the_next_query(queries: QueryProcess, tape: Path) -> None:
    queries.start()
    began_ns = SYSTEM.now()
    with pytest.raises(WiretapeError, match="stopped after 1 s"):
        queries.answer(tape, f"SELECT {', '.join([FUNCTION] * 30)}", 1, texts=False)
    assert SYSTEM.now() - began_ns < 15_000_000_000
    assert queries.answer(tape, "SELECT 1", 1, texts=False).rows == [[1]]


def test_a_process_that_has_ended_is_replaced(queries: QueryProcess, tape: Path) -> None:
    queries.start()
    queries.close()
    assert queries.answer(tape, "SELECT 1", 1, texts=False).rows == [[1]]
