"""Column types that check every cell when it is read (`wiretape.recorder.tape.cells`), for SQLAlchemy."""

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Dialect, Engine, MetaData, String, func, type_coerce
from sqlalchemy.types import NullType, TypeDecorator, TypeEngine

from wiretape.recorder.tape.cells import Cell, Damage, pack


class ColumnType(TypeDecorator[Any]):
    """The type of one column: the declared one, with the checks of a `Cell`.

    Bound values are not checked. Gaps are packed when they are bound, and int64 when read.
    """

    impl: Any = NullType
    cache_ok = True

    def __init__(self, declared: TypeEngine[Any], cell: Cell) -> None:
        super().__init__()
        self.impl, self.declared, self.cell = declared, declared, cell

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        """Return a value as the tape has it."""
        return pack(value, self.cell)

    def coerce_compared_value(self, op: Any, value: Any) -> Any:
        """Compare as the declared type does."""
        return self.declared.coerce_compared_value(op, value)

    @property
    def python_type(self) -> type[Any]:
        return self.declared.python_type

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:
        """Return a function that checks a value, and decodes JSON."""
        return self.cell.converter(damage_of(dialect))


def type_name(declared: TypeEngine[Any]) -> str:
    """Return the name of a declared type in `cells.Type`."""
    return "Text" if isinstance(declared, String) else type(declared).__name__


def check_when_read(metadata: MetaData) -> None:
    """Set checking types on the columns of all tables, except for keys."""
    for table in metadata.tables.values():
        joined = table.name not in ("exchanges", "sessions")
        for column in table.c:
            if column.name not in ("no", "exchange_no", "session_no"):
                name = f"{table.name}.{column.name}"
                cell = Cell(type_name(column.type), name, bool(column.nullable), joined)
                column.type = ColumnType(column.type, cell)


def declared(column: Column[Any]) -> TypeEngine[Any]:
    """Return the type that a column was declared with."""
    return column.type.declared if isinstance(column.type, ColumnType) else column.type


def cells_of(columns: Iterable[Column[Any]]) -> list[Cell]:
    """Return the cells of columns, without those of keys."""
    return [column.type.cell for column in columns if isinstance(column.type, ColumnType)]


def least(column: Column[Any]) -> ColumnElement[Any]:
    """Return the least value of a column; None if there are no rows, even if the column is never unknown."""
    return _of_rows(func.min(column), column)


def greatest(column: Column[Any]) -> ColumnElement[Any]:
    """Return the greatest value of a column; None if there are no rows."""
    return _of_rows(func.max(column), column)


def _of_rows(expression: ColumnElement[Any], column: Column[Any]) -> ColumnElement[Any]:
    return type_coerce(expression, of(column, joined=True))


def of(column: Column[Any], **changes: bool) -> ColumnType:
    """Return the type of a column with changes of its cell."""
    type: Any = column.type
    return ColumnType(type.declared, dataclasses.replace(type.cell, **changes))


def damage_of(reader: Dialect | Engine | Connection) -> Damage:
    """Return the damage that an engine has found."""
    dialect = reader if isinstance(reader, Dialect) else reader.dialect
    damage: Damage = dialect.__dict__.setdefault("tape_damage", Damage())
    return damage
