"""The command `wiretape record`."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from recorder import options

if TYPE_CHECKING:
    import asyncio

    from recorder.screen import Screen
    from recorder.service import Options, Recorder


@click.command()
@options.recording
@click.option(
    "--listen",
    default="127.0.0.1:8377",
    show_default=True,
    metavar="HOST:PORT",
    envvar="WIRETAPE_LISTEN",
    help="Where clients call; port 0 takes a free one.",
)
@click.option("--allow-host", "allow_hosts", multiple=True, metavar="NAME",
              help="Another host name by which clients may call; needed to listen beyond loopback.")  # fmt: skip
def record(
    db: Path | None,
    upstreams: tuple[str, ...],
    labels: tuple[str, ...],
    keep_encoding: bool,
    ca_file: Path | None,
    connect_timeout: float,
    headers_timeout: float,
    idle_timeout: float,
    listen: str,
    allow_hosts: tuple[str, ...],
) -> None:
    """Relay streams and record every socket read.

    Prints the base URL for clients as the only line on standard output when it is ready; everything else goes to
    standard error. Ctrl-c drains for up to 10 s, a second one cuts. The exit code is not 0 if anything could not be
    stored.
    """
    allowed = frozenset(host.lower() for host in allow_hosts)
    host, port = options.read_listen(listen, allowed)
    chosen, labelled = options.read_upstreams(upstreams), options.read_labels(labels)

    from recorder.service import Options, run
    from recorder.upstream import Limits

    told = Options(
        tape=options.tape_path(db),
        upstreams=chosen,
        host=host,
        port=port,
        labels=labelled,
        allow_hosts=allowed,
        keep_encoding=keep_encoding,
        limits=Limits(connect_timeout, headers_timeout, idle_timeout),
        ca_file=ca_file,
    )
    sys.exit(run(lambda: _record(told)))


async def _record(told: "Options") -> int:
    import asyncio

    from recorder.clock import SYSTEM
    from recorder.screen import Screen, finished_line
    from recorder.service import Observer, Recorder

    screen = Screen()
    faults: list[str] = []

    def failed(message: str) -> None:
        faults.append(message)
        screen.line(f"wiretape: {message}")

    observer = Observer(
        finished=lambda one: screen.line(finished_line(one, SYSTEM.wall()[11:19] + "Z")),
        trouble=lambda message: screen.line(f"wiretape: storing: {message or 'works again'}"),
        refused=lambda refusal: screen.line(f"wiretape: refused ({refusal.status}): {refusal.message}"),
        failed=failed,
    )
    recorder = Recorder(told, observer)
    stopped = asyncio.Event()
    catch_signals(stopped, recorder)
    await recorder.start()
    _introduce(screen, recorder, told)
    print(recorder.base, flush=True)
    painter = asyncio.create_task(_paint(screen, recorder))
    await stopped.wait()
    if recorder.live:
        screen.line(f"draining {recorder.live} live exchanges (ctrl-c again to cut) …")
    unstored = await recorder.stop()
    painter.cancel()
    return _conclude(screen, recorder, unstored, len(faults))


def catch_signals(stopped: "asyncio.Event", recorder: "Recorder") -> None:
    """Let the first SIGINT, SIGTERM or SIGHUP stop the recorder and the second cut it."""
    import asyncio
    import signal

    def stop() -> None:
        if stopped.is_set():
            recorder.cut()
        stopped.set()

    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
            asyncio.get_running_loop().add_signal_handler(number, stop)


def _introduce(screen: "Screen", recorder: "Recorder", told: "Options") -> None:
    from recorder import __version__, providers
    from recorder.redact import Redactor

    screen.line(f"wiretape {__version__}  tape {told.tape}")
    for upstream in told.upstreams:
        mount = f"{recorder.base}/{upstream.name}" if upstream.name else recorder.base
        screen.line(f"listening   {mount}  →  {Redactor(None).url(upstream.url)}")
    for variable, value in providers.sdk_bases(recorder.base, told.upstreams).items():
        if variable != "OPENAI_API_BASE":
            screen.line(f"point SDKs  export {variable}={value}")
    screen.line(f"look        wiretape view --db {shlex.quote(str(told.tape))}      stop: ctrl-c")
    for warning in recorder.tap.warnings:
        screen.line(f"wiretape: warning: {warning}")
    if told.allow_hosts:
        screen.line("wiretape: warning: other machines that reach this address may relay through it")


async def _paint(screen: "Screen", recorder: "Recorder") -> None:
    import asyncio

    while True:
        screen.status(_status(recorder))
        await asyncio.sleep(0.25)


def _status(recorder: "Recorder") -> str:
    counts = recorder.tap.counts
    return (
        f"{recorder.live} live · {counts.recorded} recorded · {counts.failed} failed · "
        f"write lag {recorder.tap.lag_ns() / 1e6:.0f} ms · dropped {counts.dropped_bytes} bytes"
    )


def _conclude(screen: "Screen", recorder: "Recorder", unstored: int, faults: int) -> int:
    counts = recorder.tap.counts
    said = f"{counts.recorded} exchanges recorded, {counts.failed} failed"
    lost = {"bytes": counts.dropped_bytes, "frames": unstored, "exchanges": counts.unrecorded + faults}
    said += ", not stored: " + ", ".join(f"{count} {what}" for what, count in lost.items())
    screen.line(said)
    screen.close()
    return 1 if any(lost.values()) else 0
