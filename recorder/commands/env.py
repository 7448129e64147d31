"""The command `wiretape env`: variables that point common SDKs at a recorder."""

import contextlib
import shlex
import threading
from pathlib import Path

import click

from wiretape.recorder.clock import SYSTEM
from wiretape.recorder.commands import options
from wiretape.recorder.errors import NotFound, SchemaMissing
from wiretape.recorder.relay import apis, providers
from wiretape.recorder.sanitize import safe


@click.command()
@options.db
@click.option(
    "--upstream",
    "upstreams",
    multiple=True,
    metavar="URL|NAME[=URL]",
    envvar="WIRETAPE_UPSTREAM",
    help="The URL given to record. [default: the running recorder's]",
)
@click.option("--listen", metavar="HOST:PORT", envvar="WIRETAPE_LISTEN",
              help="The address given to record. [default: the running recorder's, else 127.0.0.1:8377]")  # fmt: skip
def env(db: Path | None, upstreams: tuple[str, ...], listen: str | None) -> None:
    """Print shell variables that point SDKs at a running recorder.

    Set them in a shell by: eval "$(wiretape env)".
    """
    serving = None if upstreams or listen else newest_recorder(options.tape_path(db))
    if serving is None:
        host, port = options.read_listen(listen or "127.0.0.1:8377", frozenset(["any"]))
        base, chosen = f"http://{f'[{host}]' if ':' in host else host}:{port}", options.read_upstreams(upstreams)
        if not upstreams and not listen:
            tape = safe(str(options.tape_path(db)))
            click.echo(f"wiretape: no recorder is running on {tape}; these are for 'wiretape record'", err=True)
    else:
        base, chosen = serving
    bases = providers.sdk_bases(base, chosen)
    for variable, value in bases.items():
        click.echo(f"export {variable}={shlex.quote(value)}")
    rejected = [
        (name, program.words) for name in bases for program in apis.PROGRAMS if program.rejects(name, is_set=False)
    ]
    if clashes := [f"{name} for {program}" for name, program in rejected]:
        click.echo(f"wiretape: unset {', '.join(clashes)}: these do not work with it", err=True)
    if not bases:
        served = ", ".join(f"{base}/{upstream.name}" for upstream in chosen)
        click.echo(f"wiretape: no SDK's variable is for these upstreams; their base URLs are {served}", err=True)


def newest_recorder(path: Path) -> tuple[str, list[providers.Upstream]] | None:
    """Return the base URL and upstreams of the newest recorder that runs on the tape; None if there is none."""
    return next(iter(recorders(path)), None)


def recorders(path: Path) -> list[tuple[str, list[providers.Upstream]]]:
    """Return the base URL and upstreams of each recorder that runs on the tape, the newest first."""
    from wiretape.recorder.tape import lock, reader, reading

    until = SYSTEM.now() + 10_000_000_000  # the writer of a recorder that has just started takes a while to load
    while holder := lock.holder(path):
        with contextlib.suppress(NotFound, SchemaMissing), reader.opened(path) as connection:
            if runs := reading.running_recorders(connection):
                return [(run.listen, [providers.make(name, url) for name, url in run.upstreams]) for run in runs]
        if SYSTEM.now() > until or " at http" not in holder:  # no recorder, which may listen before it has a tape
            break
        threading.Event().wait(0.05)
    return []
