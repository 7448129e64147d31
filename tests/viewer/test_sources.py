"""The promises of each kind of source: those of the built-in wings answer as the tape whose exchanges they hold."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.sinks import PLACES, ship
from wiretape.recorder.clock import SYSTEM
from wiretape.recorder.decode.stalls import Thresholds
from wiretape.recorder.errors import NotFound
from wiretape.viewer import contracts
from wiretape.viewer.query.parser import parse
from wiretape.viewer.source.base import ALL, Browsed, Measuring, Place, Selection, Unsupported
from wiretape.viewer.source.place import TapePlace

PREFIXES = [address.prefix for wing in contracts.built_in().values() for address in wing.sources]
FIELDS = ("id", "started_at", "model", "outcome", "ttft_ms", "max_gap_ms", "output_tokens", "labels", "flags")
OK = Selection(parse("is:ok"))


@pytest.fixture(scope="module", params=PREFIXES)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, wires: Path) -> Iterator[Place]:
    """A source to which the tape was shipped."""
    directory = tmp_path_factory.mktemp("source")
    copy = directory / "tape.db"
    copy.write_bytes(wires.read_bytes())
    with PLACES[request.param](directory) as (address, _):
        ship(copy, address)
        (source,) = [source for source in contracts.sources() if source.prefix == request.param]
        yield contracts.load(source.path)(address)


@pytest.fixture
def source(place: Place) -> Iterator[Browsed]:
    with place.opened() as source:
        yield source


@pytest.fixture
def local(wires: Path) -> Iterator[Browsed]:
    with TapePlace(wires).opened() as source:
        yield source


def test_the_same_exchanges_are_counted_listed_and_found(source: Browsed, local: Browsed) -> None:
    for selection in (ALL, OK, OK.of_generations()):
        assert source.count(selection) == local.count(selection)
        assert [*source.rows(FIELDS, selection)] == [*local.rows(FIELDS, selection)]
        assert len(source.numbers(selection, 2)) == len(local.numbers(selection, 2))
    newest, theirs = local.find("@"), source.find("@")
    (id,) = local.ids([newest]).values()
    assert source.ids([theirs]) == {theirs: id}
    assert source.find(id) == source.referred(id)[0] == theirs
    assert source.gaps([id]) == local.gaps([id])
    assert source.exchange(theirs).detail().id == id
    with pytest.raises(NotFound):
        source.find("ffffffff")


def test_the_figures_are_the_same(source: Browsed, local: Browsed) -> None:
    for keys in ((), ("model",)):
        theirs, ours = ([*source_.figures(keys, ALL, Measuring())] for source_ in (source, local))
        assert [(group.key, group.size, group.tokens, +group.outcomes) for group in theirs] == [
            (group.key, group.size, group.tokens, +group.outcomes) for group in ours
        ]
        for group, row_groups in zip(theirs, ours, strict=True):
            assert group.statistics.keys() == row_groups.statistics.keys()
            for name, statistics in row_groups.statistics.items():
                assert group.statistics[name] == pytest.approx(statistics), name
    assert source.failures(ALL) == local.failures(ALL)
    assert source.endings(ALL) == local.endings(ALL)
    assert source.left_out(ALL) == local.left_out(ALL)
    assert source.label_keys(ALL) == local.label_keys(ALL)
    assert sorted(source.values("model")) == sorted(local.values("model"))
    assert len(source.samples(ALL)) == len(local.samples(ALL))


def test_a_screen_lists_it_in_pages(source: Browsed, local: Browsed) -> None:
    listing = source.listed(None, None, SYSTEM)
    assert [row.id for row in source.visible(listing.numbers)] == [
        row.id for row in local.visible(local.listed(None, None, SYSTEM).numbers)
    ]
    assert listing.page is not None
    assert source.further(None, None, listing.page).numbers == []
    preview = source.details(listing.numbers[0], Thresholds()).preview
    assert preview is not None
    assert source.changes(None, listing.change, listing.numbers) is None


def test_an_unsupported_request_is_refused_with_the_alternative(place: Place, source: Browsed) -> None:
    assert place.lacks
    for capability in place.lacks:
        with pytest.raises(Unsupported, match="wiretape pull"):
            place.require(capability)
    with pytest.raises(Unsupported, match="wiretape pull"):
        source.session("@s")
    for question in (
        lambda: source.columns(("id",), ALL, 1, 1),
        lambda: source.outputs([], 1),
        lambda: source.trend(ALL, 1),
        lambda: source.conversations(ALL),
        lambda: source.cache_verdicts([], ALL),
    ):
        with pytest.raises(Unsupported, match="wiretape pull"):
            question()
    assert place.option() == ["--db", place.option()[1]]
    assert place.name


def test_its_exchanges_are_copied_to_a_tape(place: Place, local: Browsed, tmp_path: Path) -> None:
    with place.opened() as source:
        numbers = source.numbers()
    copied = place.copied(numbers, tmp_path, iter)
    with TapePlace(copied.tape).opened() as copy:
        assert copy.count() == local.count() == copied.without_body
