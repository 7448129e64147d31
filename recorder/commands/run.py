"""The command `wiretape run -- CMD`: records one command, and notes its program, directory and commit."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from wiretape.recorder import paths
from wiretape.recorder.commands import daemons, job, nested, options
from wiretape.recorder.plurals import counted
from wiretape.recorder.relay import apis, pointing, providers
from wiretape.recorder.relay.pointing import PointingPlan
from wiretape.recorder.tape import redact

if TYPE_CHECKING:
    import asyncio
    import socket

    from wiretape.recorder.commands import explain
    from wiretape.recorder.commands.status import TimedTally
    from wiretape.recorder.relay.service import Observer, Recorder, RecorderOptions


TAPE_FAILED, NOT_EXECUTABLE, NOT_FOUND = 125, 126, 127
"""Exit codes as `env` and `timeout` have them."""
_PROVENANCE_CHARACTERS = 256
"""Limit of each name of `provenance`."""


_REPLAY = "wiretape.viewer.wings.replay.run_command:run"
"""The command in the place of this one with --replay, which has other options."""


class RunCommand(click.Command):
    """The command `run`, which leaves a command line with --replay to another one."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Parse the arguments, by the command that they are for."""
        if not any(argument.partition("=")[0] == "--replay" for argument in args):
            return super().make_context(info_name, args, parent, **extra)
        module, _, attribute = _REPLAY.partition(":")
        replay: click.Command = getattr(import_module(module), attribute)
        if "--replay" not in _own_options(args, [*self.params, *replay.params]):  # it is the program's
            return super().make_context(info_name, args, parent, **extra)
        try:
            return replay.make_context(info_name, args, parent, **extra)
        except click.NoSuchOption as error:
            if any(error.option_name in (*param.opts, *param.secondary_opts) for param in self.params):
                message = f"{error.option_name} is for recording: leave it out, as --replay records nothing"
                raise click.UsageError(message, error.ctx) from error
            raise


def _own_options(arguments: Sequence[str], params: Sequence[click.Parameter]) -> set[str]:
    """Return the options before a command line's program."""
    takes_value = {
        name: isinstance(param, click.Option) and not (param.is_flag or param.count)
        for param in params
        for name in (*param.opts, *param.secondary_opts)
    }
    names, words = set[str](), iter(arguments)
    for word in words:
        if not word.startswith("-") or word == "--":
            break
        name, equals, _ = word.partition("=")
        names.add(name)
        if takes_value.get(name) and not equals:
            next(words, None)
    return names


