"""Fixtures of the relay's tests."""

from collections.abc import Iterator

import pytest

from tests.relay import Relay


@pytest.fixture(scope="module")
def relay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Relay]:
    """One recorder for all tests of a module; each plays scenes of its own."""
    with Relay(tmp_path_factory.mktemp("relay")) as relay:
        yield relay
        assert relay.troubles == []
