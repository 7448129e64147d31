"""The bar: only for people, only after a while, and gone at the end."""

import io
from collections.abc import Iterator

import pytest

from wiretape.recorder.clock import Clock
from wiretape.viewer.commands import progress

STEP_NS = 50_000_000


def ticking(step_ns: int = STEP_NS) -> Clock:
    """Make a clock on which each look takes some time."""
    at = iter(range(0, 1 << 62, step_ns))
    return Clock(lambda: next(at))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def on_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setattr("sys.stderr", stderr := Terminal())
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")
    return stderr


def pass_rows(rows: int) -> list[int]:
    """Pass rows through a bar, and return the counts that it received."""
    totals = list[int]()

    def total() -> int:
        totals.append(rows)
        return rows

    with progress.ProgressBar("exporting", total, clock=ticking()) as bar:
        assert list(bar.over(range(rows))) == list(range(rows))
    return totals


def test_quick_work_shows_and_counts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    assert (pass_rows(5), terminal.getvalue()) == ([], "")


def test_slow_work_shows_progress_and_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    assert pass_rows(40) == [40]
    assert "exporting" in terminal.getvalue()
    assert "rows/s" in terminal.getvalue()
    assert "%" in terminal.getvalue()


def test_the_bar_is_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    pass_rows(40)
    assert terminal.getvalue().endswith("\x1b[2K")
    assert terminal.getvalue().count("\x1b[?25l") == terminal.getvalue().count("\x1b[?25h") == 1


def test_rows_that_share_a_key_are_one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    with progress.ProgressBar("exporting", lambda: 2, clock=ticking(400_000_000)) as bar:
        rows = bar.over(["a1", "a2", "b1"], key=lambda row: row[0])
        next(rows)
        assert " 50%" in terminal.getvalue()
        next(rows)
        assert "100%" not in terminal.getvalue()
        next(rows)
        assert "100%" in terminal.getvalue()


def test_a_step_may_have_many_rows_without_a_total(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    with progress.ProgressBar("exporting", lambda: None, "chunk", clock=ticking(400_000_000)) as bar:
        assert list(bar.over([[1, 2], [3]], rows=len)) == [[1, 2], [3]]
    assert "2 chunks" in terminal.getvalue()
    assert "3 chunks" in terminal.getvalue()
    assert "%" not in terminal.getvalue()


def test_a_batch_counts_as_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    with progress.ProgressBar("exporting", lambda: 80, clock=ticking()) as bar:
        assert list(bar.over(["ab"] * 40, rows=len, steps=len)) == ["ab"] * 40
    assert "100%" in terminal.getvalue()
    assert "80 rows" in terminal.getvalue()


def test_without_a_terminal_there_is_no_bar(capsys: pytest.CaptureFixture[str]) -> None:
    def total() -> int:
        raise AssertionError("counted for nobody")

    with progress.ProgressBar("exporting", total, clock=ticking()) as bar:
        assert list(bar.over(iter(range(50)), key=str)) == list(range(50))
    assert capsys.readouterr() == ("", "")


def failing() -> Iterator[int]:
    yield from range(30)
    raise KeyboardInterrupt


def work(clock: Clock, hidden: bool = False) -> None:
    with progress.ProgressBar("exporting", lambda: 60, hidden=hidden, clock=clock) as bar:
        list(bar.over(failing()))


def test_an_interrupt_takes_the_bar_away_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        work(ticking())
    assert "exporting" in terminal.getvalue()
    assert terminal.getvalue().count("\x1b[?25l") == terminal.getvalue().count("\x1b[?25h") == 1


def test_a_bar_can_be_hidden_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        work(ticking(), hidden=True)
    assert terminal.getvalue() == ""
