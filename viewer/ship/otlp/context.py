"""Pure: the trace that a request belongs to, as its `traceparent` and `tracestate` say (W3C Trace Context)."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_SAMPLED: Final = 0x01
_REMOTE: Final = 0x300
"""Bits of a span's flags: it is known whether the parent is of another process, and it is."""

_PARENT = re.compile(r"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_ID = re.compile(r"(?!0{16})[0-9a-f]{16}")
_STATE = re.compile(r"[\x20-\x7e\t]{1,512}")


@dataclass(frozen=True, slots=True)
class Context:
    """The place of a span: without a `parent`, it begins a trace. `is_sampled`: the trace's beginner keeps it."""

    trace: bytes
    span: bytes
    parent: bytes = b""
    state: str = ""
    flags: int = _SAMPLED
    is_sampled: bool = True


def context(exchange_id: str, headers: Sequence[Sequence[str]]) -> Context:
    """Return the place of the span of an exchange, the same on every call.

    The span has the exchange's own id. Where the request has no valid `traceparent`, a trace begins.
    """
    known = _ID.fullmatch(exchange_id)
    span = bytes.fromhex(exchange_id) if known else _derived("span", exchange_id)[:8]
    parent = _parent(_values(headers, "traceparent"))
    if parent is None:
        return Context(_derived("trace", exchange_id), span)
    trace, caller, flags = parent
    state = ",".join(_values(headers, "tracestate"))
    return Context(
        bytes.fromhex(trace),
        span,
        bytes.fromhex(caller),
        state if _STATE.fullmatch(state) else "",
        flags | _REMOTE,
        bool(flags & _SAMPLED),
    )


def _values(headers: Sequence[Sequence[str]], name: str) -> list[str]:
    return [value.strip(" \t") for key, value in headers if key.lower() == name]


def _parent(values: Sequence[str]) -> tuple[str, str, int] | None:
    """Return the ids and flags of a `traceparent`; None unless there is one, of a version that can be read."""
    match = _PARENT.fullmatch(values[0]) if len(values) == 1 else None
    if match is None or (match[1] == "00" and match[5] is not None):
        return None
    return match[2], match[3], int(match[4], 16)


def _derived(kind: str, exchange_id: str) -> bytes:
    return hashlib.sha256(f"wiretape {kind} {exchange_id}".encode("utf-8", "replace")).digest()[:16]
