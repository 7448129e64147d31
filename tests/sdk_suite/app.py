"""The program that this suite tests: it asks a model, shows text as it comes, and asks again where an answer breaks."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

PROVIDERS_RETRIES = 0
"""The program tries again by itself."""


@dataclass(frozen=True)
class Reply:
    """What the program has of an answer: its text, whether that is all of it, and how often it asked."""

    text: str
    is_whole: bool
    attempts: int


def ask(pieces: "Any", attempts: int = 3) -> Reply:
    """Ask until an answer is whole; `pieces()` asks once, and yields the text and, when it has ended well, None."""
    text = ""
    for attempt in range(1, attempts + 1):
        text, is_whole = "", False
        with contextlib.suppress(Exception):  # whatever breaks in an SDK
            for piece in pieces():
                is_whole = piece is None
                text += piece or ""
        if is_whole:
            return Reply(text, True, attempt)
    return Reply(text, False, attempts)


def chat(prompt: str, model: str, **options: Any) -> Iterator[str | None]:
    """Ask OpenAI's chat completions."""
    import openai

    client = openai.OpenAI(max_retries=options.pop("max_retries", PROVIDERS_RETRIES), **options)
    messages: list[Any] = [{"role": "user", "content": prompt}]
    with client, client.chat.completions.create(model=model, messages=messages, stream=True) as stream:
        finish = None
        for chunk in stream:
            for choice in chunk.choices:
                finish = choice.finish_reason or finish
                yield choice.delta.content or ""
        if finish == "stop":
            yield None


def respond(prompt: str, model: str) -> Iterator[str | None]:
    """Ask OpenAI's Responses."""
    import openai

    with openai.OpenAI(max_retries=PROVIDERS_RETRIES) as client:
        for event in client.responses.create(model=model, input=[{"role": "user", "content": prompt}], stream=True):
            if event.type == "response.output_text.delta":
                yield event.delta
            elif event.type == "response.completed":
                yield None


def message(prompt: str, model: str) -> Iterator[str | None]:
    """Ask Anthropic's Messages."""
    import anthropic

    client = anthropic.Anthropic(max_retries=PROVIDERS_RETRIES)
    messages: Iterable[Any] = [{"role": "user", "content": prompt}]
    with client, client.messages.stream(model=model, max_tokens=100, messages=messages) as stream:
        yield from stream.text_stream
        if stream.get_final_message().stop_reason is not None:
            yield None


async def shown(prompt: str, model: str, patience: float) -> AsyncIterator[str]:
    """Yield what a user sees of an answer: its text, and a sign of life after `patience` seconds without any."""
    import openai

    client = openai.AsyncOpenAI(max_retries=PROVIDERS_RETRIES)
    messages: list[Any] = [{"role": "user", "content": prompt}]
    async with client, await client.chat.completions.create(model=model, messages=messages, stream=True) as stream:
        chunks = aiter(stream)
        while True:
            coming = asyncio.ensure_future(anext(chunks, None))
            if not (await asyncio.wait([coming], timeout=patience))[0]:
                yield "…"
            chunk = await coming
            if chunk is None:
                return
            for choice in chunk.choices:
                yield choice.delta.content or ""
