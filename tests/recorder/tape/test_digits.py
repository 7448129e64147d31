"""An array of digits holds the numbers that were packed, in few bytes, and damage of it is found."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wiretape.recorder.tape import digits

NUMBERS = st.lists(st.none() | st.integers(-9, 300) | st.integers(-(1 << 54), 1 << 54))


@given(NUMBERS)
def test_numbers_are_what_they_were(numbers: list[int | None]) -> None:
    data = digits.packed(numbers)
    assert digits.unpacked(data, 2 * len(data) + (None in numbers and set(numbers) == {None}) * len(numbers)) == numbers


def test_a_digit_of_close_numbers_takes_half_a_byte() -> None:
    data = digits.packed([321, 326, 323, 321])
    assert data == b"[4,1,321]\n" + bytes.fromhex("0520")


def test_one_number_alone_is_its_own_base() -> None:
    for number in (0, 7, -7, 10**17):
        assert digits.packed([number]) == b"[1,1,%d]\n\0" % number
        assert digits.unpacked(digits.packed([number]), 1) == [number]


def test_a_number_far_from_the_others_is_beside_them() -> None:
    data = digits.packed([9_000_000_000, *[321] * 63])
    assert data == b'[64,1,321,{"0":9000000000}]\n' + bytes.fromhex("F" + "0" * 63)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"[", b"[2,1,0]", b"[2,1,0]\n", b"[2,1,0]\n\x0f", b"[2,1,0]\n\xab", b'[2,1,0,{"1":7}]\n\x00',
        b'[2,1,0,{"5":7}]\n\x00', b"[9999999999,0,1]\n", b"[-1,1,0]\n", b"[1,99,0]\n" + bytes(50),
        b'[2,1,"0"]\n\x00',
    ],
)  # fmt: skip
def test_a_damaged_array_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        digits.unpacked(data, 100)
