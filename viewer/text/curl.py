"""Pure: a recorded request as a curl command that sends it to the upstream directly.

A redacted value becomes a variable of the shell, named as the upstream's own tools name it: no secret is known here. A
key goes only to the host that it belongs to. Recorded text is hostile, and the command will be pasted into a terminal:
everything else is quoted for a POSIX shell, and a body with control characters goes in base64. Notes are commands that
do nothing, because some interactive shells do not know comments.
"""

import base64
import re
import shlex
from collections.abc import Iterable, Sequence
from typing import Final
from urllib.parse import quote, urlsplit

from wiretape.recorder.plurals import counted
from wiretape.viewer.record.rows import RequestRow
from wiretape.viewer.text import formatting

LONGEST: Final = 100_000
"""A longer body is no argument of the command, because systems limit their length: it goes through a pipe."""

_REDACTED: Final = re.compile(r"REDACTED:sha256:[0-9a-f]{8}")
_USER_INFO: Final = re.compile(r"(?<=//)[^/?#@]*@")
_BEARER: Final = '-H "Authorization: Bearer '
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NOT_REPEATED: Final = frozenset({
    "host", "content-length", "connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "expect",
    "accept-encoding", "proxy-connection", "proxy-authorization",
})  # fmt: skip
"""Headers that curl sends by itself, and headers for the recorder alone."""

KEYS: Final = (
    ("openai.com", "OPENAI_API_KEY"),
    ("anthropic.com", "ANTHROPIC_API_KEY"), ("openrouter.ai", "OPENROUTER_API_KEY"), ("groq.com", "GROQ_API_KEY"),
    ("mistral.ai", "MISTRAL_API_KEY"), ("deepseek.com", "DEEPSEEK_API_KEY"), ("x.ai", "XAI_API_KEY"),
    ("together.xyz", "TOGETHER_API_KEY"), ("together.ai", "TOGETHER_API_KEY"), ("fireworks.ai", "FIREWORKS_API_KEY"),
    ("googleapis.com", "GEMINI_API_KEY"), ("huggingface.co", "HF_TOKEN"), ("perplexity.ai", "PERPLEXITY_API_KEY"),
    ("openai.azure.com", "AZURE_OPENAI_API_KEY"), ("nvidia.com", "NVIDIA_API_KEY"), ("cerebras.ai", "CEREBRAS_API_KEY"),
    ("cohere.com", "CO_API_KEY"),
)  # fmt: skip
"""The variable that holds the key of a host, as the host's own tools name it."""
_ANY_KEY: Final = "API_KEY"
"""The variable for a host that is not known: nobody's by name, so that no key goes to another's host."""

_KEY_HEADERS: Final = frozenset({"authorization", "x-api-key", "api-key", "x-goog-api-key"})


def of(row: RequestRow) -> str:
    """Return the command for a request, over several lines."""
    exchange = row.exchange
    url = exchange.upstream, exchange.path
    return command(exchange.method, *url, row.headers, row.body, row.size, exchange.protocol)


def command(
    method: str,
    upstream: str,
    path: str,
    headers: Iterable[Sequence[str]],
    body: bytes | None,
    size: int | None = 0,
    protocol: str | None = None,
) -> str:
    """Return the command, over several lines; notes before it list the parts that it cannot send.

    `headers` are [name, value]; a `body` of None with a `size` is one that was not recorded.
    """
    between = "" if path.startswith(("/", "?")) or not path else "/"  # else a path could go on with the host
    url = _USER_INFO.sub("", upstream).rstrip("/") + between + path
    url = "".join(sign if sign.isprintable() and sign != " " else quote(sign, errors="replace") for sign in url)
    options = ["curl -N"]
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:  # no host that can be known, so nobody's key
        host = ""
    by_host = (variable for domain, variable in KEYS if host == domain or host.endswith(f".{domain}"))
    key = next(by_host, _ANY_KEY)
    if protocol == "h2" and url.startswith("http:"):  # over TLS, curl speaks it where the server does
        options.append("--http2-prior-knowledge")
    header_options, left_out = _headers(headers, key)
    options += ["--globoff"] if re.search(r"[][{}]", url) else []
    options += ["--path-as-is"] if "/." in url else []
    posts = bool(body is not None or size)
    options += [f"-X {shlex.quote(formatting.line(method))}"] if method != ("POST" if posts else "GET") else []
    options += [f"--url {_with_variable(url, key)}", *header_options]
    if posts and not any(option.lower().startswith("-h 'content-type:") for option in header_options):
        options.append("-H 'content-type:'")  # else curl sends one of its own
    notes = [f"left out, as its value is not recorded: {name}" for name in left_out]
    notes += ["left out: the user and the password of the URL"] if _USER_INFO.search(upstream) else []
    notes += [f"the body of {counted(size, 'byte')} is not recorded"] if body is None and size else []
    if key == _ANY_KEY and any(option.startswith(_BEARER) for option in header_options):
        notes.append("the scheme of Authorization is not recorded: Bearer is a guess")
    return "".join(f": {_quoted(note)}\n" for note in notes) + _with_body(options, body)


def _with_body(options: list[str], body: bytes | None) -> str:
    between = " \\\n  "
    if not body:
        return between.join(options)
    text = _plain_text(body)
    if text is not None:
        return between.join([*options, f"--data-raw {shlex.quote(text)}"])
    encoded = base64.encodebytes(body).decode("ascii")
    return f"base64 --decode <<'END' | {between.join([*options, '--data-binary @-'])}\n{encoded}END"


def _plain_text(body: bytes) -> str | None:
    """Return a body as text that can be pasted as it is; None if it cannot."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None
    return text if len(body) <= LONGEST and all(sign.isprintable() or sign == "\n" for sign in text) else None


def _headers(headers: Iterable[Sequence[str]], key: str) -> tuple[list[str], list[str]]:
    """Return the headers as options, and the names of those that cannot be sent."""
    options, left_out = [], []
    for name, value in headers:
        if name.lower() in _NOT_REPEATED:
            continue
        if not _TOKEN.fullmatch(name) or not value.isprintable():
            option = None
        elif not _REDACTED.search(value):
            option = f"-H {_quoted(f'{name}: {value}' if value.strip() else f'{name};')}"
        elif name.lower() not in _KEY_HEADERS or not _REDACTED.fullmatch(value):
            option = None
        else:
            option = f'{_BEARER}${key}"' if name.lower() == "authorization" else f'-H "{name}: ${key}"'
        if option is None:
            left_out.append(formatting.line(name))
        else:
            options.append(option)
    return options, left_out


def _with_variable(text: str, variable: str) -> str:
    """Quote a text in which a variable stands for a redacted value."""
    return f'"${variable}"'.join(_quoted(piece) if piece else "" for piece in _REDACTED.split(text)) or "''"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\"'\"'") + "'"
