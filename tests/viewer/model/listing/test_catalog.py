"""A list of exchanges: their places, the rows that are kept, and the marks."""

import pytest

from viewer.model.listing.catalog import MOST_MARKS, PAGE, Catalog, Marks
from viewer.rows import Row


def rows(*numbers: int) -> list[Row]:
    return [{"no": number} for number in numbers]


def test_by_time_the_newest_is_at_the_top() -> None:
    catalog = Catalog([1, 2, 5])
    assert [catalog.number(place) for place in range(len(catalog))] == [5, 2, 1]
    assert [catalog.place(number) for number in (5, 2, 1, 3)] == [0, 1, 2, None]


def test_in_another_order_the_numbers_stand_as_they_were_sorted() -> None:
    catalog = Catalog([5, 1, 2], by_time=False)
    assert [catalog.number(place) for place in range(3)] == [5, 1, 2]
    assert [catalog.place(number) for number in (1, 9)] == [1, None]


def test_what_arrives_leaves_the_rows_that_are_there() -> None:
    catalog = Catalog([1, 2])
    catalog.put(rows(1, 2))
    assert catalog.add([3, 4, 2]) == 2
    assert [catalog.number(place) for place in range(4)] == [4, 3, 2, 1]
    assert catalog.row(2) == {"no": 2}
    assert catalog.row(0) is None
    assert catalog.missing(0, 3) == [[1, 2, 3, 4]]


def test_what_fits_only_later_takes_its_place_by_time() -> None:
    catalog = Catalog([1, 5])
    catalog.put(rows(1, 5))
    assert catalog.add([3]) == 1
    assert [catalog.number(place) for place in range(3)] == [5, 3, 1]


def test_in_another_order_arrivals_are_counted_once_and_not_listed() -> None:
    catalog = Catalog([2, 1], by_time=False)
    assert catalog.add([3, 4]) == 0
    assert catalog.add([4]) == 0
    assert (len(catalog), catalog.arrived) == (2, 2)
    catalog.drop([4])
    assert catalog.arrived == 1


def test_a_page_is_wanted_until_all_its_rows_are_there() -> None:
    catalog = Catalog(range(1, 3 * PAGE + 1))
    first = list(range(2 * PAGE + 1, 3 * PAGE + 1))
    assert catalog.missing(0, 10) == [first]
    catalog.put(rows(*first))
    assert catalog.missing(0, 10) == []
    assert catalog.missing(PAGE - 1, PAGE) == [list(range(PAGE + 1, 2 * PAGE + 1))]
    assert catalog.missing(-50, 10**6) != []


def test_the_longest_unused_pages_are_forgotten() -> None:
    catalog = Catalog(range(1, 100 * PAGE + 1))
    for place in range(0, 100 * PAGE, PAGE):
        catalog.put(rows(*(number for page in catalog.missing(place, place) for number in page)))
    assert catalog.row(0) is None
    assert catalog.row(99 * PAGE) == {"no": PAGE}


def test_only_rows_that_are_kept_are_refreshed() -> None:
    catalog = Catalog(range(1, 2 * PAGE + 1))
    catalog.put(rows(2 * PAGE))
    catalog.refresh([{"no": 2 * PAGE, "new": True}, {"no": 1, "new": True}, {"no": 10**6}])
    assert catalog.row(0) == {"no": 2 * PAGE, "new": True}
    assert catalog.row(2 * PAGE - 1) is None


def test_rows_of_what_has_ended_are_read_again_and_in_another_order_it_is_counted() -> None:
    catalog = Catalog([3, 1, 2], by_time=False)
    catalog.put(rows(1, 2, 3))
    catalog.end([1, 9], moves=True)
    catalog.end([2], moves=False)
    assert catalog.missing(0, 2) == [[3, 1, 2]]
    assert (catalog.ended, [catalog.row(place) for place in range(3)]) == (1, [{"no": 3}, None, None])
    catalog.drop([1])
    assert catalog.ended == 0
    by_time = Catalog([1, 2])
    by_time.end([1], moves=True)
    assert by_time.ended == 0


def test_what_is_gone_is_dropped() -> None:
    catalog = Catalog([1, 2, 3])
    catalog.put(rows(1, 2, 3))
    catalog.drop([2, 9])
    assert [catalog.number(place) for place in range(2)] == [3, 1]


@pytest.mark.parametrize(("number", "place"), [(9, 0), (4, 1), (0, 2), (5, 0)])
def test_the_place_of_what_is_not_there_is_where_it_would_stand(number: int, place: int) -> None:
    assert Catalog([1, 3, 5]).nearest(number) == place


def test_in_another_order_it_is_the_top() -> None:
    assert Catalog([3, 1], by_time=False).nearest(2) == 0
    assert Catalog().nearest(2) == 0


def test_an_exchange_is_marked_and_then_is_not() -> None:
    marked = Marks()
    for number in (3, 1, 3, 2):
        marked.toggle(number, f"id {number}")
    assert (list(marked), marked.ids, len(marked)) == ([1, 2], {1: "id 1", 2: "id 2"}, 2)
    marked.clear()
    assert not marked


def test_a_mark_is_of_an_id_and_goes_where_its_number_is_anothers() -> None:
    marked = Marks()
    for number in (1, 2, 3):
        marked.toggle(number, f"id {number}")
    assert marked.ids == {1: "id 1", 2: "id 2", 3: "id 3"}
    assert marked.check({1: "id 1", 2: "another"}) == 2
    assert (marked.ids, marked.check({1: "id 1"})) == ({1: "id 1"}, 0)


def test_no_more_are_marked_than_may_be() -> None:
    marked = Marks()
    for number in range(MOST_MARKS + 1):
        marked.toggle(number, "")
    assert len(marked) == MOST_MARKS


def test_two_are_compared_one_of_which_may_be_selected_only() -> None:
    marked = Marks()
    assert marked.pair(1) is None
    marked.toggle(1, "")
    assert (marked.pair(1), marked.pair(None), marked.pair(7)) == (None, None, (1, 7))
    marked.toggle(2, "")
    assert marked.pair(7) == (1, 2)
    marked.toggle(3, "")
    assert marked.pair(7) is None
