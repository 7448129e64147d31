"""Starts of exchanges on one axis: the boot clock decides, then the wall clock."""

from typing import NamedTuple

from wiretape.viewer.sessions.axis import placed

S = 1_000_000_000


class Start(NamedTuple):
    started_at: str
    boot: str | None = None
    boot_ns: int | None = None
    is_imported: bool = False


def wall(seconds: float) -> str:
    minutes, remainder = divmod(seconds, 60)
    return f"2026-03-01T12:{minutes:02.0f}:{remainder:09.6f}Z"


def test_a_clock_step_within_a_boot_changes_nothing() -> None:
    starts = [Start(wall(100), "a", 5 * S), Start(wall(3), "a", 7 * S), Start(wall(4), "a", 8 * S)]
    assert placed(starts) == ([0, 2 * S, 3 * S], False)


def test_between_boots_the_wall_clock_of_the_neighbours_decides() -> None:
    starts = [
        Start(wall(100), "a", 5 * S),
        Start(wall(3), "a", 7 * S),
        Start(wall(13), "b", S),
        Start(wall(2), "b", 4 * S),
    ]
    assert placed(starts) == ([0, 2 * S, 12 * S, 15 * S], False)


def test_a_clock_set_back_is_a_flagged_zero_gap() -> None:
    assert placed([Start(wall(100), "a", 5 * S), Start(wall(40), "b", S), Start(wall(41), "b", 2 * S)]) == (
        [0, 0, S],
        True,
    )
    assert placed([Start(wall(100)), Start(wall(40)), Start(wall(43))]) == ([0, 0, 3 * S], True)


def test_another_numbering_is_no_step_of_the_clock() -> None:
    assert placed([Start(wall(10)), Start(wall(9.5)), Start(wall(11))]) == ([0, -S // 2, S], False)
    imported = [Start(wall(second), is_imported=True) for second in (10, 2, 12)]
    assert placed(imported) == ([0, -8 * S, 2 * S], False)


def test_a_damaged_wall_time_has_no_distance() -> None:
    assert placed([Start(wall(10)), Start("?"), Start(wall(11))]) == ([0, 0, 0], False)
