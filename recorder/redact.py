"""Pure: what never reaches the disk.

Credentials are replaced by a short keyed hash of themselves, so that two exchanges made with the same key can be told
from two made with different ones, and the key cannot be read back. The hash's key (the *salt*) is random for each tape.
Header and query names are judged by a list and by patterns: an unknown header whose name speaks of a key, a token, a
secret, a password, a cookie or of authentication is redacted too. Bodies are not touched: they are what is recorded.
"""

import hashlib
import hmac
import re
from collections.abc import Iterable
from urllib.parse import unquote_plus

_SECRET_NAME = re.compile(
    r"auth|cookie|secret|passw|credential|signature|session-?id|assertion"
    r"|^code$|(^|[-_.\[])(api-?_?key|apikey|key|token|sig|jwt|pwd|sas)\]?$|apikey|api[-_]key|access[-_]?key|-token-|[-_]token$|token$"
    r"|bearer|(^|[-_.])pass(wd|word|phrase)?$",
    re.IGNORECASE,
)
_CHALLENGES = frozenset({"www-authenticate", "proxy-authenticate"})
_HARMLESS = _CHALLENGES | {"idempotency-key", "x-idempotency-key", "sec-websocket-key"}
_PREFIXES = (
    r"(?:sk|xai|pplx|csk|fw)-", r"gsk_", r"hf_", r"r8_", r"nvapi-", r"gh[pousr]_", r"github_pat_", r"glpat-",
    r"hv[sbr]\.", r"sk_(?:live|test)_", r"ya29\.", r"npm_", r"xox[abprs]-", r"AKIA", r"AIza",
)  # fmt: skip
_SECRET_VALUE = re.compile(
    r"^\s*(?:token|digest|apikey)\s+\S|(?<![\w-])(?:bearer|basic)\s+\S{8,}"
    r"|(?<![\w-])eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"
    rf"|(?<![\w-])(?:{'|'.join(_PREFIXES)})[\w-]{{8,}}",
    re.IGNORECASE,
)
_ADDRESSES = frozenset({"location", "content-location", "referer", "link"})
_USER_INFO = re.compile(r"(?<=//)[^/?#\s<>@]+(?:@[^/?#\s<>@]+)*(?=@)")
_BETWEEN_FIELDS = re.compile(r"([?&;#])")


class Redactor:
    """Replaces credentials by `REDACTED:sha256:` and 8 hex digits of an HMAC-SHA-256 keyed with `salt`."""

    def __init__(self, salt: bytes) -> None:
        self._salt = salt

    def mark(self, secret: str) -> str:
        """Give the mark that stands for `secret`; equal secrets have equal marks on the same tape."""
        digest = hmac.new(self._salt, secret.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()
        return f"REDACTED:sha256:{digest[:8]}"

    def headers(self, pairs: Iterable[tuple[bytes, bytes]]) -> list[list[str]]:
        """Give header pairs as `[name, value]` text in the order they came, credentials replaced."""
        return [[name.decode("latin-1").lower(), self._header(name, value)] for name, value in pairs]

    def _header(self, name: bytes, value: bytes) -> str:
        text, label = value.decode("latin-1"), name.decode("latin-1").lower()
        if label in _CHALLENGES or (label in _HARMLESS and not _SECRET_VALUE.search(text)):
            return text
        if label in _ADDRESSES:
            return self.url(text)
        if is_secret_name(label) or _SECRET_VALUE.search(text):
            return self.mark(_bare(text))
        return self.url(text)  # for names like X-Original-Url, and parameters like `; token=…`

    def path(self, path: str) -> str:
        """Give a request's path and query (or fragment) with secret values replaced."""
        head, *rest = _BETWEEN_FIELDS.split(path)
        head = _SECRET_VALUE.sub(lambda found: self.mark(found[0]), head)
        return head + "".join(piece if place % 2 == 0 else self._field(piece) for place, piece in enumerate(rest))

    def _field(self, field: str) -> str:
        name, equals, value = field.partition("=")
        secret = is_secret_name(unquote_plus(name)) or _SECRET_VALUE.search(unquote_plus(value))
        return f"{name}={self.mark(unquote_plus(value))}" if equals and value and secret else field

    def url(self, url: str) -> str:
        """Give a URL with its user info and its secret values replaced."""
        return self.path(_USER_INFO.sub(lambda found: self.mark(found[0]), url))


def is_secret_name(name: str) -> bool:
    """Say whether a header or query key of this name carries a credential."""
    name = name.strip().lower()
    return name not in _HARMLESS and bool(_SECRET_NAME.search(name))


def _bare(value: str) -> str:
    """Drop the scheme word, so that the same key has the same mark in `Authorization` and in `x-api-key`."""
    scheme, space, rest = value.strip().partition(" ")
    return rest.strip() if space and scheme.lower() in ("bearer", "token", "apikey") else value.strip()
