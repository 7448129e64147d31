"""The commands that turn a tape into figures: `stats`, `compare` and `check`; `viewer.cli` adds them to the group.

Only click is imported at the top: `--help` must not wait for a database library. Data goes to stdout and messages to
stderr. The figures themselves are made by the modules of the same names.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from recorder.commands import options
from viewer.commands import completing, measuring, output
from viewer.commands import options as selecting
from viewer.commands.completing import STATISTICS

if TYPE_CHECKING:
    from viewer.filters.syntax import Filter
    from viewer.rows import Row
    from viewer.stats.samples import Sample
    from viewer.stats.summary import Method


@click.command()
@options.db
@selecting.filtered
@click.option(
    "--by",
    metavar="NAMES",
    shell_complete=completing.groups,
    help="Group by model, request_model, upstream, path, status, outcome, label.KEY, day, hour, …",
)
@measuring.measured
@click.option(
    "--hist",
    metavar="NAME",
    shell_complete=completing.quantities,
    help="Draw how ttft, icl, … is distributed, on a logarithmic scale.",
)
@click.option(
    "--as",
    "tool",
    metavar="TOOL[@RELEASE]",
    shell_complete=completing.tools,
    help="Measure as this tool does, under its names, and say what it counts differently: vllm, sglang, aiperf, "
    "guidellm, genai-perf, llmperf, mlperf or otel; its newest release that is known, or as vllm@0.32 does.",
)
@click.option(
    "--tokenizer",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="FILE",
    help="With --as: count the tokens that the tool counts itself with this tokenizer.json.",
)
@click.option("--schema", is_flag=True, help="Say what each field of csv, jsonl and json means.")
@output.columned
@output.formatted
def stats(
    db: Path | None,
    where: "Filter | None",
    by: str | None,
    method: "Method",
    slo: str | None,
    include_failed: bool,
    hist: str | None,
    tool: str | None,
    tokenizer: Path | None,
    schema: bool,
    columns: str | None,
    format: str | None,
    raw_csv: bool,
) -> None:  # fmt: skip
    """Count, time and rate the exchanges of a tape.

    Latency is that of complete exchanges only. Durations are in ms and from T0, the moment before the request was sent.
    Standard deviations are the population's. A gap (icl) is between two output chunks, not between tokens; chunks of
    one read are 0 apart. The model is the one that answered, so what failed before that counts for the one asked for.

    --columns takes statistics (p50,p99) and fields (model,n,ttft_p99_ms); with fields, each group is one row.
    """
    from viewer.rows import only
    from viewer.stats import summary as statistics

    format = output.chosen(format) if hist is None else format or "table"
    if tool is not None:
        ours = {"--by": by, "--percentile-method": method != "linear", "--slo": slo, "--hist": hist}
        _refuse("--as measures as that tool does", ours | {"--include-failed": include_failed})
        measuring.known_tool(tool)
        if schema:
            _explain_as(tool, format, raw_csv)
        else:
            _stats_as(db, where, tool, tokenizer, format, raw_csv, columns)
        return
    _refuse("only other tools count tokens themselves, and --as is missing", {"--tokenizer": tokenizer})
    keys, bounds = measuring.keys_of(by), measuring.bounds_of(slo)
    if schema:
        measuring.explained(format, statistics.schema(), raw_csv)
        return
    names = None if columns is None else _columns(columns, keys)
    is_page = format == "table" and (names is None or set(names) <= set(STATISTICS))
    if hist is not None and not is_page:
        raise click.UsageError("--hist draws: it goes with --format table only, and without fields in --columns")
    drawn = measuring.quantity_of(hist).name if hist is not None else None
    found = measuring.samples(db, where, keys, include_failed=include_failed)
    rows = [statistics.row(sample, keys, method, bounds) for sample in found]
    if is_page:
        if any(sample.size for sample in found):
            _show_blocks(found, rows, keys, slo, drawn, names or STATISTICS)
        return
    fields = statistics.fields(keys) if names is None else statistics.expanded(names)
    measuring.listed(format, fields, list(only(rows, fields)), raw_csv, fields)


def _columns(text: str, keys: Sequence[str]) -> tuple[str, ...]:
    """Read `--columns` of `stats`: statistics and fields, the keys of the groups among them."""
    from viewer.stats import summary as statistics

    known = {name: f"{name} of every quantity" for name in STATISTICS} | {key: "the group" for key in keys}
    return output.columns_of(text, known | statistics.schema())


def _refuse(why: str, options: Mapping[str, object]) -> None:
    """Raise a usage error if any of these options was given: what has no effect must not seem to have one."""
    given = [name for name, value in options.items() if value not in (None, False)]
    if given:
        raise click.UsageError(f"{why}: leave out {', '.join(given)}")


def _explain_as(tool: str, format: str, raw_csv: bool) -> None:
    from viewer.commands import measured_as

    measuring.explained(format, measured_as.schema(tool), raw_csv)


def _stats_as(
    db: Path | None,
    where: "Filter | None",
    tool: str,
    tokenizer: Path | None,
    format: str,
    raw_csv: bool,
    columns: str | None,
) -> None:
    from viewer.commands import measured_as
    from viewer.commands.tokenizer import counter
    from viewer.tape import queries

    names = None if columns is None else output.columns_of(columns, measured_as.MEANINGS)
    count_tokens = None if tokenizer is None else counter(tokenizer)
    with queries.opened(options.tape_path(db)) as connection:
        condition = selecting.condition(where)
        if not (count := queries.count(connection, condition)):
            selecting.report_nothing(connection, where)
        if count or format != "table":
            measured_as.stats_as(
                connection, tool, condition, format, raw_csv=raw_csv, names=names, count_tokens=count_tokens
            )


@click.command()
@click.argument("ids", nargs=-1, metavar="[A B]", shell_complete=completing.ids)
@options.db
@selecting.filtered
@click.option(
    "--base", metavar="EXPR", shell_complete=completing.filters, help="The group to compare with, as a filter."
)
@click.option(
    "--new", metavar="EXPR", shell_complete=completing.filters, help="The group that is compared, as a filter."
)
@click.option("--include-failed", is_flag=True, help="Let exchanges that are not complete into the figures, too.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of what is drawn at random.")
@click.option("-e", "--exit-code", is_flag=True, help="Exit 3 if anything got worse, 4 if nothing can be said.")
@output.columned
@output.formatted
def compare(
    ids: tuple[str, ...],
    db: Path | None,
    where: "Filter | None",
    base: str | None,
    new: str | None,
    include_failed: bool,
    seed: int,
    exit_code: bool,
    columns: str | None,
    format: str | None,
    raw_csv: bool,
) -> None:
    """Compare two exchanges, A and B, or two groups, --base and --new.

    Differences of groups are new − base, each with an interval (of error rates: Newcombe's). All intervals of a
    comparison hold together with 95 %, by a joint bootstrap (max-t): of 20 comparisons of equals, about one finds a
    difference. An interval that holds 0 shows no clear difference.
    """
    from viewer.report import tables
    from viewer.rows import only
    from viewer.stats import compare

    if len(ids) == 2 and base is None and new is None:
        only_groups = {"--exit-code": exit_code, "--include-failed": include_failed, "a filter": where}
        _refuse("two exchanges are only shown side by side", only_groups)
        fields = tuple(compare.PAIR_FIELDS) if columns is None else output.columns_of(columns, compare.PAIR_FIELDS)
        rows = compare.pair(*measuring.details(db, ids))
        important = compare.PAIR_IMPORTANT if columns is None else fields
        measuring.listed(format, fields, list(only(rows, fields)), raw_csv, important, tables.LEAST)
        return
    if ids or base is None or new is None:
        raise click.UsageError("name two exchanges, or two groups with --base and --new")
    fields = tuple(compare.FIELDS) if columns is None else output.columns_of(columns, compare.FIELDS)
    groups = {"--base": measuring.group_of(where, base, "--base"), "--new": measuring.group_of(where, new, "--new")}
    before, after = measuring.sides(db, groups, include_failed=include_failed)
    rows = compare.groups(before, after, seed)
    important = compare.IMPORTANT if columns is None else fields
    measuring.listed(format, fields, list(only(rows, fields)), raw_csv, important)
    if exit_code and (code := compare.exit_code(rows)):
        raise click.exceptions.Exit(code)


@click.command()
@options.db
@selecting.filtered
@click.option(
    "--max",
    "highest",
    multiple=True,
    shell_complete=completing.figures,
    metavar="FIGURE=LIMIT",
    help="The most allowed: ttft.p95=1500ms, error_rate=1%, … May be repeated.",
)
@click.option(
    "--min",
    "lowest",
    multiple=True,
    shell_complete=completing.figures,
    metavar="FIGURE=LIMIT",
    help="The least allowed: tps.p50=20, n=50, goodput=95%, … May be repeated.",
)
@click.option(
    "--rules",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="FILE",
    help="More rules, in TOML: tables [max] and [min], and slo.",
)
@click.option(
    "--junit",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the verdicts as a JUnit report, too.",
)
@measuring.measured
@output.formatted
def check(
    db: Path | None,
    where: "Filter | None",
    highest: tuple[str, ...],
    lowest: tuple[str, ...],
    rules: Path | None,
    junit: Path | None,
    method: "Method",
    slo: str | None,
    include_failed: bool,
    format: str | None,
    raw_csv: bool,
) -> None:  # fmt: skip
    """Judge the tape's figures by rules, for CI.

    Exit 0 if all rules hold, 3 if one fails, and 4 if none fails but for one there is nothing to judge.
    """
    from viewer import outfile
    from viewer.stats import check
    from viewer.stats import summary as statistics

    asked, objective = measuring.rules_of(rules, highest, lowest)
    bounds = measuring.bounds_of(slo if slo is not None else objective)
    if not asked:
        raise click.UsageError("no rules: give --max, --min or --rules")
    if not bounds and any(rule.field == "goodput_pct" for rule in asked):
        raise click.UsageError("goodput needs an objective: give --slo")
    (sample,) = measuring.samples(db, where, include_failed=include_failed)
    judged = check.judge(asked, statistics.row(sample, (), method, bounds))
    if junit is not None:
        with outfile.replacing(junit, options.tape_path(db)) as file:
            file.write(check.junit(judged))
    measuring.listed(format, check.FIELDS, judged, raw_csv, check.IMPORTANT)
    if code := check.exit_code(judged):
        raise click.exceptions.Exit(code)


COMMANDS: list[click.Command] = [stats, compare, check]
"""The commands of this module, for the group."""


def _show_blocks(
    found: "Sequence[Sample]",
    rows: "Sequence[Row]",
    keys: Sequence[str],
    slo: str | None,
    drawn: str | None,
    names: Sequence[str],
) -> None:
    """Print each group: its statistics and its histogram, with an empty line between two; then what had no room."""
    from rich.text import Text

    from viewer.report import stats as sheets
    from viewer.stats import summary as statistics
    from viewer.stats.metrics import QUANTITIES

    width, hidden = output.width(), list[str]()
    for number, (sample, row) in enumerate(zip(found, rows, strict=True)):
        block = sheets.block(row, keys, slo, width, names)
        hidden += block.hidden
        output.show([Text()] * bool(number) + block.lines)
        if drawn is not None:
            quantity = QUANTITIES[drawn]
            output.show(sheets.drawn(statistics.values_of(sample, quantity), quantity, width or output.PLAIN_WIDTH))
    output.tell_hidden(hidden)
