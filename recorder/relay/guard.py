"""Pure: the checks that a request must pass.

wiretape listens for programs on the same machine and forwards to hosts that were named at its start. Requests that
could make it an open proxy, or come from a web page, are refused here, by the raw request target and the raw Host
header; no URL is ever rebuilt from a request. llhttp has checked the HTTP syntax before.

It is a forward proxy only if it was started as one, and only for clients with the credential of the proxy's URL.
"""

import functools
import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

HOP_BY_HOP = frozenset({
    b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te",
    b"trailer", b"transfer-encoding", b"upgrade",
})  # fmt: skip
"""Headers for one connection only, which are never passed on (RFC 9110, 7.6.1)."""
LOCATIONS = frozenset({
    b"azure-asyncoperation", b"location", b"operation-location", b"x-goog-upload-control-url", b"x-goog-upload-url",
})  # fmt: skip
"""Headers with the address of a client's next request: RFC 9110, 10.2.2; Azure's guidelines for long-running
operations; Google's resumable uploads (ai.google.dev/api/files).
"""
TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""A method, or the name of a header (RFC 9110, 5.6.2)."""
FORBIDDEN = bytes(range(0x09)) + bytes(range(0x0A, 0x20)) + b"\x7f"
"""Characters that no value of a header may have: they would break a head of HTTP/1.1."""
CONNECTION_ONLY = frozenset({b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"})
"""Headers that HTTP/2 does not have (RFC 9113, 8.2.2)."""
_LENGTH_DIGITS = 18
_TARGET = re.compile(rb"/(?!/)[\x21-\x7e]*")
_LOOPBACK = frozenset(("127.0.0.1", "localhost", "[::1]"))
_ABSOLUTE = re.compile(rb"(https?)://([^/?#]*)([\x21-\x7e]*)", re.IGNORECASE)
_PORTS = {"http": 80, "https": 443}

Headers = Sequence[tuple[bytes, bytes]]
Named = dict[bytes, list[bytes]]
"""The values of headers by their names in lower case."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The refusal of a request: the status of the answer, and the message to its sender."""

    status: int
    message: str


@dataclass(frozen=True, slots=True)
class Origin:
    """A server as a request to a forward proxy names it: a scheme, a host in lower case without brackets, a port."""

    scheme: str
    host: str
    port: int

    @property
    def authority(self) -> str:
        """The host and the port, as `CONNECT` has them."""
        return f"{self._bracketed}:{self.port}"

    @property
    def url(self) -> str:
        """The base URL, without the scheme's own port."""
        return f"{self.scheme}://{self._bracketed if self.port == _PORTS[self.scheme] else self.authority}"

    @property
    def _bracketed(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host


@dataclass(frozen=True, slots=True)
class Policy:
    """The hosts by which wiretape may be called: those of loopback, and `hosts` besides.

    With `takes_links`, a link in a page of another site may be followed: that page cannot read the answer. With
    `takes_local_pages`, a page of another site of this machine may call: `localhost` and `127.0.0.1` are two sites.
    """

    hosts: frozenset[str] = field(default=frozenset())
    takes_links: bool = False
    takes_local_pages: bool = False

    def knows(self, host: str) -> bool:
        """Return True if a Host header's value names this machine, on any port."""
        name = _name_of(host)
        return name in _LOOPBACK or name in self.hosts


_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+?)(?::\d{1,5})?", re.ASCII)


@functools.lru_cache(64)
def _name_of(host: str) -> str | None:
    """Return the name or the address in a Host header's value in lower case, or None without a valid one."""
    match = _HOST.fullmatch(host.lower())
    return match[1] if match else None


_UNCHECKED = frozenset({b"content-length", b"host"})
"""The headers of most requests: with these alone, the checks of others can be left out, which saves time."""


def check(method: str, target: bytes, headers: Headers, policy: Policy) -> Refusal | None:
    """Return the refusal of a request by its head, or None if it may pass."""
    fields = deciding(headers)
    refusal = _check_target(method, target)
    if refusal is not None:
        return refusal
    hosts = fields.get(b"host", ())
    if len(hosts) != 1:
        return Refusal(400, "exactly one Host header is needed")
    if not policy.knows(hosts[0].decode("latin-1")):
        # The message does not quote the header, which may contain a key.
        allowed = "use its loopback address (--allow-host of a recorder adds other names)"
        return Refusal(421, f"the Host header is no name of this wiretape: {allowed}")
    if _UNCHECKED.issuperset(fields):
        return None
    return _check_origin(fields, policy) or _check_connection(method, fields) or _check_coding(fields)


_PROXIED_TARGET = re.compile(rb"/[\x21-\x7e]*")


