"""Time zones: the local time of a test, whatever that of the machine is."""

import contextlib
import time
from collections.abc import Iterator

import pytest


@contextlib.contextmanager
def local_time(zone: str) -> Iterator[None]:
    """Make a zone of the system's data the local one until the end of the block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", zone)
        time.tzset()
        yield
    time.tzset()