@click.command(cls=RunCommand, context_settings={"allow_interspersed_args": False})
@click.option(
    "--replay",
    type=options.TapeFile(),
    metavar="TAPE",
    expose_value=False,
    help="Answer from a tape instead: nothing is recorded, no API and no other host is reached. It has options "
    "of its own: wiretape run --replay TAPE --help.",
)
@options.recording(options.intercepting_by_default)
@click.argument("command", nargs=-1, type=click.UNPROCESSED, required=True)
def run(common: options.RecordingValues, command: tuple[str, ...]) -> None:
    """Record one command: wiretape run [OPTIONS] -- CMD …

    The command runs behind a forward proxy, which records requests to the hosts of known APIs and to each --host:
    HTTPS_PROXY, HTTP_PROXY and the variables that name certificates are set for it (see "wiretape help intercept").
    Base URLs do not change, so that the command behaves as without wiretape. The hosts of these URLs are recorded, too;
    if one speaks plain HTTP, such as a local model, its variable is pointed at the recorder.

    With --base-url there is no proxy, for programs that trust no other certificates: the variables from which programs
    read base URLs, such as OPENAI_BASE_URL, point at the recorder (see "wiretape help upstreams"). --upstream alone has
    the same effect.

    Each exchange gets as labels the names of the command (argv0) and of the working directory (cwd), and the short git
    commit that is checked out there (commit; no file is compared with it); --label has precedence.

    A proxy that HTTPS_PROXY, HTTP_PROXY or ALL_PROXY names is used for everything that wiretape passes on, but for the
    hosts in NO_PROXY.

    Within another "wiretape run" it only runs the command, which is recorded already, and ignores other options; unless
    --db names another tape (then both tapes get it, unless only the inner one intercepts), --upstream another API, or
    only the inner one has --intercept.

    It exits with the command's own code, or of the signal that ended the command; 125 if the tape failed before, or
    lacks data and that code is 0; 126 and 127 if the command cannot be run or is not found. Signals are passed on. If
    it is killed (SIGKILL), so is the command, and what that started gets SIGTERM, unless it is a daemon (on Linux).
    """
    if not command[0]:  # a shell's variable that is not set
        sys.exit(_not_started(command, FileNotFoundError()))
    environ: Mapping[str, str] = os.environ
    if marker := nested.read(environ):
        if marker.is_alive and not _asks_for_more(common, marker):
            treatment = "answered" if marker.replays else "recorded already,"
            place = "from" if marker.replays else "on"
            _report(f"{treatment} by pid {marker.pid} {place} {marker.tape}: only runs the command")
            sys.exit(_become(command))
        is_used = marker.is_alive and (marker.intercepts or not common.intercepts)  # as a proxy, or by a base URL
        environ = environ if is_used else without(environ, marker)
    for serving in _recorders_in(environ, common.tape):
        environ = nested.resolved(environ, *serving)
    plan = make_plan(common, environ, command)

    from wiretape.recorder.errors import WiretapeError

    labels = provenance(command[0], paths.current_directory())
    alone = without_daemon(command, environ)
    settings = common.settings(plan.upstreams, labels, environ, purpose="wiretape run")
    launched = Launched(settings, plan, environ, alone)
    try:
        code = launch(launched, lambda line, session: _record(launched, line, session))
    except WiretapeError as error:
        _report(str(error))
        code = TAPE_FAILED
    except KeyboardInterrupt:  # before the command has started
        code = -signal.SIGINT
    job.end(code)


def make_plan(common: options.RecordingValues, environ: Mapping[str, str], command: Sequence[str]) -> PointingPlan:
    """Return the upstreams and variables for a command, by the options, else by its environment."""
    upstreams = options.read_upstreams(common.upstreams) if common.upstreams else ()
    if common.intercepts:
        return pointing.plan(upstreams, environ, command)
    try:
        return pointing.plan_base_urls(upstreams, environ, command)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def _asks_for_more(common: options.RecordingValues, marker: nested.OuterRecorder) -> bool:
    """Return True if the command line asks for another tape or upstream than those of the recorder around it."""
    source = click.get_current_context().get_parameter_source
    is_other_tape = source("db") is ParameterSource.COMMANDLINE and paths.text(paths.real(common.tape)) != marker.tape
    is_more = bool(common.intercept) and not marker.intercepts
    return is_other_tape or is_more or source("upstreams") is ParameterSource.COMMANDLINE


def _recorders_in(environ: Mapping[str, str], tape: Path) -> "list[tuple[str, list[providers.Upstream]]]":
    """Return base URL and upstreams of the tape's running recorders, if the environment may point at one."""
    if not any("://127.0.0.1:" in environ.get(name, "") for name in apis.BY_VARIABLE):
        return []  # without opening the tape, which takes a while
    from wiretape.recorder.commands.env import recorders
    from wiretape.recorder.errors import WiretapeError

    try:
        return recorders(tape)
    except (WiretapeError, OSError):  # errors of the tape are reported when it is opened
        return []


def without_daemon(command: Sequence[str], environ: Mapping[str, str]) -> Sequence[str]:
    """Return a command with the option by which its program does without a daemon, and report that."""
    alone = daemons.without(command, environ)
    if len(alone) > len(command):
        _report(f"{alone[0]} is started with {alone[1]}: its daemon would go past this run, or outlive it")
    return alone


