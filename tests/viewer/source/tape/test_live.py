"""Queries of a list on a growing tape."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from tests.support.frames import read
from tests.support.growing_tape import recorder
from tests.support.sample_tape import COMPLETE, COMPLETE_READS, HOSTILE, LIVE, TOOLS, begin, end, event, response
from wiretape.recorder.tape import file, journal, retention
from wiretape.recorder.tape.reader import Connection
from wiretape.recorder.tape.recover import recover
from wiretape.recorder.tape.rederive import rederive
from wiretape.recorder.tape.store import Store
from wiretape.viewer.query.parser import parse
from wiretape.viewer.record import rows
from wiretape.viewer.source.place import TapePlace
from wiretape.viewer.source.tape import conditions, queries
from wiretape.viewer.source.tape import live as watching


def condition_of(text: str) -> Any:
    return conditions.condition(parse(text))


def session(pid: int = 1) -> journal.Session:
    return journal.Session(str(pid), "0", pid, None, "http://127.0.0.1:1", [("", "https://u")], "2026-03-01T12:00:00Z")


def write(path: Path, *frames: journal.Frame, settle: bool = False) -> None:
    with file.writing(path, "a test") as connection:
        store = Store(connection)
        store.begin_session(session())
        recover(store.appending)
        store.append(list(frames))
        if settle:
            store.settle(store.settling.unsettled())


def test_numbers_ascend_or_follow_a_field(connection: Connection) -> None:
    assert watching.numbers(connection) == [1, 2, 3, 4, 5, 6, 7]
    assert watching.numbers(connection, condition_of("-is:live"))[-1] == 6
    assert watching.numbers(connection, None, "max_gap_ms", descending=True)[0] == 2
    assert watching.numbers(connection, condition_of("status:200"), "ttft_ms") == [6, 5, 2, 3, 1, 7]


def test_a_list_covers_first_start_to_last_end(connection: Connection) -> None:
    first, last = "2026-03-01T12:00:01.000000Z", "2026-03-01T12:00:07.000000Z"
    assert watching.started(connection) == watching.started(connection, range(1, 8)) == (first, last)
    assert watching.started(connection, [2]) == ("2026-03-01T12:00:02.000000Z",) * 2
    assert watching.started(connection, range(2, 20_000)) == ("2026-03-01T12:00:02.000000Z",) * 2
    assert watching.started(connection, []) is None


def test_running_exchanges_are_measured_in_turns(tmp_path: Path) -> None:
    path = tmp_path / "tape.db"
    parts = [(at_ms, event({"content": "a" * (watching.AT_ONCE * 6 // 10)})) for at_ms in (110, 120, 130)]
    first_frames = [
        frame
        for number in (1, 2)
        for frame in (begin(f"{number:016}", 0, b"{}"), *response(f"{number:016}", parts[:2]))
    ]
    write(path, *first_frames)
    with queries.opened(path) as connection:

        def events() -> list[int | None]:
            return [row.events for row in watching.listed(connection, [1, 2], in_turns=True)]

        assert [events(), events()] == [[2, None], [2, 2]]
        with file.writing(path, "a test") as writer:
            for number in (1, 2):
                Store(writer).append([read(f"{number:016}", 2, 130_000_000, None, parts[2][1])])
        assert [events(), events(), events(), events()] == [[3, 2], [3, 2], [3, 3], [3, 3]]


def test_a_running_exchange_is_measured_so_far(connection: Connection) -> None:
    (row,) = watching.listed(connection, [7])
    assert (row.no, row.id, row.outcome) == (7, LIVE, "open")
    assert (row.model, row.events, row.output_chunks, row.ttft_ms) == ("gpt-x", 2, 1, 110.0)
    assert (row.last_read_ms, row.duration_ms, row.flags) == (110.0, None, [])


def test_what_is_not_on_the_tape_is_left_out(connection: Connection) -> None:
    assert [row.no for row in watching.listed(connection, [99, 1])] == [1]
    assert watching.preview(connection, 99) is None


def test_the_first_look_says_what_there_is(connection: Connection) -> None:
    change = watching.change(connection, None)
    assert change is not None
    assert (change.total, change.running, change.fits, change.seen.newest) == (7, 1, [7], 7)
    assert change.seen.unsettled == {7}
    assert change.recorder is not None
    assert change.recorder.upstreams == [["", "https://api.example.com"]]
    assert watching.change(connection, change) is None


def test_changes_are_what_is_new_and_what_ran(tmp_path: Path) -> None:
    path, parts = tmp_path / "tape.db", COMPLETE_READS
    first, second = begin("a" * 16, 1, b"{}"), begin("b" * 16, 2, b"{}")
    write(path, first, *response(first.id, parts[:2]))
    with queries.opened(path) as connection:
        seen = watching.change(connection, None, condition_of("is:live"))
        assert seen is not None
        write(path, second, *response(second.id, parts), end(second.id, parts), settle=True)
        later = watching.change(connection, seen, condition_of("is:live"), [1])
        assert later is not None
        # The second recorder has marked the exchanges that the first one left open.
        assert (later.total, later.running, later.fits, later.unfit) == (2, 0, [], [1, 2])
        second_change = watching.change(connection, seen, None, [1])
        assert second_change is not None
        assert [(row.no, row.outcome) for row in second_change.rows] == [(1, "interrupted"), (2, "complete")]


def test_deletions_are_changes_even_beside_arrivals(tmp_path: Path) -> None:
    path, ids = tmp_path / "tape.db", ["a" * 16, "b" * 16]
    write(path, *(begin(id, 1, b"{}") for id in ids))
    with queries.opened(path) as connection:
        earlier = watching.change(connection, None)
        assert earlier is not None
        with file.writing(path, "a test") as writing:
            assert sum(retention.erase(writing, ids[1:])) == 1
        write(path, begin("c" * 16, 2, b"{}"))
        later = watching.change(connection, earlier)
        assert later is not None
        assert (later.total, later.deleted) == (2, True)
        write(path, begin("d" * 16, 3, b"{}"))
        latest = watching.change(connection, later)
        assert latest is not None
        assert (latest.total, latest.deleted) == (3, False)


def test_an_exchange_that_is_derived_again_is_a_change(tmp_path: Path) -> None:
    path, begin_frame = tmp_path / "tape.db", begin("a" * 16, 1, b"{}")
    write(
        path, begin_frame, *response(begin_frame.id, COMPLETE_READS), end(begin_frame.id, COMPLETE_READS), settle=True
    )
    with file.writing(path, "a test") as writing:
        writing.exec_driver_sql("UPDATE measures SET outcome = 'truncated'")
        writing.commit()
    with queries.opened(path) as connection:
        earlier = watching.change(connection, None)
        assert earlier is not None
        assert (earlier.fits, watching.listed(connection, [1])[0].outcome) == ([], "truncated")
        with file.writing(path, "a test") as writing:
            assert any(rederive(Store(writing)))
        later = watching.change(connection, earlier, looked_at=[1])
        assert later is not None
        assert (later.fits, [row.outcome for row in later.rows]) == ([1], ["complete"])


def test_another_connection_counts_as_another_tape(tape: Path) -> None:
    with queries.opened(tape) as connection:
        earlier = watching.change(connection, None)
    with queries.opened(tape) as connection:
        later = watching.change(connection, earlier)
        assert later is not None
        assert later.deleted


def test_an_ended_exchange_is_unsettled_until_measured(tmp_path: Path) -> None:
    path, begin_frame = tmp_path / "tape.db", begin("a" * 16, 1, b"{}")
    write(path, begin_frame, *response(begin_frame.id, COMPLETE_READS), end(begin_frame.id, COMPLETE_READS))
    with queries.opened(path) as connection:
        change = watching.change(connection, None)
        assert change is not None
        assert (change.seen.unsettled, change.running) == ({1}, 0)


def test_an_empty_tape_has_nothing_and_nobody(tmp_path: Path) -> None:
    with file.writing(tmp_path / "tape.db", "a test"):
        pass
    with queries.opened(tmp_path / "tape.db") as connection:
        change = watching.change(connection, None)
        assert change is not None
        assert (change.total, change.recorder, change.seen.newest) == (0, None, 0)
        assert watching.numbers(connection) == []


def test_each_term_is_counted_alone(tape: Path) -> None:
    with TapePlace(tape).opened() as source:
        change = source.alone(parse("is:live ttft>900s"))
        assert [(str(term), count) for term, count in change] == [("outcome:open", 1), ("ttft>900s", 0)]
        assert [count for _, count in source.alone(parse("is:live"))] == [1]


def test_values_are_the_commonest_first(connection: Connection) -> None:
    change = watching.values(connection, "model")
    assert change[0] == "gpt-x-mini"
    assert watching.values(connection, "upstream") == ["https://api.example.com"]


def test_a_preview_has_the_end_of_the_text(connection: Connection) -> None:
    preview = watching.preview(connection, 1)
    assert preview is not None
    assert (preview.texts["content"], preview.sizes["content"], preview.texts["reasoning"]) == (
        "Hello, world",
        12,
        None,
    )
    live = watching.preview(connection, 7)
    assert live is not None
    assert (live.texts["content"], live.sizes["content"]) == ("Hel", 3)


@pytest.mark.parametrize("size", [3 << 20])
def test_a_longer_line_does_not_cost_more_to_read(size: int, tmp_path: Path) -> None:
    path, long = tmp_path / "tape.db", HOSTILE + "x" * size
    parts = [(10, event({"content": long}, model=long)), (20, event({}, "stop") + b"data: [DONE]\n\n")]
    begin_frame = begin("a" * 16, 1, b"{}", "/" + "y" * 3000)
    write(path, begin_frame, *response(begin_frame.id, parts), end(begin_frame.id, parts), settle=True)
    with queries.opened(path) as connection:
        preview = watching.preview(connection, 1)
        assert preview is not None
        values = (*preview.texts.values(), *dataclasses.asdict(preview.row).values())
        assert sum(len(value) for value in values if isinstance(value, str)) < 8000
        assert (preview.sizes["content"] or 0) > size
        assert preview.row.last_read_ms is None


def test_exchanges_keep_the_requested_order_without_deleted_ones(connection: Connection) -> None:
    numbers = [queries.find(connection, id) for id in (TOOLS, COMPLETE)]
    entries = watching.entries(connection, [numbers[0], 999, numbers[1]])
    assert [(entry.no, entry.row.id) for entry in entries] == [(numbers[0], TOOLS), (numbers[1], COMPLETE)]


def test_the_figures_of_several_are_those_of_the_tape(connection: Connection) -> None:
    no = queries.find(connection, COMPLETE)
    (entry,) = watching.entries(connection, [no])
    detail = queries.detail(connection, no)
    assert [getattr(entry.row, name) for name in rows.LISTED] == [getattr(detail, name) for name in rows.LISTED]
    assert len(entry.gaps) == 3 * 8


def test_one_running_exchange_is_measured_until_its_last_read(connection: Connection) -> None:
    (entry,) = watching.entries(connection, [queries.find(connection, LIVE)])
    assert (entry.row.ttft_ms, entry.row.last_read_ms, entry.row.outcome, entry.gaps) == (110.0, 110.0, "open", b"")
    assert (entry.row.duration_ms, entry.run.heartbeat_at[:10], entry.run.ended_at) == (None, "2026-03-01", None)


def test_rows_of_the_list_have_their_stalls_and_phases(connection: Connection) -> None:
    found = watching.listed(connection, [queries.find(connection, id) for id in (COMPLETE, TOOLS)])
    stalls = {row.id: list(row.stalls) for row in found}
    assert stalls == {COMPLETE: [], TOOLS: [(50_000_000, 3_050_000_000)]}
    (tool_row,) = [row for row in found if row.id == TOOLS]
    assert (tool_row.ttft_ms, tool_row.ttfo_ms, tool_row.thinking_ms) == (50.0, 3050.0, 3000.0)


def test_a_running_row_has_stalls_until_its_last_read(tmp_path: Path) -> None:
    deltas = [(at, event({"content": "a"})) for at in (100, 200, 2900)]
    with recorder(tmp_path / "tape.db") as writing:
        writing.begin("a" * 16, deltas)
        with queries.opened(tmp_path / "tape.db") as reading:
            (row,) = watching.listed(reading, [1])
            assert list(row.stalls) == [(200_000_000, 2_900_000_000)]
