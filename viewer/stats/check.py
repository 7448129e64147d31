"""Pure: rules for a tape's figures, for a gate in CI; each is judged by itself.

A rule is a figure and the maximum or minimum allowed for it: `ttft.p95=1500ms`, `error_rate=1%`, `n=50`. A figure
without a value fails its rule: a gate must not pass for lack of data. `n` is the count of a figure's values, or the
denominator of a rate. Goodput leaves out exchanges whose objective is undecided, and `unknown` counts them.
Rules come from the command line, from a TOML file, or from both.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final
from xml.etree import ElementTree

from wiretape.viewer.record.rows import TableRow
from wiretape.viewer.stats.metrics import NAMES, QUANTITIES, RATES, STATISTICS, amount
from wiretape.viewer.stats.summary import field_name

FIELDS: Final = ("rule", "value", "unit", "n", "verdict", "unknown")
IMPORTANT: Final = ("rule", "verdict", "value", "unit", "n", "unknown")
"""The fields of a check, the most important first."""

HOLDS: Final = "holds"
FAILS: Final = "fails"
NOTHING: Final = "nothing to judge"


@dataclass(frozen=True, slots=True)
class Rule:
    """A field of a row of statistics and its limit, in the field's unit; a value equal to the limit is allowed."""

    text: str
    field: str
    count: str
    unit: str
    is_highest: bool
    limit: float


def rule(bound: str, text: str) -> Rule:
    """Parse a rule such as `ttft.p95=1500ms`; `bound` is max or min. Raises `ValueError`."""
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals:
        raise ValueError(f"{text!r} is no rule: write a figure and its limit, such as ttft.p95=1500ms")
    field, count, unit = _figure(name)
    value = " ".join(value.split())  # neither a line feed nor any other character that XML forbids
    return Rule(f"{bound} {name}={value}", field, count, unit, bound == "max", amount(value, unit))


def judge(rules: Iterable[Rule], statistics: TableRow) -> list[TableRow]:
    """Judge each rule by a row of statistics."""
    rows: list[TableRow] = []
    for rule in rules:
        value = statistics[rule.field]
        holds = value is not None and (value <= rule.limit if rule.is_highest else value >= rule.limit)
        rows.append(
            {
                "rule": rule.text,
                "value": value,
                "unit": rule.unit or None,
                "n": statistics[rule.count],
                "verdict": NOTHING if value is None else HOLDS if holds else FAILS,
                "unknown": statistics["objective_unknown_n"] if rule.field == "goodput_pct" else None,
            }
        )
    return rows


def exit_code(judged: Sequence[TableRow], unmeasured: int = 0) -> int:
    """Return 3 if a rule fails, else 4 if a figure has no values or exchanges are `unmeasured`, else 0."""
    verdicts = {row["verdict"] for row in judged}
    # A figure without values fails its rule, but nothing is known to be worse: gates can tell the two apart.
    return 3 if FAILS in verdicts else 4 if NOTHING in verdicts or unmeasured else 0


def junit(judged: Sequence[TableRow]) -> bytes:
    """Return the verdicts as a JUnit report: a test case for each rule."""
    broken = str(sum(row["verdict"] != HOLDS for row in judged))
    root = ElementTree.Element("testsuites")
    totals = {"tests": str(len(judged)), "failures": broken, "errors": "0"}
    suite = ElementTree.SubElement(root, "testsuite", {"name": "wiretape check", **totals})
    for row in judged:
        case = ElementTree.SubElement(suite, "testcase", classname="wiretape.check", name=row["rule"])
        if row["verdict"] != HOLDS:
            message = f"{row['verdict']}: {described(row)}"
            ElementTree.SubElement(case, "failure", type=row["verdict"], message=message)
    ElementTree.indent(root)
    text: bytes = ElementTree.tostring(root, "utf-8", xml_declaration=True)
    return text + b"\n"


def described(row: TableRow) -> str:
    left_out = "" if row["unknown"] is None else f", objective unknown of {row['unknown']:,}"
    if row["value"] is None:
        return f"no values among {row['n'] or 0:,}{left_out}"
    value = f"{row['value']:,.3f}".rstrip("0").rstrip(".")
    return f"{value} {row['unit'] or ''}".rstrip() + f" (n {row['n']:,}{left_out})"


def _figure(name: str) -> tuple[str, str, str]:
    """Return the field of a figure, the field of its count, and its unit."""
    if name == "n":
        return "n", "n", ""
    if name in RATES:
        return f"{name}_pct", f"{name}_n", "%"
    stem, _, statistic = name.rpartition(".")
    if stem not in NAMES or statistic not in STATISTICS:
        names = f"n, {', '.join(RATES)}, or one of {', '.join(QUANTITIES)} with .{', .'.join(STATISTICS)}"
        raise ValueError(f"{name!r} is no figure: choose {names}")
    quantity = QUANTITIES[NAMES[stem]]
    return field_name(quantity, statistic), field_name(quantity, "n"), "" if statistic == "n" else quantity.unit
