"""Pure: finds the bytes that are equal in two requests of a session, and cuts both requests into shared parts.

A turn of a session repeats the whole conversation, with changes anywhere: text is added at the end of the messages,
which may stand before system and tools; marks of caches move; a date differs. So a body is compared byte for byte with
the one before. Equal bytes stay one part; a part is split where only its beginning or its end is repeated.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from operator import itemgetter
from typing import Final, NamedTuple

LEAST: Final = 64
"""Least bytes for which it pays to share them: a part takes about 40 more."""
_MOST_BODY: Final = 32 << 20
LAST_VERSION: Final = 256
"""The last version that a family can have: to read one, SQLite goes through the parts of all."""
_MOST_MATCHES: Final = 50
_BLOCK: Final = 16 << 10
"""Bytes compared at once: equal ones that many at a time, a different block by halving it."""
_END_POSITION: Final = 1 << 62


def may_share(body: bytes) -> bool:
    """Return True if a body can be stored in parts: before 3.38, SQLite joins them to the first zero byte only."""
    return 2 << 10 <= len(body) <= _MOST_BODY and 0 not in body


class SharedBytes(NamedTuple):
    """Bytes that two bodies share, and where they are in each."""

    old: int
    new: int
    size: int


def _common_start(old: bytes, i: int, new: bytes, j: int, size: int) -> int:
    """Return the number of equal bytes from two places on, at most `size`."""
    at = 0
    while at < size and old[i + at : i + min(at + _BLOCK, size)] == new[j + at : j + min(at + _BLOCK, size)]:
        at += _BLOCK
    most = min(at + _BLOCK, size)
    while at < most:
        middle = (at + most + 1) // 2
        if old[i + at : i + middle] == new[j + at : j + middle]:
            at = middle
        else:
            most = middle - 1
    return min(at, size)


def _common_end(old: bytes, i: int, new: bytes, j: int, size: int) -> int:
    """Return the number of equal bytes before two places, at most `size`."""
    at = 0
    while at < size and old[i - min(at + _BLOCK, size) : i - at] == new[j - min(at + _BLOCK, size) : j - at]:
        at += _BLOCK
    most = min(at + _BLOCK, size)
    while at < most:
        middle = (at + most + 1) // 2
        if old[i - middle : i - at] == new[j - middle : j - at]:
            at = middle
        else:
            most = middle - 1
    return min(at, size)


def matches(old: bytes, new: bytes) -> list[SharedBytes]:
    """Return the matches of two bodies in their order, each of at least `LEAST` bytes."""
    size = min(len(old), len(new))
    start = _common_start(old, 0, new, 0, size)
    end = _common_end(old, len(old), new, len(new), size - start)
    shared, i, j = [SharedBytes(0, 0, start)], start, start
    old_end, new_end = len(old) - end, len(new) - end
    while len(shared) < _MOST_MATCHES and (place := _next_match(old, i, old_end, new, j, new_end)):
        i, j = place
        size = _common_start(old, i, new, j, min(old_end - i, new_end - j))
        shared.append(SharedBytes(i, j, size))
        i, j = i + size, j + size
    shared.append(SharedBytes(old_end, new_end, end))
    return [match for match in shared if match.size >= LEAST]


def _next_match(old: bytes, i: int, old_end: int, new: bytes, j: int, new_end: int) -> tuple[int, int] | None:
    """Return the nearest places behind a change where two bodies are equal again, or None."""
    if min(old_end - i, new_end - j) < LEAST:
        return None
    places = [(old.find(new[j : j + LEAST], i, old_end), j), (i, new.find(old[i : i + LEAST], j, new_end))]
    for skip in (LEAST << shift for shift in range(0, 10, 2)):  # distances behind the change, for one on both sides
        if j + skip + LEAST > new_end:
            break
        if (at := old.find(new[j + skip : j + skip + LEAST], i, old_end)) >= 0:
            back = _common_end(old, at, new, j + skip, min(at - i, skip))
            places.append((at - back, j + skip - back))
            break
    return min((place for place in places if min(place) >= 0), key=sum, default=None)


class Split(NamedTuple):
    """A part is cut: its last `end_size` bytes, behind `size` ones, become a part at another position."""

    position: int
    size: int
    end_size: int
    end_position: int


class Part(NamedTuple):
    """A part and where it stands among the others."""

    position: int
    data: bytes


class _Placed(NamedTuple):
    """A part by its first byte in a body."""

    start: int
    position: int


@dataclass(slots=True)
class Family:
    """A family of bodies: its newest version, and where its parts stand.

    Positions are the order of the parts of any version; `positions` has those of all versions, as a part that is split
    must keep its place among parts that have ended, too. Only a family of several versions is in parts; `rows` has the
    row number of each part of the newest version, by its position.
    """

    exchange_no: int
    body: bytes
    no: int = 0
    version: int = 1
    placed: list[_Placed] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    rows: dict[int, int] = field(default_factory=dict)

    def parts(self) -> list[Part]:
        """Return the parts of the newest version."""
        ends = [*(start for start, _ in self.placed[1:]), len(self.body)]
        return [Part(part.position, self.body[part.start : end]) for part, end in zip(self.placed, ends, strict=True)]

    def extended(self, exchange_no: int, body: bytes) -> "Extension | None":
        """Return the extension by another version.

        None if the body lacks much of the one before, or there is no room for more versions.
        """
        shared = matches(self.body, body)
        lost = len(self.body) - sum(match.size for match in shared)
        # With more lost, two sessions with one beginning would take turns in a family, and each end the other's parts.
        if not shared or lost > 512 + len(self.body) // 16 or self.version == LAST_VERSION:
            return None
        family = replace(self, placed=self.placed.copy(), positions=self.positions.copy())
        borders = {0, *(at for match in shared for at in (match.old, match.old + match.size))} - {len(self.body)}
        splits = family.begin_at(sorted(borders))
        return None if splits is None else family.followed_by(exchange_no, body, shared, splits)

    def begin_at(self, places: Sequence[int]) -> list[Split] | None:
        """Split parts at these places; return the splits, or None if there is no room."""
        if not self.placed:
            distance = _END_POSITION // (2 * _MOST_MATCHES + 2)
            self.placed = [_Placed(place, distance * number) for number, place in enumerate(places, 1)]
            self.positions = [position for _, position in self.placed]
            return []
        splits = []
        for place in places:
            at = bisect_right(self.placed, place, key=itemgetter(0)) - 1
            start, position = self.placed[at]
            if start == place:
                continue
            following = bisect_right(self.positions, position)
            right = self.positions[following] if following < len(self.positions) else _END_POSITION
            if (end_position := _between(position, right)) is None:
                return None
            end = self.placed[at + 1].start if at + 1 < len(self.placed) else len(self.body)
            splits.append(Split(position, place - start, end - place, end_position))
            self.placed.insert(at + 1, _Placed(place, end_position))
            self.positions.insert(following, end_position)
        return splits

    def followed_by(
        self, exchange_no: int, body: bytes, shared: Sequence[SharedBytes], splits: list[Split]
    ) -> "Extension | None":
        """Return the extension by the next version, which shares whole parts; None if there is no room."""
        placed, added, at = list[_Placed](), list[Part](), 0
        for old, new, size in (*shared, SharedBytes(len(self.body), len(body), 0)):
            start_index, end_index = (bisect_left(self.placed, place, key=itemgetter(0)) for place in (old, old + size))
            right = self.placed[start_index].position if start_index < len(self.placed) else _END_POSITION
            for start, end in pairwise(_pieces(at, new)):
                position = self._free(placed[-1].position if placed else 0, right)
                if position is None:
                    return None
                added.append(Part(position, body[start:end]))
                placed.append(_Placed(start, position))
            placed += [_Placed(start - old + new, position) for start, position in self.placed[start_index:end_index]]
            at = new + size
        shared_positions = {position for _, position in placed} - {part.position for part in added}
        ended_positions = [position for _, position in self.placed if position not in shared_positions]
        positions = sorted({*self.positions, *(part.position for part in added)})
        successor = Family(exchange_no, body, self.no, self.version + 1, placed, positions, self.rows)
        return Extension(self, successor, splits, ended_positions, added)

    def _free(self, left: int, right: int) -> int | None:
        """Return a position between two that are shared: that of a part that has ended there, or a new one."""
        following = bisect_right(self.positions, left)
        if following < len(self.positions) and self.positions[following] < right:
            return self.positions[following]
        return _between(left, right)


class Extension(NamedTuple):
    """The way from a `family`, cut for its next version, to its `successor`.

    Its parts are split in the order of `splits`; those at some positions end with it, and others are added.
    """

    family: Family
    successor: Family
    splits: list[Split]
    ended_positions: list[int]
    added: list[Part]


def _pieces(start: int, end: int) -> list[int]:
    """Return the bounds of the parts that new bytes are stored in, a row each.

    Parts of at most 700 bytes, of which five fit a page of 4,096: rows of 2,000 would leave half of each page empty.
    From 16 KiB on one part: it fills whole pages of its own.
    """
    size = end - start
    count = -(-size // 700) if size < 16 << 10 else 1
    return [start + size * number // count for number in range(count + 1)] if size else []


def _between(left: int, right: int) -> int | None:
    """Return a position between two; None if there is none.

    It is near the left one, as most additions are one behind the other: the room behind it is left to those.
    """
    return left + max((right - left) // 32, 1) if right - left > 1 else None


class Recent:
    """The families that were extended last, in memory, within a limit of bytes."""

    def __init__(self) -> None:
        self._families: list[Family] = []
        self._size = 0

    def nearest(self, body: bytes) -> list[Family]:
        """Return the few families whose newest body begins or ends most like this one; the nearest first."""
        start, end = body[:256], body[-256:]
        candidates = [family for family in self._families if family.body.startswith(start) or family.body.endswith(end)]
        if len(candidates) > 1:
            candidates.sort(key=lambda family: _equal_ends(family.body, body), reverse=True)
        return candidates[:3]

    def put(self, family: Family) -> None:
        """Add a family, unless it is complete; the one that was put first makes room."""
        if family.version == LAST_VERSION:
            return
        self._families.append(family)
        self._size += len(family.body)
        while self._size > _MOST_BODY or len(self._families) > 256:
            self.drop(self._families[0])

    def drop(self, family: Family) -> None:
        self._families = [candidate for candidate in self._families if candidate is not family]
        self._size -= len(family.body)


def _equal_ends(old: bytes, new: bytes) -> int:
    size = min(len(old), len(new))
    start = _common_start(old, 0, new, 0, size)
    return start + _common_end(old, len(old), new, len(new), size - start)
