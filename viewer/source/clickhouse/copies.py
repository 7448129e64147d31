"""Exchanges of a centre on a tape of one's own: each is pulled once, when it is first asked for."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import select

from recorder.errors import NotFound
from recorder.tape import cut, file, merge
from recorder.tape.schema import exchanges
from viewer.source.clickhouse import pulling
from viewer.source.clickhouse.client import Centre

_PURPOSE = "wiretape view"


class Copies:
    """The exchanges that were pulled to a tape, which is made by the first."""

    def __init__(self, tape: Path) -> None:
        self._tape = tape
        self._numbers: dict[int, int] = {}

    def numbers(self, centre: Centre, numbers: Sequence[int]) -> list[int]:
        """Return the numbers that exchanges have on the tape, by those at the centre; pull those that are not there.

        Raises `Refused`, `Unavailable`, `NotFound` for what is gone there, and `TapeDamaged`.
        """
        if missing := [number for number in numbers if number not in self._numbers]:
            self._pull(centre, missing)
        return [self._numbers[number] for number in numbers]

    def _pull(self, centre: Centre, numbers: Sequence[int]) -> None:
        ids = {str(number).rpartition(" ")[2]: number for number in numbers}
        with tempfile.TemporaryDirectory(dir=self._tape.parent) as directory:
            pulled = Path(directory, "pulled.db")
            lines = pulling.lines(centre, map(str, numbers), pulling.Pulled())
            cut.make_passing_tape(lines, pulled, "what was pulled")
            with file.writing(self._tape, _PURPOSE) as connection:
                for _ in merge.copy(connection, [pulled], merge.plan(connection, [pulled])):
                    pass
                with connection.begin():
                    found = select(exchanges.c.id, exchanges.c.no).where(exchanges.c.id.in_(ids))
                    there = {id: no for id, no in connection.execute(found)}
        self._numbers |= {number: there[id] for id, number in ids.items() if id in there}
        if gone := [id for id in ids if id not in there]:
            raise NotFound(f"{gone[0]} is not at {centre.target.name} any more")