def without(environ: Mapping[str, str], marker: nested.OuterRecorder) -> dict[str, str]:
    """Return the environment without an outer recorder. Raise `click.UsageError` if a variable's URL is lost."""
    try:
        return nested.without(environ, marker)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def _become(command: Sequence[str]) -> int:
    """Replace this process by the command; return an exit code if that fails."""
    try:
        try:
            os.execvp(command[0], list(command))
        except OSError as error:
            script = job.as_script(command, error)
            os.execv(script[0], list(script))
    except OSError as error:
        return _not_started(command, error)


def _not_started(command: Sequence[str], error: OSError) -> int:
    if isinstance(error, FileNotFoundError):
        _report(f"{command[0] or repr('')}: command not found")
        return NOT_FOUND
    _report(f"{command[0]} cannot be run ({error.strerror})")
    return NOT_EXECUTABLE


@dataclass(frozen=True, slots=True)
class Launched:
    """A command to be run: the recorder's settings, its upstreams and variables, the environment.

    `variables` returns further ones for a recorder at a base URL; `replays`: nothing is recorded.
    """

    settings: "RecorderOptions"
    plan: PointingPlan
    environ: Mapping[str, str]
    command: Sequence[str]
    variables: Callable[[str], Mapping[str, str]] = lambda _: {}
    replays: bool = False


def launch(launched: Launched, serve: "Callable[[socket.socket, int], Coroutine[None, None, int]]") -> int:
    """Run a command; return its exit code, or -N if signal N ended it.

    `serve` runs in a process of its own, until the line to this one says that the command has ended; it gets that line
    and the session of this process, and returns an exit code.
    """
    from wiretape.recorder.relay import environment, loop

    settings, plan, environ, command = launched.settings, launched.plan, launched.environ, launched.command
    files: AbstractContextManager[Mapping[str, str]] = contextlib.nullcontext({})
    if settings.interception is not None:  # before the recorder, which reports it, and trusts what was read here
        for remark in environment.remarks(environ, command):
            _report(remark)
        if environment.has_java_proxy(environ.get(environment.JAVA, "")):
            plan.left[environment.JAVA] = "it names a proxy, by which Java goes"
        command = environment.with_read_permission(command)
        certificate = settings.interception.authority.certificate
        files = environment.certificate_files(certificate, environ, settings.ca_file, command)
    session = os.getsid(0)
    recording = job.record(lambda line: loop.run(lambda: serve(line, session)))
    with files as certificates:  # written while the recorder starts
        excluded = _excluded(settings, plan, environ, command)
        base, _, with_loopback = recording.base().partition(" ")
        if not base:  # it has printed the reason
            return recording.wait()
        mark = launch_mark(recording.pid, base, launched)
        watch = daemons.DaemonWatch(mark, recording.pid)
        excluded = () if with_loopback else excluded
        variables = _environment(settings, plan, environ, base, command, certificates, excluded)
        variables = {**variables, **launched.variables(base)}
        with job.Job(command, {**variables, **dict([mark.split("=", 1)])}, watch.look) as program:
            try:
                code = program.run()
                end = f"{' '.join(map(str, (code, *watch.pids)))}\n".encode()
                recording.send(end + job.HURRY * program.is_terminated)
            except OSError as error:
                code = _not_started(command, error)
                recording.leave()
            status = program.finish(recording)
        for line in daemons.left_behind(mark):
            _report(line)
    if status < 0:
        _report(f"signal {-status} has ended the recorder: nothing after it is stored")
    return code or (status and TAPE_FAILED)


def launch_mark(pid: int, base: str, launched: Launched) -> str:
    """Return the definition of the variable by which a recorder's programs are known."""
    settings = launched.settings
    intercepts = settings.interception is not None
    marked = nested.mark(pid, base, settings.tape, launched.plan, intercepts=intercepts, replays=launched.replays)
    return "=".join(*marked.items())


