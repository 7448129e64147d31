"""The proxies of others through which wiretape reaches hosts, as the environment or `--proxy` names them.

`Proxies` is pure. `reach` speaks with a proxy: `CONNECT` (RFC 9110, 9.3.6) or SOCKS 5 (RFC 1928 and 1929), always with
the host's name, as often only the proxy can resolve it. The bytes that follow are the host's: not one of them is read.
"""

import asyncio
import base64
import contextlib
import ipaddress
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote_to_bytes, urlsplit

from wiretape.recorder.destinations import is_loopback
from wiretape.recorder.errors import ConfigError, ProxyRefusal, UpstreamError
from wiretape.recorder.relay import sockets

OUTWARD = "WIRETAPE_PROXY"
"""Variable of the recorder's own proxy; a run within a run has the outer one as its proxy."""
HEAD_BYTES = 64 << 10
"""Limit of the head of a proxy's answer."""


@dataclass(frozen=True, slots=True)
class OutwardProxy:
    """A proxy: its scheme, address and credentials. As text it is its address, without the credentials."""

    scheme: str
    host: str
    port: int
    user: bytes | None = field(default=None, repr=False)
    password: bytes = field(default=b"", repr=False)

    def __str__(self) -> str:
        return _authority(self.host, self.port)

    @property
    def is_http(self) -> bool:
        """True for a proxy that takes requests of HTTP."""
        return self.scheme == "http"

    @property
    def authorization(self) -> list[tuple[bytes, bytes]]:
        """The header with the credentials; none without them."""
        if self.user is None:
            return []
        return [(b"Proxy-Authorization", b"Basic " + base64.b64encode(self.user + b":" + self.password))]


@dataclass(frozen=True, slots=True)
class Proxies:
    """The proxies for hosts that speak plain HTTP and for those with TLS, and the hosts `excluded` from them."""

    plain: OutwardProxy | None = None
    secure: OutwardProxy | None = None
    excluded: Sequence[str] = ()

    def of(self, scheme: str, host: str, port: int) -> OutwardProxy | None:
        """Return the proxy for a host; None: it is connected to directly.

        A proxy elsewhere cannot reach this machine's loopback.
        """
        proxy = self.secure if scheme == "https" else self.plain
        if proxy is None or (is_loopback(host) and not is_loopback(proxy.host)):
            return None
        return None if _excludes(self.excluded, host.lower().rstrip("."), port) else proxy

    def __iter__(self) -> Iterator[OutwardProxy]:
        return iter({proxy: None for proxy in (self.plain, self.secure) if proxy})

    def without(self, port: int) -> "Proxies":
        """Return these without a recorder at `port` of this machine: it cannot be its own proxy."""
        plain, secure = (
            None if proxy and proxy.port == port and is_loopback(proxy.host) else proxy
            for proxy in (self.plain, self.secure)
        )
        return Proxies(plain, secure, self.excluded)


def read(environ: Mapping[str, str], chosen: str | None = None) -> Proxies:
    """Return the proxies that an environment names, or the `chosen` one for all hosts, but those of `NO_PROXY`.

    Raises `ConfigError`, which quotes no value, for one that cannot be used.
    """

    def find(*names: str) -> OutwardProxy | None:
        spellings = [spelling for name in names for spelling in (name.lower(), name)]
        if "REQUEST_METHOD" in environ:  # CGI sets HTTP_PROXY to a header that anybody may send
            spellings = [spelling for spelling in spellings if spelling != "HTTP_PROXY"]
        name = next((name for name in spellings if environ.get(name, "").strip()), None)
        return None if name is None else parse(environ[name].strip(), name)

    excluded = (environ.get("no_proxy") or environ.get("NO_PROXY") or "").lower().replace(",", " ").split()
    if "*" in excluded:
        return Proxies()
    if chosen is not None:
        proxy = parse(chosen, "--proxy") if chosen else None
        return Proxies(proxy, proxy, excluded)
    if proxy := find(OUTWARD):
        return Proxies(proxy, proxy, excluded)
    return Proxies(find("HTTP_PROXY", "ALL_PROXY"), find("HTTPS_PROXY", "ALL_PROXY"), excluded)


_PORTS = {"http": 80, "socks5": 1080, "socks5h": 1080, "socks": 1080}
_SOCKS_BYTES = 255


def parse(text: str, name: str) -> OutwardProxy:
    """Return the proxy of a URL with or without a scheme. Raises `ConfigError`, which names the variable or option."""
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        host, port = parts.hostname, parts.port
    except ValueError:  # its message may quote a part of a password
        host = port = None
    if not host:
        raise ConfigError(
            f"{name} is not the URL of a proxy: it needs http://HOST:PORT, and special characters of the user and"
            " the password percent-encoded"
        )
    if parts.scheme not in _PORTS:
        raise ConfigError(
            f"{name} names a proxy by {parts.scheme}://, which wiretape does not speak: name it by http:// or"
            " socks5://, or set NO_PROXY='*' to connect without it"
        )
    user = None if parts.username is None else unquote_to_bytes(parts.username)
    password = unquote_to_bytes(parts.password or "")
    if parts.scheme != "http" and max(len(user or b""), len(password)) > _SOCKS_BYTES:
        raise ConfigError(f"{name} has a user or a password of more than {_SOCKS_BYTES} bytes, which SOCKS cannot have")
    return OutwardProxy(parts.scheme, host, port or _PORTS[parts.scheme], user, password)


