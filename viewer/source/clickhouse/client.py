"""A client of ClickHouse's HTTP interface: queries, and batches that arrive once or not at all.

A batch is sent to one node, and as the same bytes to the next if that fails: the server recognises blocks that it has,
and drops them. It answers when the requested number of replicas has the batch (`wait_end_of_query`, `insert_quorum`),
also those behind a `Distributed` table. The password is a header, never part of a URL. A permanent error is
`UnusableServer`, a transient one `Unavailable`: then the next node is tried, and later all of them again.
Values of results are converted by the type of their column.
"""

import contextlib
import json
import re
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Self

import httpx

from wiretape.recorder.clock import SYSTEM
from wiretape.recorder.destinations import PASSWORD, Credentials, Target
from wiretape.recorder.errors import WiretapeError
from wiretape.recorder.sanitize import clipped, safe
from wiretape.viewer.source.base import Unsupported

CONNECT_SECONDS: Final = 5.0
ANSWER_SECONDS: Final = 60.0
"""Timeout of a node's response, and of a batch's replication."""
_CLUSTER_SECONDS: Final = 45
"""Timeout of a node for the hosts of its cluster: shorter than ours, so that the node reports the missing ones."""
_QUORUM_MS: Final = 30_000
_SHOWN: Final = 300
_OF_ENGINE: Final = "x-clickhouse-"
"""Prefix of ClickHouse's response headers. A response without them comes from a proxy, which has stored nothing."""
_PIECE: Final = 64 << 10

_CODE: Final = re.compile(r"^Code: (\d+)")
_MESSAGE: Final = re.compile(r"DB::\w*Exception: (.*?)(?:: Insertion status:|, e\.what\(\)|\s*\(version |$)", re.DOTALL)
_TO_BLAME: Final[Mapping[tuple[int, ...], str]] = {
    (192, 193, 194, 516): "{node} does not accept the user or the password: check the user in the URL, and {password}",
    (164, 291, 497): "{node} does not allow this account to do that ({words})",
    (60, 81): "{node} has no such table or database ({words}): run 'wiretape fleet init --to …' first",
    (10, 16, 33, 44, 47, 53): "{centre} has another schema ({words}): run 'wiretape fleet init --to …' of this version",
    (46, 48, 62, 80, 115): "{node} does not understand a query of this version of wiretape ({words})",
}
"""Codes of permanent errors, with their explanations."""
_DISK_FULL: Final = "the disk of {node} is full: free some space there"
_NO_SPACE: Final = "errno: 28,"
_HOSTS_MISSING: Final = "distributed_ddl_task_timeout"
_PASSING: Final[Mapping[tuple[int, ...], str]] = {
    (243,): _DISK_FULL,
    (285, 289, 319): "{node} has too few replicas that work ({words})",
    (286,): "{node} waits until another batch is on its replicas ({words})",
    (202, 252): "{node} has too much to do ({words})",
    (159, 160): "{node} ran into its time limit ({words}): ask for less at a time, such as "
    "-f since:1d, or raise max_execution_time there",
}
"""Codes of errors that may pass."""
_EXPRESSION: Final[Mapping[tuple[int, ...], str]] = {
    (427,): "{node} does not know such a regular expression ({words}): a server has those of RE2, without look-around "
    "and back-references",
}
_TOO_LARGE: Final[Mapping[tuple[int, ...], str]] = {
    (241,): "{node} would need more memory than this account or the server may use ({words}): ask for less at a time, "
    "such as -f since:1d, or raise max_memory_usage there",
}


class UnusableServer(WiretapeError):
    """The server cannot be used as it is, and a retry would not help."""


class Unavailable(WiretapeError):
    """A node could not be reached, or could not execute the request now."""


class MemoryExceeded(Unavailable):
    """An answer would need more memory than a node has for it."""


