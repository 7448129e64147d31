"""The option `view --web`: a tape as live pages, for browsers on this machine."""

import contextlib
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from wiretape.recorder.commands.options import gathered, read_listen
from wiretape.recorder.decode.stalls import Thresholds
from wiretape.recorder.latch import heeded
from wiretape.recorder.tape.redact import message
from wiretape.viewer.commands import options

if TYPE_CHECKING:
    from wiretape.viewer.wings.page.values import Settings

_NICENESS: Final = 19
"""Pages yield the CPU to the relay and to the writer."""


@dataclass(frozen=True, slots=True)
class LivePages:
    """Live pages at an address, with the bytes of request and answer on request."""

    listen: str | None
    with_bodies: bool

    def serve(self, id: str | None, path: Path, filter_text: str, thresholds: Thresholds) -> None:
        """Serve a tape until a signal ends the process. Raises `WiretapeError`."""
        from wiretape.recorder.relay.loop import run
        from wiretape.viewer.query import parser
        from wiretape.viewer.wings.page.values import Settings

        reason = "pages are for browsers on this one: take 127.0.0.1"
        address = read_listen(self.listen or "127.0.0.1:0", frozenset(), reason)
        filter = options.parsed("--filter", parser.parse, filter_text) if filter_text.strip() else None
        settings = Settings(path, filter, thresholds, self.with_bodies)
        whole_id = None if id is None else _id(path, id)
        os.nice(_NICENESS)
        code = run(lambda: _serve_until_signal(settings, address, whole_id))
        sys.stdout.flush()
        os._exit(code)  # at once: the threads only read, so that nothing is lost with them


def read_pages(web: bool, listen: str | None, with_bodies: bool) -> LivePages | None:
    """Return the live pages to serve, or None for the terminal. Raise a usage error for their options without them."""
    if not web and (listen is not None or with_bodies):
        raise click.UsageError("--listen and --with-bodies go with --web")
    return LivePages(listen, with_bodies) if web else None


pages = gathered(
    "pages",
    read_pages,
    click.option("--web", is_flag=True, help="Serve live pages to browsers on this machine, and print their URL."),
    click.option(
        "--listen", metavar="HOST:PORT", help="With --web: the address, on this machine; by default a free port."
    ),
    click.option("--with-bodies", is_flag=True, help="With --web: include the bytes of request and answer."),
)
"""The options, as the argument `pages`."""


def _id(tape: Path, reference: str) -> str:
    from wiretape.viewer.source.place import TapePlace

    with TapePlace(tape).opened() as source:
        number = source.find(reference)
        return source.ids([number])[number]


async def _serve_until_signal(settings: "Settings", address: tuple[str, int], id: str | None) -> int:
    import asyncio

    from wiretape.recorder.relay import server
    from wiretape.viewer.source import served
    from wiretape.viewer.wings.page.site import Site

    stopped = asyncio.Event()
    for number in heeded(signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    sock = server.bound(*address)
    site = Site(settings, _say)
    front = server.Server(site, sock, lambda refusal: _say(refusal.message))
    base = server.base_url(sock)
    with contextlib.ExitStack() as announced:
        if settings.filter is None:
            announced.enter_context(served.announced(settings.tape, f"{base}{site.path()}"))
        print(f"{base}{site.path(id)}", flush=True)
        _say(f"live pages of {settings.tape}, for browsers on this machine; stop: ctrl-c")
        await stopped.wait()
    site.close()
    front.close()
    await front.wait_closed(0)
    return 0


def _say(line: str) -> None:
    print(message(line), file=sys.stderr, flush=True)
