"""An exchange that still runs, measured from what there is of it: for every screen the same figures.

What can only be said at its end (how it ended, how long it lasted, tokens a second) is left out. Measuring takes as
long as decoding does, so that callers leave it for a large one.
"""

import functools
from typing import Final

from sqlalchemy import Connection

from recorder.decode import encoding
from recorder.decode.decoder import Decoded, decode
from recorder.decode.derive import derive
from recorder.decode.metrics import Measures
from recorder.decode.outcome import Exchange, Reads
from recorder.tape import reading
from viewer import rows
from viewer.rows import Row

LARGEST: Final = 512 << 10
"""A body of more bytes is not measured before its exchange has ended."""

RATIO: Final = 20
"""So many times larger a compressed event stream may well be without its coding."""

FIELDS: Final = (
    "model", "prompt_tokens", "completion_tokens", "total_tokens", "reasoning_tokens", "ttfb_ms", "ttfc_ms", "ttft_ms",
    "ttfo_ms", "ttst_ms", "ttf_byte_ms", "ttf_content_ms", "thinking_ms", "icl_mean_ms", "icl_p50_ms", "icl_p90_ms",
    "icl_p99_ms", "icl_max_ms", "max_stall_ms", "max_silence_ms", "events", "comments", "chunks", "output_chunks",
    "coalesced_fraction", "sparkline",
)  # fmt: skip
"""The fields that are given, of those that a row has."""

_FLAGS: Final = frozenset({"stall", "backpressure", "storage_gap"})


def is_measurable(row: Row, most: int = LARGEST) -> bool:
    """Say whether an exchange, of which `outcome` and `bytes` are known, still runs and is not larger than that."""
    return bool(row["outcome"] == "open" and row["bytes"] <= most)


def figures(connection: Connection, no: int) -> Measures:
    """Measure an exchange as far as it is; of a large compressed one nothing. Raises sqlalchemy's `NoResultFound`."""
    with connection.begin():
        facts, its_reads = reading.facts(connection, no)
        body = reading.readable_body(connection, no)
    if not encoding.is_identity(facts.content_encoding) and len(body) > LARGEST // RATIO:
        return derive(facts, [], b"")
    return _measured(facts, _hashable(its_reads), body)


def decoded(facts: Exchange, reads: Reads, body: bytes) -> Decoded:
    """Decode what there is of an exchange: once per change, whichever list, preview or pane asks first."""
    return _decoded(facts, _hashable(reads), body)


def _hashable(reads: Reads) -> Reads:
    seq, at_ns, start, size = (tuple(column) for column in (reads.seq, reads.at_ns, reads.start, reads.size))
    return Reads(seq, at_ns, tuple(reads.relayed_ns), start, size)


_decoded = functools.lru_cache(8)(decode)


@functools.lru_cache(8)
def _measured(facts: Exchange, reads: Reads, body: bytes) -> Measures:
    return derive(facts, reads, body, _decoded(facts, reads, body))


def filled(row: Row, found: Measures) -> Row:
    """Give a row with these figures, as far as it has their fields; the model asked for stays until one is named."""
    names = tuple(name for name in FIELDS if name in row)
    values = rows.exchange(names, [getattr(found, rows.stored_name(name)) for name in names])
    if values.get("model") is None:
        values.pop("model", None)
    return row | values | {"flags": [flag for flag in found.flags if flag in _FLAGS]}
