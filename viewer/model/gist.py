"""Pure: what an event says, in one line: its words, or what else matters of it."""

import json
from typing import Any, Final

from viewer.model.transcript import OUTPUT, Transcript

_SHOWN: Final = 200
_LARGEST: Final = 16_384


def of(transcript: Transcript, event: int) -> str:
    """Give what an event says: what it adds, in quotes; why the answer ended, its tokens, or how its bytes begin."""
    kind = transcript.kind(event)
    if kind in OUTPUT and (text := transcript.text(event)):
        return f"'{text[:_SHOWN]}'"
    start = transcript.starts[event]
    data = transcript.data[start : min(transcript.ends[event], start + _LARGEST)].decode("utf-8", "replace")
    payload = data.partition("data:")[2].strip() if "data:" in data else data.strip()
    telling = {"finish": _finish, "usage": _usage, "role": _role, "error": _error}.get(kind)
    if telling is not None:
        try:
            return telling(json.loads(payload))[:_SHOWN]
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return payload[:_SHOWN]
    return payload[:_SHOWN]


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