def check_proxied(method: str, target: bytes, headers: Headers, origin: Origin) -> Refusal | None:
    """Return the refusal of a request to `origin` through the forward proxy, or None if it may pass.

    `check_credential` has judged its sender. It may come from a web page: the origin has to judge that.
    """
    fields = deciding(headers)
    return (
        _check_target(method, target, _PROXIED_TARGET)
        or _check_authority(fields, origin)
        or _check_connection(method, fields)
        or _check_coding(fields)
    )


def check_credential(headers: Headers, credential: bytes) -> Refusal | None:
    """Return the refusal of a request without the forward proxy's Basic `credential`, or None."""
    credentials = [value for name, value in headers if name == b"proxy-authorization"]
    scheme, _, token = credentials[0].partition(b" ") if len(credentials) == 1 else (b"", b"", b"")
    if scheme.lower() == b"basic" and hmac.compare_digest(token.strip(), credential):
        return None
    return Refusal(407, "the proxy's URL, with the user and the password in it, is needed to use this forward proxy")


def without_proxy_headers(headers: Headers) -> list[tuple[bytes, bytes]]:
    """Return the headers without those that are for a proxy alone."""
    return [(name, value) for name, value in headers if not name.startswith(b"proxy-")]


def connect_origin(target: bytes) -> Origin | None:
    """Read the target of `CONNECT`; None if it is not `host:port`."""
    return _origin("https", target, needs_port=True)


def absolute_origin(target: bytes) -> tuple[Origin, bytes] | None:
    """Read a target that is a URL into its origin, and the rest of it as a path; None if it is no such target."""
    match = _ABSOLUTE.fullmatch(target)
    origin = _origin(match[1].decode().lower(), match[2]) if match else None
    if match is None or origin is None or match[3].startswith(b"#"):
        return None
    return origin, match[3] if match[3].startswith(b"/") else b"/" + match[3]


_AUTHORITY = re.compile(rb"(\[[0-9a-f:.]+\]|[a-z0-9._-]{1,253})(?::(\d{1,5}))?", re.IGNORECASE)


def _origin(scheme: str, authority: bytes, *, needs_port: bool = False) -> Origin | None:
    match = _AUTHORITY.fullmatch(authority)
    if match is None or (needs_port and not match[2]):
        return None
    port = int(match[2]) if match[2] else _PORTS[scheme]
    host = match[1].decode().lower().strip("[]").rstrip(".")
    return Origin(scheme, host, port) if 0 < port < 65536 and host else None


_NO_PROXY = (
    "this wiretape is no forward proxy: take HTTPS_PROXY and HTTP_PROXY out of the program's environment, or record"
    " with wiretape run -- CMD, without --base-url, or wiretape record --intercept"
)


def _check_target(method: str, target: bytes, path: re.Pattern[bytes] = _TARGET) -> Refusal | None:
    if not TOKEN.fullmatch(method.encode("latin-1")):
        return Refusal(400, "the method is no token")
    if method == "CONNECT":
        return Refusal(405, _NO_PROXY)
    if method == "TRACE":
        return Refusal(405, "TRACE is not relayed")
    if path.fullmatch(target):
        return None
    if _ABSOLUTE.fullmatch(target):
        return Refusal(400, _NO_PROXY)
    return Refusal(400, "the request target must be a path that begins with one '/'")


def _check_authority(fields: Named, origin: Origin) -> Refusal | None:
    """Refuse a request to another host than the one connected to: that server cannot answer it."""
    hosts = fields.get(b"host", ())
    if len(hosts) != 1:
        return Refusal(400, "exactly one Host header is needed")
    if _origin(origin.scheme, hosts[0]) == origin:
        return None
    return Refusal(421, f"the Host header is not {origin.authority}, which this connection is for")


def _check_origin(fields: Named, policy: Policy) -> Refusal | None:
    """Web pages of other origins may not call, so that no page can spend or read through a recorder."""
    is_cross_site = b"cross-site" in fields.get(b"sec-fetch-site", ())
    is_link = fields.get(b"sec-fetch-mode") == [b"navigate"] and fields.get(b"sec-fetch-dest") == [b"document"]
    is_local = policy.takes_local_pages and b"origin" in fields  # the origin is checked below
    if is_cross_site and not (policy.takes_links and is_link) and not is_local:
        return Refusal(403, "a web page of another site may not call wiretape")
    for value in fields.get(b"origin", ()):
        scheme, mark, host = value.decode("latin-1").partition("://")
        if scheme not in ("http", "https") or not mark or not policy.knows(host):
            return Refusal(403, "a web page of another origin may not call wiretape")
    return None


