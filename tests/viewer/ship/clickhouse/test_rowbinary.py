"""Values are encoded as ClickHouse reads them; `engine.Reader` decodes them independently."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.support.cases import each_case
from tests.support.clickhouse.engine import Reader
from wiretape.viewer.ship.clickhouse import batches

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "Int64": st.integers(-(1 << 63), (1 << 63) - 1),
    "UInt64": st.integers(0, (1 << 64) - 1),
    "Int32": st.integers(-(1 << 31), (1 << 31) - 1),
    "UInt8": st.integers(0, 1),
    "Float64": st.floats(allow_nan=False),
    "String": st.text() | st.binary(),
    "Array(String)": st.lists(st.text()),
    "Array(Nullable(Int64))": st.lists(st.none() | st.integers(-5, 5)),
    "Nullable(Int32)": st.none() | st.integers(-(1 << 31), (1 << 31) - 1),
    "Nullable(String)": st.none() | st.text(),
    "Nullable(Float64)": st.none() | st.floats(allow_nan=False),
}


def as_bytes(value: Any) -> Any:
    """Return a value as the reader does: a text is bytes, and a character that UTF-8 lacks is a question mark."""
    if isinstance(value, list):
        return [as_bytes(one) for one in value]
    return value.encode("utf-8", "replace") if isinstance(value, str) else value


@given(st.lists(st.tuples(*VALUES.values()), max_size=5))
def test_any_row_is_read_as_it_was(rows: list[tuple[Any, ...]]) -> None:
    columns = [[row[place] for row in rows] for place in range(len(VALUES))]
    columns_encoded = (batches.column_encoder(type)(one) for type, one in zip(VALUES, columns, strict=True))
    encoded = batches.joined_rows(columns_encoded)
    assert Reader(encoded).rows([*VALUES]) == [[as_bytes(value) for value in row] for row in rows]


@each_case(
    "type, value, expected",
    [
        ("Array(Int64)", b"\1" + bytes(7) + b"\2" + bytes(7), b"\2\1" + bytes(7) + b"\2" + bytes(7)),
        ("Array(UInt32)", b"", b"\0"),
        ("Nullable(Int64)", None, b"\1"),
        ("Nullable(Int64)", 0, b"\0" + bytes(8)),
        ("String", "é" * 100, b"\xc8\x01" + "é".encode() * 100),
        ("String", "\ud800", b"\1?"),
        ("DateTime('UTC')", 256, b"\0\1\0\0"),
    ],
)
def test_a_value_has_these_bytes(type: str, value: Any, expected: bytes) -> None:
    assert [*batches.column_encoder(type)([value])] == [expected]
