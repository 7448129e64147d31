"""The command `wiretape run -- CMD`: records one command."""

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from recorder.commands import nested, options, provenance
from recorder.plurals import counted
from recorder.relay import apis, pointing, providers
from recorder.relay.pointing import Plan
from recorder.sanitize import safe

if TYPE_CHECKING:
    import subprocess

    from recorder.relay.service import Options, Recorder
    from recorder.tape.journal import Finished

TAPE_FAILED, NOT_EXECUTABLE, NOT_FOUND = 125, 126, 127
"""Exit codes as `env` and `timeout` have them."""
_OF_TERMINALS = (signal.SIGINT, signal.SIGQUIT)
_FORWARDED = (*_OF_TERMINALS, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@options.recording(options.intercepting_by_default)
@click.argument("command", nargs=-1, type=click.UNPROCESSED, required=True)
def run(common: options.Recording, command: tuple[str, ...]) -> None:
    """Record one command: wiretape run [OPTIONS] -- CMD …

    The command runs behind a forward proxy, which records requests to the hosts of known APIs and to each --host:
    HTTPS_PROXY, HTTP_PROXY and the variables that name certificates are set for it (see "wiretape help intercept").
    Base URLs stay as they are, so that it behaves as without wiretape. A host that one of them names is recorded, too;
    where that speaks plain HTTP, such as a local model, the variable is pointed at the recorder.

    With --base-url there is no proxy: for programs that trust no other certificates, it sets the variables from which
    programs read base URLs, such as OPENAI_BASE_URL (see "wiretape help upstreams"). So do the upstreams of --upstream
    without it.

    Labels each exchange with the name of the command (argv0) and of the working directory (cwd), and with the short git
    commit that is checked out there (commit; no file is compared with it); --label wins.

    Within another "wiretape run" it only runs the command, which is recorded already, and other options have no
    effect; unless --db names another tape (then both get it, if neither intercepts), --upstream another API, or only
    this one has --intercept.

    Exits with the command's own code; 125 if the tape failed before, or lacks something where that code is 0; 126 and
    127 if the command cannot be run or is not found.
    """
    environ: Mapping[str, str] = os.environ
    if marker := nested.read(environ):
        if marker.is_alive and not _asks_for_more(common, marker):
            _report(f"recorded already, by pid {marker.pid} on {marker.tape}: only runs the command")
            sys.exit(_become(command))
        environ = environ if marker.is_alive and not common.intercepts else _without(environ, marker)
    for serving in _recorders_in(environ, common.tape):
        environ = nested.resolved(environ, *serving)
    plan = make_plan(common, environ, command)

    from recorder.errors import WiretapeError
    from recorder.relay import loop

    labels = provenance.labels(command[0], Path.cwd())
    settings = common.settings(plan.upstreams, labels, purpose="wiretape run")
    try:
        code = loop.run(lambda: _run(settings, plan, environ, command))
    except WiretapeError as error:
        _report(str(error))
        code = TAPE_FAILED
    sys.exit(code)


def make_plan(common: options.Recording, environ: Mapping[str, str], command: Sequence[str]) -> Plan:
    """Return the upstreams and variables for a command, by the options, else by its environment."""
    given = options.read_upstreams(common.upstreams) if common.upstreams else ()
    if common.intercepts:
        return pointing.plan(given, environ, command)
    try:
        return pointing.plan_base_urls(given, environ, command)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def _asks_for_more(common: options.Recording, marker: nested.Marker) -> bool:
    """Return whether the command line asks for another tape or upstream than those of the recorder around it."""
    source = click.get_current_context().get_parameter_source
    is_other_tape = source("db") is ParameterSource.COMMANDLINE and str(common.tape.resolve()) != marker.tape
    is_more = bool(common.intercept) and not marker.intercepts
    return is_other_tape or is_more or source("upstreams") is ParameterSource.COMMANDLINE


def _recorders_in(environ: Mapping[str, str], tape: Path) -> "list[tuple[str, list[providers.Upstream]]]":
    """Return where the tape's running recorders listen, and their upstreams, if the environment may point at one."""
    if not any("://127.0.0.1:" in environ.get(name, "") for name in apis.BY_VARIABLE):
        return []  # without a look at the tape, which takes a while
    from recorder.commands.env import recorders
    from recorder.errors import WiretapeError

    try:
        return recorders(tape)
    except (WiretapeError, OSError):  # what is wrong with the tape is said when it is opened
        return []


def _without(environ: Mapping[str, str], marker: nested.Marker) -> dict[str, str]:
    try:
        return nested.without(environ, marker)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def _become(command: Sequence[str]) -> int:
    """Replace this process by the command; return an exit code if that fails."""
    try:
        os.execvp(command[0], list(command))
    except OSError as error:
        return _not_started(command, error)


def _not_started(command: Sequence[str], error: OSError) -> int:
    if isinstance(error, FileNotFoundError):
        _report(f"{command[0]}: command not found")
        return NOT_FOUND
    _report(f"{command[0]} cannot be run ({error.strerror})")
    return NOT_EXECUTABLE


async def _run(settings: "Options", plan: Plan, environ: Mapping[str, str], command: Sequence[str]) -> int:
    from recorder.commands import explain
    from recorder.relay.service import Observer, Recorder

    attempt = explain.Attempt(plan, settings.interception is not None)
    finished: list[Finished] = []
    troubles: list[str] = []

    def trouble(message: str) -> None:
        troubles.append(message)
        _report(f"storing: {message or 'works again'}")

    observer = Observer(
        finished=finished.append,
        trouble=trouble,
        failed=_report,
        refused=attempt.refused.append,
        asked=attempt.asked.__setitem__,
        notice=_report,
    )
    recorder = Recorder(settings, observer)
    await recorder.start()
    if plan.is_given and plan.unreached:
        _report(f"no variable is for {', '.join(plan.unreached)}: point the program at it, at {recorder.base}")
    try:
        marked = nested.mark(recorder.base, settings.tape, plan, intercepts=settings.interception is not None)
        with _environment(settings, plan, environ, recorder.base) as environment:
            code = await _child(command, {**environment, **marked}, recorder.cut)
    finally:
        unstored = await recorder.stop()
    _summarise(recorder, finished, unstored, next((text for text in troubles if text), ""), settings.tape)
    if (proxy := proxy_not_used(environ)) and any(one.outcome == "connect_error" for one in finished):
        _report(f"{proxy} is set, but wiretape itself connects to APIs directly, not through that proxy")
    if not recorder.totals().recorded and code not in (NOT_EXECUTABLE, NOT_FOUND):
        attempt.connections = recorder.accepted
        for line in explain.explain(attempt, command):
            _report(line)
    is_whole = recorder.totals().is_whole and not unstored
    return code if code or is_whole else TAPE_FAILED


def _report(message: str) -> None:
    click.echo(f"wiretape: {safe(message)}", err=True)


@contextlib.contextmanager
def _environment(settings: "Options", plan: Plan, environ: Mapping[str, str], base: str) -> Iterator[Mapping[str, str]]:
    """Yield a command's environment; what it names exists until the end."""
    if settings.interception is None:
        yield {**environ, **plan.values(base), **past_proxies(environ)}
        return
    from recorder.relay import environment

    for remark in environment.remarks(environ):
        _report(remark)
    if environ.get(environment.JAVA):
        plan.left[environment.JAVA] = "it is set: Java needs -Dhttps.proxyHost and -Djavax.net.ssl.trustStore in it"
    own = settings.interception.authority.certificate
    with environment.certificate_files(own, environ, settings.ca_file) as certificates:
        proxied = environment.proxied(environ, settings.interception.proxy_url(base), certificates)
        yield {**proxied, **plan.values(base)}


def past_proxies(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with which SDKs call wiretape directly although a proxy is set."""
    if not any(name.lower() in ("http_proxy", "all_proxy") for name in environ):
        return {}
    excluded = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    past = excluded if excluded.strip() == "*" else f"{excluded},127.0.0.1".lstrip(",")
    return {"NO_PROXY": past, "no_proxy": past}


def proxy_not_used(environ: Mapping[str, str]) -> str:
    """Return the variable that names a proxy for calls of APIs, by which wiretape does not go; "" if there is none."""
    return next((name for name in environ if environ[name] and name.lower() in ("https_proxy", "all_proxy")), "")


async def _child(command: Sequence[str], environment: Mapping[str, str], cut: Callable[[], None]) -> int:
    """Run the command with our own standard streams; return its exit code, or 128 + N if signal N ended it.

    After its end, signals call `cut`.
    """
    import asyncio
    import subprocess

    try:
        # Not by asyncio: on uvloop, the command would no longer ignore what we were started to ignore, as by nohup.
        child = subprocess.Popen(command, env=environment, close_fds=False)  # noqa: ASYNC220 - nothing else runs yet
    except OSError as error:
        return _not_started(command, error)
    _forward_signals(child, cut)
    code = await asyncio.to_thread(child.wait)
    return code if code >= 0 else 128 - code


def _forward_signals(child: "subprocess.Popen[bytes]", cut: Callable[[], None]) -> None:
    """Pass signals on. Those that a terminal sends, it sends to the child as well: these we only have to survive."""
    import asyncio

    def forward(number: int) -> None:
        if child.returncode is not None:
            cut()
        elif number not in _OF_TERMINALS or not _is_in_foreground():
            child.send_signal(number)

    for number in _FORWARDED:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
            asyncio.get_running_loop().add_signal_handler(number, forward, number)


def _is_in_foreground() -> bool:
    """Return whether the keys of a terminal send signals to this process and its children."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:  # there is none
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:  # it has been closed
        return False
    finally:
        os.close(terminal)


def _summarise(recorder: "Recorder", finished: Sequence["Finished"], unstored: int, trouble: str, tape: Path) -> None:
    from recorder.commands import status

    totals = recorder.totals()
    parts = [counted(totals.recorded, "exchange"), f"{totals.failed} failed"]
    parts += status.latencies(finished)
    for problem in totals.problems:
        _report(problem)
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
