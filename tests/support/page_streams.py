"""Streams for pages: one that stalls, and as long ones as one likes, at timestamps like those of a real API."""

import random
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from tests.support.frames import read
from tests.support.sample_tape import DONE, MS, USAGE, begin, end, event, recorded, response


def long_stream(path: Path, chunks: int, id: str = "a" * 16, together: int = 1) -> Path:
    """Make a tape of one stream, with words of its own; a read brings up to `together` of its events."""
    chance = random.Random(7)
    words = ["".join(chance.choices("etaoinshrdlucmfwyp", k=chance.randint(1, 8))) + " " for _ in range(600)]
    events = [event({"content": chance.choice(words)}) for _ in range(chunks)]
    starts = [0]
    while starts[-1] < chunks:
        starts.append(starts[-1] + chance.randint(1, together))
    parts = [b"".join(events[start:end]) for start, end in pairwise(starts)]
    parts.append(event({}, "stop") + USAGE + DONE)
    return _made(path, id, [(round(chance.lognormvariate(3, 0.6) * MS), part) for part in parts])


def stalled_stream(path: Path, id: str = "b" * 16) -> Path:
    """Make a tape of one stream of 16 reads with a stall of 2.4 s after the sixth; the last one brings three events."""
    sentence = "The model begins to speak , and goes on as if nothing had happened"
    parts = [(30 * MS + 2_400 * MS * (word == "and"), event({"content": f"{word} "})) for word in sentence.split()]
    cut = event({"content": "."})
    return _made(path, id, [*parts, (30 * MS, cut[:40]), (5 * MS, cut[40:] + event({}, "stop") + DONE)])


def one_event(path: Path, text: str, id: str = "c" * 16) -> Path:
    """Make a tape of one stream that says all in one event."""
    return _made(path, id, [(30 * MS, event({"content": text})), (30 * MS, event({}, "stop") + DONE)])


def _made(path: Path, id: str, parts: Sequence[tuple[int, bytes]]) -> Path:
    """Make a tape of one stream, of the reads and how long each came after the one before, the first after 200 ms."""
    frames, at_ns = [begin(id, 1, b"{}"), *response(id, [])], 200 * MS
    for seq, (gap_ns, part) in enumerate(parts):
        at_ns += gap_ns
        frames.append(read(id, seq, at_ns, at_ns + 60_000, part))
    return recorded(path, [*frames, end(id, [(at_ns // MS + 1, b"".join(part for _, part in parts))])])
