"""Whether a recorder's process is gone: only of one that ran here is that known."""

import os

import pytest

from recorder import departed
from recorder.departed import is_gone

NOBODY = 2**22 + 1
"""Above any number that Linux gives a process."""


def test_only_one_of_this_boot_can_be_known_to_be_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(departed, "boot_id", lambda: "here")
    assert is_gone(NOBODY, "here")
    assert not is_gone(os.getpid(), "here")
    assert not is_gone(1, "here")  # it may be somebody else's: that is no error
    assert not is_gone(0, "here")
    assert not is_gone(NOBODY, "elsewhere")
    assert not is_gone(NOBODY, None)
