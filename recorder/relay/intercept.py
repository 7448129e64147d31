"""A recorder as a forward proxy: it stands in for API servers, and lets everything else through a blind tunnel.

`Forward` is the app of such a recorder's server, in front of the `Proxy`. What it does with a request:

1. One whose target is a path is for wiretape itself, or for a named upstream: the `Proxy` has it.
2. Any other needs the run's credential, or a process that has it in its environment (`Identifying`): Java sends none.
3. `http://…` is relayed, and recorded where the host is an API's, or the path that of an API on this machine.
4. `CONNECT` to another host becomes a blind `Tunnel`. One to this machine gives way if plain HTTP comes in it.
5. `CONNECT` to an API is answered at once; only where another proxy is on the way, that one answers first (`Reaching`).
   The client's first bytes tell what it speaks (`Opening`): plain HTTP, TLS with HTTP, or TLS with something else,
   which is let through. With TLS, the server chooses the protocol of those that the client offers, and then the client
   gets a certificate of the run's own authority. The connection that the choice took serves the first request.
6. The requests in it (`Inside`) take the same way as those to wiretape itself, to an upstream that can only be the host
   of the `CONNECT`.
7. A server that gives no answer is shown to the client as it would see it itself: by a closed connection.
"""

import asyncio
import base64
import fnmatch
import functools
import re
import secrets
import socket
import ssl
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import unquote

from wiretape.recorder import process
from wiretape.recorder.clock import SYSTEM
from wiretape.recorder.destinations import is_loopback
from wiretape.recorder.errors import UpstreamError
from wiretape.recorder.relay import authority, environment, guard, hello, providers
from wiretape.recorder.relay.authority import Authority, Certificates
from wiretape.recorder.relay.client import App, Client
from wiretape.recorder.relay.guard import Origin, Refusal
from wiretape.recorder.relay.http2_upstream import ALPN, H2, Http2Connection
from wiretape.recorder.relay.proxy import Proxy, RelayOptions
from wiretape.recorder.relay.request import HTTP2, Request
from wiretape.recorder.relay.responder import Responder, Takeover
from wiretape.recorder.relay.server import HEAD_SECONDS, KEEP_ALIVE_SECONDS, Http1Client
from wiretape.recorder.relay.sockets import Ends, Socket, TlsSocket
from wiretape.recorder.relay.tunnel import Tunnel
from wiretape.recorder.relay.workers import Observer

USER = "wiretape"


@dataclass(frozen=True, slots=True)
class Interception:
    """The settings of a recorder that intercepts: the proxy's password, and patterns of further hosts of APIs."""

    authority: Authority
    password: str = field(repr=False)
    hosts: tuple[str, ...] = ()

    def proxy_url(self, base: str, placeholder: str = "") -> str:
        """Return the proxy's URL for a recorder at `base`: with the password, or with `placeholder` in its place."""
        scheme, _, place = base.partition("://")
        return f"{scheme}://{USER}:{placeholder or self.password}@{place}"

    @property
    def secret(self) -> bytes:
        """The part of the proxy's URL that tells a process which may use it."""
        return f"{USER}:{self.password}@".encode()

    @property
    def credential(self) -> bytes:
        """The Basic credential that a client sends."""
        return base64.b64encode(f"{USER}:{self.password}".encode())


def make(hosts: tuple[str, ...], password: str = "") -> Interception:
    """Return settings with an authority of their own, and with a random password unless one is given."""
    return Interception(authority.make(), password or secrets.token_urlsafe(24), hosts)


