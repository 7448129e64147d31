"""An `httpx.AsyncBaseTransport` that stamps each socket read.

The reads are offered unmerged through the response extension `reads`. One connection serves one request and is then
closed: what streams is a POST, a POST may not go out on a connection that may be half dead, and bytes that follow a
response can reach nobody. No redirects, no retries, no proxies from the environment. HTTP itself is left to
`recorder.relay.connection`.
"""

import asyncio
import socket
import ssl
from dataclasses import dataclass
from typing import Any

import httpx

from recorder.clock import SYSTEM, Clock
from recorder.errors import UpstreamError
from recorder.relay import local
from recorder.relay.connection import Connection, Head, Instants, words


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds to connect (TLS included), to the response head, and between two reads of the body."""

    connect: float = 10.0
    headers: float = 600.0
    idle: float = 300.0


class Transport(httpx.AsyncBaseTransport):
    """Sends one request over a connection of its own.

    The request extension `instants` (an `Instants`) is filled in on the way, also when it fails. The response has the
    extensions `reads` (a `Reads`), `framing` and `raw_headers`. A body that comes in pieces needs a Content-Length.
    Raises `UpstreamError`.
    """

    def __init__(self, tls: ssl.SSLContext | None = None, limits: Limits | None = None, clock: Clock = SYSTEM) -> None:
        self._tls = tls or ssl.create_default_context()
        self._limits = limits or Limits()
        self._clock = clock

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Connect, send, and give the response once its head is there; its body comes through `reads`."""
        instants: Instants = request.extensions.get("instants") or Instants()
        connection = await self._connect(request, instants)
        try:
            _send(connection, request)
            head = await self._answer(connection)
        except BaseException:
            connection.close()
            raise
        connection.limit_idle(self._limits.idle)
        extensions: dict[str, Any] = {"reads": connection.reads, "framing": head.framing, "raw_headers": head.headers}
        return httpx.Response(head.status, headers=head.headers, stream=connection.reads, extensions=extensions)

    async def _connect(self, request: httpx.Request, instants: Instants) -> Connection:
        url, secure = request.url, request.url.scheme == "https"
        host = url.raw_host.decode("ascii").strip("[]")  # `url.host` undoes IDNA, which fails for some names
        port = url.port or (443 if secure else 80)
        try:
            async with asyncio.timeout(self._limits.connect):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: Connection(self._clock.now, instants, request.method == "HEAD"),
                    host,
                    port,
                    ssl=self._tls if secure else None,
                    server_hostname=host if secure else None,
                )
        except TimeoutError as error:
            raise UpstreamError("connect_timeout", f"no connection within {self._limits.connect:g} s") from error
        except OSError as error:
            if local.is_local(error):
                raise UpstreamError("local", local.cause(error)) from error
            raise UpstreamError(_why_not_connected(error), words(error)) from error
        return connection

    async def _answer(self, connection: Connection) -> Head:
        try:
            async with asyncio.timeout(self._limits.headers):
                return await connection.wait_head()
        except TimeoutError as error:
            raise UpstreamError("headers_timeout", f"no answer within {self._limits.headers:g} s") from error


def _send(connection: Connection, request: httpx.Request) -> None:
    """Send a request whole, or in pieces if its body does not come at once: then beside what is answered to it."""
    if isinstance(request.stream, httpx.ByteStream):
        connection.send(_head_bytes(request), request.read())
    else:
        assert isinstance(request.stream, httpx.AsyncByteStream)
        connection.send_pieces(_head_bytes(request), request.stream, int(request.headers["content-length"]))


def _head_bytes(request: httpx.Request) -> bytes:
    target = request.extensions.get("target") or request.url.raw_path
    lines = [b"%s %s HTTP/1.1\r\n" % (request.method.encode("ascii"), target)]
    lines += [b"%s: %s\r\n" % pair for pair in request.headers.raw]
    return b"".join([*lines, b"\r\n"])


def _why_not_connected(error: OSError) -> str:
    if isinstance(error, ssl.SSLError | ssl.CertificateError):
        return "tls"
    if isinstance(error, socket.gaierror):
        return "dns"
    if isinstance(error, ConnectionResetError | ConnectionAbortedError | BrokenPipeError):
        return "reset"
    return "refused"
