"""Fixtures of the tests of lists."""

import pytest


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Show times in UTC."""
    monkeypatch.setenv("TZ", "UTC")
