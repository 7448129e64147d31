"""The least and the greatest cells of a tape."""

from pathlib import Path

from sqlalchemy import select

from wiretape.recorder.tape import column_types, file
from wiretape.recorder.tape.schema import exchanges


def test_extremes_of_no_rows_are_unknown(tmp_path: Path) -> None:
    column = exchanges.c.started_at
    with file.writing(tmp_path / "tape.db", "a test") as connection:
        ends = connection.execute(select(column_types.least(column), column_types.greatest(column))).one()
        assert ends == (None, None)
        assert not column_types.damage_of(connection)
