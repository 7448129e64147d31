"""Exchanges that arrive, end or are deleted while the list is looked at."""

from pathlib import Path

from tests.support.growing_tape import recorder
from tests.support.list_screen import at_cursor, cursor, press, rows, viewed
from tests.support.sample_tape import COMPLETE_READS
from tests.support.screens import Watch, journey, seen, shows, wait_for
from wiretape.recorder.tape import file as tapefile
from wiretape.recorder.tape import retention
from wiretape.viewer.tui.app import ViewerApp

SLOW, SLOWER = ([(at + late * (at > 120), data) for at, data in COMPLETE_READS] for late in (3000, 9000))


def test_an_ending_exchange_may_move_within_an_order(tmp_path: Path) -> None:
    path = tmp_path / "tape.db"
    with recorder(path) as writing:
        writing.record("a" * 16, SLOW)
        writing.begin("b" * 16, SLOWER)

    async def steps() -> None:
        async with viewed(path) as pilot:
            await shows(pilot, "bbbbbbbb")
            press(pilot, "o")
            await shows(pilot, "running exchanges stand last by measures of their end")
            press(pilot, "g")
            await wait_for(pilot, lambda: rows(pilot).catalog.by_time is False)
            assert [rows(pilot).catalog.number(place) for place in (0, 1)] == [1, 2]
            await shows(pilot, "9,050+")
            with recorder(path) as writing:
                writing.end("b" * 16, SLOWER, "end")
                text = await shows(pilot, "1 ended: R sorts them in", "✓ bbbbbbbb")
                assert "9,050+" not in text
                writing.record("c" * 16)
                await shows(pilot, "1 new · 1 ended: R sorts them in")
            press(pilot, "R")
            await wait_for(pilot, lambda: "sorts" not in seen(pilot.app))
            assert [rows(pilot).catalog.number(place) for place in (0, 1, 2)] == [2, 1, 3]

    journey(steps())


def test_an_ending_exchange_may_enter_or_leave_filtered_lists(tmp_path: Path) -> None:
    path = tmp_path / "tape.db"
    with recorder(path) as writing:
        writing.begin("a" * 16, SLOWER)
        writing.begin("b" * 16, SLOWER)

    async def exchange_ended(filter_text: str, id: str, text_before: str, text_after: str) -> None:
        async with viewed(path, filter_text=filter_text) as pilot:
            await shows(pilot, text_before)
            with recorder(path) as writing:
                writing.end(id * 16, SLOWER, "end")
                await shows(pilot, text_after)

    journey(exchange_ended("gap.max>100ms", "a", "2 still run: what is measured counts when", "✓ aaaaaaaa"))
    journey(exchange_ended("is:live", "b", "● bbbbbbbb", "0 of 2 match"))


def test_one_that_ends_out_of_sight_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "tape.db"
    with recorder(path) as writing:
        writing.begin("a" * 16, COMPLETE_READS)
        for number in range(30):
            writing.begin(f"{number:016x}", COMPLETE_READS[:1])

    async def steps() -> None:
        async with viewed(path, (80, 24)) as pilot:
            await wait_for(pilot, lambda: len(rows(pilot).catalog) == 31 and rows(pilot).catalog.row(30))
            assert "aaaaaaaa" not in seen(pilot.app)
            with recorder(path) as writing:
                writing.end("a" * 16, COMPLETE_READS, "end")
                await wait_for(
                    pilot, lambda: (row := rows(pilot).catalog.row(30)) is not None and row.outcome != "open"
                )
            press(pilot, "G")
            await shows(pilot, "✓ aaaaaaaa")

    journey(steps())


def test_a_new_exchange_leaves_the_cursor_in_place(tmp_path: Path) -> None:
    path = tmp_path / "tape.db"
    with recorder(path) as writing:
        for number in range(3):
            writing.record(f"{number:016x}")

    async def steps() -> None:
        async with viewed(path) as pilot:
            await at_cursor(pilot, f"{2:016x}")
            with recorder(path) as writing:
                writing.begin("b" * 16, COMPLETE_READS[:2])
                text = await shows(pilot, "bbbbbbbb", "4 exchanges · 1 open")
                assert next(line for line in text.splitlines() if "bbbbbbbb" in line).startswith("  ●")
                assert "00000000" in cursor(pilot)
                assert rows(pilot).cursor == 1
                writing.end("b" * 16, COMPLETE_READS[:2], "eof")
                await shows(pilot, "■ bbbbbbbb", " cut by ups")

    journey(steps())


