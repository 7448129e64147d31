"""Pure: a body without its content coding, as it would have come without one: each read with the text it brought.

Serving, cutting and playing need it; the tape keeps the bytes as they came.
"""

from collections.abc import Sequence
from typing import NamedTuple

from wiretape.recorder.decode import encoding
from wiretape.recorder.decode.exchange import Reads


class Body(NamedTuple):
    """A body with its headers, each `[name, value]` with the name in lower case, and its reads."""

    headers: Sequence[Sequence[str]]
    reads: Reads
    data: bytes


def uncoded(body: Body) -> Body | None:
    """Return a body without its content coding, itself if it has none; None if it cannot be decoded."""
    headers, reads, data = body
    ends, places = encoding.spans(reads.start, reads.size, len(data))
    plain, is_miscoded = encoding.detect_and_decode(encoding.coding_of(headers), data, ends)
    if plain.flag is not None:
        return None
    if plain.flush_count is None and not is_miscoded:
        return body
    # A read without bytes of its own, or whose bytes are missing, has brought no text.
    spans = {place: (start, end) for place, start, end in zip(places, (0, *plain.ends), plain.ends, strict=False)}
    starts, sizes = list[int](), list[int]()
    for place in range(len(reads)):
        start, end = spans.get(place, (0, 0))
        starts.append(start)
        sizes.append(end - start)
    length = str(len(plain.data))
    new_headers = [(name, length if name == "content-length" else value) for name, value in headers]
    new_headers = [pair for pair in new_headers if pair[0] != "content-encoding"]
    return Body(new_headers, Reads(reads.seq, reads.at_ns, reads.relayed_ns, starts, sizes), plain.data)
