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
_LEAST_BODY, _MOST_BODY = 2 << 10, 32 << 20
"""Least and most bytes of a body that is compared with others."""
LAST_VERSION: Final = 256
"""The last version that a family can have: to read one, SQLite goes through the parts of all."""
_MOST_MATCHES: Final = 50
_BLOCK: Final = 16 << 10
_SKIPS: Final = tuple(LEAST << shift for shift in range(0, 10, 2))
"""Distances behind a change at which the search for its end begins."""
_END_POSITION: Final = 1 << 62
_PIECE, _WHOLE = 700, 16 << 10
"""Most bytes of a new part, unless it is that large: rows of any size fill SQLite's pages of 4,096 bytes badly."""
_FIRST_APART: Final = _END_POSITION // (2 * _MOST_MATCHES + 2)
_NEAR: Final = 32
"""A new position takes this part of the room behind its left neighbour: most additions are one behind the other."""
_MOST_BODIES: Final = 256
_MOST_BYTES: Final = _MOST_BODY
_ENDS: Final = 256
_MOST_TRIED: Final = 3
_LOST, _LOST_SHARE = 512, 16
"""A version lacks at most this number and this share of the bytes before: two sessions would else take turns."""


def may_share(body: bytes) -> bool:
    """Return True if a body can be stored in parts: before 3.38, SQLite joins them to the first zero byte only."""
    return _LEAST_BODY <= len(body) <= _MOST_BODY and 0 not in body


class Match(NamedTuple):
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


def matches(old: bytes, new: bytes) -> list[Match]:
    """Return the matches of two bodies in their order, each of at least `LEAST` bytes."""
    size = min(len(old), len(new))
    start = _common_start(old, 0, new, 0, size)
    end = _common_end(old, len(old), new, len(new), size - start)
    found, i, j = [Match(0, 0, start)], start, start
    old_end, new_end = len(old) - end, len(new) - end
    while len(found) < _MOST_MATCHES and (place := _resumed(old, i, old_end, new, j, new_end)):
        i, j = place
        same = _common_start(old, i, new, j, min(old_end - i, new_end - j))
        found.append(Match(i, j, same))
        i, j = i + same, j + same
    found.append(Match(old_end, new_end, end))
    return [one for one in found if one.size >= LEAST]


def _resumed(old: bytes, i: int, old_end: int, new: bytes, j: int, new_end: int) -> tuple[int, int] | None:
    """Return the nearest places behind a change where two bodies are equal again, or None."""
    if min(old_end - i, new_end - j) < LEAST:
        return None
    places = [(old.find(new[j : j + LEAST], i, old_end), j), (i, new.find(old[i : i + LEAST], j, new_end))]
    for skip in _SKIPS:
        if j + skip + LEAST > new_end:
            break
        if (at := old.find(new[j + skip : j + skip + LEAST], i, old_end)) >= 0:
            back = _common_end(old, at, new, j + skip, min(at - i, skip))
            places.append((at - back, j + skip - back))
            break
    return min((place for place in places if min(place) >= 0), key=sum, default=None)


class Split(NamedTuple):
    """A part is cut: its last `rest` bytes, behind `size` ones, become a part at the position `to`."""

    position: int
    size: int
    rest: int
    to: int


class Part(NamedTuple):
    """A part and where it stands among the others."""

    position: int
    data: bytes


class Step(NamedTuple):
    """The way from one version to the next: parts to split, in this order, parts that end with it, and new parts."""

    splits: list[Split]
    ended: list[int]
    added: list[Part]


class _Placed(NamedTuple):
    """A part by its first byte in a body."""

    start: int
    position: int


