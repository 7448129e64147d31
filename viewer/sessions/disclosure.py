"""Pure: the filter of recorded texts for a report to strangers.

Recorded text is hostile, and may hold prompts, keys, paths and names of machines. A text is quoted only if it is a
plain name: letters, digits and a few signs without a meaning in Markdown, HTML or a tracker. All others are left out,
not repaired.
"""

import ipaddress
import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Final
from urllib.parse import urlsplit

from wiretape.recorder.relay import apis
from wiretape.recorder.sanitize import clipped, safe
from wiretape.recorder.tape.redact import Redactor, shows_secret

LOCAL: Final = "a local server"
OTHER: Final = "a server of no known provider"

LONGEST: Final = 80
"""Most characters of a name that are quoted."""

_READ: Final = 1024
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._:/+=-]|@(?=[0-9]))*", re.ASCII)
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*", re.ASCII)
_COMMIT: Final = re.compile(r"[0-9a-f]{7,64}", re.IGNORECASE)
_PLACE: Final = re.compile(
    r"[A-Za-z]:/|.*//|.*\.\.|(?:arn:|projects/)|(?:.*[/:])?(?:home|users|root|mnt|media|opt|srv|tmp|var|volumes|private)/"
    r"|.*/.*\.(?:gguf|ggml|bin|pt|pth|onnx|safetensors|json|ya?ml|py|js|ts)$"
    r"|.*\.(?:localhost|local|localdomain|internal|intranet|lan|home|corp|private|arpa)(?![A-Za-z0-9_-])"
    r"|(?:.*[^0-9.])?[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?![0-9.])",
    re.IGNORECASE,
)
"""Paths, URLs, names of resources that begin with an account, and of machines in private networks."""
_COMMENT: Final = re.compile(r"\([^()]*\)")
_VERSION: Final = (
    r"v?[0-9]{1,8}(?:\.[0-9]{1,8}){0,3}(?:[-.+]?(?:a|b|rc|alpha|beta|dev|pre|post|canary)[.-]?[0-9]{0,9})?"
)
_PRODUCT: Final = re.compile(rf"([A-Za-z][A-Za-z0-9_-]{{0,31}})/({_VERSION})(?![A-Za-z0-9])", re.ASCII)
_LANGUAGE: Final = re.compile(r"([A-Za-z][A-Za-z0-9_-]{0,31}/[A-Za-z]{1,16})", re.ASCII)
_ALONE: Final = re.compile(rf"({_VERSION})(?![A-Za-z0-9])", re.ASCII)
_REGION: Final = re.compile(r"[a-z]{2}(?:-[a-z]{2,12}-[0-9])?")


class Disclosure:
    """The rule for quoting; texts with a `private` word, such as the name of this machine, are left out."""

    def __init__(self, private: Iterable[str] = ()) -> None:
        # A shorter word is a part of too many texts.
        self._words = sorted({word for word in private if len(word) >= 3})
        words = "|".join(map(re.escape, self._words)) or r"(?!)"
        self._private = re.compile(rf"(?<![A-Za-z0-9])(?:{words})(?![A-Za-z0-9])", re.IGNORECASE)

    def hiding_hosts(self, urls: Iterable[object]) -> "Disclosure":
        """Return the same rule, for which the hosts of these URLs are private, too, unless they are a provider's."""
        return Disclosure([*self._words, *(host for host in map(_host, urls) if host and apis.at_host(host) is None)])

    def name(self, text: object) -> str | None:
        """Return a model, an id or a code as a report quotes it; None if it is unknown or no plain name."""
        if not isinstance(text, str) or len(text) > _READ or _NAME.fullmatch(text) is None:
            return None
        if _PLACE.match(text) or shows_secret(text) or self._private.search(text):
            return None
        return clipped(text, LONGEST)

    def word(self, text: object) -> str | None:
        """Return a name as it may stand in a sentence, where a tracker looks for references; None if it is no word."""
        name = self.name(text)
        # What looks like a commit becomes a link in a tracker.
        return name if name and _WORD.fullmatch(name) and not _COMMIT.fullmatch(name) else None

    def text(self, text: str, most: int) -> str:
        """Return the beginning of a text that its user wants to show, without keys and private words."""
        # Masked before it is cut: the half of a key is not recognised as one.
        masked = self._private.sub("…", Redactor(None).text(text[: 2 * most]))
        return clipped(safe(masked, multiline=True), most)

    def client(self, user_agent: object) -> list[str]:
        """Return the products and versions that a User-Agent names, at most four: not its comments, nor other words."""
        return list(self._products(user_agent))[:4] if isinstance(user_agent, str) else []

    def _products(self, user_agent: str) -> Iterator[str]:
        text = user_agent[:_READ]
        # From the inside out, as comments nest (RFC 9110, 5.6.5); `_READ` limits the passes.
        while text != (text := _COMMENT.sub(" ", text)):
            pass
        language_name = ""
        for token in text.partition("(")[0].split():
            if product := _PRODUCT.match(token):
                named_product = f"{product[1]}/{product[2]}"
            elif language_name and (version := _ALONE.match(token)):  # as in "OpenAI/Python 1.70.0"
                named_product = f"{language_name} {version[1]}"
            else:
                language = _LANGUAGE.fullmatch(token)
                language_name = language[1] if language else ""
                continue
            language_name = ""
            if not (shows_secret(named_product) or self._private.search(named_product)):
                yield named_product

    def upstream(self, url: object) -> str:
        """Return the host of a known provider, without the part that names an account; else `LOCAL` or `OTHER`."""
        host = _host(url)
        if host is None:
            return OTHER
        if _is_local(host):
            return LOCAL
        api = apis.at_host(host)
        if api is None or len(host) > LONGEST or not host.isascii() or self._private.search(host):
            return OTHER
        patterns = [
            pattern for pattern in api.hosts if fnmatchcase(host, pattern) and pattern.count(".") == host.count(".")
        ]
        account, _, domain = host.partition(".")
        # Customers choose the first part of such a host, as a resource of Azure.
        names_account = all(pattern.startswith("*.") for pattern in patterns) and _REGION.fullmatch(account) is None
        return f"*.{domain}" if names_account else host


def _host(url: object) -> str | None:
    """Return the host of a URL, or of a Host header; None if it has none."""
    try:
        parts = urlsplit(url if "//" in url else f"//{url}") if isinstance(url, str) else None
        return (parts.hostname or "").rstrip(".") or None if parts else None
    except ValueError:
        return None


_LOCAL_SUFFIXES: Final = (
    ".localhost", ".local", ".localdomain", ".internal", ".intranet", ".lan", ".home", ".corp", ".private", ".arpa",
)  # fmt: skip


def _is_local(host: str) -> bool:
    try:
        return not ipaddress.ip_address(host.partition("%")[0]).is_global
    except ValueError:
        return "." not in host or host.endswith(_LOCAL_SUFFIXES)