class NotAtCentre(Unsupported):
    """A query needs data that the server's table `exchanges` does not have."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"a server cannot search {what}: use other fields, such as model:NAME, or copy exchanges to a tape with "
            "'wiretape pull'"
        )


class UnknownExpression(Unsupported):
    """The engine does not support a regular expression."""


class QueryResult(NamedTuple):
    """The result of a query: the name and the type of each column, and the rows."""

    columns: list[tuple[str, str]]
    rows: list[list[Any]]


class Centre:
    """The nodes of a server, the one that answered last first. A context manager."""

    def __init__(
        self,
        target: Target,
        credentials: Credentials,
        tls: ssl.SSLContext | None = None,
        transport: httpx.BaseTransport | None = None,
        seconds: float = ANSWER_SECONDS,
    ) -> None:
        """Create a client without connecting. The timeout of a response is in seconds, 0 for none."""
        self.target = target
        headers = {"User-Agent": "wiretape"}
        if credentials.user:
            headers["X-ClickHouse-User"] = credentials.user
        if credentials.password:
            headers["X-ClickHouse-Key"] = credentials.password
        timeout = httpx.Timeout(seconds or None, connect=CONNECT_SECONDS)
        verify = tls or any(node.startswith("https:") for node in target.nodes)  # else no certificates are loaded
        self._client = httpx.Client(
            headers=headers, timeout=timeout, verify=verify, transport=transport, trust_env=False
        )
        self._node, self._seconds = 0, seconds

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    @property
    def node(self) -> str:
        """The node for the next request."""
        return self.target.nodes[self._node]

    def query(self, statement: str, database: str | None = None) -> list[list[Any]]:
        """Return the rows of a query, asking one node after the other. Raises `UnusableServer`, then `Unavailable`."""
        return self.select(statement, database).rows

    def select(self, statement: str, database: str | None = None) -> QueryResult:
        """Return the columns and the rows of a query, as `query` does."""
        # An account that may only read may not change how numbers are written.
        text = self._anywhere(f"{statement} FORMAT JSONCompact", b"", {"wait_end_of_query": "1"}, database)
        try:
            answer = json.loads(text)
            columns = [(one["name"], one["type"]) for one in answer.get("meta", ())]
            return QueryResult(columns, converted_rows([type for _, type in columns], answer["data"]))
        except (ValueError, KeyError, TypeError) as error:
            raise Unavailable(f"{self.target.name} answered {_shown(text)!r}, not JSON") from error

    def execute(self, statement: str, database: str | None = None) -> None:
        """Execute a statement that has no rows. Raises `UnusableServer`, and at last `Unavailable`."""
        settings = {"wait_end_of_query": "1", "insert_distributed_sync": "1"}
        self._anywhere(statement, b"", settings | {_HOSTS_MISSING: str(_CLUSTER_SECONDS)}, database)

    def insert(self, table: str, columns: Sequence[str], rows: bytes | bytearray, *, quorum: int = 0) -> None:
        """Insert rows in RowBinary at the current node. Raises `UnusableServer` or `Unavailable`.

        After `Unavailable` their arrival is unknown: insert the same bytes again, at the next node.
        """
        settings = {"wait_end_of_query": "1", "insert_distributed_sync": "1"}
        if quorum:
            settings |= {"insert_quorum": str(quorum), "insert_quorum_timeout": str(_QUORUM_MS)}
        statement = f"INSERT INTO {table} ({', '.join(columns)}) FORMAT RowBinary"
        try:
            text = self._ask(statement, rows, settings, self.target.database)
        except Unavailable:
            self.next_node()
            raise
        if text:
            raise Unavailable(f"{self.node} answered {_shown(text)!r} to what was inserted")

    def next_node(self) -> None:
        """Ask another node from now on."""
        self._node = (self._node + 1) % len(self.target.nodes)

    def _anywhere(self, statement: str, data: bytes, settings: Mapping[str, str], database: str | None) -> str:
        for place in range(len(self.target.nodes)):
            try:
                return self._ask(statement, data, settings, database or self.target.database)
            except Unavailable:
                self.next_node()
                if place + 1 == len(self.target.nodes):
                    raise
        raise AssertionError("a server has a node")

    def _ask(self, statement: str, data: bytes | bytearray, settings: Mapping[str, str], database: str) -> str:
        """Return the node's response. Raises `UnusableServer` or `Unavailable`."""
        parameters = {"database": database, **settings}
        content = data or statement.encode()
        if data:
            parameters["query"] = statement
        length = {"Content-Length": str(len(content))}
        request = self._client.build_request(
            "POST", self.node, params=parameters, headers=length, content=_pieces(content)
        )
        try:
            response = self._client.send(request, stream=True)
            with contextlib.closing(response):
                text = self._read(response)
        except httpx.HTTPError as error:
            raise _unreachable(self.node, error, self._seconds) from error
        code = _CODE.match(text)  # also after a 200: the server found out later
        if response.status_code == httpx.codes.OK and code is None:
            if not any(name.startswith(_OF_ENGINE) for name in response.headers):
                raise Unavailable(f"{self.node} answered {_shown(text)!r}: something else than ClickHouse did")
            return text
        if response.is_redirect:
            raise _redirected(self.node, response)
        raise _explained(self.node, self.target, response.status_code, int(code[1]) if code else 0, text)

    def _read(self, response: httpx.Response) -> str:
        """Read a response within the timeout, which covers all of its pieces together."""
        answer, until = bytearray(), SYSTEM.now() + round(self._seconds * 1e9)
        for piece in response.iter_bytes():
            answer += piece
            if self._seconds and SYSTEM.now() > until:
                raise httpx.ReadTimeout("")
        return answer.decode("utf-8", "replace")


