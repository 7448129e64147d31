"""Sessions of hosted agents: the provider's id, which paths name, or the answer of the request that creates it. Pure.

OpenAI's Agents API has `/agents/sessions`, Claude's Managed Agents and their likes have `/sessions`, behind any prefix.
"""

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

import msgspec

from wiretape.recorder.decode.exchange import Exchange

if TYPE_CHECKING:
    from wiretape.recorder.decode.decoder import Decoded

# Sessions of voice and of chats in a page have such paths, too, and other events.
_PREFIX: Final = r"(?<!/live)(?<!/realtime)(?<!/chatkit)/sessions"
_TAILS: Final = "archive|artifacts|events|items|resources|subagents|threads|traces|turns"
_NAMED: Final = re.compile(rf"{_PREFIX}/([^/?]+)(?:/(?:{_TAILS})(?:/[^?]*)?)?/?(?:\?|$)")
_CREATED: Final = re.compile(rf"{_PREFIX}/?(?:\?|$)")


class _Session(msgspec.Struct):
    id: str = ""


class _Created(msgspec.Struct):
    """The answer that creates a session: the session itself, or of a stream the first event, which has it."""

    id: str = ""
    session: _Session = msgspec.field(default_factory=_Session)


def session_named(path: str) -> str | None:
    """Return the id of the hosted session that a path names; else None."""
    match = _NAMED.search(path) if "/sessions/" in path else None  # as of nearly no path
    return unquote(match[1]) if match else None


def creates_session(path: str) -> bool:
    """Return True if a hosted session is created by a POST to a path."""
    return "/sessions" in path and _CREATED.search(path) is not None


def session_id(exchange: Exchange, decoded: "Decoded") -> str | None:
    """Return the id of the hosted session that an exchange belongs to; None if it is of none."""
    if (session := session_named(exchange.path)) is not None:
        return session
    succeeded = exchange.status is not None and exchange.status < 300
    if exchange.method != "POST" or not succeeded or not decoded.kinds or not creates_session(exchange.path):
        return None
    from wiretape.recorder.decode.decoder import COMMENT  # it loads all dialects

    item = next((number for number, kind in enumerate(decoded.kinds) if kind != COMMENT), 0)
    try:
        created = msgspec.json.decode(decoded.item(item).data, type=_Created)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return (created.session.id if decoded.stream else created.id) or None