class Forward:
    """The app of a recorder's server that is a forward proxy, too; `port` is the one that it listens on.

    Requests to wiretape itself are for `own`, else for the proxy.
    """

    treatment_of_others = "it is let through unrecorded"
    """The treatment of connections to APIs that are not HTTP, in notices."""

    def __init__(
        self,
        proxy: Proxy,
        settings: Interception,
        port: int,
        observer: Observer,
        dialects: str | None = None,
        own: App | None = None,
    ) -> None:
        self._own: App = own or proxy
        self._proxy, self._settings, self._port, self._observer = proxy, settings, port, observer
        self._dialects = dialects
        """The declarations that the recorder was given, as JSON."""
        self._certificates = Certificates(settings.authority)
        self._credential = settings.credential
        self._members: weakref.WeakSet[object] = weakref.WeakSet()
        """The connections of processes that send no credential, but have it."""
        self._upstream = functools.lru_cache(1024)(lambda origin: providers.make("", origin.url))
        self._upstream_places = {(_place(upstream.host), upstream.port) for upstream in proxy.upstreams}
        self._warned: set[tuple[Origin, str]] = set()
        self._trusting: set[tuple[Origin, str]] = set()
        """Programs, by their User-Agent, that continued after they had seen our certificate."""
        self._searching = asyncio.Lock()
        """Lock of the search for a process: one at a time, as it takes CPU."""
        self.client_rejected = proxy.client_rejected
        self.client_failed = proxy.client_failed

    def serve(self, client: Client, request: Request) -> Responder | None:
        """Answer a request to wiretape itself, to an API server, or to any other."""
        headers, request.headers = request.headers, guard.without_proxy_headers(request.headers)
        if request.version == HTTP2:  # its target, as one over HTTP/1.1 has it: absolute, unless it is for us
            url = b"%b://%b%b" % (request.scheme, guard.host(request.headers), request.target)
            split = guard.absolute_origin(url)
            if split is not None and not self._is_own(split[0]):
                request.target = url
        if request.target.startswith(b"/"):
            return self._own.serve(client, request)
        refusal = guard.check_credential(headers, self._credential)
        if refusal is None or client.connection in self._members:
            return self.admit(client, request)
        sends_none = all(name != b"proxy-authorization" for name, _ in headers)
        if sends_none and process.HAS_PROC and (ends := client.ends):
            return Identifying(self, client, request, ends, refusal)
        self.refuse(client, request, refusal)
        return None

    def admit(self, client: Client, request: Request) -> Responder | None:
        """Answer a request that may use the proxy."""
        if request.method == "CONNECT":
            return self._connect(client, request, guard.connect_origin(request.target))
        return self._relay(client, request)

    def refuse(self, client: Client, request: Request, refusal: Refusal) -> None:
        """Answer a request that may not use the proxy."""
        if origin := guard.connect_origin(request.target) if request.method == "CONNECT" else None:
            self._observer.asked(origin.authority, "refused")
        self._proxy.reject(client, refusal, [(b"proxy-authenticate", b'Basic realm="wiretape"')])

    async def is_member(self, client: Client, ends: Ends) -> bool:
        """Return True if a process at a connection's other end has the credential in its environment.

        Java sends none to a proxy unless its program does so in code.
        """
        async with self._searching:
            local, peer = ends
            is_known = client.connection in self._members
            if not is_known and await asyncio.to_thread(process.has_secret, peer, local, self._settings.secret):
                self._members.add(client.connection)
        return client.connection in self._members

    def _connect(self, client: Client, request: Request, origin: Origin | None) -> Responder | None:
        if not isinstance(client, Http1Client) or origin is None or not self._is_valid(origin) or not client.can_switch:
            self._proxy.reject(
                client, Refusal(400, "the target of CONNECT must be host:port, and there is no body to it")
            )
        elif self._is_own(origin) or self._wants(origin):
            agent = dict(request.headers).get(b"user-agent", b"").decode("latin-1")
            opening = Opening(self, client, origin, agent)
            if self._proxy.transport.proxies.of("https", origin.host, origin.port) and not self._is_own(origin):
                return Reaching(self, client, request, origin, opening)
            opening.begin()
        else:
            return self.tunnel(client, origin)
        return None

    def _relay(self, client: Client, request: Request) -> Responder | None:
        """Relay a request for plain HTTP; it is recorded where the host is an API's."""
        split = guard.absolute_origin(request.target)
        if split is None or not self._is_valid(split[0]):
            self._proxy.reject(client, Refusal(400, "the request target is no URL that can be relayed"))
            return None
        origin, request.target = split
        fields = [(name, value) for name, value in request.headers if name != b"host"]
        request.headers = [(b"host", origin.authority.encode()), *fields]
        if self._is_own(origin):
            return self._own.serve(client, request)
        return self.relay(client, request, origin, self._plain_options(origin, request))

    def _plain_options(self, origin: Origin, request: Request) -> RelayOptions:
        """Return the options of a request for plain HTTP: it is recorded where the host, or the path, is an API's."""
        is_recorded = self._wants(origin) or self._calls_local_api(origin, request)
        self._observer.asked(origin.authority, "intercepted" if is_recorded else "relayed")
        return RelayOptions(is_recorded)

    def _calls_local_api(self, origin: Origin, request: Request) -> bool:
        """Return True for a request to an API that a server of this machine has at its usual path."""
        opens_websocket = request.method == "GET" and guard.asks_for_websocket(request.headers)
        if not (request.method == "POST" or opens_websocket) or not is_loopback(origin.host):
            return False
        from wiretape.recorder.decode.dialects import registry  # with all dialects, which most runs do not need

        return registry.is_posted_to(unquote(request.target.decode("latin-1")), self._dialects)

    def relay(self, client: Client, request: Request, origin: Origin, options: RelayOptions | None) -> Responder | None:
        """Relay a request that names no host but `origin`; without options, by those of plain HTTP."""
        options = options or self._plain_options(origin, request)
        refusal = guard.check_proxied(request.method, request.target, request.headers, origin)
        if options.is_recorded:
            refusal = refusal or self._proxy.check_version(request)
        if refusal := refusal or self._proxy.admit(client, request):
            self._proxy.reject(client, refusal)
            return None
        mirrored = replace(options, on_unreached=lambda error: self._unreached(origin, options, error))
        return self._proxy.relay(client, request, self._upstream(origin), request.target, mirrored)

    def _unreached(self, origin: Origin, options: RelayOptions, error: UpstreamError) -> None:
        """Warn the user that a server gave no answer: its program only sees a closed connection."""
        if options.is_recorded:
            self.warn(origin, "reach", f"no answer from {origin.authority}: {error}")

    def _is_valid(self, origin: Origin) -> bool:
        try:
            self._upstream(origin)
        except ValueError:
            return False
        return True

    def _is_own(self, origin: Origin) -> bool:
        """Return True if it is this recorder, which needs no connection."""
        return origin.port == self._port and self._proxy.policy.knows(origin.authority)

    def _wants(self, origin: Origin) -> bool:
        """Return True if it is an API server, so that its exchanges are recorded."""
        return (
            providers.api_of(origin.host) is not None
            or (_place(origin.host), origin.port) in self._upstream_places
            or any(
                fnmatch.fnmatchcase(name, pattern.lower())
                for pattern in self._settings.hosts
                for name in (origin.host, origin.authority)
            )
        )

    # used by Opening

    def context(self, host: str, protocol: str | None) -> ssl.SSLContext:
        """Return the TLS context that stands in for `host`, and agrees on a protocol if there is one."""
        return self._certificates.context(host, protocol)

    async def reach(self, origin: Origin) -> socket.socket:
        """Connect to a server through the proxy that is for it. Raises `UpstreamError`."""
        return await self._proxy.transport.reach("https", origin.host, origin.port)

    def record_unreached(self, client: Http1Client, request: Request, origin: Origin, error: UpstreamError) -> None:
        """Record the `CONNECT` that another proxy has refused, or to which it gave no answer."""
        self._observer.asked(origin.authority, "intercepted")
        options = RelayOptions(on_unreached=lambda error: self._unreached(origin, options, error), failure=error)
        self._proxy.relay(client, request, self._upstream(origin), b"/", options)

    async def agree(
        self, client: Http1Client, origin: Origin, offered: Sequence[str], connected: socket.socket | None
    ) -> str | None:
        """Return the protocol that a server chooses of a client's offer, or None if it chooses none.

        A server is asked only if HTTP/2 is offered, over a new connection or the `connected` one; that connection
        stays the client's. If the server does not answer, HTTP/1.1 is agreed on: the client's requests show the reason.
        """
        protocols = [protocol for protocol in offered if protocol in ALPN]
        fallback = H2 if protocols == [H2] else "http/1.1"
        takes_http2 = H2 in protocols
        if self._is_own(origin) or not (takes_http2 or connected):
            return fallback
        upstream, transport = self._upstream(origin), self._proxy.transport
        try:
            sock = await transport.open(upstream, protocols if takes_http2 else (), connected)
        except UpstreamError:
            return fallback
        if sock.protocol == H2:
            client.prepared_upstream = Http2Connection(sock, SYSTEM, upstream)
        else:
            client.adopt(transport.serve(sock, upstream))
        return sock.protocol if takes_http2 else fallback

    def adopt(self, client: Http1Client, origin: Origin, sock: socket.socket) -> None:
        """Have a client's next request go over a connection to its server without TLS."""
        client.adopt(self._proxy.transport.serve_connected(sock, self._upstream(origin)))

    def app_inside(self, origin: Origin, options: RelayOptions, agent: str | None = None) -> App:
        """Return the app for the requests in a `CONNECT` connection; `agent` is a client that trusts us, if known."""
        if agent is not None:
            self._trusting.add((origin, agent))
        if self._is_own(origin):
            return self._own
        self._observer.asked(origin.authority, "intercepted")
        return Inside(self, self._proxy, origin, options)

    def distrusted(self, origin: Origin, agent: str, alert: str | None) -> None:
        """Report a client that does not accept our certificate, as it said by an `alert`, or by closing only."""
        if alert is None and (origin, agent) in self._trusting:
            return  # it has changed its mind
        reason = f"TLS alert {alert}" if alert else "it closed the connection on seeing it"
        self._observer.asked(origin.authority, "untrusted")
        self.warn(origin, "trust", environment.advice(origin.host, agent, reason))

    def warn(self, origin: Origin, about: str, message: str) -> None:
        """Show the user a notice about a server, once of each kind."""
        if (origin, about) not in self._warned:
            self._warned.add((origin, about))
            self._observer.notice(message)

    def tunnel(self, client: Http1Client, origin: Origin, taken_over: tuple[Socket, bytes] | None = None) -> Tunnel:
        """Return a blind tunnel to the server."""
        self._observer.asked(origin.authority, "tunnelled")
        is_plain = taken_over is None and is_loopback(origin.host)
        read_on = functools.partial(self._read_on, client, origin) if is_plain else None
        return Tunnel(client, origin, self._proxy.transport, taken_over, read_on)

    def _read_on(
        self,
        client: Http1Client,
        origin: Origin,
        client_socket: Socket,
        near: socket.socket,
        far: socket.socket,
        early: bytes,
    ) -> bool:
        """Read the requests of plain HTTP in a tunnel to this machine, and relay them over the tunnel's connection.

        Return False for a request that names another host, which only its server can judge.
        """
        plain = Origin("http", origin.host, origin.port)
        host = re.search(rb"\r\nhost:[ \t]*([^\r\n]*)\r\n", early, re.IGNORECASE)
        split = guard.absolute_origin(b"http://%b" % host[1].rstrip()) if host else (plain, b"")
        if split is None or split[0] != plain:
            return False
        self.adopt(client, plain, far)
        sock = Socket(near, SYSTEM, client_socket.kernel_time)
        sock.stamp = SYSTEM.now()
        client.replace(sock)
        sock.start(client)
        client.read_on(Inside(self, self._proxy, plain, None), early)
        return True


