"""The command `serve`: recorded exchanges answered again, as the upstream did."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from recorder.commands.options import db, gathered, read_listen
from recorder.plurals import counted
from recorder.sanitize import safe
from viewer.commands import completion, options
from viewer.commands.options import Pace

if TYPE_CHECKING:
    import asyncio

    from recorder.relay.guard import Refusal
    from viewer.filters.syntax import Filter
    from viewer.replay.planning import Options, Planner
    from viewer.replay.serve import Served

_MODES = ("request", "model", "sequence", "random", "id")


def _read_faults(_context: click.Context, _option: click.Parameter, given: tuple[str, ...]) -> list[Any]:
    from viewer.replay import faults

    return [options.parsed("--fault", faults.parse, text) for text in given]


def _read_rechunk(_context: click.Context, _option: click.Parameter, given: str) -> str | int:
    from viewer.replay.planning import read_rechunk

    return options.parsed("--rechunk", read_rechunk, given)


def _options(
    match: Any, ignored: tuple[str, ...], rechunk: Any, faults: list[Any], seed: int
) -> "Callable[[Pace], Options]":
    from viewer.replay.planning import Options

    return lambda pace: Options(match, ignored, pace.speed, pace.cap_ns, rechunk, faults, seed)


_answered = gathered(
    "answered",
    _options,
    click.option("--match", type=click.Choice(_MODES), default="request", show_default=True,
                 help="What answers a request: the recording of the same method, path and body; of the same model; the "
                 "next one, or any, of the same path; or only the one that is named."),
    click.option("--ignore", "ignored", multiple=True, metavar="FIELD",
                 help="Compare JSON bodies without this field: user, metadata.session. May be repeated."),
    click.option("--rechunk", default="recorded", show_default=True, metavar="HOW", callback=_read_rechunk,
                 help="Where writes end: recorded, event (one each), byte, or a number of bytes."),
    click.option("--fault", "faults", multiple=True, metavar="FAULT", callback=_read_faults,
                 help="Break answers: cut@50%, reset@#3 (before event 3), stall:5s@#120, corrupt@#7, slow:3x, "
                 "status:429:0.1 (one in ten). May be repeated."),
    click.option("--seed", type=int, default=0, show_default=True, help="Decides which faults by chance strike."),
)  # fmt: skip


@click.command()
@click.argument("ids", nargs=-1, metavar="[ID]...", shell_complete=completion.ids)
@db
@options.filtered
@click.option("--listen", default="127.0.0.1:0", show_default=True, metavar="HOST:PORT",
              help="Where clients call, on this machine; port 0 takes a free one.")  # fmt: skip
@click.option("--ready-file", type=click.Path(path_type=Path, dir_okay=False), metavar="PATH",
              help="Write the base URL to this file when it is ready; the file is removed at the end.")  # fmt: skip
@options.paced
@_answered
def serve(
    ids: tuple[str, ...],
    db: Path | None,
    where: "Filter | None",
    listen: str,
    ready_file: Path | None,
    pace: Pace,
    answered: "Callable[[Pace], Options]",
) -> None:
    """Answer requests from a tape, as the upstream did: the same bytes, reads, timing and failures.

    When it is ready, the base URL is printed on standard output, and nothing else; point SDKs there as to a recorder:
    with or without the provider (/openai/v1), with any API key. GET / lists what is served. Served are all exchanges of
    the tape, those named, or those that fit a filter; several that match a request are served in turn.

    A request that was not recorded is answered by 404, which names the nearest recording and the fields that differ.
    The header X-Wiretape-Exchange, or a path that begins with /@ID/, asks for an exchange whatever the request is.

    A recording that ended in a timeout falls silent until the client leaves; one that the client or the recorder ended
    is cut there. On standard error, each answer has a line that says how late its writes were. Ctrl-c stops.
    """
    from recorder.relay.loop import run
    from viewer.replay.planning import Planner
    from viewer.replay.source import Source

    host, port = read_listen(listen, frozenset(), "serve answers programs on this one, so listen on 127.0.0.1")
    path, settings = options.tape(db), answered(pace)

    def open_planner() -> Planner:
        return Planner(Source(path, lambda connection: options.named(connection, ids, where)), settings)

    sys.exit(run(lambda: _serve(open_planner, host, port, ready_file, path)))


async def _serve(
    open_planner: "Callable[[], Planner]", host: str, port: int, ready_file: Path | None, path: Path
) -> int:
    import asyncio

    from recorder.clock import SYSTEM, KernelTime
    from recorder.relay import local, server
    from viewer.replay.serve import Replay

    local.raise_descriptor_limit()
    report = _Report()
    app = Replay(open_planner, on_served=report.served, on_refused=report.refused, on_trouble=report.trouble)
    sock = server.listen(host, port)
    heads = await app.start()
    front = server.Server(app, sock, report.refused, kernel_time=KernelTime(SYSTEM))
    stopped = asyncio.Event()
    _catch_signals(stopped)
    _say(f"serving {counted(len(heads), 'exchange')} of {path}; stop: ctrl-c")
    with _ready(server.base_url(sock), ready_file):
        app.warm()
        await stopped.wait()
    front.close()
    await app.stop()
    await front.wait_closed(0)
    report.conclude()
    return report.code


def _catch_signals(stopped: "asyncio.Event") -> None:
    import asyncio
    import signal

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
            asyncio.get_running_loop().add_signal_handler(number, stopped.set)


@contextmanager
def _ready(base: str, file: Path | None) -> Iterator[None]:
    """Say that clients may come: on standard output, and in a file if one is named."""
    print(base, flush=True)
    if file is None:
        yield
        return
    part = file.with_name(f"{file.name}.part")
    part.write_text(f"{base}\n", "utf-8")
    part.replace(file)
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


class _Report:
    """What is told on standard error: a line for each request, and in the end of all of them."""

    def __init__(self) -> None:
        from viewer.replay.accuracy import Lateness

        self._all = Lateness()
        self._answered = self._missed = self.code = 0

    def served(self, one: "Served") -> None:
        """Tell what became of a request."""
        from viewer.replay import accuracy

        if one.head is None:
            self._missed += one.miss is not None
            if one.ended != "list":
                _say(f"{one.status or '–'} {one.method} {one.path}: {one.miss.message if one.miss else one.ended}")
            return
        self._answered += 1
        self._all.add(one.late)
        notes = [counted(len(one.sizes), "write"), one.ended, str(accuracy.of(one.late)), *one.faults]
        notes += [f"held by the client {counted(len(one.held), 'time')}"] if one.held else []
        _say(f"{one.status or '–'} {one.method} {one.path} → {one.head.id}: {', '.join(notes)}")

    def refused(self, refusal: "Refusal") -> None:
        """Tell of what may not pass."""
        _say(f"refused ({refusal.status}): {refusal.message}")

    def trouble(self, message: str) -> None:
        """Tell what went wrong."""
        self.code = 1
        _say(message)

    def conclude(self) -> None:
        """Tell of all requests."""
        _say(f"{counted(self._answered, 'request')} answered, {self._missed} not recorded; writes were {self._all}")


def _say(line: str) -> None:
    click.echo(f"wiretape: {safe(line)}", err=True)
