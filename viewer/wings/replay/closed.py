"""A forward proxy that answers requests to APIs from recordings, and reaches no API.

The rules, before any name is looked up:

1. An API's host, by TLS or without, or a path of an API on this machine: from the recordings, as `serve` at `/NAME/…`.
   The hosts are those that are known, those that variables and `--host` name, and those on the tape.
2. Anything else on this machine is let through: tools, and their servers.
3. Any other host is closed, unless a pattern opens it.

Hosts are checked once more where connections are opened (`ClosedProxies`): no API gets a request, whatever its way.
"""

import fnmatch
import re
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from wiretape.recorder.destinations import is_loopback
from wiretape.recorder.errors import UpstreamError
from wiretape.recorder.relay import apis, guard, providers
from wiretape.recorder.relay.client import Client
from wiretape.recorder.relay.guard import Origin
from wiretape.recorder.relay.http2_upstream import H2
from wiretape.recorder.relay.intercept import Forward, Interception, Opening
from wiretape.recorder.relay.outward import OutwardProxy, Proxies
from wiretape.recorder.relay.providers import Upstream
from wiretape.recorder.relay.proxy import Proxy, RelayOptions
from wiretape.recorder.relay.request import Request
from wiretape.recorder.relay.responder import Responder
from wiretape.recorder.relay.server import Http1Client
from wiretape.recorder.relay.workers import Observer
from wiretape.viewer.wings.replay.serve import Replay, answer_error

_TWICE_MOUNTED = re.compile(rb"^(/(?:%b))\1(?=/)" % "|".join(apis.BY_NAME).encode())


@dataclass(frozen=True)
class ClosedProxies(Proxies):
    """The proxies on the way to hosts that are open: `Transport` asks for one before each connection."""

    is_open: Callable[[str, int], bool] = lambda _host, _port: False

    def of(self, scheme: str, host: str, port: int) -> OutwardProxy | None:
        """Return the proxy for a host. Raises `UpstreamError` for a closed host."""
        if not self.is_open(host, port):
            raise UpstreamError("refused", f"{host} is closed: its answers come from the tape")
        return super().of(scheme, host, port)


class _Mounts:
    """The app of requests that variables send to wiretape itself: recordings are below the names of APIs only."""

    def __init__(self, replay: Replay, mounts: Sequence[Upstream]) -> None:
        self._replay = replay
        self._unmounted = [upstream for upstream in mounts if upstream.name not in apis.BY_NAME]
        self.client_rejected, self.client_failed = replay.client_rejected, replay.client_failed

    def serve(self, client: Client, request: Request) -> Responder | None:
        """Answer a request below the name of its API, or below none."""
        if self._unmounted and (route := providers.route(self._unmounted, request.target)):
            request.target = route[1]
        # The variable had the URL of another recorder, which has the same place for this API.
        request.target = _TWICE_MOUNTED.sub(rb"\1", request.target)
        return self._replay.serve(client, request)


class ClosedForward(Forward):
    """The app of the proxy's server: `replay` answers, `proxy` passes on what is let through.

    `mounts` are the upstreams of variables that are set to this proxy. Hosts that match one of `open_patterns` are let
    through; `on_closed` gets each host that is not.
    """

    treatment_of_others = "no recording answers it"

    def __init__(
        self,
        replay: Replay,
        proxy: Proxy,
        settings: Interception,
        port: int,
        *,
        mounts: Sequence[Upstream],
        open_patterns: Sequence[str],
        on_closed: Callable[[str], None],
        prefers_http2: bool,
        observer: Observer,
    ) -> None:
        super().__init__(proxy, settings, port, observer, own=_Mounts(replay, mounts))
        self._replay, self._open_patterns, self._on_closed = (
            replay,
            [pattern.lower() for pattern in open_patterns],
            on_closed,
        )
        self._prefers_http2 = prefers_http2

    def is_open(self, host: str, port: int) -> bool:
        """Return True if a host may be connected to."""
        if self._wants(Origin("https", host, port)):
            return False
        names = (host.lower(), f"{host.lower()}:{port}")
        is_named = any(fnmatch.fnmatchcase(name, pattern) for name in names for pattern in self._open_patterns)
        return is_loopback(host) or is_named

    def _connect(self, client: Client, request: Request, origin: Origin | None) -> Responder | None:
        if origin is None or not isinstance(client, Http1Client) or not client.can_switch:
            return super()._connect(client, request, origin)
        if self._is_own(origin) or self._wants(origin):
            agent = dict(request.headers).get(b"user-agent", b"").decode("latin-1")
            Opening(self, client, origin, agent).begin()
        elif self.is_open(origin.host, origin.port):
            return super()._connect(client, request, origin)
        else:
            self._close(client, origin)
        return None

    def _close(self, client: Client, origin: Origin) -> None:
        self._on_closed(origin.host)
        message = f"{origin.host} is no API, and closed while a program is answered from a tape: --open {origin.host}"
        answer_error(client, 403, message, "closed")

    def relay(self, client: Client, request: Request, origin: Origin, options: RelayOptions | None) -> Responder | None:
        """Answer a request to an API from the recordings; pass any other on if its host is open."""
        options = options or self._plain_options(origin, request)
        if not options.is_recorded:
            if self.is_open(origin.host, origin.port):
                return super().relay(client, request, origin, options)
            self._close(client, origin)
            return None
        refusal = guard.check_proxied(request.method, request.target, request.headers, origin)
        if refusal := refusal or self._replay.check_version(request) or self._replay.admit(client, request):
            self._replay.client_rejected(refusal)
            self._replay.refuse(client, refusal)
            return None
        if not request.complete and guard.expects_continue(request.headers):
            client.inform(100)
        if (api := providers.api_of(origin.host)) is not None:
            request.target = b"/%b%b" % (api.encode(), request.target)
        return self._replay.respond(client, request)

    async def agree(
        self, client: Http1Client, origin: Origin, offered: Sequence[str], connected: socket.socket | None
    ) -> str | None:
        """Return the protocol that a client gets: HTTP/1.1 if it offers that, unless HTTP/2 is preferred."""
        return H2 if H2 in offered and (self._prefers_http2 or "http/1.1" not in offered) else "http/1.1"
