"""Pure: a recorded request made ready for its repetition: target, key, headers, path and body.

- A key comes from the environment: the tape has only marks of keys. A header with a mark is left out, and a request
  with a mark in its body or its path is refused.
- A key goes to the host that it belongs to, over TLS or to this machine.
- Headers are those of the recorded request, without those of one attempt: a provider may answer a repeated
  `Idempotency-Key` from its store, and ids of traces and requests would join two requests that are none.
"""

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlencode

from wiretape.recorder.clock import SYSTEM, wall_ns
from wiretape.recorder.decode.operation import GENERATIONS
from wiretape.recorder.destinations import is_loopback
from wiretape.recorder.relay import guard, providers
from wiretape.recorder.relay.providers import Upstream
from wiretape.viewer.record.rows import RequestRow, TableRow
from wiretape.viewer.stats.prices import Names, Prices, Usage
from wiretape.viewer.text.curl import KEYS

MARK: Final = "REDACTED:sha256:"
"""The beginning of a redacted credential's mark."""
_KEY_HEADERS: Final = ("authorization", "x-api-key", "x-goog-api-key", "api-key")
_HEADER_OF: Final = {
    "ANTHROPIC_API_KEY": "x-api-key", "GEMINI_API_KEY": "x-goog-api-key", "AZURE_OPENAI_API_KEY": "api-key",
}  # fmt: skip
"""The header of an API's key where it is not `Authorization`, by the variable of `KEYS`."""
_OF_CONNECTION: Final = {name.decode() for name in guard.HOP_BY_HOP} | {"host", "content-length", "expect"}
_OF_ATTEMPT: Final = re.compile(
    r"(?:x-)?idempotency-key|traceparent|tracestate|baggage|x-b3-.*|b3|x-wiretape-.*|(?:x-)?(?:client-)?request-id"
    r"|x-correlation-id|x-stainless-retry-count|x-retry-count|authorization|cookie|(?:x-)?api-key|x-goog-api-key|x-amz-.*"
)
_SIGNED: Final = re.compile(r"(?:.*\.)?amazonaws\.com(?:\.cn)?|(?:.*[.-])?aiplatform\.googleapis\.com")
_MODEL_IN_PATH: Final = re.compile(r"(?:(?<=/models/)|(?<=/deployments/))[^/:?]+")
FACTS: Final = (
    "id", "started_at", "operation", "api", "framing", "method", "path", "upstream", "upstream_name", "model",
    "response_model", "request_truncated", "turn", "flags", "input_tokens", "input_uncached_tokens", "output_tokens",
    "reasoning_tokens", "cache_read_input_tokens", "cache_write_input_tokens", "cache_write_1h_input_tokens",
)  # fmt: skip
"""The fields of a recorded exchange that resending takes."""


class CannotResend(ValueError):
    """A request, or a target, for which nothing is sent; the message says why."""


@dataclass(frozen=True, slots=True)
class Target:
    """An API server, and its key with the variable that held it, None without a key."""

    upstream: Upstream
    variable: str | None = None
    key: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class ResentRequest:
    """A recorded exchange, and its request as it is sent; `cost` is the estimate in units of prices, None: unknown."""

    recorded: TableRow
    started_ns: int
    target: Target
    path: str
    headers: Sequence[tuple[str, str]] = field(repr=False)
    body: bytes = field(repr=False)
    model: str | None
    cost: int | None


def target(upstream: Upstream, key_from: str | None, environ: Mapping[str, str] = os.environ) -> Target:
    """Return an API with its key. Raises `CannotResend` if the key is missing, or may not go there."""
    host = upstream.host.lower()
    if _SIGNED.fullmatch(host):
        raise CannotResend(f"{host} wants each request signed, which resend does not do: name another target by --to")
    is_local = is_loopback(host)
    variable = key_from or (None if is_local else _variable_of(host))
    if (variable or upstream.authorization) and upstream.scheme != "https" and not is_local:
        raise CannotResend(f"{upstream.url} has no TLS: a key goes over TLS, or to this machine, only")
    if variable is None:
        return Target(upstream)
    if not (key := environ.get(variable, "")):
        raise CannotResend(f"{variable} is not set: it has the key of {host}; set it, or name another by --key-from")
    if not key.isascii() or not key.isprintable():
        raise CannotResend(f"{variable} is no key: it has characters that no header may have")
    return Target(upstream, variable, key)