_END_TO_END = re.compile(rb"auth|key|token|cookie|^content-|^host$")


def _check_connection(method: str, fields: Named) -> Refusal | None:
    """Refuse a Connection header that removes credentials or framing headers, or changes the protocol."""
    if b"connection" not in fields:
        return None
    if _asks_for_websocket(fields):
        # llhttp takes the following bytes for the new protocol: a request's body would be lost silently.
        bodies = (*fields.get(b"content-length", ()), *fields.get(b"transfer-encoding", ()))
        has_body = any(value != b"0" for value in bodies)
        if tokens(fields[b"upgrade"]) != [b"websocket"] or method != "GET" or has_body:
            return Refusal(400, "a request for a WebSocket must be a GET without a body, and offer no other protocol")
    for name in tokens(fields[b"connection"]):
        if _END_TO_END.search(name) and name not in HOP_BY_HOP:
            return Refusal(400, "the Connection header names an end-to-end header")
    return None


def are_fields(headers: Headers) -> bool:
    """Return True if no header, pseudo-header or trailer breaks a head of HTTP/1.1."""
    return all(
        TOKEN.fullmatch(name.removeprefix(b":")) and value.translate(None, FORBIDDEN) == value
        for name, value in headers
    )


def is_request(headers: Headers) -> bool:
    """Return True if the head of a request over HTTP/2 has no header that would change its framing in HTTP/1.1."""
    names = [name for name, _ in headers]
    lengths = [value for name, value in headers if name == b"content-length"]
    is_framed = not lengths or (len(lengths) == 1 and content_length({b"content-length": lengths}) is not None)
    is_lower = all(name == name.lower() for name in names)
    return is_framed and is_lower and CONNECTION_ONLY.isdisjoint(names) and are_fields(headers)


def asks_for_websocket(headers: Headers) -> bool:
    """Return True if a request asks for a WebSocket; any other protocol that it offers may be ignored."""
    return _asks_for_websocket(deciding(headers))


def _asks_for_websocket(fields: Named) -> bool:
    is_upgrade = b"upgrade" in fields and b"upgrade" in tokens(fields.get(b"connection", ()))
    return is_upgrade and any(b"websocket" in offer for offer in tokens(fields[b"upgrade"]))


def _check_coding(fields: Named) -> Refusal | None:
    """Refuse a body in an unknown transfer coding: relayed without the coding's name, it would be garbage."""
    if tokens(fields.get(b"transfer-encoding", ())) not in ([], [b"chunked"]):
        return Refusal(501, "the Transfer-Encoding is not understood: send the body as it is, or chunked")
    return None


_DECIDING_ANSWER = LOCATIONS | {
    b"connection", b"content-length", b"content-type", b"keep-alive", b"transfer-encoding", b"x-accel-buffering",
}  # fmt: skip
"""Headers of an answer that its relaying depends on."""
_KEPT_BACK = HOP_BY_HOP | {b"x-wiretape-id"}
"""Headers of an answer that the client does not get as they came."""


def read_answer(headers: Headers) -> tuple[Named, list[tuple[bytes, bytes]]]:
    """Return the values of an answer's headers that its relaying depends on, and the headers to pass on.

    In one pass: answers have twenty headers and more.
    """
    fields: Named = {}
    passed = list[tuple[bytes, bytes]]()
    for pair in headers:
        name = pair[0].lower()
        if name in _DECIDING_ANSWER:
            fields.setdefault(name, []).append(pair[1])
        if name not in _KEPT_BACK:
            passed.append(pair)
    if b"connection" in fields and (hop_by_hop := tokens(fields[b"connection"])):
        passed = [pair for pair in passed if pair[0].lower() not in hop_by_hop]
    return fields, passed


_DECIDING = frozenset({
    b"connection", b"content-length", b"host", b"origin", b"sec-fetch-dest", b"sec-fetch-mode", b"sec-fetch-site",
    b"transfer-encoding", b"upgrade",
})  # fmt: skip
"""Headers of a request that its checks read."""


def deciding(headers: Headers) -> Named:
    """Return the values of the headers for the checks of a request."""
    fields: Named = {}
    for name, value in headers:
        if (lower := name.lower()) in _DECIDING:
            fields.setdefault(lower, []).append(value)
    return fields


def content_length(fields: Named) -> int | None:
    """Return the size of a body by its head; None without a valid one."""
    values = set(fields.get(b"content-length", ()))
    value = values.pop() if len(values) == 1 else b""
    return int(value) if value.isdigit() and len(value) <= _LENGTH_DIGITS else None


