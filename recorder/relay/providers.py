"""Pure: upstreams, how requests are routed to them, and where programs are pointed to reach them.

An upstream comes from the command line or the environment at start, never from a request.
"""

import base64
import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit

from wiretape.recorder.relay import apis, guard
from wiretape.recorder.relay.apis import Api, Variable


@dataclass(frozen=True, slots=True)
class Upstream:
    """An API server: its name below which it is served ("" at the root) and its base URL, in parts.

    `api` is the well-known API that is there, if it is known to be. `version` ends the URL, such as `/v1`, if one does.
    """

    name: str
    url: str
    scheme: str
    host: str
    port: int
    authority: bytes
    prefix: bytes
    authorization: bytes | None
    api: str | None = None
    version: bytes = b""

    def __hash__(self) -> int:
        return hash(self.url)  # a hash of all fields would cost more, in each exchange


_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*", re.ASCII)


def parse(text: str) -> Upstream:
    """Parse `URL`, `NAME=URL`, or the name of a well-known API. Raise ValueError with the reason if it is none."""
    if text in apis.BY_NAME:
        if not apis.BY_NAME[text].url:
            raise ValueError(f"{text} has a URL for each account or region: add yours, {text}=https://…")
        text = f"{text}={apis.BY_NAME[text].url}"
    name, equals, url = text.partition("=")
    if not equals or "/" in name or ":" in name:
        name, url = "", text
    elif not _NAME.fullmatch(name):
        raise ValueError(f"upstream name {name!r} may only have lower-case letters, digits, '-' and '_'")
    upstream = make(name, url)
    return dataclasses.replace(upstream, api=upstream.api or (name if name in apis.BY_NAME else None))


_PATH = re.compile(r"[\x21-\x7e]*")
_VERSION = re.compile(rb"/v\d\w*$")


