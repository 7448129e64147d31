"""What tests of screens share: a terminal with colours, and a state directory of their own."""

from pathlib import Path

import pytest

from viewer.tui import app


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.delenv("NO_COLOR", raising=False)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what is said in passing be gone sooner than anybody reads it."""
    monkeypatch.setattr(app.ViewerApp, "NOTIFICATION_TIMEOUT", 0.2)
    monkeypatch.setattr(app.ViewerApp, "READING_SPEED", 1000)
