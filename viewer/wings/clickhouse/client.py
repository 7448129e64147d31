"""The client of ClickHouse: queries and inserts, by clickhouse-connect, of servers and of the engine in this process.

The rules:

- A batch is sent to one node, and again with the same token to the next if that fails: the engine drops a repetition.
- A server answers when the requested number of replicas has the batch (`wait_end_of_query`, `insert_quorum`), also
  those behind a `Distributed` table: by default, an insert into one returns 200 with the shard dead.
- A permanent error is `UnusableServer`, a transient one `Unavailable`: then the next node is tried, and later all of
  them again.
- An engine in this process (`chdb`) is opened by the first query, and locks its directory until `close`: one process at
  a time may have it open, so a process at rest closes it. A second directory in one process is refused by the engine.
"""

import contextlib
import fcntl
import logging
import math
import os
import re
import ssl
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlsplit

import urllib3
from clickhouse_connect import common, get_client
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import ClickHouseError
from clickhouse_connect.driver.query import QueryResult

from wiretape.recorder import paths
from wiretape.recorder.clock import SYSTEM
from wiretape.recorder.errors import WiretapeError
from wiretape.recorder.sanitize import clipped, safe
from wiretape.viewer.source.base import Unsupported
from wiretape.viewer.wings.clickhouse.address import PASSWORD, Credentials, Target

CONNECT_SECONDS: Final = 5
ANSWER_SECONDS: Final = 60.0
"""Timeout of a node's response, and of a batch's replication."""
LOCK_SECONDS: Final = 10.0
"""Time that a process waits for a directory which another one has open."""
LOCK_FILE: Final = "wiretape.lock"
"""The file to lock before the engine opens a directory: the engine does not wait for another process, but fails."""
_CLUSTER_SECONDS: Final = 45
"""Timeout of a node for the hosts of its cluster: shorter than ours, so that the node reports the missing ones."""
_EXCERPT_CHARACTERS: Final = 300
_HOSTS_MISSING: Final = "distributed_ddl_task_timeout"
common.set_setting("invalid_setting_action", "drop")  # an account that may only read has limits of its own
logging.getLogger("clickhouse_connect").setLevel(logging.CRITICAL)  # our errors say it


class UnusableServer(WiretapeError):
    """The server cannot be used as it is, and a retry would not help."""


class Unavailable(WiretapeError):
    """A node could not be reached, or could not execute the request now."""


class MemoryExceeded(Unavailable):
    """An answer would need more memory than a node has for it."""


class NotAtCentre(Unsupported):
    """A query needs data that the server's table `exchanges` does not have."""

    def __init__(self, data: str) -> None:
        super().__init__(
            f"a server cannot search {data}: use other fields, such as model:NAME, or copy exchanges to a tape with "
            "'wiretape pull'"
        )


class UnknownExpression(Unsupported):
    """The engine does not support a regular expression."""


class _Nodes(urllib3.PoolManager):
    """Connections to nodes. A response is that of ClickHouse, or an error."""

    def urlopen(self, method: str, url: str, redirect: bool = True, **more: Any) -> Any:  # type: ignore[override]
        """Send a request, follow no redirection, and take no response from somebody else.

        A proxy that answers 200 by itself has stored nothing: only ClickHouse sends headers `X-ClickHouse-…`.
        """
        response = super().urlopen(method, url, redirect=False, **(more | {"retries": False}))
        node = "{0.scheme}://{0.netloc}".format(urlsplit(url))
        if location := response.get_redirect_location():
            raise UnusableServer(
                f"{node} answered {response.status} and names {_excerpt(location)!r} instead, which is not followed: "
                "name the ClickHouse server itself"
            )
        if response.status == 200 and not any(name.lower().startswith("x-clickhouse-") for name in response.headers):
            text = (
                response.read(_EXCERPT_CHARACTERS, decode_content=False)
                if not more.get("preload_content")
                else response.data
            )
            raise Unavailable(
                f"{node} answered {_excerpt(text.decode('utf-8', 'replace'))!r}: something else than ClickHouse did"
            )
        return response


