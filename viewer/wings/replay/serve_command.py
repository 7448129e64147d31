"""The command `serve`: recorded exchanges answered again, as the upstream did."""

import math
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from wiretape.recorder.children import CONTROL_TOKEN
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
from wiretape.viewer.wings.replay.answering import answering

if TYPE_CHECKING:
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


_recording = gathered(
    "recorded",
    lambda record, no_redact: (record, no_redact),
    click.option("--record", type=click.Choice(["none", "once", "new", "new_episodes", "all"]), default="none",
                 show_default=True,
                 callback=lambda _context, _option, mode: "new" if mode == "new_episodes" else mode,
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
@answering("request")
@_recording
@_asking
def serve(
    ids: tuple[str, ...],
    db: Path | None,
    filter: "Filter | None",
    listen: str,
    ready_file: Path | None,
    answers: "planning.ServingOptions",
    recorded: tuple[Any, bool],
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
    close to the one before that a client may read both at once. Ctrl-c stops. With --control, tests hold, step and
    break streams by requests below /@control: see 'wiretape help replay'.

    With --record, a request without a recording is passed on to the API, as by 'record', and recorded to the tape,
    which is created if it does not exist. --upstream names the API, as for 'record'; without it the well-known APIs are
    served by name (/openai/v1). New recordings are served to later requests of the same run, too. A recording without
    an answer is requested again; an error that the API answered is served like any other answer. A tape in text stays
    text, and its existing lines do not change. See 'wiretape help cassettes'.
    """
    record, no_redact = recorded
    from wiretape.viewer import config

    answers = replace(answers, record=record, redaction=config.redaction(is_on=not no_redact))
    _check_recording(answers, ids)

    from wiretape.recorder.relay import outward
    from wiretape.recorder.relay.loop import run
    from wiretape.viewer.wings.replay.cassette import CassetteOptions

    host, port = read_listen(listen, frozenset(), "serve answers programs on this one, so listen on 127.0.0.1")
    path = tape_path(db)
    settings = CassetteOptions(
        path,
        answers,
        lambda source: options.selection(source, ids, filter),
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
        if answers.mode == "id":
            raise click.UsageError("--match id serves only requests that name a recording: leave out --record")
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
    # The first signal stops, and the second waits for nothing more.
    import asyncio
    import signal

    def stop() -> None:
        if stopped.is_set():
            serving.cut()
        stopped.set()

    for number in heeded(signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    recording = f", recording {settings.answers.record}" if settings.is_recording else ""
    _say(f"serving {counted(len(serving.heads), 'exchange')} of {settings.tape}{recording}; stop: ctrl-c")
    if not serving.heads and not settings.is_recording:
        _say("nothing to serve: the tape has no finished exchange, or none that matches -f FILTER")
    if lacking := sum(not head.has_bytes for head in serving.heads):
        _say(f"{counted(lacking, 'exchange')} of these cannot be served: shipped without --bodies (flag:{NOT_SHIPPED})")
    if math.isinf(settings.answers.speed) and (stalled := sum(head.has_stall for head in serving.heads)):
        _say(f"{counted(stalled, 'exchange')} of these stalled, which is not played: --speed 0 has no waits")
    if settings.answers.token and CONTROL_TOKEN not in os.environ:
        is_private = sys.stderr.isatty()
        shown = (
            f"token of control: {settings.answers.token}"
            if is_private
            else (f"wiretape: the token of control is shown on a terminal only: set {CONTROL_TOKEN} to one of your own")
        )
        print(shown, file=sys.stderr, flush=True)
    try:
        with _ready(serving.base, ready_file):
            await stopped.wait()
    finally:
        totals = await serving.stop()
    report.conclude(totals, serving.masked_count, settings.tape)
    return report.code


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
        from wiretape.viewer.wings.replay.forms import FormCounts
        from wiretape.viewer.wings.replay.pacing import Lateness

        self._all, self._redactor = Lateness(), Redactor(None)
        self._answered = self._missed = self._recorded = self._failed = self._close = self.code = 0
        self._was_asked = False
        self._forms = FormCounts()

    def served(self, request: "Served") -> None:
        """Log the end of a request."""
        from wiretape.viewer.wings.replay import pacing

        self._was_asked = True
        path = self._redactor.path(request.path)
        if request.head is None or request.miss is not None:
            self._missed += request.miss is not None
            if request.ending not in ("list", "relayed"):
                reason = "the client left before it was answered" if request.ending == "client" else request.ending
                reason = ", ".join([request.miss.message if request.miss else reason, *request.faults])
                _say(f"{request.status or '–'} {request.method} {path}: {reason}")
            return
        self._answered += 1
        self._forms.add(request.choice, sum(request.sizes))
        self._close += request.close_count
        late = pacing.lateness(request.late)
        self._all.add(late)
        notes = [
            counted(len(request.sizes), "write"),
            request.ending,
            *([str(late)] if late.counts else []),
            *request.faults,
            *request.choice.names,
            *([request.remark] if request.remark else []),
        ]
        notes += [f"{fault} found no such position" for fault in request.unplaced]
        if request.close_count:
            notes.append(f"{counted(request.close_count, 'write')} closer to the one before than recorded")
        if request.waits:
            notes.append(f"waited for the client {counted(len(request.waits), 'time')}")
        if request.missing:
            notes.append(f"{counted(request.missing, 'byte')} not on the tape: cut there")
        _say(f"{request.status or '–'} {request.method} {path} → {request.head.id}: {', '.join(notes)}")
        if request.match and request.match.notice:
            _say(request.match.notice)

    def refused(self, refusal: "Refusal") -> None:
        self._was_asked = True
        _say(f"refused ({refusal.status}): {refusal.message}")

    def trouble(self, message: str) -> None:
        """Log an error; the exit code will be 1."""
        self.code = 1
        _say(message)

    def recorded(self, exchange: "Finished", is_kept: bool) -> None:
        """Log a recorded exchange, and the treatment of a failed one."""
        from wiretape.recorder.clock import SYSTEM
        from wiretape.recorder.commands.status import finished_line
        from wiretape.recorder.decode.exchange import FAILURES
        from wiretape.recorder.local_time import of_day

        self._recorded += 1
        _say(f"recorded {finished_line(exchange, of_day(SYSTEM.wall()))}")
        if exchange.outcome not in FAILURES:
            return
        self._failed += 1
        if not is_kept:
            _say(f"{exchange.id[:8]} failed: the older recording stays, and this one is dropped")
        elif exchange.status is None:
            _say(f"{exchange.id[:8]} has no answer: it will be requested again")
        else:
            id = exchange.id[:8]
            _say(f"{id} is a failure, and will be served as one: wiretape rm {id}, or --record all")

    def conclude(self, totals: "Totals | None", masked_count: int, tape: Path) -> None:
        """Log the summary of all requests, or the likely reason why none came, with the command that helps."""
        recorded = ""
        if totals is not None:
            masked = f", {counted(masked_count, 'secret')} masked" if masked_count else ""
            recorded = f", {self._recorded} recorded ({self._failed} failed){masked}"
            for problem in totals.problems:
                self.trouble(problem)
        request_count = counted(self._answered, "request")
        late = f"; writes were {self._all}" if self._all.counts else ""
        if self._close:
            late += f"; {counted(self._close, 'write')} so close to the one before that a client may read both at once"
        _say(f"{request_count} answered{recorded}, {self._missed} not recorded{late}")
        for line in self._forms.lines():
            _say(line)
        if not self._was_asked:
            command = f"wiretape run {'--replay' if totals is None else '--db'} {shlex.quote(str(tape))} -- PROGRAM"
            reason = "the program may not heed its base URL, and may have called the API itself"
            _say(f"no request came: {reason}; {command}")


def _say(line: str) -> None:
    click.echo(message(line), err=True)
