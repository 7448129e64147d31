"""The commands that turn a tape into figures: `stats`, `compare` and `check`.

Data goes to stdout and messages to stderr. The figures are computed in `wiretape.viewer.stats` and laid out in
`wiretape.viewer.report`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from wiretape.recorder.commands.options import install_hint
from wiretape.recorder.errors import NotFound, WiretapeError
from wiretape.viewer.commands import completion, options, output, progress
from wiretape.viewer.commands.options import MeasuringOptions, known, measured, parsed
from wiretape.viewer.commands.output import Output

if TYPE_CHECKING:
    from wiretape.viewer.query.syntax import Filter
    from wiretape.viewer.rows import TableRow
    from wiretape.viewer.source.base import Place, Selection, Source
    from wiretape.viewer.stats.check import Rule
    from wiretape.viewer.stats.metrics import Quantity
    from wiretape.viewer.stats.summary import Figures, Sample
    from wiretape.viewer.stats.tools.summary import ToolReport


@click.command()
@options.db
@options.filtered
@click.option(
    "--by",
    metavar="NAMES",
    shell_complete=completion.groups,
    help="Group by model, response_model, operation, api, upstream, path, status, outcome, label.KEY, day, hour, …",
)
@measured
@click.option(
    "--hist",
    metavar="NAME",
    shell_complete=completion.quantities,
    help="Draw a histogram of ttft, icl, …, on a logarithmic scale.",
)
@click.option(
    "--as",
    "tool",
    metavar="TOOL[@RELEASE]",
    shell_complete=completion.tools,
    help="Measure by this tool's definitions, under its names, and list the differences: vllm, sglang, aiperf, "
    "guidellm, genai-perf, llmperf, mlperf, otel, langfuse, litellm or traceloop; by its newest known release, or by "
    "another, such as vllm@0.32.",
)
@click.option(
    "--tokenizer",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="FILE",
    help="With --as: count tokens with this tokenizer.json where the tool counts them itself.",
)
@click.option("--schema", is_flag=True, help="Print the meaning of each field of csv, jsonl and json.")
@output.formatted(columns=True)
def stats(
    db: "Place | None",
    where: "Filter | None",
    by: str | None,
    measuring: MeasuringOptions,
    hist: str | None,
    tool: str | None,
    tokenizer: Path | None,
    schema: bool,
    out: Output,
) -> None:
    """Count, time and rate the exchanges of a tape.

    Rates and latencies cover generations (chat and the like), unless the filter names the operation. Latency is that of
    complete exchanges only. Durations are in ms and start at T0, just before the request was sent. Standard deviations
    are the population's. A gap (icl) is between two output chunks, not between tokens; chunks of one read are 0 apart.
    The model is the one that was requested, so that its failures count; response_model is the one that answered.

    --columns takes statistics (p50,p99) and fields (model,n,ttft_p99_ms); with fields, each group is one row.
    """
    from wiretape.viewer.rows import only
    from wiretape.viewer.stats import summary
    from wiretape.viewer.stats.metrics import QUANTITIES, STATISTICS

    if tool is not None:
        ours = {"--by": by, "--percentile-method": measuring.method != "linear", "--slo": measuring.slo, "--hist": hist}
        ours |= {"--include-failed": measuring.include_failed, "--exact": measuring.exact}
        _refuse("--as uses the definitions of that tool", ours)
        _stats_as(db, where, tool, tokenizer, schema, out, all_operations=measuring.all_operations)
        return
    _refuse("only other tools count tokens themselves, and --as is missing", {"--tokenizer": tokenizer})
    keys = options.groups(by)
    measuring.bounds()  # report an invalid objective before reading
    if schema:
        out.explain(summary.schema())
        return
    statistics = {name: f"{name} of every quantity" for name in STATISTICS} | {key: "the group" for key in keys}
    names = out.fields(statistics | summary.schema())
    is_drawn = out.is_table if hist is None else out.format in (None, "table")
    is_page = is_drawn and (names is None or set(names) <= set(STATISTICS))
    if hist is not None and not is_page:
        raise click.UsageError("--hist draws: it goes with --format table only, and without fields in --columns")
    if hist is not None:
        known("--hist", hist, list(QUANTITIES), "quantity")
    drawn = None if hist is None else QUANTITIES[hist]
    found = _figures(db, where, measuring, keys, drawn=drawn)
    rows = [summary.row_of(one, keys) for one in found]
    if is_page:
        if any(one.size for one in found):
            _show_blocks(found, rows, keys, measuring.slo, drawn, names or STATISTICS)
        return
    fields = summary.fields(keys) if names is None else summary.expanded(names)
    out.put_rounded(fields, only(rows, fields), fields)


def _refuse(why: str, options: Mapping[str, object]) -> None:
    """Raise a usage error if any of these options was given, as it would have no effect."""
    useless = [name for name, value in options.items() if value not in (None, False)]
    if useless:
        raise click.UsageError(f"{why}: leave out {', '.join(useless)}")


def _show_blocks(
    found: "Sequence[Figures]",
    rows: "Sequence[TableRow]",
    keys: Sequence[str],
    slo: str | None,
    drawn: "Quantity | None",
    names: Sequence[str],
) -> None:
    """Print each group: its statistics and its histogram, separated by an empty line; then the hidden columns."""
    from rich.text import Text

    from wiretape.viewer.report import stats

    width, hidden = output.width(), list[str]()
    for number, (one, row) in enumerate(zip(found, rows, strict=True)):
        block = stats.block(row, keys, slo, width, names)
        hidden += block.hidden
        output.show([Text()] * bool(number) + block.lines)
        if drawn is not None:
            output.show(stats.drawn(one.histogram, drawn, width or output.PLAIN_WIDTH))
    output.tell_hidden(hidden)


def _stats_as(
    db: "Place | None",
    where: "Filter | None",
    tool: str,
    tokenizer: Path | None,
    schema: bool,
    out: Output,
    *,
    all_operations: bool,
) -> None:
    from wiretape.viewer.report import tools
    from wiretape.viewer.rows import only
    from wiretape.viewer.source.base import Selection
    from wiretape.viewer.stats.tools.tools import authority

    parsed("--as", authority, tool)
    if schema:
        out.explain(tools.schema(tool))
        return
    names = out.fields(tools.MEANINGS)
    count_tokens = None if tokenizer is None else counter(tokenizer)
    place = options.place(db)
    if count_tokens is not None:
        place.require("bodies", "--tokenizer")
    with output.opened(place) as source:
        selected = Selection(where)
        covered = options.covered(source, selected, all_operations)
        if not source.count(covered):
            if not source.count(selected):
                options.report_nothing(source, where)
            if out.is_table:
                return
        report = _report(source, tool, covered, count_tokens)
    if out.is_table:
        output.show_table(tools.render(report, output.width(), names))
        return
    out.put(names or tools.FIELDS, only(tools.rows(report), names or tools.FIELDS))
    for line in tools.remarks(report):
        click.echo(line.plain, err=True)


def _report(
    source: "Source", tool: str, selection: "Selection", count_tokens: "Callable[[str, bool], int] | None"
) -> "ToolReport":
    """Return a tool's report of exchanges."""
    from wiretape.viewer.stats.tools.summary import report_of

    output.report_unshipped(source, selection, "left out")
    with progress.ProgressBar("measuring", lambda: source.measurable(selection), "exchange") as bar:
        found = source.measured(tool, selection, count_tokens)
        report = report_of(tool, bar.over(found), is_tokenized=count_tokens is not None)
    report.absent = source.absent(tool)
    return report


