"""The command `wiretape record`."""

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from wiretape.recorder import destinations
from wiretape.recorder.children import PROXY_PASSWORD
from wiretape.recorder.commands import options
from wiretape.recorder.latch import heeded
from wiretape.recorder.plurals import counted
from wiretape.recorder.relay import apis, providers

if TYPE_CHECKING:
    import asyncio
    from datetime import timedelta

    from wiretape.recorder.commands.companion import Shipment
    from wiretape.recorder.commands.status import Screen, Tally
    from wiretape.recorder.relay.intercept import Interception
    from wiretape.recorder.relay.service import Observer, Recorder, RecorderOptions
    from wiretape.recorder.tape.journal import Finished


@click.command()
@options.recording(options.intercepting)
@click.option(
    "--listen",
    default="127.0.0.1:8377",
    show_default=True,
    metavar="HOST:PORT",
    envvar="WIRETAPE_LISTEN",
    help="Address for clients; port 0 takes a free one.",
)
@click.option("--allow-host", "allow_hosts", multiple=True, metavar="NAME",
              help="Another host name by which clients may call; needed to listen beyond loopback.")  # fmt: skip
@click.option("--keep", type=options.read_age, metavar="AGE", envvar="WIRETAPE_KEEP",
              help="Delete exchanges when they are older than this: 12h, 30d, 8w.")  # fmt: skip
@click.option("--max-db-size", type=options.read_size, metavar="SIZE", envvar="WIRETAPE_MAX_DB_SIZE",
              help="Delete the oldest exchanges when the tape's data exceed this: 500MB, 2GB.")  # fmt: skip
@click.option("--workers", type=click.IntRange(1, 64), default=1, show_default=True, metavar="N",
              callback=options.check_workers,
              help="Relay in N processes, on as many cores; all write to one tape. Linux only.")  # fmt: skip
@click.option("--metrics", metavar="HOST:PORT",
              help="Serve Prometheus metrics at http://HOST:PORT/metrics; port 0 takes a free one.")  # fmt: skip
@click.option("--otlp", metavar="URL", callback=options.read_collector,
              help="Send spans and metrics to the OTLP/HTTP collector at URL: http://127.0.0.1:4318.")  # fmt: skip
@click.option("--otlp-headers", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="With --otlp, send these headers: NAME: VALUE, a line each. "
              "[default: OTEL_EXPORTER_OTLP_HEADERS]")  # fmt: skip
@click.option("--ship", metavar="URL", callback=options.read_destination,
              help="Also ship to URL: clickhouse://HOST/DATABASE or chdb:DIR; see wiretape help shipping.")  # fmt: skip
@click.option("--ship-bodies", is_flag=True,
              help="With --ship, ship the bodies, too: requests, answers, and their reads.")  # fmt: skip
@click.option("-v", "--verbose", is_flag=True, help="At the start, list every upstream and every SDK's variable.")
def record(
    common: options.RecordingValues,
    listen: str,
    allow_hosts: tuple[str, ...],
    verbose: bool,
    keep: "timedelta | None",
    max_db_size: int | None,
    workers: int,
    metrics: str | None,
    otlp: destinations.Destination | None,
    otlp_headers: Path | None,
    ship: destinations.Destination | None,
    ship_bodies: bool,
) -> None:
    """Relay streams and record every socket read.

    When it is ready, it prints a line to copy for each SDK, the path of the tape, and the command to view it. All
    messages go to standard error; on a pipe, standard output gets the base URL, and nothing else.

    With --intercept, further lines are the variables to export for programs with a URL of their own: see "wiretape help
    intercept". They contain the proxy's password, and are therefore shown on a terminal only.

    With --otlp, each generation becomes a span in the trace of its caller: see "wiretape help otlp".

    With --workers, the system spreads connections, not requests, over several processes: few connections may share one.

    Ctrl-c drains for up to 7 s, a second one cuts. After SIGTERM or SIGHUP, exchanges that are not measured 3 s after
    the drain are left to the next recorder. The exit code is not 0 if any data could not be stored.
    """
    allowed = frozenset(host.lower() for host in allow_hosts)
    host, port = options.read_listen(listen, allowed)
    metrics_at = None if metrics is None else options.read_listen(metrics, allowed, option="--metrics")
    if metrics_at is not None:
        options.check_extra("prometheus_client", "metrics", "--metrics")
    shipments = [*_collector(otlp, otlp_headers), *_shipment(ship, ship_bodies)]
    upstreams = options.read_upstreams(common.upstreams)

    from wiretape.recorder.relay.loop import run
    from wiretape.recorder.tape.journal import Keep

    rule = Keep(keep.total_seconds() if keep else None, max_db_size) if keep or max_db_size else None
    settings = common.settings(upstreams, host=host, port=port, allow_hosts=allowed, keep=rule, workers=workers)
    sys.exit(run(lambda: serve(settings, verbose, metrics_at, shipments)))


