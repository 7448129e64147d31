"""Arrays of integers as decimal digits, two in a byte. Pure.

An array is a line of JSON, `[count, digits, base]` or `[count, digits, base, {"index": number}]`, and then `digits`
digits of each number less `base`. `hex()` of SQL shows them, and `CAST(… AS INTEGER)` makes numbers of them. A number
outside of the range of these digits is in the object instead, and its digits are F. Without digits, all are `base`.
"""

from collections.abc import Iterable, Sequence
from typing import Final, TypeGuard, cast

import msgspec

_COST_OF_OTHER: Final = 28
"""Size of an entry of the object for outliers, in digits."""
_MOST_DIGITS: Final = 17
"""Limit of the digits of a number: with one more in front, they fit 64 bits."""
_EMPTY: Final = b"[0,0,0]\n"
_encode = msgspec.json.Encoder().encode
_numbers = msgspec.json.Decoder(list[int]).decode


class _Head(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """The first line of an array."""

    count: int
    digits: int
    base: int | None
    others: dict[int, int | None] = {}


_head = msgspec.json.Decoder(_Head).decode


def packed(numbers: Sequence[int | None]) -> bytes:
    """Pack numbers; None stands for an unknown one."""
    if not numbers:
        return _EMPTY
    if len(numbers) == 1 and numbers[0] is not None:
        return single(numbers[0])
    ordered = sorted(cast("Sequence[int]", numbers) if None not in numbers else filter(_is_known, numbers))
    if not ordered:
        return _encode([len(numbers), 0, None]) + b"\n"
    digits, base = _layout(ordered, len(numbers))
    last, others = base + 10**digits - 1, {}
    if len(ordered) < len(numbers) or ordered[0] < base or ordered[-1] > last:
        others = {index: one for index, one in enumerate(numbers) if one is None or not base <= one <= last}
        numbers = list(numbers)
        for index in others:
            numbers[index] = base
    # A digit 1 in front of each keeps its leading zeros.
    ones = _encode(list(map((10**digits - base).__add__, numbers)))
    text = ones[2:-1].replace(b",1", b"").decode()
    if len(text) % 2:
        text += "0"
    head = [len(numbers), digits, base, others] if others else [len(numbers), digits, base]
    return b"%b\n%b" % (_encode(head), bytes.fromhex(_marked(text, others, digits) if others else text))


def single(number: int) -> bytes:
    """Pack one number, as of an answer in one read."""
    return b"[1,1,%d]\n\0" % number


def _is_known(number: int | None) -> TypeGuard[int]:
    return number is not None


def _layout(ordered: Sequence[int], count: int) -> tuple[int, int]:
    """Return the number of digits, and the base, that take the fewest bytes with all numbers outside of their range."""
    found = list[tuple[int, int, int]]()
    for cut in (0, 1 + count // 64, 1 + count // 16):
        for below, above in {(cut, 0), (0, cut), (cut, cut)}:
            if below + above < len(ordered):
                low, high = ordered[below], ordered[-1 - above]
                digits = len(str(high - low))
                found.append((count * digits + (below + above) * _COST_OF_OTHER, digits, low))
    _, digits, low = min(found)
    return digits, low


def _marked(text: str, others: Iterable[int], digits: int) -> str:
    """Put F in place of the digits of numbers that are elsewhere."""
    marked = bytearray(text.encode())
    for index in others:
        marked[index * digits : (index + 1) * digits] = b"F" * digits
    return marked.decode()


def unpacked(data: bytes, most: int) -> list[int | None]:
    """Return the numbers of an array of at most `most`. Raises `ValueError` if it is damaged, or has more."""
    head, cells = _split(data)
    count, digits = head.count, head.digits
    if not (0 <= count <= most and 0 <= digits <= _MOST_DIGITS and (count * digits + 1) // 2 == len(cells)):
        raise ValueError(f"an array of {count} numbers has {len(cells)} bytes of digits")
    if head.base is None:
        return [None] * count
    if not digits:
        return [head.base] * count
    text = bytearray(cells.hex().encode())
    if head.others:
        _clear(text, head)
    # JSON has no leading zeros: each number has a digit 1 in front of them.
    ones = bytearray(b",1" + b"0" * digits) * count
    for place in range(digits):
        ones[place + 2 :: digits + 2] = text[place : count * digits : digits]
    ones[:1] = b"["
    numbers: list[int | None] = list(map((head.base - 10**digits).__add__, _numbers(ones + b"]")))
    for index, other in head.others.items():
        numbers[index] = other
    return numbers


def _split(data: bytes) -> tuple[_Head, bytes]:
    line, _, cells = data.partition(b"\n")
    return _head(line), cells


def _clear(text: bytearray, head: _Head) -> None:
    """Put zeros in place of the digits F of numbers that are in the object, and only of these."""
    mark = b"f" * head.digits
    for index in head.others:
        start, end = index * head.digits, (index + 1) * head.digits
        if not 0 <= index < head.count or text[start:end] != mark:
            raise ValueError(f"number {index} is there twice")
        text[start:end] = b"0" * head.digits
