"""The requests of an agent's session: each repeats the whole conversation."""

import json
import random
from typing import Any


def turns(
    count: int, *, marks: bool = False, system_first: bool = False, seed: int = 0, new: int = 1200
) -> list[bytes]:
    """Return the requests of a session, each with about `new` more bytes than the one before.

    With `marks`, the last two messages of the user have marks of a cache, as SDKs set them.
    """
    words = random.Random(seed)
    system = [{"type": "text", "text": _text(words, 1000)} for _ in range(10)]
    fixed: dict[str, Any] = {"system": system, "tools": [{"name": "bash", "description": _text(words, 4000)}]}
    messages: list[dict[str, Any]] = []
    bodies = []
    for turn in range(count):
        if turn:
            messages.append({"role": "assistant", "content": [{"type": "text", "text": _text(words, new // 3)}]})
        result = {"type": "tool_result", "tool_use_id": f"toolu_{turn}", "content": _text(words, new // 2)}
        messages.append({"role": "user", "content": [result]})
        unchanged = json.loads(json.dumps(messages))
        for message in unchanged[-3::2] if marks else ():
            message["content"][-1]["cache_control"] = {"type": "ephemeral"}
        spoken = {"messages": unchanged}
        parts = (fixed, spoken) if system_first else (spoken, fixed)
        bodies.append(
            json.dumps({"model": "m", **parts[0], **parts[1], "stream": True}, separators=(",", ":")).encode()
        )
    return bodies


def _text(words: random.Random, size: int) -> str:
    return " ".join(f"{words.getrandbits(24):x}" for _ in range(size // 7))