def _variable_of(host: str) -> str | None:
    return next((name for domain, name in KEYS if host == domain or host.endswith(f".{domain}")), None)


def check(recorded: TableRow, request: RequestRow) -> None:
    """Raise `CannotResend` if a request is no generation over HTTP, or not on the tape as a whole."""
    if recorded["operation"] not in GENERATIONS:
        raise CannotResend(f"{recorded['operation'] or 'unknown'}, no generation")
    if recorded["framing"] == "websocket":
        raise CannotResend("a WebSocket")
    if request.body is None or recorded["request_truncated"] or len(request.body) != request.known_size:
        raise CannotResend("its request is not on the tape as a whole")
    if MARK.encode() in request.body:
        raise CannotResend("a redacted value is in its body")


def resent(recorded: TableRow, request: RequestRow, target: Target, model: str | None, prices: Prices) -> ResentRequest:
    """Return a checked request as it is sent. Raises `CannotResend` for one that is not."""
    path, has_key = _without_key(recorded["path"])
    headers = [
        (name, value)
        for name, value in request.headers
        if (low := name.lower()) not in _OF_CONNECTION and not _OF_ATTEMPT.fullmatch(low) and MARK not in value
    ]
    body = request.body or b""
    if model is not None:
        path, body = _asking(model, path, request)
        headers = [(name, value) for name, value in headers if name.lower() != "content-encoding"]
    route = providers.route([replace(target.upstream, name="")], path.encode("ascii", "replace"))
    assert route is not None  # one at the root takes every path
    if target.key:
        header = _HEADER_OF.get(_variable_of(target.upstream.host.lower()) or "", "authorization")
        if _variable_of(target.upstream.host.lower()) is None:  # an unknown API: as its client sent it
            names = {name.lower() for name, _ in request.headers}
            recorded_header = next((name for name in _KEY_HEADERS if name in names), "authorization")
            header = "x-goog-api-key" if has_key else recorded_header
        elif header == "x-goog-api-key" and "/openai/" in path:  # Google's form of OpenAI's API
            header = "authorization"
        headers.append((header, f"Bearer {target.key}" if header == "authorization" else target.key))
    answered_by = None if model else recorded["response_model"]
    names_of_price = Names(model or recorded["model"], answered_by, target.upstream.url, recorded["api"])
    cost = prices.cost(names_of_price, SYSTEM.wall(), _usage(recorded))
    started_ns = wall_ns(recorded["started_at"]) or 0
    return ResentRequest(recorded, started_ns, target, route[1].decode(), headers, body, names_of_price.model, cost)


def _without_key(path: str) -> tuple[str, bool]:
    """Return a path without a key in its query, and whether it had one."""
    place, _, query = path.partition("?")
    pairs = parse_qsl(query, keep_blank_values=True)
    others = [(name, value) for name, value in pairs if not (name == "key" and MARK in value)]
    has_key = len(others) != len(pairs)
    if has_key:
        path = place + (f"?{urlencode(others)}" if others else "")
    if MARK in unquote(path):
        raise CannotResend("a redacted value is in its path")
    return path, has_key


def _asking(model: str, path: str, request: RequestRow) -> tuple[str, bytes]:
    """Return the path and the body that ask another model."""
    body = request.plain or b""
    try:
        value = json.loads(body)
    except ValueError:
        value = None
    model_path, count = _MODEL_IN_PATH.subn(lambda _: quote(model, safe="@"), path)
    if isinstance(value, dict) and "model" in value:
        body = json.dumps({**value, "model": model}, ensure_ascii=False, separators=(",", ":")).encode()
    elif not count:
        raise CannotResend("it names no model that --model could replace")
    return model_path, body


def _usage(recorded: TableRow) -> Usage:
    output = recorded["output_tokens"]
    if output is not None and "reasoning_additive" in recorded["flags"]:
        output += recorded["reasoning_tokens"] or 0
    cached = (recorded[f"cache_{name}_input_tokens"] for name in ("read", "write", "write_1h"))
    return Usage(recorded["input_uncached_tokens"], output, *cached)
