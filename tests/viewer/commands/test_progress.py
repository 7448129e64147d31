"""The bar: only for people, only after a while, and gone at the end."""

import io
from collections.abc import Iterator

import pytest
from rich.console import Console

from recorder.clock import Clock
from viewer.commands import progress

STEP_NS = 50_000_000


def ticking(step_ns: int = STEP_NS) -> Clock:
    """Make a clock on which each look takes some time."""
    at = iter(range(0, 1 << 62, step_ns))
    return Clock(lambda: next(at))


def shown(rows: int, clock: Clock, **options: object) -> tuple[str, list[int]]:
    out, totals = io.StringIO(), list[int]()

    def total() -> int:
        totals.append(rows)
        return rows

    bar = progress.Bar("exporting", total, console=Console(file=out, force_terminal=True, width=100), clock=clock)
    assert list(bar.over(range(rows))) == list(range(rows))
    bar.close()
    return out.getvalue(), totals


def test_work_that_is_done_soon_shows_nothing_and_counts_nothing() -> None:
    assert shown(5, ticking()) == ("", [])


def test_work_that_takes_long_shows_how_far_it_is_and_how_fast() -> None:
    text, totals = shown(40, ticking())
    assert totals == [40]
    assert "exporting" in text
    assert "rows/s" in text
    assert "%" in text


def test_the_bar_is_taken_away() -> None:
    text, _ = shown(40, ticking())
    assert text.endswith("\x1b[2K")
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h") == 1


def test_rows_that_share_a_key_are_one_step() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100)
    bar = progress.Bar("exporting", lambda: 2, console=console, clock=ticking(400_000_000))
    found = bar.over(["a1", "a2", "b1"], key=lambda row: row[0])
    next(found)
    assert " 50%" in out.getvalue()
    next(found)
    assert "100%" not in out.getvalue()
    next(found)
    assert "100%" in out.getvalue()
    bar.close()


def test_one_step_can_be_many_rows_and_the_number_of_steps_unknown() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100)
    bar = progress.Bar("exporting", lambda: None, "chunk", console=console, clock=ticking(400_000_000))
    assert list(bar.over([[1, 2], [3]], rows=len)) == [[1, 2], [3]]
    bar.close()
    assert "2 chunks" in out.getvalue()
    assert "3 chunks" in out.getvalue()
    assert "%" not in out.getvalue()


def test_without_a_terminal_there_is_no_bar(capsys: pytest.CaptureFixture[str]) -> None:
    def total() -> int:
        raise AssertionError("counted for nobody")

    with progress.bar("exporting", total, clock=ticking()) as bar:
        assert list(bar.over(iter(range(50)), key=str)) == list(range(50))
    assert capsys.readouterr() == ("", "")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def failing() -> Iterator[int]:
    yield from range(30)
    raise KeyboardInterrupt


def work(clock: Clock, hidden: bool = False) -> None:
    with progress.bar("exporting", lambda: 60, hidden=hidden, clock=clock) as bar:
        list(bar.over(failing()))


def test_an_interrupt_takes_the_bar_away_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", terminal := Terminal())
    monkeypatch.setenv("TERM", "xterm-256color")
    with pytest.raises(KeyboardInterrupt):
        work(ticking())
    assert "exporting" in terminal.getvalue()
    assert terminal.getvalue().count("\x1b[?25l") == terminal.getvalue().count("\x1b[?25h") == 1


def test_a_bar_can_be_hidden_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", terminal := Terminal())
    with pytest.raises(KeyboardInterrupt):
        work(ticking(), hidden=True)
    assert terminal.getvalue() == ""
