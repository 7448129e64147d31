"""Options that the recording commands share, and the parsers of their values.

Only click is imported at the top: `--help` must not wait for a database library.
"""

import functools
import inspect
import ipaddress
import os
import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import unquote

import click

from wiretape.recorder import destinations, paths
from wiretape.recorder.children import PROXY_PASSWORD, python
from wiretape.recorder.commands import dialects
from wiretape.recorder.errors import NotFound, WiretapeError

if TYPE_CHECKING:
    from wiretape.recorder.relay import providers
    from wiretape.recorder.relay.service import RecorderOptions

F = TypeVar("F", bound=Callable[..., Any])


def gathered(name: str, make: Callable[..., Any], *options: Callable[[Any], Any]) -> Callable[[F], F]:
    """Return a decorator that adds options; the result of `make` for their values is the argument `name`.

    The parameters of `make` are the options' names.
    """
    parameters = tuple(inspect.signature(make).parameters)

    def decorate(command: F) -> F:
        @functools.wraps(command)
        def wrapped(*args: object, **kwargs: object) -> Any:
            values = {parameter: kwargs.pop(parameter) for parameter in parameters}
            return command(*args, **{name: make(**values)}, **kwargs)

        return cast(F, functools.reduce(lambda added, option: option(added), reversed(options), wrapped))

    return decorate


_AGE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(s|m|h|d|w)")
_AGE_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def read_age(text: str) -> timedelta:
    """Read a length of time with its unit, such as `30d`."""
    match = _AGE.fullmatch(text)
    if match is None or float(match[1]) == 0:
        raise click.BadParameter(f"{text!r} is not an age: use a number and s, m, h, d or w, such as 30d")
    try:
        return timedelta(**{_AGE_UNITS[match[2]]: float(match[1])})
    except OverflowError:
        raise click.BadParameter(f"{text!r} is too long") from None


def check_workers(_context: click.Context, _option: click.Parameter, workers: int) -> int:
    """Refuse several workers where the system does not spread connections over sockets with one port."""
    if workers > 1 and not sys.platform.startswith("linux"):
        raise click.BadParameter("several workers need Linux, which spreads connections over them: use 1")
    return workers


_SIZE = re.compile(r"(\d{1,12}(?:\.\d{1,9})?) ?([kMGT]?)(i?)B", re.IGNORECASE)


def read_size(text: str) -> int:
    """Read a number of bytes with its unit, such as `2GB` or `512MiB`: 1 MB at least, below which no tape is useful."""
    match = _SIZE.fullmatch(text)
    size = 0
    if match is not None:
        size = int(float(match[1]) * (1024 if match[3] else 1000) ** " kmgt".index(match[2].lower() or " "))
    if size < 1_000_000:
        raise click.BadParameter(
            f"{text!r} is not a size of 1MB or more: use a number and a unit, such as 2GB or 500MiB"
        )
    return size


class TapeFile(click.Path):
    """The path of a tape; the URL of a server is refused."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if destinations.names_server(str(value)):
            self.fail("this needs a tape, not a server: 'wiretape pull' copies exchanges to a tape", param, ctx)
        return super().convert(value, param, ctx)


def named_tape(meaning: str) -> Callable[[F], F]:
    """Return the option `--db` with a meaning of its own."""
    return click.option(
        "--db",
        type=TapeFile(path_type=Path, readable=False),
        envvar="WIRETAPE_DB",
        help=f"{meaning} [default: in the user's data directory]",
    )


db = named_tape("The tape.")


def deleting(command: F) -> F:
    """Add the options that every deleting command takes."""
    added = (
        click.option("--dry-run", is_flag=True, help="Only print the number of exchanges to delete."),
        click.option("-y", "--yes", is_flag=True, help="Delete without asking; needed without a terminal."),
        click.option("--vacuum", is_flag=True,
                     help="Then rewrite the tape without deleted data: it shrinks."),
    )  # fmt: skip
    for option in reversed(added):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True)
class RecordingValues:
    """The values of the options that every recording command takes."""

    db: Path | None
    upstreams: tuple[str, ...]
    labels: tuple[str, ...]
    intercept: bool | None
    hosts: tuple[str, ...]
    identity: bool
    no_websocket: bool
    proxy: str | None
    ca_file: Path | None
    client_cert: Path | None
    declared: tuple[Path, ...]
    connect_timeout: float
    headers_timeout: float
    idle_timeout: float

    @property
    def intercepts(self) -> bool:
        """True if the recorder is a forward proxy, too."""
        return self.intercept is not False

    @property
    def tape(self) -> Path:
        return tape_path(self.db)

    def settings(
        self,
        upstreams: "Sequence[providers.Upstream]",
        added: Mapping[str, str] | None = None,
        environ: Mapping[str, str] = os.environ,
        **more: Any,
    ) -> "RecorderOptions":
        """Return the settings of a recorder for these upstreams; `more` are other fields of them.

        Labels that were given win over `added` ones; `environ` names the proxies.
        """
        from concurrent.futures import ThreadPoolExecutor

        from wiretape.recorder.relay import environment, outward

        if self.hosts and not self.intercepts:
            raise click.UsageError("--host is for --intercept: use that")
        with ThreadPoolExecutor(1) as thread:  # OpenSSL reads the system's certificates while modules are imported
            tls = thread.submit(environment.tls_context, self.ca_file, self.client_cert, os.environ)
            from wiretape.recorder.relay import intercept
            from wiretape.recorder.relay.service import RecorderOptions
            from wiretape.recorder.relay.upstream import Timeouts

            return RecorderOptions(
                self.tape,
                upstreams,
                labels={**(added or {}), **read_labels(self.labels)},
                identity=self.identity,
                websocket=not self.no_websocket,
                limits=Timeouts(self.connect_timeout, self.headers_timeout, self.idle_timeout),
                ca_file=self.ca_file,
                client_cert=self.client_cert,
                proxies=outward.read(environ, self.proxy),
                dialects=dialects.read(self.declared),
                interception=intercept.make(self.hosts, _password()) if self.intercepts else None,
                tls=tls.result(),
                **more,
            )


_PASSWORD = re.compile(r"[\w-]{16,}", re.ASCII)


def _password() -> str:
    """Return the forward proxy's password, if the user has chosen one."""
    password = os.environ.get(PROXY_PASSWORD, "")
    if password and not _PASSWORD.fullmatch(password):
        raise click.UsageError(f"{PROXY_PASSWORD} must be 16 or more letters, digits, '-' or '_': it stands in a URL")
    return password