class Identifying(Responder):
    """The search for the process of a request without the credential; the request waits for its result."""

    def __init__(self, forward: Forward, client: Client, request: Request, ends: Ends, refusal: Refusal) -> None:
        self._forward, self._client, self._request, self._ends = forward, client, request, ends
        self._refusal = refusal
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        try:
            if await self._forward.is_member(self._client, self._ends):
                if answering := self._forward.admit(self._client, self._request):
                    self._client.hand_over(self, answering)
            else:
                self._forward.refuse(self._client, self._request, self._refusal)
        except Exception as error:  # noqa: BLE001 - any fault is reported to the user
            self._client.failed(error)

    def request_failed(self, refusal: Refusal) -> None:
        self._task.cancel()
        self._forward.refuse(self._client, self._request, refusal)

    def client_left(self) -> None:
        self._task.cancel()

    def taker_failed(self, error: Exception) -> None:
        """Report a fault of our own; the client is closed."""
        self._task.cancel()
        self._forward.client_failed(error)


@dataclass(frozen=True, slots=True)
class Inside:
    """The app of a connection to one server."""

    forward: Forward
    proxy: Proxy
    origin: Origin
    options: RelayOptions | None

    def serve(self, client: Client, request: Request) -> Responder | None:
        """Relay a request to the server that was connected to."""
        request.headers = guard.without_proxy_headers(request.headers)
        return self.forward.relay(client, request, self.origin, self.options)

    def client_rejected(self, refusal: Refusal) -> None:
        """Report a malformed request."""
        self.proxy.client_rejected(refusal)

    def client_failed(self, error: Exception) -> None:
        """Report a fault of our own."""
        self.proxy.client_failed(error)


