"""The command `wiretape run -- CMD`: records one command."""

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from recorder.commands import options
from recorder.plurals import counted
from recorder.relay import providers
from recorder.sanitize import safe

if TYPE_CHECKING:
    import asyncio

    from recorder.relay.service import Options, Recorder
    from recorder.tape.journal import Finished

TAPE_FAILED, NOT_EXECUTABLE, NOT_FOUND = 125, 126, 127
"""Exit codes as `env` and `timeout` have them."""
_SDKS = providers.SDK_VARIABLES.items()
_FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@options.recording
@click.argument("command", nargs=-1, type=click.UNPROCESSED, required=True)
def run(common: options.Recording, command: tuple[str, ...]) -> None:
    """Record one command: wiretape run [OPTIONS] -- CMD …

    Sets OPENAI_BASE_URL, OPENAI_API_BASE and ANTHROPIC_BASE_URL for it; where they are set already, their values are
    the upstreams. Exits with the command's own code; 125 if the tape failed before, or lacks something where that code
    is 0; 126 and 127 if the command cannot be run or is not found.
    """
    upstreams, places = plan(common.upstreams, os.environ)

    from recorder.errors import WiretapeError
    from recorder.relay import service

    settings = common.settings(upstreams, purpose="wiretape run")
    try:
        code = service.run(lambda: _run(settings, places, command))
    except WiretapeError as error:
        _report(str(error))
        code = TAPE_FAILED
    sys.exit(code)


Place = tuple[providers.Upstream, str]
"""Where an SDK finds its API: the upstream, and the path that this SDK expects to be part of its URL."""


def plan(urls: tuple[str, ...], environ: Mapping[str, str]) -> tuple[list[providers.Upstream], dict[str, Place]]:
    """Return the upstreams, given or from the environment, and for each SDK variable that one is for its place."""
    if not urls:
        return _plan_by_environment(environ)
    upstreams = options.read_upstreams(urls)
    by_name = {upstream.name: upstream for upstream in upstreams}
    served = ((variable, by_name.get(name) or by_name.get(""), suffix) for variable, (name, suffix) in _SDKS)
    return upstreams, {variable: (upstream, suffix) for variable, upstream, suffix in served if upstream}


def _plan_by_environment(environ: Mapping[str, str]) -> tuple[list[providers.Upstream], dict[str, Place]]:
    upstreams: dict[str, providers.Upstream] = {}
    places: dict[str, Place] = {}
    openai = environ.get("OPENAI_BASE_URL") or environ.get("OPENAI_API_BASE")
    for variable, (name, suffix) in _SDKS:
        value = environ.get(variable) or (openai if name == "openai" else None)
        if value and name in upstreams and upstreams[name].url != value.rstrip("/"):
            name = variable.lower()
        try:
            upstreams[name] = providers.make(name, value or providers.WELL_KNOWN[name])
        except ValueError as error:
            raise click.UsageError(f"{variable} is set to something else than an API's base URL: {error}") from error
        places[variable] = upstreams[name], "" if value else suffix
    return list(upstreams.values()), places


async def _run(settings: "Options", places: Mapping[str, Place], command: Sequence[str]) -> int:
    from recorder.relay.service import Observer, Recorder

    finished: list[Finished] = []
    troubles: list[str] = []

    def trouble(message: str) -> None:
        troubles.append(message)
        _report(f"storing: {message or 'works again'}")

    recorder = Recorder(settings, Observer(finished=finished.append, trouble=trouble, failed=_report))
    await recorder.start()
    if missed := sorted(set(providers.SDK_VARIABLES) - set(places)):
        _report(f"{', '.join(missed)} not set: none of the upstreams is theirs; they are at {recorder.base}/NAME")
    try:
        variables = {variable: providers.sdk_base(recorder.base, *place) for variable, place in places.items()}
        code = await _child(command, {**os.environ, **variables, **past_proxies(os.environ)})
    finally:
        unstored = await recorder.stop()
    _summarise(recorder, finished, unstored, next((text for text in troubles if text), ""))
    is_whole = recorder.totals().is_whole and not unstored
    return code if code or is_whole else TAPE_FAILED


def _report(message: str) -> None:
    click.echo(f"wiretape: {safe(message)}", err=True)


def past_proxies(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with which SDKs call wiretape directly although a proxy is set."""
    if not any(name.lower() in ("http_proxy", "all_proxy") for name in environ):
        return {}
    excluded = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    past = excluded if excluded.strip() == "*" else f"{excluded},127.0.0.1".lstrip(",")
    return {"NO_PROXY": past, "no_proxy": past}


async def _child(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the command with our own standard streams; return its exit code, or 128 + N if signal N ended it."""
    import asyncio

    try:
        child = await asyncio.create_subprocess_exec(*command, env=environment)
    except FileNotFoundError:
        _report(f"{command[0]}: command not found")
        return NOT_FOUND
    except OSError as error:
        _report(f"{command[0]} cannot be run ({error.strerror})")
        return NOT_EXECUTABLE
    _forward_signals(child)
    code = await child.wait()
    return code if code >= 0 else 128 - code


def _forward_signals(child: "asyncio.subprocess.Process") -> None:
    """Pass signals on. A terminal sends its SIGINT to the child as well, so there we only have to survive it."""
    import asyncio

    loop = asyncio.get_running_loop()

    def forward(number: int) -> None:
        if child.returncode is None:
            child.send_signal(number)

    for number in _FORWARDED:
        loop.add_signal_handler(number, forward, number)
    if sys.stdin is not None and sys.stdin.isatty():
        loop.add_signal_handler(signal.SIGINT, lambda: None)
    else:
        loop.add_signal_handler(signal.SIGINT, forward, signal.SIGINT)


def _summarise(recorder: "Recorder", finished: Sequence["Finished"], unstored: int, trouble: str) -> None:
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
    look = f"  →  wiretape ls -n {totals.recorded}" if totals.recorded else ""
    _report(f"{', '.join(parts)}{look}")
