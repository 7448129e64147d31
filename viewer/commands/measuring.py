"""What the commands of `analysis` have in common: their options, reading their values, and reading samples.

Only click is imported at the top: `--help` must not wait for a database library. What is wrong with a value is a usage
error that names the option.
"""

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from recorder.commands import options
from viewer.commands import options as selecting
from viewer.commands import output

if TYPE_CHECKING:
    from viewer.filters.syntax import Filter
    from viewer.rows import Row
    from viewer.stats.check import Rule
    from viewer.stats.metrics import Bound, Quantity
    from viewer.stats.samples import Sample

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

_LABEL = re.compile(r"label\.[A-Za-z0-9_.-]{1,64}")


def measured(command: F) -> F:
    """Add the options that say how figures are made: `method`, `slo` and `include_failed`."""
    added = (
        click.option("--percentile-method", "method", type=click.Choice(["linear", "inverse_cdf", "mlperf"]),
                     default="linear", show_default=True, help="Interpolate, or take the nearest rank."),
        click.option("--slo", metavar="BOUNDS", help="An objective for each exchange, for the goodput: "
                     "'ttft<800ms,icl.p99<200ms,tps>20'."),
        click.option("--include-failed", is_flag=True,
                     help="Let exchanges that are not complete into the figures of latency, too."),
    )  # fmt: skip
    for option in reversed(added):
        command = option(command)
    return command


def samples(
    db: Path | None,
    where: "Filter | None",
    keys: Sequence[str] = (),
    *,
    include_failed: bool = False,
) -> "list[Sample]":
    """Read the exchanges that a filter selects, in groups; say on stderr if there are none."""
    from viewer.stats import samples as tape
    from viewer.tape import queries

    condition = selecting.condition(where)
    with queries.opened(options.tape_path(db)) as connection:
        found = tape.read(connection, keys, condition, include_failed=include_failed)
        if not any(sample.size for sample in found):
            selecting.report_nothing(connection, where)
    return found


def sides(db: Path | None, groups: "Mapping[str, Filter]", *, include_failed: bool = False) -> "list[Sample]":
    """Read the groups of a comparison, which are given by the options that name them.

    Raise `NotFound` if one of them is empty, and say which.
    """
    from recorder.errors import NotFound
    from viewer.stats import samples as tape
    from viewer.tape import queries

    found, empty = list["Sample"](), list[str]()
    with queries.opened(options.tape_path(db)) as connection:
        if not queries.count(connection):
            raise NotFound(f"nothing to compare: {queries.EMPTY}")
        for option, where in groups.items():
            found += tape.read(connection, (), selecting.condition(where), include_failed=include_failed, gaps=False)
            if not found[-1].size:
                empty.append(f"{option}: {selecting.nothing(connection, where)}")
    if empty:
        raise NotFound(f"nothing to compare: {'; '.join(empty)}")
    return found


def details(db: Path | None, ids: Sequence[str]) -> "list[Row]":
    """Read all that is known of some exchanges."""
    from viewer.tape import queries

    with queries.opened(options.tape_path(db)) as connection:
        return [queries.detail(connection, queries.find(connection, id)) for id in ids]


def listed(
    format: str | None,
    fields: Sequence[str],
    rows: "Sequence[Row]",
    raw_csv: bool,
    important: Sequence[str] = (),
    narrowest: int | None = None,
) -> None:
    """Write rows of any kind, as a table or in another format; a table rounds its numbers.

    On a narrow terminal, the fields that are `important` give way last, after texts are cut to `narrowest` cells.
    """
    from viewer.report import stats, tables

    if output.chosen(format) != "table":
        output.put(output.chosen(format), fields, rows, raw_csv)
        return
    rounded = [{name: stats.number(value) if _is_number(value) else value for name, value in row.items()}
               for row in rows]  # fmt: skip
    output.show_table(tables.grid(fields, rounded, output.width(), important, narrowest or tables.NARROWEST))


def explained(format: str | None, schema: Mapping[str, str], raw_csv: bool) -> None:
    """Write what each field of a row means."""
    rows = [{"field": name, "meaning": meaning} for name, meaning in schema.items()]
    listed(format, ("field", "meaning"), rows, raw_csv)


def known_tool(tool: str) -> None:
    """Raise a usage error unless the tool, and the release of it, of `--as` is known."""
    from viewer.stats.tools.tools import authority

    _read("--as", authority, tool)


def keys_of(by: str | None) -> tuple[str, ...]:
    """Read `--by`."""
    from viewer.filters.fields import closest_first
    from viewer.stats.samples import GROUPS

    keys = tuple(dict.fromkeys(part.strip() for part in by.split(","))) if by is not None else ()
    for key in keys:
        if key not in GROUPS and not _LABEL.fullmatch(key):
            known = ", ".join(closest_first(key, (*GROUPS, "label.KEY")))
            raise click.BadParameter(f"{key!r} is no group: choose from {known}", param_hint="--by")
    return keys


def bounds_of(slo: str | None) -> "list[Bound]":
    """Read `--slo`."""
    from viewer.stats.metrics import objective

    return _read("--slo", objective, slo) if slo is not None else []


def quantity_of(name: str) -> "Quantity":
    """Read `--hist`."""
    from viewer.filters.fields import closest_first
    from viewer.stats.metrics import QUANTITIES

    if name not in QUANTITIES:
        known = ", ".join(closest_first(name, QUANTITIES))
        raise click.BadParameter(f"{name!r} is no quantity: choose from {known}", param_hint="--hist")
    return QUANTITIES[name]


def group_of(where: "Filter | None", text: str, option: str) -> "Filter":
    """Read a group that is given as a filter; it is part of what `where` selects."""
    from viewer.filters.parser import checked, parse
    from viewer.filters.syntax import every

    own = _read(option, lambda given: parse(checked(given)), text)
    return own if where is None else every([where, own])


def rules_of(file: Path | None, highest: Sequence[str], lowest: Sequence[str]) -> "tuple[list[Rule], str | None]":
    """Read the rules of a file, then those of the command line; and the file's objective."""
    from viewer.stats import check

    found, slo = list["Rule"](), None
    if file is not None:
        found, slo = _read("--rules", lambda path: check.rules_of(Path(path).read_text("utf-8")), str(file))
    for option, texts in (("max", highest), ("min", lowest)):
        found += [_read(f"--{option}", functools.partial(check.rule, option), text) for text in texts]
    return found, slo


def _read(option: str, reader: Callable[[str], T], text: str) -> T:
    try:
        return reader(text)
    except UnicodeDecodeError as error:
        raise click.BadParameter(f"{text} is not UTF-8 (byte {error.start})", param_hint=option) from error
    except (ValueError, OSError) as error:
        raise click.BadParameter(str(error), param_hint=option) from error


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))
