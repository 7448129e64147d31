"""The tables, as people meet them who open a tape with plain SQL."""

import dataclasses

import pytest
from sqlalchemy import Table
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateTable

from recorder.decode.derive import Measures
from recorder.tape.schema import measures, metadata


def test_every_measure_has_its_column_and_no_column_is_without_one() -> None:
    fields = {field.name for field in dataclasses.fields(Measures)}
    assert {column.name for column in measures.columns} == {"exchange_no", *fields}


@pytest.mark.parametrize("table", metadata.sorted_tables, ids=lambda table: table.name)
def test_every_table_is_commented_and_postgresql_could_have_it(table: Table) -> None:
    assert table.comment
    assert "CREATE TABLE" in str(CreateTable(table).compile(dialect=postgresql.dialect()))


def test_instants_are_named_for_their_unit() -> None:
    for table in metadata.sorted_tables:
        for column in table.columns:
            assert not column.name.endswith(("_ms", "_s", "_us")), column