def make(name: str, url: str) -> Upstream:
    """Return the upstream of a base URL. Raise ValueError with the reason if it is none."""
    parts, port = _split(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("an upstream must be a URL such as https://api.openai.com, or NAME=URL")
    if parts.query or parts.fragment:
        raise ValueError("an upstream's URL may not have a query or a fragment")
    if not _PATH.fullmatch(parts.path):
        raise ValueError("an upstream's URL must have its path percent-encoded")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else _ascii_host(parts.hostname)
    authority = host if port is None else f"{host}:{port}"
    prefix = parts.path.rstrip("/").encode("ascii")
    version = _VERSION.search(prefix)
    return Upstream(
        name=name,
        url=url.rstrip("/"),
        scheme=parts.scheme,
        host=parts.hostname if ":" in parts.hostname else host,
        port=port or (443 if parts.scheme == "https" else 80),
        authority=authority.encode(),
        prefix=prefix,
        authorization=_basic(parts.username, parts.password),
        api=api_of(host),
        version=version[0] if version else b"",
    )


def _split(url: str) -> tuple[SplitResult, int | None]:
    try:
        parts = urlsplit(url)
        return parts, parts.port
    except ValueError as error:  # its message may quote a part of a password
        message = "an upstream's URL needs a valid host and port, and special characters of user info percent-encoded"
        raise ValueError(message) from error


_HOST = re.compile(r"[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*\.?", re.ASCII | re.IGNORECASE)
_HOST_LENGTH = 253


def _ascii_host(host: str) -> str:
    """Return a host name for a lookup: other scripts in IDNA 2008, without invalid characters."""
    problem = ""
    if not host.isascii() or "xn--" in host:
        import idna  # its tables take a while to load, and few need them

        try:
            host = idna.encode(host, uts46=True).decode()
            idna.decode(host)
        except UnicodeError as error:
            problem = f" ({error})"
    if problem or not _HOST.fullmatch(host) or len(host) > _HOST_LENGTH:
        raise ValueError(f"the upstream's host {host[:80]!r} is no host name{problem}: see whether the URL is right")
    return host


def _basic(username: str | None, password: str | None) -> bytes | None:
    if username is None and password is None:
        return None
    pair = f"{unquote(username or '')}:{unquote(password or '')}".encode()
    return b"Basic " + base64.b64encode(pair)


def api_of(host: str) -> str | None:
    """Return the name of the API that a host serves; None for any other host."""
    api = apis.at_host(host)
    return api.name if api else None


def well_known() -> list[Upstream]:
    return [parse(f"{api.name}={api.url}") for api in apis.APIS if api.url]


def route(upstreams: Sequence[Upstream], target: bytes) -> tuple[Upstream, bytes] | None:
    """Return the upstream for a request target and the path below it; None if no upstream is at that path."""
    unnamed: Upstream | None = None
    for upstream in upstreams:
        if not upstream.name:
            unnamed = unnamed or upstream
            continue
        mount = b"/" + upstream.name.encode()
        if target.startswith(mount) and target[len(mount) : len(mount) + 1] in (b"", b"/", b"?"):
            path = target[len(mount) :]
            return upstream, _versioned(upstream, path if path.startswith(b"/") else b"/" + path)
    return (unnamed, _versioned(unnamed, target)) if unnamed else None


def location(upstream: Upstream, target: bytes, base: bytes) -> bytes:
    """Return an address in the head of an answer for a client at `base`, wiretape's own origin.

    One at the upstream leads to the upstream's place at wiretape, as reverse proxies have it: the client would leave
    with its next request, and drop its key. Any other stays as it is.
    """
    url = upstream.scheme.encode() + b":" + target if target.startswith(b"//") else target
    if split := guard.absolute_origin(url):
        origin, path = split
        if (origin.scheme, origin.host, origin.port) != (upstream.scheme, upstream.host.lower(), upstream.port):
            return target
    else:
        base, path = b"", target
    path_below = path.removeprefix(upstream.prefix)
    if not path.startswith(upstream.prefix + b"/") and (path == path_below or path_below[:1] not in (b"", b"?", b"#")):
        return target
    place = b"/%b%b" % (upstream.name.encode(), path_below) if upstream.name else path_below
    return base + (place if place.startswith(b"/") else b"/" + place)


def relocated(upstream: Upstream, headers: guard.Headers, base: bytes) -> list[tuple[bytes, bytes]]:
    """Return the headers of an answer with each `location` for a client at `base`."""
    return [
        (name, location(upstream, value, base)) if name.lower() in guard.LOCATIONS else (name, value)
        for name, value in headers
    ]


_OPERATION = re.compile(
    rb"/(?:chat/completions|completions|responses|messages|embeddings|models|images|audio|files|batches|moderations)"
    rb"(?=[/?]|$)"
)
"""Paths below the version of an API, if it has one."""


def _versioned(upstream: Upstream, path: bytes) -> bytes:
    """Return a path with the API's version once: programs expect it as a part of the base URL, or they do not."""
    api = apis.BY_NAME[upstream.api] if upstream.api else None
    if api and upstream.prefix and path.startswith(upstream.prefix + b"/"):
        return path[len(upstream.prefix) :]
    if version := upstream.version:
        while path.startswith(version + b"/"):
            path = path[len(version) :]
        return path
    while path.startswith(b"/v1/v1/"):
        path = path[len(b"/v1") :]
    return api.version.encode() + path if api and api.version and _OPERATION.match(path) else path


def sdk_bases(base: str, upstreams: Sequence[Upstream]) -> dict[str, str]:
    """Return the variables' values for a recorder at `base`; a variable whose API is not served is left out.

    A key never goes to another provider: an upstream is of the API that it is named after or whose host it has. One
    without either, a server of the user's own, gets what OpenAI's variables say, and no other.
    """
    bases: dict[str, str] = {}
    for upstream in sorted(
        upstreams, key=lambda provider: provider.name not in apis.BY_NAME
    ):  # one with the API's name first
        for variable in api_variables(upstream):
            if variable.path is not None:
                bases.setdefault(variable.name, sdk_base(base, upstream, variable.path))
    return bases


def api_variables(upstream: Upstream) -> tuple[Variable, ...]:
    """Return the variables that may be pointed at an upstream."""
    api: Api | None = apis.BY_NAME.get(upstream.name) or apis.BY_NAME.get(upstream.api or "")
    if api is None and not upstream.name:
        api = apis.BY_NAME["openai"]
    return api.variables if api else ()


def sdk_base(base: str, upstream: Upstream, path: str) -> str:
    """Return the base URL to point an SDK at; without `path` if the upstream's own URL has a version in its path."""
    mount = f"{base}/{upstream.name}" if upstream.name else base
    return mount if upstream.version else mount + path
