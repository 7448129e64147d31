"""Regular expressions of filters as RE2 writes them; `test_servers` has an engine that reads them."""

from tests.support.cases import each_case
from wiretape.viewer.wings.clickhouse.dialect import re2

EXPRESSIONS = {
    r"^a+|b\$": r"^a+|b\$",
    "b$": r"b(?:\n?\z)",
    "[$]": "[$]",
    "[]$]$": r"[]$](?:\n?\z)",
    "[a[]$": r"[a[](?:\n?\z)",
    r"(?im)^b$": r"(?im)^b$",
    r"a\Z": r"a\z",
    r"\d+": r"[\p{Nd}]+",
    r"[\w-]": r"[\p{L}\p{M}\p{N}\p{Pc}-]",
    r"\W\\w": r"[^\p{L}\p{M}\p{N}\p{Pc}]\\w",
    r"\u00e9\U0001f600": r"\x{00e9}\x{0001f600}",
    "a{,3}": "a{0,3}",
    "[{,3}]": "[{,3}]",
    r"\é": "é",
    r"(?<=a)\1": r"(?<=a)\1",
}


@each_case("expression, expected", EXPRESSIONS.items())
def test_a_translated_expression_finds_the_same(expression: str, expected: str) -> None:
    assert re2(expression) == expected
