"""The address of a ClickHouse server, or of the engine in this process, and the credentials for it.

A server is `clickhouse://[USER@]HOST[:PORT][,HOST[:PORT]…]/DATABASE[?tls=yes|no&quorum=N]`. Its nodes are those of one
server or cluster: any of them accepts data. Connections to other machines are encrypted unless `tls=no` is given.
`chdb:DIR` is the same engine within this process, with its data in a directory.

There is no password in a URL. Parsing an invalid URL raises `ValueError`; its message never holds a credential. This
module loads no client: a recorder reads addresses, too.
"""

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl

from wiretape.recorder import paths
from wiretape.recorder.commands.options import check_extra
from wiretape.recorder.destinations import TENANT, Destination, is_loopback
from wiretape.recorder.sanitize import clipped, safe

CENTRE: Final = "clickhouse://"
CENTRE_FORM: Final = "clickhouse://HOST[:PORT][,HOST[:PORT]…]/DATABASE"
EMBEDDED: Final = "chdb:"
EMBEDDED_FORM: Final = "chdb:DIR"
DATABASE: Final = "wiretape"
USER, PASSWORD, PASSWORD_FILE = "WIRETAPE_FLEET_USER", "WIRETAPE_FLEET_PASSWORD", "WIRETAPE_FLEET_PASSWORD_FILE"


@dataclass(frozen=True, slots=True, repr=False)
class Credentials:
    """A user and a password, which has no text form that a log could show."""

    user: str | None = None
    password: str | None = None


@dataclass(frozen=True, slots=True)
class Target(Destination):
    """The nodes of a server as base URLs, the database, the user; `quorum`: replicas that confirm an insert.

    `url` is the URL as it was given. An engine in this process has a `directory`, and one node, which names it.
    """

    nodes: tuple[str, ...]
    database: str = DATABASE
    user: str | None = None
    quorum: int | None = None
    url: str = field(default="", compare=False)
    directory: Path | None = None
    sink = f"{__package__}.opening:sink"

    @property
    def name(self) -> str:
        """The server in a few words, without credentials: the database and the first node; of a directory its hash."""
        if self.directory is not None:
            url = self.nodes[0]
            return f"{clipped(safe(url), 40)} {hashlib.sha256(url.encode('utf-8', 'replace')).hexdigest()[:8]}"
        return f"{self.database} at {self.nodes[0].partition('://')[2]}"

    @property
    def shown(self) -> str:
        """Return the name for people."""
        return self.name if self.directory is None else safe(self.nodes[0])

    def check(self, headers_file: Path | None = None) -> None:
        """Raise `WiretapeError` if the client of a server, or the engine of a directory, is not installed."""
        if self.directory is not None:
            check_extra("chdb", "chdb", EMBEDDED_FORM)
        check_extra("clickhouse_connect", "clickhouse", f"{CENTRE}…")

    def arguments(self, labels: Mapping[str, str], since_version: int) -> Iterator[str]:
        """Yield the arguments: each exchange has its labels, only the tenant's is given to the shipper."""
        yield from ("--to", self.url)
        if TENANT in labels:
            yield from ("--label", f"{TENANT}={labels[TENANT]}")


def parse(text: str) -> Target:
    """Parse the address of a server. Raises `ValueError` with the reason, which never repeats a password."""
    if text.startswith(EMBEDDED):
        return _embedded(text.removeprefix(EMBEDDED))
    if not text.startswith(CENTRE):
        raise ValueError(f"a server is {CENTRE_FORM}, or {EMBEDDED_FORM}")
    location, _, query = text.removeprefix(CENTRE).partition("?")
    user, at, place = location.rpartition("@")
    if ":" in user:
        raise ValueError(f"a password does not belong in a URL: set {PASSWORD} or {PASSWORD_FILE}")
    hosts, _, database = place.partition("/")
    options = dict(parse_qsl(query, keep_blank_values=True))
    if unknown := options.keys() - {"tls", "quorum"}:
        raise ValueError(f"unknown in a URL: {', '.join(sorted(unknown))}; there are tls and quorum")
    if options.get("tls", "yes") not in ("yes", "no"):
        raise ValueError("tls is yes or no")
    if not re.fullmatch("[0-9]{1,2}", quorum := options.get("quorum", "0")):
        raise ValueError("quorum is a number of replicas, or 0")
    nodes = tuple(_node(node, options.get("tls")) for node in hosts.split(","))
    replicas = int(quorum) if "quorum" in options else None
    return Target(nodes, identifier(database.rstrip("/") or DATABASE), user if at else None, replicas, text)


def _embedded(path: str) -> Target:
    if not path or "\0" in path:
        raise ValueError(f"an engine's directory is {EMBEDDED_FORM}")
    directory = paths.real(Path(os.path.expanduser(path)))
    # The engine reads options behind a question mark, and refuses bytes that are no UTF-8.
    if "?" in str(directory) or str(directory).encode("utf-8", "replace") != os.fsencode(directory):
        raise ValueError(
            "the path of an engine's directory has a question mark, or is not UTF-8: use another directory"
        )
    url = f"{EMBEDDED}{directory}"
    return Target((url,), url=url, directory=directory)


def _node(text: str, tls: str | None) -> str:
    match = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?", text)
    if match is None or int(match[2] or 0) > 65535:
        raise ValueError(f"{text[:80]!r} is not HOST or HOST:PORT: a server is {CENTRE_FORM}")
    is_secure = not is_loopback(match[1]) if tls is None else tls == "yes"
    return f"http{'s' if is_secure else ''}://{match[1]}:{match[2] or (8443 if is_secure else 8123)}"


def identifier(name: str) -> str:
    """Return a name if it needs no quotes in a statement. Raises `ValueError` for any other."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,63}", name):
        raise ValueError(f"{name[:80]!r} is no name of letters, digits and underscores")
    return name


def credentials(target: Target, environment: Mapping[str, str]) -> Credentials:
    """Return user and password from the environment or the file that it names. Raises `OSError` and `ValueError`."""
    password = environment.get(PASSWORD)
    if password is None and (path := environment.get(PASSWORD_FILE)):
        password = Path(path).read_text("utf-8").rstrip("\r\n")
    for name, value in ((USER, environment.get(USER)), (PASSWORD, password)):
        if value is not None and not (value.isascii() and value.isprintable()):
            raise ValueError(f"{name} has characters that an HTTP header cannot have")
    return Credentials(target.user or environment.get(USER), password)