class Centre:
    """The nodes of a server, the one that answered last first. A context manager."""

    def __init__(
        self,
        target: Target,
        credentials: Credentials,
        tls: ssl.SSLContext | None = None,
        seconds: float = ANSWER_SECONDS,
    ) -> None:
        """Create a client without connecting. The timeout of a response is in seconds, 0 for none."""
        self.target = target
        self._credentials, self._seconds = credentials, seconds
        self._pool = _Nodes(ssl_context=tls)
        self._node = 0
        self._clients: dict[int, Client] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self._pool.clear()

    @property
    def node(self) -> str:
        """The node for the next request."""
        return self.target.nodes[self._node]

    def close(self) -> None:
        """Close all connections; the next query opens one again. Another process may then open a directory."""
        while self._clients:
            self._clients.popitem()[1].close()
            if self.target.directory is not None:
                _unlock(self.target.directory)

    def release(self) -> None:
        """Close a directory until the next query, for other processes; connections to servers stay."""
        if self.target.directory is not None:
            self.close()

    def query(self, statement: str, database: str | None = None) -> QueryResult:
        """Return the result of a query, asking one node after the other. Raises `UnusableServer`, then `Unavailable`.

        Texts are those of the engine; one that is not UTF-8 comes in hex.
        """
        result: QueryResult = self._anywhere(lambda client: client.query(statement), database)
        return result

    def rows(self, statement: str, database: str | None = None) -> list[tuple[Any, ...]]:
        """Return the rows of a query, as `query` does."""
        return [tuple(row) for row in self.query(statement, database).result_rows]

    def execute(self, statement: str, database: str | None = None) -> None:
        """Execute a statement that has no rows. Raises `UnusableServer`, and at last `Unavailable`."""
        settings = {"insert_distributed_sync": 1, _HOSTS_MISSING: _CLUSTER_SECONDS}
        self._anywhere(lambda client: client.command(statement, settings=settings), database)

    def insert(
        self, table: str, types: Mapping[str, str], columns: Sequence[Sequence[Any]], token: str = "", quorum: int = 0
    ) -> None:
        """Insert columns at the current node. Raises `UnusableServer` or `Unavailable`.

        After `Unavailable` their arrival is unknown: insert them again with the same token, at the next node.
        """
        settings: dict[str, Any] = {"wait_end_of_query": 1, "insert_distributed_sync": 1}
        if quorum:
            settings |= {
                "insert_quorum": quorum,
                "insert_quorum_timeout": 30_000,
            }  # ms: within our own timeout of an answer
        if token:
            settings["insert_deduplication_token"] = token
        previous, directory = tempfile.tempdir, self.target.directory
        if directory is not None:  # its engine gets a batch in a file, which a kill would leave in /tmp
            tempfile.tempdir = str(directory / "tmp")  # the engine empties it when it opens
        try:
            with self._explained():
                self._client().insert(
                    table, columns, [*types], self.target.database, column_type_names=[*types.values()],
                    column_oriented=True, settings=settings,
                )  # fmt: skip
        except Unavailable:
            self.next_node()
            raise
        finally:
            tempfile.tempdir = previous

    def next_node(self) -> None:
        """Ask another node from now on."""
        self._node = (self._node + 1) % len(self.target.nodes)

    def _anywhere(self, ask: Callable[[Client], Any], database: str | None) -> Any:
        for place in range(len(self.target.nodes)):
            try:
                with self._explained():
                    return ask(self._client(database))
            except Unavailable:
                self.next_node()
                if place + 1 == len(self.target.nodes):
                    raise
        raise AssertionError("a server has a node")

    def _client(self, database: str | None = None) -> Client:
        """Return the client of the current node, which is connected if necessary."""
        if self._node not in self._clients:
            limit = math.ceil(self._seconds)
            settings = {"max_execution_time": limit} if limit else {}
            if self.target.directory is not None:
                self._clients[self._node] = _engine(self.target.directory, settings)
            else:
                parts = urlsplit(self.node)
                self._clients[self._node] = get_client(
                    interface=parts.scheme, host=(parts.hostname or "").strip("[]"), port=parts.port or 0,
                    username=self._credentials.user or "default", password=self._credentials.password or "",
                    # Longer than the node's own limit, so that the node reports it; the client takes no None.
                    connect_timeout=CONNECT_SECONDS, send_receive_timeout=limit + 1 if limit else 10**6,
                    autogenerate_session_id=False, query_retries=0, pool_mgr=self._pool,
                    show_clickhouse_errors="scrub", client_name="wiretape", settings=settings,
                )  # fmt: skip
        client = self._clients[self._node]
        client.database = database or self.target.database
        return client

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Raise errors of the client as `UnusableServer` and `Unavailable`, with their cause and the remedy."""
        try:
            yield
        except (ClickHouseError, urllib3.exceptions.HTTPError) as error:
            raise _explanation(self.node, self.target, error, self._seconds) from error


_DISK_FULL: Final = "the disk of {node} is full: free some space there"
_MEANINGS: Final[Sequence[tuple[type[WiretapeError], set[int], str]]] = (
    (UnusableServer, {192, 193, 194, 516},
     "{node} does not accept the user or the password; check the user in the URL, and {password}"),
    (UnusableServer, {164, 291, 497}, "{node} does not allow this account to do that ({words})"),
    (UnusableServer, {60, 81},
     "{node} has no such table or database ({words}): run 'wiretape fleet init --to …' first"),
    (UnusableServer, {10, 16, 33, 44, 47, 53},
     "{centre} has another schema ({words}): run 'wiretape fleet init --to …' of this version"),
    (UnusableServer, {46, 48, 62, 80, 115},
     "{node} does not understand a query of this version of wiretape ({words}): it needs ClickHouse 23 or later"),
    (UnknownExpression, {427},
     "{node} does not know such a regular expression ({words}): a server has those of RE2, without look-around and "
     "back-references"),
    (MemoryExceeded, {241},
     "{node} would need more memory than this account or the server may use ({words}): ask for less at a time, such as "
     "-f since:1d, or raise max_memory_usage there"),
    (Unavailable, {243}, _DISK_FULL),
    (Unavailable, {285, 289, 319}, "{node} has too few replicas that work ({words})"),
    (Unavailable, {286}, "{node} waits until another batch is on its replicas ({words})"),
    (Unavailable, {202, 252}, "{node} has too much to do ({words})"),
    (Unavailable, {159, 160},
     "{node} ran into its time limit ({words}): ask for less at a time, such as -f since:1d, or raise "
     "max_execution_time there"),
)  # fmt: skip
"""The engine's codes of errors, permanent ones first, and their explanations."""


