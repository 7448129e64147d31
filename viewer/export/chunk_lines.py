"""Chunks as lines of CSV, without a row in between: what `export` writes of `rows.chunks`, made run by run.

Of the millions of chunks that a tape holds nearly each differs from the one before in a text, its number and two
instants: the other cells are written once for a run. A test holds every line to what `csv.writer` makes of the row.
What goes into a cell is left to `export`, what a row holds to `rows`.
"""

import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from recorder.decode.decoder import Decoded
from viewer import rows

_FIRST: Final = rows.CHUNK_FIELDS.index("event") + 1
# What every CSV has as it is.
_ORDINARY: Final = re.compile(r"[ \w][ \w.;:!?'()—-]*+").fullmatch


def lines(id: str, decoded: Decoded, cell: Callable[[Any], str], end: str) -> list[str]:
    """Return the lines of an exchange's chunks; `cell` writes a text, an integer, a boolean or None as CSV has it."""
    at_ns = list(itertools.chain.from_iterable(decoded.at_ns[run.items] for run in decoded.runs))
    at_ms, gap_ms = milliseconds(at_ns), ["", *milliseconds(rows.gaps(at_ns))]
    found: list[str] = []
    own, seq = cell(id), 0
    for run in decoded.runs:
        around = [_around(row, run.part, cell, end) for row in rows.chunk(id, run.chunk)]
        here = slice(seq, seq + len(run))
        reads = ["" if read is None else read for read in decoded.reads[run.items]]
        texts = [text if _ORDINARY(text) else cell(text) for text in run.texts]
        found += [
            f"{own},{number},{at},{gap},{read},{item},{before}{text}{after}"
            for number, (at, gap, read, item, text) in enumerate(
                zip(at_ms[here], gap_ms[here], reads, itertools.count(run.item), texts), seq
            )
            for before, after in around
        ]
        seq += len(run)
    return found


def milliseconds(ns: Sequence[float | None]) -> list[str]:
    """Write nanoseconds as CSV has them: `rows.ms` of each, with as many digits as it needs; unknown is empty.

    Raises `TapeDamaged` where one is no number.
    """
    known = [value for value in ns if value is not None]
    if not _are_usual(known):
        return ["" if value is None else repr(rows.ms(value)) for value in ns]
    whole = set(map(type, known)) == {int}
    written = msgspec.json.encode([value / 1e6 for value in known] if whole else [rows.ms(value) for value in known])
    # It writes what Python does, and faster, but for what Python writes with an exponent.
    if b"e" in written or b"n" in written or b",0.0000" in written or written.startswith(b"[0.0000"):
        return ["" if value is None else repr(rows.ms(value)) for value in ns]
    texts = written[1:-1].decode().split(",")
    if len(texts) == len(ns):
        return texts
    following = iter(texts)
    return ["" if value is None else next(following) for value in ns]


def _are_usual(known: Sequence[float]) -> bool:
    try:
        return bool(known) and min(known) >= 0 and max(known) < rows.EXACT
    except TypeError:  # a text, of which `rows.ms` says what it means
        return False


def _around(row: rows.Row, part: str | None, cell: Callable[[Any], str], end: str) -> tuple[str, str]:
    """Give what stands in a line before the open text, after the event, and what stands after it."""
    fields = rows.CHUNK_FIELDS[_FIRST:]
    cells = [cell(row[field]) for field in fields]
    if part is None:
        return ",".join(cells), end
    place = fields.index(rows.PART_FIELDS[part])
    return "".join(f"{one}," for one in cells[:place]), "".join(f",{one}" for one in cells[place + 1 :]) + end
