"""Ids of exchanges in the hands of programs that guess types."""

import random

from wiretape.recorder.ids import exchange_id
from wiretape.recorder.relay import proxy


def test_an_id_is_no_number_to_any_reader() -> None:
    for digits in ("1234567890123456", "12345678e9012345", "0000000000000000", "123456789012345d", "123456789012345f"):
        id = exchange_id(digits)
        assert id[:-1] == digits[:-1]
        assert id[-1] in "abc"
    assert exchange_id("a234567890123456") == "a234567890123456"


def test_every_new_id_holds_a_letter_no_number_has() -> None:
    chance = random.Random(1)
    ids = [proxy.new_id() for _ in range(5000)] + [exchange_id(f"{chance.getrandbits(64):016x}") for _ in range(5000)]
    assert all(set(id) & set("abc") and len(id) == 16 for id in ids)
    assert len(set(ids)) == len(ids)
