"""The rule of a tool that measures: its metrics, its summaries, and its differences. Wings have the tools."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from wiretape.recorder.decode.dialects import chat
from wiretape.viewer.stats.tools.request import MeasuredRequest, Numbers


@dataclass(frozen=True, slots=True)
class ToolMetric:
    """A number that a tool prints: its key in `Numbers`, name and unit; values times `factor` are in that unit.

    With `weight`, a value counts once for each of the exchange's output tokens less `weight_less`. One that
    `needs_tokens` is omitted where the tool counts tokens that the tape does not tell.
    """

    key: str
    name: str
    unit: str = "ms"
    factor: float = 1.0
    weight: str | None = None
    weight_less: int = 0
    needs_tokens: bool = False
    summary: str | None = None

    def weight_of(self, numbers: Numbers) -> float | None:
        """Return the weight of an exchange with these numbers; None where all weigh the same."""
        count = numbers.get(self.weight) if self.weight else None
        return count - self.weight_less if isinstance(count, int | float) else 0 if self.weight else None


@dataclass(frozen=True, slots=True)
class Total:
    """One number that a tool prints for all requests: the count of successes, or their sum of a key in `Numbers`.

    `per_s` divides it by the seconds of the run, and times it, so that 60 makes it a rate per minute.
    """

    name: str
    unit: str
    key: str | None = None
    per_s: float | None = 1.0


@dataclass(frozen=True, slots=True)
class MeasuringTool:
    """A tool: the releases read, its rule, its summaries, its metrics, and its differences.

    `end_key` is the key in `Numbers` of the ms from a request's start to its last timestamp in the tool's run duration;
    without it, a run lasts from the first request's start to the last one's end, failures included. `apis` are the APIs
    that the tool measures; `has_whole`: also their answers that are not streamed. `is_older` tells a request to a
    server that is older than the tool's releases, and `older_rule` is the rule that is nearer to those. One that
    `needs_reads` looks at each read of the body, and not only at its events.
    """

    source: str
    releases: Sequence[str]
    measure: Callable[[MeasuredRequest], Numbers]
    summary: str
    metrics: tuple[ToolMetric, ...]
    note: str
    totals: tuple[Total, ...] = ()
    end_key: str | None = None
    reads_request: bool = False
    apis: Collection[str] = (chat.API,)
    has_whole: bool = False
    is_older: Callable[[MeasuredRequest], bool] | None = None
    older_rule: str | None = None
    needs_reads: bool = False
