"""The least and the greatest cells of a tape."""

from pathlib import Path

from sqlalchemy import select

from wiretape.recorder.tape import cells, file
from wiretape.recorder.tape.schema import exchanges


def test_extremes_of_no_rows_are_unknown(tmp_path: Path) -> None:
    column = exchanges.c.started_at
    with file.writing(tmp_path / "tape.db", "a test") as connection:
        ends = connection.execute(select(cells.least(column), cells.greatest(column))).one()
        assert ends == (None, None)
        assert not cells.damage_of(connection)
