"""What the tests of the official SDKs share: each gets through a recorder what the tape has of it.

An SDK is imported by the tests that use it: each is heavy, and not every process of a test run comes to them.
"""

from collections.abc import Iterator

import pytest

from tests.support.relay import Relay
from wiretape.recorder.demo.upstream import ReceivedRequest, Scene


@pytest.fixture(scope="module")
def relay(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Relay]:
    """A recorder before the scenes of a module: `SCENES` by the first segment of the SDK's base URL.

    No proxy of the machine stands before it.
    """

    def choose(asked: ReceivedRequest) -> Scene:
        scene: Scene = request.module.SCENES[asked.target.decode().split("/")[1]]
        return scene

    with pytest.MonkeyPatch.context() as patch, Relay(tmp_path_factory.mktemp("sdks"), choose=choose) as relay:
        patch.setenv("NO_PROXY", "127.0.0.1")
        yield relay
        assert relay.troubles == []
