"""Child processes of wiretape: their command line and their environment.

No child imports from the working directory, which may be untrusted, such as a repository just cloned. All other import
paths, such as `PYTHONPATH` and the user's site directory, are the same as in this process.
"""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Final

PROXY_PASSWORD: Final = "WIRETAPE_PROXY_PASSWORD"
"""Variable with the forward proxy's password, for a recorder without a terminal that could show a random one."""
CONTROL_TOKEN: Final = "WIRETAPE_CONTROL_TOKEN"
"""Variable with the token by which tests control the answers of `serve`."""

LEAVE: Final = b"leave\n"
"""Line that asks a companion to close the tape, and its answer; so the writer is the last to close it."""
LAST_SECONDS: Final = 4.0
"""Time allowed for the remaining work of a companion after the recorder's end, in seconds."""

_OF_CONNECTIONS: Final = frozenset({
    "http_proxy", "https_proxy", "all_proxy", "wiretape_proxy", "wiretape_fleet_password",
    "otel_exporter_otlp_headers",
})  # fmt: skip
_SAFE_PATH: Final = "PYTHONSAFEPATH"


def python(*arguments: str) -> list[str]:
    """Return the command that runs this interpreter with `arguments`, such as `-m` and a module."""
    return [sys.executable, "-P", *arguments]


def environment(*, connects: bool = False) -> dict[str, str]:
    """Return the environment of a child; only one that `connects` gets the passwords of other proxies and of servers.

    No child needs the password of this recorder's own proxy, nor the token of its control.
    """
    withheld = frozenset[str]() if connects else _OF_CONNECTIONS
    variables = {name: value for name, value in os.environ.items() if name.lower() not in withheld}
    for own in (PROXY_PASSWORD, CONTROL_TOKEN):
        variables.pop(own, None)
    return variables


@contextlib.contextmanager
def spawning() -> Iterator[None]:
    """Keep the processes of `multiprocessing`, which take no command line, from importing from the directory."""
    previous = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        del os.environ[_SAFE_PATH]
        if previous is not None:
            os.environ[_SAFE_PATH] = previous


def attach() -> None:
    """Leave interrupts to the parent of this process of `multiprocessing`, and end with it, however it ends.

    A pool's process waits for work in a pipe that it has open to write, too: that has no end.
    """
    import multiprocessing

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()
