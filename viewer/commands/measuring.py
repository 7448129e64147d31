"""How figures are made: the options that say so, and the figures of a tape or of a centre."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from recorder.commands.options import gathered
from viewer.commands import options
from viewer.commands.options import parsed
from viewer.fleet.plan import RANKED_GAP_BYTES

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from viewer.source.tape.conditions import Condition
    from viewer.stats.metrics import Bound, Quantity
    from viewer.stats.summary import Figures, Method


@dataclass(frozen=True, slots=True)
class Measuring:
    """How figures are made: the definition of percentiles, the objective of the goodput, and of which exchanges."""

    method: "Method" = "linear"
    slo: str | None = None
    include_failed: bool = False
    all_operations: bool = False
    exact: bool = False

    def bounds(self, otherwise: str | None = None) -> "list[Bound]":
        """Return the bounds of the objective, or of another one if there is none. Raise `click.BadParameter`."""
        from viewer.stats.metrics import objective

        text = otherwise if self.slo is None else self.slo
        return [] if text is None else parsed("--slo", objective, text)


measured = gathered(
    "measuring",
    Measuring,
    click.option("--percentile-method", "method", type=click.Choice(["linear", "inverse_cdf", "mlperf"]),
                 default="linear", show_default=True, help="Interpolate, or take the nearest rank."),
    click.option("--slo", metavar="BOUNDS", help="An objective for each exchange, for the goodput: "
                 "'ttft<800ms,icl.p99<200ms,tps>20'."),
    click.option("--include-failed", is_flag=True,
                 help="Let exchanges that are not complete into the figures of latency, too."),
    click.option("--exact", is_flag=True, help="Of a centre: rank all gaps, also more than 1 G, whose percentiles are "
                 f"estimates (t-digest) otherwise; that takes up to {RANKED_GAP_BYTES} bytes of memory there for each."
                 ),
    options.every_operation,
)  # fmt: skip
"""Adds the options that say how figures are made; the command gets `measuring`."""


def figures(
    connection: "Connection",
    measuring: Measuring,
    keys: Sequence[str] = (),
    where: "Condition | None" = None,
    otherwise: str | None = None,
    drawn: "Quantity | None" = None,
) -> "Iterator[Figures]":
    """Yield the figures of each group of what `where` selects; `otherwise` is an objective if none was given, `drawn` a
    quantity whose histogram is asked for, too.

    A tape is read and measured here, a centre works them out itself.
    """
    bounds, include_failed = measuring.bounds(otherwise), measuring.include_failed
    if connection.dialect.name != "sqlite":
        from viewer.model import prices
        from viewer.source.clickhouse import figures, gaps

        yield from figures.groups(
            connection,
            keys,
            where,
            include_failed=include_failed,
            method=measuring.method,
            bounds=bounds,
            drawn=drawn,
            most=None if measuring.exact else gaps.MOST_EXACT,
            prices=prices.read(),
        )
        return
    from viewer.source.tape import overview
    from viewer.stats import summary

    for sample in overview.samples(connection, keys, where, include_failed=include_failed):
        yield summary.measure(sample, measuring.method, bounds, drawn)