def with_one_cookie(headers: Headers) -> list[tuple[bytes, bytes]]:
    """Return the headers with their cookies in one, as HTTP/1.1 has them (RFC 9113, 8.2.3)."""
    cookies = [value for name, value in headers if name == b"cookie"]
    fields = [pair for pair in headers if pair[0] != b"cookie"]
    return [*fields, (b"cookie", b"; ".join(cookies))] if cookies else fields


def tokens(values: Sequence[bytes]) -> list[bytes]:
    """Return the elements of comma-separated lists, in lower case."""
    if not values:
        return []
    return [token for value in values for part in value.split(b",") if (token := part.strip().lower())]


def accepts(headers: Headers, coding: str) -> bool:
    """Return True if a request names a content coding as acceptable, by its weights (RFC 9110, 12.5.3).

    Without the header it names none: most clients that do not send it decode nothing.
    """
    weights: dict[str, str] = {}
    for name, value in headers:
        if name.lower() == b"accept-encoding":
            parts = (part.partition(";") for part in value.decode("latin-1").lower().split(","))
            weights |= {coding_name.strip(): weight.replace(" ", "") for coding_name, _, weight in parts}
    weight = weights.get(coding, weights.get("*"))
    return weight is not None and weight.rstrip("0") not in ("q=", "q=.", "q=0.")


def expects_continue(headers: Headers) -> bool:
    """Return True if a client waits for 100 (Continue) with the request's body."""
    return any(name == b"expect" and value.lower() == b"100-continue" for name, value in headers)


_CREDENTIALS = re.compile(
    rb"(?:.*/)?(?:(?:oauth2?|auth)/(?:.*/)?[a-z_]*(?:token|refresh|key)|create_api_key|client_secrets)",
    re.IGNORECASE,
)
_CREDENTIALS_BYTES = 512
"""The end of a path that may match `_CREDENTIALS`, which backtracks: a target may be long."""


def grants_credentials(target: bytes) -> bool:
    """Return True for the target of a request that exchanges credentials: its body, or its answer, is one."""
    return _is_for_credentials(target.partition(b"?")[0][-_CREDENTIALS_BYTES:])


@functools.lru_cache(1024)
def _is_for_credentials(path: bytes) -> bool:
    return _CREDENTIALS.fullmatch(path) is not None


def host(headers: Headers) -> bytes:
    """Return the host that a request names, or nothing."""
    return next((value for name, value in headers if name == b"host"), b"")


def takes_trailers(headers: Headers) -> bool:
    """Return True if a client says that it accepts trailers (`te: trailers`), as gRPC demands."""
    return b"trailers" in tokens([value for name, value in headers if name == b"te"])


def transfer_codings(headers: Headers) -> list[bytes]:
    """Return the transfer codings of a message in the order in which they were applied, in lower case."""
    return tokens([value for name, value in headers if name.lower() == b"transfer-encoding"])


def named_by_connection(headers: Headers) -> frozenset[bytes]:
    """Return the header names that Connection headers declare to be for this connection only."""
    return frozenset(tokens([value for name, value in headers if name.lower() == b"connection"]))


@functools.cache
def _dropped(without: frozenset[bytes]) -> frozenset[bytes]:
    return HOP_BY_HOP | without


def end_to_end(headers: Headers, *, without: frozenset[bytes] = frozenset()) -> list[tuple[bytes, bytes]]:
    """Return the headers to pass on: those not hop-by-hop, not named by Connection, and not in `without`."""
    drop = _dropped(without)
    passed, connection = list[tuple[bytes, bytes]](), list[bytes]()
    for pair in headers:
        name = pair[0].lower()
        if name not in drop:
            passed.append(pair)
        elif name == b"connection":
            connection.append(pair[1])
    if hop_by_hop := tokens(connection):
        return [pair for pair in passed if pair[0].lower() not in hop_by_hop]
    return passed


_LABEL = re.compile(r"([A-Za-z0-9_.-]{1,64})=([^,]{0,256})")


def labels(headers: Headers) -> dict[str, str] | Refusal:
    """Read `X-Wiretape-Label: k=v[, k=v…]`; a label that is not `k=v` is refused rather than lost.

    A value that is not UTF-8 is taken for Latin-1, in which older clients write headers.
    """
    pairs: dict[str, str] = {}
    for name, value in headers:
        if name != b"x-wiretape-label":
            continue
        try:
            text = value.decode()
        except UnicodeDecodeError:
            text = value.decode("latin-1")
        for part in text.split(","):
            match = _LABEL.fullmatch(part.strip())
            if match is None:
                return Refusal(400, "a part of X-Wiretape-Label is not of the form key=value: separate labels by ','")
            pairs[match[1]] = match[2]
    return pairs
