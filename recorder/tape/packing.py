"""The arrays in which a tape keeps many numbers in one cell: an exchange's reads, and the gaps of its output. Pure.

Reads are three arrays: the times between them, the delay of each until the client had it, and their sizes. Number and
place of a read follow from those before it. Null in the first is a damaged read, in the second one that was never
relayed. Without timestamps there are no reads: the first two are null, the third is the size of the body.

While an exchange is open, the arrays are JSON, which is cheap to write; of a finished one they are decimal digits
(`wiretape.recorder.tape.digits`). SQL reads both. Of 200 streams of 200 chunks, recorded over loopback, the three take
7.7 bytes a read as digits, 19.3 as JSON, 14.9 as JSON of the differences to the median. Binary numbers of whole bytes
would take 7.3, but SQL reads them only byte by byte; their entropy is 4.8.

Gaps are a byte with the width of a number, 4 or 8 bytes, and the numbers, little-endian. Nearly all gaps are
shorter than the 4.29 s that fit 4 bytes. Every statistic reads all of them, so they are neither JSON nor compressed.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from operator import add, sub
from typing import Annotated, Any, Final, NamedTuple, cast

import msgspec

from wiretape.recorder.decode.exchange import Read, Reads
from wiretape.recorder.tape import digits

MOST: Final = 1 << 53
"""Limit of measured values (ns, bytes): below it floats are exact and dates do not overflow."""
Place = Annotated[int, msgspec.Meta(ge=0, lt=MOST)]
Timestamp = Annotated[int, msgspec.Meta(gt=-MOST, lt=MOST)]

_NARROW, _WIDE = b"\x04", b"\x08"
"""First byte of an array of gaps: the width of its numbers."""
_UNTIMED: Final = "null"
_UNTIMED_DIGITS: Final = digits.packed([None])

_encode = msgspec.json.Encoder().encode
_timestamps = msgspec.json.Decoder(list[Timestamp])
_lags = msgspec.json.Decoder(list[Timestamp | None])
_sizes = msgspec.json.Decoder(list[Place])
Array = str | bytes
"""JSON, or digits."""


class Packed(NamedTuple):
    """Reads that follow each other, as the tape has them; `seq` and `start` are those of the first."""

    seq: int
    start: int
    at_ns: Array
    relayed_ns: Array
    sizes: Array


def pack(reads: Reads) -> Packed:
    """Pack all reads of a finished exchange; missing reads between them have no times."""
    if len(reads.seq) == 1 and reads.seq[0] == reads.start[0] == 0 and (relayed_ns := reads.relayed_ns[0]) is not None:
        at_ns = reads.at_ns[0]  # as of nearly all short answers: below, each step looks at whole columns
        if -MOST < at_ns < MOST and -MOST < relayed_ns < MOST:
            return Packed(0, 0, *map(digits.single, (at_ns, relayed_ns - at_ns, reads.size[0])))
    starts = [*accumulate(reads.size, initial=0)]
    is_contiguous = starts[:-1] == list(reads.start) and list(reads.seq) == list(range(len(reads)))
    columns = _columns(reads.at_ns, reads.relayed_ns, reads.size) if is_contiguous else _with_holes(reads)
    return Packed(0, 0, *map(digits.packed, columns))


def untimed(size: int) -> Packed:
    """Return the arrays of a finished body without timestamps."""
    return Packed(0, 0, _UNTIMED_DIGITS, _UNTIMED_DIGITS, digits.packed([size]))


def is_untimed(packed: Packed) -> bool:
    """Return True if the bytes have no timestamps."""
    return packed.at_ns in (_UNTIMED, _UNTIMED_DIGITS)


def packed(seq: int, start: int, at_ns: Sequence[int], relayed_ns: Sequence[int | None], size: Sequence[int]) -> Packed:
    """Pack reads of an open exchange that follow each other without a gap; without timestamps, they are untimed.

    Raises `OverflowError` for a time that no tape can have.
    """
    if not at_ns and size:
        return Packed(0, 0, _UNTIMED, _UNTIMED, f"[{sum(size)}]")
    columns = _columns(at_ns, relayed_ns, size)
    return Packed(seq, start, *(_encode(column).decode() for column in columns))


_Columns = tuple[Sequence[int | None], Sequence[int | None], Sequence[int | None]]


def _columns(at_ns: Sequence[int], relayed_ns: Sequence[int | None], size: Sequence[int]) -> _Columns:
    if not (_are_timestamps(at_ns) and _are_timestamps(relayed_ns)):
        raise OverflowError("a timestamp is too large")
    try:
        lags: list[int | None] = list(map(sub, relayed_ns, at_ns))
    except TypeError:  # some were never relayed
        lags = [None if relayed is None else relayed - at for relayed, at in zip(relayed_ns, at_ns, strict=True)]
    return [*at_ns[:1], *map(sub, at_ns[1:], at_ns)], lags, size


def _with_holes(reads: Reads) -> _Columns:
    """Return the columns from read 0 on: missing reads have no times, and the first one of a hole has all its bytes."""
    deltas, lags, sizes = list[int | None](), list[int | None](), list[int]()
    position = previous_ns = 0
    for seq, at_ns, relayed_ns, start, size in reads:
        missing = seq - len(sizes)
        if 0 < missing <= 1 << 16:  # beyond that the number is damaged
            hole = max(start - position, 0)
            deltas += [None] * missing
            lags += [None] * missing
            sizes += [hole, *[0] * (missing - 1)]
            position += hole
        deltas.append(at_ns - previous_ns)
        lags.append(None if relayed_ns is None else relayed_ns - at_ns)
        sizes.append(size)
        position, previous_ns = position + size, at_ns
    return deltas, lags, sizes


def unpack(packed: Packed) -> Reads:
    """Return packed reads. Raises `ValueError` (as `msgspec.MsgspecError` is) if anything is damaged."""
    seq, start, *arrays = packed
    if not _is_placed(packed):
        raise ValueError("its place is not a number")
    if is_untimed(packed):
        _without_null(arrays[2], _sizes, 1)
        return Reads((), (), (), (), ())
    most = _most(packed)
    deltas, sizes = _without_null(arrays[0], _timestamps, most), _without_null(arrays[2], _sizes, most)
    lags = digits.unpacked(arrays[1], most) if isinstance(arrays[1], bytes) else _lags.decode(arrays[1])
    if not len(deltas) == len(lags) == len(sizes):
        raise ValueError(f"its arrays have {len(deltas)}, {len(lags)} and {len(sizes)} elements")
    if sizes and min(sizes) < 0:
        raise ValueError("a size is negative")
    at_ns = [*accumulate(deltas)]
    try:
        relayed: list[int | None] = list(map(add, at_ns, lags))
    except TypeError:
        relayed = [None if lag is None else at + lag for at, lag in zip(at_ns, lags, strict=True)]
    *starts, end = accumulate(sizes, initial=start)
    if not (_are_timestamps(at_ns) and _are_timestamps(relayed) and end < MOST):
        raise ValueError("a number in its arrays is too large")
    return Reads(range(seq, seq + len(sizes)), at_ns, relayed, starts, sizes)


def _without_null(array: Any, json: msgspec.json.Decoder[list[int]], most: int) -> list[int]:
    """Return the numbers of an array without nulls, at most `most`. Raises `ValueError`."""
    if not isinstance(array, bytes):
        return json.decode(array)
    if None in (numbers := digits.unpacked(array, most)):
        raise ValueError("a number in its arrays is null")
    return cast("list[int]", numbers)


def _most(packed: Packed) -> int:
    """Return the largest count of reads that arrays of these sizes can have."""
    arrays: Sequence[Any] = packed[2:]  # of a damaged tape, they may be anything
    return 2 * max(len(array) if isinstance(array, str | bytes) else 0 for array in arrays)


def _are_timestamps(values: Sequence[int | None]) -> bool:
    timestamps: Sequence[Any] = values if None not in values else [value for value in values if value is not None]
    return not timestamps or (min(timestamps) > -MOST and max(timestamps) < MOST)


def _is_placed(packed: Packed) -> bool:
    seq, start = packed[:2]
    return type(seq) is int and 0 <= seq < MOST and type(start) is int and 0 <= start < MOST


class ReadValues(NamedTuple):
    """The values of one read in the arrays; None is damaged, or not known."""

    delta: int | None
    lag: int | None
    size: int | None


def elements(packed: Packed) -> Iterator[ReadValues]:
    """Yield the values of each read, even from damaged arrays."""
    columns = list[list[int | None]]()
    for array in packed[2:]:
        try:
            values = digits.unpacked(array, _most(packed)) if isinstance(array, bytes) else msgspec.json.decode(array)
        except (ValueError, TypeError, RecursionError):
            values = None
        numbers = values if isinstance(values, list) else []
        columns.append([value if type(value) is int and -MOST < value < MOST else None for value in numbers])
    deltas, lags, sizes = columns
    for place in range(max(len(deltas), len(sizes))):
        delta, lag, size = (column[place] if place < len(column) else None for column in (deltas, lags, sizes))
        yield ReadValues(delta, lag, size if size is not None and size >= 0 else None)


def intact(packed: Packed) -> list[Read]:
    """Return the reads of damaged arrays that are not damaged themselves."""
    reads, at_ns, position = list[Read](), 0, packed.start
    if not _is_placed(packed):
        return reads
    for seq, (delta, lag, size) in enumerate(elements(packed), packed.seq):
        if delta is not None:
            at_ns += delta
            if size is not None and abs(at_ns) < MOST:
                reads.append(Read(seq, at_ns, None if lag is None else at_ns + lag, position, size))
        position += size or 0
        if position >= MOST:
            break
    return reads


def is_array(data: bytes) -> bool:
    """Return True if these are digits that can be unpacked."""
    try:
        digits.unpacked(data, 2 * len(data))
    except ValueError:
        return False
    return True


def numbers_of(data: bytes) -> list[int | None] | None:
    """Return the numbers of an array of digits; None if none is known."""
    numbers = digits.unpacked(data, 2 * len(data))
    return None if numbers == [None] else numbers


def join(pieces: Sequence[Reads]) -> Reads:
    if len(pieces) == 1:
        return pieces[0]
    columns = ("seq", "at_ns", "relayed_ns", "start", "size")
    return Reads(*([value for piece in pieces for value in getattr(piece, name)] for name in columns))


def pack_gaps(gaps: bytes) -> bytes:
    """Return gaps, int64 in ns, in as few bytes as hold them exactly."""
    if any(any(gaps[place::8]) for place in range(4, 8)):
        return _WIDE + gaps
    return _NARROW + _spread(gaps, 8, 4) if gaps else b""


def unpack_gaps(packed: bytes) -> bytes:
    """Return packed gaps as int64. Raises `ValueError` if they are damaged."""
    if not are_gaps(packed):
        raise ValueError("not a packed array")
    return packed[1:] if packed[:1] != _NARROW else _spread(packed[1:], 4, 8)


def unpack_all_gaps(arrays: Sequence[bytes | None]) -> list[bytes | None]:
    """Return packed gaps that are valid as int64, None where there are none: of many at once in a third of the time."""
    narrow = _spread(b"".join([array[1:] for array in arrays if array and array[:1] == _NARROW]), 4, 8)
    unpacked, position = list[bytes | None](), 0
    for array in arrays:
        if array and array[:1] == _NARROW:
            end = position + 2 * (len(array) - 1)
            unpacked.append(narrow[position:end])
            position = end
        else:
            unpacked.append(array and array[1:])
    return unpacked


def _spread(numbers: bytes, width: int, to_width: int) -> bytes:
    """Return little-endian numbers of less than 32 bits in another width; byte by byte of all, which is fast."""
    spread = bytearray(len(numbers) // width * to_width)
    for place in range(4):
        spread[place::to_width] = numbers[place::width]
    return bytes(spread)


def are_gaps(packed: bytes) -> bool:
    """Return True if this is a packed array of gaps."""
    return not packed or (packed[:1] in (_NARROW, _WIDE) and (len(packed) - 1) % packed[0] == 0)
