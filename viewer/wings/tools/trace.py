"""Pure: recorded traffic as a trace for load generators, in the form of Mooncake's traces.

A row has the arrival in ms, the counts of input and output tokens, and an id for each block of `BLOCK` input tokens:
two prompts share the ids of the blocks that both begin with. A tape has no tokens, so the size of a block is an
estimate: the bytes of a prompt are divided among its blocks in equal shares, and a prefix keeps the blocks that it got
first. Ids are numbers in the order of first appearance: they tell which blocks are equal, and nothing of their text.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any, Final

from wiretape.recorder.decode.prompt import Message, canonical
from wiretape.recorder.decode.request import decoded, parse
from wiretape.recorder.decode.values import JsonObject
from wiretape.viewer.record import units
from wiretape.viewer.record.rows import RequestRow, TableRow

BLOCK: Final = 512
"""Tokens of a block, as in Mooncake's traces."""
MOST_TOKENS: Final = 1 << 24
"""Limit of the tokens of a row: a larger count is no real one, and would have too many blocks."""
EXCHANGE_FIELDS: Final = ("no", "started_at", "model", "api", "framing", "input_tokens", "output_tokens")
"""The fields of an exchange that a row is made of."""

NO_TOKENS: Final = "without token counts"
NO_PROMPT: Final = "without a prompt on the tape"
_WEBSOCKET = "over a WebSocket"


class BlockIds:
    """The ids of blocks of prompts, in the order of first appearance; prompts of different models share none."""

    def __init__(self) -> None:
        self._ids: dict[tuple[int | str, int, bytes], int] = {}
        self._sizes: dict[int | str, int] = {}

    def of(self, model: str, prompt: bytes, tokens: int) -> list[int]:
        """Return the ids of the blocks of a prompt: one for each `BLOCK` tokens, and one for the remainder."""
        ids: list[int] = []
        prefix: int | str = model  # an id stands for its block and all before it
        start = 0
        for tokens_left in range(tokens, 0, -BLOCK):
            bytes_left, count = len(prompt) - start, min(tokens_left, BLOCK)
            share = bytes_left * count // tokens_left
            size = self._sizes.get(prefix, share)
            if size >= bytes_left or count == tokens_left:
                size = share
            if size and count == BLOCK:  # a later prompt has more in place of an incomplete block
                self._sizes.setdefault(prefix, size)
            digest = blake2b(memoryview(prompt)[start : start + size], digest_size=16).digest()
            prefix = self._ids.setdefault((prefix, count, digest), len(self._ids))
            ids.append(prefix)
            start += size
        return ids


def entries(
    rows: Iterable[tuple[TableRow, RequestRow]], left_out: Counter[str], *, with_messages: bool = False
) -> Iterator[JsonObject]:
    """Yield the row of each exchange, in the order of arrival; the first row is at 0 ms.

    An exchange has the fields `EXCHANGE_FIELDS`. Those without a row are counted in `left_out` by their reason.
    """
    blocks, first_started = BlockIds(), None
    for exchange, request in rows:
        content = _messages(exchange, request) if with_messages else _lengths(exchange, request, blocks)
        content = content if exchange["started_at"] else "without a time on the tape"
        if isinstance(content, str):
            left_out[content] += 1
            continue
        started = units.timestamp(exchange["started_at"])
        first_started = first_started or started
        yield {"timestamp": round((started - first_started).total_seconds() * 1000, 3), **content}


def _lengths(exchange: TableRow, request: RequestRow, blocks: BlockIds) -> JsonObject | str:
    """Return the counts of tokens and the ids of blocks, or the reason that there are none."""
    if exchange["framing"] == "websocket":
        return _WEBSOCKET
    input_tokens, output_tokens = exchange["input_tokens"], exchange["output_tokens"]
    # A prompt of 0 tokens is an unknown one.
    if input_tokens is None or output_tokens is None or input_tokens < 1 or output_tokens < 0:
        return NO_TOKENS
    if max(input_tokens, output_tokens) > MOST_TOKENS:
        return f"with more than {MOST_TOKENS:,} tokens"
    prompt = parse(request.plain)
    if prompt is None:
        return NO_PROMPT
    # In the order in which servers cache a prompt: tools, system prompt, messages.
    tools = (tool.definition.encode("utf-8", "surrogatepass") for tool in prompt.tools)
    texts = map(canonical, (Message("system", prompt.system), *prompt.messages))
    content = b"\n".join(filter(None, (*tools, *texts)))
    ids = blocks.of(exchange["model"] or "", content, input_tokens)
    return {"input_length": input_tokens, "output_length": output_tokens, "hash_ids": ids}


def _messages(exchange: TableRow, request: RequestRow) -> JsonObject | str:
    """Return a prompt as load generators take it: messages, a text, or the whole body of another API."""
    if exchange["framing"] == "websocket":
        return _WEBSOCKET
    body = decoded(request.plain or b"")
    if not isinstance(body, dict) or not body:
        return NO_PROMPT
    output_tokens = exchange["output_tokens"]
    length = {} if output_tokens is None else {"output_length": output_tokens}
    messages: Any = body.get("messages")
    is_chat = exchange["api"] == "openai.chat" and bool(messages) and _are_objects(messages)
    if is_chat and all("role" in message for message in messages):
        tools = {"tools": body["tools"]} if body.get("tools") and _are_objects(body["tools"]) else {}
        return {"messages": messages, **tools, **length}
    if exchange["api"] == "openai.completions" and isinstance(body.get("prompt"), str):
        return {"text_input": body["prompt"], **length}
    return {"payload": body, **length}


def _are_objects(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)
