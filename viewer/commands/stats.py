"""The command `stats`: figures of a tape or a server, by our definitions or by those of another tool.

The figures are computed in `wiretape.viewer.stats` and laid out in `wiretape.viewer.report`.
"""

import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from wiretape.recorder.commands.options import install_hint
from wiretape.recorder.errors import WiretapeError
from wiretape.viewer.commands import completion, options, output, progress
from wiretape.viewer.commands.options import MeasuringOptions, measured, one_of, parsed
from wiretape.viewer.commands.output import Output

if TYPE_CHECKING:
    from wiretape.viewer.query.syntax import Filter
    from wiretape.viewer.record.rows import TableRow
    from wiretape.viewer.report.digest import Counted
    from wiretape.viewer.sessions.account import Account
    from wiretape.viewer.source.base import Measuring, Place, Selection, Source
    from wiretape.viewer.stats.metrics import Quantity
    from wiretape.viewer.stats.summary import Figures
    from wiretape.viewer.stats.tools.summary import ToolReport

_SESSIONS = ("conversation",)


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
    metavar="TOOL",
    shell_complete=completion.tools,
    help="Measure by this tool's definitions, under its names, and list the differences: vllm, vllm-0.32, sglang, "
    "aiperf, guidellm, otel, langfuse, litellm or traceloop, each by its newest known release.",
)
@click.option(
    "--tokenizer",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="FILE",
    help="With --as: count tokens with this tokenizer.json where the tool counts them itself.",
)
@click.option("--all", "full", is_flag=True, help="Show every statistic of every quantity, and all counts.")
@click.option("--schema", is_flag=True, help="Print the meaning of each field of csv, jsonl and json.")
@output.formatted(columns=True)
def stats(
    db: "Place | None",
    filter: "Filter | None",
    by: str | None,
    measuring: MeasuringOptions,
    hist: str | None,
    tool: str | None,
    tokenizer: Path | None,
    full: bool,
    schema: bool,
    out: Output,
) -> None:
    """Count, time and rate the exchanges of a tape.

    A terminal gets counts with causes, four quantities, stalls and missing usage; with --by, one row per group. A
    percentile needs enough values: p50 2, p95 20, p99 100. Other formats have every value.

    Rates and latencies cover generations (chat and the like), unless the filter names the operation. Latency is that of
    complete exchanges only. Durations are in ms and start at T0, just before the request was sent. Standard deviations
    are the population's. A gap (icl) is between two output chunks, not between tokens; chunks of one read are 0 apart.
    The model is the one that was requested, so that its failures count; response_model is the one that answered.

    --columns takes statistics (p50,p99) and fields (model,n,ttft_p99_ms); with fields, each group is one row.
    """
    from wiretape.viewer.source.base import Selection
    from wiretape.viewer.stats import summary
    from wiretape.viewer.stats.metrics import STATISTICS

    keys = options.groups(by, options.place(db))
    if tool is not None:
        refuse("--as uses the definitions of that tool", {"--all": full, "--hist": hist, **measuring.non_defaults})
        _stats_as(db, filter, tool, keys, tokenizer, schema, out, measuring.all_operations)
        return
    refuse("only other tools count tokens themselves, and --as is missing", {"--tokenizer": tokenizer})
    measuring.bounds()  # report an invalid objective before reading
    if schema:
        out.explain({**summary.schema(), **_more(keys)})
        return
    names = _names(out, keys)
    is_page = (out.is_table if hist is None else out.format in (None, "table")) and (
        names is None or set(names) <= set(STATISTICS)
    )
    histogram_of = _histogram_quantity(hist, is_page)
    is_digest, place = is_page and not full and names is None and not (keys and histogram_of), options.place(db)
    with output.opened(place) as source:
        covered = options.covered(source, Selection(filter), measuring.all_operations)
        figures_of_groups = figures(source, filter, covered, measuring.definition(histogram_of=histogram_of), keys)
        times = _times(place, source, filter, keys, is_digest)
        rows = [summary.row_of(group, keys) | _more_of(group, keys, times) for group in figures_of_groups]
        if is_digest:
            _show_digest(place, source, covered, rows, keys, measuring.slo, list(times.values()))
            _show_drawings(figures_of_groups, histogram_of)
        elif is_page:
            _show_blocks(figures_of_groups, rows, keys, measuring.slo, histogram_of, names or STATISTICS)
    if not is_page:
        from wiretape.viewer.record.rows import only
        from wiretape.viewer.stats import summary

        fields = (*summary.fields(keys), *_more(keys)) if names is None else summary.expanded(names)
        out.put_rounded(fields, only(rows, fields), fields)


