"""Values of an answer, by the types of its columns."""

from typing import Any

from tests.support.cases import each_case
from wiretape.viewer.source.clickhouse import client


@each_case(
    "type, given, expected",
    [
        ("UInt64", "18446744073709551615", (1 << 64) - 1),
        ("Nullable(Int64)", "-5", -5),
        ("Nullable(Int64)", None, None),
        ("Float64", 5, 5.0),
        ("String", "5", "5"),
        ("DateTime('UTC')", "2026-01-01 00:00:00", "2026-01-01 00:00:00"),
        ("Array(Nullable(Int64))", ["1", None], [1, None]),
        ("Array(Array(String))", [["1"], []], [["1"], []]),
        (
            "Tuple(Tuple(Int64, Array(Int64), Float64), Nullable(Float64))",
            [["1", ["2"], 3], None],
            [[1, [2], 3.0], None],
        ),
        ("FixedString(16)", "ab", "ab"),
    ],
)
def test_a_value_is_of_the_type_of_its_column(type: str, given: Any, expected: Any) -> None:
    ((found,),) = client.converted_rows([type], [[given]])
    assert repr(found) == repr(expected)
