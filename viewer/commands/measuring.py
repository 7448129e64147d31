"""The options that define figures."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from wiretape.recorder.commands.options import gathered
from wiretape.viewer.commands import options
from wiretape.viewer.commands.options import parsed
from wiretape.viewer.ship.clickhouse.plan import RANKED_GAP_BYTES

if TYPE_CHECKING:
    from wiretape.viewer.source import base
    from wiretape.viewer.stats.metrics import Bound, Quantity
    from wiretape.viewer.stats.summary import Method


@dataclass(frozen=True, slots=True)
class Measuring:
    """The options of figures: the definition of percentiles, the objective of the goodput, and the exchanges."""

    method: "Method" = "linear"
    slo: str | None = None
    include_failed: bool = False
    all_operations: bool = False
    exact: bool = False

    def bounds(self, otherwise: str | None = None) -> "list[Bound]":
        """Return the bounds of the objective, or of another one if there is none. Raise `click.BadParameter`."""
        from wiretape.viewer.stats.metrics import objective

        text = otherwise if self.slo is None else self.slo
        return [] if text is None else parsed("--slo", objective, text)

    def definition(self, otherwise: str | None = None, drawn: "Quantity | None" = None) -> "base.Measuring":
        """Return the definition that a source takes; `otherwise` is an objective if none was given."""
        from wiretape.viewer.source import base

        return base.Measuring(self.method, self.bounds(otherwise), self.include_failed, drawn, self.exact)


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
"""Add the options of figures; the command gets `measuring`."""
