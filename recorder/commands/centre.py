"""Where the centre is: `clickhouse://[USER@]HOST[:PORT][,HOST[:PORT]…]/DATABASE[?tls=yes|no&quorum=N]`. Pure.

The nodes are those of one server or cluster: any of them takes what is sent. What leaves this machine is encrypted
unless `tls=no` says otherwise. There is no password in it: command lines and addresses end up in logs.
"""

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl

import click

SCHEME: Final = "clickhouse://"
FORM: Final = "clickhouse://[USER@]HOST[:PORT][,HOST[:PORT]…]/DATABASE"
DATABASE: Final = "wiretape"
TENANT: Final = "tenant"
"""The label that keeps tenants apart."""
USER, PASSWORD, PASSWORD_FILE = "WIRETAPE_FLEET_USER", "WIRETAPE_FLEET_PASSWORD", "WIRETAPE_FLEET_PASSWORD_FILE"

_PORTS: Final = {True: 8443, False: 8123}
_NODE: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


@dataclass(frozen=True, slots=True)
class Target:
    """The nodes of a centre as base URLs, the database, the user; `quorum`: replicas that must have what is sent.

    `url` is what was read.
    """

    nodes: tuple[str, ...]
    database: str = DATABASE
    user: str | None = None
    quorum: int | None = None
    url: str = field(default="", compare=False)

    @property
    def name(self) -> str:
        """The centre in a few words, without credentials: the database and the first node."""
        return f"{self.database} at {self.nodes[0].partition('://')[2]}"


@dataclass(frozen=True, slots=True, repr=False)
class Credentials:
    """A user and a password, which has no text form that a log could show."""

    user: str | None = None
    password: str | None = None


def parse(text: str) -> Target:
    """Read where the centre is. Raises `ValueError`, which says what is wrong and never repeats a password."""
    if not text.startswith(SCHEME):
        raise ValueError(f"a centre is {FORM}")
    location, _, query = text.removeprefix(SCHEME).partition("?")
    user, at, rest = location.rpartition("@")
    if ":" in user:
        raise ValueError(f"a password does not belong in a URL: set {PASSWORD} or {PASSWORD_FILE}")
    hosts, _, database = rest.partition("/")
    options = _options(query)
    nodes = tuple(_node(node, options.get("tls")) for node in hosts.split(","))
    return Target(nodes, identifier(database.rstrip("/") or DATABASE), user if at else None, _quorum(options), text)


def _options(query: str) -> dict[str, str]:
    options = dict(parse_qsl(query, keep_blank_values=True))
    if unknown := options.keys() - {"tls", "quorum"}:
        raise ValueError(f"unknown in a URL: {', '.join(sorted(unknown))}; there are tls and quorum")
    if options.get("tls", "yes") not in ("yes", "no"):
        raise ValueError("tls is yes or no")
    return options


def _quorum(options: Mapping[str, str]) -> int | None:
    text = options.get("quorum")
    if text is not None and not re.fullmatch("[0-9]{1,2}", text):
        raise ValueError("quorum is a number of replicas, or 0")
    return None if text is None else int(text)


def _node(text: str, tls: str | None) -> str:
    match = _NODE.fullmatch(text)
    if match is None or int(match[2] or 0) > 65535:
        raise ValueError(f"{text[:80]!r} is not HOST or HOST:PORT: a centre is {FORM}")
    is_secure = not _is_loopback(match[1].strip("[]")) if tls is None else tls == "yes"
    return f"http{'s' if is_secure else ''}://{match[1]}:{match[2] or _PORTS[is_secure]}"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def identifier(name: str) -> str:
    """Return a name that stands in statements as it is. Raises `ValueError` for any other."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name[:80]!r} is no name of letters, digits and underscores")
    return name


def credentials(target: Target, environment: Mapping[str, str]) -> Credentials:
    """Return who asks, from the environment or the file that it names. Raises `OSError` and `ValueError`."""
    password = environment.get(PASSWORD)
    if password is None and (path := environment.get(PASSWORD_FILE)):
        password = Path(path).read_text("utf-8").rstrip("\r\n")
    for name, value in ((USER, environment.get(USER)), (PASSWORD, password)):
        if value is not None and not (value.isascii() and value.isprintable()):
            raise ValueError(f"{name} has characters that an HTTP header cannot have")
    return Credentials(target.user or environment.get(USER), password)


def read(_: click.Context, __: click.Parameter, text: str | None) -> Target | None:
    """Read the value of an option. Raises `click.BadParameter`."""
    try:
        return None if text is None else parse(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
