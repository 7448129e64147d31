"""Pure: rules for a tape's figures, for a gate in CI; each is judged by itself.

A rule is a figure and the maximum or minimum allowed for it: `ttft.p95=1500ms`, `error_rate=1%`, `n=50`. A figure
without a value fails its rule: a gate must not pass for lack of data. `n` is the count of a figure's values, or the
denominator of a rate. A percentile of fewer values than `VALUES_NEEDED` is judged only on request. Goodput leaves out
exchanges whose objective is undecided, and `unknown` counts them.
Rules come from the command line, from a TOML file, or from both.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final
from xml.etree import ElementTree

from wiretape.viewer.query import guesses
from wiretape.viewer.record.rows import TableRow
from wiretape.viewer.stats.metrics import NAMES, QUANTITIES, RATES, STATISTICS, VALUES_NEEDED, amount
from wiretape.viewer.stats.summary import field_name

FIELDS: Final = ("rule", "value", "unit", "n", "verdict", "unknown")
IMPORTANT: Final = ("rule", "verdict", "value", "unit", "n", "unknown")
"""The fields of a check, the most important first."""

HOLDS: Final = "holds"
FAILS: Final = "fails"
NOTHING: Final = "nothing to judge"


@dataclass(frozen=True, slots=True)
class Rule:
    """A field of a row of statistics and its limit, in the field's unit; a value equal to the limit is allowed.

    `needed` is the least of its values that it is judged by.
    """

    text: str
    field: str
    count: str
    unit: str
    is_highest: bool
    limit: float
    needed: int


def rule(bound: str, text: str) -> Rule:
    """Parse a rule such as `ttft.p95=1500ms`; `bound` is max or min. Raises `ValueError`."""
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals:
        raise ValueError(f"{text!r} is no rule: write a figure and its limit, such as ttft.p95=1500ms")
    field, count, unit, needed = _figure(name)
    value = " ".join(value.split())  # neither a line feed nor any other character that XML forbids
    return Rule(f"{bound} {name}={value}", field, count, unit, bound == "max", amount(value, unit), needed)


def judge(rules: Iterable[Rule], statistics: TableRow, *, few: bool = False) -> list[TableRow]:
    """Judge each rule by a row of statistics; `few`: percentiles of few values, too."""
    rows: list[TableRow] = []
    for rule in rules:
        value, n = statistics[rule.field], statistics[rule.count]
        if value is None:
            verdict = NOTHING
        elif n < rule.needed and not few:
            verdict = f"n {n:,} < {rule.needed}"
        else:
            verdict = HOLDS if (value <= rule.limit if rule.is_highest else value >= rule.limit) else FAILS
        rows.append(
            {
                "rule": rule.text,
                "value": value,
                "unit": rule.unit or None,
                "n": n,
                "verdict": verdict,
                "unknown": statistics["objective_unknown_n"] if rule.field == "goodput_pct" else None,
            }
        )
    return rows


def exit_code(judged: Sequence[TableRow], unmeasured: int = 0) -> int:
    """Return 3 if a rule fails, else 4 if one has too few values or exchanges are `unmeasured`, else 0."""
    verdicts = {row["verdict"] for row in judged}
    # A figure without enough values does not hold, but nothing is known to be worse: gates can tell the two apart.
    return 3 if FAILS in verdicts else 4 if verdicts - {HOLDS} or unmeasured else 0


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


def _figure(name: str) -> tuple[str, str, str, int]:
    """Return the field of a figure, the field of its count, its unit, and the values that it needs."""
    if name == "n":
        return "n", "n", "", 0
    if name in RATES:
        return f"{name}_pct", f"{name}_n", "%", 1
    stem, _, statistic = name.rpartition(".")
    if stem not in NAMES or statistic not in STATISTICS:
        names = ("n", *RATES, *(f"{quantity}.p50" for quantity in QUANTITIES))
        source = f"'wiretape help fields' lists quantities, each with .{', .'.join(STATISTICS)}"
        raise ValueError(f"{name!r} is no figure{guesses.advice(name, names, source)}")
    quantity = QUANTITIES[NAMES[stem]]
    unit, needed = "" if statistic == "n" else quantity.unit, VALUES_NEEDED.get(statistic, 0)
    return field_name(quantity, statistic), field_name(quantity, "n"), unit, needed
