"""Marks: what is marked, and which two are compared."""

from viewer.model.listing import marks
from viewer.model.listing.marks import Marks


def test_an_exchange_is_marked_and_then_is_not() -> None:
    marked = Marks()
    for number in (3, 1, 3, 2):
        marked.toggle(number, f"id {number}")
    assert (list(marked), marked.ids, len(marked)) == ([1, 2], ["id 1", "id 2"], 2)
    marked.clear()
    assert not marked


def test_a_mark_is_of_an_id_and_goes_where_its_number_is_anothers() -> None:
    marked = Marks()
    for number in (1, 2, 3):
        marked.toggle(number, f"id {number}")
    assert marked.known == {1: "id 1", 2: "id 2", 3: "id 3"}
    assert marked.check({1: "id 1", 2: "another"}) == 2
    assert (marked.ids, marked.check({1: "id 1"})) == (["id 1"], 0)


def test_no_more_are_marked_than_may_be() -> None:
    marked = Marks()
    for number in range(marks.MOST + 1):
        marked.toggle(number, "")
    assert len(marked) == marks.MOST


def test_two_are_compared_one_of_which_may_be_selected_only() -> None:
    marked = Marks()
    assert marked.pair(1) is None
    marked.toggle(1, "")
    assert (marked.pair(1), marked.pair(None), marked.pair(7)) == (None, None, (1, 7))
    marked.toggle(2, "")
    assert marked.pair(7) == (1, 2)
    marked.toggle(3, "")
    assert marked.pair(7) is None
