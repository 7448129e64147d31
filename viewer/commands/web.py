"""`view --web`: the pages of a tape, live, for browsers on the same machine."""

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from wiretape.recorder.sanitize import safe

if TYPE_CHECKING:
    from wiretape.viewer.web.values import Settings

_NICENESS = 19
"""Pages yield the CPU to the relay and to the writer."""


def serve(settings: "Settings", address: tuple[str, int], reference: str | None) -> None:
    """Serve until a signal ends the process. Raises `WiretapeError`."""
    from wiretape.recorder.relay.loop import run

    id = None if reference is None else _id(settings.tape, reference)
    os.nice(_NICENESS)
    code = run(lambda: _serve(settings, address, id))
    sys.stdout.flush()
    os._exit(code)  # at once: the threads only read, so that nothing is lost with them


def _id(tape: Path, reference: str) -> str:
    from wiretape.viewer.source.tape import live, queries

    with queries.opened(tape) as connection:
        return live.listed(connection, [queries.find(connection, reference)])[0].id


async def _serve(settings: "Settings", address: tuple[str, int], id: str | None) -> int:
    import asyncio

    from wiretape.recorder.relay import server
    from wiretape.viewer.web.site import Site

    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
            asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    sock = server.listen(*address)
    site = Site(settings, _say)
    front = server.Server(site, sock, lambda refusal: _say(refusal.message))
    print(f"{server.base_url(sock)}{site.path(id)}", flush=True)
    _say(f"live pages of {settings.tape}, for browsers on this machine; stop: ctrl-c")
    await stopped.wait()
    site.close()
    front.close()
    await front.wait_closed(0)
    return 0


def _say(line: str) -> None:
    print(f"wiretape: {safe(line)}", file=sys.stderr, flush=True)
