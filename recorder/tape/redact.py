"""Pure: detection and redaction of credentials, which never reach the disk.

Credentials are replaced by a short keyed hash of themselves, so that exchanges of one key can be distinguished
from those of others, and the key cannot be read back. The hash's key (the *salt*) is random for each tape.

A credential is detected by the name of its header, query field or label, or by its looks: `sk-…`, a JWT, user info in a
URL, a `name=value` or "Incorrect API key provided: …" within a longer text. Percent-encoding hides neither. A key that
was sent in a header is recognised in all other headers, also without such looks. In doubt a value is replaced; counts
and limits stay readable, such as `x-ratelimit-remaining-tokens`. Bodies are not touched: they are the recording.
"""

import functools
import hashlib
import hmac
import re
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import quote, unquote_plus

from wiretape.recorder.sanitize import safe

# Neither authors nor authorities are credentials, nor are tokenizers and limits of tokens.
_STEM = re.compile(
    r"auth(?!ors?(?:-|$)|orit)|cookie|secret|passw|passphrase|credential|signature|session-?id|assertion|bearer"
    r"|token(?!iz|limit)|(?:api|access|private|signing|subscription|license|master|service|account)-?key"
)
_SENT = re.compile(
    r"(?:^|[-_])(?:authorization|(?:access|api|auth|functions|subscription)[-_]?(?:key|token)|security-token|secret)$"
)
"""Names of headers whose credential is also recognised in other headers."""
_STRUCTURAL = frozenset({"content-type", "content-encoding", "content-length", "sec-websocket-extensions"})
"""Values that decoding needs: they stay, even if a client sends one as its key."""

_PREFIXES = (
    r"(?:sk|rk|pk|xai|pplx|csk|fw|pcsk|sess|tvly|glpat|pypi)-", r"gsk_", r"hf_", r"r8_", r"nvapi-", r"gh[pousr]_",
    r"github_pat_", r"hv[sbr]\.", r"[spr]k_(?:live|test|prod)_", r"ya29\.", r"npm_", r"xox[abeprs]-", r"dop_v1_",
    r"whsec_", r"jina_", r"vck_", r"shp(?:at|ca|pa|ss)_", r"lin_api_", r"AIza", r"(?-i:A[KS]IA|SG\.|eyJ)",
    r"xapp-", r"gl(?:dt|rt|ptt|cbt|ft|soat|imt|agent)-", r"do[or]_v1_", r"dapi(?=[0-9a-f]{32})", r"tgp_v1_", r"pcsk_",
    r"lsv2_(?:pt|sk)_", r"figd_", r"sb_secret_", r"glsa_", r"glc_", r"sntry[su]_", r"dckr_pat_", r"rubygems_",
    r"pscale_(?:tkn|pw|oauth)_", r"apify_api_", r"NRAK-", r"PMAK-", r"HRKU-", r"GOCSPX-", r"bedrock-api-key-",
    r"ABSKQmVk", r"sq0(?:atp|csp)-", r"wandb_v1_", r"bkua_", r"CCIPAT_", r"AGE-SECRET-KEY-", r"dp\.(?:pt|st|ct|sa)\.",
    r"bot\d{3,16}:", r"\d{6,12}:(?=AA[\w-]{32,40}(?![\w-]))",
)  # fmt: skip
KEY_PREFIXES = "|".join(_PREFIXES)
_KEY = rf"(?<![A-Za-z0-9-])(?:{KEY_PREFIXES})"
_NO_CHALLENGE = r"(?!(?:realm|charset|scope|error\w*|\w+_(?:id|issuers|metadata|uri))\s*=)"
"""Exclude the parameters of a challenge, as in `Bearer realm="api"`."""
_LOOKS_SECRET = re.compile(
    rf"^\s*(?:token|digest|apikey)\s+{_NO_CHALLENGE}\S.*|(?<![\w-])(?:bearer|basic)\s+{_NO_CHALLENGE}\S{{8,}}"
    rf"|{_KEY}[\w-]{{4}}[\w.=-]*",
    re.IGNORECASE,
)
# "Basic authentication" and "hf_hub_download" are words of a sentence: a key is long, or has a digit.
_LOOKS_SECRET_IN_TEXT = re.compile(
    rf"(?<![\w-])(?:bearer|basic)\s+{_NO_CHALLENGE}(?-i:(?=\S*(?:[0-9=]|[a-z][A-Z])))\S{{8,}}"
    rf"|{_KEY}(?=[\w.=-]{{20}}|[\w.=-]*\d)[\w-]{{4}}[\w.=-]*",
    re.IGNORECASE,
)
# All repetitions are bounded: a search from each word to the end of the text would take quadratic time.
_NAMED_IN_TEXT = re.compile(
    r"(?<![a-z])((?:(?:api)?key|token|secret|password|passphrase|credential|jwt)[^\w%]{1,4}"
    r"(?:(?:is|was|not|has|been|the|value|provided|supplied|given|sent|received|used|found|specified|in|valid|incorrect"
    r"|expired|unknown|rejected|revoked|disabled)[^\w%]{1,4}){0,4})"
    r"(?=[\w.~+/=-]{0,64}\d)([\w.~+/=-]{16,})",
    re.IGNORECASE,
)
# A name begins at its first character only: to begin at each would take quadratic time on a long one without a value.
_PAIR = re.compile(r"""(?<![\w%\[\]-])([\w%\[\]-]+)["'\\]*\s*[=:]\s*["'\\]*([^\s"'\\&;,?#<>{}]+)""")
# The variable that holds the password of our own proxy is no password: commands to copy name it.
_USER_INFO = re.compile(r"(?<=[:/]/)(?!wiretape:\$WIRETAPE_PROXY_PASSWORD@)[^/?#\s<>@]+(?:@[^/?#\s<>@]+)*(?=@)")
_ORIGIN = re.compile(r"\s*<?[a-z][a-z0-9+.-]*://[^/?#]*", re.IGNORECASE)
_KEY_LIKE = re.compile(r"(?=.*\d)[\w.~+=-]{16,}")
_OPAQUE = re.compile(r"(?<![\w.-])(?=[\w-]{0,64}\d)[\w-]{16,}(?![\w-]|\.\w)")
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
_BEFORE_KEY = frozenset({"key", "api-key", "apikey", "token", "access-token", "secret"})
_SIMPLE = re.compile(r"[^=:%@+]*")
_PLAIN_PATH = re.compile(r"(?:/[A-Za-z0-9_.~-]{0,15})*")
"""A path without a query, with segments too short to be keys after one of `_BEFORE_KEY`."""
_SENTENCE = re.compile(r"[\w%\[\]-]+: [a-z]{1,6} [a-z]")
"""A path's last word and the first words of a sentence about it: `/etc/passwd: its format is …` has no password."""
_ENCODED_LEVELS = 3
"""Levels of percent-encoding that are looked through: a proxy may encode a second time, no known client a third."""
_CACHE_SIZE = 512
"""Headers, URLs and texts remembered: a program sends the same ones again and again."""


