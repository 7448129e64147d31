"""Pure: upstreams, how requests are routed to them, and the table of well-known public APIs.

An upstream comes from the command line or the environment at start, never from a request.
"""

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit

WELL_KNOWN = {
    "openai": "https://api.openai.com",
    "anthropic": "https://api.anthropic.com",
    "openrouter": "https://openrouter.ai/api",
    "groq": "https://api.groq.com/openai",
    "mistral": "https://api.mistral.ai",
    "deepseek": "https://api.deepseek.com",
    "gemini": "https://generativelanguage.googleapis.com",
    "together": "https://api.together.xyz",
    "fireworks": "https://api.fireworks.ai/inference",
    "xai": "https://api.x.ai",
    "perplexity": "https://api.perplexity.ai",
    "cerebras": "https://api.cerebras.ai",
    "ollama": "http://127.0.0.1:11434",
    "vllm": "http://127.0.0.1:8000",
}
"""Served at `/NAME/…` by `wiretape record` without an `--upstream`."""

SDK_VARIABLES = {
    "OPENAI_BASE_URL": ("openai", "/v1"),
    "OPENAI_API_BASE": ("openai", "/v1"),
    "ANTHROPIC_BASE_URL": ("anthropic", ""),
}
"""Environment variable → the API that it points an SDK at, and the path that this SDK expects to be part of it."""

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*", re.ASCII)
_HOST = re.compile(r"[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*\.?", re.ASCII | re.IGNORECASE)
_HOST_LENGTH = 253
_PATH = re.compile(r"[\x21-\x7e]*")


@dataclass(frozen=True, slots=True)
class Upstream:
    """An API server: its name below which it is served ("" at the root) and its base URL, in parts."""

    name: str
    url: str
    scheme: str
    host: str
    port: int
    authority: bytes
    prefix: bytes
    authorization: bytes | None

    def target(self, rest: bytes) -> bytes:
        """Return the request target upstream for the path and query `rest`."""
        return self.prefix + rest


def parse(text: str) -> Upstream:
    """Parse `URL` or `NAME=URL`. Raise ValueError, saying what is wrong, if it is neither."""
    name, equals, url = text.partition("=")
    if not equals or "/" in name or ":" in name:
        name, url = "", text
    elif not _NAME.fullmatch(name):
        raise ValueError(f"upstream name {name!r} may only have lower-case letters, digits, '-' and '_'")
    return make(name, url)


def make(name: str, url: str) -> Upstream:
    """Return the upstream of a base URL. Raise ValueError, saying what is wrong with it, if it is none."""
    parts, port = _split(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("an upstream must be a URL such as https://api.openai.com, or NAME=URL")
    if parts.query or parts.fragment:
        raise ValueError("an upstream's URL may not have a query or a fragment")
    if not _PATH.fullmatch(parts.path):
        raise ValueError("an upstream's URL must have its path percent-encoded")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else _ascii_host(parts.hostname)
    authority = host if port is None else f"{host}:{port}"
    return Upstream(
        name=name,
        url=url.rstrip("/"),
        scheme=parts.scheme,
        host=parts.hostname if ":" in parts.hostname else host,
        port=port or (443 if parts.scheme == "https" else 80),
        authority=authority.encode(),
        prefix=parts.path.rstrip("/").encode("ascii"),
        authorization=_basic(parts.username, parts.password),
    )


def _split(url: str) -> tuple[SplitResult, int | None]:
    try:
        parts = urlsplit(url)
        return parts, parts.port
    except ValueError as error:  # whose words may quote a part of a password
        message = "an upstream's URL needs a valid host and port, and special characters of user info percent-encoded"
        raise ValueError(message) from error


def _ascii_host(host: str) -> str:
    """Return a host name as it is looked up: other scripts in IDNA 2008, and nothing that no name has."""
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


def well_known() -> list[Upstream]:
    """Return the well-known APIs as upstreams."""
    return [make(name, url) for name, url in WELL_KNOWN.items()]


def route(upstreams: Sequence[Upstream], target: bytes) -> tuple[Upstream, bytes] | None:
    """Return the upstream for a request target and the path below it; None if no upstream is at that path."""
    for upstream in upstreams:
        mount = b"/" + upstream.name.encode()
        if upstream.name and target.startswith(mount) and target[len(mount) : len(mount) + 1] in (b"", b"/", b"?"):
            rest = target[len(mount) :]
            return upstream, rest if rest.startswith(b"/") else b"/" + rest
    unnamed = next((upstream for upstream in upstreams if not upstream.name), None)
    return (unnamed, target) if unnamed else None


def sdk_bases(base: str, upstreams: Sequence[Upstream]) -> dict[str, str]:
    """Return the SDK variables' values for a recorder at `base`; a variable whose API is not served is left out."""
    bases: dict[str, str] = {}
    for variable, (name, suffix) in SDK_VARIABLES.items():
        for mount in (name, ""):
            serving = next((upstream for upstream in upstreams if upstream.name == mount), None)
            if serving is not None:
                bases.setdefault(variable, sdk_base(base, serving, suffix))
    return bases


def sdk_of(upstream: Upstream) -> str:
    """Return the variable that points an SDK at an upstream: that of its API, by name or host, else OpenAI's."""
    own = (
        variable
        for variable, (name, _) in SDK_VARIABLES.items()
        if upstream.name == name or urlsplit(WELL_KNOWN[name]).hostname == upstream.host
    )
    return next(own, "OPENAI_BASE_URL")


def sdk_base(base: str, upstream: Upstream, suffix: str) -> str:
    """Return the base URL to point an SDK at; without `suffix` if the upstream's own URL has a version in its path."""
    mount = f"{base}/{upstream.name}" if upstream.name else base
    return mount if re.search(rb"/v\d\w*$", upstream.prefix) else mount + suffix
