"""SELECT statements as expressions, for readers of tapes.

Importing SQLAlchemy takes longer than a small command may: 0.3 s of CPU, all that `ls -n 20` may take of 100,000
exchanges. So what reads a tape uses this module, in SQLAlchemy's words; what makes, writes, checks or migrates one uses
SQLAlchemy (`schema`, `file`). The rules:

- An expression is an operator or a function of SQL by its name, with its arguments, and the type of its values, by
  which `reader` checks each of them.
- A value is bound, never written.
- A SELECT is from the tables that its columns and conditions name, but for those of the SELECT around it.
- `SqlWriter` writes it for SQLite; a server has a subclass.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

from wiretape.recorder.tape.cells import Type

NullType, Boolean, Integer, BigInteger, Float, Text, LargeBinary = map(
    Type, ("NullType", "Boolean", "Integer", "BigInteger", "Float", "Text", "LargeBinary")
)
_TYPES: Final[dict[type, Type]] = {bool: Boolean, int: Integer, float: Float, str: Text, bytes: LargeBinary}
_TYPE_NAMES: Final = {
    "Text": "TEXT", "Float": "FLOAT", "Integer": "INTEGER", "BigInteger": "BIGINT", "LargeBinary": "BLOB",
}  # fmt: skip


def _comparison(sign: str) -> "Callable[[Expression, object], Expression]":
    return lambda left, right: Expression(sign, left, right, type=Boolean)


class Expression:
    """An operator or a function with its arguments, and the type of its values."""

    def __init__(self, name: str, *arguments: Any, type: Type = NullType) -> None:
        self.name, self.arguments, self.type = name, arguments, type

    __hash__ = object.__hash__
    __eq__ = _comparison("=")  # type: ignore[assignment]
    __ne__ = _comparison("!=")  # type: ignore[assignment]
    __lt__, __le__, __gt__, __ge__ = map(_comparison, ("<", "<=", ">", ">="))
    is_, is_not, is_distinct_from = map(_comparison, ("IS", "IS NOT", "IS NOT"))
    like, regexp_match = map(_comparison, ("LIKE", "REGEXP"))

    def __bool__(self) -> bool:
        if self.name == "=":  # containers compare their keys
            return self.arguments[0] is self.arguments[1]
        raise TypeError("an expression has no truth")

    def __add__(self, other: object) -> "Expression":
        is_text = Text in (self.type, _type_of(other)) or self.type.name == "Text"
        return Expression("||" if is_text else "+", self, other, type=Text if is_text else self.type)

    def __truediv__(self, other: object) -> "Expression":
        return Expression("/", self, other)

    def __and__(self, other: object) -> "Expression":
        return and_(self, other)

    def __or__(self, other: object) -> "Expression":
        return or_(self, other)

    def __getitem__(self, key: str) -> "Expression":
        return Expression("getitem", self, f'$."{key}"', key, type=Text)

    def in_(self, values: "Iterable[object] | Select") -> "Expression":
        """Require one of some values."""
        return Expression("IN", self, values if isinstance(values, Select) else [*values], type=Boolean)

    def not_in(self, values: Iterable[object]) -> "Expression":
        """Require none of some values."""
        return Expression("NOT IN", self, [*values], type=Boolean)

    def between(self, least: object, most: object) -> "Expression":
        """Require a value between two, both included."""
        return Expression("between", self, least, most, type=Boolean)

    def ilike(self, pattern: str) -> "Expression":
        r"""Require a pattern, in which `\` escapes, without regard to case."""
        return Expression("ilike", self, pattern, type=Boolean)

    def desc(self) -> "Expression":
        return Expression("desc", self)

    def nulls_last(self) -> "Expression":
        return Expression("nulls_last", self)

    def distinct(self) -> "Expression":
        """Make it the argument of an aggregate function that takes equal values once."""
        return Expression("distinct", self)

    def label(self, name: str) -> "Expression":
        """Name it as a column of a SELECT."""
        return Expression("label", self, name, type=self.type)


class Column(Expression):
    """A column of a table."""

    def __init__(self, table: "FromClause", name: str, type: Type) -> None:
        super().__init__(name, type=type)
        self.table = table


class Function(Expression):
    """A function's value."""

    def table_valued(self, *names: str) -> "FromClause":
        """Return the rows of a function as a source."""
        return FromClause(self.name, dict.fromkeys(names, NullType), self)


class ColumnsByName(dict[str, Column]):
    """The columns of a source by their names; attributes, too."""

    def __getattr__(self, name: str) -> Column:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class FromClause:
    """A table, or the rows of a function or a SELECT under a name."""

    def __init__(self, name: str, types: Mapping[str, Type], rows: "Function | Select | None" = None) -> None:
        self.name, self.rows = name, rows
        self.c = ColumnsByName({name: Column(self, name, type) for name, type in types.items()})

    @property
    def tables(self) -> "tuple[FromClause, ...]":
        """The sources that are joined in it."""
        return (self,)

    def join(self, right: "FromClause", on: Expression) -> "Join":
        """Return the rows of both for which a condition holds."""
        return Join(self, right, on, "JOIN")

    def outerjoin(self, right: "FromClause", on: Expression) -> "Join":
        """Return all rows of this source, with those of another for which a condition holds."""
        return Join(self, right, on, "LEFT JOIN")


class Join(FromClause):
    """The rows of two sources."""

    def __init__(self, left: FromClause, right: FromClause, on: Expression, sign: str) -> None:
        self.left, self.right, self.on, self.sign = left, right, on, sign

    @property
    def tables(self) -> tuple[FromClause, ...]:
        return *self.left.tables, *self.right.tables


@dataclass(frozen=True, eq=False)
class Select:
    """A SELECT; each method returns another one."""

    columns: tuple[Any, ...]
    sources: tuple[FromClause, ...] = ()
    conditions: tuple[Any, ...] = ()
    groups: tuple[Any, ...] = ()
    orders: tuple[Any, ...] = ()
    size: object = None
    skipped: int = 0
    is_distinct: bool = False
    values: Mapping[str, object] = field(default_factory=dict)
    """Values of named parameters."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options for those who prepare a connection for a statement."""

    def select_from(self, source: FromClause) -> "Select":
        return self if source in self.sources else replace(self, sources=(*self.sources, source))

    def where(self, *conditions: object) -> "Select":
        return replace(self, conditions=(*self.conditions, *conditions))

    def group_by(self, *values: object) -> "Select":
        return replace(self, groups=(*self.groups, *values))

    def order_by(self, *values: object) -> "Select":
        """Order the rows, behind the order there is."""
        return replace(self, orders=(*self.orders, *values))

    def limit(self, size: object) -> "Select":
        """Limit the count of rows; None: not."""
        return replace(self, size=size)

    def offset(self, count: int) -> "Select":
        return replace(self, skipped=count)

    def distinct(self) -> "Select":
        return replace(self, is_distinct=True)

    def add_columns(self, *columns: object) -> "Select":
        return replace(self, columns=(*self.columns, *columns))

    def params(self, **values: object) -> "Select":
        return replace(self, values={**self.values, **values})

    def execution_options(self, **options: Any) -> "Select":
        return replace(self, options={**self.options, **options})

    def scalar_subquery(self) -> Expression:
        """Return the value of its only column in its first row."""
        return Expression("scalar", self, type=self.types[0])

    def subquery(self) -> FromClause:
        """Return its rows as a source."""
        return FromClause("rows", dict(zip(self.names, self.types, strict=True)), self)

    @cached_property
    def names(self) -> list[str]:
        """The names of the columns; "" of an expression without one."""
        return [_name_of(column) for column in self.columns]

    @cached_property
    def types(self) -> list[Type]:
        return [_type_of(column) for column in self.columns]

    @cached_property
    def compiled(self) -> tuple[str, list[object]]:
        """The text for SQLite, and the values of its parameters in order; `Parameter` for one without a value."""
        writer = SqlWriter()
        return writer.select(self), writer.values


class _Functions:
    def __getattr__(self, name: str) -> Callable[..., Function]:
        def function(*arguments: object, type_: Type | None = None) -> Function:
            return Function(name, *arguments, type=type_ or _type_of_function(name, arguments))

        return function


func: Final = _Functions()
"""The functions of SQL, by their names; `type_` is the type of the values."""


def _type_of_function(name: str, arguments: Sequence[Any]) -> Type:
    if name in ("coalesce", "max", "min", "sum"):
        return next((type for type in map(_type_of, arguments) if type is not NullType), NullType)
    return Integer if name == "count" else NullType


def select(*columns: object) -> Select:
    return Select(columns)


def exists(source: FromClause, *conditions: object) -> Expression:
    """Require a row of a source for which conditions hold."""
    return Expression("exists", select(true()).select_from(source).where(*conditions), type=Boolean)


def case(*whens: tuple[object, object], else_: object = None) -> Expression:
    """Return the value behind the first condition that holds."""
    return Expression("case", whens, else_, type=_type_of(whens[-1][1]))


def and_(*conditions: object) -> Expression:
    return Expression("AND", *conditions, type=Boolean)


def or_(*conditions: object) -> Expression:
    return Expression("OR", *conditions, type=Boolean)


def not_(condition: Expression) -> Expression:
    return Expression("not", condition, type=Boolean)


def literal(value: object, type: Type | None = None) -> Expression:
    return Expression("literal", value, type=type or _type_of(value))


def bindparam(name: str) -> Expression:
    """Return a parameter whose value comes with the execution."""
    return Expression("literal", Parameter(name))


def template(text: str, *arguments: object, type: Type = NullType) -> Expression:
    """Return an expression by its text, with its arguments at `{}`."""
    return Expression("template", text, *arguments, type=type)


def null() -> Expression:
    return template("NULL")


def true() -> Expression:
    return template("1", type=Boolean)


def false() -> Expression:
    return template("0", type=Boolean)


def cast(value: Expression, type: Type) -> Expression:
    """Return a value converted by SQL."""
    return Expression("cast", value, type, type=type)


def as_blob(text: Expression) -> Expression:
    """Return a text as its bytes: `sqlite3` fails a query that gives a function of Python's a text that is no UTF-8."""
    return Expression("as_blob", text)


def type_coerce(value: Expression, type: Type) -> Expression:
    """Return a value that is given as that of another type."""
    return Expression("type_coerce", value, type=type)


def _type_of(value: object) -> Type:
    return value.type if isinstance(value, Expression) else _TYPES.get(type(value), NullType)


def _name_of(column: Expression) -> str:
    if isinstance(column, Column):
        return column.name
    if column.name == "label":
        return str(column.arguments[1])
    return _name_of(column.arguments[0]) if column.name == "type_coerce" else ""


class Parameter(str):
    """The name of a parameter that has no value yet."""


def parts(value: Any) -> Iterator[Expression]:
    """Yield an expression and those in its arguments, without those of its subqueries."""
    if isinstance(value, Expression):
        yield value
        value = value.arguments
    for argument in value if isinstance(value, list | tuple) else ():
        yield from parts(argument)


class SqlWriter:
    """Writes expressions for SQLite; `values` are those of the parameters, in the order of the text."""

    forms: Mapping[str, str] = {
        "not": "(NOT {})", "between": "({} BETWEEN {} AND {})", "/": "({} / ({} + 0.0))", "desc": "{} DESC",
        "nulls_last": "{} NULLS LAST", "distinct": "DISTINCT {}", "exists": "EXISTS {}", "scalar": "{}",
        "literal": "{}", "type_coerce": "{}", "ilike": "(lower({}) LIKE lower({}) ESCAPE '\\')",
        "REGEXP": "(CAST({} AS BLOB) REGEXP {})", "as_blob": "CAST({} AS BLOB)",
    }  # fmt: skip
    """The text of an operator that does not stand between its two arguments."""

    def __init__(self) -> None:
        self.values: list[object] = []
        self._around: list[FromClause] = []
        """The tables of the SELECTs around the one that is written."""
        self._names: dict[FromClause, str] = {}

    def select(self, select: Select) -> str:
        """Return the text of a SELECT."""
        columns = (part for part in parts((*select.columns, *select.conditions)) if isinstance(part, Column))
        joined = [table for source in select.sources for table in source.tables]
        tables = [table for table in dict.fromkeys(column.table for column in columns) if table not in joined]
        # A SELECT that names only tables of the SELECT around it reads rows of its own from them.
        unjoined = [table for table in tables if table not in self._around] or (tables if not joined else [])
        sources, around = [*select.sources, *unjoined], self._around
        self._around = [*around, *joined, *unjoined]
        text = f"SELECT {'DISTINCT ' * select.is_distinct}{', '.join(map(self.column, select.columns))}"
        if sources:
            text += f" FROM {', '.join(map(self.source, sources))}"
        if select.conditions:
            text += f" WHERE {' AND '.join(map(self.text, select.conditions))}"
        if select.groups:
            text += f" GROUP BY {', '.join(map(self.text, select.groups))}"
        if select.orders:
            text += f" ORDER BY {', '.join(map(self.text, select.orders))}"
        if select.size is not None or select.skipped:
            text += f" LIMIT {self.text(-1 if select.size is None else select.size)}"
        if select.skipped:
            text += f" OFFSET {self.text(select.skipped)}"
        self._around = around
        return text

    def column(self, column: Any) -> str:
        """Return the text of a column of a SELECT, with its name."""
        is_named = isinstance(column, Expression) and column.name == "label"
        return f'{self.text(column)} AS "{column.arguments[1]}"' if is_named else self.text(column)

    def source(self, source: FromClause) -> str:
        """Return the text of a source behind FROM."""
        if isinstance(source, Join):
            return f"{self.source(source.left)} {source.sign} {self.source(source.right)} ON {self.text(source.on)}"
        if source.rows is None:
            return source.name
        return f"{self.text(source.rows)} AS {self._name(source)}"

    def _name(self, source: FromClause) -> str:
        return source.name if source.rows is None else self._names.setdefault(source, f"rows_{len(self._names)}")

    def name(self, column: Column) -> str:
        """Return the name of a column within an expression."""
        return f"{self._name(column.table)}.{column.name}"

    def value(self, value: object) -> str:
        """Bind a value, and return the text for it."""
        self.values.append(value)
        return "?"

    def text(self, value: Any) -> str:
        """Return the text of an expression, or of a value."""
        match value:
            case None:
                return "NULL"
            case Column():
                return self.name(value)
            case Select():
                return f"({self.select(value)})"
            case Expression():
                return self.expression(value, value.name, *value.arguments)
            case list():
                return f"({', '.join(map(self.text, value))})"
        return self.value(value)

    def expression(self, expression: Expression, name: str, *arguments: Any) -> str:
        """Return the text of an operator or a function."""
        match name, arguments:
            case _ if isinstance(expression, Function):
                return f"{name}({', '.join(map(self.text, arguments)) or '*' * (name == 'count')})"
            case "template", (text, *values):
                return str(text).format(*map(self.text, values))
            case "label", (value, _):
                return self.text(value)
            case "AND" | "OR", ():
                return "1" if name == "AND" else "0"
            case "cast", (value, type):
                return f"CAST({self.text(value)} AS {_TYPE_NAMES[type.name]})"
            case "case", (whens, other):
                pairs = "".join(f"WHEN {self.text(when)} THEN {self.text(then)} " for when, then in whens)
                return f"CASE {pairs}{'' if other is None else f'ELSE {self.text(other)} '}END"
            case "getitem", (value, path, _):
                return f"json_extract({self.text(value)}, {self.text(path)})"
        if form := self.forms.get(name):
            return form.format(*map(self.text, arguments))
        return self.text(arguments[0]) if len(arguments) == 1 else f"({f' {name} '.join(map(self.text, arguments))})"