def _collector(collector: destinations.Destination | None, headers: Path | None) -> "Iterator[Shipment]":
    """Yield the shipment of spans and metrics to a collector, if any."""
    if collector is None:
        if headers is not None:
            raise click.UsageError("--otlp-headers is for --otlp: add that")
        return
    from wiretape.recorder.commands.companion import Shipment

    collector.check(headers)
    yield Shipment(collector, headers_file=headers)


def _shipment(to: destinations.Destination | None, bodies: bool) -> "Iterator[Shipment]":
    if to is None:
        if bodies:
            raise click.UsageError("--ship-bodies is for --ship: add that")
        return
    from wiretape.recorder.commands.companion import Shipment

    if to.own_option:
        raise click.BadParameter(f"a {to.noun} is named with {to.own_option}", param_hint="--ship")
    to.check()
    yield Shipment(to, bodies)


async def serve(
    settings: "RecorderOptions",
    verbose: bool = False,
    metrics_at: tuple[str, int] | None = None,
    shipments: "Sequence[Shipment]" = (),
) -> int:
    """Record until a signal asks for the end; return the exit code.

    Metrics are served at an address, and the tape is shipped, if these are given.
    """
    with _certificates(settings) as certificates:
        return await _serve(settings, certificates, verbose, metrics_at, shipments)


@contextlib.contextmanager
def _certificates(settings: "RecorderOptions") -> Iterator[Mapping[str, str]]:
    """Yield the variables that name the certificates of an intercepting recorder, which exist until the end."""
    from wiretape.recorder.relay import environment

    if settings.interception is None:
        yield {}
        return
    certificate = settings.interception.authority.certificate
    with environment.certificate_files(certificate, os.environ, settings.ca_file) as certificates:
        yield certificates


async def _serve(
    settings: "RecorderOptions",
    certificates: Mapping[str, str],
    verbose: bool,
    metrics_at: tuple[str, int] | None,
    shipments: "Sequence[Shipment]",
) -> int:
    import asyncio

    from wiretape.recorder.commands import companion, metrics
    from wiretape.recorder.commands.status import Screen, Tally
    from wiretape.recorder.relay.service import Recorder

    screen = Screen()
    faults: list[str] = []
    tally = Tally()
    sock = metrics.listen(metrics_at)
    recorder = Recorder(settings, _observer(screen, faults, tally))
    stopped = asyncio.Event()
    catch_signals(stopped, recorder)
    await recorder.start()
    _print_start(screen, recorder, settings, verbose)
    if not (screen.live and sys.stdout.isatty()):
        print(recorder.base, flush=True)
    if settings.interception is not None:
        for line in _export_lines(settings.interception, recorder.base, certificates, is_private=screen.live):
            screen.line(line)
    tasks = [asyncio.create_task(work(screen, recorder)) for work in (_paint, _report_joined)]
    if shipments:  # they read the tape
        await recorder.tap.ready()
    async with companion.shipped(shipments, settings, screen) as shippers:
        async with metrics.served(sock, settings, recorder, screen):
            await stopped.wait()
        for shipper in shippers:
            await shipper.leave()  # it reads the tape, and the writer must be the last to close it
        if recorder.live:
            screen.line(f"draining {counted(recorder.live, 'live exchange')} (ctrl-c again to cut) …")
        unstored = await recorder.stop()
    for task in tasks:
        task.cancel()
    return _print_end(screen, recorder, unstored, len(faults), settings.tape, tally)


def _observer(screen: "Screen", faults: list[str], tally: "Tally") -> "Observer":
    """Return an observer that prints all events, adds our own faults to the list, and counts endings."""
    from wiretape.recorder.clock import SYSTEM
    from wiretape.recorder.local_time import of_day
    from wiretape.recorder.relay.service import Observer

    reported_hosts: set[str] = set()

    def finished(exchange: "Finished") -> None:
        tally.add(exchange)
        screen.finished(exchange, of_day(SYSTEM.wall()))

    def failed(message: str) -> None:
        faults.append(message)
        screen.report(message)

    def asked(host: str, treatment: str) -> None:
        if treatment in ("tunnelled", "relayed") and host not in reported_hosts:
            reported_hosts.add(host)
            screen.report(f"{host} is {treatment}, not recorded: it is no known API's")

    return Observer(
        finished=finished,
        trouble=lambda message: screen.report(f"storing: {message or 'works again'}"),
        refused=lambda refusal: screen.report(f"refused ({refusal.status}): {refusal.message}"),
        failed=failed,
        asked=asked,
        notice=screen.report,
    )


def catch_signals(stopped: "asyncio.Event", recorder: "Recorder") -> None:
    """Stop the recorder at the first SIGINT, SIGTERM or SIGHUP, and cut it at the second.

    A person who presses ctrl-c may wait for the last figures; a system gives some seconds.
    """
    import asyncio
    import signal

    def stop(number: int) -> None:
        if number != signal.SIGINT:
            recorder.hurry()
        if stopped.is_set():
            recorder.cut()
        stopped.set()

    for number in heeded(signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop, number)


