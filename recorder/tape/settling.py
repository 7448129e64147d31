"""Pure: what an ended exchange becomes: its measures, and its body packed.

The one thing in a writer that can take long; so it needs no tape, and may run beside what commits. Reading the facts
and storing what comes of them is left to `recorder.tape.store`.
"""

import dataclasses
import hashlib
import sys
import traceback
import zlib
from typing import Any

from recorder.decode.derive import Measures, derive
from recorder.decode.outcome import Exchange, Read


@dataclasses.dataclass(frozen=True, slots=True)
class Facts:
    """What is decoded of an exchange: its number, facts, reads and body (None: nothing is left to be done)."""

    no: int
    exchange: Exchange
    reads: list[Read]
    body: bytes | None


@dataclasses.dataclass(frozen=True, slots=True)
class Decoded:
    """What decoding gave: the packed body's row, and the measures; None where there is nothing to store."""

    no: int
    packed: dict[str, Any] | None
    measures: Measures | None


def decode_facts(given: Facts) -> Decoded:
    """Derive measures and pack the body: pure, and the one thing in a writer that can take long."""
    if given.body is None:
        return Decoded(given.no, None, None)
    packed = {
        "exchange_no": given.no,
        "size": len(given.body),
        "sha256": hashlib.sha256(given.body).hexdigest(),
        "data": zlib.compress(given.body),
    }
    return Decoded(given.no, packed, measured(given.exchange, given.reads, given.body))


def measured(exchange: Exchange, its_reads: list[Read], body: bytes) -> Measures | None:
    """Derive the measures; None, and a traceback on standard error, where a bug in a decoder keeps us from it."""
    try:
        return derive(exchange, its_reads, body)
    except Exception:  # noqa: BLE001 - a decoder's bug must not cost the facts: they are kept, to be derived again
        traceback.print_exc(file=sys.stderr)
        return None
