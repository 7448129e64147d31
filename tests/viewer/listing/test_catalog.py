"""A list of exchanges: their places, the rows that are kept, and the marks."""

from tests.support.cases import each_case
from tests.support.exchanges import listed
from wiretape.viewer.listing.catalog import MOST_MARKS, PAGE, Catalog, Marks
from wiretape.viewer.record.rows import ListRow


def rows(*numbers: int) -> list[ListRow]:
    return [listed(no=number) for number in numbers]


def test_by_time_the_newest_is_at_the_top() -> None:
    catalog = Catalog([1, 2, 5])
    assert [catalog.number(place) for place in range(len(catalog))] == [5, 2, 1]
    assert [catalog.place(number) for number in (5, 2, 1, 3)] == [0, 1, 2, None]


def test_sorted_numbers_keep_their_order() -> None:
    catalog = Catalog([5, 1, 2], by_time=False)
    assert [catalog.number(place) for place in range(3)] == [5, 1, 2]
    assert [catalog.place(number) for number in (1, 9)] == [1, None]


def test_arrivals_keep_the_rows_that_are_read() -> None:
    catalog = Catalog([1, 2])
    catalog.put(rows(1, 2))
    assert catalog.add([3, 4, 2]) == 2
    assert [catalog.number(place) for place in range(4)] == [4, 3, 2, 1]
    assert catalog.row(2) == listed(no=2)
    assert catalog.row(0) is None
    assert catalog.missing(0, 3) == [[1, 2, 3, 4]]


def test_late_matches_are_inserted_by_time() -> None:
    catalog = Catalog([1, 5])
    catalog.put(rows(1, 5))
    assert catalog.add([3]) == 1
    assert [catalog.number(place) for place in range(3)] == [5, 3, 1]


def test_arrivals_in_another_order_are_only_counted() -> None:
    catalog = Catalog([2, 1], by_time=False)
    assert catalog.add([3, 4]) == 0
    assert catalog.add([4]) == 0
    assert (len(catalog), catalog.arrived) == (2, 2)
    catalog.drop([4])
    assert catalog.arrived == 1


def test_page_is_missing_until_all_its_rows_are_read() -> None:
    catalog = Catalog(range(1, 3 * PAGE + 1))
    first_page = list(range(2 * PAGE + 1, 3 * PAGE + 1))
    assert catalog.missing(0, 10) == [first_page]
    catalog.put(rows(*first_page))
    assert catalog.missing(0, 10) == []
    assert catalog.missing(PAGE - 1, PAGE) == [list(range(PAGE + 1, 2 * PAGE + 1))]
    assert catalog.missing(-50, 10**6) != []


def test_least_recently_used_pages_are_forgotten() -> None:
    catalog = Catalog(range(1, 100 * PAGE + 1))
    for place in range(0, 100 * PAGE, PAGE):
        catalog.put(rows(*(number for page in catalog.missing(place, place) for number in page)))
    assert catalog.row(0) is None
    assert catalog.row(99 * PAGE) == listed(no=PAGE)


def test_only_rows_that_are_kept_are_refreshed() -> None:
    catalog = Catalog(range(1, 2 * PAGE + 1))
    catalog.put(rows(2 * PAGE))
    catalog.refresh([listed(no=2 * PAGE, status=200), listed(no=1, status=200), listed(no=10**6)])
    assert catalog.row(0) == listed(no=2 * PAGE, status=200)
    assert catalog.row(2 * PAGE - 1) is None


def test_ended_exchanges_are_reread_and_counted_in_another_order() -> None:
    catalog = Catalog([3, 1, 2], by_time=False)
    catalog.put(rows(1, 2, 3))
    catalog.end([1, 9], moves=True)
    catalog.end([2], moves=False)
    assert catalog.missing(0, 2) == [[3, 1, 2]]
    assert (catalog.finished_count, [catalog.row(place) for place in range(3)]) == (1, [listed(no=3), None, None])
    catalog.drop([1])
    assert catalog.finished_count == 0
    by_time = Catalog([1, 2])
    by_time.end([1], moves=True)
    assert by_time.finished_count == 0


def test_dropped_exchanges_are_gone() -> None:
    catalog = Catalog([1, 2, 3])
    catalog.put(rows(1, 2, 3))
    catalog.drop([2, 9])
    assert [catalog.number(place) for place in range(2)] == [3, 1]


@each_case(("number", "place"), [(9, 0), (4, 1), (0, 2), (5, 0)])
def test_nearest_place_of_an_absent_exchange_by_time(number: int, place: int) -> None:
    assert Catalog([1, 3, 5]).nearest(number) == place


def test_nearest_place_in_another_order_is_the_top() -> None:
    assert Catalog([3, 1], by_time=False).nearest(2) == 0
    assert Catalog().nearest(2) == 0


def test_marks_are_toggled() -> None:
    marked = Marks()
    for number in (3, 1, 3, 2):
        marked.toggle(number, f"id {number}")
    assert (list(marked), marked.ids, len(marked)) == ([1, 2], {1: "id 1", 2: "id 2"}, 2)
    marked.clear()
    assert not marked


def test_mark_is_removed_where_its_number_has_another_id() -> None:
    marked = Marks()
    for number in (1, 2, 3):
        marked.toggle(number, f"id {number}")
    assert marked.ids == {1: "id 1", 2: "id 2", 3: "id 3"}
    assert marked.check({1: "id 1", 2: "another"}) == 2
    assert (marked.ids, marked.check({1: "id 1"})) == ({1: "id 1"}, 0)


def test_number_of_marks_is_limited() -> None:
    marked = Marks()
    for number in range(MOST_MARKS + 1):
        marked.toggle(number, "")
    assert len(marked) == MOST_MARKS


def test_comparing_takes_marked_exchanges_or_one_and_the_selection() -> None:
    marked = Marks()
    assert marked.compared(1) == []
    marked.toggle(1, "")
    assert (marked.compared(1), marked.compared(None), marked.compared(7)) == ([1], [1], [1, 7])
    marked.toggle(2, "")
    assert marked.compared(7) == [1, 2]


def test_places_around_an_early_exchange_are_the_first() -> None:
    catalog = Catalog(range(1, 101))
    assert catalog.places_around(None, 10) == catalog.places_around(98, 10) == range(10)
    assert catalog.places_around(50, 10) == range(45, 55)
    assert catalog.places_around(1, 10) == range(90, 100)
    assert catalog.places_around(50, 200) == range(100)
    assert Catalog().places_around(None, 10) == range(0)
