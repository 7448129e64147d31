"""Pure: an exchange as a turn of a conversation: its prompt, and the part that is new since the previous turn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, Final, NamedTuple

from wiretape.recorder.decode import encoding
from wiretape.recorder.decode.assembly import assemble
from wiretape.recorder.decode.decoder import Decoded
from wiretape.recorder.decode.dialects.registry import VOICE
from wiretape.recorder.decode.encoding import Cleaner
from wiretape.recorder.decode.prompt import Message, Part, Prompt, Reasoning, Text, ToolCall, canonical
from wiretape.recorder.decode.request import parse
from wiretape.recorder.plurals import counted
from wiretape.viewer.record.rows import DetailRow, RequestRow
from wiretape.viewer.text.formatting import line

_KEPT: Final = frozenset({"previous_response_id", "previous_interaction_id", "conversation"})


@dataclass(frozen=True, slots=True)
class TurnContent:
    """An exchange, its prompt (None: unknown, with the reason in `problem`), and its answer.

    Over a WebSocket, the prompt is the last one, and the first `earlier` messages are of the responses before.
    """

    row: DetailRow
    prompt: Prompt | None
    answer: tuple[Part, ...]
    problem: str = ""
    earlier: int = 0

    @property
    def is_rest(self) -> bool:
        """True if the server keeps the messages of earlier turns: the request has the new ones alone."""
        return self.prompt is not None and not _KEPT.isdisjoint(self.prompt.parameters)


@dataclass(frozen=True, slots=True)
class Turn:
    """The prompt of an exchange, and the previous turn, if there is one.

    The first `repeated` messages were in the request of the turn before, or are its answer; `dropped` is the number of
    that request's messages that are not in this one.
    """

    content: TurnContent
    previous: TurnContent | None = None
    repeated: int = 0
    dropped: int = 0

    @property
    def since(self) -> str:
        """The turn before in words, "" if there is none."""
        earlier = "the response before on this WebSocket" if self.content.earlier else ""
        return earlier or (self.previous.row.id[:8] if self.previous is not None else "")


def turn(request: TurnContent, previous: TurnContent | None = None) -> Turn:
    """Return an exchange as the turn that follows another one."""
    if request.earlier or request.prompt is None or previous is None or previous.prompt is None or request.is_rest:
        return Turn(request, previous if request.prompt is not None else None, request.earlier)
    earlier = previous.prompt.messages
    repeated, shared = _repeated(request.prompt.messages, earlier, previous.answer)
    return Turn(request, previous, repeated, len(_compared(earlier)) - shared)


def request_content(row: DetailRow, request: RequestRow) -> TurnContent:
    """Return the prompt of a request."""
    prompt = parse(request.plain)
    if prompt is None:
        return TurnContent(row, None, answer(row), problem(request, truncated=bool(row.request_truncated)))
    return TurnContent(row, replace(prompt, model=row.model or ""), answer(row))


class WebsocketRequest(NamedTuple):
    """A message that requested a response over a WebSocket, and the answer to it until now."""

    body: bytes
    answer: tuple[Part, ...]


def over_websocket(decoded: Decoded) -> list[WebsocketRequest]:
    """Return the requests of a WebSocket with their answers.

    The measures do not have them: a WebSocket may be open for hours, and is measured when it has ended.
    """
    answered = sorted({piece.index for run in decoded.runs for piece in run.chunk.pieces})
    values = assemble(decoded.runs, Cleaner()).values
    choices = map(_answer, (values, *(values["choices"] or ())))
    answers = dict(zip(answered, choices, strict=False))  # a response that failed has no choice
    requests, number = list[WebsocketRequest](), 0
    for turn in decoded.turns:
        if turn.request is not None:
            body = decoded.data[decoded.starts[turn.request] : decoded.ends[turn.request]]
            requests.append(WebsocketRequest(body, answers.get(number, ()) if turn.generates else ()))
        number += turn.generates
    return requests


def websocket_content(row: DetailRow, requests: Sequence[WebsocketRequest]) -> TurnContent:
    """Return a client's prompt over a WebSocket, from its requests, the first one first.

    Where one has the new messages alone, they stand behind those before and their answer.
    """
    if row.api in {dialect.api for dialect in VOICE}:
        return TurnContent(row, None, answer(row), "a session of voice has turns: 'export --table turns' has them all")
    content = TurnContent(row, None, (), "no message on its WebSocket requested a response")
    for request in requests:
        if (prompt := parse(request.body)) is None:
            return replace(content, problem="a message that requested a response is no JSON object")
        earlier = 0
        if content.prompt is not None and not _KEPT.isdisjoint(prompt.parameters):
            messages = content.prompt.messages
            if content.answer:
                messages = *messages, Message("assistant", content.answer)
            prompt, earlier = _with_inherited(content.prompt, messages, prompt), len(messages)
        content = TurnContent(row, replace(prompt, model=row.model or ""), request.answer, earlier=earlier)
    return content


def _with_inherited(previous: Prompt, messages: tuple[Message, ...], prompt: Prompt) -> Prompt:
    """Prepend the previous messages of the same WebSocket, which its server keeps, to a prompt."""
    inherited = {name: value for name, value in previous.parameters.items() if name in _KEPT}
    parameters = {name: value for name, value in prompt.parameters.items() if name not in _KEPT}
    return replace(
        prompt,
        system=prompt.system or previous.system,
        tools=prompt.tools or previous.tools,
        messages=messages + prompt.messages,
        parameters=parameters | inherited,
    )


def answer(row: DetailRow) -> tuple[Part, ...]:
    """Return an answer, of several choices the first, as the parts of a message."""
    return _answer({name: getattr(row, name) for name in ("content", "reasoning", "refusal", "tool_calls")})


def _answer(choice: Mapping[str, Any]) -> tuple[Part, ...]:
    texts = (
        Reasoning(choice["reasoning"]) if choice.get("reasoning") else None,
        Text(choice["content"]) if choice.get("content") else None,
        Text(choice["refusal"], "refusal") if choice.get("refusal") else None,
    )
    calls = choice.get("tool_calls") or ()
    tool_calls = [ToolCall(call["id"] or "", call["name"] or "", call["arguments"] or "") for call in calls]
    return (*(text for text in texts if text is not None), *tool_calls)


def problem(request: RequestRow, *, truncated: bool) -> str:
    """Return the reason that the body of a request is no prompt."""
    body, size = request.body or b"", request.known_size
    if request.size is None:
        return "its body has not ended yet, its recorder died before, or it was missing in the import"
    if not size:
        return "it has no body"
    if not body:
        return f"its body of {counted(size, 'byte')} is not on the tape"
    if truncated or len(body) < size:
        cut = "broke off" if truncated else "is longer than the tape keeps"
        return f"its body {cut}: of JSON, {counted(len(body), 'byte')} of the beginning cannot be read"
    coding = encoding.coding_of(request.headers)
    if encoding.plain(coding, body, (len(body),)).flag is not None:
        return f"its body is compressed in a way that is not read ({line(coding)})"
    if body.lstrip().startswith(b"{"):
        return "its body is broken JSON, or is nested too deeply"
    content_type = next((value for name, value in request.headers if name.lower() == "content-type"), None)
    kind = (content_type or "").partition(";")[0]
    return f"its body is no JSON object{f' ({line(kind)})' if kind else ''}"


def _repeated(messages: Sequence[Message], earlier: Sequence[Message], answer: tuple[Part, ...]) -> tuple[int, int]:
    """Return the number of messages that the previous turn had, and the number of those in its request.

    A message that says nothing to compare, such as encrypted reasoning, is passed over.
    """
    present, previous = _compared(messages), [form for _, form in _compared(earlier)]
    shared = sum(1 for _ in takewhile(lambda pair: pair[0][1] == pair[1], zip(present, previous, strict=False)))
    start = present[shared - 1][0] + 1 if shared else 0
    if shared < len(previous):
        return start, shared
    by_model = list(takewhile(lambda message: message.by_model, messages[start:]))
    form = Message("assistant", tuple(part for message in by_model for part in message.parts))
    is_answer = bool(by_model) and _in_order(form) == _in_order(Message("assistant", answer))
    return start + len(by_model) * is_answer, shared


def _compared(messages: Sequence[Message]) -> list[tuple[int, bytes]]:
    return [(at, form) for at, message in enumerate(messages) if (form := canonical(message))]


def _in_order(message: Message) -> bytes:
    """Return the canonical form of an answer with its texts before its calls: the tape keeps no other order."""
    return canonical(Message(message.role, tuple(sorted(message.parts, key=lambda part: isinstance(part, ToolCall)))))