def counter(path: Path) -> "Callable[[str, bool], int]":
    """Return a function that counts the tokens of a text as the tokenizer in a file (`tokenizer.json`) does.

    Raises `WiretapeError` where `tokenizers`, the extra of that name, is not installed, or the file is no tokenizer.
    """
    import importlib

    try:
        tokenizers = importlib.import_module("tokenizers")
        tokenizer = tokenizers.Tokenizer.from_str(path.read_text("utf-8"))
    except ImportError as error:
        reason = f"--tokenizer needs tokenizers: {install_hint('tokenizers')}"
        raise WiretapeError(reason) from error
    except OSError as error:
        raise WiretapeError(f"cannot read {path}: {error.strerror}") from error
    except Exception as error:  # the library raises nothing narrower
        raise WiretapeError(f"{path} is not a tokenizer: give a tokenizer.json of Hugging Face") from error

    def count(text: str, special: bool) -> int:
        # A lone surrogate, which JSON can hold, is no Unicode text.
        text = text.encode("utf-8", "replace").decode()
        return len(tokenizer.encode(text, add_special_tokens=special))

    return count


def _figures(
    db: "Place | None",
    where: "Filter | None",
    measuring: MeasuringOptions,
    keys: Sequence[str] = (),
    otherwise: str | None = None,
    drawn: "Quantity | None" = None,
) -> "list[Figures]":
    """Measure the exchanges that a filter selects, in groups; report on stderr if there are none."""
    from wiretape.viewer.source.base import Selection

    with output.opened(options.place(db)) as source:
        selected = Selection(where)
        covered = options.covered(source, selected, measuring.all_operations)
        found = list(source.figures(keys, covered, measuring.definition(otherwise, drawn)))
        if not any(one.size for one in found) and not source.count(selected):
            options.report_nothing(source, where)
    return found