def _print_start(screen: "Screen", recorder: "Recorder", settings: "RecorderOptions", verbose: bool) -> None:
    """Print lines to be copied for SDKs, the tape, the commands to view it, the upstreams, and then any warnings."""
    from wiretape.recorder import __version__

    tape = options.naming(settings.tape)
    limit = len(settings.upstreams) if verbose else 3
    for number, line in enumerate(_pointing_lines(recorder.base, settings.upstreams, limit)):
        screen.line(f"{'' if number else 'point SDKs':<12}{line}")
    screen.line(f"tape        {settings.tape}  (wiretape {__version__})")
    bases = providers.sdk_bases(recorder.base, settings.upstreams)
    variables = f'    variables: eval "$(wiretape env{tape})"' if bases else ""
    screen.line(f"look        wiretape view{tape}{variables}    stop: ctrl-c")
    for line in _way_lines(recorder.base, settings, limit):
        screen.line(line)
    if verbose:
        for variable, value in bases.items():
            screen.line(f"SDKs        export {variable}={value}")
    if settings.allow_hosts:
        screen.report("warning: other machines that reach this address may relay through it")


async def _report_joined(screen: "Screen", recorder: "Recorder") -> None:
    """Name the recorder whose writer was joined, when that answers: a busy one takes longer than a start may."""
    await recorder.tap.ready()
    if recorder.tap.joined is not None:
        screen.report(f"joins the recorder of pid {recorder.tap.joined}")


def _way_lines(base: str, settings: "RecorderOptions", most: int) -> Iterator[str]:
    """Yield a line for each proxy to be passed, and for each upstream if they are not too many."""
    from wiretape.recorder.tape.redact import Redactor

    for proxy in settings.proxies or ():
        yield f"proxy       {proxy}"
    for upstream in settings.upstreams if len(settings.upstreams) <= most else ():
        mount = f"{base}/{upstream.name}" if upstream.name else base
        yield f"upstream    {mount}  →  {Redactor(None).url(upstream.url)}"


def _export_lines(
    interception: "Interception", base: str, certificates: Mapping[str, str], *, is_private: bool
) -> list[str]:
    """Return the `export` lines; they hold the password only if the output is private."""
    from wiretape.recorder.relay import environment

    if PROXY_PASSWORD in os.environ:
        url = interception.proxy_url(base, f"${PROXY_PASSWORD}")
    elif is_private:
        url = interception.proxy_url(base)
    else:
        return [f"wiretape: the proxy's password is shown on a terminal only: set {PROXY_PASSWORD} to one of your own"]
    return ["for programs with a URL of their own, in their shell:", *environment.exports(url, certificates)]


def _pointing_lines(base: str, upstreams: Sequence[providers.Upstream], most: int) -> Iterator[str]:
    """Yield a line to be copied for each upstream, that points its SDK there; a server of one's own speaks OpenAI's."""
    for upstream in upstreams[:most]:
        variables = providers.api_variables(upstream) or apis.BY_NAME["openai"].variables
        paths = [(variable.name, variable.path) for variable in variables if variable.path is not None]
        yield (f"export {paths[0][0]}={providers.sdk_base(base, upstream, paths[0][1])}" if paths else base)
    if len(upstreams) > most:
        yield f"and {len(upstreams) - most} more: -v lists them"


async def _paint(screen: "Screen", recorder: "Recorder") -> None:
    import asyncio

    while screen.live:
        counts = recorder.counts
        screen.status(
            f"{recorder.live} live · {counts.recorded} recorded · {counts.failed} failed · "
            f"write lag {recorder.lag_ns() / 1e6:.0f} ms · dropped {counted(counts.dropped_bytes, 'byte')}"
        )
        await asyncio.sleep(0.25)


def _print_end(screen: "Screen", recorder: "Recorder", unstored: int, faults: int, tape: Path, tally: "Tally") -> int:
    from wiretape.recorder.commands import cli, status

    screen.status("")
    totals = recorder.totals()
    for problem in totals.problems:
        screen.report(problem)
    if totals.unmeasured:
        screen.report(status.unmeasured(totals.unmeasured, totals.recorded, options.naming(tape)))
    lost = {"byte": totals.missing_bytes, "frame": unstored, "exchange": totals.missing_exchanges + faults}
    missing = ", ".join(counted(count, thing) for thing, count in lost.items())
    deleted = recorder.counts.deleted
    too_old = f"{counted(deleted, 'old exchange')} deleted, " if deleted else ""
    summary = status.summary(totals, tally, owners=lambda ids: cli.stall_owners(tape, ids))
    screen.line(f"{summary} · {too_old}not stored: {missing}")
    screen.close()
    return 1 if any(lost.values()) or totals.problems else 0
