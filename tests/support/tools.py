"""Streams as other tools see them, and the figures of those tools."""

import json

from wiretape.recorder.decode.decoder import decode
from wiretape.recorder.decode.derive import derive
from wiretape.recorder.decode.exchange import Exchange, Read
from wiretape.viewer.stats.tools import request as seen
from wiretape.viewer.stats.tools.summary import Observed, measure_observed, report_of

CHUNK = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'


CHAT = "/v1/chat/completions"


def request(*parts, **facts):
    reads, body = [], b""
    for seq, data in enumerate(parts):
        reads.append(Read(seq, (seq + 1) * 10, None, len(body), len(data)))
        body += data
    known = {"status": 200, "ended_by": "end", "end_ns": 99, **facts}
    exchange = Exchange(
        status=known["status"],
        content_type="text/event-stream",
        content_encoding=None,
        ended_by=known["ended_by"],
        connected_ns=None,
        headers_ns=None,
        end_ns=known["end_ns"],
        path=CHAT,
    )
    return seen.request(exchange, decode(exchange, reads, body), derive(exchange, reads, body))


MS = 1_000_000


def exchange(given, end_ms, status=200, ended_by="end", **facts):
    """Return an exchange, its decoded body and its measures."""
    reads, body = [], b""
    for seq, read in enumerate(given):
        data = read["text"].encode()
        reads.append(Read(seq, read["t_ms"] * MS, None, len(body), len(data)))
        body += data
    kind = facts.pop("content_type", "text/event-stream")
    recorded = Exchange(status=status, content_type=kind, ended_by=ended_by, end_ns=end_ms * MS, **facts)
    return recorded, decode(recorded, reads, body), derive(recorded, reads, body)


def measure_as(tool, exchanges, count_tokens=None):
    """Measure a population as a tool does."""
    measured = (measure_observed(tool, Observed(*observed), count_tokens) for observed in exchanges)
    return report_of(tool, measured, is_tokenized=count_tokens is not None)


def chunk(delta, **more):
    payload = {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta}], **more}
    return f"data: {json.dumps(payload)}\n\n"


def words(text):
    return len(text.split())


def stream(*events, end=None, **facts):
    """Return an exchange with events 10 ms apart; None is a read without an event."""
    reads = [{"t_ms": 10 * no, "text": text} for no, text in enumerate(events, 1) if text]
    return exchange(reads, end or 10 * len(events) + 5, **facts)


def named(kind, **fields):
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n"


PLACE = {"output_index": 0, "content_index": 0}
CREATED = named("response.created", response={"id": "r", "status": "in_progress"})
CALL = named("response.output_item.added", output_index=1, item={"type": "function_call", "name": "f"})
ARGUMENTS = named("response.function_call_arguments.delta", output_index=1, delta="{}")
SUMMARY = named("response.reasoning_summary_text.delta", output_index=0, summary_index=0, delta="s")
THOUGHT = named("response.reasoning_text.delta", **PLACE, delta="t")
WORD = named("response.output_text.delta", **PLACE, delta="w")
WORDS_DONE = named("response.output_text.done", **PLACE, text="ww")
COMPLETED = named(
    "response.completed",
    response={"id": "r", "status": "completed", "usage": {"input_tokens": 3, "output_tokens": 5, "total_tokens": 8}},
)
RESPONSE = (CREATED, SUMMARY, THOUGHT, WORD, WORD, WORDS_DONE, CALL, ARGUMENTS, COMPLETED)
DONE = "data: [DONE]\n\n"
