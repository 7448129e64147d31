"""OpenAI's SDK: transcriptions and speech as streams."""

from typing import Any

import pytest

from tests.support.relay import Relay, on_loop
from tests.support.sdks import events, measured
from wiretape.recorder.demo.upstream import Scene

USAGE = {"type": "tokens", "input_tokens": 14, "output_tokens": 45, "total_tokens": 59}
DELTAS = [{"type": "transcript.text.delta", "delta": text} for text in ("Let me ", "see…")]
DONE = {"type": "transcript.text.done", "text": "Let me see…", "usage": USAGE}
SPOKEN = [{"type": "speech.audio.delta", "audio": "AAAA"}, {"type": "speech.audio.done", "usage": USAGE}]
SCENES: dict[str, Scene] = {
    "audio-heard": events(*DELTAS, DONE),
    "audio-cut": events(*DELTAS, end="fin"),
    "audio-spoken": events(*SPOKEN),
}


def client(relay: Relay, name: str) -> Any:
    import openai

    return openai.AsyncOpenAI(base_url=f"{relay.base}/{name}/v1", api_key="k", max_retries=0)


@pytest.mark.parametrize("name", ["audio-heard", "audio-cut"])
@on_loop
async def test_the_openai_sdk_hears_what_the_tape_has(relay: Relay, name: str) -> None:
    import openai

    heard = []
    async with client(relay, name) as sdk:
        try:
            stream = await sdk.audio.transcriptions.create(
                model="gpt-4o-transcribe", file=("a.wav", b"RIFF" * 100), stream=True
            )
            heard = [one async for one in stream]
        except openai.APIConnectionError:
            assert name == "audio-cut"
    row = await measured(relay, name)
    assert (row["api"], row["operation"], row["content"]) == ("speech", "audio", "Let me see…")
    if name == "audio-cut":
        assert row["outcome"] == "truncated"
        return
    assert "".join(one.delta for one in heard if one.type == "transcript.text.delta") == row["content"]
    assert (row["outcome"], row["total_tokens"]) == ("complete", heard[-1].usage.total_tokens)


@on_loop
async def test_the_events_of_speech_are_output_without_text(relay: Relay) -> None:
    async with client(relay, "audio-spoken") as openai:
        asked = {"model": "gpt-4o-mini-tts", "voice": "alloy", "input": "Hi", "stream_format": "sse"}
        async with openai.audio.speech.with_streaming_response.create(**asked) as answer:
            assert b"speech.audio.done" in b"".join([one async for one in answer.iter_bytes()])
    row = await measured(relay, "audio-spoken")
    assert (row["api"], row["outcome"], row["content"], row["output_chunks"]) == ("speech", "complete", None, 1)
    assert row["output_tokens"] == 45