async def _record(launched: Launched, line: "socket.socket", session: int) -> int:
    """Record until the launcher reports the command's end, or closes the line; return 0, or another code for losses.

    `session` is the launcher's, which a command is in unless it is a daemon.
    """
    from wiretape.recorder.commands import explain
    from wiretape.recorder.commands.status import TimedTally
    from wiretape.recorder.errors import WiretapeError
    from wiretape.recorder.relay.service import Recorder

    settings, plan = launched.settings, launched.plan
    attempt = explain.RecordedCommand(plan, settings.interception is not None)
    tally = TimedTally()
    troubles: list[str] = []
    try:
        recorder = Recorder(settings, _observer(attempt, tally, troubles))
        await recorder.start()
    except WiretapeError as error:
        _report(str(error))
        return TAPE_FAILED
    if plan.is_given and plan.unreached:
        _report(f"no variable is for {', '.join(plan.unreached)}: point the program at it, at {recorder.base}")
    try:

        def obey(order: bytes) -> None:
            (recorder.hurry if order == job.HURRY else recorder.cut)()

        values = await wait_for_command(line, recorder.base, obey)
        if not values:  # there was no command, or the launching process was killed
            daemons.end(launch_mark(os.getpid(), recorder.base, launched), session, _report)
    finally:
        unstored = await recorder.stop()
    if not values:
        return 0
    _print_end(recorder, tally, unstored, next((text for text in troubles if text), ""), settings.tape)
    if not recorder.totals().recorded:
        attempt.connections = recorder.accepted
        attempt.daemons = {pid: daemons.described(pid) for pid in {*values[1:], *daemons.listening(attempt.asked)}}
        naming = options.naming(settings.tape)  # so that another attempt is recorded to the same tape
        for text in explain.explain(attempt, launched.command):
            _report(re.sub(r"\bwiretape (?:run|record)\b(?=,| -)", lambda match: f"{match[0]}{naming}", text))
    return 0 if recorder.totals().is_whole and not unstored else TAPE_FAILED


def _observer(attempt: "explain.RecordedCommand", tally: "TimedTally", troubles: list[str]) -> "Observer":
    """Return an observer that reports events, and adds them to an attempt, a tally and a list."""
    from wiretape.recorder.relay.service import Observer

    def trouble(message: str) -> None:
        troubles.append(message)
        _report(f"storing: {message or 'works again'}")

    return Observer(
        finished=tally.add,
        trouble=trouble,
        failed=_report,
        refused=attempt.refused.append,
        asked=attempt.asked.__setitem__,
        notice=_report,
    )


async def wait_for_command(line: "socket.socket", ready: str, obey: Callable[[bytes], None]) -> list[int]:
    """Send the base URL, after which the command may start; return its exit code and the daemons that it called.

    A word behind the base URL has the command ask the proxy for this machine, too. The list is empty if no command was
    started, or the launcher is gone. Further lines are orders to hurry or to cut.
    """
    import asyncio

    reader, writer = await asyncio.open_unix_connection(sock=line)
    writer.write(f"{ready}\n".encode())
    values = [int(word) for word in (await reader.readline()).split()]

    async def read_orders() -> None:
        while order := await reader.readline():
            obey(order)

    _TASKS.add(asyncio.create_task(read_orders()))
    return values


_TASKS = set["asyncio.Task[None]"]()
"""Tasks that read the lines to a recorder while it stops."""


def _report(message: str) -> None:
    click.echo(redact.message(message), err=True)


def _excluded(
    settings: "RecorderOptions", plan: PointingPlan, environ: Mapping[str, str], command: Sequence[str]
) -> Sequence[str]:
    """Return the hosts past the proxy: this machine's, unless an API of it may be called."""
    if settings.interception is None:
        return ()
    from wiretape.recorder.commands import local_apis

    is_called = local_apis.are_called(plan, settings.interception.hosts, environ, command)
    return () if is_called else local_apis.EXCLUDED


