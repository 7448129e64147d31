"""Decoded streams made of chunks, without a body."""

from collections.abc import Sequence

from wiretape.recorder.decode.decoder import EVENT, Decoded, ItemRun
from wiretape.recorder.decode.dialect import Chunk


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
