"""The command `run --replay`: a program whose requests to APIs are answered from a tape, without a network."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from wiretape.recorder import paths
from wiretape.recorder.children import CONTROL_TOKEN
from wiretape.recorder.commands import daemons, job, nested
from wiretape.recorder.commands.options import TapeFile
from wiretape.recorder.commands.run import (
    TAPE_FAILED,
    Launched,
    launch,
    launch_mark,
    wait_for_command,
    without,
    without_daemon,
)
from wiretape.recorder.plurals import counted
from wiretape.recorder.relay import pointing
from wiretape.recorder.tape.redact import Redactor, message
from wiretape.viewer.commands import options
from wiretape.viewer.wings.replay import testenv
from wiretape.viewer.wings.replay.answering import answering

if TYPE_CHECKING:
    import socket

    from wiretape.recorder.relay.guard import Refusal
    from wiretape.viewer.query.syntax import Filter
    from wiretape.viewer.wings.replay.planning import ServingOptions
    from wiretape.viewer.wings.replay.serve import Served


@dataclass(frozen=True, slots=True)
class Replayed:
    """The options of a replay."""

    tape: Path
    filter: "Filter | None"
    answers: "ServingOptions"
    no_websocket: bool
    open_patterns: Sequence[str]


@click.command("run", context_settings={"allow_interspersed_args": False})
@click.option("--replay", "tape", type=TapeFile(path_type=Path, readable=False), required=True, metavar="TAPE",
              help="The tape that answers.")  # fmt: skip
@options.FILTERS
@answering("last")
@click.option("--host", "hosts", multiple=True, metavar="PATTERN",
              help="Answer requests to this host, too: llm.example.com, *.example.com. May be repeated.")  # fmt: skip
@click.option("--open", "open_patterns", multiple=True, metavar="PATTERN",
              help="Let requests to this host through; '*': to all but those of APIs. May be repeated.")  # fmt: skip
@click.option("--keep-keys", is_flag=True, help="Leave the variables of API keys as they are.")
@click.option("--no-websocket", is_flag=True, help="Answer 426 to WebSockets, so that clients fall back to HTTP.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, required=True)
def run(
    tape: Path,
    filters: tuple[str, ...],
    answers: "ServingOptions",
    hosts: tuple[str, ...],
    open_patterns: tuple[str, ...],
    keep_keys: bool,
    no_websocket: bool,
    command: tuple[str, ...],
) -> None:
    """Run a program that is answered from a tape: wiretape run --replay TAPE [OPTIONS] -- CMD …

    The command runs behind a forward proxy, as by "wiretape run", but nothing is recorded, and no API is reached: what
    it asks of an API's host, of a host that a variable or --host names, or at an API's path on this machine, is
    answered from the tape as by "wiretape serve"; the recorded host need not be that one. Other servers of this machine
    are let through. Any other host is closed: it gets a 403 before its name is looked up, unless --open names it.
    Variables of API keys are replaced by a word that is none.

    A request that the tape lacks gets a 404, and a line on standard error names the nearest recording and the fields
    that differ. By default, a recording with an equal last message answers where earlier messages, the system prompt or
    tools differ, as in another directory (see "wiretape help replay").

    It exits with the command's own code, or of the signal that ended the command; 125 if that is 0 and a generation was
    not on the tape, or if the tape cannot be read; 126 and 127 if the command cannot be run or is not found.
    """
    from wiretape.recorder.errors import WiretapeError
    from wiretape.recorder.relay import intercept
    from wiretape.recorder.relay.service import RecorderOptions

    if not paths.exists(tape):
        _say(f"no tape at {tape}: record one by 'wiretape run --db {tape} -- {command[0]}'")
        job.end(TAPE_FAILED)
    environ: Mapping[str, str] = os.environ
    if marker := nested.read(environ):  # its proxy would reach the API
        environ = without(environ, marker)
    plan = pointing.plan((), environ, command)
    settings = RecorderOptions(tape, plan.upstreams, interception=intercept.make(hosts))
    keys = {} if keep_keys else testenv.placeholders(environ)

    def variables(base: str) -> Mapping[str, str]:
        control = {"WIRETAPE_CONTROL_URL": f"{base}/@control", CONTROL_TOKEN: answers.token} if answers.token else {}
        return keys | control

    launched = Launched(settings, plan, environ, without_daemon(command, environ), variables, replays=True)
    replayed = Replayed(tape, options.read(filters), answers, no_websocket, open_patterns)
    try:
        code = launch(launched, lambda line, session: _serve(launched, replayed, line, session))
    except WiretapeError as error:
        _say(str(error))
        code = TAPE_FAILED
    job.end(code)


async def _serve(launched: Launched, replayed: Replayed, line: "socket.socket", session: int) -> int:
    """Answer until the launcher reports the command's end, or closes the line; return 0, or a code for misses."""
    from wiretape.recorder.errors import WiretapeError
    from wiretape.recorder.tape import cut

    try:
        with cut.opened(replayed.tape) as path:
            return await _answer(launched, replayed, path, line, session)
    except WiretapeError as error:
        _say(str(error))
        return TAPE_FAILED


