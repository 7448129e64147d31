"""A recorder for the tests of the official SDKs: each SDK receives the same answers that the tape holds.

The tests import their SDK themselves: each is slow to load, and few processes of a test run need it.
"""

from collections.abc import Callable, Iterator

import pytest

from tests.support.relay import Relay
from wiretape.recorder.demo.upstream import ReceivedRequest, Scene


@pytest.fixture(scope="module")
def relay(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Relay]:
    """A recorder before the scenes of a module: `SCENES`, or functions of the request, by the base URL's first segment.

    No proxy of the machine stands before it.
    """

    def choose(asked: ReceivedRequest) -> Scene:
        scene: Scene | Callable[[ReceivedRequest], Scene] = request.module.SCENES[asked.target.decode().split("/")[1]]
        return scene(asked) if callable(scene) else scene

    with pytest.MonkeyPatch.context() as patch, Relay(tmp_path_factory.mktemp("sdks"), choose=choose) as relay:
        patch.setenv("NO_PROXY", "127.0.0.1")
        yield relay
        assert relay.troubles == []
