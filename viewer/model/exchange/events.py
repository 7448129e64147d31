"""Pure: what an event says, in one line: its words, or what else matters of it."""

import json
from typing import Any, Final

from viewer.model.exchange.transcript import OUTPUT, Transcript
from viewer.model.text import json_spans

_SHOWN: Final = 200
_LARGEST: Final = 16_384


def of(transcript: Transcript, event: int) -> str:
    """Give what an event says: what it adds, in quotes; why the answer ended, its tokens, or how its bytes begin."""
    kind = transcript.kind(event)
    if kind in OUTPUT and (text := transcript.text(event)):
        return f"'{said(text[:_SHOWN])}'"
    start = transcript.starts[event]
    data = transcript.data[start : min(transcript.ends[event], start + _LARGEST)].decode("utf-8", "replace")
    payload = data.partition("data:")[2].strip() if "data:" in data else data.strip()
    if kind == "malformed":
        return _malformed(transcript.bytes(event))[:_SHOWN]
    telling = {"finish": _finish, "usage": _usage, "role": _role, "error": _error}.get(kind)
    if telling is not None:
        try:
            return telling(json.loads(payload))[:_SHOWN]
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return payload[:_SHOWN]
    return payload[:_SHOWN]


def said(text: str) -> str:
    """Give what was said as the tape's own texts have it, where NUL cannot stand: on every screen the same."""
    return text.replace("\0", "\ufffd")


def _malformed(block: bytes) -> str:
    """Give from where on an event cannot be read, and how its data begins."""
    payload = json_spans.payload(block.rstrip(b"\r\n"))
    fault = json_spans.fault(payload) if len(payload) <= _LARGEST else None
    return f"{fault.short if fault else 'no JSON'}: {payload[:_SHOWN].decode('utf-8', 'replace').strip()}"


def _finish(chunk: Any) -> str:
    return ", ".join(str(choice["finish_reason"]) for choice in chunk["choices"] if choice.get("finish_reason"))


def _usage(chunk: Any) -> str:
    usage = chunk["usage"]
    return f"{usage['prompt_tokens']} in, {usage['completion_tokens']} out"


def _role(chunk: Any) -> str:
    return str(chunk["choices"][0]["delta"]["role"])


def _error(chunk: Any) -> str:
    error = chunk["error"]
    return str(error if isinstance(error, str) else error["message"])