def _pieces(content: bytes | bytearray) -> Iterator[bytes]:
    """Yield a request's content in pieces, so that memory holds a batch only once."""
    for start in range(0, len(content), _PIECE):
        yield bytes(content[start : start + _PIECE])


def _unreachable(node: str, error: httpx.HTTPError, seconds: float) -> WiretapeError:
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
    match error:
        case httpx.ConnectTimeout() | httpx.ConnectError():
            return Unavailable(f"{node} cannot be reached ({_shown(str(error)) or 'no answer'})")
        case httpx.TimeoutException():
            return Unavailable(f"{node} did not answer within {seconds:g} s")
    return Unavailable(f"{node} broke the connection ({_shown(str(error)) or type(error).__name__})")


def _redirected(node: str, response: httpx.Response) -> WiretapeError:
    return UnusableServer(
        f"{node} answered {response.status_code} and names {_shown(response.headers['location'])!r} instead, which is "
        "not followed: name the ClickHouse server itself"
    )


def _explained(node: str, target: Target, status: int, code: int, text: str) -> WiretapeError:
    """Return the error for a node's error code, with our explanation and the server's text."""
    match = _MESSAGE.search(text)
    words = _shown(match[1] if match else text) or f"status {status}"
    if not code:
        return _not_an_engine(node, status, words)
    if _NO_SPACE in text:
        return Unavailable(_DISK_FULL.format(node=node))
    if _HOSTS_MISSING in text:
        return UnusableServer(
            f"not all hosts of the cluster did it within {_CLUSTER_SECONDS} s ({words}): they do when they are back; "
            "then run the same command again"
        )
    kinds: Mapping[type[WiretapeError], Mapping[tuple[int, ...], str]] = {
        UnusableServer: _TO_BLAME, UnknownExpression: _EXPRESSION, MemoryExceeded: _TOO_LARGE, Unavailable: _PASSING,
    }  # fmt: skip
    for kind, known in kinds.items():
        for codes, meaning in known.items():
            if code in codes:
                return kind(meaning.format(node=node, centre=target.name, words=words, password=PASSWORD))
    return Unavailable(f"{node} failed ({words})")


def _not_an_engine(node: str, status: int, words: str) -> WiretapeError:
    """Return the error for a response that does not come from ClickHouse: from a proxy, or another server."""
    if status in (408, 429) or status >= httpx.codes.INTERNAL_SERVER_ERROR:
        return Unavailable(f"{node} answered {status} ({words})")
    return UnusableServer(f"{node} answered {status}, and is no ClickHouse server, or not for this account ({words})")


def _shown(text: str) -> str:
    return clipped(safe(" ".join(text.split())), _SHOWN)


Converter = Callable[[Any], Any]
_TYPE_PARTS: Final = re.compile(r"\w+|[(),]|'[^']*'")
_PLAIN_CONVERTERS: Final[dict[str, Converter]] = {"Int64": int, "UInt64": int, "Float64": float, "Float32": float}
"""Converters of JSON values, by type; values of other types need none."""


def converted_rows(types: Sequence[str], rows: list[list[Any]]) -> list[list[Any]]:
    """Return rows with their values converted in place. Raises `ValueError` and `TypeError` for invalid values."""
    converts = {place: convert for place, type in enumerate(types) if (convert := _converter(type)) is not None}
    for row in rows:
        for place, convert in converts.items():
            if row[place] is not None:
                row[place] = convert(row[place])
    return rows


def _converter(type: str) -> Converter | None:
    """Return the converter for a type's values other than null, or None if none is needed."""
    return _next_converter(_TYPE_PARTS.findall(type))


def _next_converter(parts: list[str]) -> Converter | None:
    """Return the converter for the type at the front of these parts, which it consumes."""
    name, inner = parts.pop(0), list[Converter | None]()
    if parts and parts[0] == "(":
        while parts.pop(0) != ")":  # an opening parenthesis, or a comma
            inner.append(_next_converter(parts))
    match name:
        case "Nullable" | "LowCardinality":
            return inner[0]
        case "Array":
            return _each(inner[0])
        case "Tuple":
            return _together(inner)
    return _PLAIN_CONVERTERS.get(name)


def _each(convert: Converter | None) -> Converter | None:
    if convert is None:
        return None
    return lambda values: [None if value is None else convert(value) for value in values]


def _together(converts: list[Converter | None]) -> Converter:
    def converted(values: Sequence[object]) -> list[Any]:
        pairs = zip(converts, values, strict=True)
        return [value if convert is None or value is None else convert(value) for convert, value in pairs]

    return converted
