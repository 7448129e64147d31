"""Pure: a recorded request as a command of curl that asks the upstream the same, without the recorder in between.

What was redacted stands in the command as a variable of the shell, named as the upstream's own tools name it; no secret
is known here. All else is quoted for a POSIX shell, as it came: recorded text is hostile, and the command will be
pasted into a terminal, so that a body with control characters goes in base64. Notes are no comments, which some
interactive shells do not know, but commands that do nothing. A key goes to the host that it belongs to alone.
"""

import base64
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import Final
from urllib.parse import quote, urlsplit

from recorder.plurals import counted
from viewer import formatting
from viewer.rows import Row

LONGEST: Final = 100_000
"""A longer body is none of the command's arguments, of which systems limit the length: the shell reads it by itself."""

_REDACTED: Final = re.compile(r"REDACTED:sha256:[0-9a-f]{8}")
_USER_INFO: Final = re.compile(r"(?<=//)[^/?#@]*@")
_BEARER: Final = '-H "Authorization: Bearer '
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OWN: Final = frozenset({
    "host", "content-length", "connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "expect",
    "accept-encoding", "proxy-connection", "proxy-authorization",
})  # fmt: skip
"""What curl says by itself, or was said to the recorder alone."""

_KEYS: Final = (
    ("openai.com", "OPENAI_API_KEY"),
    ("anthropic.com", "ANTHROPIC_API_KEY"), ("openrouter.ai", "OPENROUTER_API_KEY"), ("groq.com", "GROQ_API_KEY"),
    ("mistral.ai", "MISTRAL_API_KEY"), ("deepseek.com", "DEEPSEEK_API_KEY"), ("x.ai", "XAI_API_KEY"),
    ("together.xyz", "TOGETHER_API_KEY"), ("together.ai", "TOGETHER_API_KEY"), ("fireworks.ai", "FIREWORKS_API_KEY"),
    ("googleapis.com", "GEMINI_API_KEY"), ("huggingface.co", "HF_TOKEN"), ("perplexity.ai", "PERPLEXITY_API_KEY"),
    ("openai.azure.com", "AZURE_OPENAI_API_KEY"), ("nvidia.com", "NVIDIA_API_KEY"), ("cerebras.ai", "CEREBRAS_API_KEY"),
)  # fmt: skip
_KEY: Final = "API_KEY"
"""The key where the host does not say whose it is: nobody's by name, so that none goes to another's host."""

_KEY_HEADERS: Final = frozenset({"authorization", "x-api-key", "api-key", "x-goog-api-key"})


def command(
    method: str, upstream: str, path: str, headers: Iterable[Sequence[str]], body: bytes | None, size: int = 0
) -> str:
    """Give the command, over several lines; `headers` are [name, value], a `body` of `size` that is None unrecorded.

    What could not be said is said in notes before it.
    """
    url, parts = _url(upstream, path), ["curl -N"]
    key = _key(url)
    kept, left_out = _headers(headers, key)
    parts += ["--globoff"] if re.search(r"[][{}]", url) else []
    parts += ["--path-as-is"] if "/." in url else []
    posts = body is not None or size > 0
    parts += [f"-X {shlex.quote(formatting.line(method))}"] if method != ("POST" if posts else "GET") else []
    parts += [f"--url {_filled(url, key)}", *kept]
    if posts and not any(shown.lower().startswith("-h 'content-type:") for shown in kept):
        parts.append("-H 'content-type:'")  # else curl names one of its own
    notes = [f"left out, as its value is not recorded: {name}" for name in left_out]
    notes += ["left out: the user and the password of the URL"] if _USER_INFO.search(upstream) else []
    notes += [f"the body of {counted(size, 'byte')} is not recorded"] if body is None and size else []
    if key == _KEY and any(shown.startswith(_BEARER) for shown in kept):
        notes.append("the scheme of Authorization is not recorded: Bearer is a guess")
    told = "".join(f": {_quoted(note)}\n" for note in notes)
    return told + _with_body(parts, body)


def of(asked: Row, body: bytes | None) -> str:
    """Give the command of a request's row, as `rows.request` gives it, and its body as it came."""
    return command(asked["method"], asked["upstream"], asked["path"], asked["headers"], body, asked["size"] or 0)


def _with_body(parts: list[str], body: bytes | None) -> str:
    apart = " \\\n  "
    if not body:
        return apart.join(parts)
    text = _plain(body)
    if text is not None:
        return apart.join([*parts, f"--data-raw {shlex.quote(text)}"])
    encoded = base64.encodebytes(body).decode("ascii")
    return f"base64 --decode <<'END' | {apart.join([*parts, '--data-binary @-'])}\n{encoded}END"


def _plain(body: bytes) -> str | None:
    """Give a body as text if it is one that can be pasted as it is; None if not."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None
    harmless = len(body) <= LONGEST and all(sign.isprintable() or sign == "\n" for sign in text)
    return text if harmless else None


def _url(upstream: str, path: str) -> str:
    between = "" if path.startswith(("/", "?")) or not path else "/"  # else a path could go on with the host
    whole = _USER_INFO.sub("", upstream).rstrip("/") + between + path
    return "".join(sign if sign.isprintable() and sign != " " else quote(sign, errors="replace") for sign in whole)


def _headers(headers: Iterable[Sequence[str]], key: str) -> tuple[list[str], list[str]]:
    """Give the headers as options, and the names of those that cannot be given."""
    kept, left_out = [], []
    for name, value in headers:
        if name.lower() in _OWN:
            continue
        shown = _header(name, value, key)
        if shown is None:
            left_out.append(formatting.line(name))
        else:
            kept.append(shown)
    return kept, left_out


def _header(name: str, value: str, key: str) -> str | None:
    if not _TOKEN.fullmatch(name) or not value.isprintable():
        return None
    if not _REDACTED.search(value):
        return f"-H {_quoted(f'{name}: {value}' if value.strip() else f'{name};')}"
    if name.lower() not in _KEY_HEADERS or not _REDACTED.fullmatch(value):
        return None
    return f'{_BEARER}${key}"' if name.lower() == "authorization" else f'-H "{name}: ${key}"'


def _key(url: str) -> str:
    """Name the variable that holds the key of a URL's host."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:  # no host that could be known, so nobody's key
        host = ""
    by_host = (variable for domain, variable in _KEYS if host == domain or host.endswith(f".{domain}"))
    return next(by_host, _KEY)


def _filled(text: str, variable: str) -> str:
    """Quote a text in which a variable stands for what was redacted."""
    return f'"${variable}"'.join(_pieces(text)) or "''"


def _pieces(text: str) -> Iterator[str]:
    for piece in _REDACTED.split(text):
        yield _quoted(piece) if piece else ""


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\"'\"'") + "'"
