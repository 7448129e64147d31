"""The command `serve`: recorded exchanges answered again, as the upstream did."""

import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from wiretape.recorder.commands.options import (
    ca_file,
    db,
    gathered,
    proxy,
    read_labels,
    read_listen,
    read_upstreams,
    tape_path,
    upstream,
)
from wiretape.recorder.latch import heeded
from wiretape.recorder.plurals import counted
from wiretape.recorder.tape.redact import Redactor, message
from wiretape.viewer.commands import masking, options
from wiretape.viewer.timing.playback import Pace

if TYPE_CHECKING:
    import asyncio

    from wiretape.recorder.relay.guard import Refusal
    from wiretape.recorder.tape.journal import Finished
    from wiretape.recorder.tape.losses import Totals
    from wiretape.viewer.query.syntax import Filter
    from wiretape.viewer.wings.replay import cassette, planning
    from wiretape.viewer.wings.replay.serve import Served

_ASKING = {
    "upstreams": "--upstream",
    "record_labels": "--record-label",
    "proxy": "--proxy",
    "ca_file": "--ca-file",
}
_RECORD = ("none", "once", "new", "new_episodes", "all")
_MODES = ("request", "model", "sequence", "random", "id")


def _read_faults(_context: click.Context, _option: click.Parameter, given: tuple[str, ...]) -> list[Any]:
    from wiretape.viewer.wings.replay import faults

    return [options.parsed("--fault", faults.parse, text) for text in given]


def _read_record(_context: click.Context, _option: click.Parameter, given: str) -> str:
    return "new" if given == "new_episodes" else given


def _read_rechunk(_context: click.Context, _option: click.Parameter, given: str) -> str | int:
    from wiretape.viewer.wings.replay.planning import read_rechunk

    return options.parsed("--rechunk", read_rechunk, given)


def _options(
    match: Any, ignored: tuple[str, ...], rechunk: Any, faults: list[Any], seed: int, record: Any, no_redact: bool
) -> "Callable[[Pace], planning.ServingOptions]":

    if record != "none" and match == "id":
        raise click.UsageError("--match id serves only requests that name a recording: leave out --record")
    from wiretape.viewer import config
    from wiretape.viewer.wings.replay.planning import ServingOptions

    rules = config.redaction(is_on=not no_redact)
    return lambda pace: ServingOptions(match, ignored, pace.speed, pace.cap_ns, rechunk, faults, seed, record, rules)


