"""The conversation that a request's client names, and hashes that identify the exchange it continues.

One exchange is read alone: its readers group exchanges into conversations, by these values of each:

1. The key of the conversation that the client names, or the key of the one that started it.
2. The response that the request names as the previous one.
3. The messages before the last answer in the request (`continues_hash`) are all the messages of an earlier request
   (`messages_hash`), of a client that names the same conversation, or none.
4. These messages, and the last answer in the request is that of the earlier exchange (`continued_answer_hash`,
   `answer_hash`), whatever conversation is named: many first requests are equal, but not their answers.
5. A retry has the messages of the failed attempt before it.

Where a request names a stored response or conversation, it has the new messages alone, whose hash would tell nothing.

The headers are those on the tape: if the value of one was redacted to a keyed hash, that hash is the key. What clients
send was seen in requests of Claude Code 2.1 (`x-claude-code-session-id`, `metadata.user_id`), Codex 0.169
(`session-id`, formerly `session_id`) and opencode 1.18 (`x-session-id`), in the code of opencode (`x-opencode-session`,
`x-parent-session-id`) and of Gemini CLI 0.61 (`request.session_id`), and is documented by OpenAI (`conversation`),
OpenRouter (`x-session-id`, `session_id`), LiteLLM, Helicone and LangSmith (the fields of `metadata`). A user, or a key
of a cache (`prompt_cache_key`), is no conversation: many have the same.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, takewhile
from typing import Any, Final

from wiretape.recorder.decode.elements import PROMPTED
from wiretape.recorder.decode.encoding import Cleaner, uncoded
from wiretape.recorder.decode.exchange import Operation
from wiretape.recorder.decode.operation import GENERATIONS
from wiretape.recorder.decode.prompt import (
    Message,
    Part,
    Prompt,
    Text,
    ToolCall,
    ToolResult,
    canonical,
    is_element,
    without_elements,
)
from wiretape.recorder.decode.request import decoded, parse, prompt_of
from wiretape.recorder.decode.values import JsonObject, text

_HEADERS: Final = (
    "x-claude-code-session-id", "x-session-id", "session-id", "session_id", "x-opencode-session", "helicone-session-id",
)  # fmt: skip
_PARENT: Final = "x-parent-session-id"
_AGENT: Final = "x-claude-code-agent-id"
_RETRIES: Final = "x-stainless-retry-count"
"""Of the SDKs that Stainless generates, such as OpenAI's and Anthropic's."""
_NAMING: Final = frozenset({*_HEADERS, _PARENT, _AGENT, _RETRIES})
_UNNAMED: Final[JsonObject] = dict.fromkeys(
    ("conversation_key", "conversation_key_from", "conversation_parent", "previous_response_id", "retries")
)
_COUNT: Final = re.compile("[0-9]{1,6}")
_SESSION_OF_USER: Final = re.compile(r"_session_([0-9a-f-]{36})$")


@dataclass(frozen=True)
class RecordedRequest:
    """A request as it is on the tape: its headers, each `[name, value]`, and its body."""

    headers: Sequence[Sequence[str]]
    body: bytes | None = None

    @cached_property
    def plain(self) -> bytes:
        """The body without its content encoding."""
        return uncoded(self.headers, self.body or b"")

    @cached_property
    def value(self) -> Any:
        """The JSON value of the body; None if it is none, or too large to be read."""
        return decoded(self.plain)

    @property
    def continues_answer(self) -> bool:
        """True if it asks for more of an answer that stopped at a limit of tokens."""
        return b'"continuation_token"' in self.plain and _is_continuation(self.value)


def belonging(
    request: RecordedRequest,
    operation: Operation,
    content: str | None,
    calls: Sequence[Mapping[str, Any]] | None,
    resumed: str | None = None,
    session: str | None = None,
) -> JsonObject:
    """Return the fields of `Measures` about the conversation of a request; its body is read only if it holds a prompt.

    `content` and `calls` are the text and the tool calls of the answer, `resumed` is the id of the response whose
    stream the request resumes, `session` that of a hosted session, which wins over any
    name that the client gives.
    """
    if session is not None and (key := _key(session)) is not None:
        return _conversation_named(request.headers, {}) | {"conversation_key": key, "conversation_key_from": "session"}
    prompt = prompt_of(request.value) if operation in PROMPTED else None
    return belonging_of(prompt, request.headers, operation, content, calls, resumed)


def resent(run: str | None) -> JsonObject:
    """Return these fields of a request that was sent again: its session has the others of that run alone."""
    return _UNNAMED | {"conversation_key": _key(f"resend={run}"), "conversation_key_from": "resend"}


def belonging_of(
    prompt: Prompt | None,
    headers: Sequence[Sequence[str]],
    operation: Operation,
    content: str | None,
    calls: Sequence[Mapping[str, Any]] | None,
    resumed: str | None = None,
) -> JsonObject:
    """Return the fields of `Measures` about the conversation of a request with this prompt, as `belonging` does."""
    fields = prompt.parameters if prompt is not None else {}
    values: JsonObject = _conversation_named(headers, fields)
    if operation not in GENERATIONS:
        return values | {"previous_response_id": None}
    if resumed is not None:
        return values | {"previous_response_id": _key(resumed)}
    if prompt is None or not prompt.messages:
        return values
    values |= _hashes(prompt.messages) | {
        "asked": _last_question(prompt.messages),
        "answers_tools": _answers(prompt.messages),
    }
    if values["previous_response_id"] is not None or "conversation" in fields:
        return values | {"messages_hash": None}  # the request has the new ones alone
    if _is_continuation(fields):  # without a stored response, the answer is that to the same messages
        values |= {"continues_hash": values["messages_hash"], "continued_answer_hash": None}
    tool_calls = [ToolCall(call["id"] or "", call["name"] or "", call["arguments"] or "") for call in calls or ()]
    return values | {"answer_hash": _answer_hash([Text(content or ""), *tool_calls])}


def _is_continuation(body: object) -> bool:
    return isinstance(body, dict) and text(body.get("continuation_token")) != ""


def _conversation_named(headers: Sequence[Sequence[str]], body: Mapping[str, object]) -> JsonObject:
    """Return the conversation that a request names, its source, its parent conversation, and the attempt's number.

    A header comes first: a client that has one sends it with every request, also with those whose body names none.
    """
    header_values: dict[str, str] = dict(reversed(headers))  # type: ignore[arg-type]
    if not body and header_values.keys().isdisjoint(_NAMING):  # as of nearly all short exchanges
        return _UNNAMED.copy()
    candidates = chain(
        [(header_values[name], name) for name in _HEADERS if name in header_values],
        _body_candidates(body) if body else (),
    )
    key, by = next(((key, by) for value, by in candidates if value is not None and (key := _key(value))), (None, None))
    return {
        "conversation_key": key,
        "conversation_key_from": by,
        "conversation_parent": key if _AGENT in header_values else _key(header_values.get(_PARENT)),
        "previous_response_id": _key(body.get("previous_response_id") or body.get("previous_interaction_id")),
        "retries": int(attempt) if _COUNT.fullmatch(attempt := header_values.get(_RETRIES, "")) else None,
    }


def _body_candidates(body: Mapping[str, object]) -> Iterator[tuple[Any, str]]:
    conversation, metadata = body.get("conversation"), body.get("metadata")
    yield (conversation.get("id") if isinstance(conversation, dict) else conversation), "conversation"
    if isinstance(metadata, dict):
        yield _session_of(metadata.get("user_id")), "metadata.user_id"
        yield from ((metadata.get(name), f"metadata.{name}") for name in ("session_id", "thread_id", "conversation_id"))
    yield from ((body.get(name), name) for name in ("session_id", "litellm_session_id"))


def _session_of(user: object) -> Any:
    """Return the session that a user's id names, as Claude Code's does: in JSON, formerly at its end."""
    if not isinstance(user, str):
        return None
    if match := _SESSION_OF_USER.search(user):
        return match[1]
    try:
        parts = json.loads(user) if user.startswith("{") else None
    except (ValueError, RecursionError):
        return None
    return parts.get("session_id") if isinstance(parts, dict) else None


def _key(value: object) -> str | None:
    return _clean(value.strip().removeprefix("REDACTED:sha256:")[:200]) if isinstance(value, str) else None


def _clean(text: str) -> str | None:
    return Cleaner().optional(text)


def _hashes(messages: Sequence[Message]) -> dict[str, str | None]:
    """Return the hashes of all messages, of those before the last answer among them, and of that answer."""
    forms, comparable = list[bytes](), list[Message]()
    for message in messages:
        if form := canonical(message):
            forms.append(form)
            comparable.append(message)
    # The last answer may be several messages in a row: its range is `start` to `end`.
    end = len(comparable)
    while end and not comparable[end - 1].by_model:
        end -= 1
    start = end
    while start and comparable[start - 1].by_model:
        start -= 1
    # Each form is read once for both hashes: that of the first ones, and that of all.
    digest = hashlib.blake2b(b"\n".join(forms[:start]), digest_size=8)
    beginning = digest.hexdigest() if start else None
    if start < len(forms):
        digest.update(b"\n".join([b"", *forms[start:]] if start else forms))
    return {
        "messages_hash": digest.hexdigest() if forms else None,
        "continues_hash": beginning if start < end else None,
        "continued_answer_hash": _answer_hash([part for message in comparable[start:end] for part in message.parts]),
    }


def _answer_hash(parts: Sequence[Part]) -> str | None:
    """Return the hash of the texts and the tool calls of an answer, with the ids of these."""
    if not parts:
        return None
    calls = [part for part in parts if isinstance(part, ToolCall)]
    form = canonical(Message("assistant", (*(part for part in parts if isinstance(part, Text)), *calls)))
    if not form:
        return None
    texts = [form, *(call.id.encode("utf-8", "surrogatepass") for call in calls)]
    return hashlib.blake2b(b"\n".join(texts), digest_size=8).hexdigest()


def _answers(messages: Sequence[Message]) -> bool:
    """Return True if messages have results of tools after the last answer."""
    new = takewhile(lambda message: not message.by_model, reversed(messages))
    return any(isinstance(part, ToolResult) for message in new for part in message.parts)


def answers_tools(body: bytes) -> bool:
    """Return True if the new messages of a request have results of tools."""
    prompt = parse(body)
    return prompt is not None and _answers(prompt.messages)


def _last_question(messages: Sequence[Message]) -> str | None:
    """Return the last text of the user, without elements of markup before it, which a program put there."""
    parts = (part for message in messages if message.role == "user" for part in message.parts)
    texts = [part.text for part in parts if isinstance(part, Text) and part.text.strip()]
    typed = (typed_text for text in reversed(texts) if not is_element(text) and (typed_text := without_elements(text)))
    return _clean(" ".join(next(typed, texts[-1] if texts else "").split())[:200])
