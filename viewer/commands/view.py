"""The command `view`: a tape or a server on a terminal, to browse and play; or a tape as live pages.

`wiretape.viewer.tui` has the screens, a wing the pages. Errors in the options are reported before; the tape itself need
not exist yet.
"""

import contextlib
import gc
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click

from wiretape.recorder import private, terminals
from wiretape.recorder.decode.stalls import Thresholds
from wiretape.viewer.commands import completion, options

if TYPE_CHECKING:
    from textual.screen import Screen

    from wiretape.viewer.source.base import Place


class PageServer(Protocol):
    """Pages that a wing serves in place of the screens, at its option `--web`."""

    def serve(self, id: str | None, path: Path, filter_text: str, thresholds: Thresholds) -> None:
        """Serve a tape until a signal ends the process."""


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
@options.of_wings("view")
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
    no_mouse: bool,
    theme: str | None,
    ascii: bool,
    pages: "PageServer | None" = None,
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
    if pages is not None:
        place.require("pages", "--web")
    if follow:
        place.require("following", "--follow")
    if pages is not None and place.file is not None:
        if at is not None or compare or follow:
            raise click.UsageError("--at, --compare and --follow are for the terminal: leave them out with --web")
        pages.serve(id, place.file, filter_text, thresholds)
        return
    elsewhere = [stream.name.strip("<>") for stream in (sys.stdin, sys.stdout, sys.stderr) if not stream.isatty()]
    if elsewhere or os.environ.get("TERM") == "dumb":
        reason = f"not a terminal: {', '.join(elsewhere)}" if elsewhere else "TERM is dumb"
        raise click.UsageError(f"view needs a terminal for its keys and its screen: try 'wiretape ls' ({reason})")
    if at is not None and id is None:
        raise click.UsageError("--at goes with an ID")
    if compare and id is not None:
        raise click.UsageError("--compare names both exchanges itself: leave ID out")
    ids = [id for id in (compare or (id,)) if id is not None]
    with contextlib.ExitStack() as stack:
        place.check()  # report errors before taking the screen
        path = place.holding(
            lambda: stack.enter_context(private.directory("wiretape-view-", "opened exchanges")) / "pulled.db"
        )
        selected, numbers = _numbers(place, ids)
        _show(
            path, place, filter_text, follow, _screen_opener(numbers, at), selected, thresholds, no_mouse, theme, ascii
        )


def _show(
    path: Path,
    place: "Place",
    filter_text: str,
    follow: bool,
    first_screen: "Callable[[], Screen[Any]] | None",
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
        first_screen=first_screen,
        selected=selected,
        ascii=ascii or not terminals.has_utf8(),
    )
    configured.check_theme(app.theme_choices)
    if theme is not None:
        if theme not in app.theme_choices:
            themes = ", ".join(sorted(app.theme_choices))
            raise click.BadParameter(f"there is no theme {theme!r}: there are {themes}", param_hint="--theme")
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
    with place.opened() as source:
        numbers = [source.find(id) for id in ids]
    return numbers[0], place.pull(numbers)


def _screen_opener(numbers: Sequence[int], at: str | None) -> "Callable[[], Screen[Any]] | None":
    if len(numbers) > 1:
        from wiretape.viewer.tui.compare.race import CompareScreen

        return lambda: CompareScreen(numbers[0], numbers[1])
    if not numbers:
        return None
    from wiretape.viewer.tui.inspector.screen import InspectorScreen

    return lambda: InspectorScreen(numbers[0], at)