def test_following_stays_on_the_newest_until_moved(tmp_path: Path) -> None:
    path = tmp_path / "tape.db"
    with recorder(path) as writing:
        writing.record("a" * 16)
        writing.record("b" * 16)

    async def steps() -> None:
        async with viewed(path, follow=True) as pilot:
            await shows(pilot, "following")
            with recorder(path) as writing:
                writing.record("c" * 16)
                await at_cursor(pilot, "c" * 16)
                press(pilot, "j")
                await at_cursor(pilot, "b" * 16)
                await wait_for(pilot, lambda: "following" not in seen(pilot.app))
                writing.record("d" * 16)
                await shows(pilot, "dddddddd")
                await at_cursor(pilot, "b" * 16)
                press(pilot, "f")
                await at_cursor(pilot, "d" * 16)

    journey(steps())


def test_in_another_order_arrivals_are_only_counted(tmp_path: Path) -> None:
    path = tmp_path / "tape.db"
    with recorder(path) as writing:
        writing.record("a" * 16)
        writing.record("b" * 16, [(at + 5000 * (at > 120), data) for at, data in COMPLETE_READS])

    async def steps() -> None:
        async with viewed(path) as pilot:
            await shows(pilot, "bbbbbbbb")
            press(pilot, "o")
            await shows(pilot, "order by")
            press(pilot, "g")
            await wait_for(pilot, lambda: rows(pilot).catalog.by_time is False)
            assert [rows(pilot).catalog.number(place) for place in (0, 1)] == [2, 1]
            with recorder(path) as writing:
                writing.record("c" * 16, [(at + 9000 * (at > 120), data) for at, data in COMPLETE_READS])
                text = await shows(pilot, "1 new: R sorts them in")
                assert "cccccccc" not in text
            press(pilot, "R")
            await shows(pilot, "cccccccc")
            press(pilot, "O")
            await wait_for(pilot, lambda: rows(pilot).catalog.number(0) == 1)

    journey(steps())


def test_in_another_order_nobody_follows_the_newest(tape: Path) -> None:
    async def steps() -> None:
        async with viewed(tape) as pilot:
            await shows(pilot, "7 exchanges")
            press(pilot, "f")
            await shows(pilot, "following")
            press(pilot, "O")
            await wait_for(pilot, lambda: "following" not in seen(pilot.app))
            press(pilot, "f")
            await shows(pilot, "following", "START▼")

    journey(steps())


def test_a_silent_recorders_exchange_becomes_an_orphan_unwritten(tape: Path) -> None:
    async def steps() -> None:
        watch = Watch()
        async with ViewerApp(tape, watch.clock, filter_text="is:live").run_test(size=(120, 40)) as pilot:
            await wait_for(pilot, lambda: cursor(pilot).startswith("▌ ●"))
            watch.ns += 16 * 10**9
            await wait_for(pilot, lambda: cursor(pilot).startswith("▌ ?"))
            await shows(pilot, "recorder silent since", "orphan")

    journey(steps())


def test_exchanges_that_are_deleted_leave_the_list(tmp_path: Path) -> None:
    async def steps() -> None:
        path = tmp_path / "tape.db"
        with recorder(path) as writing:
            for number in range(3):
                writing.record(f"{number}" * 16, at=number)
        async with viewed(path) as pilot:
            await shows(pilot, "3 exchanges", "00000000")
            with tapefile.writing(path, "a test") as connection:
                assert sum(retention.erase(connection, ["0" * 16, "2" * 16])) == 2
            await shows(pilot, "1 exchange", "11111111")
            await wait_for(pilot, lambda: not {"00000000", "22222222"} & set(seen(pilot.app).split()))

    journey(steps())