def _explanation(node: str, target: Target, error: Exception, seconds: float) -> WiretapeError:
    """Return our error for one of the client: by the engine's code, the status of a response, or the connection."""
    text, code = str(error), getattr(error, "code", None)
    if isinstance(error, urllib3.exceptions.HTTPError):  # within an answer that was begun
        return _unreachable(node, error, seconds)
    if code is None and isinstance(error.__cause__, urllib3.exceptions.HTTPError):
        return _unreachable(node, error.__cause__, seconds)
    response = re.search(r"HTTP status (\d+)(?:, server response: (.*))?", text, re.DOTALL)
    if code is None and (match := response):  # a proxy answered, or another server
        status, words = int(match[1]), _excerpt(match[2] or "") or f"status {match[1]}"
        if status in (408, 429) or status >= 500:
            return Unavailable(f"{node} answered {status} ({words})")
        return UnusableServer(
            f"{node} answered {status}, and is no ClickHouse server, or not for this account ({words})"
        )
    match = re.search(r"DB::\w*Exception: (.*?)(?:: Insertion status:|\s*\(version |$)", text, re.DOTALL)
    words = _excerpt(match[1] if match else text)
    if "errno: 28," in text:  # ENOSPC, whatever the code
        return Unavailable(_DISK_FULL.format(node=node))
    if _HOSTS_MISSING in text:
        return UnusableServer(
            f"not all hosts of the cluster did it within {_CLUSTER_SECONDS} s ({words}): they do when they are back; "
            "then run the same command again"
        )
    for kind, codes, meaning in _MEANINGS:
        if code in codes:
            return kind(meaning.format(node=node, centre=target.shown, words=words, password=PASSWORD))
    return Unavailable(f"{node} failed ({words})")


