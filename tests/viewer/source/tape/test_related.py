"""One exchange is judged among those of its conversation as among all of the tape."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support import agents
from tests.support.agents import body, turn
from tests.support.sample_tape import recorded
from tests.support.session_tape import session_tape
from wiretape.recorder.clock import Clock
from wiretape.recorder.tape import journal
from wiretape.viewer.record.fields import CACHE
from wiretape.viewer.source.tape import conversations, functions, queries, related, sessions
from wiretape.viewer.source.tape.columns import column

FIELDS = ("conversation", "continues", *CACHE)


def turn_at(number: int, at: int, *texts: str, key: str | None = None, answer: str = "ok") -> Iterator[journal.Frame]:
    """Yield an exchange with these messages, of the user and the model in turns; a key stands in its body."""
    messages = [{"role": ("user", "assistant")[place % 2], "content": text} for place, text in enumerate(texts)]
    request: dict[str, Any] = body(0, messages=messages, metadata={} if key is None else {"session_id": key})
    yield from turn(f"{number:016x}", at, request, 2_000, 1_900 if len(texts) > 1 else 0, answer)


def dialogues() -> Iterator[journal.Frame]:
    """Yield dialogues with and without a key, equal first requests, a branch, a retry and one key in two spellings."""
    yield from turn_at(1, 1, "hi")
    yield from turn_at(2, 2, "hi")
    yield from turn_at(3, 3, "hi", "ok", "more")
    yield from turn_at(4, 4, "hi", "ok", "else")
    yield from turn_at(5, 5, "hi", "ok", "more", "ok", "again")
    yield from turn_at(6, 6, "hi", key="k1")
    yield from turn_at(7, 7, "hi", "ok", "more", key="k1")
    yield from turn_at(8, 8, "hi", "ok", "more", "ok", "unkeyed")
    yield from turn_at(9, 9, "other", answer="yes")
    yield from turn_at(10, 10, "other", "yes", "more")
    for frame in turn_at(11, 11, "hi", "ok", "header"):
        headers = [(b"session-id", b"k1")]
        yield msgspec.structs.replace(frame, headers=headers) if isinstance(frame, journal.Begin) else frame
    for number in (12, 13):
        for frame in turn_at(number, number, "hi", "ok", "tried"):
            headers = [(b"x-stainless-retry-count", f"{number - 12}".encode())]
            yield msgspec.structs.replace(frame, headers=headers) if isinstance(frame, journal.Begin) else frame


def running_frames() -> Iterator[journal.Frame]:
    """Yield the dialogues, and exchanges that still run: turns, with and without a key, equal ones and a first one."""
    yield from dialogues()
    requests = [("other", "yes", "more", "ok", "now"), ("other", "yes", "more", "ok", "now"), ("new",)]
    frames = [turn_at(number, number, *texts) for number, texts in enumerate(requests, 14)]
    frames.append(turn_at(17, 17, "hi", "ok", "more", "ok", "keyed", key="k1"))
    for frame in itertools.chain(*frames):
        if isinstance(frame, journal.Begin):
            yield frame


TAPES = {
    "dialogues": lambda path: recorded(path, list(dialogues())),
    "running": lambda path: recorded(path, list(running_frames())),
    "agent": lambda path: recorded(path, list(agents.session())),
    "session": session_tape,
}


@pytest.fixture(scope="module", params=TAPES)
def dialogue_tape(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp(request.param) / "tape.db"
    TAPES[request.param](path)
    return path


@pytest.mark.parametrize("limit", [related.LEAST_LIMIT, 1])
def test_an_exchange_alone_has_the_same_figures(
    dialogue_tape: Path, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(related, "LEAST_LIMIT", limit)
    tape = dialogue_tape
    with queries.opened(tape) as connection:
        all_of_it = {row["no"]: row for row in queries.exchanges(connection, ("no", *FIELDS))}
    figures = {no: {field: row[field] for field in FIELDS} for no, row in all_of_it.items()}
    for no in figures:
        with queries.opened(tape) as connection:
            assert queries.worked_out(connection, no, FIELDS) == figures[no], no
            assert {row["no"]: row for row in queries.exchanges(connection, ("no", *FIELDS))} == all_of_it
    with queries.opened(tape) as connection:
        for no in (*figures, *reversed(figures)):  # whichever was asked for before
            assert queries.worked_out(connection, no, FIELDS) == figures[no], no


def test_only_the_exchanges_of_the_dialogue_are_read(tmp_path: Path) -> None:
    unrelated = [
        frame for no in range(100, 140) for frame in turn_at(no, no % 60, "ho", key=f"k{no}" if no % 2 else None)
    ]
    with queries.opened(recorded(tmp_path / "tape.db", [*dialogues(), *unrelated])) as connection:
        with connection.begin():
            marked = functions.key_marks(connection)
            related_to_other = related.numbers(connection, [10], [], marked)
            alone = related.numbers(connection, [20], [], marked)
        assert (related_to_other, alone) == ([9, 10], [20])


def test_the_newest_conversations_alone_are_the_same(dialogue_tape: Path) -> None:
    tape = dialogue_tape
    clock = Clock(wall_ns=lambda: 1_800_000_000 * 10**9, boot_ns=lambda: 10**15)
    with queries.opened(tape) as connection:
        listing = sessions.listed(connection, clock=clock)
        left_out = queries.count(connection, column("conversation").is_(None))
    for limit in (1, 2, 3):
        with queries.opened(tape) as connection:
            assert sessions.listed(connection, limit=limit, clock=clock) == listing[:limit]
            assert conversations.left_out(connection) == left_out


def test_for_the_newest_conversations_no_other_is_read(tmp_path: Path) -> None:
    frames = [frame for number in range(100, 150) for frame in turn_at(number, number - 99, f"first {number}")]
    with queries.opened(recorded(tmp_path / "tape.db", frames)) as connection:
        assert len(sessions.listed(connection, limit=2)) == 2
        number_count = connection.exec_driver_sql("SELECT json_array_length(numbers_resolved())").scalar_one()
    assert 2 <= number_count < 50
