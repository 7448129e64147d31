"""The command `check`: figures judged by rules, for CI."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from wiretape.viewer.commands import completion, options, output
from wiretape.viewer.commands.options import MeasuringOptions, measured, parsed
from wiretape.viewer.commands.output import Output
from wiretape.viewer.commands.stats import figures

if TYPE_CHECKING:
    from wiretape.viewer.query.syntax import Filter
    from wiretape.viewer.source.base import Place
    from wiretape.viewer.stats.check import Rule


@click.command()
@options.db
@options.filtered
@click.option(
    "--max",
    "highest",
    multiple=True,
    shell_complete=completion.figures,
    metavar="FIGURE=LIMIT",
    help="Upper limit: ttft.p50=1500ms, gap.p99=200ms (of all gaps together), error_rate=1%, … May be repeated.",
)
@click.option(
    "--min",
    "lowest",
    multiple=True,
    shell_complete=completion.figures,
    metavar="FIGURE=LIMIT",
    help="Lower limit: tps_user.p50=20, n=50, goodput=95%, … May be repeated.",
)
@click.option(
    "--rules",
    "file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="FILE",
    help="More rules, in TOML: the tables [max] and [min], and the key slo.",
)
@click.option(
    "--junit",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Also write the verdicts as a JUnit report.",
)
@click.option("--few", is_flag=True, help="Judge percentiles of few values, too: p95 of less than 20, p99 of 100.")
@measured
@output.formatted()
def check(
    db: "Place | None",
    filter: "Filter | None",
    highest: tuple[str, ...],
    lowest: tuple[str, ...],
    file: Path | None,
    junit: Path | None,
    few: bool,
    measuring: MeasuringOptions,
    out: Output,
) -> None:
    """Judge the tape's figures by rules, for CI.

    Exit 3 if a rule fails, 4 if none fails but one has too little data or some exchanges are not measured yet,
    else 0. A percentile needs enough values: p50 2, p90 10, p95 20, p99 100.
    """
    from wiretape.viewer import config, outfile
    from wiretape.viewer.source.base import Selection
    from wiretape.viewer.stats import check, summary

    rules, slo = list["Rule"](), None
    if file is not None:
        rules, slo = config.rules(file)
    rules += [parsed("--max", lambda text: check.rule("max", text), text) for text in highest]
    rules += [parsed("--min", lambda text: check.rule("min", text), text) for text in lowest]
    bounds = measuring.bounds(slo)
    if not rules:
        raise click.UsageError("no rules: give --max, --min or --rules")
    if not bounds and any(rule.field == "goodput_pct" for rule in rules):
        raise click.UsageError("goodput needs an objective: give --slo")
    with output.opened(options.place(db)) as source:
        covered = options.covered(source, Selection(filter), measuring.all_operations)
        (figures_of_all,) = figures(source, filter, covered, measuring.definition(slo))
    row = summary.row_of(figures_of_all, ())
    judged = check.judge(rules, row, few=few)
    if junit is not None:
        with outfile.replacing(junit, options.place(db).file) as report:
            report.write(check.junit(judged))
    out.put_rounded(check.FIELDS, judged, check.IMPORTANT)
    if figures_of_all.is_estimated:
        click.echo(f"wiretape: {summary.WARNINGS['tdigest']}", err=True)
    for note in ("clock_suspect", "imported", "no_timing"):
        if count := figures_of_all.flagged[summary.FLAGS.index(note)]:
            click.echo(f"wiretape: {count} of {figures_of_all.size}: {summary.WARNINGS[note]}", err=True)
    if code := check.exit_code(judged, unmeasured=row[f"n_{summary.UNMEASURED}"]):
        raise click.exceptions.Exit(code)