_answered = gathered(
    "answered",
    _options,
    click.option("--match", type=click.Choice(_MODES), default="request", show_default=True,
                 help="Choose the recording for a request: by method, path and body; by model; the next one or any one "
                 "of the same path; or only by id."),
    click.option("--ignore", "ignored", multiple=True, metavar="FIELD",
                 help="Compare JSON bodies without this field: user, metadata.session. May be repeated."),
    click.option("--rechunk", default="recorded", show_default=True, metavar="HOW", callback=_read_rechunk,
                 help="Size of writes: recorded, event (one each), byte, or a number of bytes."),
    click.option("--fault", "faults", multiple=True, metavar="FAULT", callback=_read_faults,
                 help="Break answers: cut@50%, reset@#3 (before event 3), stall:5s@#120, corrupt@#7, slow:3x, "
                 "status:429:0.1 (one in ten). May be repeated."),
    click.option("--seed", type=int, default=0, show_default=True, help="Seed of random faults."),
    click.option("--record", type=click.Choice(_RECORD), default="none", show_default=True, callback=_read_record,
                 help="Requests to send upstream and record: none; once: those without a recording, if the tape is new "
                 "or empty; new (or new_episodes): those without a recording; all."),
    masking.no_redact,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Asked:
    """The options of recording missing answers: the upstream, and the recorder's settings."""

    upstreams: tuple[str, ...]
    record_labels: tuple[str, ...]
    proxy: str | None
    ca_file: Path | None


_asking = gathered(
    "asking",
    _Asked,
    upstream,
    click.option("--record-label", "record_labels", multiple=True, metavar="K=V",
                 help="Label new recordings. May be repeated."),
    proxy,
    ca_file,
)  # fmt: skip


@click.command()
@options.exchange_ids()
@db
@options.filtered
@click.option("--listen", default="127.0.0.1:0", show_default=True, metavar="HOST:PORT",
              help="Address for clients of this machine; port 0 takes a free one.")  # fmt: skip
@click.option("--ready-file", type=click.Path(path_type=Path, dir_okay=False), metavar="PATH",
              help="Write the base URL to this file when it is ready; the file is removed at the end.")  # fmt: skip
@options.paced
@_answered
@_asking
def serve(
    ids: tuple[str, ...],
    db: Path | None,
    where: "Filter | None",
    listen: str,
    ready_file: Path | None,
    pace: Pace,
    answered: "Callable[[Pace], planning.ServingOptions]",
    asking: _Asked,
) -> None:
    """Answer requests from a tape, as the API did.

    Answers have the recorded bytes, reads, timing and failures. When the server is ready, it prints its base URL on
    standard output, and nothing else. Point SDKs there as to a recorder: with or without the provider (/openai/v1),
    with any API key. It serves all exchanges of the tape, or those selected by id or filter, and GET / lists them.
    Several that match a request are served in turn.

    A request without a recording gets a 404 that names the nearest recording and the fields that differ. The header
    X-Wiretape-Exchange, or a path that begins with /@ID/, selects an exchange for any request.

    On a WebSocket, the server waits for each message of the client, and sends the recorded answer; faults count the
    items of show --part events. A message without a recording gets an error and a close frame with the code 1008; a
    WebSocket at a path without recordings is recorded by --record once and new.

    A recording that ended in a timeout stays silent until the client leaves; one that the client or the recorder ended
    is cut there. Standard error gets a line for each answer: the delays of its writes, and the number of writes so
    close to the one before that a client may read both at once. Ctrl-c stops.

    With --record, a request without a recording is passed on to the API, as by 'record', and recorded to the tape,
    which is created if it does not exist. --upstream names the API, as for 'record'; without it the well-known APIs are
    served by name (/openai/v1). New recordings are served to later requests of the same run, too. A recording without
    an answer is requested again; an error that the API answered is served like any other answer. A tape in text stays
    text, and its existing lines do not change. See 'wiretape help cassettes'.
    """
    _check_recording(answers := answered(pace), ids)

    from wiretape.recorder.relay import outward
    from wiretape.recorder.relay.loop import run
    from wiretape.viewer.source.tape.place import TapePlace
    from wiretape.viewer.source.tape.source import condition
    from wiretape.viewer.wings.replay.cassette import CassetteOptions

    host, port = read_listen(listen, frozenset(), "serve answers programs on this one, so listen on 127.0.0.1")
    path = tape_path(db)
    settings = CassetteOptions(
        path,
        answers,
        lambda connection: condition(options.named(TapePlace(path).over(connection), ids, where)),
        host,
        port,
        read_upstreams(asking.upstreams) if answers.record != "none" else (),
        read_labels(asking.record_labels),
        proxies=outward.read(os.environ, asking.proxy) if answers.record != "none" else None,
        ca_file=asking.ca_file,
    )
    sys.exit(run(lambda: _serve(settings, ready_file)))


def _check_recording(answers: "planning.ServingOptions", ids: tuple[str, ...]) -> None:
    """Raise a usage error for options that mean nothing together with --record, or without it."""
    if answers.record != "none":
        if ids:
            raise click.UsageError("--record adds exchanges, which IDs exclude: select by a filter instead")
        return
    context = click.get_current_context()
    for option in _ASKING:
        if context.get_parameter_source(option) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{_ASKING[option]} is for --record once, new or all: add that")


async def _serve(settings: "cassette.CassetteOptions", ready_file: Path | None) -> int:
    import asyncio

    from wiretape.recorder.decode.exchange import NOT_SHIPPED
    from wiretape.viewer.wings.replay.cassette import Cassette, CassetteObserver

    report = _Report()
    observer = CassetteObserver(report.served, report.refused, report.trouble, report.recorded)
    serving = Cassette(settings, observer)
    await serving.start()
    stopped = asyncio.Event()
    _catch_signals(stopped, serving)
    recording = f", recording {settings.answers.record}" if settings.is_recording else ""
    _say(f"serving {counted(len(serving.heads), 'exchange')} of {settings.tape}{recording}; stop: ctrl-c")
    if not serving.heads and not settings.is_recording:
        _say("nothing to serve: the tape has no finished exchange, or none that matches -f FILTER")
    if lacking := sum(not head.has_bytes for head in serving.heads):
        _say(f"{counted(lacking, 'exchange')} of these cannot be served: shipped without --bodies (flag:{NOT_SHIPPED})")
    if math.isinf(settings.answers.speed) and (stalled := sum(head.has_stall for head in serving.heads)):
        _say(f"{counted(stalled, 'exchange')} of these stalled, which is not played: --speed 0 has no waits")
    try:
        with _ready(serving.base, ready_file):
            await stopped.wait()
    finally:
        totals = await serving.stop()
    report.conclude(totals, serving.masked_count)
    return report.code


def _catch_signals(stopped: "asyncio.Event", serving: "cassette.Cassette") -> None:
    """Stop at the first signal, and wait for nothing more at the second."""
    import asyncio
    import signal

    def stop() -> None:
        if stopped.is_set():
            serving.cut()
        stopped.set()

    for number in heeded(signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop)


@contextmanager
def _ready(base: str, file: Path | None) -> Iterator[None]:
    """Print the base URL on standard output, and in a file if one is named. Raises `WiretapeError`."""
    from wiretape.recorder.errors import WiretapeError
    from wiretape.viewer.commands import output

    with output.stdout() as out:
        out.write(f"{base}\n".encode())
    if file is None:
        yield
        return
    part = file.with_name(f"{file.name}.part")
    try:
        part.write_text(f"{base}\n", "utf-8")
        part.replace(file)
    except OSError as error:
        raise WiretapeError(f"{file} cannot be written ({error.strerror}): name another --ready-file") from error
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


class _Report:
    """The log on standard error: a line for each request, and a summary at the end."""

    def __init__(self) -> None:
        from wiretape.viewer.wings.replay.pacing import Lateness

        self._all, self._redactor = Lateness(), Redactor(None)
        self._answered = self._missed = self._recorded = self._failed = self._close = self.code = 0

    def served(self, one: "Served") -> None:
        """Log the end of a request."""
        from wiretape.viewer.wings.replay import pacing

        path = self._redactor.path(one.path)
        if one.head is None or one.miss is not None:
            self._missed += one.miss is not None
            if one.ended not in ("list", "relayed"):
                why = "the client left before it was answered" if one.ended == "client" else one.ended
                _say(f"{one.status or '–'} {one.method} {path}: {one.miss.message if one.miss else why}")
            return
        self._answered += 1
        self._close += one.close
        late = pacing.lateness(one.late)
        self._all.add(late)
        notes = [counted(len(one.sizes), "write"), one.ended, *([str(late)] if late.counts else []), *one.faults]
        notes += [f"{fault} found no such position" for fault in one.unplaced]
        notes += [f"{counted(one.close, 'write')} closer to the one before than recorded"] if one.close else []
        notes += [f"held by the client {counted(len(one.held), 'time')}"] if one.held else []
        notes += [f"{counted(one.missing, 'byte')} not on the tape: cut there"] if one.missing else []
        _say(f"{one.status or '–'} {one.method} {path} → {one.head.id}: {', '.join(notes)}")

    def refused(self, refusal: "Refusal") -> None:
        _say(f"refused ({refusal.status}): {refusal.message}")

    def trouble(self, message: str) -> None:
        """Log an error; the exit code will be 1."""
        self.code = 1
        _say(message)

    def recorded(self, one: "Finished", is_kept: bool) -> None:
        """Log a recorded exchange, and the treatment of a failed one."""
        from wiretape.recorder.clock import SYSTEM
        from wiretape.recorder.commands.status import finished_line
        from wiretape.recorder.decode.exchange import FAILURES
        from wiretape.recorder.local_time import of_day

        self._recorded += 1
        _say(f"recorded {finished_line(one, of_day(SYSTEM.wall()))}")
        if one.outcome not in FAILURES:
            return
        self._failed += 1
        if not is_kept:
            _say(f"{one.id[:8]} failed: the older recording stays, and this one is dropped")
        elif one.status is None:
            _say(f"{one.id[:8]} has no answer: it will be requested again")
        else:
            _say(f"{one.id[:8]} is a failure, and will be served as one: wiretape rm {one.id[:8]}, or --record all")

    def conclude(self, totals: "Totals | None", masked_count: int) -> None:
        """Log the summary of all requests."""
        recorded = ""
        if totals is not None:
            masked = f", {counted(masked_count, 'secret')} masked" if masked_count else ""
            recorded = f", {self._recorded} recorded ({self._failed} failed){masked}"
            for problem in totals.problems:
                self.trouble(problem)
        asked = counted(self._answered, "request")
        late = f"; writes were {self._all}" if self._all.counts else ""
        if self._close:
            late += f"; {counted(self._close, 'write')} so close to the one before that a client may read both at once"
        _say(f"{asked} answered{recorded}, {self._missed} not recorded{late}")


def _say(line: str) -> None:
    click.echo(message(line), err=True)
