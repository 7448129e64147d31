"""The command `compare`: two exchanges, sessions or groups side by side."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from wiretape.recorder.errors import NotFound
from wiretape.viewer.commands import completion, options, output
from wiretape.viewer.commands.options import parsed
from wiretape.viewer.commands.output import Output
from wiretape.viewer.commands.stats import refuse, tool_report

if TYPE_CHECKING:
    from wiretape.viewer.query.syntax import Filter
    from wiretape.viewer.record.rows import TableRow
    from wiretape.viewer.report.tables import Table
    from wiretape.viewer.source.base import Place, Source
    from wiretape.viewer.stats.summary import Sample


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
@click.option(
    "--as", "tool", metavar="TOOL", shell_complete=completion.tools,
    help="Compare by the definitions of a tool, as stats --as has them: without intervals.",
)  # fmt: skip
@click.option(
    "--pairs",
    is_flag=True,
    is_eager=True,
    help="Compare the same answers on both sides of a gateway: A and B are tapes, A on the client's side, or "
    "--base and --new name the sides. Without these, compare resent requests with those that they repeat.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the bootstrap samples.")
@click.option("--all", "full", is_flag=True, help="Show every metric, each with its interval in its unit.")
@click.option(
    "-e",
    "--exit-code",
    is_flag=True,
    help="Exit 3 if a metric got worse (with --part request: if they differ), 4 if undecided.",
)
@click.option(
    "--part",
    type=click.Choice(("figures", "request", "pairs")),
    default="figures",
    show_default=True,
    help="Part of two exchanges to compare; with --pairs, the figures of all pairs, or each pair.",
)
@output.formatted(columns=True)
def compare(
    ids: tuple[str, ...],
    db: "Place | None",
    filter: "Filter | None",
    base: str | None,
    new: str | None,
    include_failed: bool,
    all_operations: bool,
    tool: str | None,
    pairs: bool,
    seed: int,
    full: bool,
    exit_code: bool,
    part: str,
    out: Output,
) -> None:
    """Compare two exchanges or sessions (A B), groups (--base and --new), or pairs.

    With --part request, show what changed between two requests: model, parameters, system prompt, tools and messages.
    Two sessions (s:KEY or @s) are compared by the parts of their time.

    Differences of groups are new − base, each with an interval (of error rates: Newcombe's). All intervals of a
    comparison hold together with 95 %, by a joint bootstrap (max-t): of 20 comparisons of equal groups, about one finds
    a difference. An interval that contains 0 shows no clear difference.
    """
    from wiretape.viewer.report import comparison
    from wiretape.viewer.source.base import names_session
    from wiretape.viewer.stats import compare

    if pairs:
        refuse("--pairs compares all pairs", {"--include-failed": include_failed, "--as": tool, "--all": full})
        _compare_pairs(db, filter, ids, base, new, all_operations, seed, exit_code, part, out)
        return
    if part == "pairs":
        raise click.UsageError("--part pairs is of --pairs")
    if len(ids) == 2 and base is None and new is None:
        only_groups = {
            "--exit-code": exit_code and part == "figures", "--include-failed": include_failed,
            "--all-operations": all_operations, "--as": tool, "a filter": filter,
        }  # fmt: skip
        refuse("two exchanges are only shown side by side", only_groups)
        if any(map(names_session, ids)):
            _compare_sessions(db, ids, part, out)
        elif part == "request":
            _compare_requests(db, ids, exit_code, out)
        else:
            from wiretape.viewer.report import comparison
            from wiretape.viewer.stats import compare

            fields = out.fields(compare.PAIR_FIELDS)
            with output.opened(options.place(db)) as source:
                a, b = (source.exchange(source.find(id)).detail() for id in ids)
            rows, choosable = compare.pair(a, b), tuple(compare.PAIR_FIELDS)
            _put_comparison(out, rows, fields, comparison.pair, choosable, compare.PAIR_IMPORTANT, full)
        return
    if ids or base is None or new is None or part == "request":
        groups = "" if part == "request" else ", or two groups with --base and --new"
        raise click.UsageError(f"name two exchanges{groups}")
    if tool is not None:
        useless = {"--include-failed": include_failed, "--exit-code": exit_code}
        refuse("--as measures as that tool does, without a verdict", useless)
        _compare_as(db, filter, base, new, tool, out, all_operations)
        return
    sides = {"--base": _group_of(filter, base, "--base"), "--new": _group_of(filter, new, "--new")}
    fields = out.fields(compare.FIELDS)
    with output.opened(options.place(db)) as source:
        base_sample, new_sample = _sides(source, sides, include_failed, all_operations)
    rows = compare.groups(base_sample, new_sample, seed)
    _put_comparison(out, rows, fields, comparison.groups, tuple(compare.FIELDS), compare.IMPORTANT, full)
    if exit_code and (code := compare.exit_code(rows)):
        raise click.exceptions.Exit(code)


def _compare_pairs(
    db: "Place | None",
    filter: "Filter | None",
    tapes: tuple[str, ...],
    base: str | None,
    new: str | None,
    all_operations: bool,
    seed: int,
    exit_code: bool,
    part: str,
    out: Output,
) -> None:
    from contextlib import ExitStack

    from wiretape.viewer.record.rows import only
    from wiretape.viewer.report import comparison
    from wiretape.viewer.source.base import Selection
    from wiretape.viewer.stats import compare
    from wiretape.viewer.stats import pairs as paired

    named_sides = len(tapes), base is None, new is None
    if part == "request" or named_sides not in ((2, True, True), (0, False, False), (0, True, True)):
        raise click.UsageError(
            "--pairs compares two tapes, A and B, or the groups --base and --new, or resent requests"
        )
    choosable = paired.PAIR_FIELDS if part == "pairs" else paired.SUM_FIELDS
    fields = out.fields(choosable)
    groups: list[Filter | None]
    if tapes:
        groups = [filter, filter]
    elif base is None or new is None:  # a filter is of the repetitions: they have their labels
        groups = [None, _group_of(filter, "has:resent_from", "--filter")]
    else:
        groups = [_group_of(filter, base, "--base"), _group_of(filter, new, "--new")]
    sources, sides = list["Source"](), list[list["TableRow"]]()
    with ExitStack() as stack:
        for place, group in zip([*map(options.named_place, tapes)] or [options.place(db)] * 2, groups, strict=True):
            place.require("bodies", "--pairs")
            sources.append(stack.enter_context(output.opened(place)))
            selection = options.covered(sources[-1], Selection(group), all_operations)
            sides.append([*sources[-1].rows(paired.FACTS, selection)])
        if base is None and not tapes:  # of all exchanges, only those that were repeated are a side
            repeated = {row["resent_from"] for row in sides[1]}
            sides[0] = [row for row in sides[0] if row["id"] in repeated]
        pairs = [*paired.paired(*sides)]
        if not pairs:
            raise NotFound(f"no pairs among {len(sides[0])} exchanges of A and {len(sides[1])} of B")
        rows = []
        for pair in pairs:
            a, b = (source.exchange(source.find(side["id"])) for source, side in zip(sources, pair[:2], strict=True))
            rows.append(paired.row(pair, a.observed(), b.observed()))
    unpaired_a = len(sides[0]) - len({pair.a["id"] for pair in pairs})
    sums = paired.sums(pairs, rows, (unpaired_a, len(sides[1]) - len(pairs)), seed)
    if fields is not None or not out.is_table:
        names = fields or tuple(choosable)
        out.put(names, only(rows if part == "pairs" else sums, names))
    else:
        output.show(comparison.pairs(sums, output.width()))
        if part == "figures":
            summed = [row for row in sums if row["difference"] is not None]
            out.put_rounded(tuple(choosable), summed, paired.SUM_IMPORTANT)
        shown = [name for name in paired.IMPORTANT if any(row[name] not in (None, "equal") for row in rows)]
        out.put_rounded(shown, only(rows, shown), shown)
    judged = [row for row in sums if row["verdict"] is not None]
    if exit_code and (code := compare.exit_code(judged)):
        raise click.exceptions.Exit(code)


def _compare_sessions(db: "Place | None", ids: tuple[str, ...], part: str, out: Output) -> None:
    from wiretape.recorder.clock import SYSTEM
    from wiretape.viewer import config
    from wiretape.viewer.report import sessions
    from wiretape.viewer.source.base import Selection, names_session

    if part == "request" or not all(map(names_session, ids)):
        raise click.UsageError("a session is compared with another one, by its time: name both by s:KEY or @s")
    fields = out.fields(sessions.COMPARED)
    with output.opened(options.place(db)) as source:
        chosen = [Selection(numbers=tuple(source.referred(id))) for id in ids]
        accounts = [dict(source.accounts(selection, config.thresholds(), SYSTEM)).popitem()[1] for selection in chosen]
    rows = sessions.compared(*accounts)
    if out.is_table and fields is None:
        output.show_table(sessions.comparison(rows, output.width()))
    else:
        out.put(fields or tuple(sessions.COMPARED), ({name: row[name] for name in sessions.COMPARED} for row in rows))


def _put_comparison(
    out: Output,
    rows: "Sequence[TableRow]",
    fields: tuple[str, ...] | None,
    laid_out: "Callable[[Sequence[TableRow], int | None], Table]",
    choosable: tuple[str, ...],
    important: Sequence[str],
    full: bool,
) -> None:
    """Write a comparison: for people the main metrics, or all metrics once, else every row."""
    from rich.text import Text

    from wiretape.viewer.record.rows import only
    from wiretape.viewer.report import comparison, tables

    if out.is_table and fields is None and not full:
        output.show_table(laid_out(rows, output.width()))
        return
    names, (distinct_rows, repeated) = fields or choosable, comparison.distinct(rows) if out.is_table else (rows, [])
    out.put_rounded(names, only(distinct_rows, names), fields or important, tables.LEAST if "a" in choosable else None)
    if repeated:
        label = "equal to one above: "
        output.show(Text(line.plain, "dim") for line in tables.paragraph(label, ", ".join(repeated), output.width()))


def _compare_as(
    db: "Place | None",
    filter: "Filter | None",
    base: str,
    new: str,
    tool: str,
    out: Output,
    all_operations: bool,
) -> None:
    from wiretape.viewer.record.rows import only
    from wiretape.viewer.report import tools
    from wiretape.viewer.source.base import Selection
    from wiretape.viewer.stats.tools.tools import authority

    parsed("--as", authority, tool)
    fields = out.fields(tools.COMPARED)
    groups = [_group_of(filter, base, "--base"), _group_of(filter, new, "--new")]
    with output.opened(options.place(db)) as source:
        selected = [options.covered(source, Selection(group), all_operations) for group in groups]
        base_report, new_report = (tool_report(source, tool, selection) for selection in selected)
    names = fields or tuple(tools.COMPARED)
    rows = tools.compared(base_report, new_report)
    out.put_rounded(names, only(rows, names), fields or tools.COMPARED_IMPORTANT)
    if out.is_table:
        output.show(tools.about(base_report, output.width()))


def _compare_requests(db: "Place | None", ids: tuple[str, ...], exit_code: bool, out: Output) -> None:
    from wiretape.viewer.exchange import changes, report
    from wiretape.viewer.exchange.conversation import Folding
    from wiretape.viewer.record.rows import only

    fields = out.fields(changes.FIELDS) or tuple(changes.FIELDS)
    place = options.place(db)
    place.require("bodies", "--part request")
    with output.opened(place) as source:
        a, b = [source.exchange(source.find(id)).prompt() for id in ids]
    differences = changes.changes(a, b)
    if out.is_table and out.columns is None:
        folding = Folding(output.width(), "a pipe gets all of it") if output.on_terminal() else Folding()
        output.show(report.rendered(changes.lines(differences, folding)))
    else:
        out.put(fields, only(map(asdict, differences), fields))
    if exit_code and changes.differ(differences):
        raise click.exceptions.Exit(3)


def _group_of(filter: "Filter | None", text: str, option: str) -> "Filter":
    from wiretape.viewer.query.parser import parse
    from wiretape.viewer.query.syntax import every

    group = parsed(option, parse, text)
    return group if filter is None else every([filter, group])


def _sides(
    source: "Source", groups: "Mapping[str, Filter]", include_failed: bool, all_operations: bool
) -> "list[Sample]":
    """Read the groups of a comparison, given by the option that names each. Raise `NotFound` if one is empty."""
    from wiretape.viewer.source.base import Selection

    if not source.count():
        raise NotFound(f"nothing to compare: {source.empty}")
    sides, empty = list["Sample"](), list[str]()
    for option, filter in groups.items():
        selected = Selection(filter)
        covered = options.covered(source, selected, all_operations)
        sides += source.samples(covered, include_failed=include_failed)
        if not sides[-1].size:
            is_left_out = source.count(selected) > 0
            empty.append(f"{option}: {'no generations' if is_left_out else options.nothing(source, filter)}")
    if empty:
        raise NotFound(f"nothing to compare: {'; '.join(empty)}")
    return sides