upstream = click.option(
    "--upstream", "upstreams", multiple=True, metavar="URL|NAME[=URL]", envvar="WIRETAPE_UPSTREAM",
    help="API server: one URL is served at the root, named ones at /NAME/…, and a name alone is that of a known API. "
    "May be repeated.",
)  # fmt: skip
proxy = click.option(
    "--proxy", metavar="URL", envvar="WIRETAPE_PROXY",
    help="Reach hosts through this proxy: http:// or socks5://, but not those of NO_PROXY. "
    "[default: as HTTPS_PROXY, HTTP_PROXY and ALL_PROXY say]",
)  # fmt: skip
ca_file = click.option(
    "--ca-file", type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Trust these certificates (PEM) besides the system's.",
)  # fmt: skip
_SECONDS: Any = click.FloatRange(min=0, min_open=True)
_RECORDING = (
    db,
    upstream,
    click.option("--label", "labels", multiple=True, metavar="K=V", help="Label every exchange. May be repeated."),
    click.option("--host", "hosts", multiple=True, metavar="PATTERN",
                 help="Intercept this host, too: llm.example.com, *.example.com. May be repeated."),
    click.option("--identity", is_flag=True,
                 help="Ask upstream for no compression, whatever the client accepts; exchanges are flagged."),
    click.option("--no-websocket", is_flag=True,
                 help="Answer 426 to WebSockets, so that clients fall back to HTTP, instead of recording them."),
    proxy,
    ca_file,
    click.option("--client-cert", type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="FILE",
                 help="Show this certificate, with its key (PEM), to recorded servers that ask for one."),
    dialects.option,
    click.option("--connect-timeout", type=_SECONDS, default=10, show_default=True, metavar="S",
                 help="Timeout of a connection, with TLS, in seconds."),
    click.option("--headers-timeout", type=_SECONDS, default=600, show_default=True, metavar="S",
                 help="Timeout from the request to the response's head, in seconds."),
    click.option("--idle-timeout", type=_SECONDS, default=300, show_default=True, metavar="S",
                 help="Timeout of silence within a response, in seconds. Event streams that a GET opens have none."),
)  # fmt: skip
"""The options that every recording command takes."""


def recording(intercept: Callable[[Any], Any]) -> Callable[[F], F]:
    """Return a decorator that adds the options of a recording command, which gets `common`; one is its own."""
    return gathered("common", RecordingValues, intercept, *_RECORDING)


intercepting = click.option(
    "--intercept", is_flag=True,
    help="Also be a forward proxy, which records requests to the hosts of known APIs.",
)  # fmt: skip
intercepting_by_default = click.option(
    "--intercept/--base-url", default=None,
    help="Record by a forward proxy (the default), or by variables with the base URLs of APIs.",
)  # fmt: skip


def read_upstreams(texts: tuple[str, ...]) -> "list[providers.Upstream]":
    """Read `--upstream` values; none gives the well-known APIs by name."""
    from wiretape.recorder.relay import providers

    chosen = list[providers.Upstream]()
    for text in texts:
        try:
            upstream = providers.parse(text)
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--upstream") from error
        if any(upstream.name == earlier.name for earlier in chosen):
            place = f"/{upstream.name}/" if upstream.name else "the root"
            raise click.BadParameter(f"two upstreams for {place}: name them apart, NAME=URL", param_hint="--upstream")
        chosen.append(upstream)
    return chosen or providers.well_known()