@dataclass(slots=True)
class Family:
    """A family of bodies: its newest version, and where its parts stand.

    Positions are the order of the parts of any version; `taken` has those of all versions, as a part that is split must
    keep its place among parts that have ended, too. Only a family of several versions is in parts; `rows` has the row
    number of each part of the newest version, by its position.
    """

    exchange_no: int
    body: bytes
    no: int = 0
    version: int = 1
    placed: list[_Placed] = field(default_factory=list)
    taken: list[int] = field(default_factory=list)
    rows: dict[int, int] = field(default_factory=dict)

    def parts(self) -> list[Part]:
        """Return the parts of the newest version."""
        ends = [*(start for start, _ in self.placed[1:]), len(self.body)]
        return [Part(one.position, self.body[one.start : end]) for one, end in zip(self.placed, ends, strict=True)]

    def extended(self, exchange_no: int, body: bytes) -> tuple["Family", "Family", Step] | None:
        """Return this family as it is cut for another version, that with it, and the step between both.

        None if the body lacks much of the one before, or there is no room for more versions.
        """
        shared = matches(self.body, body)
        lost = len(self.body) - sum(one.size for one in shared)
        if not shared or lost > _LOST + len(self.body) // _LOST_SHARE or self.version == LAST_VERSION:
            return None
        cut = replace(self, placed=self.placed.copy(), taken=self.taken.copy())
        splits = cut.begin_at(
            sorted({0, *(at for one in shared for at in (one.old, one.old + one.size))} - {len(self.body)})
        )
        after = None if splits is None else cut.followed_by(exchange_no, body, shared)
        return None if splits is None or after is None else (cut, after[0], Step(splits, *after[1:]))

    def begin_at(self, places: Sequence[int]) -> list[Split] | None:
        """Split parts at these places; return the splits, or None if there is no room."""
        if not self.placed:
            self.placed = [_Placed(place, _FIRST_APART * number) for number, place in enumerate(places, 1)]
            self.taken = [position for _, position in self.placed]
            return []
        splits = []
        for place in places:
            at = bisect_right(self.placed, place, key=itemgetter(0)) - 1
            start, position = self.placed[at]
            if start == place:
                continue
            after = bisect_right(self.taken, position)
            to = _between(position, self.taken[after] if after < len(self.taken) else _END_POSITION)
            if to is None:
                return None
            end = self.placed[at + 1].start if at + 1 < len(self.placed) else len(self.body)
            splits.append(Split(position, place - start, end - place, to))
            self.placed.insert(at + 1, _Placed(place, to))
            self.taken.insert(after, to)
        return splits

    def followed_by(
        self, exchange_no: int, body: bytes, shared: Sequence[Match]
    ) -> tuple["Family", list[int], list[Part]] | None:
        """Return the family with the next version, which shares whole parts, the ended positions, and the new parts."""
        placed, added, at = list[_Placed](), list[Part](), 0
        for old, new, size in (*shared, Match(len(self.body), len(body), 0)):
            first, last = (bisect_left(self.placed, place, key=itemgetter(0)) for place in (old, old + size))
            right = self.placed[first].position if first < len(self.placed) else _END_POSITION
            for start, end in pairwise(_pieces(at, new)):
                position = self._free(placed[-1].position if placed else 0, right)
                if position is None:
                    return None
                added.append(Part(position, body[start:end]))
                placed.append(_Placed(start, position))
            placed += [_Placed(start - old + new, position) for start, position in self.placed[first:last]]
            at = new + size
        kept = {position for _, position in placed} - {part.position for part in added}
        ended = [position for _, position in self.placed if position not in kept]
        taken = sorted({*self.taken, *(part.position for part in added)})
        return Family(exchange_no, body, self.no, self.version + 1, placed, taken, self.rows), ended, added

    def _free(self, left: int, right: int) -> int | None:
        """Return a position between two that are shared: that of a part that has ended there, or a new one."""
        after = bisect_right(self.taken, left)
        if after < len(self.taken) and self.taken[after] < right:
            return self.taken[after]
        return _between(left, right)


def _pieces(start: int, end: int) -> list[int]:
    """Return the bounds of the parts that new bytes are stored in."""
    size = end - start
    count = -(-size // _PIECE) if size < _WHOLE else 1
    return [start + size * number // count for number in range(count + 1)] if size else []


def _between(left: int, right: int) -> int | None:
    """Return a position between two, near the left one; None if there is none."""
    return left + max((right - left) // _NEAR, 1) if right - left > 1 else None


class Recent:
    """The families that were extended last, in memory, within a limit of bytes."""

    def __init__(self) -> None:
        self._families: list[Family] = []
        self._size = 0

    def nearest(self, body: bytes) -> list[Family]:
        """Return the few families whose newest body begins or ends most like this one; the nearest first."""
        start, end = body[:_ENDS], body[-_ENDS:]
        alike = [one for one in self._families if one.body.startswith(start) or one.body.endswith(end)]
        if len(alike) > 1:
            alike.sort(key=lambda one: _equal_ends(one.body, body), reverse=True)
        return alike[:_MOST_TRIED]

    def put(self, family: Family) -> None:
        """Add a family, unless it is complete; the one that was put first makes room."""
        if family.version == LAST_VERSION:
            return
        self._families.append(family)
        self._size += len(family.body)
        while self._size > _MOST_BYTES or len(self._families) > _MOST_BODIES:
            self.drop(self._families[0])

    def drop(self, family: Family) -> None:
        """Remove a family."""
        self._families = [one for one in self._families if one is not family]
        self._size -= len(family.body)


def _equal_ends(old: bytes, new: bytes) -> int:
    size = min(len(old), len(new))
    start = _common_start(old, 0, new, 0, size)
    return start + _common_end(old, len(old), new, len(new), size - start)