class Reaching(Responder):
    """The way to an API server through another proxy, before the answer to `CONNECT`: its refusal is the answer."""

    def __init__(
        self, forward: Forward, client: Http1Client, request: Request, origin: Origin, opening: "Opening"
    ) -> None:
        self._forward, self._client, self._request, self._origin = forward, client, request, origin
        self._opening = opening
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        try:
            self._opening.begin(await self._forward.reach(self._origin))
        except UpstreamError as error:
            self._forward.record_unreached(self._client, self._request, self._origin, error)
        except Exception as error:  # noqa: BLE001 - any fault is reported to the user
            self._client.failed(error)

    def client_left(self) -> None:
        self._task.cancel()

    def taker_failed(self, error: Exception) -> None:
        """Report a fault of our own; the client is closed."""
        self._task.cancel()
        self._forward.client_failed(error)


class Opening(Takeover):
    """A connection to a server that wiretape stands in for, from the answer to `CONNECT` to the first request.

    A client begins either TLS or, as some do for `http://` and `ws://`, a request. One that closes instead after it
    has seen our certificate does not trust it: not every program says so by an alert.
    """

    def __init__(self, forward: Forward, client: Http1Client, origin: Origin, agent: str) -> None:
        self._forward, self._client, self._origin, self._agent = forward, client, origin, agent
        self._first_bytes = b""
        self._options: RelayOptions | None = None
        """The options of its requests, after the TLS handshake."""
        self._shaking: asyncio.Task[None] | None = None
        self._has_certificate = False
        """True if the client has seen our certificate, or is about to."""
        self._tunnel: Tunnel | None = None
        self._server_socket: socket.socket | None = None
        """A connection to the server, until it is used."""

    def begin(self, connected: socket.socket | None = None) -> None:
        """Answer, and take the connection over; the one to the server may be open."""
        self._server_socket = connected
        self._socket, early = self._client.switch(200, b"Connection established", [], self)
        self._client.limit(HEAD_SECONDS)
        if early:
            self.received(0, memoryview(early))

    def received(self, at: int, data: memoryview) -> None:
        """Detect the client's protocol."""
        self._first_bytes += data
        if self._options is not None:
            self._client.read_on(self._forward.app_inside(self._origin, self._options, self._agent), self._first_bytes)
        elif self._first_bytes[0] != hello.HANDSHAKE:
            plain = Origin("http", self._origin.host, self._origin.port)
            if connected := self._take_server_socket():
                self._forward.adopt(self._client, plain, connected)
            self._client.read_on(self._forward.app_inside(plain, RelayOptions()), self._first_bytes)
        else:
            self._greet()

    def _take_server_socket(self) -> socket.socket | None:
        connected, self._server_socket = self._server_socket, None
        return connected

    def _greet(self) -> None:
        """Begin with TLS when the client's first message is complete."""
        try:
            greeting = hello.parse(self._first_bytes)
        except ValueError:
            self._client.drop()
            return
        if greeting is None:
            return
        if self._socket.unsent:  # the client reads nothing
            self._client.drop()
        elif greeting.protocols and not any(protocol in ALPN for protocol in greeting.protocols):
            self._let_through(greeting.protocols)
        elif self._shaking is None:
            self._shaking = asyncio.get_running_loop().create_task(self._stand_in(greeting))

    def _let_through(self, protocols: tuple[str, ...]) -> None:
        """Leave the connection of a client that speaks neither HTTP/1.1 nor HTTP/2 to its server."""
        self._socket.pause()
        self._client.limit(None)
        self._tunnel = self._forward.tunnel(self._client, self._origin, (self._socket, self._first_bytes))
        offered = ", ".join(protocols)
        offer = f"a program offers {self._origin.host} only {offered}, and no HTTP"
        self._forward.warn(self._origin, "protocol", f"{offer}: {self._forward.treatment_of_others}")

    async def _stand_in(self, greeting: hello.Hello) -> None:
        """Agree on keys with the client, and on the protocol that the server chooses."""
        try:
            self._client.limit(None)  # the connection to the server has its own
            connected = self._take_server_socket()
            protocol = await self._forward.agree(self._client, self._origin, greeting.protocols, connected)
            self._client.limit(HEAD_SECONDS)
            context = self._forward.context(greeting.server_name or self._origin.host, protocol)
            secured = TlsSocket(self._socket.detach(), SYSTEM, None, context)
            self._client.replace(secured)
            self._has_certificate = True
            await secured.shake_hands(self._first_bytes)
        except OSError as error:
            self._client.lost(error)
            return
        except Exception as error:  # noqa: BLE001 - the event loop would only print it
            self._client.failed(error)
            return
        self._first_bytes, self._options = b"", RelayOptions()
        self._client.limit(KEEP_ALIVE_SECONDS)
        secured.start(self._client, is_read_to_end=True)

    def lost(self, error: Exception | None) -> None:
        """Report the client if it leaves on seeing our certificate."""
        if connected := self._take_server_socket():
            connected.close()
        if self._tunnel is not None:
            self._tunnel.lost(error)
        if self._shaking is None:
            return
        self._shaking.cancel()
        if not self._has_certificate:
            return
        reason = (error.reason or "") if isinstance(error, ssl.SSLError) else ""
        distrust = (
            "UNKNOWN_CA", "BAD_CERTIFICATE", "CERTIFICATE_UNKNOWN", "UNSUPPORTED_CERTIFICATE", "CERTIFICATE_REVOKED",
        )  # fmt: skip
        alert = reason.split("ALERT_")[-1].lower() if reason.endswith(distrust) else None
        if alert or error is None or isinstance(error, ConnectionResetError | BrokenPipeError):
            self._forward.distrusted(self._origin, self._agent, alert)

    def failed(self, error: Exception) -> None:
        """Report a fault of our own."""
        self._forward.client_failed(error)


def _place(host: str) -> str:
    return "127.0.0.1" if host == "localhost" else host