def _names(out: Output, keys: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the statistics, groups and fields that `--columns` names, also by headings and aliases."""
    from wiretape.viewer.report import digest
    from wiretape.viewer.stats import summary
    from wiretape.viewer.stats.metrics import STATISTICS

    statistics = {name: f"{name} of every quantity" for name in STATISTICS}
    choosable = {**statistics, **dict.fromkeys(keys, "the group"), **summary.schema(), **_more(keys)}
    return out.with_headings(summary.ALIASES | digest.NAMED).fields(choosable)


def _more(keys: tuple[str, ...]) -> dict[str, str]:
    """Return the meanings of the fields that statistics by conversation have besides: those of its time."""
    from wiretape.viewer.record.fields import ACCOUNT_FIELDS, stored_name
    from wiretape.viewer.sessions.account import MEANINGS
    from wiretape.viewer.stats import summary

    standard = summary.schema()
    return {name: MEANINGS[stored_name(name)] for name in ACCOUNT_FIELDS if keys == _SESSIONS and name not in standard}


def _more_of(figures: "Figures", keys: tuple[str, ...], times: "Mapping[str, Account]") -> "TableRow":
    """Return these fields of a group; unknown for exchanges of no conversation."""
    account = times.get(str(figures.key[0])) if keys == _SESSIONS else None
    values = {} if account is None else account.row()
    return {name: values.get(name) for name in _more(keys)}


def _times(
    place: "Place", source: "Source", filter: "Filter | None", keys: tuple[str, ...], is_digest: bool
) -> "dict[str, Account]":
    """Return the time of each session, with all operations, for groups of sessions, and for a digest if it is quick."""
    from wiretape.recorder.clock import SYSTEM
    from wiretape.viewer import config
    from wiretape.viewer.source.base import Selection

    selection = Selection(filter)
    if not place.supports("conversations"):
        return {}
    # A digest of more exchanges leaves out the time of sessions: accounting for it would take too long.
    if keys != _SESSIONS and (keys or not is_digest or source.count(selection) > 20_000):
        return {}
    return dict(source.accounts(selection, config.thresholds(), SYSTEM))


def _histogram_quantity(hist: str | None, is_page: bool) -> "Quantity | None":
    """Return the quantity whose histogram is drawn, if any. Raise a usage error if it cannot be drawn."""
    from wiretape.viewer.stats.metrics import NAMES, QUANTITIES

    if hist is None:
        return None
    if not is_page:
        raise click.UsageError("--hist draws: it goes with --format table only, and without fields in --columns")
    return QUANTITIES[one_of("--hist", NAMES.get(hist, hist), list(QUANTITIES), "quantity")]


def refuse(reason: str, options: Mapping[str, object]) -> None:
    """Raise a usage error if any of these options was given, as it would have no effect."""
    useless = [name for name, value in options.items() if value not in (None, False)]
    if useless:
        raise click.UsageError(f"{reason}: leave out {', '.join(useless)}")


def _show_digest(
    place: "Place",
    source: "Source",
    covered: "Selection",
    rows: "Sequence[TableRow]",
    keys: Sequence[str],
    slo: str | None,
    times: "Sequence[Account]",
) -> None:
    """Print the figures of all exchanges in a dozen lines, or those of groups, one a row; then the sessions' time."""
    from wiretape.viewer.report import digest, sessions

    if not any(row["n"] for row in rows):
        return
    if keys:
        output.show_table(digest.groups(rows, keys, slo, output.width()))
    else:
        output.show_table(digest.page(rows[0], _counted(place, source, covered), slo, output.width()))
    output.show(sessions.times(times, output.width()))


def _counted(place: "Place", source: "Source", covered: "Selection") -> "Counted":
    """Count how exchanges ended, and whose their stalls were if they are few enough to be judged."""
    from wiretape.viewer.query.syntax import Match, every
    from wiretape.viewer.report.digest import Counted
    from wiretape.viewer.source.base import JUDGED
    from wiretape.viewer.timing import wording

    endings = source.endings(covered)
    stalled = sum(count for ending, count in endings.items() if ending.stalled)
    stalls = (
        source.stalls(source.numbers(covered.narrowed(Match("flags", (("stall",),))))) if 0 < stalled <= JUDGED else {}
    )
    owners = Counter(map(wording.by, stalls.values())) if len(stalls) == stalled else Counter[str]()
    noun = "generation" if covered.generations else "exchange"
    # Others report usage unasked, or never; a stream that broke off would have ended with it.
    criteria = {"api": ("openai.chat", "openai.completions"), "outcome": ("complete",), "flags": ("no_usage",)}
    unasked = covered.narrowed(
        every([Match(field, tuple((value,) for value in values)) for field, values in criteria.items()])
    )
    option = shlex.join(["", *place.option()])[2:]  # behind a command: with its space, without the '' in front
    return Counted(noun, option, endings, owners, source.count(unasked))


def _show_blocks(
    figures_of_groups: "Sequence[Figures]",
    rows: "Sequence[TableRow]",
    keys: Sequence[str],
    slo: str | None,
    histogram_of: "Quantity | None",
    names: Sequence[str],
) -> None:
    """Print each group: its statistics and its histogram, separated by an empty line; then the hidden columns."""
    from rich.text import Text

    from wiretape.viewer.report import stats

    if not any(row["n"] for row in rows):
        return
    width, hidden = output.width(), list[str]()
    for number, (group, row) in enumerate(zip(figures_of_groups, rows, strict=True)):
        block = stats.block(row, keys, slo, width, names)
        hidden += block.hidden
        output.show([Text()] * bool(number) + block.lines)
        _show_drawings([group], histogram_of)
    output.tell_hidden(hidden)


def _show_drawings(figures_of_groups: "Sequence[Figures]", histogram_of: "Quantity | None") -> None:
    from wiretape.viewer.report import stats

    for group in figures_of_groups:
        if histogram_of is not None and group.size:
            output.show(stats.histogram(group.histogram, histogram_of, output.width() or output.PLAIN_WIDTH))


def _stats_as(
    db: "Place | None",
    filter: "Filter | None",
    tool: str,
    keys: Sequence[str],
    tokenizer: Path | None,
    schema: bool,
    out: Output,
    all_operations: bool,
) -> None:
    from wiretape.viewer.report import tools
    from wiretape.viewer.source.base import Selection
    from wiretape.viewer.stats.tools.tools import authority

    parsed("--as", authority, tool)
    if schema:
        out.explain(tools.schema(tool))
        return
    names = out.fields({**dict.fromkeys(keys, "the group"), **tools.MEANINGS})
    count_tokens = None if tokenizer is None else counter(tokenizer)
    place = options.place(db)
    if count_tokens is not None:
        place.require("bodies", "--tokenizer")
    with output.opened(place) as source:
        selected = Selection(filter)
        covered = options.covered(source, selected, all_operations)
        if not source.count(covered):
            if not source.count(selected):
                options.report_nothing(source, filter)
            if out.is_table:
                return
        groups = _groups(source, covered, keys) if keys else [({}, covered)]
        reports = [(group, tool_report(source, tool, selection, count_tokens)) for group, selection in groups]
    _put_reports(reports, keys, names, out)


def _put_reports(
    reports: "Sequence[tuple[TableRow, ToolReport]]", keys: Sequence[str], names: Sequence[str] | None, out: Output
) -> None:
    """Write a tool's reports of groups, or the one of all."""
    from wiretape.viewer.record.rows import only
    from wiretape.viewer.report import tools

    if out.is_table and not keys:
        output.show_table(tools.render(reports[0][1], output.width(), names))
        return
    rows = [group | row for group, report in reports for row in tools.rows(report)]
    if out.is_table:
        output.show_table(tools.grouped(rows, names or (*keys, *tools.GROUPED), output.width()))
        output.show(tools.about(reports[0][1], output.width()))
        return
    fields = names or (*keys, *tools.FIELDS)
    out.put(fields, only(rows, fields))
    for _, report in reports[:1]:
        for line in tools.about(report) if keys else tools.remarks(report):
            click.echo(line.plain, err=True)


def _groups(source: "Source", covered: "Selection", keys: Sequence[str]) -> "Iterator[tuple[TableRow, Selection]]":
    from wiretape.viewer.listing import drilling
    from wiretape.viewer.query.parser import parse
    from wiretape.viewer.source.base import Measuring
    from wiretape.viewer.stats.metrics import group_value

    keys_of_groups = [group.key for group in source.figures(keys, covered, Measuring())]
    for key in keys_of_groups:
        siblings = ({sibling[at] for sibling in keys_of_groups} - {value} for at, value in enumerate(key))
        terms = (drilling.group(*group) for group in zip(keys, key, siblings, strict=True))
        yield dict(zip(keys, map(group_value, keys, key), strict=True)), covered.narrowed(parse(" ".join(terms)))


def tool_report(
    source: "Source", tool: str, selection: "Selection", count_tokens: "Callable[[str], int] | None" = None
) -> "ToolReport":
    """Return a tool's report of exchanges."""
    from wiretape.viewer.stats.tools.summary import report_of

    output.report_unshipped(source, selection, "left out")
    with progress.ProgressBar("measuring", lambda: source.measurable(selection), "exchange") as bar:
        requests = source.measured(tool, selection, count_tokens)
        report = report_of(tool, bar.over(requests), is_tokenized=count_tokens is not None)
    report.absent = source.absent(tool)
    return report


def counter(path: Path) -> "Callable[[str], int]":
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

    def count(text: str) -> int:
        # A lone surrogate, which JSON can hold, is no Unicode text.
        text = text.encode("utf-8", "replace").decode()
        return len(tokenizer.encode(text, add_special_tokens=False))

    return count


def figures(
    source: "Source", filter: "Filter | None", covered: "Selection", measuring: "Measuring", keys: Sequence[str] = ()
) -> "list[Figures]":
    """Measure the covered exchanges of those that a filter selects, in groups; report on stderr if it selects none."""
    from wiretape.viewer.source.base import Selection

    groups = list(source.figures(keys, covered, measuring))
    if not any(group.size for group in groups) and not source.count(Selection(filter)):
        options.report_nothing(source, filter)
    return groups
