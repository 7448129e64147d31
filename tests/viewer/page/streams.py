"""Long streams for pages: as many chunks as one likes, at timestamps like those of a real API."""

import random
from pathlib import Path

from tests.recorder.frames import read
from tests.viewer.conftest import DONE, MS, USAGE, begin, end, event, recorded, response


def long_stream(path: Path, chunks: int, id: str = "a" * 16) -> Path:
    """Make a tape of one stream, with words of its own."""
    chance = random.Random(7)
    words = ["".join(chance.choices("etaoinshrdlucmfwyp", k=chance.randint(1, 8))) + " " for _ in range(600)]
    parts = [event({"content": chance.choice(words)}) for _ in range(chunks)]
    parts.append(event({}, "stop") + USAGE + DONE)
    frames, at_ns = [begin(id, 1, b"{}"), *response(id, [])], 300 * MS
    for seq, part in enumerate(parts):
        at_ns += round(chance.lognormvariate(3, 0.6) * MS)
        frames.append(read(id, seq, at_ns, at_ns + chance.randint(40_000, 90_000), part))
    return recorded(path, [*frames, end(id, [(at_ns // MS + 1, b"".join(parts))])])