class Redactor:
    """Replaces credentials by `REDACTED:sha256:` and 8 hex digits of an HMAC-SHA-256 keyed with `salt`.

    Without a salt, as for screens and logs, the mark is `REDACTED` alone.
    """

    def __init__(self, salt: bytes | None) -> None:
        self._salt = salt
        self._known_header = functools.lru_cache(_CACHE_SIZE)(self._header)
        self._known_url = functools.lru_cache(_CACHE_SIZE)(self._url)
        self._known_keys = dict[str, str]()
        """The marks of the keys that were sent last, the newest last."""
        self._known_path = functools.lru_cache(_CACHE_SIZE)(self._path)

    def mark(self, secret: str) -> str:
        """Return the mark that stands for `secret`; equal secrets have equal marks on the same tape."""
        if self._salt is None:
            return "REDACTED"
        digest = hmac.new(self._salt, secret.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()
        return f"REDACTED:sha256:{digest[:8]}"

    def headers(self, pairs: Iterable[tuple[bytes, bytes]]) -> list[list[str]]:
        """Return header pairs as `[name, value]` text in the order they came, credentials replaced."""
        headers = [self._known_header(name, value) for name, value in pairs]
        for _, _, spellings in headers:
            for spelling in spellings:
                self._known_keys[spelling] = self._known_keys.pop(spelling, "") or self.mark(spellings[0])
            while len(self._known_keys) > 64:
                del self._known_keys[next(iter(self._known_keys))]
        return [[name, value if name in _STRUCTURAL else self._without_known_keys(value)] for name, value, _ in headers]

    def _without_known_keys(self, text: str) -> str:
        for key, mark in self._known_keys.items():
            if key in text:
                text = text.replace(key, mark)
        return text

    def _header(self, raw_name: bytes, raw_value: bytes) -> tuple[str, str, tuple[str, ...]]:
        """Return a name and a value without credentials, and the spellings of its key, which others may repeat."""
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        stored_name = self.mark(name) if _LOOKS_SECRET.search(name) else name
        words = value.split() if _SENT.search(name) else []
        # A key that is short, or has no digit, could be a word of any other header.
        is_key = bool(words) and 16 <= len(words[-1]) < 4096 and any(map(str.isdigit, words[-1]))
        key = words[-1] if is_key else ""
        return stored_name, self._value(name, value), tuple(dict.fromkeys((key, quote(key, safe="")))) if key else ()

    def _value(self, name: str, value: str) -> str:
        if name in ("www-authenticate", "proxy-authenticate"):
            return self._challenge(value)
        if is_secret(name, value):
            return self.mark(_bare(value))
        if name == "sec-websocket-protocol":  # browsers can send no other header: keys are put here
            parts = [part.strip() for part in value.split(",")]
            return ", ".join(self.mark(part) if _is_key_like(part) else part for part in parts)
        if value.startswith("/") or _ORIGIN.match(value):
            return self.url(value)
        return self.mark(_bare(value)) if shows_secret(value) else value

    def _challenge(self, value: str) -> str:
        """Return a challenge with the opaque values in it replaced; its other parameters stay readable."""
        readable, plain = self._readable(value), value
        for _ in range(_ENCODED_LEVELS if "%" in value else 0):
            plain = unquote_plus(plain)
        hides_key = self._readable(plain).count("REDACTED") > readable.count("REDACTED")
        return self.mark(value) if hides_key else readable

    def _readable(self, challenge: str) -> str:
        def mark(match: re.Match[str]) -> str:
            return match[0] if _UUID.fullmatch(match[0]) else self.mark(match[0])

        return _OPAQUE.sub(mark, self.text(challenge))

    def labels(self, labels: Mapping[str, str]) -> dict[str, str]:
        """Return labels with credentials replaced."""
        redacted = {}
        for name, value in labels.items():
            # Words such as `key` and `pass` name a credential in a header; in a label they may name any short value.
            names_secret = _STEM.search(_normal(name)) is not None or _KEY_LIKE.fullmatch(value) is not None
            is_credential = (names_secret and is_secret(name, value)) or shows_secret(value)
            redacted[self.text(name)] = self.mark(value) if is_credential else value
        return redacted

    def url(self, url: str) -> str:
        """Return a URL with its user info and its secret values replaced."""
        return self._known_url(url)

    def _url(self, url: str) -> str:
        origin = _ORIGIN.match(url)
        end = origin.end() if origin else 0
        return self._without_user_info(url[:end]) + self.path(url[end:])

    def path(self, path: str) -> str:
        """Return a request's path and query (or fragment) with secret values replaced."""
        if _PLAIN_PATH.fullmatch(path) and not any(map(_looks_secret, path.split("/"))):
            return path
        return self._known_path(path)

    def _path(self, path: str) -> str:
        segments, *query = re.split(r"([?&;#])", self._without_user_info(path))
        fields = (piece if index % 2 == 0 else self._field(piece) for index, piece in enumerate(query))
        return "/".join(self._segments(segments)) + "".join(fields)

    def _without_user_info(self, url: str) -> str:
        return _USER_INFO.sub(lambda match: self.mark(match[0]), url)

    def _segments(self, path: str) -> Iterator[str]:
        previous = ""
        for segment in path.split("/"):
            plain = unquote_plus(segment)
            if _LOOKS_SECRET.fullmatch(plain) or (_KEY_LIKE.fullmatch(plain) and _normal(previous) in _BEFORE_KEY):
                yield self.mark(plain)
            else:
                yield self._field(_LOOKS_SECRET.sub(lambda match: self.mark(match[0]), segment))
            previous = segment

    def _field(self, field: str) -> str:
        name, equals, value = field.partition("=")
        plain = unquote_plus(value)
        if equals and value and not shows_secret(name) and (is_secret(name, plain) or shows_secret(plain)):
            return f"{name}={self.mark(plain)}"
        return self.mark(unquote_plus(field)) if shows_secret(field) else field

    def text(self, text: str) -> str:
        """Return text for people, such as an error message, with everything that looks like a credential replaced."""
        for pattern in (_USER_INFO, _LOOKS_SECRET_IN_TEXT):
            text = pattern.sub(lambda match: self.mark(match[0]), text)
        text = _NAMED_IN_TEXT.sub(lambda match: match[1] + self.mark(match[2]), text)
        return _PAIR.sub(self._pair, text)

    def _pair(self, match: re.Match[str]) -> str:
        pair, name, value = match[0], match[1], match[2]
        preceding = match.string[max(match.start() - 1, 0) : match.start()]
        if preceding == "/" and _SENTENCE.match(match.string, match.start()):
            return pair
        in_query = preceding in ("?", "&")
        is_credential = is_secret(name, value) and (in_query or _names_credential(name, value))
        return pair.removesuffix(value) + self.mark(value) if is_credential else pair


_SHOWN = Redactor(None)


@functools.lru_cache(_CACHE_SIZE)
def shown(text: str) -> str:
    """Return text for a screen or a log: one line that is safe to show, without credentials."""
    return safe(_SHOWN.text(text))


def message(text: str) -> str:
    """Return the line by which a command reports something on standard error; errors and targets may quote a key."""
    return f"wiretape: {shown(text)}"


@functools.lru_cache(_CACHE_SIZE)
def _looks_secret(segment: str) -> bool:
    """Return True if a segment of a path looks like a credential; ids differ from path to path, the others do not."""
    return not segment.isdigit() and _LOOKS_SECRET.search(segment) is not None


def _names_credential(name: str, value: str) -> bool:
    """Return True if a sentence names a credential: `Invalid key: model`, `"code": 400`, `max_tokens: must` do not."""
    if _KEY_LIKE.fullmatch(value):
        return True
    _, names_quantity = _judged(name)
    is_word = value.lower() in ("null", "none", "true", "false") or "://" in value
    return not names_quantity and not is_word and _STEM.search(_normal(name)) is not None


def _is_key_like(text: str) -> bool:
    return shows_secret(text) or (_KEY_LIKE.fullmatch(text) is not None and not text.startswith("openai-beta."))


_NUMBER = re.compile(r"\s*-?\d{1,12}(?:\.\d{1,12})?(?:\s*(?:ms|s|m|h|d))?\s*")


def is_secret(name: str, value: str) -> bool:
    """Return True if the name of a header or a query field says that its value is a credential."""
    names_secret, names_quantity = _judged(name) if len(name) <= 64 else _judged.__wrapped__(name)
    return names_secret and not (names_quantity and _NUMBER.fullmatch(value))


_WORDS = frozenset({
    "access", "csrf", "hmac", "jwt", "keys", "otp", "pass", "pat", "pin", "psk", "pwd", "sas", "sid", "sig", "xsrf",
})  # fmt: skip
_HARMLESS = re.compile(
    r"(?:[\w-]+-)?idempotency-key|sec-websocket-key|access-control-.*|.*(?:rate-?limit|tokenlimit).*"
)
_QUANTITY = re.compile(
    r"(?:^|-)(?:age|budget|cost|count|limit|max|min|ms|num|remaining|reset|seconds|size|spend|tokens|total|ttl|used?)(?:-|$)"
)


@functools.lru_cache(1024)
def _judged(name: str) -> tuple[bool, bool]:
    """Return whether a name is that of a credential, and whether it is that of a quantity."""
    plain = _normal(name)
    if _HARMLESS.fullmatch(plain):
        return False, False
    words = (word.rstrip("0123456789") for word in plain.split("-"))
    is_word = any(word in _WORDS or word.endswith("key") for word in words)
    return is_word or plain == "code" or _STEM.search(plain) is not None, _QUANTITY.search(plain) is not None


def shows_secret(text: str) -> bool:
    """Return True if a part of a text looks like a credential, also percent-encoded."""
    if _SIMPLE.fullmatch(text):
        return bool(_LOOKS_SECRET.search(text) or _NAMED_IN_TEXT.search(text))
    for _ in range(_ENCODED_LEVELS):
        if _LOOKS_SECRET.search(text) or _USER_INFO.search(text) or _NAMED_IN_TEXT.search(text):
            return True
        if any(is_secret(match[1], match[2]) for match in _PAIR.finditer(text)):
            return True
        plain = unquote_plus(text)
        if plain == text:
            return False
        text = plain
    return True  # encoded more often than any client does


_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SEPARATORS = re.compile(r"[^a-z0-9]+")


def _normal(name: str) -> str:
    """Return a name in lower case with its words separated by `-`: `api%5FKey` and `apiKey` are `api-key`."""
    for _ in range(_ENCODED_LEVELS):
        name = unquote_plus(name)
    return _SEPARATORS.sub("-", _CAMEL.sub("-", name).lower()).strip("-")


def _bare(value: str) -> str:
    """Drop the scheme word, so that the same key has the same mark in `Authorization` and in `x-api-key`."""
    scheme, space, credential = value.strip().partition(" ")
    return credential.strip() if space and scheme.lower() in ("bearer", "token", "apikey") else value.strip()
