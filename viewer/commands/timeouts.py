"""The command `timeouts`: which of the recorded streams a limit on silences would have cut."""

from dataclasses import replace
from typing import TYPE_CHECKING, get_args

import click

from wiretape.recorder.decode.stalls import LAYERS, Layer
from wiretape.viewer.commands import completion, options, output
from wiretape.viewer.commands.options import parsed
from wiretape.viewer.commands.output import Output

if TYPE_CHECKING:
    from wiretape.viewer.query.syntax import Filter
    from wiretape.viewer.source.base import Place


@click.command()
@options.db
@options.filtered
@click.option(
    "--by",
    metavar="NAME",
    shell_complete=completion.groups,
    help="Group by model, upstream, label.KEY, or another group of 'wiretape stats'.",
)
@click.option("--on", type=click.Choice(get_args(Layer)), help="Only silences of this layer. [default: all three]")
@click.option(
    "--first", metavar="TIMES", help="Limits on the first silence, such as 30s,60s, instead of the usual ones."
)
@click.option("--idle", metavar="TIMES", help="Limits on later silences, instead of the usual ones: 5 s to 600 s.")
@output.formatted(columns=True)
def timeouts(
    db: "Place | None",
    filter: "Filter | None",
    by: str | None,
    on: Layer | None,
    first: str | None,
    idle: str | None,
    out: Output,
) -> None:
    """Tell which of the recorded streams a timeout would have cut, and which timeout fits.

    A stream is silent while no byte, no event or no output arrives; the first silence begins with the request. Good
    streams were complete, dead ones ended in a silence or failed. See 'wiretape help timeouts'.

    A terminal gets the limit that fits each silence, and a plot of the streams cut; other formats a row for each limit.
    """
    from wiretape.viewer.report import timeouts as report
    from wiretape.viewer.source.base import Selection
    from wiretape.viewer.stats import timeouts
    from wiretape.viewer.stats.metrics import group_value

    place = options.place(db)
    keys = options.groups(by, place)
    if len(keys) > 1:
        raise click.BadParameter(f"{by}: name one group", param_hint="--by")
    first_ns = timeouts.USUAL_NS if first is None else parsed("--first", timeouts.limits, first)
    idle_ns = timeouts.USUAL_NS if idle is None else parsed("--idle", timeouts.limits, idle)
    names = out.fields(timeouts.MEANINGS)
    with output.opened(place) as source:
        groups = source.silences(by, Selection(filter))
        if not any(group.ids for group in groups.values()) and not source.count(Selection(filter)):
            options.report_nothing(source, filter)
    layers = LAYERS if on is None else (on,)
    figures = [
        replace(group, name=group_value(by or "", group.name))
        for group in timeouts.what_if(groups, layers, first_ns, idle_ns)
    ]
    if not out.is_table or names is not None:
        from wiretape.viewer.record.rows import only

        fields = names or tuple(timeouts.MEANINGS)
        out.put_rounded(fields, only(timeouts.rows(figures), fields))
        return
    if not any(phase.n for group in figures for phase in group.phases):
        click.echo("wiretape: none of the exchanges is a stream whose times are known", err=True)
        return
    output.show_table(report.page(figures, by, output.width()))
    if width := output.width():
        output.show(report.plots(figures, on or "output", width))
