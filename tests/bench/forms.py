"""Which forms of a stream break which client: the Python SDKs that are installed, on a tape with one answer a wire.

Run as `python -m tests.bench.forms`. Each client reads its answer as recorded, then in each form; a form that changes
what it gives, that raises an error or hangs for 20 s is printed.
"""

import importlib
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.support.sample_tape import recorded, wire_frames
from tests.support.wires import WIRES
from wiretape.viewer.wings.replay.forms import FORMS

MESSAGES = [{"role": "user", "content": "x"}]
IDS = {name: f"{number:016x}" for number, name in enumerate(WIRES)}
NAMES = ["ping:10ms" if name == "ping" else name for name in FORMS if name != "h2"]


def bedrock(base: str) -> Any:
    boto3 = importlib.import_module("boto3")
    keys = {"aws_access_key_id": "a", "aws_secret_access_key": "b", "region_name": "us-east-1"}
    return boto3.client("bedrock-runtime", endpoint_url=base, **keys)


def module(name: str) -> Any:
    return importlib.import_module(name)


CLIENTS: dict[str, tuple[str, str, Callable[[str], Any]]] = {
    "openai, chat": ("openai", "chat", lambda base: module("openai").OpenAI(
        base_url=base + "/v1", api_key="k", max_retries=0).chat.completions.create(
        model="m", messages=MESSAGES, stream=True)),
    "openai, responses": ("openai", "responses", lambda base: module("openai").OpenAI(
        base_url=base + "/v1", api_key="k", max_retries=0).responses.create(model="m", input="x", stream=True)),
    "anthropic": ("anthropic", "messages", lambda base: module("anthropic").Anthropic(
        base_url=base, api_key="k", max_retries=0).messages.create(
        model="m", max_tokens=9, messages=MESSAGES, stream=True)),
    "google-genai": ("google-genai", "gemini", lambda base: [*(client := module("google.genai").Client(
        api_key="k", http_options={"base_url": base})).models.generate_content_stream(
        model="gemini-x", contents="x"), client][:-1]),
    "cohere": ("cohere", "cohere", lambda base: module("cohere").ClientV2(api_key="k", base_url=base).chat_stream(
        model="m", messages=MESSAGES)),
    "ollama": ("ollama", "ollama", lambda base: module("ollama").Client(host=base).chat(
        model="m", messages=MESSAGES, stream=True)),
    "boto3, converse": ("boto3", "bedrock", lambda base: bedrock(base).converse_stream(modelId="x", messages=[
        {"role": "user", "content": [{"text": "x"}]}])["stream"]),
}  # fmt: skip


def given(ask: Callable[[str], Any], base: str) -> str:
    """Return what a client gives, or its error, as a text."""
    texts: list[str] = []

    def read() -> None:
        try:
            events = []
            for event in ask(base):  # of Google's SDK, each has the headers of its answer
                has_headers = hasattr(event, "sdk_http_response")
                events.append(event.model_copy(update={"sdk_http_response": None}) if has_headers else event)
            texts.append(f"{len(events)} events {events}")
        except Exception as error:  # noqa: BLE001 - whatever breaks is what is measured
            texts.append(f"{type(error).__name__}: {error}")

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    thread.join(20)
    return texts[0] if texts else "hangs"


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        tape = recorded(Path(directory) / "wires.db", list(wire_frames()))
        command = [sys.executable, "-m", "wiretape.viewer.cli", "serve", "--db", str(tape)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
            assert server.stdout is not None
            base = server.stdout.readline().strip()
            for title, (package, wire, ask) in CLIENTS.items():
                expected, *results = (given(ask, f"{base}/@form={name}/@{IDS[wire]}") for name in NAMES)
                broken = {name: text for name, text in zip(NAMES[1:], results, strict=True) if text != expected}
                print(f"{title} {version(package)}: {', '.join(broken) or 'nothing'}", flush=True)
                for name, text in broken.items():
                    print(f"    {name}: {text[:90]!r}", flush=True)
            server.terminate()


if __name__ == "__main__":
    main()
