"""Fixtures of the relay's tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.relay import Relay, make_authority


@pytest.fixture(scope="module")
def relay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Relay]:
    """One recorder for all tests of a module; each plays scenes of its own."""
    with Relay(tmp_path_factory.mktemp("relay")) as relay:
        yield relay
        assert relay.troubles == []


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with ca.pem, and servers' certificates by it."""
    return make_authority(tmp_path_factory.mktemp("authority"))