async def _answer(launched: Launched, replayed: Replayed, path: Path, line: "socket.socket", session: int) -> int:
    from wiretape.recorder.clock import SYSTEM, KernelTime
    from wiretape.recorder.destinations import is_loopback
    from wiretape.recorder.relay import apis, local, outward, server
    from wiretape.recorder.relay.proxy import Proxy
    from wiretape.recorder.relay.tap import Tap
    from wiretape.recorder.relay.upstream import Transport
    from wiretape.recorder.relay.workers import Observer
    from wiretape.recorder.tape import journal
    from wiretape.viewer.source.replayed import ReplaySource
    from wiretape.viewer.wings.replay import matching
    from wiretape.viewer.wings.replay.closed import ClosedForward, ClosedProxies
    from wiretape.viewer.wings.replay.control import Control
    from wiretape.viewer.wings.replay.planning import Planner
    from wiretape.viewer.wings.replay.serve import Replay
    from wiretape.viewer.wings.replay.websocket import Upgrade

    local.raise_descriptor_limit()
    report = _Report(replayed.tape)
    settings, interception = launched.settings, launched.settings.interception
    assert interception is not None  # it answers as a proxy only
    replay = Replay(
        lambda: Planner(
            ReplaySource(path, lambda source: options.selection(source, (), replayed.filter)), replayed.answers
        ),
        upgrade=None if replayed.no_websocket else Upgrade,
        direct=(lambda app: Control(app, replayed.answers.token)) if replayed.answers.token else None,
        hold_seconds=replayed.answers.hold_seconds,
        on_served=report.served,
        on_trouble=_say,
        on_refused=report.refused,
    )
    heads = await replay.start()
    default_urls = {(api.name, api.url) for api in apis.APIS}
    variable_upstreams = [
        upstream for upstream in settings.upstreams if (upstream.name, upstream.url) not in default_urls
    ]
    tape_upstreams = [matching.mounts(url)[0] for url in {head.upstream for head in heads}]
    local_upstreams = [upstream for upstream in tape_upstreams if is_loopback(upstream.host)]
    sock = server.bound("127.0.0.1", 0)
    base, port = server.base_url(sock), sock.getsockname()[1]
    outer = outward.read({**launched.environ, **testenv.bypasses(launched.environ)}).without(port)
    proxies = ClosedProxies(outer.plain, outer.secure, outer.excluded, lambda *place: app.is_open(*place))
    # The proxy only passes on, and records nothing: the tap has no writer.
    tap = Tap(replayed.tape, journal.Session("", "", os.getpid(), "", base, [], SYSTEM.wall()), "")
    app = ClosedForward(
        replay,
        Proxy(
            [*variable_upstreams, *tape_upstreams],
            Transport(proxies=proxies),
            tap,
            on_refused=report.refused,
            on_trouble=_say,
        ),
        interception,
        port,
        mounts=variable_upstreams,
        open_patterns=replayed.open_patterns,
        prefers_http2="h2" in replayed.answers.forms,
        on_closed=report.closed,
        observer=Observer(notice=_say),
    )
    front = server.Server(app, sock, report.refused, kernel_time=KernelTime(SYSTEM))
    replay.warm()
    try:
        # A program asks no proxy for this machine unless a server of it may be on the tape.
        ready = f"{base} loopback" if local_upstreams else base
        values = await wait_for_command(line, ready, lambda _: None)
        if not values:  # there was no command, or the launching process was killed
            daemons.end(launch_mark(os.getpid(), base, launched), session, _say)
            return 0
    finally:
        front.close()
        await replay.stop()
        await front.wait_closed(0)
    return report.conclude(values[1:])


class _Report:
    """The messages on standard error: a line for each request without a recording, and a summary at the end."""

    def __init__(self, tape: Path) -> None:
        from wiretape.viewer.wings.replay.forms import FormCounts

        self._tape, self._redactor = tape, Redactor(None)
        self._steps, self._closed = Counter[str](), Counter[str]()
        self._forms = FormCounts()
        self._missed_count = 0
        self._lacks_generation = self._was_asked = False

    def served(self, request: "Served") -> None:
        """Count a request, and report one that the tape does not answer, or not as recorded."""
        from wiretape.recorder.decode.operation import is_api

        self._was_asked = True
        if request.miss is not None:
            self._missed_count += 1
            is_websocket = request.method == "GET" and is_api(request.path)
            self._lacks_generation |= request.miss.is_generation or is_websocket
            path = self._redactor.path(request.path.partition("?")[0])
            _say(f"{request.status or '–'} {request.method} {path}: {request.miss.message}")
        elif request.match is not None:
            self._steps[request.match.step] += 1
            self._forms.add(request.choice, sum(request.sizes))
            if request.match.notice:
                _say(request.match.notice)

    def closed(self, host: str) -> None:
        """Count a request to a host that is closed."""
        self._closed[host] += 1

    def refused(self, refusal: "Refusal") -> None:
        """Note a request, whose program got the reason of its refusal."""
        self._was_asked = True

    def conclude(self, pids: Sequence[int]) -> int:
        """Print the summary; return the exit code for a program that ended well."""
        steps, answered = self._steps, self._steps.total()
        ways = {
            "equal": steps["equal"] + steps["fields"],
            "by their last message": steps["last"],
            "by their path": steps["path"],
            "by their id": steps["named"],
            **{f"by --match {mode}": steps[mode] for mode in ("model", "sequence", "random")},
        }
        parts = ", ".join(f"{count} {way}" for way, count in ways.items() if count)
        if steps["fields"]:
            parts += f"; {steps['fields']} of the equal ones but for what differs in each run"
        ways_text = f" ({parts})" if parts else ""
        hosts = ", ".join(f"{host} ({count})" for host, count in self._closed.most_common())
        closed = f"; closed: {hosts}" if hosts else ""
        answers = f"{counted(answered, 'request')} answered from {self._tape}{ways_text}"
        _say(f"{answers}, {self._missed_count} not on it{closed}")
        for line in self._forms.lines():
            _say(line)
        if not (self._was_asked or self._closed):
            _say("no request came: the program may not heed its proxy, and may have called the API itself")
        if pids:
            called = ", ".join(map(daemons.described, pids))
            _say(f"called on this machine: {called}, which ran before")
        return TAPE_FAILED if self._lacks_generation else 0


def _say(line: str) -> None:
    click.echo(message(line), err=True)
