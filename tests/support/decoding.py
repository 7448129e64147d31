"""Decoded streams of given chunks, and measures of given bodies."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from wiretape.recorder.decode.decoder import EVENT, Decoded
from wiretape.recorder.decode.derive import derive
from wiretape.recorder.decode.dialect import Chunk
from wiretape.recorder.decode.exchange import Exchange, Read
from wiretape.recorder.decode.metrics import Measures
from wiretape.recorder.decode.runs import ItemRun


def of_runs(
    runs: Sequence[ItemRun], at_ns: Sequence[int | None], reads: Sequence[int | None] | None = None, done: bool = False
) -> Decoded:
    """Return the stream of these runs, each item with its timestamp and read; if `done`, the last item is `[DONE]`."""
    size = len(at_ns)
    return Decoded(
        b"",
        "sse",
        kinds=bytearray((EVENT,)) * size,
        starts=[0] * size,
        ends=[0] * size,
        at_ns=at_ns,
        reads=range(size) if reads is None else reads,
        runs=list(runs),
        done_item=size - 1 if done else None,
    )


def of_chunks(
    chunks: Sequence[Chunk], at_ns: Sequence[int | None], reads: Sequence[int | None] | None = None
) -> Decoded:
    """Return the stream of these chunks, each in an item of its own."""
    return of_runs([ItemRun(chunk, None, [""], item) for item, chunk in enumerate(chunks)], at_ns, reads)


MS = 1_000_000


def derived(body: str | bytes, *cuts: int, content_type: str = "text/event-stream", **facts: Any) -> Measures:
    """Derive a body that came in reads between these offsets, the first after 100 ms, 10 ms apart."""
    data = body.encode() if isinstance(body, str) else body
    bounds = [0, *cuts, len(data)]
    reads = [
        Read(seq, (100 + 10 * seq) * MS, None, start, end - start)
        for seq, (start, end) in enumerate(itertools.pairwise(bounds))
    ]
    known = {"status": 200, "content_encoding": None, "ended_by": "end", "connected_ns": None, "headers_ns": None}
    exchange = Exchange(**{**known, "content_type": content_type, "end_ns": 10_000 * MS, **facts})
    return derive(exchange, reads, data)


def cut_everywhere(body: str | bytes, stride: int = 29, **facts: Any) -> Iterator[Measures]:
    """Yield the measures of a body cut at every byte: a stride apart, from each place on, then at all at once."""
    size = len(body.encode() if isinstance(body, str) else body)
    for place in range(1, stride + 1):
        yield derived(body, *range(place, size, stride), **facts)
    yield derived(body, *range(1, size), **facts)


def said(measures: Measures) -> dict[str, Any]:
    """Return the known measures that are independent of the cuts: the outcome and the answer."""
    names = (
        "api",
        "outcome",
        "outcome_detail",
        "error_code",
        "error_message",
        "response_model",
        "response_id",
        "content",
    )
    names += ("reasoning", "finish_reason", "input_tokens", "output_tokens", "total_tokens", "reasoning_tokens")
    names += ("cache_read_input_tokens", "cache_write_input_tokens")
    values = {name: getattr(measures, name) for name in names}
    values["calls"] = [(call["id"], call["name"], call["arguments"]) for call in measures.tool_calls or ()]
    return {name: value for name, value in values.items() if value not in (None, [])}
