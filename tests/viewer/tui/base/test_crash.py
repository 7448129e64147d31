"""The message after a fault of the viewer."""

import stat
from pathlib import Path

import pytest

from wiretape.recorder.clock import SYSTEM
from wiretape.viewer.tui import app


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


def broken(text: str) -> Exception:
    try:
        raise LookupError(text)
    except LookupError as error:
        return error


def test_a_fault_is_reported_and_its_traceback_kept(state: Path) -> None:
    report_lines = app.report_crash(broken("no such thing"), SYSTEM).splitlines()
    (log,) = state.rglob("view-*.txt")
    assert report_lines[1] == "  LookupError: no such thing"
    assert "in broken" in log.read_text("utf-8")
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_what_a_fault_quotes_cannot_control_the_terminal() -> None:
    report_lines = app.report_crash(broken("\x1b]0;title\x07\n[bold]"), SYSTEM)
    assert len(report_lines.splitlines()) == 5
    assert "\x1b" not in report_lines
