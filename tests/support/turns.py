"""Exchanges of agents for tests: requests that repeat the messages before them."""

import json
from typing import Any

from tests.support.frames import begin, exchange
from wiretape.recorder.tape import journal

ASKED = {"role": "user", "content": "Hi"}
ANSWERED = {"role": "assistant", "content": "Hello"}
MORE = {"role": "user", "content": "More"}


def turn(
    id: str, *messages: Any, path: str = "/v1/chat/completions", headers: dict[str, str] | None = None, **body: Any
) -> list[journal.Frame]:
    """Return the frames of an exchange whose answer is `ANSWERED`."""
    encoded = json.dumps({"model": "m", "messages": list(messages), **body}).encode()
    pairs = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
    return [begin(id, body=encoded, headers=pairs, path=path), *exchange(id)[1:]]