@click.command()
@options.exchange_ids("[A B]")
@options.db
@options.filtered
@click.option(
    "--base", metavar="EXPR", shell_complete=completion.filters, help="The group to compare with, as a filter."
)
@click.option("--new", metavar="EXPR", shell_complete=completion.filters, help="The group to judge, as a filter.")
@click.option("--include-failed", is_flag=True, help="Include incomplete exchanges in the figures.")
@options.every_operation
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the bootstrap samples.")
@click.option(
    "-e",
    "--exit-code",
    is_flag=True,
    help="Exit 3 if a metric got worse (with --part request: if they differ), 4 if undecided.",
)
@click.option(
    "--part",
    type=click.Choice(("figures", "request")),
    default="figures",
    show_default=True,
    help="Part of two exchanges to compare.",
)
@output.formatted(columns=True)
def compare(
    ids: tuple[str, ...],
    db: "Place | None",
    where: "Filter | None",
    base: str | None,
    new: str | None,
    include_failed: bool,
    all_operations: bool,
    seed: int,
    exit_code: bool,
    part: str,
    out: Output,
) -> None:
    """Compare two exchanges (A B), or groups (--base and --new).

    With --part request, show what changed between two requests: model, parameters, system prompt, tools and messages.

    Differences of groups are new − base, each with an interval (of error rates: Newcombe's). All intervals of a
    comparison hold together with 95 %, by a joint bootstrap (max-t): of 20 comparisons of equal groups, about one finds
    a difference. An interval that contains 0 shows no clear difference.
    """
    from wiretape.viewer.report import tables
    from wiretape.viewer.rows import only
    from wiretape.viewer.stats import compare

    if len(ids) == 2 and base is None and new is None:
        only_groups = {
            "--exit-code": exit_code and part == "figures", "--include-failed": include_failed,
            "--all-operations": all_operations, "a filter": where,
        }  # fmt: skip
        _refuse("two exchanges are only shown side by side", only_groups)
        if part == "request":
            _compare_requests(db, ids, exit_code, out)
            return
        fields = out.fields(compare.PAIR_FIELDS)
        with output.opened(options.place(db)) as source:
            pair = [source.exchange(source.find(id)).detail() for id in ids]
        names = fields or tuple(compare.PAIR_FIELDS)
        out.put_rounded(names, only(compare.pair(*pair), names), fields or compare.PAIR_IMPORTANT, tables.LEAST)
        return
    if ids or base is None or new is None or part == "request":
        groups = "" if part == "request" else ", or two groups with --base and --new"
        raise click.UsageError(f"name two exchanges{groups}")
    fields = out.fields(compare.FIELDS)
    sides = {"--base": _group_of(where, base, "--base"), "--new": _group_of(where, new, "--new")}
    with output.opened(options.place(db)) as source:
        before, after = _sides(source, sides, include_failed, all_operations)
    rows = compare.groups(before, after, seed)
    names = fields or tuple(compare.FIELDS)
    out.put_rounded(names, only(rows, names), fields or compare.IMPORTANT)
    if exit_code and (code := compare.exit_code(rows)):
        raise click.exceptions.Exit(code)


def _compare_requests(db: "Place | None", ids: tuple[str, ...], exit_code: bool, out: Output) -> None:
    """Show the changes between the requests of two exchanges."""
    from wiretape.viewer.exchange import changes, report
    from wiretape.viewer.exchange.conversation import Folding
    from wiretape.viewer.rows import only
    from wiretape.viewer.source.tape import exchange as tape

    fields = out.fields(changes.FIELDS) or tuple(changes.FIELDS)
    with output.opened(options.place(db)) as source:
        connection = source.tape("bodies", "--part request")
        a, b = [tape.prompt(connection, source.find(id)) for id in ids]
    found = changes.changes(a, b)
    if out.is_table and out.columns is None:
        folding = Folding(output.width(), "a pipe gets all of it") if output.on_terminal() else Folding()
        output.show(report.drawn(changes.lines(found, folding)))
    else:
        out.put(fields, only(map(asdict, found), fields))
    if exit_code and changes.differ(found):
        raise click.exceptions.Exit(3)


