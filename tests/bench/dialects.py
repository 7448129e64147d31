"""Time for a chunk of each declared dialect beside that of `openai.chat`, in one run.

    python tests/bench/dialects.py [--chunks 5000] [--rounds 15]

Each wire has a stream whose events repeat but for one text, which are not parsed one by one, and one whose events also
differ in an unused number, which are. Rounds take turns; the best of each counts, in CPU time. A ratio is to chat's
stream of the same kind. Nothing is asserted.
"""

import argparse
import json
import time
from collections.abc import Callable
from typing import Any, Final

from wiretape.recorder.decode.derive import derive
from wiretape.recorder.decode.exchange import Exchange, Read

Event = Callable[[str, int], Any]

CHAT: Final = "openai.chat"
_CHOICE: Final = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-x"}
_MESSAGE: Final = {"type": "AIMessageChunk", "id": "run--1", "tool_call_chunks": [], "usage_metadata": None}
_ARTIFACT: Final = {"taskId": "t1", "contextId": "c1", "append": True}
WIRES: Final[dict[str, tuple[str, str, Any, Event]]] = {
    CHAT: ("/v1/chat/completions", "", None, lambda text, no: _CHOICE | {
        "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}),
    "ai-sdk-ui": ("/api/app", "", {"type": "start", "messageId": "m"}, lambda text, no: {
        "type": "text-delta", "id": "0", "delta": text}),
    "ag-ui": ("/agent", "", {"type": "RUN_STARTED", "runId": "r1"}, lambda text, no: {
        "type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": text}),
    "langgraph": ("/runs/stream", "messages", None, lambda text, no: [_MESSAGE | {"content": text}, {"node": "model"}]),
    "a2a": ("/message:stream", "", None, lambda text, no: {
        "artifactUpdate": _ARTIFACT | {"artifact": {"artifactId": "a", "parts": [{"text": text}]}}}),
    "speech": ("/v1/audio/transcriptions", "", None, lambda text, no: {"type": "transcript.text.delta", "delta": text}),
    "tgi": ("/generate_stream", "", None, lambda text, no: {
        "index": no, "token": {"id": no, "text": text, "logprob": -no / 7, "special": False}, "details": None}),
    "llamacpp": ("/completion", "", None, lambda text, no: {
        "content": text, "tokens": [no], "stop": False, "tokens_predicted": no, "tokens_evaluated": 5}),
}  # fmt: skip
"""The path of each wire, the names of its events, its first event, and the event of a text."""
DIFFERING: Final = ("tgi", "llamacpp")
"""Wires whose events always differ in more than a text."""


def stream(name: str, chunks: int, *, differs: bool) -> list[bytes]:
    """Return the events of a wire."""
    _, kind, opening, make = WIRES[name]
    payloads = [opening] if opening is not None else []
    for no in range(chunks):
        payload = make(f" word{no}", no)
        if differs and name not in DIFFERING:
            holder = payload[0] if isinstance(payload, list) else payload
            holder["logprob"] = -no / 7
        payloads.append(payload)
    head = f"event: {kind}\n" if kind else ""
    return [f"{head}data: {json.dumps(payload, separators=(',', ':'))}\n\n".encode() for payload in payloads]


def measured(name: str, events: list[bytes]) -> float:
    """Return the CPU time of deriving a stream, in µs for each event."""
    reads, start = [], 0
    for seq, event in enumerate(events):
        reads.append(Read(seq, seq * 1_000_000, None, start, len(event)))
        start += len(event)
    exchange = Exchange(status=200, content_type="text/event-stream", ended_by="end", end_ns=start, path=WIRES[name][0])
    body, cpu_before = b"".join(events), time.thread_time()
    measures = derive(exchange, reads, body)
    took_s = time.thread_time() - cpu_before
    assert (measures.api, measures.output_chunks) == (name, len(events) - (WIRES[name][2] is not None))
    return 1e6 * took_s / len(events)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chunks", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    streams = {
        (name, differs): stream(name, options.chunks, differs=differs)
        for name in WIRES
        for differs in (False, True)
        if differs or name not in DIFFERING
    }
    best = dict.fromkeys(streams, float("inf"))
    for _ in range(options.rounds):
        for (name, differs), events in streams.items():
            best[name, differs] = min(best[name, differs], measured(name, events))
    print(f"{'wire':<12} {'repeating':>10} {'to chat':>8} {'differing':>10} {'to chat':>8}   µs of CPU for a chunk")
    for name in WIRES:
        cells = []
        for differs in (False, True):
            best_s = best.get((name, differs))
            cells += ["–", "–"] if best_s is None else [f"{best_s:.2f}", f"{best_s / best[CHAT, differs]:.2f} ×"]
        print(f"{name:<12} {cells[0]:>10} {cells[1]:>8} {cells[2]:>10} {cells[3]:>8}")


if __name__ == "__main__":
    main()