_ENTRY = re.compile(r"(?:\*?\.)?(\[.*\]|[^:]+|.*:.*:.*)(?::(\d{1,5}))?")


def _excludes(entries: Sequence[str], host: str, port: int) -> bool:
    """Return True if `NO_PROXY` names a host: by a name, which holds for all below it, an address, or a network."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        address = None
    for entry in entries:
        match = _ENTRY.fullmatch(entry)
        if match is None or (match[2] and int(match[2]) != port):
            continue
        name = match[1].strip("[]").rstrip(".")
        if address is None:
            if host == name or host.endswith(f".{name}"):
                return True
            continue
        try:
            if address in ipaddress.ip_network(name, strict=False):
                return True
        except ValueError:  # a name
            continue
    return False


async def reach(proxy: OutwardProxy | None, host: str, port: int) -> socket.socket:
    """Open a connection to a host, through a tunnel if there is a proxy. Raises `OSError` and `UpstreamError`."""
    if proxy is None:
        return await sockets.connect(host, port)
    sock = await connect(proxy)
    try:
        with _naming_errors(proxy):
            await (_connect(sock, proxy, host, port) if proxy.is_http else _socks(sock, proxy, host, port))
    except BaseException:
        sock.close()
        raise
    return sock


async def connect(proxy: OutwardProxy) -> socket.socket:
    """Open a connection to a proxy. Raises `OSError`."""
    with _naming_errors(proxy):
        return await sockets.connect(proxy.host, proxy.port)


@contextlib.contextmanager
def _naming_errors(proxy: OutwardProxy) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        error.strerror = f"the proxy {proxy}: {error.strerror or type(error).__name__}"
        raise


_STATUS = re.compile(rb"HTTP/1\.\d ([1-5]\d\d)(?: ([\t -~\x80-\xff]*))?\r?\n")


async def _connect(sock: socket.socket, proxy: OutwardProxy, host: str, port: int) -> None:
    place = _authority(host, port).encode()
    lines = [b"CONNECT %b HTTP/1.1" % place, b"Host: %b" % place, *(b"%b: %b" % pair for pair in proxy.authorization)]
    sock.send(b"\r\n".join([*lines, b"\r\n"]))
    status, reason = 100, b""
    while status < 200:  # an informational answer precedes another one
        head = b""
        while not head.endswith((b"\r\n\r\n", b"\n\n")) and b"HTTP/1."[: len(head)] == head[:7]:
            head += await _byte(sock, proxy)
            if len(head) > HEAD_BYTES:
                break
        match = _STATUS.match(head)
        if match is None:
            raise UpstreamError("protocol", f"the proxy {proxy} answers CONNECT by something that is not HTTP")
        status, reason = int(match[1]), (match[2] or b"").strip()
    if status >= 300:
        cure = ": see the user and the password in its URL" if status == 407 else ""
        message = f"the proxy {proxy} answered {status} {reason.decode(errors='replace')}".rstrip()
        raise ProxyRefusal(status, reason, f"{message} to CONNECT{cure}")


_SOCKS_ERRORS = {
    1: "general failure", 2: "not allowed", 3: "network unreachable", 4: "host unreachable", 5: "connection refused",
    6: "TTL expired", 7: "command not supported", 8: "address type not supported",
}  # fmt: skip
_ADDRESS_BYTES = {1: 4, 4: 16}
"""Sizes of SOCKS's addresses by their type; a name (3) has its size before it."""


async def _socks(sock: socket.socket, proxy: OutwardProxy, host: str, port: int) -> None:
    async def take(size: int) -> bytes:
        return b"".join([await _byte(sock, proxy) for _ in range(size)])

    sock.send(b"\5\1\0" if proxy.user is None else b"\5\2\0\2")
    version, method = await take(2)
    if version != 5:
        raise UpstreamError("protocol", f"the proxy {proxy} does not speak SOCKS 5")
    user, password = proxy.user or b"", proxy.password
    if method == 2:
        sock.send(b"\1%c%b%c%b" % (len(user), user, len(password), password))
    if method not in (0, 2) or (method == 2 and (await take(2))[1]):
        raise UpstreamError("refused", f"the proxy {proxy} does not accept the user and the password in its URL")
    try:
        address = ipaddress.ip_address(host)
        place = (b"\1" if address.version == 4 else b"\4") + address.packed
    except ValueError:
        place = b"\3%c%b" % (len(host), host.encode())
    sock.send(b"\5\1\0%b%b" % (place, port.to_bytes(2)))
    _, failure, _, kind = await take(4)
    await take((_ADDRESS_BYTES.get(kind) or (await take(1))[0]) + 2)
    if failure:
        reason = _SOCKS_ERRORS.get(failure, f"error {failure}")
        raise UpstreamError("refused", f"the proxy {proxy} could not connect: {reason}")


async def _byte(sock: socket.socket, proxy: OutwardProxy) -> bytes:
    """Read one byte: the next one may be the host's."""
    data = None
    while data is None:
        try:
            data = sock.recv(1)
        except BlockingIOError:
            loop, readable = asyncio.get_running_loop(), asyncio.Event()
            loop.add_reader(sock, readable.set)
            try:
                await readable.wait()
            finally:
                loop.remove_reader(sock)
    if not data:
        raise UpstreamError("eof", f"the proxy {proxy} closed the connection without an answer")
    return data


def _authority(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
