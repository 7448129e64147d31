"""The command `view`: a tape or a server on a terminal, to browse and play; or a tape as live pages.

`wiretape.viewer.tui` has the screens, `wiretape.viewer.web` the pages. Errors in the options are reported before; the
tape itself need not exist yet.
"""

import contextlib
import gc
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wiretape.recorder import private, terminals
from wiretape.recorder.decode.stalls import Thresholds
from wiretape.recorder.latch import heeded
from wiretape.recorder.tape.redact import message
from wiretape.viewer.commands import completion, options

if TYPE_CHECKING:
    from textual.screen import Screen

    from wiretape.viewer.source.base import Place
    from wiretape.viewer.web.values import Settings


_NICENESS = 19
"""Pages yield the CPU to the relay and to the writer."""
_PREFIX = "wiretape-view-"


@click.command()
@options.exchange_id
@options.db
@options.filtered_in_words
@click.option("--at", metavar="POS", help="With ID: begin at this position, such as 3.2s, 50% or #120.")
@click.option("-F", "--follow", is_flag=True, help="Keep the newest exchange selected.")
@click.option(
    "--compare",
    nargs=2,
    metavar="ID ID",
    shell_complete=completion.ids,
    help="Show two exchanges side by side, on one clock.",
)
@options.judged
@click.option("--web", is_flag=True, help="Serve live pages to browsers on this machine, and print their URL.")
@click.option("--listen", metavar="HOST:PORT", help="With --web: the address, on this machine; by default a free port.")
@click.option("--with-bodies", is_flag=True, help="With --web: include the bytes of request and answer.")
@click.option("--no-mouse", is_flag=True, help="Leave the mouse to the terminal, for selecting text.")
@click.option(
    "--theme",
    envvar="WIRETAPE_THEME",
    metavar="NAME",
    help="Colours: dark, light, or auto, the default: by the terminal's background.",
)
@click.option("--ascii", is_flag=True, envvar="WIRETAPE_ASCII", help="Draw with ASCII only, as without UTF-8.")
def view(
    id: str | None,
    db: "Place | None",
    filter_text: str,
    at: str | None,
    follow: bool,
    compare: tuple[str, str] | None,
    thresholds: Thresholds,
    web: bool,
    listen: str | None,
    with_bodies: bool,
    no_mouse: bool,
    theme: str | None,
    ascii: bool,
) -> None:
    """Browse a tape in the terminal, or with --web in a browser.

    The screens show the timing, the text and the end of each exchange. ? shows all keys. ID opens one exchange: 4 or
    more characters of its id, @ (the newest), @-1, @err (a failed one), @stall or @slow.

    --web serves the pages of export --html live, with texts: the list and its figures grow with each new exchange, and
    the page of an exchange with its stream. The URL, which nobody can guess, is printed on standard output; open it in
    a browser on this machine.

    A server (--db clickhouse://HOST/DATABASE) lists, filters, sorts and counts its exchanges itself, however many they
    are. An opened exchange is pulled to a private tape, which is removed at the end: with its body if that was shipped,
    else with its facts, measures and gaps. --web and --follow need a tape.
    """
    place = options.place(db)
    if web:
        place.require("pages", "--web")
    if follow:
        place.require("following", "--follow")
    if web and place.file is not None:
        if at is not None or compare or follow:
            raise click.UsageError("--at, --compare and --follow are for the terminal: leave them out with --web")
        _serve_web(id, place.file, filter_text, thresholds, listen, with_bodies)
        return
    if listen is not None or with_bodies:
        raise click.UsageError("--listen and --with-bodies go with --web")
    _take_screen(id, place, filter_text, at, follow, compare, thresholds, no_mouse, theme, ascii)


def _serve_web(
    id: str | None, path: Path, filter_text: str, thresholds: Thresholds, listen: str | None, with_bodies: bool
) -> None:
    from wiretape.recorder.commands.options import read_listen
    from wiretape.viewer.query import parser
    from wiretape.viewer.web.values import Settings

    address = read_listen(listen or "127.0.0.1:0", frozenset(), "pages are for browsers on this one: take 127.0.0.1")
    where = options.parsed("--filter", parser.parse, filter_text) if filter_text.strip() else None
    serve_pages(Settings(path, where, thresholds, with_bodies), address, id)