def _unreachable(node: str, error: BaseException, seconds: float) -> WiretapeError:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            reason = getattr(cause, "verify_message", "") or str(cause)
            return UnusableServer(
                f"the certificate of {node} does not verify ({reason}): name its authority with --ca-file or "
                "SSL_CERT_FILE, or correct the host"
            )
        if isinstance(cause, ssl.SSLError) and cause.reason == "WRONG_VERSION_NUMBER":
            return UnusableServer(f"{node} speaks no TLS: name its port for HTTPS, or add ?tls=no to the URL")
        cause = cause.__cause__ or cause.__context__
    words = _excerpt(str(error).rpartition(": ")[2])
    match error:
        case urllib3.exceptions.NewConnectionError() | urllib3.exceptions.ConnectTimeoutError():
            return Unavailable(f"{node} cannot be reached ({words or 'no answer'})")
        case urllib3.exceptions.TimeoutError():
            return Unavailable(f"{node} did not answer within {seconds:g} s")
    return Unavailable(f"{node} broke the connection ({words or type(error).__name__})")


def _excerpt(text: str) -> str:
    return clipped(safe(" ".join(text.split())), _EXCERPT_CHARACTERS)


@dataclass(slots=True)
class _DirectoryLock:
    """The descriptor of a directory's lock, and the number of clients in this process that have it open."""

    descriptor: int
    client_count: int = 1


_LOCKS: Final[dict[Path, _DirectoryLock]] = {}
_LOCKS_GUARD: Final = threading.Lock()


def _engine(directory: Path, settings: Mapping[str, Any]) -> Client:
    """Open the engine of a directory that exists. Raises `Unavailable` while another process has it open."""
    name = safe(str(directory))
    if not paths.exists(directory / LOCK_FILE):
        raise UnusableServer(f"{name} is no directory of shipped exchanges: run 'wiretape ship --to chdb:DIR' first")
    until = SYSTEM.now() + round(LOCK_SECONDS * 1e9)
    while not _is_locked(directory):
        if SYSTEM.now() > until:
            raise Unavailable(f"{name} is in use by another process, and was for {LOCK_SECONDS:g} s: try again later")
        SYSTEM.sleep(0.05)
    with contextlib.ExitStack() as stack:
        stack.callback(_unlock, directory)
        try:
            client = get_client(
                interface="chdb", path=str(directory), settings=dict(settings), show_clickhouse_errors="scrub"
            )
        except ClickHouseError as error:
            raise Unavailable(f"{name} cannot be opened ({_excerpt(str(error))}): is it open elsewhere?") from error
        stack.pop_all()
        return client


def _is_locked(directory: Path) -> bool:
    """Lock a directory for this process; return True if that succeeded. Raises `UnusableServer`."""
    with _LOCKS_GUARD:
        if directory in _LOCKS:
            _LOCKS[directory].client_count += 1
            return True
        try:
            descriptor = os.open(directory / LOCK_FILE, os.O_RDWR | os.O_NOFOLLOW)
        except OSError as error:
            raise UnusableServer(f"{safe(str(directory))} cannot be used ({error.strerror})") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return False
        _LOCKS[directory] = _DirectoryLock(descriptor)
        return True


def _unlock(directory: Path) -> None:
    with _LOCKS_GUARD:
        _LOCKS[directory].client_count -= 1
        if not _LOCKS[directory].client_count:
            os.close(_LOCKS.pop(directory).descriptor)
