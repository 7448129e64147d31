"""Arrays of integers as decimal digits, two in a byte. Pure.

An array is a line of JSON, `[count, digits, base]` or `[count, digits, base, {"index": number}]`, and then `digits`
digits of each number less `base`. `hex()` of SQL shows them, and `CAST(… AS INTEGER)` makes numbers of them. A number
outside of the range of these digits is in the object instead, and its digits are F. Without digits, all are `base`.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

_encode = msgspec.json.Encoder().encode
_numbers = msgspec.json.Decoder(list[int]).decode


class _Head(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """The first line of an array."""

    count: int
    digits: int
    base: int | None
    outliers: dict[int, int | None] = {}


_head = msgspec.json.Decoder(_Head).decode


def packed(numbers: Sequence[int | None]) -> bytes:
    """Pack numbers; None stands for an unknown one."""
    if not numbers:
        return b"[0,0,0]\n"
    if len(numbers) == 1 and numbers[0] is not None:
        return single(numbers[0])
    without_none: Any = numbers if None not in numbers else [number for number in numbers if number is not None]
    ordered: list[int] = sorted(without_none)
    if not ordered:
        return _encode([len(numbers), 0, None]) + b"\n"
    digits, base = _layout(ordered, len(numbers))
    highest, outliers = base + 10**digits - 1, {}
    if len(ordered) < len(numbers) or ordered[0] < base or ordered[-1] > highest:
        outliers = {
            index: number for index, number in enumerate(numbers) if number is None or not base <= number <= highest
        }
        numbers = list(numbers)
        for index in outliers:
            numbers[index] = base
    # A digit 1 in front of each keeps its leading zeros.
    ones = _encode(list(map((10**digits - base).__add__, numbers)))
    text = ones[2:-1].replace(b",1", b"").decode()
    if len(text) % 2:
        text += "0"
    head: list[Any] = [len(numbers), digits, base]
    if outliers:
        head.append(outliers)
        marked = bytearray(text.encode())
        for index in outliers:
            marked[index * digits : (index + 1) * digits] = b"F" * digits
        text = marked.decode()
    return b"%b\n%b" % (_encode(head), bytes.fromhex(text))


def single(number: int) -> bytes:
    """Pack one number, as of an answer in one read."""
    return b"[1,1,%d]\n\0" % number


def _layout(ordered: Sequence[int], count: int) -> tuple[int, int]:
    """Return the number of digits, and the base, that take the fewest bytes with all numbers outside of their range."""
    layouts = list[tuple[int, int, int]]()
    for cut in (0, 1 + count // 64, 1 + count // 16):
        for below, above in {(cut, 0), (0, cut), (cut, cut)}:
            if below + above < len(ordered):
                low, high = ordered[below], ordered[-1 - above]
                digits = len(str(high - low))
                size = count * digits + (below + above) * 28  # an outlier's entry in the object takes about 28 digits
                layouts.append((size, digits, low))
    _, digits, low = min(layouts)
    return digits, low


def unpacked(data: bytes, most: int) -> list[int | None]:
    """Return the numbers of an array of at most `most`. Raises `ValueError` if it is damaged, or has more."""
    line, _, cells = data.partition(b"\n")
    head = _head(line)
    count, digits = head.count, head.digits
    # With one more digit in front, 17 fit 64 bits.
    if not (0 <= count <= most and 0 <= digits <= 17 and (count * digits + 1) // 2 == len(cells)):
        raise ValueError(f"an array of {count} numbers has {len(cells)} bytes of digits")
    if head.base is None:
        return [None] * count
    if not digits:
        return [head.base] * count
    text = bytearray(cells.hex().encode())
    mark = b"f" * digits
    for index in head.outliers:  # zeros in place of their digits F, and only of these
        start, end = index * digits, (index + 1) * digits
        if not 0 <= index < count or text[start:end] != mark:
            raise ValueError(f"number {index} is there twice")
        text[start:end] = b"0" * digits
    # JSON has no leading zeros: each number has a digit 1 in front of them.
    ones = bytearray(b",1" + b"0" * digits) * count
    for place in range(digits):
        ones[place + 2 :: digits + 2] = text[place : count * digits : digits]
    ones[:1] = b"["
    numbers: list[int | None] = list(map((head.base - 10**digits).__add__, _numbers(ones + b"]")))
    for index, outlier in head.outliers.items():
        numbers[index] = outlier
    return numbers