def serve_pages(settings: "Settings", address: tuple[str, int], reference: str | None) -> None:
    """Serve until a signal ends the process. Raises `WiretapeError`."""
    from wiretape.recorder.relay.loop import run

    id = None if reference is None else _id(settings.tape, reference)
    os.nice(_NICENESS)
    code = run(lambda: _serve_until_signal(settings, address, id))
    sys.stdout.flush()
    os._exit(code)  # at once: the threads only read, so that nothing is lost with them


def _id(tape: Path, reference: str) -> str:
    from wiretape.viewer.source.tape import live, queries

    with queries.opened(tape) as connection:
        return live.listed(connection, [queries.find(connection, reference)])[0].id


async def _serve_until_signal(settings: "Settings", address: tuple[str, int], id: str | None) -> int:
    import asyncio

    from wiretape.recorder.relay import server
    from wiretape.viewer.page import served
    from wiretape.viewer.web.site import Site

    stopped = asyncio.Event()
    for number in heeded(signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    sock = server.listen(*address)
    site = Site(settings, _say)
    front = server.Server(site, sock, lambda refusal: _say(refusal.message))
    base = server.base_url(sock)
    with contextlib.ExitStack() as announced:
        if settings.where is None:
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


def _take_screen(
    id: str | None,
    place: "Place",
    filter_text: str,
    at: str | None,
    follow: bool,
    compare: tuple[str, str] | None,
    thresholds: Thresholds,
    no_mouse: bool,
    theme: str | None,
    ascii: bool,
) -> None:
    elsewhere = [stream.name.strip("<>") for stream in (sys.stdin, sys.stdout, sys.stderr) if not stream.isatty()]
    if elsewhere or os.environ.get("TERM") == "dumb":
        why = f"not a terminal: {', '.join(elsewhere)}" if elsewhere else "TERM is dumb"
        raise click.UsageError(f"view needs a terminal for its keys and its screen: try 'wiretape ls' ({why})")
    if at is not None and id is None:
        raise click.UsageError("--at goes with an ID")
    if compare and id is not None:
        raise click.UsageError("--compare names both exchanges itself: leave ID out")
    ids = [one for one in (compare or (id,)) if one is not None]
    with contextlib.ExitStack() as stack:
        place.check()  # report errors before taking the screen
        path = place.holding(lambda: stack.enter_context(private.directory(_PREFIX, "opened exchanges")) / "pulled.db")
        selected, numbers = _numbers(place, ids)
        _show(path, place, filter_text, follow, _opened(numbers, at), selected, thresholds, no_mouse, theme, ascii)


def _show(
    path: Path,
    place: "Place",
    filter_text: str,
    follow: bool,
    opened: "Callable[[], Screen[Any]] | None",
    selected: int | None,
    thresholds: Thresholds,
    no_mouse: bool,
    theme: str | None,
    ascii: bool,
) -> None:
    if os.environ.get("NO_COLOR") == "":
        del os.environ["NO_COLOR"]  # empty means nothing, by its own rules; Textual would heed it
    gc.disable()  # until the first screen: collections of objects that stay would take a tenth of the start
    from wiretape.viewer import config
    from wiretape.viewer.tui.app import ViewerApp

    configured = config.read()
    app = ViewerApp(
        path,
        place=place,
        limits=thresholds,
        config=configured,
        filter_text=filter_text,
        follow=follow,
        opened=opened,
        selected=selected,
        ascii=ascii or not terminals.has_utf8(),
    )
    configured.check_theme(app.theme_choices)
    if theme is not None:
        if theme not in app.theme_choices:
            known = ", ".join(sorted(app.theme_choices))
            raise click.BadParameter(f"there is no theme {theme!r}: there are {known}", param_hint="--theme")
        app.use_theme(theme)
    code = app.run(mouse=not no_mouse)
    if app.failure is not None:
        raise app.failure
    sys.exit(code or app.return_code or 0)


def _numbers(place: "Place", ids: Sequence[str]) -> tuple[int | None, list[int]]:
    """Return the number of the exchange to select, and the numbers on the tape of those to open.

    Raises `NotFound` and its like.
    """
    if not ids:
        return None, []
    with place.opened() as opened:
        there = [opened.find(one) for one in ids]
    return there[0], place.pull(there)


def _opened(numbers: Sequence[int], at: str | None) -> "Callable[[], Screen[Any]] | None":
    if len(numbers) > 1:
        from wiretape.viewer.tui.compare.race import CompareScreen

        return lambda: CompareScreen(numbers[0], numbers[1])
    if not numbers:
        return None
    from wiretape.viewer.tui.inspector.screen import InspectorScreen

    return lambda: InspectorScreen(numbers[0], at)
