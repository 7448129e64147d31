"""What tests of screens share: a state directory of their own, so that nobody's history is read or written."""

from pathlib import Path

import pytest

from viewer.tui import app


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what is said in passing be gone sooner than anybody reads it."""
    monkeypatch.setattr(app.ViewerApp, "NOTIFICATION_TIMEOUT", 0.2)
    monkeypatch.setattr(app, "_READ_PER_SECOND", 1000)