def _group_of(where: "Filter | None", text: str, option: str) -> "Filter":
    """Return the filter of a group: both `where` and the group's own filter."""
    from wiretape.viewer.query.parser import parse
    from wiretape.viewer.query.syntax import every

    own = parsed(option, parse, text)
    return own if where is None else every([where, own])


def _sides(
    source: "Source", groups: "Mapping[str, Filter]", include_failed: bool, all_operations: bool
) -> "list[Sample]":
    """Read the groups of a comparison, given by the option that names each. Raise `NotFound` if one is empty."""
    from wiretape.viewer.source.base import Selection

    if not source.count():
        raise NotFound(f"nothing to compare: {source.empty}")
    sides, empty = list["Sample"](), list[str]()
    for option, where in groups.items():
        selected = Selection(where)
        covered = options.covered(source, selected, all_operations)
        sides += source.samples(covered, include_failed=include_failed)
        if not sides[-1].size:
            is_left_out = source.count(selected) > 0
            empty.append(f"{option}: {'no generations' if is_left_out else options.nothing(source, where)}")
    if empty:
        raise NotFound(f"nothing to compare: {'; '.join(empty)}")
    return sides


@click.command()
@options.db
@options.filtered
@click.option(
    "--max",
    "highest",
    multiple=True,
    shell_complete=completion.figures,
    metavar="FIGURE=LIMIT",
    help="Upper limit: ttft.p95=1500ms, error_rate=1%, … May be repeated.",
)
@click.option(
    "--min",
    "lowest",
    multiple=True,
    shell_complete=completion.figures,
    metavar="FIGURE=LIMIT",
    help="Lower limit: tps.p50=20, n=50, goodput=95%, … May be repeated.",
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
@measured
@output.formatted()
def check(
    db: "Place | None",
    where: "Filter | None",
    highest: tuple[str, ...],
    lowest: tuple[str, ...],
    file: Path | None,
    junit: Path | None,
    measuring: MeasuringOptions,
    out: Output,
) -> None:
    """Judge the tape's figures by rules, for CI.

    Exit 3 if a rule fails, 4 if none fails but one has no data or some exchanges are not measured yet, else 0.
    """
    from wiretape.viewer import outfile
    from wiretape.viewer.stats import check, summary

    rules, slo = _rules(file, highest, lowest)
    bounds = measuring.bounds(slo)
    if not rules:
        raise click.UsageError("no rules: give --max, --min or --rules")
    if not bounds and any(rule.field == "goodput_pct" for rule in rules):
        raise click.UsageError("goodput needs an objective: give --slo")
    (found,) = _figures(db, where, measuring, otherwise=slo)
    row = summary.row_of(found, ())
    judged = check.judge(rules, row)
    if junit is not None:
        with outfile.replacing(junit, options.place(db).file) as report:
            report.write(check.junit(judged))
    out.put_rounded(check.FIELDS, judged, check.IMPORTANT)
    if found.is_estimated:
        click.echo(f"wiretape: {summary.WARNINGS['tdigest']}", err=True)
    for note in ("clock_suspect", "imported", "no_timing"):
        if count := found.flagged[summary.FLAGS.index(note)]:
            click.echo(f"wiretape: {count} of {found.size}: {summary.WARNINGS[note]}", err=True)
    if code := check.exit_code(judged, unmeasured=row[f"n_{summary.UNMEASURED}"]):
        raise click.exceptions.Exit(code)


def _rules(file: Path | None, highest: Sequence[str], lowest: Sequence[str]) -> "tuple[list[Rule], str | None]":
    """Read the rules of a file, then those of the command line; and the file's objective."""
    from wiretape.viewer import config
    from wiretape.viewer.stats import check

    rules, slo = list["Rule"](), None
    if file is not None:
        rules, slo = config.rules(file)
    rules += [parsed("--max", lambda text: check.rule("max", text), text) for text in highest]
    rules += [parsed("--min", lambda text: check.rule("min", text), text) for text in lowest]
    return rules, slo
