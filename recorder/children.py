"""Processes of wiretape's own: the command that runs them, and the environment that they get.

The working directory may be anybody's, such as a repository that was just cloned: no child imports from it. What else
this process imports from, such as `PYTHONPATH` and the user's site directory, is the same in its children.
"""

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Final

PROXY_PASSWORD: Final = "WIRETAPE_PROXY_PASSWORD"
"""Names the password of the forward proxy where it is not to be a random one, as where no terminal shows that."""

LEAVE: Final = b"leave\n"
"""The line that asks a companion to leave the tape, so that the writer is the last to close it; it answers the same."""
LAST_SECONDS: Final = 4.0
"""Time allowed for the remainder after the recorder's end."""

_OF_CONNECTIONS: Final = frozenset({
    "http_proxy", "https_proxy", "all_proxy", "wiretape_fleet_password", "otel_exporter_otlp_headers",
})  # fmt: skip
_SAFE_PATH: Final = "PYTHONSAFEPATH"


def python(*arguments: str) -> list[str]:
    """Return the command that runs this interpreter with `arguments`, such as `-m` and a module."""
    return [sys.executable, "-P", *arguments]


def environment(*, connects: bool = False) -> dict[str, str]:
    """Return the environment of a child; only one that `connects` gets the passwords of other proxies and of servers.

    No child needs the password of this recorder's own proxy.
    """
    withheld = frozenset[str]() if connects else _OF_CONNECTIONS
    kept = {name: value for name, value in os.environ.items() if name.lower() not in withheld}
    kept.pop(PROXY_PASSWORD, None)
    return kept


@contextlib.contextmanager
def spawning() -> Iterator[None]:
    """Keep the working directory from the processes that `multiprocessing` starts: it takes no command."""
    before = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        del os.environ[_SAFE_PATH]
        if before is not None:
            os.environ[_SAFE_PATH] = before