def _environment(
    settings: "RecorderOptions",
    plan: PointingPlan,
    environ: Mapping[str, str],
    base: str,
    command: Sequence[str],
    certificates: Mapping[str, str],
    excluded: Sequence[str],
) -> Mapping[str, str]:
    if settings.interception is None:
        return {**environ, **plan.values(base), **past_proxies(environ)}
    from wiretape.recorder.relay import environment

    url = settings.interception.proxy_url(base)
    return {**environment.proxied(environ, url, certificates, command, excluded), **plan.values(base)}


def past_proxies(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that make SDKs call wiretape directly although a proxy is set."""
    if not any(name.lower() in ("http_proxy", "all_proxy") for name in environ):
        return {}
    excluded = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    past = excluded if excluded.strip() == "*" else f"{excluded},127.0.0.1".lstrip(",")
    return {"NO_PROXY": past, "no_proxy": past}


def _print_end(recorder: "Recorder", tally: "TimedTally", unstored: int, trouble: str, tape: Path) -> None:
    from wiretape.recorder.commands import cli, status

    totals = recorder.totals()
    parts = [status.summary(totals, tally, lambda ids: cli.stall_owners(tape, ids))]
    for problem in totals.problems:
        _report(problem)
    if totals.unmeasured:
        _report(status.unmeasured(totals.unmeasured, totals.recorded, options.naming(tape)))
    if unstored or not totals.is_whole:
        lost = ", ".join(
            (
                counted(totals.missing_bytes, "byte"),
                counted(unstored, "frame"),
                counted(totals.missing_exchanges, "exchange"),
            )
        )
        parts.append(f"NOT STORED: {lost} {trouble}")
    look = f"  →  wiretape ls{options.naming(tape)} -n {totals.recorded}" if totals.recorded else ""
    _report(f"{', '.join(parts)}{look}")


def provenance(program: str, directory: Path | None) -> dict[str, str]:
    """Return `argv0`, `cwd` and `commit`: names only, never a command's arguments.

    A name that is empty or not printable is left out, and so is an unknown commit, or a directory that was removed.
    """
    names = {"argv0": PurePath(program).name}
    if directory is not None:
        names |= {"cwd": directory.name, "commit": _checked_out(directory)}
    return {key: value[:_PROVENANCE_CHARACTERS] for key, value in names.items() if value and value.isprintable()}


_GIT_COMMAND = ("git", "--no-pager", "-c", "safe.bareRepository=explicit", "-c", "core.fsmonitor=false",
           "-c", f"core.hooksPath={os.devnull}", "rev-parse", "--verify", "--short", "HEAD")  # fmt: skip
_GIT_ENV = {"GIT_ALLOW_PROTOCOL": "", "GIT_NO_LAZY_FETCH": "1", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
_COMMIT_HASH = re.compile(r"[0-9a-f]{4,64}")


def _checked_out(directory: Path) -> str:
    """Return the short hash of the commit that is checked out; "" if it is unknown.

    The directory may be anybody's, and its settings can name programs for git to run: filters, hooks, transports. So
    git only resolves a name. It compares no files, fetches nothing, and takes no settings from files that merely look
    like a bare repository.
    """
    null, environ = subprocess.DEVNULL, os.environ | _GIT_ENV
    try:
        git = subprocess.Popen(
            _GIT_COMMAND, cwd=directory, env=environ, stdin=null, stdout=subprocess.PIPE, stderr=null
        )
    except OSError:
        return ""
    with git:
        from wiretape.recorder.relay import service  # noqa: F401 - is needed next, and takes longer to load than git

        try:
            answer, _ = git.communicate(timeout=1.0)
        except subprocess.TimeoutExpired:
            git.kill()
            return ""
    commit = answer.decode("ascii", "replace").strip()
    return commit if git.returncode == 0 and _COMMIT_HASH.fullmatch(commit) else ""