def read_labels(texts: tuple[str, ...]) -> dict[str, str]:
    """Read `--label` values."""
    labels = {}
    for text in texts:
        match = re.fullmatch(r"([A-Za-z0-9_.-]{1,64})=(.{0,256})", text)
        if match is None or not text.isprintable():
            raise click.BadParameter(f"{text!r} is not of the form key=value in plain text", param_hint="--label")
        labels[match[1]] = match[2]
    return labels


def read_listen(
    text: str,
    allowed: frozenset[str],
    advice: str = "name the hosts with --allow-host, or listen on 127.0.0.1",
    option: str = "--listen",
) -> tuple[str, int]:
    """Read `HOST:PORT`, `:PORT` or `PORT`; an address that others can reach is only taken with hosts `allowed`."""
    match = re.fullmatch(r"(?:(\[[0-9a-fA-F:.]+\]|[^:\[\]]*):)?(\d{1,5})", text)
    if match is None or int(match[2]) > 65535:
        raise click.BadParameter(f"{text!r} is not HOST:PORT", param_hint=option)
    host = (match[1] or "127.0.0.1").strip("[]")
    host = "127.0.0.1" if host == "localhost" else host
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError as error:
        raise click.BadParameter(f"{host!r} is not an IP address", param_hint=option) from error
    if not local and not allowed:
        raise click.BadParameter(f"{host} can be reached from other machines: {advice}", param_hint=option)
    return host, int(match[2])


def read_destination(_: click.Context, __: click.Parameter, url: str | None) -> destinations.Destination | None:
    """Parse the URL of a tape's destination. Raises `click.BadParameter`."""
    try:
        return None if url is None else destinations.parse(url)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def read_collector(context: click.Context, option: click.Parameter, url: str | None) -> destinations.Destination | None:
    """Parse the URL of a collector. Raises `click.BadParameter`."""
    return read_destination(context, option, None if url is None else f"{destinations.COLLECTOR}{url}")


def check_extra(module: str, extra: str, option: str) -> None:
    """Raise `WiretapeError` if the module that an option needs is not installed."""
    if not is_installed(module):
        raise WiretapeError(f"{option} needs {module}: {install_hint(extra)}")


def install_hint(extra: str) -> str:
    """Return the command that adds an extra to this installation, by the program that made it."""
    import json
    from importlib import metadata

    try:
        package = metadata.distribution("wiretape")
        origin = json.loads(package.read_text("direct_url.json") or "{}")
        installer = (package.read_text("INSTALLER") or "").strip()
    except (metadata.PackageNotFoundError, OSError, ValueError):
        origin, installer = {}, ""
    url = str(origin.get("url", ""))
    clone = unquote(url.removeprefix("file://")) if "dir_info" in origin else "wiretape"
    package_name = f"'{clone}[{extra}]'"
    is_editable = bool(origin.get("dir_info", {}).get("editable"))
    prefix = Path(sys.prefix)
    if paths.exists(prefix / "uv-receipt.toml"):
        return f"uv tool install --force {'-e ' * is_editable}{package_name}"
    if paths.exists(prefix / "pipx_metadata.json"):
        return f"pipx install --force {'-e ' * is_editable}{package_name}"
    if any(part.startswith(("archive-v", "environments-v")) for part in prefix.parts):  # a cached one, of uvx
        return f"uvx --from {package_name} wiretape …"
    interpreter = shlex.quote(python()[0])
    tool = f"uv pip install -p {interpreter}" if installer == "uv" else f"{interpreter} -m pip install"
    return f"{tool} {'-e ' * is_editable}{package_name}"


def is_installed(module: str) -> bool:
    """Return True if a module can be imported."""
    from importlib.util import find_spec

    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the package that it is in
        return False


def naming(tape: Path) -> str:
    """Return the option that names a tape in a command line, with a space before; "" where it is the default."""
    return "" if tape == default_tape() else f" --db {shlex.quote(str(tape))}"


def tape_path(option: Path | None) -> Path:
    """Return the tape's path: as given, else the default one. Raises `NotFound` for a user who has none."""
    tape = default_tape() if option is None else option
    if tape is None:
        raise NotFound(f"no tape is named, and {paths.NO_HOME}, or name one with --db")
    return tape


def default_tape() -> Path | None:
    """Return the path in `WIRETAPE_DB`, else `tape.db` in the user's data directory; None for a user without a home.

    No database library is loaded for it: a shell that completes a line asks, too.
    """
    if path := os.environ.get("WIRETAPE_DB"):
        return Path(path)
    directory = paths.of_user("data")
    return None if directory is None else directory / "tape.db"
