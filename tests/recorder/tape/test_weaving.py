"""Weaving finds the bytes that two requests have in common."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from tests.support.agent_session import turns
from wiretape.recorder.tape.weaving import LAST_VERSION, LEAST, Extension, Family, Part, Recent, matches

Row = tuple[int, int, int, bytes]
"""A part on the tape: position, the first version that has it and the last one, bytes."""

WORDS = st.sampled_from(
    [bytes([letter]) * 40 + b"%d" % letter for letter in range(97, 103)] + [b"\0\xff", b",", b"x" * 90]
)
TEXT = st.lists(WORDS, max_size=14).map(b"".join)
"""Texts with much in common, and with repetitions in themselves."""


class Tape:
    """The parts of one family, as the tape has them."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def take(self, extension: Extension) -> None:
        version = extension.successor.version
        if not self.rows:
            self.rows = [(part.position, version - 1, LAST_VERSION, part.data) for part in extension.family.parts()]
        for position, size, end_size, end_position in extension.splits:
            (row,) = (row for row in self.rows if row[0] == position and row[2] == LAST_VERSION)
            assert len(row[3]) == size + end_size
            self.rows.remove(row)
            self.rows += [(position, *row[1:3], row[3][:size]), (end_position, *row[1:3], row[3][size:])]
        positions = extension.ended_positions
        self.rows = [
            (position, since, version - 1 if until == LAST_VERSION and position in positions else until, data)
            for position, since, until, data in self.rows
        ]
        self.rows += [(part.position, version, LAST_VERSION, part.data) for part in extension.added]

    def body(self, version: int) -> bytes:
        rows = sorted(row for row in self.rows if row[1] <= version <= row[2])
        assert len({row[0] for row in rows}) == len(rows)
        return b"".join(data for *_, data in rows)


@given(TEXT, TEXT)
def test_matches_are_in_both_bodies_in_one_order(old: bytes, new: bytes) -> None:
    at = (0, 0)
    for place, old_place, size in matches(old, new):
        assert size >= LEAST
        assert old[place : place + size] == new[old_place : old_place + size]
        assert (place, old_place) >= at
        assert min(place - at[0], old_place - at[1]) >= 0
        at = place + size, old_place + size
    assert max(at[0] - len(old), at[1] - len(new)) <= 0


@given(st.lists(TEXT, min_size=2, max_size=8))
def test_every_version_is_byte_for_byte_what_it_was(bodies: list[bytes]) -> None:
    family, tape, versions = Family(1, bodies[0]), Tape(), {1: bodies[0]}
    for number, body in enumerate(bodies[1:], 2):
        if (extension := family.extended(number, body)) is None:
            continue
        tape.take(extension)
        family = extension.successor
        versions[family.version] = body
        assert b"".join(part.data for part in family.parts()) == body
        assert {version: tape.body(version) for version in versions} == versions


@given(TEXT, st.lists(st.tuples(st.integers(0, 400), st.integers(0, 50), TEXT), max_size=12))
def test_versions_with_any_edits_stay_what_they_were(first: bytes, edits: list[tuple[int, int, bytes]]) -> None:
    body = first + bytes(range(256)) * 8
    family, tape, versions = Family(1, body), Tape(), {1: body}
    for at, removed, text in edits:
        body = body[:at] + text + body[at + removed :]
        extension = family.extended(9, body)
        assert extension is not None
        tape.take(extension)
        family = extension.successor
        versions[family.version] = body
        assert {version: tape.body(version) for version in versions} == versions


def stored_size(bodies: Sequence[bytes]) -> int:
    """Return the bytes of the parts of a session, all in one family."""
    family, tape = Family(1, bodies[0]), Tape()
    for body in bodies[1:]:
        extension = family.extended(1, body)
        assert extension is not None
        tape.take(extension)
        family = extension.successor
    return sum(len(data) for *_, data in tape.rows)


def test_a_session_takes_little_more_than_its_last_request() -> None:
    for marks in (False, True):
        for system_first in (False, True):
            bodies = turns(60, marks=marks, system_first=system_first)
            assert stored_size(bodies) < 1.1 * len(bodies[-1]), (marks, system_first)


def test_a_changing_date_does_not_use_up_positions() -> None:
    bodies = [b"%s%04d%s" % (b"a" * 9000, number, b"b" * 9000) for number in range(LAST_VERSION)]
    assert stored_size(bodies) < 18_000 + 5 * LAST_VERSION


def test_a_body_with_much_missing_is_another_family() -> None:
    assert Family(1, bytes(100) * 100 + b"a" * 2000).extended(2, bytes(100) * 100) is None


def test_the_session_that_a_request_continues_is_the_nearest() -> None:
    system = bytes(range(256)) * 20
    own_requests, other_requests = (system + name * 300 for name in (b"own", b"other"))
    recent = Recent()
    for number, body in enumerate((other_requests, own_requests, other_requests, b"else" * 2000)):
        recent.put(Family(number, body))
    assert recent.nearest(own_requests + b"more" * 99)[0].body == own_requests


def test_memory_holds_the_last_families_within_a_limit() -> None:
    recent, size = Recent(), 1 << 20
    bodies = [bytes([number]) * size for number in range(40)]
    for number, body in enumerate(bodies):
        recent.put(Family(number, body))
    assert [len(recent.nearest(body)) for body in bodies] == [0] * 8 + [1] * 32


def test_parts_are_those_of_the_newest_version() -> None:
    extension = Family(1, b"a" * 3000).extended(2, b"a" * 3000 + b"b")
    assert extension is not None
    parts = extension.successor.parts()
    assert [part.data for part in parts] == [b"a" * 3000, b"b"]
    assert extension.added == [Part(parts[1].position, b"b")]
